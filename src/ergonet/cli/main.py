"""The command `ergonet`.

Exit codes: 0 success, 1 bad input, 2 usage error, 3 fitted but the diagnostics failed under `--strict`, 124 ended
by the time limit in a phase that cannot be interrupted, 130 stopped by Ctrl-C, 143 stopped by SIGTERM. Everything heavy
is imported inside a command, after its arguments have been parsed.
"""

import io
import sys
import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ergonet import __version__
from ergonet._errors import ErgonetError, SettingError, Terminated, visible
from ergonet.cli import signals
from ergonet.cli.options import Given, takes
from ergonet.cli.signals import SIGNAL_CODES
from ergonet.draws.faults import explain
from ergonet.runs.directory import RunDirectory

if TYPE_CHECKING:
    from ergonet.assembly.settings import Settings

BAD_INPUT, USAGE = 1, 2

app = typer.Typer(
    name="ergonet",
    help="Train a neural network as a posterior, not as a point.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 success, 1 bad input, 2 usage error, 3 fitted but the diagnostics failed under --strict, "
    "124 ended by the time limit, 130 stopped by Ctrl-C, 143 stopped by SIGTERM.",
)

Run = Annotated[str, typer.Argument(metavar="RUN", help="Run directory written by `ergonet fit`.", show_default=False)]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with code 3 if the diagnostics or the calibration fail.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing output.")]


def option(*names: str, say: str, metavar: str | None = None) -> Any:
    """An option without a default: if it is not given, its value comes from the settings."""
    return typer.Option(*names, help=say, metavar=metavar, show_default=False)


SettingsFile = Annotated[
    str | None, option("--settings", say="TOML file of settings; options override it.", metavar="FILE")
]


def main() -> None:
    """Entry point of the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # do not fail on terminals that lack some characters
    app()


def _print_version(wanted: bool) -> bool:
    if wanted:
        sys.stdout.write(f"ergonet {__version__}\n")
        raise typer.Exit
    return wanted


@app.callback()
def command(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Train a neural network as a posterior, not as a point."""


@app.command(short_help="Fit a network to a table and write a report.")
@takes("data", "network", "prior", "likelihood", "kernel", "run")
def fit(
    given: Given,
    *,
    settings: SettingsFile = None,
    out: Annotated[
        str | None, option("--out", say="Run directory to write; NAME-run unless set.", metavar="RUN")
    ] = None,
    overwrite: Overwrite = False,
    strict: Strict = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only problems.")] = False,
) -> None:
    """Fit a Bayesian neural network to DATA and write a run directory with a report.

    With `--time-limit` and no counts, a short probe chooses chains, warm-up and draws that fit in it.
    The settings of a run are saved in RUN/settings.toml, which can be passed to `--settings` again. Compiled programs
    are cached for the next run in the user's cache folder, XDG_CACHE_HOME/ergonet, which may be deleted at any time.
    """
    began = time.perf_counter()
    with errors_in_one_line():
        resolved, plans = _resolved(given, settings), _is_to_be_planned(given, settings)
        from ergonet.cli import fitting

        code = fitting.run(resolved, out=out, overwrite=overwrite, strict=strict, quiet=quiet, began=began, plans=plans)
    raise typer.Exit(code)


Limit = Annotated[float | None, option("--time-limit", say="Stop sampling after so many seconds.", metavar="SECONDS")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only problems.")]


@app.command(short_help="Continue a fit that was killed or stopped.")
def resume(run: Run, *, time_limit: Limit = None, strict: Strict = False, quiet: Quiet = False) -> None:
    """Continue a fit that was killed or stopped, in its warm-up too, and finish it.

    The draws are those that the fit would have made, bit for bit. This needs its data and the same versions.
    """
    began = time.perf_counter()
    with errors_in_one_line():
        from ergonet.cli import resuming

        code = resuming.run(run, time_limit=time_limit, strict=strict, quiet=quiet, began=began)
    raise typer.Exit(code)


@app.command(short_help="Add draws to a run.")
def extend(
    run: Run,
    *,
    draws: Annotated[int, option("--draws", say="Draws of each chain to add.", metavar="COUNT")],
    time_limit: Limit = None,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Add draws to a run, complete or not, then evaluate and report all of them.

    The draws are those of a fit with more `--draws` from the beginning, bit for bit. This needs the data of the fit.
    """
    began = time.perf_counter()
    with errors_in_one_line():
        if draws < 1:
            raise SettingError(f"`--draws` must be at least 1, got {draws}.")
        from ergonet.cli import resuming

        code = resuming.run(run, draws=draws, time_limit=time_limit, strict=strict, quiet=quiet, began=began)
    raise typer.Exit(code)


@app.command("prior-check", short_help="Draw functions from the prior, before any data.")
@takes("data", "network", "prior", "likelihood", "run.seed")
def prior_check(
    given: Given,
    *,
    settings: SettingsFile = None,
    draws: Annotated[int, typer.Option("--draws", help="Functions to draw.", metavar="COUNT")] = 200,
    out: Annotated[str, typer.Option("--out", help="Picture to write: PNG, SVG or PDF.")] = "prior-check.png",
    overwrite: Overwrite = False,
) -> None:
    """Draw functions from the prior for DATA and compare them with the range of the target.

    Takes the settings and options of `ergonet fit`. Nothing is sampled, so it takes seconds.
    """
    with errors_in_one_line():
        resolved = _resolved(given, settings)
        from ergonet.cli import prior_check as checking

        sys.stdout.write(f"{checking.run(resolved, num_draws=draws, out=out, overwrite=overwrite)}\n")


@app.command(short_help="Predict new rows.")
def predict(
    run: Run,
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="Table with the input columns of the fit.", show_default=False)
    ],
    *,
    out: Annotated[str, option("--out", say="CSV or Parquet file to write.", metavar="FILE")],
    overwrite: Overwrite = False,
) -> None:
    """Predict new rows: mean, sd, 5 % and 95 % quantiles, or label and class probabilities, one line per row."""
    with errors_in_one_line():
        from ergonet.cli import predicting

        count = predicting.run(RunDirectory(Path(run)), new, out, overwrite=overwrite)
        sys.stdout.write(f"Predicted {count} rows: {out}\n")


@app.command(short_help="Write the report again.")
def report(run: Run) -> None:
    """Write RUN/report.html again from the contents of the run directory.

    If the fit was killed, its scores and diagnostics are computed from the draws; this needs the data of the fit.
    """
    with errors_in_one_line():
        from ergonet.cli import unfinished
        from ergonet.report import write_report

        directory = RunDirectory(Path(run))
        sys.stdout.write(f"Report: {write_report(unfinished.record_of(directory), directory.report)}\n")


@app.command(short_help="Print scores and diagnostics of a run.")
def diagnose(run: Run, *, strict: Strict = False) -> None:
    """Print the scores and diagnostics of a run, and what to change if there are problems.

    If the fit was killed, they are computed from the draws; this needs the data of the fit.
    """
    with errors_in_one_line():
        from ergonet.cli import summary, unfinished
        from ergonet.diagnostics import advice

        directory = RunDirectory(Path(run))
        metrics = unfinished.metrics_of(directory)
        summary.show(metrics, report=directory.report if directory.report.exists() else None)
        code = 3 if strict and advice.failed(metrics) else 0
    raise typer.Exit(code)


@app.command(short_help="Check every file of a run for damage.")
def verify(
    run: Run,
    *,
    replay: Annotated[bool, typer.Option("--replay", help="Also sample the first draws again and compare.")] = False,
    seconds: Annotated[float, typer.Option("--seconds", help="Time for --replay, with the warm-up.")] = 60.0,
) -> None:
    """Read every file of a run directory, compare it with its checksum, and exit with code 1 if one is damaged.

    With --replay, sample its beginning again, from its data and settings, and exit with code 1 if a bit differs.
    """
    with errors_in_one_line():
        from ergonet.cli import verifying

        directory = RunDirectory(Path(run))
        lines, is_intact = verifying.verify(directory)
        sys.stdout.write(visible("\n".join(lines)) + "\n")
        if replay and is_intact:
            from ergonet.cli import replaying

            sentence, is_intact = replaying.replay(directory, seconds=seconds)
            sys.stdout.write(f"{visible(sentence)}\n")
    raise typer.Exit(0 if is_intact else BAD_INPUT)


@app.command(short_help="List the built-in data sets.")
def datasets() -> None:
    """List the built-in data sets and their default settings."""
    from ergonet.assembly.settings import in_words
    from ergonet.datasets.registry import names

    described = names()
    width = max(map(len, described))
    for name, description in described.items():
        sys.stdout.write(f"{name:<{width}}  {description}\n{'':<{width}}  {in_words(name)}\n")
    sys.stdout.write("\nTables of your own: ergonet fit table.csv --target COLUMN\n")


@app.command(short_help="Reproduce a table of a source document.")
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of a reproduction; omit it to list all.", show_default=False),
    ] = None,
    *,
    smoke: Annotated[bool, typer.Option("--smoke", help="Takes seconds; shows that it works.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Up to 3 minutes on 2 cores.")] = False,
    page: Annotated[
        bool,
        typer.Option("--page", help="Write the page of a finished run again, for instance after editing its remarks."),
    ] = False,
    seeds: Annotated[int | None, option("--seeds", say="Repetitions of every row.", metavar="COUNT")] = None,
    out: Annotated[str, typer.Option("--out", help="Folder to write.", metavar="DIR")] = "reproductions",
) -> None:
    """Run an experiment of a source document and compare its figures with those of the document.

    Writes DIR/NAME.json, DIR/NAME.md and pictures. The full size takes up to two hours. Needs a checkout of the
    repository.
    """
    chosen = [mode for mode, given in (("smoke", smoke), ("quick", quick), ("page", page)) if given]
    if len(chosen) > 1:
        raise typer.BadParameter("give one of them at most.", param_hint="'--smoke', '--quick', '--page'")
    with errors_in_one_line():
        from ergonet.cli import reproduce as reproducing

        if name is None:
            for known, about in reproducing.names().items():
                sys.stdout.write(f"{known:<16}  {about}\n")
            return
        text = reproducing.run(name, mode=chosen[0] if chosen else "full", seeds=seeds, out=out)
        sys.stdout.write(f"{text}\n")


def _resolved(given: Given, file: str | None) -> "Settings":
    """The settings of a fit from the given options and a settings file."""
    from ergonet.assembly.settings import read_settings_file, resolve

    source = given.get("data", {}).pop("source", None)
    return resolve(source, read_settings_file(file) if file is not None else {}, given)


def _is_to_be_planned(given: Given, file: str | None) -> bool:
    """Whether the options and the settings file have a time limit, and leave the counts to the library."""
    from ergonet.assembly.settings import merge, read_settings_file
    from ergonet.cli.planning import is_open

    return is_open(merge(read_settings_file(file) if file is not None else {}, given))


@contextmanager
def errors_in_one_line() -> Generator[None]:
    """Report errors of the user or the system, and signals, in one line on standard error with an exit code."""
    with warnings.catch_warnings(), signals.handled() as found:
        warnings.showwarning = _show_warning
        try:
            yield
        except (ErgonetError, OSError, MemoryError) as error:
            sys.stderr.write(f"Error: {_one_line(error)} {found.kept()}".rstrip() + "\n")
            raise typer.Exit(found.code if found.received else BAD_INPUT) from error
        except KeyboardInterrupt as error:
            sys.stderr.write(f"{str(error) or found.kept() or 'Interrupted before there were any draws.'}\n")
            raise typer.Exit(SIGNAL_CODES + (SIGTERM if isinstance(error, Terminated) else SIGINT)) from error
        if found.received is not None:
            sys.stderr.write(f"{found.kept() or 'Stopped.'}\n")
            raise typer.Exit(found.code)


def _one_line(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, OSError) and not isinstance(error, ErgonetError):
        text = explain(error)
    elif isinstance(error, MemoryError) and not isinstance(error, ErgonetError):
        text = f"There is not enough memory. {text}"
    return " ".join(visible(text).split()) or type(error).__name__


def _show_warning(message: Any, category: Any, *_where: Any) -> None:
    if issubclass(category, UserWarning):
        sys.stderr.write(f"Warning: {' '.join(visible(str(message)).split())}\n")
