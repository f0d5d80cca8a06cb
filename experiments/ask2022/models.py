"""Figure 7.10: standardized residuals of networks of growing depth."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.ask2022.surrogate import (
    GROUPS,
    INSIDE,
    NOTES,
    SD,
    SETTING,
    Plan,
    draw_residuals,
    measure,
    num_weights,
    slice_nuts,
)
from experiments.pictures import OTHER, OURS, THESIS, new_figure, save
from experiments.record import Case, Claim, Experiment, Table
from experiments.sizes import Size

NUMBERS = {"full": (1, 2, 3), "quick": (1, 2, 3), "smoke": (2,)}
UNITS = {"full": 50, "quick": 50, "smoke": 2}


def plan(number: int, mode: str) -> Plan:
    """Model `number` of Table 7.1, with less of everything than in the thesis, but for the units."""
    hidden = (UNITS[mode],) * number
    if mode == "full":
        return Plan(4_000, hidden, slice_nuts(9), epochs=300, num_warmup=300, num_draws=150, thin=2)
    if mode == "quick":
        return Plan(800, hidden, slice_nuts(6), epochs=60, num_warmup=60, num_draws=60)
    return Plan(100, hidden, slice_nuts(3), epochs=4, num_warmup=10, num_draws=20)


def label(number: int, mode: str) -> str:
    """The label of a model."""
    return f"model {number}, {num_weights(plan(number, mode).hidden)} weights"


def cases(size: Size) -> list[Case]:
    """The models."""
    return [Case(label(one, size.mode), measure(plan(one, size.mode))) for one in NUMBERS[size.mode]]


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 7.3.3.3."""
    spread = {one: table.mean(one, SD.name) for one in table.labels}
    told = ", ".join(f"{one}: {value:.2f}" for one, value in spread.items())
    third = [value for one, value in spread.items() if one.startswith("model 3,")]
    return [
        Claim(
            "the residuals of model 3 are inside a normal distribution",
            all(one <= INSIDE for one in third) if third else None,
            f"sd of the standardized residuals: {told}",
        ),
        Claim(
            "models 4 and 5 show where more weights make it worse",
            None,
            "they are too costly without an accelerator, and were not run",
        ),
    ]


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Densities of the residuals."""
    figure, (axes,) = new_figure(6.4, 3.6)
    draw_residuals(table, axes, table.labels, (OURS, OTHER, THESIS))
    save(figure, folder / "ask-models.png")
    return {"ask-models.png": "Standardized residuals on the test rows, and N(0, 1); the ends contain what is beyond"}


EXPERIMENT = Experiment(
    name="ask-models",
    title="Residuals of networks of growing depth (Ask2022, Figure 7.10)",
    setting=SETTING
    + """Models 1 to 3 of Table 7.1, 5-50-1 to 5-50-50-50-1, with the no-U-turn sampler by slice. The thesis has 16000
rows, 1000 epochs, 2500 transitions of warm-up, 1000 networks with 10 transitions each, and trees of at most 4096 steps;
these are fewer, for processors, and stated below.""",
    cases=cases,
    groups=GROUPS,
    judge=judge,
    draw=draw,
    notes=NOTES,
    in_words=lambda size: (
        f"{size.num_seeds} seeds of one chain; {plan(1, size.mode).in_words}; trees of at most "
        f"{2 ** plan(1, size.mode).kernel.max_doublings} steps"
    ),
)
