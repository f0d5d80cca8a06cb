"""`ergonet verify --replay`: sample the beginning of a run again and compare it with the stored draws, bit for bit."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ergonet._errors import TimeLimitError
from ergonet.cli import fitting, loading
from ergonet.runs.directory import RunDirectory

if TYPE_CHECKING:
    from ergonet.draws.samples import Samples


def replay(directory: RunDirectory, *, seconds: float) -> tuple[str, bool]:
    """Sample the first draws of a run again.

    Args:
        directory: the run directory.
        seconds: how long to sample at most, warm-up included.

    Returns:
        What was found, as a sentence, and whether all compared numbers are equal.

    Raises:
        ErgonetError: the run is damaged, its data have changed, or the warm-up takes longer than `seconds`.
    """
    directory.require_own_draws()
    settings, preprocessing = directory.read_settings()
    dataset = loading.reload_data(settings, preprocessing, lacking=f"{str(directory.path)!r} is replayed with its data")

    import jax

    from ergonet import sample
    from ergonet.assembly import build
    from ergonet.draws.samples import load
    from ergonet.samplers.base import AbstractKernel

    fitting.keep_compiled_programs()
    run, kernel = settings.run, build.kernel(settings)
    model = build.model(settings, build.Task.of(preprocessing))
    stored = load(directory.draws)
    # Chains do not depend on each other unless they share a learned length, or, vmapped or on minibatches, arithmetic.
    is_one_enough = (
        isinstance(kernel, AbstractKernel)
        and "num_steps" not in kernel.warmup().learned
        and jax.local_devices()[0].platform == "cpu"
    )
    replayed: dict[str, Any] = {"num_draws": stored.num_draws, "until": None} | (
        {"num_chains": 1} if is_one_enough else {}
    )
    try:
        again = sample(
            fitting.condition(model, dataset),
            kernel,
            progress=False,
            time_limit=seconds,
            **run.arguments() | replayed,
        )
    except TimeLimitError as error:
        raise TimeLimitError(
            f"Nothing could be compared: the warm-up takes longer than {seconds:g} seconds. Give more by `--seconds`."
        ) from error
    return _found(directory.path, stored, again)


def _found(path: Path, stored: "Samples", again: "Samples") -> tuple[str, bool]:
    chains = "chain 0" if again.num_chains == 1 else f"all {again.num_chains} chains"
    first = min(_first_difference(one, other, again) for one, other in _pairs(stored, again))
    if first == again.num_draws:
        return f"Replay: the first {first} draws of {chains} of {path} are made again equal, bit for bit.", True
    difference = (
        f"Replay: draw {first} (counted from 0) of {chains} of {path} is made again with other values. The settings, "
        f"the versions of the software or the processor are not those of the fit, or the draws were changed."
    )
    return difference, False


def _pairs(stored: "Samples", again: "Samples") -> list[tuple[Any, Any]]:
    common = stored.stats.keys() & again.stats.keys()
    return [(stored.positions, again.positions), *((stored.stats[name], again.stats[name]) for name in common)]


def _first_difference(stored: Any, again: Any, samples: "Samples") -> int:
    """The first draw in which some number differs; the number of draws if none does."""
    chains, draws = samples.num_chains, samples.num_draws
    same = np.asarray(stored[:chains, :draws]), np.asarray(again)
    if same[0].dtype != same[1].dtype:
        return 0
    equal = np.equal(*same) | (same[0] != same[0]) & (same[1] != same[1])
    by_draw = equal.reshape(chains, draws, -1).all(axis=(0, 2))
    return draws if by_draw.all() else int(np.argmin(by_draw))
