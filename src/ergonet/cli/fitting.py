"""`ergonet fit`: from a table to a run directory."""

import dataclasses
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import closing
from importlib import import_module
from itertools import pairwise
from signal import SIGINT, SIGTERM
from typing import TYPE_CHECKING, Any

from ergonet._errors import (
    SamplingWarning,
    Terminated,
    TimeLimitError,
    visible,
)
from ergonet.assembly.settings import Settings
from ergonet.cli import executors, loading, signals, viewing
from ergonet.cli.deadline import Deadline
from ergonet.cli.loading import name_of
from ergonet.datasets import registry
from ergonet.runs.claiming import claim_run
from ergonet.runs.directory import RunDirectory
from ergonet.samplers.registry import KERNELS

if TYPE_CHECKING:
    from ergonet.datasets.dataset import Dataset
    from ergonet.draws.replacement import Claim
    from ergonet.draws.samples import Samples
    from ergonet.draws.store import ZarrStore
    from ergonet.inference.progress import AbstractProgress
    from ergonet.report.live import LivePage

FINE, OFF = 0, 3


def run(
    settings: Settings,
    *,
    out: str | None,
    overwrite: bool,
    strict: bool,
    quiet: bool,
    began: float,
    plans: bool = False,
    live: bool = False,
) -> int:
    """Fit, evaluate and report.

    Args:
        settings: resolved settings, before the data are known.
        out: the run directory; None: a new name derived from the data.
        overwrite: replace an existing run directory.
        strict: whether the command fails if the diagnostics fail.
        quiet: print only problems.
        began: `time.perf_counter()` at the start of the command.
        plans: whether numbers of chains, warm-up transitions and draws are chosen to fit in the time limit.
        live: whether to write a page that shows the run while it goes on.

    Returns:
        The exit code.

    Raises:
        ErgonetError: the data, the settings or the directory cannot be used.
    """
    with closing(claim_run(out, name_of(settings.data), overwrite=overwrite)) as claim:
        watch(settings, claim, began=began)
        dataset = loading.load_data(settings.data, seed=settings.run.seed, likelihood=settings.likelihood)
        with viewing.page(claim, wanted=live, quiet=quiet) as page:
            directory, metrics = fit(
                settings, dataset, claim, resume=False, quiet=quiet, began=began, plans=plans, page=page
            )
    return conclude(directory, metrics, strict=strict, quiet=quiet)


def watch(settings: Settings, claim: "Claim", *, began: float) -> None:
    """Let signals and the time limit say what is kept and how to go on."""
    stop = signals.active()
    stop.kept = lambda: signals.how_to_go_on(claim)
    if settings.run.time_limit is not None:
        stop.limit(settings.run.time_limit, began=began)


def fit(
    settings: Settings,
    dataset: "Dataset",
    claim: "Claim",
    *,
    resume: bool,
    quiet: bool,
    began: float,
    plans: bool = False,
    page: "LivePage | None" = None,
) -> tuple[RunDirectory, dict[str, Any]]:
    """Sample, or continue to sample, and evaluate: the complete run directory and the figures of the run."""
    keep_compiled_programs()

    from ergonet.assembly import build, temperature
    from ergonet.cli import evaluation
    from ergonet.cli.explaining import with_explanation
    from ergonet.cli.falling_back import fall_back
    from ergonet.cli.finishing import finish
    from ergonet.cli.run_store import RunStore
    from ergonet.inference.validation import validate_until

    import_module("ergonet.report")  # before the time is planned, since this may take a second of it
    build.check(settings)
    deadline = Deadline(settings.run.time_limit, began, len(dataset.x_test), started=time.perf_counter() - began)
    chosen = [] if resume else build.left_open(settings)
    settings = settings if resume else build.complete(settings, dataset.preprocessing, dataset.y_train)
    model, kernel = build.model(settings, build.Task.of(dataset.preprocessing)), build.kernel(settings)
    target = condition(model, dataset)
    counts = {"num_chains": settings.run.num_chains, "num_draws": settings.run.num_draws}
    validate_until(stop_rule(settings, model, dataset), target, kernel, None, **counts)  # before anything takes long
    settings, said = temperature.settled(settings, target, dataset.y_train, kernel, seconds=deadline.left_to_sample)
    if said:
        model = build.model(settings, build.Task.of(dataset.preprocessing))
        target = condition(model, dataset)
    if plans:
        settings = _planned(settings, target, kernel, quiet=quiet, deadline=deadline)
    plan = evaluation.plan_predictions(
        settings,
        rows=len(dataset.x_test),
        outputs=len(dataset.preprocessing.classes) or len(dataset.preprocessing.target_names),
        classes=dataset.task == "classification",
    )
    if not quiet:
        told = _columns(settings, dataset)
        told += f"{visible(said)}\n" if said else ""
        sys.stdout.write(f"{visible(_header(settings, dataset, model, chosen))}\n{told}{plan}\n")
        sys.stdout.flush()
    before = time.perf_counter() - began
    store = RunStore(claim, settings, dataset.preprocessing, resume=resume)
    try:
        shown = viewing.progress(page, target, quiet=quiet)
        rule = stop_rule(settings, model, dataset)
        samples = _sample(target, kernel, settings, rule=rule, store=store, shown=shown, deadline=deadline)
    except TimeLimitError as error:
        return fall_back(error, settings, dataset, claim, began=began)
    directory, stop = RunDirectory(claim.folder), signals.active()
    if stop.received == SIGTERM:  # whoever sends it does not wait for long
        raise Terminated
    with stop.deferred(SIGINT, doing="evaluation"):
        evaluated = time.perf_counter()
        found = evaluation.evaluate(samples, dataset, model, deadline=deadline)
        compared = time.perf_counter()
        found = evaluation.with_baselines(found, settings, dataset, left=deadline.left)
        explained = time.perf_counter()
        found = with_explanation(found, samples, dataset, model, limit=deadline.limit, left=deadline.left)
        seconds = _seconds(samples.seconds, before=before, began=(evaluated, compared, explained))
        metrics = evaluation.metrics_of(settings, dataset, samples, found, seconds=seconds)
        finish(directory, metrics, found.arrays, samples)
    return directory, metrics


def _seconds(run: Mapping[str, float], *, before: float, began: tuple[float, float, float]) -> dict[str, float]:
    """Seconds of each stage, given those of the run and before it, and when what follows it began."""
    times = [*began, time.perf_counter()]
    of_stages = [end - start for start, end in pairwise(times)]
    seconds = dict(run) | dict(zip(("prediction", "baselines", "explanation"), of_stages, strict=True))
    seconds["total"] = run.get("total", 0.0) + before + times[-1] - times[0]
    seconds["setup"] = before + run.get("setup", 0.0)
    return seconds


def keep_compiled_programs() -> None:
    """Cache compiled programs, as `ergonet.inference.compiled` says; if that fails, warn."""
    from ergonet.inference import compiled

    if reason := compiled.keep_compiled_programs():
        warnings.warn(reason, UserWarning, stacklevel=2)


def _planned(settings: Settings, target: Any, kernel: Any, *, quiet: bool, deadline: Deadline) -> Settings:
    """The settings with counts that fit in the time limit, for a kernel of all rows."""
    from ergonet.assembly import planning
    from ergonet.samplers.base import AbstractKernel

    if isinstance(kernel, AbstractKernel):
        until = time.perf_counter() + (deadline.left_to_sample or 0.0)
        chosen, said = planning.planned(settings, target, kernel, until=until)
    else:  # a short warm-up from a draw of the prior would predict worse than a line
        chosen = settings
        said = (
            "No counts are planned for a minibatch kernel: the draws that the time limit leaves come after "
            f"{settings.run.num_warmup} epochs of warm-up. `--warm-start adam` finds networks that predict before."
        )
    if not quiet:
        sys.stdout.write(f"{said}\n")
    return chosen


def condition(model: Any, dataset: "Dataset") -> Any:
    """The posterior given the training rows; predictions of the test rows, if there are any, are monitored."""
    reference = dataset.x_test if len(dataset.x_test) else None
    return model.condition(dataset.x_train, dataset.y_train, reference=reference, weights=dataset.weights)


def stop_rule(settings: Settings, model: Any, dataset: "Dataset") -> Any:
    """The stop rule of the settings, with the held-out rows if it judges their score; None: there is none."""
    from ergonet.inference.until import Until

    rule = Until.of(settings.run.until)
    if rule is None or rule.score_mcse is None or not len(dataset.x_test):
        return rule
    return dataclasses.replace(rule, held_out=model.condition(dataset.x_test, dataset.y_test))


def conclude(directory: RunDirectory, metrics: Any, *, strict: bool, quiet: bool) -> int:
    """Print the summary and return the exit code."""
    from ergonet.cli import summary
    from ergonet.cli.run_store import how_to_continue
    from ergonet.diagnostics import advice
    from ergonet.draws.replacement import is_unfinished
    from ergonet.inference.drive import TIME_LIMIT

    if quiet:
        for sentence in advice.advise(metrics):
            sys.stderr.write(f"{sentence}\n")
    else:
        summary.show(metrics, report=directory.report if directory.report.exists() else None)
    is_told = signals.active().received is not None
    if not is_told and (metrics.get("stopped_by") == TIME_LIMIT or is_unfinished(directory.path)):
        (sys.stderr if quiet else sys.stdout).write(f"The run was stopped: {how_to_continue(directory.path)}\n")
    return OFF if strict and advice.failed(metrics) else FINE


def _header(settings: Settings, dataset: "Dataset", model: Any, chosen: list[str]) -> str:
    """What is about to be done, and which parts of it were chosen from the data."""
    from ergonet.inference.until import Until
    from ergonet.report.wording import plural

    run, start = settings.run, settings.run.warm_start
    started = "" if start is None else f" from {start if isinstance(start, str) else start['name']}"
    by_table = f" Chosen from the data: {', '.join(chosen)}." if chosen else ""
    units = "-".join(map(str, model.network.sizes)) + " with direct connections" * settings.network.direct
    rule = Until.of(run.until)
    fewest = run.num_draws if rule is None else rule.minimum
    draws = f"{fewest} to {run.num_draws}" if fewest < run.num_draws else f"{run.num_draws}"
    held = f"{len(dataset.x_test)} held out" if len(dataset.x_test) else "none held out"
    return (
        f"{dataset.name}: {dataset.task}, {len(dataset.x_train)} training rows, {held}. "
        f"Network {units}, {settings.network.activation}, {model.dim} parameters. "
        f"{KERNELS.entry(settings.kernel['name']).attribute}{started}, {plural(run.num_chains, 'chain')} x "
        f"({run.num_warmup} warm-up + {draws} draws).{by_table}"
    )


def _columns(settings: Settings, dataset: "Dataset") -> str:
    """What was told of a table and its columns; nothing for built-in data sets."""
    if settings.data.source in registry.DATASETS:
        return ""
    from ergonet.datasets.overview import in_words

    how = f" ({dataset.said})" if dataset.said else ""
    weights = f"  {'weight':<12} {settings.data.weights}\n" if settings.data.weights else ""
    return visible(f"Columns of {settings.data.source}{how}:\n{in_words(dataset.preprocessing)}\n{weights}")


def _sample(
    target: Any,
    kernel: Any,
    settings: Settings,
    *,
    rule: Any,
    store: "ZarrStore",
    shown: "AbstractProgress",
    deadline: Deadline,
) -> "Samples":
    """Sample; after Ctrl-C return what every chain has finished, even if it came while draws were being collected."""
    import ergonet

    run = settings.run
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)  # the advice at the end reports these
            return ergonet.sample(
                target,
                kernel,
                store=store,
                resume=store.resumes,
                executor=executors.active(),
                progress=signals.BetweenChunks(shown, signals.active()),
                time_limit=deadline.left_to_sample,
                **(run.arguments() | {"until": rule}),
            )
    except TimeLimitError as error:
        error.args = (f"`--time-limit` is {run.time_limit} s, with time for the report: {error}",)
        raise
    except KeyboardInterrupt:
        directory = RunDirectory(store.path.parent)
        if not directory.has_draws():
            raise
        stopped = ergonet.load(directory.draws, target=target)
        return dataclasses.replace(stopped, about={**stopped.about, "stopped_by": "Ctrl-C"})
