"""The command `ergonet`.

Exit codes: 0 fine, 1 bad input, 2 usage, 3 fitted but the diagnostics failed under `--strict`, 130 interrupted with
nothing to keep. Everything heavy is imported inside a command, after its arguments have been parsed.
"""

import io
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ergonet import __version__
from ergonet._errors import ErgonetError, SettingError
from ergonet.cli.run_directory import RunDirectory

BAD_INPUT, USAGE, INTERRUPTED = 1, 2, 130

app = typer.Typer(
    name="ergonet",
    help="Train a neural network as a posterior, not as a point.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 fine, 1 bad input, 2 usage, 3 fitted but the diagnostics failed under --strict.",
)

Run = Annotated[str, typer.Argument(metavar="RUN", help="Run directory that `ergonet fit` wrote.", show_default=False)]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 3 where the diagnostics failed.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]


def option(*names: str, say: str, metavar: str | None = None) -> Any:
    """An option without a default of its own: what is not given comes from the settings."""
    return typer.Option(*names, help=say, metavar=metavar, show_default=False)


Source = Annotated[
    str | None,
    typer.Argument(metavar="DATA", help="CSV, TSV, Parquet or NPZ file, or a built-in name.", show_default=False),
]
Target = Annotated[list[str] | None, option("--target", say="Column to predict; repeat for several.", metavar="COLUMN")]
Task = Annotated[
    str | None,
    option("--task", say="classification or regression; told from the target unless set.", metavar="TASK"),
]
OneHot = Annotated[bool | None, option("--one-hot/--no-one-hot", say="Turn columns of categories into 0/1 columns.")]
Folder = Annotated[
    str | None,
    option("--data", say="Folder with the files of mnist, fashion-mnist or cifar10; else ERGONET_DATA.", metavar="DIR"),
]
Fetch = Annotated[bool | None, option("--fetch", say="Download those from OpenML instead.")]
Hidden = Annotated[
    str | None, option("--hidden", say="Units of the hidden layers: 35, or 20,20; none: linear.", metavar="UNITS")
]
Activation = Annotated[
    str | None, option("--activation", say="tanh, relu, sigmoid, silu, gelu or softplus.", metavar="NAME")
]
Bias = Annotated[bool | None, option("--bias/--no-bias", say="Whether layers have biases.")]
Prior = Annotated[
    str | None,
    option(
        "--prior",
        say="normal, fan-in-normal, laplace, student-t, uniform, normal-gamma, horseshoe or regularized-horseshoe.",
        metavar="NAME",
    ),
]
PriorScale = Annotated[float | None, option("--prior-scale", say="Scale of the prior.", metavar="NUMBER")]
Likelihood = Annotated[
    str | None,
    option("--likelihood", say="categorical, bernoulli, gaussian or heteroscedastic-gaussian.", metavar="NAME"),
]
Noise = Annotated[
    float | None,
    option("--noise", say="Known noise: a standard deviation in the unit of the target.", metavar="SD"),
]
Seed = Annotated[int | None, option("--seed", say="Of the split and of the chains; 0 unless set.", metavar="NUMBER")]
SettingsFile = Annotated[
    str | None, option("--settings", say="TOML file of settings; options override it.", metavar="FILE")
]


def main() -> None:
    """Entry point of the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without some sign is no reason to fail
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"ergonet {__version__}\n")
        raise typer.Exit


@app.callback()
def command(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Train a neural network as a posterior, not as a point."""


@app.command(short_help="Fit a network to a table and write a report.")
def fit(
    source: Source = None,
    *,
    target: Target = None,
    test_fraction: Annotated[
        float | None,
        option("--test-fraction", say="Share of the rows that is held out; 0.2 unless set.", metavar="SHARE"),
    ] = None,
    test_file: Annotated[str | None, option("--test-file", say="Test rows of their own.", metavar="FILE")] = None,
    task: Task = None,
    one_hot: OneHot = None,
    data: Folder = None,
    fetch: Fetch = None,
    hidden: Hidden = None,
    activation: Activation = None,
    bias: Bias = None,
    prior: Prior = None,
    prior_scale: PriorScale = None,
    likelihood: Likelihood = None,
    noise: Noise = None,
    kernel: Annotated[
        str | None,
        option(
            "--kernel",
            say="nuts, xhmc, hmc, windowed, mala, random-walk, gibbs, dynamical-a or -b; settings: [kernel] of a file.",
            metavar="NAME",
        ),
    ] = None,
    chains: Annotated[int | None, option("--chains", say="Independent chains; 4 unless set.", metavar="COUNT")] = None,
    warmup: Annotated[
        int | None, option("--warmup", say="Transitions of each that tune the sampler.", metavar="COUNT")
    ] = None,
    draws: Annotated[int | None, option("--draws", say="Draws of each that are kept.", metavar="COUNT")] = None,
    thin: Annotated[
        int | None, option("--thin", say="Transitions for each kept draw; 1 unless set.", metavar="COUNT")
    ] = None,
    seed: Seed = None,
    devices: Annotated[
        int | None, option("--devices", say="Cores (or accelerators) to use; all unless set.", metavar="COUNT")
    ] = None,
    time_limit: Annotated[
        float | None,
        option("--time-limit", say="Stop after so many seconds and keep the draws.", metavar="SECONDS"),
    ] = None,
    settings: SettingsFile = None,
    out: Annotated[
        str | None, option("--out", say="Run directory to write; NAME-run unless set.", metavar="RUN")
    ] = None,
    overwrite: Overwrite = False,
    strict: Strict = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say only what is off.")] = False,
) -> None:
    """Fit a Bayesian neural network to DATA and write a run directory with a report.

    The settings of a run are saved in RUN/settings.toml, which `--settings` takes again. Compiled programs are kept
    for the next run in the user's cache folder, XDG_CACHE_HOME/ergonet; it may be deleted at any time.
    """
    began = time.perf_counter()
    options = {
        "data": {
            "target": target or None,
            "test_fraction": test_fraction,
            "test_file": test_file,
            "task": task,
            "one_hot": one_hot,
            "folder": data,
            "fetch": fetch,
        },
        "network": {"hidden": parse_hidden(hidden), "activation": activation, "bias": bias},
        "prior": {"name": prior, "scale": prior_scale},
        "likelihood": {"name": likelihood, "noise": noise},
        "kernel": {"name": kernel},
        "run": {
            "num_chains": chains,
            "num_warmup": warmup,
            "num_draws": draws,
            "thin": thin,
            "seed": seed,
            "devices": devices,
            "time_limit": time_limit,
        },
    }
    with errors_in_one_line():
        from ergonet.cli.settings import read_settings_file, resolve

        resolved = resolve(source, read_settings_file(settings) if settings is not None else {}, _given(options))
        from ergonet.cli import fitting

        code = fitting.run(resolved, out=out, overwrite=overwrite, strict=strict, quiet=quiet, began=began)
    raise typer.Exit(code)


@app.command("prior-check", short_help="Draw functions from the prior, before any data.")
def prior_check(
    source: Source = None,
    *,
    target: Target = None,
    task: Task = None,
    one_hot: OneHot = None,
    data: Folder = None,
    fetch: Fetch = None,
    hidden: Hidden = None,
    activation: Activation = None,
    bias: Bias = None,
    prior: Prior = None,
    prior_scale: PriorScale = None,
    likelihood: Likelihood = None,
    noise: Noise = None,
    seed: Seed = None,
    settings: SettingsFile = None,
    draws: Annotated[int, typer.Option("--draws", help="Functions to draw.", metavar="COUNT")] = 200,
    out: Annotated[str, typer.Option("--out", help="Picture to write: PNG, SVG or PDF.")] = "prior-check.png",
) -> None:
    """Draw functions from the prior for DATA, and set them beside the range of the target.

    Takes the settings and options of `ergonet fit`. No sampling: seconds.
    """
    options = {
        "data": {"target": target or None, "task": task, "one_hot": one_hot, "folder": data, "fetch": fetch},
        "network": {"hidden": parse_hidden(hidden), "activation": activation, "bias": bias},
        "prior": {"name": prior, "scale": prior_scale},
        "likelihood": {"name": likelihood, "noise": noise},
        "run": {"seed": seed},
    }
    with errors_in_one_line():
        from ergonet.cli.settings import read_settings_file, resolve

        resolved = resolve(source, read_settings_file(settings) if settings is not None else {}, _given(options))
        from ergonet.cli import prior_check as checking

        sys.stdout.write(f"{checking.run(resolved, num_draws=draws, out=out)}\n")


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
    """Predict new rows: mean, sd, 5 % and 95 % quantiles, or label and class probabilities, a row each."""
    with errors_in_one_line():
        from ergonet.cli import predicting

        count = predicting.run(RunDirectory(Path(run)), new, out, overwrite=overwrite)
        sys.stdout.write(f"Predicted {count} rows: {out}\n")


@app.command(short_help="Write the report again.")
def report(run: Run) -> None:
    """Write RUN/report.html again from what is in the run directory."""
    with errors_in_one_line():
        from ergonet.report import RunRecord, write_report

        directory = RunDirectory(Path(run))
        sys.stdout.write(f"Report: {write_report(RunRecord.load(directory.path), directory.report)}\n")


@app.command(short_help="Print scores and diagnostics of a run.")
def diagnose(run: Run, *, strict: Strict = False) -> None:
    """Print the scores and diagnostics of a run, and what to change where something is off."""
    with errors_in_one_line():
        from ergonet.cli import summary
        from ergonet.diagnostics import advice

        directory = RunDirectory(Path(run))
        metrics = directory.read_metrics()
        summary.show(metrics, report=directory.report if directory.report.exists() else None)
        code = 3 if strict and advice.failed(metrics) else 0
    raise typer.Exit(code)


@app.command(short_help="List the built-in data sets.")
def datasets() -> None:
    """List the built-in data sets and the settings that they are fitted with unless others are given."""
    from ergonet.cli.defaults import in_words
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
        typer.Argument(metavar="NAME", help="Reproduction; all are listed unless given.", show_default=False),
    ] = None,
    *,
    smoke: Annotated[bool, typer.Option("--smoke", help="Seconds: shows that it works.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Up to 3 minutes on 2 cores.")] = False,
    page: Annotated[
        bool, typer.Option("--page", help="Write the page of a finished run again, as after a change of its remarks.")
    ] = False,
    seeds: Annotated[int | None, option("--seeds", say="Repetitions of every row.", metavar="COUNT")] = None,
    out: Annotated[str, typer.Option("--out", help="Folder to write.", metavar="DIR")] = "reproductions",
) -> None:
    """Run an experiment of a source document, and set its figures beside the document's.

    Writes DIR/NAME.json, DIR/NAME.md and pictures. Full size takes up to two hours. Needs a checkout of the
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


def _given(options: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Without what was not given."""
    return {name: {key: one for key, one in table.items() if one is not None} for name, table in options.items()}


def parse_hidden(text: str | None) -> list[int] | None:
    """Units of hidden layers from `35`, `20,20` or `none`; leaves the refusal of anything else to usage errors."""
    if text is None:
        return None
    if text.strip().lower() in ("none", ""):
        return []
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no list of whole numbers, such as 35 or 20,20.", param_hint="'--hidden'"
        ) from error


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """What a person did wrong, what the system refused, and Ctrl-C: one line on standard error and an exit code."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            yield
        except (ErgonetError, OSError, MemoryError) as error:
            sys.stderr.write(f"Error: {_one_line(error)}\n")
            raise typer.Exit(BAD_INPUT) from error
        except KeyboardInterrupt as error:
            sys.stderr.write(f"{str(error) or 'Interrupted before there was anything to keep.'}\n")
            raise typer.Exit(INTERRUPTED) from error


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if isinstance(error, SettingError | ErgonetError) else f"{type(error).__name__}: {text}"


def _show_warning(message: Any, category: Any, *_where: Any) -> None:
    if issubclass(category, UserWarning):
        sys.stderr.write(f"Warning: {' '.join(str(message).split())}\n")
