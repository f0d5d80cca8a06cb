"""Figures 7.7 and 7.8: HMC with a fixed length against slice-NUTS, by length of the warm-up."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.ask2022.surrogate import (
    GROUPS,
    INSIDE,
    NOTES,
    SD,
    SETTING,
    STEPS,
    Plan,
    draw_residuals,
    fixed,
    measure,
    slice_nuts,
)
from experiments.comparison import differences, significant
from experiments.pictures import OTHER, OURS, new_figure, save
from experiments.record import Case, Claim, Experiment, Table
from experiments.sizes import Size

WARMUPS = {"full": (250, 1000, 2500), "quick": (50, 200), "smoke": (10,)}
LENGTH = {"full": 512, "quick": 64, "smoke": 4}  # the thesis: 512
DEPTH = {"full": 10, "quick": 7, "smoke": 3}  # the thesis: 12
HMC, NUTS = "HMC", "NUTS"


def plan(kernel: str, num_warmup: int, mode: str) -> Plan:
    """A run of 5-20-20-1; the thesis has 16000 rows, 2500 epochs and 1000 networks with 10 transitions each."""
    chosen = fixed(LENGTH[mode]) if kernel == HMC else slice_nuts(DEPTH[mode])
    if mode == "full":
        return Plan(2_000, (20, 20), chosen, epochs=1000, num_warmup=num_warmup, num_draws=200, thin=2)
    if mode == "quick":
        return Plan(600, (20, 20), chosen, epochs=100, num_warmup=num_warmup, num_draws=100)
    return Plan(100, (2, 2), chosen, epochs=4, num_warmup=num_warmup, num_draws=20)


def label(kernel: str, num_warmup: int) -> str:
    """The label of a run."""
    return f"{kernel}, {num_warmup} of warm-up"


def cases(size: Size) -> list[Case]:
    """Both kernels at every length of the warm-up."""
    return [
        Case(label(kernel, warmup), measure(plan(kernel, warmup, size.mode)))
        for kernel in (HMC, NUTS)
        for warmup in WARMUPS[size.mode]
    ]


def _from_one(sd: float) -> float:
    return abs(sd - 1)


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 7.3.3.1."""
    own = {one: [label for label in table.labels if label.startswith(one)] for one in (HMC, NUTS)}
    spread = {label: table.mean(label, SD.name) for label in table.labels}
    told = ", ".join(f"{label}: {value:.2f}" for label, value in spread.items())
    pairs = list(zip(own[HMC], own[NUTS], strict=True))
    apart = differences(table, pairs, SD, _from_one)
    nearer = significant(apart)
    later = significant(differences(table, [(own[NUTS][-1], own[NUTS][0])], SD, _from_one))
    steps = ", ".join(f"{label}: {table.mean(label, STEPS.name):.0f}" for label in table.labels)
    return [
        Claim(
            "HMC with a fixed length lies inside a normal distribution at every warm-up",
            all(spread[one] <= INSIDE for one in own[HMC]),
            f"sd of the standardized residuals: {told}",
        ),
        Claim(
            "HMC with a fixed length is better than NUTS at every warm-up",
            None if nearer is None else sum(one.value < 0 for one in nearer) == len(pairs),
            f"distance of the same sd from 1, {', '.join(one.show(SD) for one in apart)}; mean steps of a transition: "
            f"{steps}",
        ),
        Claim(
            "more warm-up makes NUTS worse",
            None if len(own[NUTS]) < 2 or later is None else any(one.value > 0 for one in later),
            f"the same sd, first and last: {spread[own[NUTS][0]]:.2f}, {spread[own[NUTS][-1]]:.2f}",
        ),
    ]


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Densities of the residuals of both kernels after the longest warm-up."""
    figure, (axes,) = new_figure(6.4, 3.6)
    last = [[label for label in table.labels if label.startswith(one)][-1] for one in (HMC, NUTS)]
    draw_residuals(table, axes, last, (OURS, OTHER))
    save(figure, folder / "ask-warmup.png")
    return {"ask-warmup.png": "Standardized residuals after the longest warm-up, and N(0, 1)"}


EXPERIMENT = Experiment(
    name="ask-warmup",
    title="HMC with a fixed length against NUTS by slice (Ask2022, Figures 7.7 and 7.8)",
    setting=SETTING
    + """A 5-20-20-1 network of 561 weights. The thesis has 16000 rows, 2500 epochs, 1000 networks with 10 transitions
each, L = 512 for HMC and trees of at most 4096 steps; these are fewer, and stated below.""",
    cases=cases,
    groups=GROUPS,
    judge=judge,
    draw=draw,
    notes=NOTES,
    in_words=lambda size: (
        f"{size.num_seeds} seeds of one chain; L = {LENGTH[size.mode]}, trees of at most "
        f"{2 ** DEPTH[size.mode]} steps; {plan(HMC, WARMUPS[size.mode][-1], size.mode).in_words} at most"
    ),
)
