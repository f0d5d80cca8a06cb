"""Table 4.11: 2, 3 and 4 hidden layers of 35 units, beside the single layer of the other tables."""

from collections.abc import Sequence
from dataclasses import replace

from ergonet import NUTS
from experiments.comparison import FACTOR, differences, significant
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
    TARGET_ACCEPTANCE,
    UNITS,
    Run,
    figures,
)
from experiments.lau2018.drawing import errors_picture
from experiments.record import Case, Claim, Experiment, Table
from experiments.sizes import Size

REFERENCE = "1 hidden layer"
QUICK_SHARE = 0.3
SOURCES = {
    1: figures(23.4, 358, 1348),  # from Table 4.9; Table 4.11 begins with 2 layers
    2: figures(16.4, 284, 1596),
    3: figures(16.8, 246, 1418),
    4: figures(49.8, 402, 1310),
}


def label(layers: int) -> str:
    """The label of a row."""
    return REFERENCE if layers == 1 else f"{layers} hidden layers"


RUNS = tuple(
    Run(label(layers), NUTS(target_acceptance=TARGET_ACCEPTANCE), hidden=(UNITS,) * layers, source=source)
    for layers, source in SOURCES.items()
)


def cases(size: Size) -> list[Case]:
    """The rows; the deep ones shortened in a quick run."""
    shortened = QUICK_SHARE if size.mode == "quick" else 1.0
    return [(run if len(run.hidden) == 1 else replace(run, share=shortened)).case() for run in RUNS]


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.9."""
    ratios = [table.ratio(label(layers), MEDIAN_ESS.name)[0] for layers in (2, 3, 4)]
    least = [table.ratio(label(layers), MIN_ESS.name)[0] for layers in (2, 3, 4)]
    told = (
        f"median ESS of 2, 3 and 4 layers is {', '.join(f'{one:.2f}' for one in ratios)} times that of 1, "
        f"the min ESS {', '.join(f'{one:.2f}' for one in least)} times"
    )
    return [
        _moves(
            table,
            [(label(2), label(1)), (label(3), label(1))],
            "2 and 3 layers have smaller errors than 1",
            rises=False,
        ),
        _moves(
            table,
            [(label(4), label(2)), (label(4), label(3))],
            "4 layers have a far larger error than 2 and 3",
            rises=True,
        ),
        Claim("the ESS does not fall with the layers", min(ratios) >= 1 / FACTOR, told),
        claims.one_draw(table),
    ]


def _moves(table: Table, pairs: Sequence[tuple[str, str]], text: str, *, rises: bool) -> Claim:
    """A change of the error, judged by single draws as in the thesis; the predictive error is reported, too."""
    single = differences(table, pairs, SINGLE)
    real = significant(single)
    holds = None if real is None else len(real) == len(pairs) and all((one.value > 0) == rises for one in real)
    told = [
        f"{quantity.name}: {', '.join(one.show(quantity) for one in differences(table, pairs, quantity))}"
        for quantity in (SINGLE, PREDICTIVE)
    ]
    return Claim(text, holds, "; ".join(told))


EXPERIMENT = Experiment(
    name="lau-layers",
    title="2, 3 and 4 hidden layers (Lau2018, Table 4.11)",
    setting=SETTING
    + "Layers of 35 units, so 2590, 3815, 5040 and 6265 weights; NUTS. The row of 1 layer is not in that table: its "
    "figures are those of Table 4.9. "
    f"In a quick run the deep rows have {QUICK_SHARE:.0%} of the transitions.",
    cases=cases,
    groups=GROUPS,
    judge=judge,
    draw=errors_picture("lau-layers"),
    notes=NOTES,
    reference=REFERENCE,
    ratios=RATIOS,
)
