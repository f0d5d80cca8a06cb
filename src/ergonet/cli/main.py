"""The command `ergonet`.

Exit codes: 0 success, 1 bad input, 2 usage error, 3 fitted but the diagnostics failed under `--strict`, 124 ended
by the time limit in a phase that cannot be interrupted, 130 stopped by Ctrl-C, 143 stopped by SIGTERM. Everything heavy
is imported inside a command, after its arguments have been parsed.
"""

import io
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ergonet import __version__
from ergonet._errors import SettingError, visible
from ergonet.cli import reproduce as reproducing
from ergonet.cli.checking import check
from ergonet.cli.comparing import compare, evidence
from ergonet.cli.errors import BAD_INPUT, errors_in_one_line
from ergonet.cli.options import Given, Overwrite, Run, SettingsFile, completing, option, resolved, takes
from ergonet.cli.recalibrating import recalibrate
from ergonet.cli.serving import serve
from ergonet.cli.tempering import temper
from ergonet.inference.waiting import is_working
from ergonet.runs.directory import RunDirectory

USAGE = 2

app = typer.Typer(
    name="ergonet",
    help="Train a neural network as a posterior, not as a point.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 success, 1 invalid input or a failed check, 2 usage error, 3 the diagnostics or the "
    "calibration failed under --strict, 124 ended by the time limit, 130 stopped by Ctrl-C, 143 stopped by SIGTERM.",
)

Quiet = Annotated[bool, typer.Option("--quiet", help="Print only problems.")]
Live = Annotated[bool, typer.Option("--live", help="Write RUN-live.html, a page that shows the run while it goes on.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with code 3 if the diagnostics or the calibration fail.")]


Dask = Annotated[
    str | None,
    option("--dask", say="Run on the workers of a Dask cluster: its address, or `local`.", metavar="ADDRESS"),
]

Distributed = Annotated[
    bool, typer.Option("--distributed", help="Run on all processes that SLURM, MPI or Kubernetes has started.")
]


def main() -> None:
    """Entry point of the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # do not fail on terminals that lack some characters
    try:
        app()
    except SystemExit as end:
        if is_working():  # on what a time limit has cut off, such as a compilation, which nothing else could end
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
        raise


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
    quiet: Quiet = False,
    live: Live = False,
    dask: Dask = None,
    distributed: Distributed = False,
) -> None:
    """Fit a Bayesian neural network to DATA and write a run directory with a report.

    With `--time-limit` and no counts, a short probe chooses chains, warm-up and draws that fit in it. If it ends before
    the first draw, RUN predicts with the networks of the warm start, or else with a linear baseline, and says so.
    The settings of a run are saved in RUN/settings.toml, which can be passed to `--settings` again. Compiled programs
    are cached for the next run in the user's cache folder, XDG_CACHE_HOME/ergonet, which may be deleted at any time.
    """
    began = time.perf_counter()
    with errors_in_one_line():
        chosen, plans = resolved(given, settings), _is_to_be_planned(given, settings)
        from ergonet.cli import executors, fitting

        with executors.chosen(dask=dask, distributed=distributed):
            code = fitting.run(
                chosen, out=out, overwrite=overwrite, strict=strict, quiet=quiet, began=began, plans=plans, live=live
            )
    raise typer.Exit(code)


@app.command(short_help="Write a settings file with a comment for every setting.")
@takes("data", "network", "prior", "likelihood", "kernel", "run")
def new(
    given: Given,
    *,
    out: Annotated[str, typer.Option("--out", help="TOML file to write.", metavar="FILE")] = "ergonet.toml",
    overwrite: Overwrite = False,
) -> None:
    """Write a settings file with every setting, its description and its default, for `ergonet fit --settings`.

    Takes DATA and the options of `ergonet fit`, which are written as given; all others are commented out.
    """
    with errors_in_one_line():
        from ergonet.cli import new as writing

        path = writing.run(given, out, overwrite=overwrite)
        sys.stdout.write(f"Settings: {path}\nEdit them, then: ergonet fit --settings {path}\n")


Limit = Annotated[float | None, option("--time-limit", say="Stop sampling after so many seconds.", metavar="SECONDS")]


@app.command(short_help="Continue a fit that was killed or stopped.")
def resume(
    run: Run,
    *,
    time_limit: Limit = None,
    strict: Strict = False,
    quiet: Quiet = False,
    live: Live = False,
    dask: Dask = None,
    distributed: Distributed = False,
) -> None:
    """Continue a fit that was killed or stopped, in its warm-up too, and finish it.

    The draws are those that the fit would have made, bit for bit. This needs its data and the same versions.
    """
    began = time.perf_counter()
    with errors_in_one_line():
        from ergonet.cli import executors, resuming

        with executors.chosen(dask=dask, distributed=distributed):
            code = resuming.run(run, time_limit=time_limit, strict=strict, quiet=quiet, began=began, live=live)
    raise typer.Exit(code)


@app.command(short_help="Add draws to a run.")
@takes("run.until_ess", "run.until_rhat", "run.until_mcse", "run.until_score_mcse", "run.until_minimum")
def extend(
    given: Given,
    *,
    run: Run,
    draws: Annotated[int | None, option("--draws", say="Draws of each chain to add.", metavar="COUNT")] = None,
    time_limit: Limit = None,
    strict: Strict = False,
    quiet: Quiet = False,
    live: Live = False,
) -> None:
    """Add draws to a run, complete or not, then evaluate and report all of them.

    The draws are those of a fit with more `--draws` from the beginning, bit for bit. This needs the data of the fit.
    Give how many, or a stop rule (`--until-ess`) up to the most draws of the run.
    """
    began = time.perf_counter()
    with errors_in_one_line():
        if draws is None and not given:
            raise SettingError("Give `--draws`, or a stop rule such as `--until-ess 400`.")
        if draws is not None and draws < 1:
            raise SettingError(f"`--draws` must be at least 1, got {draws}.")
        from ergonet.assembly.settings import Settings
        from ergonet.cli import resuming

        Settings.from_table(given)  # checks them
        until, draws = given.get("run", {}), draws or 0
        code = resuming.run(
            run, draws=draws, until=until, time_limit=time_limit, strict=strict, quiet=quiet, began=began, live=live
        )
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
        chosen = resolved(given, settings)
        from ergonet.cli import prior_check as checking

        sys.stdout.write(f"{checking.run(chosen, num_draws=draws, out=out, overwrite=overwrite)}\n")


app.command(short_help="Check a model and a kernel by simulation.")(check)


@app.command(short_help="Predict new rows.")
def predict(
    run: Run,
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="Table with the input columns of the fit.", show_default=False)
    ],
    *,
    out: Annotated[str, option("--out", say="CSV or Parquet file to write.", metavar="FILE")],
    quantiles: Annotated[
        str | None, option("--quantiles", say="Probabilities with commas; 0.05,0.95 unless set.", metavar="LEVELS")
    ] = None,
    draws: Annotated[
        int, typer.Option("--draws", help="Simulated targets to add, one column each.", metavar="COUNT")
    ] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Predict new rows: mean, sd and quantiles, or label and class probabilities, one line per row.

    The columns `_aleatoric` and `_epistemic` split the uncertainty into noise, which more data would not reduce, and
    what the data leave open about the network. `outside` names the inputs outside the range of the training rows.
    CSV and Parquet files may be larger than the memory.
    """
    with errors_in_one_line():
        from ergonet.cli import predicting, stacks

        columns = predicting.Columns.parse(quantiles, draws)
        chosen = stacks if stacks.is_stack(run) else predicting
        count = chosen.run(RunDirectory(Path(run)), new, out, columns=columns, overwrite=overwrite)
        sys.stdout.write(f"Predicted {count} rows: {out}\n")


app.command(short_help="Correct what predictions state, on held-out rows.")(recalibrate)
app.command(short_help="Serve predictions over HTTP.")(serve)


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
def diagnose(
    run: Run,
    *,
    strict: Strict = False,
    weights: Annotated[bool, typer.Option("--weights", help="Also say why the weights of chains differ.")] = False,
) -> None:
    """Print the scores and diagnostics of a run, and what to change if there are problems.

    If the fit was killed, they are computed from the draws; this needs the data of the fit. With --weights, R-hat of
    the weights follows, before and after the symmetries of the network are removed, and which chains share a mode.
    """
    with errors_in_one_line():
        from ergonet.cli import summary, unfinished
        from ergonet.diagnostics import advice

        directory = RunDirectory(Path(run))
        metrics = unfinished.metrics_of(directory)
        summary.show(metrics, report=directory.report if directory.report.exists() else None)
        if weights:
            from ergonet import comparison

            summary.write(str(comparison.align(directory.read_fitted())))
        code = 3 if strict and advice.failed(metrics) else 0
    raise typer.Exit(code)


app.command(short_help="Print the log evidence of the model of a run.")(evidence)
app.command(short_help="Compare runs by what they predict.")(compare)
app.command(short_help="Compare temperatures of the posterior.")(temper)


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
        typer.Argument(
            metavar="NAME",
            help="Name of a reproduction; omit it to list all.",
            show_default=False,
            autocompletion=completing(reproducing.names),
        ),
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
    dask: Dask = None,
) -> None:
    """Run an experiment of a source document and compare its figures with those of the document.

    Writes DIR/NAME.json, DIR/NAME.md and pictures. The full size takes up to two hours. A run that is interrupted goes
    on where it was, from build/reproductions in the checkout. Needs a checkout of the repository.
    """
    chosen = [mode for mode, given in (("smoke", smoke), ("quick", quick), ("page", page)) if given]
    if len(chosen) > 1:
        raise typer.BadParameter("give one of them at most.", param_hint="'--smoke', '--quick', '--page'")
    with errors_in_one_line():
        from ergonet.cli import executors

        if name is None:
            for known, about in reproducing.names().items():
                sys.stdout.write(f"{known:<16}  {about}\n")
            return
        reproducing.check(name)
        with executors.chosen(dask=dask) as executor:
            text = reproducing.run(name, mode=chosen[0] if chosen else "full", seeds=seeds, out=out, executor=executor)
        sys.stdout.write(f"{text}\n")


def _is_to_be_planned(given: Given, file: str | None) -> bool:
    """Whether the options and the settings file have a time limit, and leave the counts to the library."""
    from ergonet.assembly.planning import is_open
    from ergonet.assembly.settings import merge
    from ergonet.assembly.settings_file import read_settings_file

    return is_open(merge(read_settings_file(file) if file is not None else {}, given))
