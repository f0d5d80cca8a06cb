"""Figure 7b: SGHMC for a convolutional network on a part of CIFAR-10."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

import ergonet
from ergonet import SGHMC, BayesianNetwork, ConvNet, likelihoods, priors
from experiments.chen2014.curves import learning_curves
from experiments.chen2014.images import CLASSES, ERROR, GROUPS, TEMPERATURE, Epochs, Problem, learn
from experiments.record import Case, Claim, Experiment, Table
from experiments.sizes import Size

EPOCHS = Epochs(12, 36)
CHANNELS, HIDDEN = (8, 16), 64
DOCUMENTS_ROWS = 50_000
RATE, DECAY = 1e-6, 0.01
CHANCE = 100 * (1 - 1 / CLASSES)
LEARNT = 0.8  # share of the error of chance below which a network has learned
NUM_REFERENCE = 500  # rows whose statistics stand for those of a batch
GROUP, BATCH, FASTER = "group normalization", "batch normalization", "group normalization, learning rate for these rows"


@dataclass(frozen=True)
class Choice:
    """A row.

    Attributes:
        normalization: normalization of the convolutions.
        is_scaled: whether the learning rate is the report's, times its number of rows over ours.
    """

    normalization: str
    is_scaled: bool


CHOICES = {GROUP: Choice("group", False), BATCH: Choice("batch", False), FASTER: Choice("group", True)}


@cache
def problem(normalization: str, mode: str) -> Problem:
    """The posterior of the network; a smoke run uses the 8x8 digits and fewer units.

    Batch normalization uses the statistics of each minibatch for sampling, as in the report, and those of some training
    rows for prediction.
    """
    data = ergonet.datasets.load("digits" if mode == "smoke" else "cifar10")
    assert data.image_shape is not None
    hidden = 8 if mode == "smoke" else HIDDEN
    network = ConvNet(
        data.image_shape,
        num_outputs=CLASSES,
        channels=CHANNELS,
        hidden=(hidden,),
        activation="tanh",
        normalization=normalization,
    )
    model = BayesianNetwork(network, priors.Normal(1.0), likelihoods.Categorical())
    target = model.condition(data.x_train, data.y_train)
    if normalization == "batch":
        fixed = network.with_reference(data.x_train[:NUM_REFERENCE])
        model = BayesianNetwork(fixed, priors.Normal(1.0), likelihoods.Categorical())
    return Problem(model, target, data.x_test, data.y_test)


def rate(choice: Choice, num_rows: int) -> float:
    """The learning rate: minibatch gradients estimate sums over all rows, so fewer rows allow a larger rate."""
    return RATE * DOCUMENTS_ROWS / num_rows if choice.is_scaled else RATE


def _case(label: str, choice: Choice) -> Case:
    def measure(size: Size, seed: int) -> Mapping[str, float]:
        epochs, of = EPOCHS.of(size), problem(choice.normalization, size.mode)
        kernel = SGHMC(
            learning_rate=rate(choice, of.target.num_rows), momentum_decay=DECAY, batch_size=epochs.batch_size
        )
        return learn(kernel, of, epochs, seed)[0]

    return Case(label, measure)


def judge(table: Table) -> Sequence[Claim]:
    """The report's conclusion: the same sampler works with convolutions."""
    found = []
    for label in table.labels:
        mean, error = table.mean(label, ERROR.name), table.error(label, ERROR.name)
        margin = 2 * error if np.isfinite(error) else 0.0
        found.append(
            Claim(
                f"SGHMC runs and learns with {label}",
                bool(mean + margin < LEARNT * CHANCE),
                f"test error {ERROR.show(mean)} \N{PLUS-MINUS SIGN} {ERROR.show(error)} %, kinetic temperature "
                f"{table.mean(label, TEMPERATURE.name):.2f}; an error below {LEARNT * CHANCE:.0f} % counts as learned, "
                f"{CHANCE:.0f} % is chance",
            )
        )
    return found


EXPERIMENT = Experiment(
    name="sghmc-cnn",
    title="SGHMC of a convolutional network on a part of CIFAR-10 (ChenReport, Figure 7b)",
    setting=f"""
10000 training and 2000 test images of CIFAR-10, the part that was available (the report has 50000 and 10000), each
channel standardized. Two convolutions of 3x3 with {CHANNELS[0]} and {CHANNELS[1]} channels, normalization,
tanh and max pooling after each; two dense layers, {HIDDEN} units with tanh and 10 classes; N(0, 1) on every
coordinate. SGHMC: learning rate 1e-6, momentum decay 0.01, batches of 500. {EPOCHS.total} epochs of 20 batches, of
which {EPOCHS.warmup} are warm-up; the report has 150 warm-up epochs of 100 batches, which would take days on 2 cores. A
smoke run uses the 8x8 digits.
""",
    cases=lambda _: [_case(label, choice) for label, choice in CHOICES.items()],
    groups=GROUPS,
    judge=judge,
    draw=learning_curves("sghmc-cnn"),
    notes="""
The report prints only a curve. Its batch normalization divides by statistics of the minibatch, so that the chain does
not sample a posterior; predictions use the statistics of 500 training rows. With group normalization, an output depends
only on the weights and its own row, and the chain samples the posterior. The row with a learning rate for this number
of rows (5e-6) is not in the report: gradients here are sums over a fifth of its rows.
""",
    in_words=EPOCHS.in_words,
)
