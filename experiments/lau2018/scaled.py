"""Table 4.9: prior variance 1 or 1 / N_hidden on every weight, at 35, 50 and 65 units."""

from collections.abc import Sequence

from ergonet import NUTS
from experiments.comparison import FACTOR, differences, significant
from experiments.lau2018 import claims
from experiments.lau2018.digits import (
    GROUPS,
    MEDIAN_ESS,
    MIN_ESS,
    NOTES,
    PREDICTIVE,
    SETTING,
    SINGLE,
    TARGET_ACCEPTANCE,
    Run,
    figures,
)
from experiments.lau2018.drawing import errors_picture
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

UNSCALED = {35: figures(23.4, 358, 1348), 50: figures(22.8, 952, 1358), 65: figures(22.0, 610, 1352)}
SCALED = {35: figures(64.2, 683, 1337), 50: figures(65.0, 66, 1348), 65: figures(69.6, 660, 1324)}


def unscaled_label(units: int) -> str:
    """The label of a row with variance 1."""
    return f"{units} units, variance 1"


def scaled_label(units: int) -> str:
    """The label of a row with variance 1 / N_hidden."""
    return f"{units} units, variance 1/{units}"


KERNEL = NUTS(target_acceptance=TARGET_ACCEPTANCE)
RUNS = (
    *(Run(unscaled_label(units), KERNEL, hidden=(units,), source=source) for units, source in UNSCALED.items()),
    *(
        Run(scaled_label(units), KERNEL, hidden=(units,), prior_scale=None, source=source)
        for units, source in SCALED.items()
    ),
)
PAIRS = [(scaled_label(units), unscaled_label(units)) for units in UNSCALED]


def cases(_: Size) -> list[Case]:
    """The rows."""
    return [run.case() for run in RUNS]


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.7."""
    medians, least = (
        [table.mean(a, quantity.name) / table.mean(b, quantity.name) for a, b in PAIRS]
        for quantity in (MEDIAN_ESS, MIN_ESS)
    )
    told = (
        f"median ESS scaled / unscaled {', '.join(f'{one:.2f}' for one in medians)}, "
        f"min ESS {', '.join(f'{one:.2f}' for one in least)}"
    )
    same = all(1 / FACTOR <= one <= FACTOR for one in medians)
    return [
        _worse(table, SINGLE, "the error of single draws is clearly larger with the scaled prior, at every width"),
        _worse(table, PREDICTIVE, "the error of the posterior predictive (not in the thesis) is clearly larger, too"),
        Claim("the two priors differ little in their ESS", same, told),
        claims.one_draw(table),
    ]


def _worse(table: Table, quantity: Quantity, text: str) -> Claim:
    found = differences(table, PAIRS, quantity)
    real = significant(found)
    worse = None if real is None else len(real) == len(PAIRS) and all(one.value > 0 for one in found)
    return Claim(text, worse, ", ".join(one.show(quantity) for one in found))


EXPERIMENT = Experiment(
    name="lau-scaled",
    title="Prior variance 1 or 1 / N_hidden (Lau2018, Table 4.9)",
    setting=SETTING + "NUTS; one hidden layer; the variance is that of every weight.",
    cases=cases,
    groups=GROUPS,
    judge=judge,
    draw=errors_picture("lau-scaled"),
    notes=NOTES,
)
