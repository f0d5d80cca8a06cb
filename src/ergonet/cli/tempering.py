"""`ergonet temper`: the posterior at several temperatures, scored on held-out rows."""

import sys
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ergonet._errors import DataError, SettingError, visible
from ergonet.assembly.default import CROSS_VALIDATION
from ergonet.cli.errors import errors_in_one_line
from ergonet.cli.options import Given, Overwrite, SettingsFile, option, resolved, takes
from ergonet.cli.outputs import check_file, check_picture

if TYPE_CHECKING:
    from ergonet.assembly.settings import Settings
    from ergonet.comparison import TemperatureSweep
    from ergonet.comparison.scored import HeldOutScores

_ABOUT = {
    "posterior": "The density is that of the posterior, prior and likelihood, raised to 1 / T.",
    "likelihood": "The density is the prior times the likelihood raised to 1 / T.",
}


@takes("data", "network", "prior", "likelihood", "kernel", "run")
def temper(
    given: Given,
    *,
    settings: SettingsFile = None,
    temperatures: Annotated[
        str | None,
        option("--temperatures", say="Temperatures with commas; 0.01,0.03,0.1,0.3,1,3 unless set.", metavar="LIST"),
    ] = None,
    form: Annotated[
        str, typer.Option("--form", help="What is raised to 1 / T: `posterior` or `likelihood`.", metavar="NAME")
    ] = "posterior",
    out: Annotated[str, typer.Option("--out", help="Page (HTML) or picture (PNG, SVG, PDF) to write.")] = "temper.html",
    table: Annotated[str | None, option("--table", say="CSV or JSON file to write, too.", metavar="FILE")] = None,
    overwrite: Overwrite = False,
    dask: Annotated[
        str | None,
        option("--dask", say="Run on the workers of a Dask cluster: its address, or `local`.", metavar="ADDRESS"),
    ] = None,
) -> None:
    """Sample the posterior at several temperatures and compare scores of the held-out rows with those at T = 1.

    Takes the settings and options of `ergonet fit`, whose `--time-limit` here holds for each temperature. Each
    temperature is a fit of its own from the same seed. A colder posterior that predicts better says that prior or
    likelihood is wrong for these rows, or that chains did not reach the posterior. Differences are paired over rows;
    those within their errors are labeled as noise.
    """
    with errors_in_one_line():
        from ergonet.cli import executors

        chosen = resolved(given, settings)
        wanted = _Wanted.checked(temperatures, form, out, table, overwrite=overwrite)
        with executors.chosen(dask=dask) as executor:
            run(chosen, wanted, executor=executor)


@dataclass(frozen=True)
class _Wanted:
    """What is to be done, and where it goes.

    Attributes:
        temperatures: ascending, 1 among them.
        form: what is tempered.
        out: page or picture.
        table: CSV or JSON file; None: none.
    """

    temperatures: list[float]
    form: str
    out: Path
    table: Path | None

    @staticmethod
    def checked(temperatures: str | None, form: str, out: str, table: str | None, *, overwrite: bool) -> "_Wanted":
        """Check the options before anything is computed."""
        if form not in _ABOUT:
            raise SettingError(f"`--form` must be 'posterior' or 'likelihood', got {form!r}.")
        if Path(out).suffix.lower() == ".html":
            check_file(Path(out), overwrite=overwrite)
        else:
            check_picture(out, overwrite=overwrite)
        if table is not None:
            if Path(table).suffix.lower() not in (".csv", ".json"):
                raise SettingError(f"`--table` must be a .csv or .json file, got {table!r}.")
            check_file(Path(table), overwrite=overwrite)
        from ergonet.comparison.temperatures import TEMPERATURES, with_one

        try:
            given = TEMPERATURES if temperatures is None else [float(one) for one in temperatures.split(",")]
        except ValueError as error:
            raise SettingError(f"`--temperatures` must be numbers with commas, got {temperatures!r}.") from error
        return _Wanted(with_one(given), form, Path(out), None if table is None else Path(table))


@dataclass(frozen=True)
class _Job:
    """The fit at a temperature and its scores in the units of the table; it can be sent to another process."""

    temperature: float
    form: str
    target: Any
    kernel: Any
    arguments: dict[str, Any]
    rows: tuple[Any, Any]
    preprocessing: Any

    def __call__(self) -> "HeldOutScores":
        import warnings

        from ergonet import sample, tempered
        from ergonet._errors import SamplingWarning
        from ergonet.cli.fitting import keep_compiled_programs
        from ergonet.comparison.scored import score_rows
        from ergonet.comparison.sources import Known

        keep_compiled_programs()
        target = tempered(self.target, self.temperature, self.form)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)  # R-hat and divergences are in the table
            samples = sample(target, self.kernel, progress=False, **self.arguments)
        return score_rows(Known(samples, None, self.preprocessing), *self.rows)


def run(settings: "Settings", wanted: _Wanted, *, executor: Executor | None = None) -> "TemperatureSweep":
    """Sample, score, print the table and what it means, and write the files.

    Args:
        settings: resolved settings, before the data are known.
        wanted: temperatures, form and files.
        executor: runs the fits; None: one after the other, in this process.

    Raises:
        ErgonetError: the data or the settings cannot be used.
    """
    from ergonet.assembly import build
    from ergonet.cli import fitting, loading
    from ergonet.comparison.temperatures import sweep_of

    dataset = loading.load_data(settings.data, seed=settings.run.seed, likelihood=settings.likelihood)
    if not len(dataset.x_test):
        raise DataError("`ergonet temper` needs held-out rows: give `--test-fraction` above 0, or `--test-file`.")
    build.check(settings)
    settings = _as_stated(build.complete(settings, dataset.preprocessing, dataset.y_train))
    model, kernel = build.model(settings, build.Task.of(dataset.preprocessing)), build.kernel(settings)
    target, arguments = fitting.condition(model, dataset), dict(settings.run.arguments())
    arguments |= {"time_limit": settings.run.time_limit, "until": fitting.stop_rule(settings, model, dataset)}
    parts = (target, kernel, arguments, (dataset.x_test, dataset.y_test), dataset.preprocessing)
    jobs = {one: _Job(one, wanted.form, *parts) for one in wanted.temperatures}
    sys.stdout.write(f"{visible(dataset.name)}: {len(dataset.x_train)} training rows. {_ABOUT[wanted.form]}\n")
    sys.stdout.flush()
    found = sweep_of(jobs, executor=executor, say=_say)
    _write(found, wanted, name=dataset.name, settings=settings.to_table())
    sys.stdout.write(f"{visible(str(found))}\n{_kind(wanted.out)}: {visible(str(wanted.out))}\n")
    if wanted.table is not None:
        sys.stdout.write(f"Table: {visible(str(wanted.table))}\n")
    return found


def _as_stated(settings: "Settings") -> "Settings":
    """The settings without a search for the temperature of class probabilities: they are those of the posterior."""
    likelihood = settings.likelihood
    if not isinstance(likelihood, Mapping) or likelihood.get("temperature") != CROSS_VALIDATION:
        return settings
    return replace(settings, likelihood={**likelihood, "temperature": 1.0})


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _kind(path: Path) -> str:
    return "Page" if path.suffix.lower() == ".html" else "Picture"


def _write(found: "TemperatureSweep", wanted: _Wanted, *, name: str, settings: dict[str, Any]) -> None:
    if wanted.out.suffix.lower() == ".html":
        from ergonet.report.temperatures import write_sweep

        write_sweep(found, wanted.out, name=name, about=_ABOUT[wanted.form], settings=settings)
    else:
        from ergonet import plots
        from ergonet.comparison.scored import QUANTITIES

        draws = [lambda axes, one=one: plots.temperature_plot(found, one, axes=axes) for one in QUANTITIES]
        plots.save_side_by_side(str(wanted.out), *draws, width=14.0)
    if wanted.table is None:
        return
    frame = found.frame()
    if wanted.table.suffix.lower() == ".csv":
        frame.to_csv(wanted.table)
        return
    from ergonet.draws.durable import to_json
    from ergonet.runs.metrics import as_json

    rows = frame.reset_index().to_dict(orient="records")
    content = {"form": wanted.form, "rows": found.num_rows, "temperatures": rows, "sentences": found.sentences()}
    wanted.table.write_text(to_json(as_json(content)) + "\n", encoding="utf-8")
