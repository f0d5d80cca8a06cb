"""`ergonet evidence`: the log evidence of the model of a run, from its draws and its data."""

import shlex
from typing import TYPE_CHECKING, Any

from ergonet.cli import fitting, loading
from ergonet.runs.directory import RunDirectory

if TYPE_CHECKING:
    from ergonet.datasets.preprocessing import Preprocessing
    from ergonet.partition.bridge import LogMass


def run(directory: RunDirectory, *, seed: int) -> str:
    """Estimate the evidence.

    Args:
        directory: the run directory of a fit.
        seed: seeds the proposals.

    Returns:
        What to print.

    Raises:
        ErgonetError: the run is damaged, its data have changed, or the estimate is not to be trusted.
    """
    directory.require_own_draws()
    settings, preprocessing, model = directory.read_model()
    path = str(directory.path)
    dataset = loading.reload_data(
        settings, preprocessing, lacking=f"The evidence of {path!r} is computed from its data"
    )

    from ergonet.draws.samples import load
    from ergonet.partition.evidence import evidence

    fitting.keep_compiled_programs()
    target = fitting.condition(model, dataset)
    found = evidence(target, load(directory.draws, target=target), seed=seed)
    return _in_words(shlex.quote(path), found, dataset.y_train, preprocessing, weights=dataset.weights)


def _in_words(path: str, found: "LogMass", targets: Any, preprocessing: "Preprocessing", *, weights: Any = None) -> str:
    """The log evidence of the targets, each counted by its weight, in the units of the table, with its error."""
    value, units = found.value, ""
    if preprocessing.task == "regression":
        slopes = preprocessing.log_slope(preprocessing.inverse_target(targets))
        value += float((slopes if weights is None else (slopes.T * weights).T).sum())
        units = f" of the {len(targets)} training targets in their units"
    return (
        f"Log evidence of {path}{units}: {value:.2f} \N{PLUS-MINUS SIGN} {found.error:.2f}\n"
        f"From {found.ess:.0f} effective draws; overlap of the proposals {found.overlap:.2g}. Modes that no chain "
        f"visited are missing."
    )
