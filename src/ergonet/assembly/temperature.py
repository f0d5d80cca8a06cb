"""Temperature and label noise of the class probabilities of a fit, by cross-validation with short chains.

A posterior average may be too sure or, where labels are clean, not sure enough, and neither the training rows nor the
prior can tell (Guo2017, and Wenzel2020 for the same in other words). So each part of the rows is predicted by short
chains given the others, and both are chosen by the log probabilities of all of them. There are as many chains as the
fit averages, up to four, since an average over chains in different modes is less sure than one chain is. They take
the time of one, by shorter trajectories; where trajectories cannot be shorter, there is one chain, since fewer of
them would not reach the posterior. A time limit shortens chains further: those that end before they have a draw would
leave probabilities as they are, which costs more. All run the programs of the fit, which a chain of a single draw
compiles first, outside the time that they may take. The draws of the fit do not depend on it.

The rows of a part follow each other in the table, class by class. Neighbors may be alike (by one writer, of one day),
and a row whose neighbors are left out with it is predicted as rows of somebody else, or of another day, will be. Then
there are three parts, because fewer rows of long stretches have a neighbor outside. Otherwise there are five, and
chains learn from nearly as many rows as those of the fit: with fewer they would be less sure.
"""

import dataclasses
import math
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from sklearn.model_selection import StratifiedKFold

from ergonet._errors import ErgonetError, Terminated, TimeLimitError
from ergonet._keys import derived_seed
from ergonet._numbers import integer
from ergonet.assembly.default import CROSS_VALIDATION
from ergonet.assembly.planning import chain_rate, shortest_warm_start
from ergonet.assembly.settings import RunSettings, Settings
from ergonet.execution.threads import num_cores, worker_pool
from ergonet.models.leaving_out import without
from ergonet.models.network_posterior import NetworkPosterior
from ergonet.models.weighting import Weighted
from ergonet.prediction.predictive import predict
from ergonet.prediction.recalibration import FEWEST_ROWS, ClassCalibration, recalibrate_classes
from ergonet.samplers.base import AbstractKernel
from ergonet.samplers.delayed_rejection_hmc import DelayedRejectionHMC

if TYPE_CHECKING:
    from ergonet.draws.samples import Samples

NUM_FOLDS, NUM_LONG_FOLDS = 5, 3
ONE_FOLD_ABOVE = 5000  # rows: a part of them is enough to find two numbers
NUM_ORDERS = 99  # with which that of the table is compared
MOST_CHAINS, MOST_WARMUP, MOST_DRAWS = 4, 150, 100
FEWEST_WARMUP, FEWEST_DRAWS = 20, 10
FEWEST_STEPS = 16  # to which trajectories are shortened before there are fewer
TIME_SHARE = 0.25  # of the time left
USED_SHARE = 0.6  # of the time of a chain: it has a warm start, too, and later transitions may take longer
LEAST_LIMIT = 1e-3  # seconds
FOLDS = 0x466F6C64  # purpose of their seeds
INTERRUPTS = {"Ctrl-C": KeyboardInterrupt, "SIGTERM": Terminated}  # by what has stopped a chain


@dataclasses.dataclass(frozen=True)
class Found:
    """What cross-validation has found.

    Attributes:
        calibration: temperature and label noise; None: they could not be found, and the probabilities stay as they are.
        sentence: what was done, or why not.
    """

    calibration: ClassCalibration | None
    sentence: str


@dataclasses.dataclass(frozen=True)
class _Chain:
    """The kernel of a chain; its lengths and warm start, as `sample` takes them."""

    kernel: AbstractKernel
    lengths: Mapping[str, Any]

    def within(self, most: int) -> "_Chain":
        """This chain if it has no more than so many transitions; else one that takes about as long as these."""
        counts = {name: self.lengths[name] for name in ("num_warmup", "num_draws")}
        share, kernel = most / sum(counts.values()), self.kernel
        length = _num_steps(kernel)
        if share < 1 and length is not None and length > FEWEST_STEPS:
            shorter = max(FEWEST_STEPS, int(share * length))
            kernel, share = eqx.tree_at(_num_steps, kernel, integer(shorter)), share * length / shorter
        if share < 1:
            fewest = FEWEST_WARMUP, FEWEST_DRAWS
            counts = {
                name: min(count, max(least, int(share * count)))
                for (name, count), least in zip(counts.items(), fewest, strict=True)
            }
        return _Chain(kernel, {**self.lengths, **counts})


def _num_steps(kernel: Any) -> Any:
    """The length of a kernel's trajectories; None: it is learned, has to suit a window, or there is none."""
    return getattr(kernel.static if isinstance(kernel, DelayedRejectionHMC) else kernel, "num_steps", None)


def settled(
    settings: Settings, posterior: Any, labels: np.ndarray, kernel: Any, *, seconds: float | None = None
) -> tuple[Settings, str]:
    """Settings with numbers in place of `CROSS_VALIDATION`, and what was done; others as they are, and "".

    The arguments are those of `cross_validated`.
    """
    choice = settings.likelihood
    if not (isinstance(choice, Mapping) and choice.get("temperature") == CROSS_VALIDATION):
        return settings, ""
    found = cross_validated(posterior, labels, kernel, settings.run, seconds=seconds)
    numbers = {"temperature": 1.0}
    if found.calibration is not None:
        numbers = {"temperature": found.calibration.temperature, "label_noise": found.calibration.label_noise}
    return dataclasses.replace(settings, likelihood={**choice, **numbers}), found.sentence


def cross_validated(
    posterior: Any, labels: np.ndarray, kernel: Any, run: RunSettings, *, seconds: float | None = None
) -> Found:
    """Find temperature and label noise.

    Args:
        posterior: the posterior of the fit, of a network with a temperature of 1.
        labels: the classes of its rows, as indices.
        kernel: the kernel of the fit.
        run: its seed, warm start, lengths and devices.
        seconds: time left for the fit, of which a quarter may be used once the programs are compiled; None: no limit.
    """
    if not isinstance(posterior, NetworkPosterior) or not isinstance(kernel, AbstractKernel):
        return Found(None, "Probabilities stay as they are: cross-validation needs all rows in memory at once.")
    if (reason := _unsuited(posterior, labels)) is not None:
        return Found(None, f"Probabilities stay as they are: {reason}.")
    inputs = np.asarray(posterior.rows()[0])
    chosen = _folds(inputs, labels)
    began = time.perf_counter()
    num_chains = 1 if _num_steps(kernel) is None else min(run.num_chains or MOST_CHAINS, MOST_CHAINS)

    def predicted(number: int, chain: _Chain, limit: float | None) -> np.ndarray:
        fold = chosen[number % len(chosen)]
        seed = derived_seed(derived_seed(run.seed, FOLDS), number)
        samples = _sampled(without(posterior, fold), chain, seed=seed, time_limit=limit)
        return predict(samples, inputs[fold], model=posterior.model).mean

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # these chains only judge how sure predictions are
            predicted(0, _Chain(kernel, _shortest(run)), seconds)  # which compiles
            count, each = num_chains * len(chosen), None
            most = (MOST_WARMUP + MOST_DRAWS) // num_chains
            if seconds is not None:
                left = max(seconds - (time.perf_counter() - began), 0.0)
                each = max(TIME_SHARE * left / math.ceil(count / num_cores()), LEAST_LIMIT)
                until = time.perf_counter() + TIME_SHARE * left
                rate = chain_rate(without(posterior, chosen[0]), kernel, run, until=until)
                most = most if rate is None else min(most, int(USED_SHARE * each * rate))
            chain = _Chain(kernel, _short(run)).within(most)
            with worker_pool(num_cores()) as pool:
                parts = list(pool.map(lambda number: predicted(number, chain, each), range(count)))
    except TimeLimitError:
        return Found(None, "Probabilities stay as they are: the time limit leaves no time for cross-validation.")
    except ErgonetError as error:
        return Found(None, f"Probabilities stay as they are: cross-validation did not work. {error}")
    rows = np.concatenate(chosen)
    averages = [np.mean(parts[number :: len(chosen)], axis=0) for number in range(len(chosen))]
    found = recalibrate_classes(np.concatenate(averages), labels[rows])
    gained = f": better there by {found.gain:.3f} nats per row" if found.gain else ""
    return Found(found, f"By cross-validation with {len(rows)} rows, {found.what}{gained}.")


def _unsuited(posterior: NetworkPosterior, labels: np.ndarray) -> str | None:
    if len(labels) < FEWEST_ROWS:
        return f"cross-validation needs at least {FEWEST_ROWS} rows, and there are {len(labels)}"
    if posterior.count is None:
        return "the rows of this network cannot be left out one by one"
    if jax.process_count() > 1:
        return "cross-validation is for one process"
    if isinstance(posterior.model.likelihood, Weighted):
        return "rows have weights"
    sizes = np.unique(labels, return_counts=True)[1]
    if sizes.min() < 2:
        return "a class has a single row"
    if sizes.max() < NUM_FOLDS:
        return f"no class has {NUM_FOLDS} rows"
    return None


def _folds(inputs: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """Parts of the rows to leave out, each with about the same share of every class, whose rows are consecutive."""
    is_one = len(labels) > ONE_FOLD_ABOVE
    number = NUM_LONG_FOLDS if is_one or are_neighbors_alike(inputs, labels) else NUM_FOLDS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes with fewer rows than parts
        folds = [rows for _, rows in StratifiedKFold(number).split(labels, labels)]
    return folds[:1] if is_one else folds


def are_neighbors_alike(inputs: np.ndarray, labels: np.ndarray) -> bool:
    """Whether rows that follow each other within their class are closer than in each of `NUM_ORDERS` random orders.

    Args:
        inputs: scaled inputs, `[rows, ...]`.
        labels: class indices, `[rows]`.
    """
    rows, rng = inputs.reshape(len(inputs), -1), np.random.default_rng(0)

    def roughness(order: np.ndarray) -> float:
        order = order[np.argsort(labels[order], kind="stable")]
        within = labels[order[1:]] == labels[order[:-1]]
        return float(((rows[order[1:]] - rows[order[:-1]])[within] ** 2).sum())

    found = roughness(np.arange(len(labels)))
    return all(found < roughness(rng.permutation(len(labels))) for _ in range(NUM_ORDERS))


def _short(run: RunSettings) -> dict[str, Any]:
    """Lengths and warm start of chains that are no longer than those of the fit."""
    return {
        "num_warmup": min(MOST_WARMUP, run.num_warmup),
        "num_draws": min(MOST_DRAWS, run.num_draws),
        "warm_start": run.warm_start,
    }


def _shortest(run: RunSettings) -> dict[str, Any]:
    """Lengths and warm start of a chain that runs the same programs as briefly as it can."""
    return {"num_warmup": 1, "num_draws": 1, "warm_start": shortest_warm_start(run)}


def _sampled(target: Any, chain: _Chain, *, seed: int, time_limit: float | None) -> "Samples":
    from ergonet.inference.run import sample  # not where the command lists its options

    samples = sample(
        target,
        chain.kernel,
        num_chains=1,
        seed=seed,
        devices=1,
        progress=False,
        time_limit=time_limit,
        **chain.lengths,
    )
    if (interrupt := INTERRUPTS.get(str(samples.about.get("stopped_by")))) is not None:
        raise interrupt
    return samples
