"""Table 4.2: the exhaustive termination criterion at four thresholds against the generalized no-U-turn criterion."""

from collections.abc import Sequence

from ergonet import NUTS, XHMC
from experiments.comparison import against, significant, spread
from experiments.lau2018 import claims
from experiments.lau2018.digits import (
    GRADIENTS_PER_DRAW,
    GROUPS,
    MEDIAN_ESS,
    NOTES,
    RATIOS,
    SETTING,
    TARGET_ACCEPTANCE,
    Run,
    figures,
)
from experiments.lau2018.drawing import errors_picture
from experiments.record import Case, Claim, Experiment, Table
from experiments.sizes import Size

REFERENCE = "GNUTS"
SOURCES = {
    0.01: figures(25.6, 681, 1330),
    0.05: figures(25.8, 738, 1346),
    0.1: figures(28.6, 396, 1351),
    0.2: figures(23.4, 822, 1324),
}
XHMC_ROWS = {f"XHMC delta {delta:g}": delta for delta in SOURCES}
RUNS = (
    *(
        Run(label, XHMC(delta, target_acceptance=TARGET_ACCEPTANCE), source=SOURCES[delta])
        for label, delta in XHMC_ROWS.items()
    ),
    Run(REFERENCE, NUTS(target_acceptance=TARGET_ACCEPTANCE), source=figures(26.0, 682, 1369)),
)


def cases(_: Size) -> list[Case]:
    """The rows."""
    return [run.case() for run in RUNS]


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.3."""
    return [
        claims.errors_differ(table, table.labels, "the rows differ in test error, as the printed figures do"),
        claims.ess_agrees(table, table.labels, "XHMC samples about as efficiently as GNUTS"),
        _cheaper(table),
        _insensitive(table),
        claims.one_draw(table),
    ]


def _cheaper(table: Table) -> Claim:
    found = against(table, list(XHMC_ROWS), REFERENCE, GRADIENTS_PER_DRAW)
    real = significant(found)
    base = table.mean(REFERENCE, GRADIENTS_PER_DRAW.name)
    shares = [table.mean(label, GRADIENTS_PER_DRAW.name) / base for label in XHMC_ROWS]
    because = f"gradients per draw are {', '.join(f'{one:.2f}' for one in shares)} times those of GNUTS"
    cheaper = None if real is None else len(real) == len(found) and all(one.value < 0 for one in found)
    return Claim("XHMC is less computationally intensive than GNUTS, at every threshold", cheaper, because)


def _insensitive(table: Table) -> Claim:
    labels = list(XHMC_ROWS)
    effective = spread(table, labels, MEDIAN_ESS.name)
    cost = spread(table, labels, GRADIENTS_PER_DRAW.name)
    return Claim(
        "sampling performance is not sensitive to the threshold",
        effective <= 1.25 and cost <= 1.25,
        f"over the thresholds the median ESS varies by a factor {effective:.2f}, the gradients per draw by {cost:.2f}",
    )


EXPERIMENT = Experiment(
    name="lau-termination",
    title="XHMC against the no-U-turn criterion (Lau2018, Table 4.2)",
    setting=SETTING + "GNUTS: the generalized criterion. Trees have at most 10 doublings (1023 steps).",
    cases=cases,
    groups=GROUPS,
    judge=judge,
    draw=errors_picture("lau-termination"),
    notes=NOTES + "The thesis prints 23.4 % for XHMC 0.1 in its Table 4.1 and 28.6 % in its Table 4.2.",
    reference=REFERENCE,
    ratios=RATIOS,
)
