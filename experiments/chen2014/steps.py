"""Figure 8: SGHMC with 1, 3 and 5 steps for each draw."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ergonet import SGHMC
from experiments.chen2014.curves import learning_curves
from experiments.chen2014.images import GROUPS, SETTING, Epochs, learn, problem
from experiments.comparison import differences, every, significant
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

EPOCHS = Epochs(100, 200)
STEP_SIZE, DECAY = 2e-6**0.5, 0.01
STEPS = (1, 3, 5)
SLOWNESS = Quantity("test error of the network, mean over all epochs, %", 2)
BY_DRAWS = Quantity("test error of the network after as many draws as the slowest row has, %", 2)


@dataclass(frozen=True)
class Pace:
    """The steps of a row.

    Attributes:
        steps: m, the number of steps between draws of the momentum; 0: it is never resampled.
        share: step size relative to that of m = 1.
    """

    steps: int
    share: float

    def kernel(self, batch_size: int) -> SGHMC:
        """The sampler of the row."""
        return SGHMC(
            learning_rate=(self.share * STEP_SIZE) ** 2,
            momentum_decay=DECAY,
            resample_every=self.steps,
            batch_size=batch_size,
        )


def fixed(steps: int) -> str:
    """The label of a row of the report: m steps of e / m."""
    return f"m = {steps}, step size e / {steps}" if steps > 1 else "m = 1, step size e"


def longer(steps: int) -> str:
    """The label of a row that keeps the step size."""
    return f"m = {steps}, step size e"


NEVER = "momentum never drawn again, step size e"
PACES = (
    {fixed(steps): Pace(steps, 1 / steps) for steps in STEPS}
    | {longer(steps): Pace(steps, 1.0) for steps in STEPS[1:]}
    | {NEVER: Pace(0, 1.0)}
)


def epoch_of_draws(steps: int, total: int) -> int:
    """The epoch after which a row of m steps has made as many draws as one of the most steps has after all epochs."""
    return max(1, total * steps // max(STEPS))


def speeds(errors: np.ndarray, pace: Pace) -> dict[str, float]:
    """Measures of the speed of a row, from the error of the network after each epoch `[epoch]`."""
    found = {SLOWNESS.name: 100 * float(np.mean(errors))}
    if pace.steps:
        found[BY_DRAWS.name] = 100 * float(errors[epoch_of_draws(pace.steps, len(errors)) - 1])
    return found


def _case(label: str, pace: Pace) -> Case:
    def measure(size: Size, seed: int) -> Mapping[str, float]:
        epochs = EPOCHS.of(size)
        found, result = learn(pace.kernel(epochs.batch_size), problem("mnist", size.mode), epochs, seed)
        return found | speeds((result.curve or {})["error of the draw"][0], pace)

    return Case(label, measure)


def judge(table: Table) -> Sequence[Claim]:
    """The report's conclusion, as stated and under two other readings."""
    return [
        _claim("more steps learn faster, epoch by epoch, at fixed e m", table, fixed, SLOWNESS),
        _claim("more steps learn faster, draw by draw, at fixed e m", table, fixed, BY_DRAWS),
        _claim("more steps learn faster, epoch by epoch, at a fixed step size", table, longer, SLOWNESS),
    ]


def _claim(text: str, table: Table, label: Callable[[int], str], quantity: Quantity) -> Claim:
    labels = [label(steps) for steps in STEPS]
    pairs = list(zip(labels[1:], labels, strict=False))
    tests = differences(table, pairs, quantity)
    real = significant(tests)
    told = ", ".join(f"{name}: {quantity.show(table.mean(name, quantity.name))}" for name in labels)
    falls = None if real is None else every(one in real and one.value < 0 for one in tests)
    return Claim(text, falls, f"{quantity.name}: {told}")


EXPERIMENT = Experiment(
    name="sghmc-steps",
    title="SGHMC with 1, 3 and 5 steps for each draw (ChenReport, Figure 8)",
    setting=SETTING
    + "200 epochs of MNIST, of which 100 are warm-up. A draw is m steps after a momentum resampling, as in "
    "Algorithm 2 of the report; every step uses another minibatch. e^2 = 2e-6 and momentum decay 0.01. The "
    "rows of the report keep e m fixed: their learning rates are 2e-6, 2.2e-7 and 8e-8. The rows *m = 3* and "
    "*m = 5* with step size e and the row whose momentum is never resampled are not in the report.",
    cases=lambda _: [_case(label, pace) for label, pace in PACES.items()],
    groups={"Learning": (SLOWNESS, BY_DRAWS), **GROUPS},
    judge=judge,
    draw=learning_curves("sghmc-steps"),
    notes=f"""
The report prints only curves. *{BY_DRAWS.name}*: a draw costs m minibatches here, so {EPOCHS.total} epochs of m = 5
have as many draws as {epoch_of_draws(1, EPOCHS.total)} epochs of m = 1. With a resampled momentum, m steps of size e /
m from rest move a weight by e^2 (m + 1) / (2 m) times its gradient: 1, 2/3 and 3/5 of e^2 for m = 1, 3 and 5. At fixed
e m, more steps are therefore slower per draw, too, although closer to the true dynamics; longer trajectories would be
faster.
""",
    in_words=EPOCHS.in_words,
)
