"""The summary printed at the end of a fit: a short table, and a sentence for each problem."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ergonet._errors import visible
from ergonet.cli.finishing import lacks_scores
from ergonet.diagnostics import advice
from ergonet.diagnostics.finding import FALLBACK, UNTIL, beside, needed_ess
from ergonet.diagnostics.scales import limits_of_scales
from ergonet.report import baselines, ensemble, overview, wording

Row = tuple[str, str, str]


def rows(metrics: Mapping[str, Any]) -> list[Row]:
    """Rows of the table: name, value, and what the value means or should be.

    Args:
        metrics: the content of ``metrics.json``.
    """
    return [
        *_scores(metrics),
        *baselines.summary_rows(metrics),
        *([] if metrics.get(FALLBACK) else _trust(metrics)),
        *ensemble.rows(metrics),
        *_cost(metrics),
    ]


def show(metrics: Mapping[str, Any], *, report: Path | None) -> None:
    """Print the table, the advice and the path of the report, with Rich in a terminal and plain otherwise."""
    table = rows(metrics)
    if sys.stdout.isatty():
        _show_rich(table)
    else:
        _show_plain(table)
    write("")
    for sentence in (wording.scored_draws(metrics), *baselines.sentences(metrics), *sentences(metrics)):
        if sentence:
            write(sentence)
    if report is not None:
        write(f"Report: {report}")


def sentences(metrics: Mapping[str, Any]) -> list[str]:
    """The problems, one line each, or a line that says that all checks passed."""
    off = [f"! {sentence}" for sentence in advice.advise(metrics)]
    judged = overview.judge(metrics)
    if advice.are_draws_sound(metrics) and judged.level != "good":
        off.insert(0, judged.headline)
    stopped = metrics.get("stopped_by")
    early = (
        [f"! Stopped by {stopped}: {metrics.get('num_draws')} draws of each chain are available."] if stopped else []
    )
    until = metrics.get(UNTIL) or {}
    early += [str(until["sentence"])] if until.get("met") else []
    return [*early, *off] if off else [*early, "Every check of the draws passed."]


def write(line: str) -> None:
    """Write one line to standard output, with plain spaces only and nothing that commands the terminal."""
    sys.stdout.write(f"{visible(line)}\n".replace("\N{NARROW NO-BREAK SPACE}", " "))
    sys.stdout.flush()


def _scores(metrics: Mapping[str, Any]) -> list[Row]:
    test, held = _table(metrics, "test"), metrics.get("num_test")
    if lacks_scores(metrics):
        return [("Test scores", "none", "the time limit left no time for them")]
    if not test:
        return [("Test scores", "none", "no rows were held out (--test-fraction, --test-file)")]
    errors = wording.target_errors(metrics)
    unit = "all targets together; of each:" if errors else "in the unit of the target"
    entries = (
        ("error", "Test error", True, "of {held} test rows are misclassified"),
        ("rmse", "Test RMSE", False, f"typical error on {{held}} test rows, {unit}"),
        ("mae", "Test MAE", False, "mean absolute error of the median, in the unit of the target"),
        ("deviance", "Test deviance", False, "mean Poisson deviance; lower is better"),
        ("crps", "Test CRPS", False, "continuous ranked probability score, in the unit of the target; lower is better"),
        ("nll", "Test NLL", False, "negative log predictive density, nats per row; lower is better"),
        ("calibration", "Calibration error", True, "mean difference of stated and observed frequency"),
        ("coverage_90", "90 % intervals", True, "of the test rows lie inside"),
    )
    found = []
    for key, name, percent, meaning in entries:
        if key in test:
            value, error = wording.with_error(
                wording.real(test, key), wording.real(test, f"{key}_standard_error"), percent=percent
            )
            found.append((name, f"{value} {error}".strip(), meaning.format(held=held)))
            if key == "rmse":
                found += [(f"  {target}", wording.number(one), "in its own unit") for target, one in errors.items()]
    return found


def _trust(metrics: Mapping[str, Any]) -> list[Row]:
    found = _table(metrics, "diagnostics")
    needed = needed_ess(metrics)
    median = wording.number(wording.real(found, "median_ess_bulk_function"))
    return [
        (
            "R-hat of predictions",
            _fixed(found, "max_rhat_function", 3, advice.LARGEST_RHAT),
            f"worst; at most {advice.LARGEST_RHAT}",
        ),
        (
            "ESS of predictions",
            _fixed(found, "min_ess_bulk_function", 0, float(needed)),
            f"worst (median {median}); at least {needed}",
        ),
        *_scales_trust(metrics, found),
        *(_minibatch_trust(found) if "mean_kinetic_temperature" in found else _trajectory_trust(found)),
    ]


def _scales_trust(metrics: Mapping[str, Any], found: Mapping[str, Any]) -> list[Row]:
    if "max_rhat_scales" not in found:
        return []
    allowed, wanted = limits_of_scales(metrics)
    return [
        (
            "R-hat of scales",
            _fixed(found, "max_rhat_scales", 3, allowed),
            f"worst learned scale; at most {allowed}",
        ),
        ("ESS of scales", _fixed(found, "min_ess_bulk_scales", 0, float(wanted)), f"worst; at least {wanted}"),
    ]


def _trajectory_trust(found: Mapping[str, Any]) -> list[Row]:
    rows = [("Divergences", _fixed(found, "divergences", 0), "none wanted")]
    if "min_ebfmi" in found:
        least = advice.SMALLEST_E_BFMI
        rows.append(("E-BFMI", _fixed(found, "min_ebfmi", 2, least), f"worst chain; at least {least}"))
    return rows


def _minibatch_trust(found: Mapping[str, Any]) -> list[Row]:
    if found["mean_kinetic_temperature"] is None:
        return []
    shown = _fixed(found, "mean_kinetic_temperature", 2, *advice.KINETIC_TEMPERATURES)
    return [("Kinetic temperature", shown, "near 1 if friction balances noise")]


def _cost(metrics: Mapping[str, Any]) -> list[Row]:
    seconds, gradients = _table(metrics, "seconds"), _table(metrics, "gradients")
    found = []
    for key, name in wording.STAGES.items():
        if key not in (seconds or wording.STAGES.keys() - {wording.WARM_START}):  # a minibatch kernel has no warm-up
            continue
        count = wording.real(gradients, key)
        of_rows = ", the optimizer's on minibatches" if key == wording.WARM_START else ""
        work = f"{wording.grouped(count)} gradients{of_rows}" if count is not None else ""
        found.append((name, wording.duration(wording.real(seconds, key)), work))
    return [
        *found,
        (
            "In all",
            wording.duration(wording.real(seconds, "total")),
            "with predictions, diagnostics and baselines, if any; without the report",
        ),
    ]


def _table(metrics: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = metrics.get(name)
    return found if isinstance(found, Mapping) else {}


def _fixed(table: Mapping[str, Any], name: str, decimals: int, *limits: float) -> str:
    value = wording.real(table, name)
    return "unknown" if value is None else beside(value, *limits, decimals=decimals)


def _show_plain(table: list[Row]) -> None:
    names, values = (max(len(row[column]) for row in table) for column in (0, 1))
    for name, value, remark in table:
        write(f"{name:<{names}}  {value:>{values}}  {remark}".rstrip())


def _show_rich(table: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, show_header=False, pad_edge=False)
    shown.add_column(style="bold")
    shown.add_column(justify="right")
    shown.add_column(style="dim")
    for row in table:
        shown.add_row(*map(visible, row))
    Console().print(shown, markup=False, highlight=False)
