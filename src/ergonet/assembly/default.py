"""The default of a fit: which network, likelihood, kernel and lengths a table gets for what its user leaves open.

`default_for` is the only place that decides this, for the command and the estimators alike. What a user sets always
wins, and two choices take others with them: hidden layers bring the prior that suits any width, and a kernel brings a
plain run, because lengths and the warm start of the default are those of its own kernel.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ergonet.datasets.preprocessing import Preprocessing

FINEST: Final = 1e-3  # floor of the noise of a target whose values do not repeat, in its standard deviations
NO_WARM_START: Final = "none"
USUAL_KERNEL: Final = "hmc"
NORMAL, ROBUST = "heteroscedastic-gaussian", "heteroscedastic-student-t"  # noise that depends on the row
PLAIN_RUN: Final[Mapping[str, Any]] = {
    "num_chains": 4,
    "num_warmup": 500,
    "num_draws": 500,
    "warm_start": NO_WARM_START,
}
"""What a kernel that the user has chosen gets."""


@dataclass(frozen=True)
class Table:
    """What the default depends on.

    Attributes:
        task: ``regression`` or another.
        num_rows: number of training rows.
        floor: for a regression, the smallest scale of the noise of each target, in the unit of the data.
        is_transformed: whether targets are transformed, so that they are normal given the network.
    """

    task: str
    num_rows: int
    floor: tuple[float, ...] = ()
    is_transformed: bool = False

    @classmethod
    def of(cls, preprocessing: "Preprocessing", targets: Any) -> "Table":
        """The table of a data set.

        Args:
            preprocessing: what was learned from its training rows.
            targets: the scaled targets of the training rows; class indices count as rows only.
        """
        import numpy as np  # not where the command lists its options

        values = np.asarray(targets)
        if preprocessing.task != "regression":
            return cls(preprocessing.task, len(values))
        columns = values.reshape(len(values), -1).T if values.size else np.zeros((len(preprocessing.target_sd), 0))
        floors = [floor_of(column) * sd for column, sd in zip(columns, preprocessing.target_sd, strict=True)]
        return cls(
            preprocessing.task, len(values), tuple(map(float, floors)), preprocessing.target_transform is not None
        )


def floor_of(target: Any) -> float:
    """The smallest scale of the noise that an array of targets can tell, in the unit of its values.

    Values that repeat are rounded, and rounding to multiples of r has a standard deviation of r / sqrt(12). As r counts
    the smallest distance of two different values. For all other targets, a thousandth of the spread stands for the
    precision with which anything is measured.
    """
    import numpy as np

    from ergonet.prediction.calibration import rounding_of

    values = np.asarray(target)
    spread = float(np.std(values)) if values.size else 0.0
    return max(rounding_of(values) / sqrt(12), FINEST * spread) or FINEST


@dataclass(frozen=True)
class Default:
    """Tables of settings, as in a settings file.

    Attributes:
        network: hidden layers and activation.
        prior: the prior of this network; without a name, scaled by the width of its layers.
        likelihood: the distribution of the target; empty: that of the task.
        kernel: the kernel.
        run: warm start, chains and lengths.
    """

    network: Mapping[str, Any]
    prior: Mapping[str, Any]
    likelihood: Mapping[str, Any]
    kernel: Mapping[str, Any]
    run: Mapping[str, Any]


LOG_BEYOND: Final[Mapping[str, float]] = {"classification": 2.0}
"""By task, standard deviations beyond which inputs of the default network grow by their logarithm."""
CROSS_VALIDATION: Final = "cross-validation"  # in place of the temperature of class probabilities
CHAINS, FEWEST_CHAINS = 10, 4
STARTED, WARMUP, DRAWS, FEWEST_TRANSITIONS = 3000, 100, 100, 20
MOST_GROWTH: Final = 10  # of the number of draws, up to which a run with a stop rule may go on
MANY_ROWS: Final = 20_000  # above, a network of one layer is an ensemble of short chains, too
FULL_ROWS: Final = 10_000  # above, the product of rows and gradients of an ensemble stays the same
KERNEL: Final[Mapping[str, Any]] = {
    "name": USUAL_KERNEL,
    "num_steps": 64,
    "metric": "identity",
    "target_acceptance": 0.9,  # a short warm-up settles steps that diverge at 0.8
}
ONE_LAYER_KERNEL: Final[Mapping[str, Any]] = {"name": USUAL_KERNEL, "metric": "diagonal", "target_acceptance": 0.9}
ONE_LAYER: Final[Mapping[str, Any]] = {
    "num_chains": 4,
    "num_warmup": 300,
    "num_draws": 500,
    "warm_start": "adam",
}
"""The run of a network of one layer, whose chains find the same predictions."""


def default_for(table: Table) -> Default:
    """The default for a table.

    The scale of a regression's outputs is that of the data, whose noise is learned, and a deep narrow network with
    N(0, 1) weights is best. Its noise has heavy tails: a network whose noise may become small is certain of rows that
    it has not seen the like of, and one of them would cost more than all others gain. Logits have no scale but that of
    the prior. N(0, 1) on many layers makes them as large as hundreds, so that a member is overconfident wherever it is
    wrong, and the prior of a classification is therefore scaled by the width of its one layer. So is that of counts,
    whose logarithms have no other scale either.

    Chains of one layer find the same predictions, so they run until the diagnostics can confirm it. Their metric is
    learned, because the scales of the two layers differ by the prior, and so is the length of their trajectories. Those
    of four layers stay in modes of their own, and are an ensemble of short chains that a warm start has taken there.

    How sure a classification may be depends on how clean its labels are, which no prior knows; so what it states has a
    temperature and label noise, from rows that were left out.
    """
    if table.task == "regression":
        return Default(
            network={"hidden": (16, 16, 16, 16), "activation": "silu"},
            prior={"name": "normal", "scale": 1.0},
            likelihood=with_floor({"name": NORMAL if table.is_transformed else ROBUST}, table),
            kernel=KERNEL,
            run=_ensemble(table.num_rows),
        )
    is_long = table.num_rows <= MANY_ROWS
    return Default(
        network={"hidden": (50,), "activation": "silu"},
        prior={"scale": 16.0} if table.task == "classification" else {},
        likelihood={"temperature": CROSS_VALIDATION} if table.task == "classification" else {},
        kernel=ONE_LAYER_KERNEL if is_long else KERNEL,
        run=ONE_LAYER if is_long else _ensemble(table.num_rows),
    )


def _ensemble(num_rows: int) -> dict[str, Any]:
    """Chains and lengths; for many rows fewer and shorter ones, which start with Adam on minibatches all the same."""
    share = min(1.0, FULL_ROWS / max(num_rows, 1))
    started, warmup, draws = (max(FEWEST_TRANSITIONS, int(share * count)) for count in (STARTED, WARMUP, DRAWS))
    return {
        "num_chains": CHAINS if num_rows <= MANY_ROWS else FEWEST_CHAINS,
        "num_warmup": warmup,
        "num_draws": draws,
        "warm_start": {"name": "adam+mclmc", "num_transitions": started},
    }


def with_floor(likelihood: Mapping[str, Any], table: Table) -> dict[str, Any]:
    """A likelihood with noise per row, with the floor of the table unless it has one."""
    floor: Any = table.floor[0] if len(table.floor) == 1 else list(table.floor)
    return {**({"floor": floor} if table.floor else {}), **likelihood}
