"""Draws from minibatches: `sample_minibatches`.

A draw is the state after `steps_per_draw` minibatch steps, an epoch unless the kernel says otherwise. Between compiled
chunks of half a second: draws are stored, a watch's figures are kept, progress is shown, the clock and Ctrl-C are
obeyed, and a chain that has run away is stopped.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergonet._errors import CapabilityError, SamplingWarning, SettingError
from ergonet.diagnostics.advice import advise
from ergonet.inference.asked import check_asked, open_store
from ergonet.inference.epochs import AbstractWatch, Unwatched
from ergonet.inference.keeping import AbstractKeep, Every
from ergonet.inference.minibatch_chain import STATISTICS, Request
from ergonet.inference.minibatch_run import Run
from ergonet.inference.progress import AbstractProgress, choose_progress
from ergonet.inference.samples import Samples, minibatch_diagnostics, told
from ergonet.inference.store import POSITIONS, AbstractStore, ZarrStore
from ergonet.inference.versions import versions
from ergonet.models.target import Target
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel


@dataclass(frozen=True)
class MinibatchResult:
    """What a run leaves behind.

    Attributes:
        samples: the stored draws. Their `stats` are lp (minus the mean minibatch potential of the draw's steps),
            kinetic_temperature, step_size, weight, gradients, clipped, nonfinite, and acceptance_rate where there is a
            test or a tree.
        curve: `[chain, draw]` by name, over the warm-up and all draws: those statistics, and the figures of the watch.
        summary: what the watch says of all draws after the warm-up, of all chains; None without a watch.
    """

    samples: Samples
    curve: Mapping[str, np.ndarray]
    summary: Any


def sample_minibatches(
    target: Target,
    kernel: AbstractMinibatchKernel,
    *,
    num_chains: int = 1,
    num_warmup: int = 50,
    num_draws: int = 100,
    seed: int,
    keep: AbstractKeep | None = None,
    watch: AbstractWatch | None = None,
    init: Any = None,
    store: str | os.PathLike[str] | AbstractStore | None = None,
    devices: int | Sequence[Any] | None = None,
    progress: bool | AbstractProgress = True,
    time_limit: float | None = None,
) -> MinibatchResult:
    """Draw from a target with gradients from minibatches.

    Args:
        target: what is sampled; it must offer minibatches.
        kernel: `SGLD`, `SGHMC`, `NaiveSGHMC`, `SGNUTS`, `HandOver`, or an optimiser of `ergonet.baselines`.
        num_chains: independent chains, at least 1. A core runs one each; a single chain uses all cores for its
            matrix products.
        num_warmup: draws (epochs, unless the kernel has `steps_per_draw`) that are neither stored nor averaged.
        num_draws: draws after that, at least 1.
        seed: 0 to 2^63 - 1.
        keep: which of the draws are stored: `Every(thin)`, `Last(count)`; None: every one.
        watch: sees every draw, such as `RunningPrediction(model, x, y)`; None: nothing does.
        init: starting positions `[dim]` or `[chain, dim]`; None: a tenth of what the target draws, such as of a draw
            from the prior: far out in it gradients are large, and so is their noise.
        store: None: memory; a path: a Zarr group on disk; or a store.
        devices: as in `sample`.
        progress: as in `sample`.
        time_limit: seconds after which the run stops and keeps what it has. So does Ctrl-C.

    Returns:
        Stored draws, the learning curve and the watch's summary.

    Raises:
        CapabilityError: the target offers no minibatches, or the kernel takes all rows at once.
        DivergedError: a chain ran away before any draw was stored; names the setting to change.
        SettingError: a setting is out of its range.
        StartError: no finite starting point.
    """
    check_asked(
        target, num_chains=num_chains, num_warmup=num_warmup, num_draws=num_draws, seed=seed, time_limit=time_limit
    )
    _check(target, kernel)
    request = Request(
        target=target,
        kernel=kernel,
        watch=Unwatched() if watch is None else watch,
        keep=Every(1) if keep is None else keep,
        num_warmup=int(num_warmup),
        num_draws=int(num_draws),
    )
    if not request.keep.room(request.num_draws):
        raise SettingError(f"`keep={request.keep}` stores none of {num_draws} draws. Raise `num_draws`.")
    reporter = choose_progress(progress)
    run = Run(request, int(num_chains), devices, open_store(store), reporter)
    reporter.begin(num_chains, 1)
    try:
        run.prepare(int(seed), init)
        run.drive(time_limit)
        run.store_newest()
    finally:
        reporter.end()
    curve = _curve(run)
    for alarm in _alarms(request, run, curve):
        warnings.warn(alarm, SamplingWarning, stacklevel=2)
    summary = request.watch.join([chain.record.summary for chain in run.chains])
    return MinibatchResult(samples=_samples(request, run, curve, seed), curve=curve, summary=summary)


def _check(target: Target, kernel: Any) -> None:
    if not isinstance(kernel, AbstractMinibatchKernel):
        raise CapabilityError(
            f"`{type(kernel).__name__}` needs the gradient over all rows: it is not exact, and not meant, for "
            f"minibatches. Use `ergonet.sample`, or a kernel such as `ergonet.SGHMC()`."
        )
    if not target.offers("minibatch_potential"):
        target.rows()  # says what is missing
    if kernel.batch_size > target.num_rows:
        raise SettingError(
            f"`{type(kernel).__name__}(batch_size={kernel.batch_size})` is more than the {target.num_rows} rows that "
            f"there are. Make it smaller, or use a kernel of all rows such as `ergonet.NUTS()`."
        )


def _curve(run: Run) -> dict[str, np.ndarray]:
    """`[chain, draw]` by name, cut to what every chain has."""
    parted = [list(parts.values()) for parts in run.curves]
    chains = [{name: np.concatenate([part[name] for part in parts]) for name in parts[0]} for parts in parted]
    length = min(len(chain["lp"]) for chain in chains)
    return {name: np.stack([chain[name][:length] for chain in chains]) for name in chains[0]}


def _samples(request: Request, run: Run, curve: Mapping[str, np.ndarray], seed: int) -> Samples:
    draws = run.drawn()
    if run.stopped:
        run.reporter.say(f"Stopped by {run.stopped}: {draws} stored draws of each chain are kept.")
    stats = told({name: np.asarray(run.store.field(name)[:, :draws]) for name in STATISTICS})
    positions = run.store.field(POSITIONS)
    result = Samples(
        positions=positions if positions.shape[1] == draws else np.asarray(positions[:, :draws]),
        stats=stats,
        warmup_stats={},
        seconds=run.seconds | {"total": sum(run.seconds.values())},
        gradients={
            "warmup": int(curve["gradients"][:, : request.num_warmup].sum()),
            "sampling": int(curve["gradients"][:, request.num_warmup :].sum()),
        },
        tuning={"step_size": np.asarray([float(chain.record.step_size) for chain in run.chains])},
        about={
            "kernel": request.name,
            "kernel_settings": repr(request.kernel),
            "seed": int(seed),
            "num_chains": len(run.chains),
            "num_warmup": request.num_warmup,
            "num_draws": draws,
            "steps_per_draw": request.steps_per_draw,
            "batch_size": request.kernel.batch_size,
            "dim": request.target.dim,
            "stopped_by": run.stopped or None,
            "versions": versions(),
        },
        target=request.target,
    )
    if isinstance(run.store, ZarrStore):
        result.finish_store(run.store)
    else:
        run.store.finish(result.about)
    return result


def _alarms(request: Request, run: Run, curve: Mapping[str, np.ndarray]) -> list[str]:
    """Sentences about what is off."""
    found = []
    if run.stopped and run.stopped != "Ctrl-C":
        found.append(f"The run was stopped by {run.stopped}; {run.drawn()} stored draws of each chain are kept.")
    after = {
        name: curve[name][:, request.num_warmup :] for name in ("kinetic_temperature", "clipped", "acceptance_rate")
    }
    diagnostics = minibatch_diagnostics(after)
    found.extend(advise({"diagnostics": diagnostics}))
    return found
