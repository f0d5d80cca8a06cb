"""The default of a fit: which network, likelihood, kernel and lengths a table gets for what its user leaves open.

`default_for` is the only place that decides this, for the command and the estimators alike. What a user sets always
wins, and two choices take others with them: hidden layers bring the prior that suits any width, and a kernel brings a
plain run, because lengths and the warm start of the default are those of its own kernel.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ergonet.datasets.preprocessing import Preprocessing

FINEST: Final = 1e-3  # floor of the noise of a target whose values do not repeat, in its standard deviations
COARSEST: Final = 10.0  # ceiling of the noise and least reach of locations, in standard deviations of the target
BOUNDS: Final = ("floor", "ceiling", "reach")  # settings of noise that depends on the row
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
        num_inputs: number of network inputs.
        bounds: for a regression, those of `bounds_of` for each target, in the unit of the data.
        is_transformed: whether targets are transformed, so that they are normal given the network.
    """

    task: str
    num_rows: int
    num_inputs: int = 1
    bounds: tuple[tuple[float, float, float], ...] = ()
    is_transformed: bool = False

    @classmethod
    def of(cls, preprocessing: "Preprocessing", targets: Any) -> "Table":
        """The table of a data set.

        Args:
            preprocessing: what was learned from its training rows.
            targets: the scaled targets of the training rows; class indices count as rows only.
        """
        import numpy as np  # not where the command lists its options

        values, num_inputs = np.asarray(targets), len(preprocessing.feature_mean)
        if preprocessing.task != "regression":
            return cls(preprocessing.task, len(values), num_inputs)
        columns = values.reshape(len(values), -1).T if values.size else np.zeros((len(preprocessing.target_sd), 0))
        bounds = [
            (floor * float(sd), ceiling * float(sd), reach * float(sd))
            for (floor, ceiling, reach), sd in zip(map(bounds_of, columns), preprocessing.target_sd, strict=True)
        ]
        is_transformed = preprocessing.target_transform is not None
        return cls(preprocessing.task, len(values), num_inputs, tuple(bounds), is_transformed)


def bounds_of(target: Any) -> tuple[float, float, float]:
    """Floor and ceiling of the noise of an array of centered targets, and reach of locations, in their unit.

    The floor is the smallest scale that the array can tell. Values that repeat are rounded, and rounding to multiples
    of r has a standard deviation of r / sqrt(12). As r counts the smallest distance of two different values. For all
    other targets, a thousandth of the spread stands for the precision with which anything is measured. The ceiling is
    ten times the spread: for rows that are unlike the training rows, a network may state any noise, and one draw of a
    thousand that says a million would decide the average. Locations reach as far, or to the target that is farthest
    off, for the same reason.
    """
    import numpy as np

    from ergonet.prediction.calibration import rounding_of

    values = np.asarray(target)
    spread = (float(np.std(values)) if values.size else 0.0) or 1.0
    farthest = float(np.abs(values).max()) if values.size else 0.0
    return max(rounding_of(values) / sqrt(12), FINEST * spread), COARSEST * spread, max(COARSEST * spread, farthest)


@dataclass(frozen=True)
class Default:
    """Tables of settings, as in a settings file.

    Attributes:
        network: hidden layers and activation.
        prior: the prior of this network, one for each pattern of leaf paths, or settings of the prior that suits layers
            of any width.
        likelihood: the distribution of the target; empty: that of the task.
        kernel: the kernel.
        run: warm start, chains and lengths.
        direct: the prior of direct connections, if the user wants them; empty: that which suits layers of any width.
        growth: how many times as many draws a run makes at most, if those of `run` do not meet its stop rule; 1: there
            is no rule.
    """

    network: Mapping[str, Any]
    prior: Mapping[str, Any]
    likelihood: Mapping[str, Any]
    kernel: Mapping[str, Any]
    run: Mapping[str, Any]
    direct: Mapping[str, Any] = field(default_factory=dict)
    growth: int = 1


LOG_BEYOND: Final[Mapping[str, float]] = {"classification": 2.0}
"""By task, standard deviations beyond which inputs of the default network grow by their logarithm."""
CROSS_VALIDATION: Final = "cross-validation"  # in place of the temperature of class probabilities
DEEP: Final = (16, 16, 16, 16)
WIDE_PRIOR: Final[Mapping[str, Any]] = {"name": "normal", "scale": 1.0}
CHAINS, FEWEST_CHAINS = 10, 4
STARTED, WARMUP, DRAWS, FEWEST_TRANSITIONS = 3000, 100, 100, 20
MOST_GROWTH: Final = 10  # of the number of draws, up to which a run with a stop rule of the user's may go on
GROWTH: Final = 2  # of the number of draws, up to which chains of one layer go on until they have converged
MANY_ROWS: Final = 20_000  # above, a network of one layer is an ensemble of short chains, too
ROWS_PER_INPUT: Final = 50  # many; below, a regression has a prior of smoother functions
WIDTH: Final = 2.0  # of its weights, in units of 1 / sqrt(fan_in)
FULL_ROWS: Final = 10_000  # above, the product of rows and gradients of an ensemble stays the same
KERNEL: Final[Mapping[str, Any]] = {
    "name": USUAL_KERNEL,
    "num_steps": 64,
    "metric": "identity",
    "target_acceptance": 0.9,  # a short warm-up settles steps that diverge at 0.8
}
ONE_LAYER_KERNEL: Final[Mapping[str, Any]] = {"name": USUAL_KERNEL, "metric": "diagonal", "target_acceptance": 0.9}
SLOW_KERNEL: Final[Mapping[str, Any]] = {**ONE_LAYER_KERNEL, "name": "delayed-rejection"}
LONG_KERNEL: Final[Mapping[str, Any]] = {**SLOW_KERNEL, "num_steps": 256, "target_acceptance": 0.95}
FEWEST_INPUTS, FEW_INPUTS = 4, 16  # of few inputs, chains of one layer may be slow; of the fewest, gradients are cheap
LITTLE_WORK, MUCH_WORK = 100_000, 200_000  # of a gradient, up to which slow chains have long trajectories; more draws
OTHER_WORK: Final = 20  # for each row, in inputs
ONE_LAYER: Final[Mapping[str, Any]] = {
    "num_chains": 4,
    "num_warmup": 300,
    "num_draws": 1000,
    "warm_start": "adam",
}
"""The run of a network of one layer, whose chains find the same predictions."""


def default_for(table: Table) -> Default:
    """The default for a table.

    The scale of a regression's outputs is that of the data, whose noise is learned, and a deep narrow network with
    N(0, 1) weights is best. Its noise has heavy tails: a network whose noise may become small is certain of rows that
    it has not seen the like of, and one of them would cost more than all others gain. With few rows for its inputs,
    N(0, 1) lets the network do anything between them. Then weights are narrower, for smoother functions, and each input
    has a learned scale, which shows what it is good for. If the first layer has more weights than there are rows, they
    follow the noise all the same, unless the scales of the other layers and of the outputs can shrink, too.

    Logits have no scale but that of the prior. N(0, 1) on many layers makes them as large as hundreds, so that a member
    is overconfident wherever it is wrong, and the prior of a classification is therefore scaled by the width of its one
    layer. So is that of counts, whose logarithms have no other scale either. Each input of a classification has a
    learned scale; it is close enough to those of the others that little is lost where all inputs count.

    Chains of one layer find the same predictions, so they run until the diagnostics can confirm it. Their metric is
    learned, because the scales of the two layers differ by the prior, and so is the length of their trajectories. Those
    of four layers stay in modes of their own, and are an ensemble of short chains that a warm start has taken there.
    With few inputs, or with many rows for each, the rows determine some directions much better than the scale of the
    outputs. Steps are short for their sake, and along that scale chains walk at random unless trajectories are long. A
    short warm-up cannot see how slow that is, so the length is fixed where gradients are cheap enough. Nor can it see
    how short steps must be wherever a chain will come: where the scale is large, those that it found may diverge. So
    the target acceptance is higher, and a rejected trajectory is followed by one of shorter steps. If the predictions
    have not converged by then, these chains go on.

    How sure a classification may be depends on how clean its labels are, which no prior knows; so what it states has a
    temperature and label noise, from rows that were left out.
    """
    if table.task == "regression":
        return Default(
            network={"hidden": DEEP, "activation": "silu"},
            prior=_smooth_prior(table) if table.num_rows < ROWS_PER_INPUT * table.num_inputs else WIDE_PRIOR,
            likelihood=with_bounds({"name": NORMAL if table.is_transformed else ROBUST}, table),
            kernel=KERNEL,
            run=_ensemble(table.num_rows),
            direct=_learned(1 / sqrt(max(table.num_inputs, 1)), 1.0, "incoming"),  # by input, it follows the noise
        )
    is_long = table.num_rows <= MANY_ROWS
    return Default(
        network={"hidden": (50,), "activation": "silu"},
        prior={"scale": 16.0, "inputs": _by_input(1.0, 4.0, table)} if table.task == "classification" else {},
        likelihood={"temperature": CROSS_VALIDATION} if table.task == "classification" else {},
        kernel=_one_layer_kernel(table) if is_long else KERNEL,
        run=ONE_LAYER if is_long else _ensemble(table.num_rows),
        growth=GROWTH if _is_slow(table) and _work(table) <= MUCH_WORK else 1,
    )


def _one_layer_kernel(table: Table) -> Mapping[str, Any]:
    if not _is_slow(table):
        return ONE_LAYER_KERNEL
    most_work = MUCH_WORK if table.num_inputs <= FEWEST_INPUTS else LITTLE_WORK
    return LONG_KERNEL if _work(table) <= most_work else SLOW_KERNEL


def _is_slow(table: Table) -> bool:
    """Whether chains of one layer may be slow along the scale of the outputs."""
    return table.num_inputs <= FEW_INPUTS or table.num_rows >= ROWS_PER_INPUT * table.num_inputs


def _work(table: Table) -> int:
    """The cost of a gradient of one layer."""
    return table.num_rows * (table.num_inputs + OTHER_WORK)


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


def _smooth_prior(table: Table) -> dict[str, Any]:
    """The prior of `DEEP` layers with a learned scale for each input, by the patterns of its leaves."""
    width = WIDTH / sqrt(DEEP[-1])
    others: dict[str, Any] = {"*.weight": {"name": "normal", "scale": width}}
    if table.num_rows < table.num_inputs * DEEP[0]:
        last = f"layers.{len(DEEP)}.weight"
        others = {last: _learned(width, 1.0, "incoming"), "*.weight": _learned(width, 1.0, "leaf")}
    return {"layers.0.weight": _by_input(WIDTH, 1.0, table), **others, "*.bias": WIDE_PRIOR}


def _by_input(width: float, alpha: float, table: Table) -> dict[str, Any]:
    """Normal weights with a learned scale for each input, whose width is in units of 1 / sqrt(inputs)."""
    return _learned(width / sqrt(max(table.num_inputs, 1)), alpha, "input")


def _learned(width: float, alpha: float, group: str) -> dict[str, Any]:
    return {"name": "normal-gamma", "width": width, "alpha": alpha, "group": group}


def with_bounds(likelihood: Mapping[str, Any], table: Table) -> dict[str, Any]:
    """A likelihood with noise per row, with the bounds of the table unless it has its own."""
    bounds: dict[str, Any] = {}
    for index, name in enumerate(BOUNDS if table.bounds else ()):
        each = [of_target[index] for of_target in table.bounds]
        bounds[name] = each[0] if len(each) == 1 else each
    return {**bounds, **likelihood}
