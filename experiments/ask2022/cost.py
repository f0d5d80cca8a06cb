"""Figures 7.1 and 7.6: seconds of a draw by the number of leapfrog steps and of weights."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.ask2022.surrogate import SETTING, Plan, fixed, num_weights, sampled
from experiments.pictures import OTHER, OURS, new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

ROWS = {"full": 16_000, "quick": 1_000, "smoke": 100}
LENGTHS = {"full": (32, 64, 128, 256, 512, 1024), "quick": (16, 64, 256), "smoke": (64, 256)}
OF_WEIGHTS = {"full": 64, "quick": 32, "smoke": 64}  # steps where the number of weights changes
DEPTHS = {"full": (1, 2, 3, 4, 5), "quick": (1, 2, 3), "smoke": ()}
UNITS = {"full": 50, "quick": 50, "smoke": 2}
FIRST = {"full": (20, 20), "quick": (20, 20), "smoke": (2, 2)}
NUM_DRAWS = {"full": 10, "quick": 10, "smoke": 20}
SMALL = 1e-5  # step size, so that every trajectory takes all of its steps
LENGTH, WEIGHTS = Quantity("leapfrog steps"), Quantity("weights")
SECONDS = Quantity("seconds of a draw", -3)
EACH = Quantity("microseconds of a leapfrog step", 1)


def _measure(hidden: tuple[int, ...], length: int) -> Any:
    def run(size: Size, seed: int) -> Mapping[str, float]:
        draws = NUM_DRAWS[size.mode]
        kernel = fixed(length, step_size=SMALL)
        plan = Plan(ROWS[size.mode], hidden, kernel, epochs=2, num_warmup=0, num_draws=draws)
        seconds = sampled(plan, seed).seconds["sampling"] / draws
        return {
            SECONDS.name: seconds,
            EACH.name: 1e6 * seconds / length,
            LENGTH.name: length,
            WEIGHTS.name: num_weights(hidden),
        }

    return run


def cases(size: Size) -> list[Case]:
    """Lengths at one network, and networks at one length."""
    first, mode = FIRST[size.mode], size.mode
    rows = [(first, length) for length in LENGTHS[mode]]
    rows += [((UNITS[mode],) * depth, OF_WEIGHTS[mode]) for depth in DEPTHS[mode]]
    return [Case(f"{num_weights(hidden)} weights, L = {length}", _measure(hidden, length)) for hidden, length in rows]


def _lengths(table: Table) -> list[str]:
    """The rows of the first network."""
    return [one for one in table.labels if one.split(" weights")[0] == table.labels[0].split(" weights")[0]]


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 7.3.1.1."""
    chosen = _lengths(table)
    steps, seconds = ([table.mean(one, name) for one in chosen] for name in (LENGTH.name, SECONDS.name))
    slope = float(np.polyfit(np.log(steps), np.log(seconds), 1)[0])
    others = [one for one in table.labels if one not in chosen]
    of_weights = math.nan
    if len(others) > 1:
        weights, by_weights = ([table.mean(one, name) for one in others] for name in (WEIGHTS.name, SECONDS.name))
        of_weights = float(np.polyfit(np.log(weights), np.log(by_weights), 1)[0])
    return [
        Claim(
            "the time of a draw is linear in the number of leapfrog steps",
            0.9 <= slope <= 1.1,
            f"it grows as the power {slope:.2f} of the steps",
        ),
        Claim(
            "the time of a draw is about linear in the number of weights",
            None if math.isnan(of_weights) else 0.75 <= of_weights <= 1.25,
            "one network only" if math.isnan(of_weights) else f"it grows as the power {of_weights:.2f} of the weights",
        ),
        Claim("an accelerator is far ahead of a processor", None, "none was used"),
    ]


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Seconds by steps and by weights."""
    figure, axes = new_figure(8.4, 3.2, columns=2)
    chosen = _lengths(table)
    others = [one for one in table.labels if one not in chosen] or chosen[:1]
    for panel, labels, name, color in zip(
        axes, (chosen, others), (LENGTH.name, WEIGHTS.name), (OURS, OTHER), strict=True
    ):
        panel.loglog([table.mean(one, name) for one in labels], [table.mean(one, SECONDS.name) for one in labels], "o-",
                     color=color)  # fmt: skip
        panel.set_xlabel(name)
        panel.set_ylabel("seconds of a draw")
    save(figure, folder / "ask-cost.png")
    return {"ask-cost.png": "Seconds of a draw by leapfrog steps and by weights, one chain on one core"}


EXPERIMENT = Experiment(
    name="ask-cost",
    title="Seconds of a draw by steps and weights (Ask2022, Figures 7.1 and 7.6)",
    setting=SETTING
    + """A 5-20-20-1 network at several lengths of HMC, and the models of Table 7.1 at one; the thesis has L = 512
there. One chain on one core, with a step size at which nothing is rejected.""",
    cases=cases,
    groups={"Cost": (LENGTH, WEIGHTS, SECONDS, EACH)},
    judge=judge,
    draw=draw,
    in_words=lambda size: f"{size.num_seeds} seeds of {NUM_DRAWS[size.mode]} draws with {ROWS[size.mode]} rows",
)
