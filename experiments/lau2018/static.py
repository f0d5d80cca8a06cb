"""Table 4.13: static and windowed HMC at five lengths against dynamic HMC."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ergonet import HMC, NUTS, WindowedHMC
from experiments.comparison import differences, every, largest, none_differs
from experiments.lau2018 import claims
from experiments.lau2018.digits import (
    GROUPS,
    MEDIAN_ESS,
    MIN_ESS,
    NOTES,
    PREDICTIVE,
    RATIOS,
    SETTING,
    SINGLE,
    SINGLE_SD,
    TARGET_ACCEPTANCE,
    Run,
    figures,
)
from experiments.pictures import ERRORS_SEEN, errors_by_row
from experiments.record import Case, Claim, Experiment, Table
from experiments.sizes import Size

REFERENCE = "dynamic (NUTS)"
STATIC = {
    10: figures(22.8, 704, 1061),
    50: figures(27.0, 36, 379),
    100: figures(28.6, 126, 823),
    200: figures(22.2, 713, 1196),
    500: figures(23.8, 345, 1245),
}
WINDOWED = {
    10: figures(22.2, 283, 765),
    50: figures(24.2, 196, 1533),
    100: figures(23.8, 254, 1256),
    200: figures(24.0, 340, 1204),
    500: figures(23.4, 693, 1252),
}


def static_label(length: int) -> str:
    """The label of a row of static HMC."""
    return f"static L = {length}"


def windowed_label(length: int) -> str:
    """The label of a row of windowed HMC."""
    return f"windowed L = {length}, window {window_of(length)}"


def window_of(length: int) -> int:
    """A tenth of the length, at least 2: the thesis does not print its window."""
    return max(2, length // 10)


def _static(length: int) -> HMC:
    return HMC(num_steps=length, length_jitter=0.0, target_acceptance=TARGET_ACCEPTANCE)


def _windowed(length: int) -> WindowedHMC:
    return WindowedHMC(window_of(length), num_steps=length, length_jitter=0.0, target_acceptance=TARGET_ACCEPTANCE)


RUNS = (
    *(Run(static_label(length), _static(length), source=source) for length, source in STATIC.items()),
    *(Run(windowed_label(length), _windowed(length), source=source) for length, source in WINDOWED.items()),
    Run(REFERENCE, NUTS(target_acceptance=TARGET_ACCEPTANCE), source=figures(23.4, 358, 1348)),
)


def cases(_: Size) -> list[Case]:
    """The rows."""
    return [run.case() for run in RUNS]


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.11."""
    static, windowed = ([label(length) for length in STATIC] for label in (static_label, windowed_label))
    return [
        claims.errors_agree(
            table, table.labels, "the test error does not depend on the length, the window, or dynamic trajectories"
        ),
        claims.ess_agrees(
            table, [*static, REFERENCE], "static HMC is as efficient per draw as dynamic HMC, whatever its length"
        ),
        _window(table, static, windowed),
        claims.one_draw(table),
    ]


def _window(table: Table, static: Sequence[str], windowed: Sequence[str]) -> Claim:
    """Windows change nothing: at every length the median ESS is within a factor of 1.25, and errors do not differ."""
    pairs = list(zip(windowed, static, strict=True))
    ratios = {q: [table.mean(w, q.name) / table.mean(s, q.name) for w, s in pairs] for q in (MEDIAN_ESS, MIN_ESS)}
    found = differences(table, pairs, SINGLE)
    most = largest(found)
    same = [1 / 1.25 <= ratio <= 1.25 for ratio in ratios[MEDIAN_ESS]]
    told = "; ".join(f"{q.name} {', '.join(f'{one:.2f}' for one in r)}" for q, r in ratios.items())
    because = f"ratios windowed / static at {', '.join(map(str, STATIC))} steps: {told}"
    if most is not None:
        because += f"; largest difference of the {SINGLE.name}: {most.show(SINGLE)}"
    return Claim("windows neither raise nor lower the ESS", every([*same, none_differs(found)]), because)


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Draw the errors by row."""
    name = "lau-static.png"
    errors_by_row(table, folder / name, (SINGLE, PREDICTIVE), spread=SINGLE_SD)
    return {name: ERRORS_SEEN}


EXPERIMENT = Experiment(
    name="lau-static",
    title="Static and windowed against dynamic HMC (Lau2018, Table 4.13)",
    setting=SETTING
    + "Lengths are not jittered. The thesis does not print its window: a tenth of the length, at least 2, is used.",
    cases=cases,
    groups=GROUPS,
    judge=judge,
    draw=draw,
    notes=NOTES,
    reference=REFERENCE,
    ratios=RATIOS,
)
