"""Figure 7.9: standardized residuals by the amount of pretraining."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.ask2022.surrogate import GROUPS, NOTES, SD, SETTING, Plan, fixed, measure
from experiments.comparison import differences, significant
from experiments.pictures import OURS, new_figure, save
from experiments.record import Case, Claim, Experiment, Table
from experiments.sizes import Size

EPOCHS = {"full": (32, 128, 512, 2048, 8192), "quick": (8, 32, 128, 512), "smoke": (2, 8)}
LENGTH = {"full": 512, "quick": 64, "smoke": 4}  # the thesis: 512


def plan(epochs: int, mode: str) -> Plan:
    """A run of 5-20-20-1 by HMC; the thesis has 16000 rows, 1000 of warm-up and 1000 networks with 10 transitions."""
    chosen = fixed(LENGTH[mode])
    if mode == "full":
        return Plan(2_000, (20, 20), chosen, epochs=epochs, num_warmup=500, num_draws=200, thin=2)
    if mode == "quick":
        return Plan(600, (20, 20), chosen, epochs=epochs, num_warmup=100, num_draws=100)
    return Plan(100, (2, 2), chosen, epochs=epochs, num_warmup=10, num_draws=20)


def label(epochs: int) -> str:
    """The label of a run."""
    return f"{epochs} epochs"


def cases(size: Size) -> list[Case]:
    """Every amount of pretraining."""
    return [Case(label(one), measure(plan(one, size.mode))) for one in EPOCHS[size.mode]]


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 7.3.3.2."""
    labels = list(table.labels)
    best = min(labels, key=lambda one: abs(table.mean(one, SD.name) - 1))
    told = ", ".join(f"{one}: {table.mean(one, SD.name):.2f}" for one in labels)
    first = significant(differences(table, [(labels[0], labels[-1])], SD))
    late = significant(differences(table, [(labels[-1], labels[-2])], SD))
    return [
        Claim(
            "pretraining makes the residuals narrower",
            None if first is None else any(one.value > 0 for one in first),
            f"sd of the standardized residuals: {told}",
        ),
        Claim(
            "the last increase of the pretraining makes it slightly worse",
            None if late is None else any(one.value > 0 for one in late),
            f"the sd closest to 1 is that of {best}",
        ),
    ]


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """The spread of the residuals by epochs."""
    figure, (axes,) = new_figure(5.6, 3.2)
    epochs = [int(one.split()[0]) for one in table.labels]
    means = [table.mean(one, SD.name) for one in table.labels]
    axes.errorbar(epochs, means, yerr=[table.error(one, SD.name) for one in table.labels], fmt="o-", color=OURS)
    axes.axhline(1, color="black", lw=0.8, ls="--")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("epochs of pretraining")
    axes.set_ylabel("sd of standardized residuals")
    save(figure, folder / "ask-pretraining.png")
    return {"ask-pretraining.png": "Sd of the standardized residuals by epochs of pretraining; 1 is that of N(0, 1)"}


EXPERIMENT = Experiment(
    name="ask-pretraining",
    title="Residuals by the amount of pretraining (Ask2022, Figure 7.9)",
    setting=SETTING
    + """A 5-20-20-1 network of 561 weights by HMC with a fixed length. The thesis has 16000 rows, 1000 transitions of
warm-up, 1000 networks with 10 transitions each and L = 512; these are fewer, and stated below.""",
    cases=cases,
    groups=GROUPS,
    judge=judge,
    draw=draw,
    notes=NOTES,
    in_words=lambda size: (
        f"{size.num_seeds} seeds of one chain; L = {LENGTH[size.mode]}; "
        f"{plan(EPOCHS[size.mode][-1], size.mode).in_words} at most"
    ),
)
