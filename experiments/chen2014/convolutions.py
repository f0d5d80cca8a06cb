"""Figure 7b: SGHMC of a convolutional network on a part of CIFAR-10."""

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
LEARNT = 0.8  # of the error of chance
NUM_REFERENCE = 500  # rows whose statistics stand for those of a batch
GROUP, BATCH, FASTER = "group normalisation", "batch normalisation", "group normalisation, learning rate for these rows"


@dataclass(frozen=True)
class Choice:
    """A row.

    Attributes:
        normalisation: of the convolutions.
        is_scaled: whether the learning rate is the document's times its number of rows over ours.
    """

    normalisation: str
    is_scaled: bool


CHOICES = {GROUP: Choice("group", False), BATCH: Choice("batch", False), FASTER: Choice("group", True)}


@cache
def problem(normalisation: str, mode: str) -> Problem:
    """The network's posterior; a smoke run has the 8x8 digits and fewer units.

    Batch normalisation takes the statistics of each minibatch while it samples, as in the document, and those of some
    training rows when it predicts.
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
        normalisation=normalisation,
    )
    model = BayesianNetwork(network, priors.Normal(1.0), likelihoods.Categorical())
    target = model.condition(data.x_train, data.y_train)
    if normalisation == "batch":
        fixed = network.with_reference(data.x_train[:NUM_REFERENCE])
        model = BayesianNetwork(fixed, priors.Normal(1.0), likelihoods.Categorical())
    return Problem(model, target, data.x_test, data.y_test)


def rate(choice: Choice, num_rows: int) -> float:
    """The learning rate: minibatch gradients are sums over all rows, so fewer rows take a larger one."""
    return RATE * DOCUMENTS_ROWS / num_rows if choice.is_scaled else RATE


def _case(label: str, choice: Choice) -> Case:
    def measure(size: Size, seed: int) -> Mapping[str, float]:
        epochs, of = EPOCHS.of(size), problem(choice.normalisation, size.mode)
        kernel = SGHMC(
            learning_rate=rate(choice, of.target.num_rows), momentum_decay=DECAY, batch_size=epochs.batch_size
        )
        return learn(kernel, of, epochs, seed)[0]

    return Case(label, measure)


def judge(table: Table) -> Sequence[Claim]:
    """The document's conclusion: the same sampler runs with convolutions, and learns."""
    found = []
    for label in table.labels:
        mean, error = table.mean(label, ERROR.name), table.error(label, ERROR.name)
        margin = 2 * error if np.isfinite(error) else 0.0
        found.append(
            Claim(
                f"SGHMC runs and learns with {label}",
                bool(mean + margin < LEARNT * CHANCE),
                f"test error {ERROR.show(mean)} \N{PLUS-MINUS SIGN} {ERROR.show(error)} %, kinetic temperature "
                f"{table.mean(label, TEMPERATURE.name):.2f}; learnt is below {LEARNT * CHANCE:.0f} %, and "
                f"{CHANCE:.0f} % is chance",
            )
        )
    return found


EXPERIMENT = Experiment(
    name="sghmc-cnn",
    title="SGHMC of a convolutional network on a part of CIFAR-10 (document 002, Figure 7b)",
    setting=f"""
10000 training and 2000 test images of CIFAR-10, the part that the data at hand have (the document has 50000 and
10000), each channel standardised. Two convolutions of 3x3 with {CHANNELS[0]} and {CHANNELS[1]} channels, normalisation,
tanh and max pooling after each; two dense layers, {HIDDEN} units with tanh and 10 classes; N(0, 1) on every
coordinate. SGHMC: learning rate 1e-6, momentum decay 0.01, batches of 500. {EPOCHS.total} epochs of 20 batches, of
which {EPOCHS.warmup} are warm-up, where the document has 150 warm-up epochs of 100 batches, which would take days on 2
cores. A smoke run has the 8x8 digits.
""",
    cases=lambda _: [_case(label, choice) for label, choice in CHOICES.items()],
    groups=GROUPS,
    judge=judge,
    draw=learning_curves("sghmc-cnn"),
    notes="""
The document prints a curve only. Its batch normalisation divides by statistics of the minibatch, so that what is
sampled is no posterior of anything; predictions take the statistics of 500 training rows. Group normalisation makes
an output a function of the weights and its own row, and what is sampled the posterior. The row with a learning rate
for these rows (5e-6) is not in the document: gradients here are sums over a fifth of its rows.
""",
    in_words=EPOCHS.in_words,
)
