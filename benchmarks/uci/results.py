"""The page: figures of every contestant, paired differences, and what was wanted."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.page import table
from benchmarks.reliability.section import Goal
from benchmarks.uci.cells import DIAGNOSTICS, Cell
from benchmarks.uci.contestants import OURS, Contestant
from benchmarks.uci.tables import CLASSIFICATIONS, FURTHER_SPLITS, REGRESSIONS, SMALL, STANDARD_SPLITS, TINY

MC_DROPOUT = {
    "concrete": (4.83, -2.94),
    "energy": (0.54, -1.21),
    "kin8nm": (0.079, 1.14),
    "power-plant": (4.01, -2.81),
    "wine-quality-red": (0.62, -0.93),
    "yacht": (0.67, -1.25),
}
"""RMSE and log score, means of 20 splits (Gal and Ghahramani 2016)."""
LIMITS = ((2000, 180), (10_000, 600))
"""Rows up to which a fit may take so many seconds."""
CLASSIFIERS = ("linear", "boosting", "mlp")  # whose classifications ours are judged against
SCATTERED = 100.0  # nats per row between two splits
INTRODUCTION = """# Tables
Written by `{command}` on {date}. Every figure is printed by this command; nothing was filled in by hand.{quick}

- Machines: see the last table. Other programs may have run at the same time: compare processor seconds, and of one
  machine only, rather than wall times.
- Versions: {versions}.

Each contestant, table and split is a process of its own, whose time includes choosing settings, imports and compiling.
*Log score*: mean log predictive density of the test rows in the unit of the target, or log probability of their class;
higher is better. Figures are means over the standard splits {splits}, with the standard error over splits in
parentheses and the number of splits, if not all of them, in brackets. Differences are paired by split: ours minus
theirs.{other}

"""
CHANCE = """The calibration error of a test set is above 0 for right probabilities, too. *By chance* is its expectation
if every label were drawn from the probabilities of its row: differences well below it are luck. Even if
ours were exactly right, they would rarely have the lowest calibration error on every table
([figures](../decisions.md#the-calibration-error-of-a-small-test-set-is-mostly-chance-2026-11-27)).
*Overconfidence* is the mean probability of the predicted class minus the share of right ones.

"""
SOUND = """
Of our own draws the diagnostics follow, where a result has them; older ones do not.

"""
FURTHER = """
### Small tables, on further splits
The goals above are judged on five splits. Five test sets of these two tables are few rows, so here are those of splits
{first} to {last} as well, all in one table.

"""


@dataclass(frozen=True)
class Figure:
    """A figure of a cell.

    Attributes:
        title: title of its table.
        of: the figure of a cell that has scores; None: it was not measured.
        pattern: format of a value.
    """

    title: str
    of: Callable[[Cell], float | None]
    pattern: str


LOG_SCORE = Figure("Log score", lambda cell: -cell.scores["nll"], "{:.3f}")
RMSE = Figure("RMSE", lambda cell: cell.scores["rmse"], "{:.3g}")
COVERAGE = Figure("Coverage of the central 90 % interval", lambda cell: cell.scores["coverage_90"], "{:.3f}")
ERROR = Figure("Error", lambda cell: cell.scores["error"], "{:.4f}")
CALIBRATION = Figure("Calibration error", lambda cell: cell.scores["calibration"], "{:.4f}")
BY_CHANCE = Figure(
    "Calibration error by chance",
    lambda cell: cell.scores.get("calibration_by_chance"),
    "{:.4f}",
)
OVERCONFIDENCE = Figure("Overconfidence", lambda cell: cell.scores.get("overconfidence"), "{:.4f}")
DRAWS = tuple(
    Figure(title, lambda cell, name=name: cell.notes.get("diagnostics", {}).get(name), pattern)
    for title, name, pattern in zip(
        ("R-hat of predictions", "ESS of predictions, the smallest", "Divergences"),
        DIAGNOSTICS,
        ("{:.3f}", "{:.0f}", "{:.1f}"),
        strict=True,
    )
)
CPU = Figure("Processor seconds", lambda cell: cell.cpu_seconds, "{:.0f}")
WALL = Figure("Wall seconds", lambda cell: cell.seconds, "{:.0f}")


class Results:
    """The cells of a page.

    Args:
        cells: one for each contestant, table and split.
    """

    def __init__(self, cells: Iterable[Cell]):
        self.cells = {cell.place: cell for cell in cells}

    def values(self, figure: Figure, contestant: str, name: str) -> dict[int, float]:
        """A figure by split, where there are scores."""
        return {
            split: value
            for (one, table_name, split), cell in sorted(self.cells.items())
            if (one, table_name) == (contestant, name) and not cell.failed
            for value in [figure.of(cell)]
            if value is not None
        }

    def is_compared(self, peer: str, name: str) -> bool:
        """Whether a peer was run on every standard split, and did not fail on all of them."""
        cells = [self.cells.get((peer, name, split)) for split in STANDARD_SPLITS]
        return None not in cells and not all(cell.failed for cell in cells if cell is not None)

    def differences(self, figure: Figure, peer: str, name: str) -> np.ndarray:
        """Our figure minus a peer's, for every split that both have."""
        mine, theirs = self.values(figure, OURS, name), self.values(figure, peer, name)
        return np.array([mine[split] - theirs[split] for split in mine if split in theirs])


def rivals(contestants: Iterable[Contestant]) -> list[Contestant]:
    """Those of the goals of classifications, ours included."""
    return [one for one in contestants if one.name in (*CLASSIFIERS, OURS)]


def summary(values: Sequence[float] | np.ndarray, pattern: str) -> str:
    """Mean, standard error over splits, and the number of splits if some are missing."""
    if len(values) == 0:
        return "-"
    text = pattern.format(np.mean(values))
    if len(values) > 1:
        text += f" ({pattern.format(standard_error(values))})"
    return text if len(values) == len(STANDARD_SPLITS) else f"{text} [{len(values)}]"


def standard_error(values: Sequence[float] | np.ndarray) -> float:
    """Standard error of the mean; infinite for fewer than two values."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else math.inf


def count_goal(what: str, wanted: int, verdicts: dict[str, bool | None]) -> Goal:
    """A goal that counts tables; None: the table lacks results."""
    met = [name for name, verdict in verdicts.items() if verdict]
    lacking = [name for name, verdict in verdicts.items() if verdict is None]
    found = f"{len(met)} of {len(verdicts)}" + (
        f"; not measured on all splits: {', '.join(lacking)}" if lacking else ""
    )
    return Goal(what, found, f"at least {wanted} of {len(verdicts)}", len(met) >= wanted)


def _judge(
    results: Results, names: Iterable[str], peers: Iterable[str], is_good: Callable[[str, str], bool], figure: Figure
) -> dict[str, bool | None]:
    """For every table whether the condition holds against all peers; None if a split is missing.

    A split on which a peer failed is left out of its differences; one on which we failed counts as missing.
    """
    verdicts: dict[str, bool | None] = {}
    for name in names:
        ours_complete = len(results.values(figure, OURS, name)) == len(STANDARD_SPLITS)
        complete = ours_complete and all(results.is_compared(peer, name) for peer in peers)
        verdicts[name] = all(is_good(peer, name) for peer in peers) if complete else None
    return verdicts


def goals(results: Results) -> list[Goal]:
    """What was wanted, as met or not met; a table without results on all splits does not count as met."""
    learners, bde = ("forest", "boosting", "mlp"), ("bde",)

    def beats(peer: str, name: str) -> bool:
        return bool(results.differences(LOG_SCORE, peer, name).mean() > 0)

    def within(figure: Figure, errors: float) -> Callable[[str, str], bool]:
        sign = -1 if figure is LOG_SCORE else 1

        def holds(peer: str, name: str) -> bool:
            difference = sign * results.differences(figure, peer, name)
            return bool(difference.mean() <= errors * standard_error(difference))

        return holds

    def half_the_time(peer: str, name: str) -> bool:
        mine, theirs = (np.mean([*results.values(CPU, one, name).values()]) for one in (OURS, peer))
        return bool(mine <= 0.5 * theirs)

    def judge(
        names: Iterable[str], peers: Iterable[str], is_good: Callable[[str, str], bool], figure: Figure
    ) -> dict[str, bool | None]:
        return _judge(results, names, peers, is_good, figure)

    return [
        count_goal("log score better than bde's", 5, judge(REGRESSIONS, bde, beats, LOG_SCORE)),
        count_goal("RMSE no worse than bde's within 2 errors", 5, judge(REGRESSIONS, bde, within(RMSE, 2), RMSE)),
        count_goal("processor time at most half of bde's", 6, judge(REGRESSIONS, bde, half_the_time, CPU)),
        count_goal(
            "log score better than forest's, boosting's and MLP's", 6, judge(REGRESSIONS, learners, beats, LOG_SCORE)
        ),
        count_goal("RMSE best or within an error of these", 4, judge(REGRESSIONS, learners, within(RMSE, 1), RMSE)),
        count_goal("log score better than published MC dropout", 6, _against_dropout(results)),
        count_goal(
            "no split's log score below ridge's",
            6,
            judge(
                REGRESSIONS,
                ("linear",),
                lambda peer, name: bool((results.differences(LOG_SCORE, peer, name) >= 0).all()),
                LOG_SCORE,
            ),
        ),
        count_goal(
            "classes: log score best or within an error of logistic regression's, boosting's and MLP's",
            5,
            judge(CLASSIFICATIONS, CLASSIFIERS, within(LOG_SCORE, 1), LOG_SCORE),
        ),
        count_goal(
            "classes: calibration error at most theirs",
            5,
            judge(CLASSIFICATIONS, CLASSIFIERS, within(CALIBRATION, 0), CALIBRATION),
        ),
        _time_goal(results),
    ]


def _against_dropout(results: Results) -> dict[str, bool | None]:
    found = {name: [*results.values(LOG_SCORE, OURS, name).values()] for name in REGRESSIONS}
    return {
        name: bool(np.mean(one) > MC_DROPOUT[name][1]) if len(one) == len(STANDARD_SPLITS) else None
        for name, one in found.items()
    }


def _time_goal(results: Results) -> Goal:
    mine = [cell for cell in results.cells.values() if cell.contestant == OURS]
    late = [
        f"{cell.table} {cell.split}: {cell.seconds:.0f} s"
        for cell in mine
        if cell.failed or cell.seconds > next((limit for rows, limit in LIMITS if cell.rows <= rows), math.inf)
    ]
    wanted = len(STANDARD_SPLITS) * (len(REGRESSIONS) + len(CLASSIFICATIONS))
    found = f"{len(mine) - len(late)} of {wanted}" + (f"; failed or late: {', '.join(late)}" if late else "")
    return Goal("fits within 3 minutes (2000 rows) or 10 (10000)", found, f"{wanted}", len(mine) - len(late) >= wanted)


def write(
    folder: Path, cells: Sequence[Cell], contestants: Sequence[Contestant], *, about: dict[str, Any]
) -> list[Goal]:
    """Write uci.md and uci.json, and return what was wanted."""
    results = Results(cell for cell in cells if cell.split in STANDARD_SPLITS)
    found = goals(results)
    keys = {one.name: one.key() for one in contestants}
    other = sum(cell.key != keys[cell.contestant] for cell in cells)
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    rows = [(one.what, one.found, one.wanted, "met" if one.is_met else "**not met**") for one in found]
    regressions, classes = (TINY, ()) if about["quick"] else (REGRESSIONS, CLASSIFICATIONS)
    parts = [
        INTRODUCTION.format(
            **{name: about[name] for name in ("command", "date")},
            versions=versions,
            quick="\n\n**A quick run: it shows that the command works.**" if about["quick"] else "",
            splits=f"{STANDARD_SPLITS[0]} to {STANDARD_SPLITS[-1]}",
            other=f" {other} results are of other versions or settings than the present ones." if other else "",
        ),
        "## Wanted\n" + table(("what", "measured", "wanted", ""), rows),
    ]
    if about["quick"]:
        parts.append("\n## Tiny tables\n" + _by_table(results, contestants, (LOG_SCORE, CPU), regressions))
    else:
        parts.append(
            "\n## Regressions\n" + _by_table(results, contestants, (LOG_SCORE, RMSE), regressions, paired=True)
        )
        parts.append(_scattered(results, contestants, regressions))
        published = [(name, f"{rmse:g}", f"{score:g}") for name, (rmse, score) in MC_DROPOUT.items()]
        parts.append("\n### Published MC dropout, means of 20 splits, for orientation (Gal and Ghahramani 2016)\n")
        parts.append(table(("table", "RMSE", "log score"), published))
        parts.append("\n" + _by_table(results, contestants, (COVERAGE, CPU, WALL), regressions))
        parts.append("\n## Classifications\n")
        parts.append(_by_table(results, contestants, (LOG_SCORE, CALIBRATION), classes, paired=True))
        parts.append("\n" + CHANCE)
        parts.append(_by_table(results, contestants, (BY_CHANCE, OVERCONFIDENCE, ERROR, CPU, WALL), classes))
        parts.append(SOUND + _by_table(results, [one for one in contestants if one.is_ours], DRAWS, classes))
        among = rivals(contestants)
        parts.append(FURTHER.format(first=FURTHER_SPLITS[0], last=FURTHER_SPLITS[-1]))
        parts.append(_by_table(Results(cells), among, (LOG_SCORE, CALIBRATION), SMALL, paired=True))
        parts.append("\n" + _by_table(Results(cells), among, (BY_CHANCE, ERROR), SMALL))
        parts.append("\n## Missing\n" + _missing(results, contestants))
    parts.append(
        "\n## Contestants\n"
        + table(("name", "settings, and how the distribution is made", "measured on"), _forms(contestants, cells))
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "uci.md").write_text("".join(parts), encoding="utf-8")
    ordered = sorted(cells, key=lambda cell: cell.place)
    lines = ",\n".join(json.dumps(asdict(cell)) for cell in ordered)
    (folder / "uci.json").write_text(f'{{"about": {json.dumps(about)}, "cells": [\n{lines}\n]}}\n', encoding="utf-8")
    return found


def _by_table(
    results: Results,
    contestants: Sequence[Contestant],
    figures: Sequence[Figure],
    names: Iterable[str],
    *,
    paired: bool = False,
) -> str:
    """A table of each figure, one row per contestant and one column per data set."""
    names, parts = list(names), list[str]()
    for figure in figures:
        rows = [
            [
                one.title,
                *(summary([*results.values(figure, one.name, name).values()], figure.pattern) for name in names),
            ]
            for one in contestants
        ]
        parts.append(f"### {figure.title}\n" + table(("", *names), rows))
        if paired:
            rows = [
                [one.title, *(summary(results.differences(figure, one.name, name), figure.pattern) for name in names)]
                for one in contestants
                if not one.is_ours
            ]
            parts.append(f"### {figure.title}: ours minus theirs\n" + table(("", *names), rows))
    return "\n".join(parts)


def _scattered(results: Results, contestants: Sequence[Contestant], names: Iterable[str]) -> str:
    """Log scores by split where a mean over splits says nothing."""
    lines: list[str] = []
    for one in contestants:
        for name in names:
            values = [*results.values(LOG_SCORE, one.name, name).values()]
            if values and np.ptp(values) > SCATTERED:
                listed = ", ".join(f"{value:.3f}" for value in values)
                lines.append(f"- {one.title}, {name}, log score by split: {listed}\n")
    remark = (
        "\nOf log scores so far apart no mean says anything; the density of such a prediction has no useful bound.\n"
    )
    return remark + "".join(lines) if lines else ""


def _missing(results: Results, contestants: Sequence[Contestant]) -> str:
    """What was not measured, and what failed."""
    lines: list[str] = []
    for one in contestants:
        for name in (*REGRESSIONS, *CLASSIFICATIONS):
            if name not in one.sets:
                continue
            splits = [split for split in STANDARD_SPLITS if (one.name, name, split) not in results.cells]
            if splits and not (one.most_rows and len(splits) == len(STANDARD_SPLITS)):
                lines.append(f"- {one.title}, {name}: splits {', '.join(map(str, splits))} not measured\n")
    failed = [cell for cell in results.cells.values() if cell.failed]
    lines += [f"- {cell.contestant}, {cell.table}, split {cell.split} failed: {cell.failed}\n" for cell in failed]
    return "".join(lines) or "Nothing.\n"


def _forms(contestants: Sequence[Contestant], cells: Sequence[Cell]) -> list[tuple[str, str, str]]:
    rows = []
    for one in contestants:
        limited = f"; up to {one.most_rows} training rows" if one.most_rows else ""
        counts = Counter(cell.machine for cell in cells if cell.contestant == one.name)
        places = "; ".join(f"{name} ({count} results)" for name, count in counts.most_common())
        rows.append((one.title, one.form + limited, places or "-"))
    return rows
