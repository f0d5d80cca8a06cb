"""Table 5.11: the length and eta with the smallest g, on a grid around each of the thesis's optima."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.choo2000 import means
from experiments.choo2000.comparing import label, units_of
from experiments.choo2000.methods import METHODS, TUNED, B, Method
from experiments.choo2000.performance import SETTING
from experiments.choo2000.plan import Plan, in_words, plan_of
from experiments.pictures import new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

LENGTHS = (0.5, 1.0, 2.0)
ETAS = (2**-0.5, 1.0, 2**0.5)
"""Factors of the grid: the thesis's own neighbors."""

LENGTH = Quantity("best length")
ETA = Quantity("best eta", 3)
REJECTED = Quantity("rejected there, %", 1)
BEST = Quantity("g there", 4)
AT_THESIS = Quantity("g at the thesis's setting", 4)
REJECTED_AT_THESIS = Quantity("rejected at the thesis's setting, %", 1)
OF_GRID = {
    (one, other): Quantity(f"g at {one:g} times its length, {other:.2f} times its eta", 4)
    for one in LENGTHS
    for other in ETAS
}


def grid(size: Size) -> list[tuple[float, float]]:
    """The points that are run: all at full size, the thesis's and two neighbors in a quick run."""
    if size.mode == "full":
        return list(OF_GRID)
    return [(1.0, 1.0), (1.0, ETAS[0])] if size.mode == "quick" else [(1.0, 1.0)]


def cases(size: Size) -> list[Case]:
    """The rows."""
    found = []
    for units in plan_of(size).units:
        for method in METHODS:
            setting = TUNED[method.name][units]
            source = {LENGTH.name: setting.length, ETA.name: setting.eta, REJECTED.name: setting.rejected}
            found.append(Case(label(method.name, units), _measured(method, units), source))
    return found


def _measured(method: Method, units: int) -> Any:
    def measure(size: Size, seed: int) -> Mapping[str, float]:
        plan = plan_of(size)
        points = {point: _at(method, units, point, plan, seed) for point in grid(size)}
        g = {point: float(means.g_of(chains.rho()[0])) for point, chains in points.items()}
        best, setting = min(g, key=lambda point: g[point]), TUNED[method.name][units]
        thesis = (1.0, 1.0)
        return {
            LENGTH.name: _length(setting.length, best[0]),
            ETA.name: setting.eta * best[1],
            REJECTED.name: points[best].rejected,
            BEST.name: g[best],
            AT_THESIS.name: g[thesis],
            REJECTED_AT_THESIS.name: points[thesis].rejected,
            **{OF_GRID[point].name: value for point, value in g.items()},
        }

    return measure


@cache
def _at(method: Method, units: int, point: tuple[float, float], plan: Plan, seed: int) -> means.Chains:
    setting = TUNED[method.name][units]
    length, eta = _length(setting.length, point[0]), setting.eta * point[1]
    return means.run(method, units, (length, eta), plan, seed, share=plan.tuning_share)


def _length(length: int, factor: float) -> int:
    return max(1, round(length * factor))


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 5.6."""
    return [_optima(table), *(_trend(table, method) for method in METHODS)]


def _optima(table: Table) -> Claim:
    """Whether the thesis's settings are as good as the best of the grid."""
    losses = {row: table.mean(row, AT_THESIS.name) / _smallest(table, row) for row in table.labels}
    worst = max(losses, key=lambda row: losses[row])
    told = (
        f"mean g at its settings over the smallest mean of the grid, which is the smallest of noisy figures: "
        f"{', '.join(f'{one:.2f}' for one in losses.values())}; the largest at {worst}"
    )
    whole = all(table.of(row, OF_GRID[LENGTHS[0], ETAS[0]].name) for row in table.labels)
    return Claim(
        "the thesis's settings are within a quarter of the best of the grid",
        losses[worst] <= 1.25 if whole else None,
        told,
    )


def _smallest(table: Table, row: str) -> float:
    """The smallest g on the grid, averaged over seeds before the minimum is taken."""
    return min(table.mean(row, one.name) for one in OF_GRID.values() if table.of(row, one.name))


def _trend(table: Table, method: Method) -> Claim:
    """The best eta falls with the width for Gibbs and A, and rises for B."""
    units = units_of(table, method.name)
    etas = [table.mean(label(method.name, one), ETA.name) for one in units]
    rises = method == B
    text = f"the best eta of {method.name} {'rises' if rises else 'falls'} with the hidden layer"
    told = f"best eta by units: {', '.join(f'{eta:.3f} at {one}' for eta, one in zip(etas, units, strict=True))}"
    if len(units) < 2:
        return Claim(text, None, told)
    slope = float(np.polyfit(np.log2(units), np.log(etas), 1)[0])
    return Claim(text, slope > 0 if rises else slope < 0, f"{told}; slope of its logarithm {slope:+.2f} a doubling")


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Draw g over the grid, relative to g at the thesis's setting."""
    name = "choo-tuning.png"
    figure, axes = new_figure(10.5, 3.2, columns=len(METHODS))
    for method, ax in zip(METHODS, axes, strict=True):
        for units in units_of(table, method.name):
            row = label(method.name, units)
            at = [table.mean(row, OF_GRID[1.0, eta].name) for eta in ETAS]
            ax.plot(ETAS, at, "o-", ms=4, label=f"{units} units")
        ax.set(title=method.name, xlabel="eta / the thesis's", xscale="log", yscale="log")
        ax.set_xticks(ETAS, [f"{eta:.2f}" for eta in ETAS])
        ax.minorticks_off()
    axes[0].set_ylabel("g at the thesis's length")
    axes[0].legend(frameon=False, fontsize=8)
    save(figure, folder / name)
    return {name: "g against eta at the thesis's lengths"}


EXPERIMENT = Experiment(
    name="choo-tuning",
    title="Best lengths and step sizes (Choo2000, Table 5.11)",
    setting=SETTING
    + "Here each point of a grid of 3 lengths (half, once and twice the thesis's) and 3 eta (spaced by a factor of "
    "the square root "
    "of 2) around each of its optima uses 20 of the chains, 16 and 4; the thesis's grid was wider, with 50.",
    cases=cases,
    groups={
        "Optima": (LENGTH, ETA, REJECTED, BEST),
        "The thesis's settings": (AT_THESIS, REJECTED_AT_THESIS),
        "The grid": tuple(OF_GRID.values()),
    },
    judge=judge,
    draw=draw,
    notes="The optimum of a grid is chosen from figures with errors of about a quarter, so the best setting varies "
    "with "
    "the seed; best lengths and eta, and g there, are means over the optima of each seed. Where the grid is flat, no "
    "setting is meant.",
    in_words=lambda size: in_words(size, share=plan_of(size).tuning_share),
)
