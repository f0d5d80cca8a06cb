"""`ergonet check`: whether densities are those of the draws, and the kernel leaves the posterior invariant."""

import dataclasses
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ergonet._errors import CapabilityError, SettingError, visible
from ergonet._figures import duration
from ergonet.cli.errors import BAD_INPUT, errors_in_one_line
from ergonet.cli.options import Given, Overwrite, SettingsFile, option, resolved, takes
from ergonet.cli.outputs import check_picture

if TYPE_CHECKING:
    from ergonet.assembly.settings import Settings
    from ergonet.datasets.dataset import Dataset

MOST_WEIGHTS, MOST_ROWS = 100, 200  # beyond, it takes more than about a minute
MOST_DOUBLINGS = 4  # the replicas of a step wait for the longest tree


@takes("data", "network", "prior", "likelihood", "kernel", "run.seed")
def check(
    given: Given,
    *,
    settings: SettingsFile = None,
    rows: Annotated[int | None, option("--rows", say="Check with so many rows, chosen at random.")] = None,
    long: Annotated[bool, typer.Option("--long", help="Go on however long it is estimated to take.")] = False,
    out: Annotated[str, typer.Option("--out", help="Picture to write: PNG, SVG or PDF.")] = "check.png",
    overwrite: Overwrite = False,
) -> None:
    """Check by simulation that a model and a kernel are right: about a minute for 100 weights and 200 rows.

    Takes the settings and options of `ergonet fit`. DATA give the inputs; targets are simulated. Simulation-based
    calibration and Geweke's joint test print a p-value for each quantity and a verdict. The exit code is 1 if the check
    fails, as one in a hundred checks of a correct model does. `ergonet.checking.check` takes models of your own.
    """
    with errors_in_one_line():
        passes = run(resolved(given, settings), rows=rows, long=long, out=out, overwrite=overwrite)
    raise typer.Exit(0 if passes else BAD_INPUT)


def run(settings: "Settings", *, rows: int | None, long: bool, out: str, overwrite: bool) -> bool:
    """Check, print the table and the verdict, and save the picture.

    Args:
        settings: resolved settings, before the data are known.
        rows: number of rows, at least 1; None: all.
        long: go on where more than 100 weights or 200 rows take long.
        out: the picture to write, PNG, SVG or PDF.
        overwrite: replace an existing file.

    Returns:
        Whether the check passes.

    Raises:
        ErgonetError: the data, the settings or the path cannot be used, or it would take long.
    """
    path = check_picture(out, overwrite=overwrite)
    if rows is not None and rows < 1:
        raise SettingError(f"`--rows` must be at least 1, got {rows}.")
    from ergonet.assembly import build
    from ergonet.cli import fitting, loading

    dataset = loading.load_data(settings.data, seed=settings.run.seed, likelihood=settings.likelihood)
    build.check(settings)
    settings = build.complete(settings, dataset.preprocessing, dataset.y_train)
    model = build.model(settings, build.Task.of(dataset.preprocessing))
    kernel: Any = build.kernel(dataclasses.replace(settings, kernel=_shorter(settings.kernel)))
    target = model.condition(*_some_rows(dataset, rows, settings.run.seed))

    from ergonet import plots
    from ergonet.checking import check, estimate

    fitting.keep_compiled_programs()
    sys.stdout.write(f"{visible(model.describe())}\n")
    if model.dim > MOST_WEIGHTS or target.num_rows > MOST_ROWS:
        seconds = duration(estimate(target, kernel))
        size = f"{model.dim} coordinates and {target.num_rows} rows take about {seconds}"
        if not long:
            raise SettingError(f"{size}. Use fewer (`--hidden 5`, `--rows 100`), or add `--long` to go on.")
        sys.stdout.write(f"{size}.\n")
    sys.stdout.flush()
    found = check(target, kernel, seed=settings.run.seed)
    plots.save_side_by_side(
        str(path),
        lambda axes: plots.check_ranks(found, axes=axes),
        lambda axes: plots.check_scores(found, axes=axes),
        height=max(3.6, 1.4 + 0.25 * len(found.sizes)),
    )
    sys.stdout.write(f"{visible(str(found))}\nPicture: {path}\n")
    return found.passes


def _some_rows(dataset: "Dataset", count: int | None, seed: int) -> tuple[Any, Any]:
    """Inputs and targets of some of the training rows."""
    import numpy as np

    if dataset.weights is not None:
        raise CapabilityError("`ergonet check` cannot draw targets of rows with weights. Leave `--weights` out.")
    chosen = np.sort(np.random.default_rng(seed).permutation(len(dataset.y_train))[:count])
    return dataset.x_train[chosen], dataset.y_train[chosen]


def _shorter(table: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a kernel, with trees of at most 4 doublings."""
    if table.get("name") == "gibbs":
        update = table.get("update", "nuts")
        return {**table, "update": _shorter({"name": update} if isinstance(update, str) else update)}
    if table.get("name") in ("nuts", "xhmc"):
        return {**table, "max_doublings": min(table.get("max_doublings", MOST_DOUBLINGS), MOST_DOUBLINGS)}
    return dict(table)
