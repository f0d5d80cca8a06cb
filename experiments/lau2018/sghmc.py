"""Tables 4.5 to 4.8: SGHMC over a grid, the intended sampler and Algorithm 16 as printed."""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from experiments.comparison import against, differences, none_differs, significant
from experiments.lau2018.claims import ONE_DRAW_SDS, SMALLEST_SD
from experiments.lau2018.digits import PREDICTIVE, SECONDS, SETTING, SINGLE, SINGLE_SD
from experiments.lau2018.sghmc_grid import (
    BATCH,
    CHAINS,
    FULL_SHARE,
    HOTTEST,
    LENGTHS,
    MEANT,
    MEANT_ALL,
    MOMENTUM_DECAY,
    PRINTED,
    PRINTED_ALL,
    QUICK_SHARE,
    RATES,
    REFERENCE,
    REFERENCE_SHARE,
    VARIANTS,
    Variant,
    cases,
    label,
    printed_figures,
)
from experiments.pictures import new_figure, save
from experiments.record import Claim, Experiment, Quantity, Table

BEST = label(50, 0.1)
BEST_LENGTH = 50
DIVERGED = {label(10, 0.1), label(10, 0.01)}
SMALL = 2.0  # %, the largest change that counts as none when e changes
NEAR_ONE = 0.1  # tolerance of a kinetic temperature


def pivot(table: Table, quantity: Quantity) -> Table:
    """A table with a row for each variant at each point, and the reference, of single-draw or predictive errors.

    Points where some seed has diverged are left out.
    """
    found = {REFERENCE: {quantity.name: table.of(REFERENCE, quantity.name)}}
    for variant, row in itertools.product(VARIANTS, points(table)):
        name = (variant.single if quantity is SINGLE else variant.predictive).name
        if not has_diverged(table, row, variant):
            found[at(variant, row)] = {quantity.name: table.of(row, name)}
    return Table(found, {})


def at(variant: Variant, row: str) -> str:
    """The label of a pivoted row."""
    return f"{variant.name}, {row}"


def points(table: Table) -> list[str]:
    """The labels of the grid."""
    return [row for row in table.labels if row != REFERENCE]


def has_diverged(table: Table, row: str, variant: Variant) -> bool:
    """Whether any seed has."""
    name = variant.single.name
    return len(table.of(row, name)) < len(table.values[row][name])


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.6."""
    single, predictive = pivot(table, SINGLE), pivot(table, PREDICTIVE)
    lowest = {variant: _lowest(single, variant) for variant in VARIANTS}
    return [
        _best(lowest, table),
        _same_length(lowest, table),
        _diverged(table),
        _scale(table),
        _beats(single, predictive, (MEANT, MEANT_ALL), "SGHMC can predict better than full HMC"),
        _beats(single, predictive, (*PRINTED, PRINTED_ALL), "the printed algorithm can predict better than full HMC"),
        _at_one(table, single),
        _one_draw(table),
    ]


def _lowest(single: Table, variant: Variant) -> tuple[str, float]:
    """The points with the smallest error of a variant, and that error."""
    errors = {
        row.removeprefix(f"{variant.name}, "): single.mean(row, SINGLE.name)
        for row in single.labels
        if row.startswith(f"{variant.name}, ")
    }
    best = min(errors, key=lambda row: errors[row], default="")
    return best, errors.get(best, math.nan)


def _best(lowest: Mapping[Variant, tuple[str, float]], table: Table) -> Claim:
    told = "; ".join(f"{variant.name} {error:.1f} % at {row}" for variant, (row, error) in lowest.items())
    found = lowest[PRINTED[0]][0] == BEST if BEST in table.labels else None
    return Claim(f"the best test error is at {BEST}", found, f"lowest errors of single draws: {told}")


def _same_length(lowest: Mapping[Variant, tuple[str, float]], table: Table) -> Claim:
    best = [lowest[variant][0].split(",")[0] for variant in PRINTED]
    others = [lowest[variant][0].split(",")[0] for variant in (MEANT, MEANT_ALL)]
    found = all(one == f"L = {BEST_LENGTH}" for one in best) if BEST in table.labels else None
    return Claim(
        f"L = {BEST_LENGTH} is best whatever e is",
        found,
        f"as printed the least error is at {', '.join(best)} for {', '.join(one.name for one in PRINTED)}; of SGHMC "
        f"at {' and '.join(others)} with {BATCH} and with all rows",
    )


def _diverged(table: Table) -> Claim:
    by_variant = {one: {row for row in points(table) if has_diverged(table, row, one)} for one in VARIANTS}
    told = "; ".join(
        f"{variant.name}: {', '.join(row for row in points(table) if row in rows) or 'none'}"
        for variant, rows in by_variant.items()
    )
    return Claim(
        "runs diverge at L = 10 with eta of 0.01 and 0.1, and nowhere else",
        by_variant[PRINTED[0]] == DIVERGED if set(table.labels) >= DIVERGED else None,
        f"diverged, in some seed at least: {told}",
    )


def _scale(table: Table) -> Claim:
    """A claim of ours, not of the thesis, which is puzzled by how little e changes."""
    ours = [_range([table.mean(row, one.single.name) for one in PRINTED]) for row in points(table)]
    theirs = [
        _range([value for one in PRINTED if (value := table.source(row, one.single.name)) is not None])
        for row in points(table)
    ]
    known = [one for one in theirs if not math.isnan(one)]
    return Claim(
        "(our claim, not the thesis's) the e of the printed algorithm hardly matters: it is only the sd of a velocity "
        "that one step of L forgets",
        median(ours) < SMALL,
        f"between the four e the error of single draws varies by {median(ours):.1f} % in the median over the grid and "
        f"{max(ours):.1f} % at most; in the thesis by {median(known):.1f} % and {max(known):.1f} %",
    )


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values) if values else math.nan


def _beats(single: Table, predictive: Table, variants: Sequence[Variant], text: str) -> Claim:
    told, better = [], None
    for table, quantity in ((single, SINGLE), (predictive, PREDICTIVE)):
        labels = [row for row in table.labels if any(row.startswith(f"{one.name}, ") for one in variants)]
        found = against(table, labels, REFERENCE, quantity)
        real = significant(found)
        better = None if real is None else any(one.value < 0 for one in real)
        count = None if real is None else sum(one.value < 0 for one in real)
        which = "too few seeds to tell" if count is None else f"{count} of {len(found)} points are significantly better"
        lowest = min(found, key=lambda one: one.value)
        told.append(f"{quantity.name}: {which}, the lowest is {lowest.show(quantity)}")
    return Claim(text + " (judged by the predictive)", better, "; ".join(told))


def _at_one(table: Table, single: Table) -> Claim:
    """A claim of ours, not of the thesis."""
    known = [
        at(variant, row)
        for variant, row in itertools.product((MEANT, MEANT_ALL), points(table))
        if abs(table.mean(row, variant.temperature.name) - 1) <= NEAR_ONE and at(variant, row) in single.labels
    ]
    found = differences(single, [(row, REFERENCE) for row in known], SINGLE)
    real = significant(found) or []
    return Claim(
        f"(our claim, not the thesis's) at a kinetic temperature within {NEAR_ONE:g} of 1, SGHMC has the errors of "
        f"full HMC",
        none_differs(found) if found else None,
        f"{len(real)} of {len(found)} such points differ in single draws"
        + "".join(f"; {one.show(SINGLE)}" for one in real),
    )


def _one_draw(table: Table) -> Claim:
    inside, count, above = 0, 0, 0
    for row, variant in itertools.product(points(table), PRINTED):
        theirs = table.source(row, variant.single.name)
        if theirs is None or has_diverged(table, row, variant):
            continue
        sd = max(table.mean(row, variant.sd.name), SMALLEST_SD)
        inside += abs(theirs - table.mean(row, variant.single.name)) <= ONE_DRAW_SDS * sd
        above += theirs > 90
        count += 1
    return Claim(
        "the printed test errors are what single draws of the printed algorithm give",
        inside == count if count else None,
        f"{inside} of {count} of its figures lie within {ONE_DRAW_SDS} of our sds between draws of our mean; {above} "
        "are above the 90 % of guessing",
    )


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Draw heat maps over the grid: single-draw errors with the thesis's, and predictive errors."""
    single, predictive = "lau-sghmc.png", "lau-sghmc-predictive.png"
    shown = (MEANT, MEANT_ALL, PRINTED[0])
    maps = {variant.name: _map(table, dict.fromkeys(points(table), variant.single.name)) for variant in shown}
    theirs = np.array(
        [[printed_figures(length, rate).get(PRINTED[0].single.name, math.nan) for rate in RATES] for length in LENGTHS]
    )
    _heat(maps | {f"thesis, e = {PRINTED[0].scale:g}": theirs}, folder / single, "error of single draws, %")
    maps = {variant.name: _map(table, dict.fromkeys(points(table), variant.predictive.name)) for variant in shown}
    _heat(maps, folder / predictive, "error of the predictive, %")
    return {
        single: "Test error of single draws over the grid, SGHMC with a batch and with all rows, as printed, and the "
        "thesis; NA: diverged",
        predictive: "Test error of the posterior predictive over the grid; NA: diverged",
    }


def _map(table: Table, names: Mapping[str, str]) -> np.ndarray:
    """Means `[length, rate]`; NaN if a run diverged or was not made."""
    return np.array(
        [
            [
                table.mean(row, names[row])
                if row in names and len(table.of(row, names[row])) == len(table.values[row][names[row]])
                else math.nan
                for row in (label(length, rate) for rate in RATES)
            ]
            for length in LENGTHS
        ]
    )


def _heat(maps: Mapping[str, np.ndarray], path: Path, what: str) -> None:
    figure, axes = new_figure(0.8 + 2.5 * len(maps), 2.9, columns=len(maps))
    image: Any = None
    for one, (title, values) in zip(axes, maps.items(), strict=True):
        image = one.imshow(np.ma.masked_invalid(values), vmin=0, vmax=100, cmap="viridis_r", aspect="auto")
        one.set_facecolor("#cccccc")
        for (i, j), value in np.ndenumerate(values):
            text = "NA" if math.isnan(value) else f"{value:.1f}"
            one.text(j, i, text, ha="center", va="center", fontsize=8, color="white" if value > 50 else "black")
        one.set_title(title, fontsize=9)
        one.set_xticks(range(len(RATES)), [f"{rate:g}" for rate in RATES], fontsize=8)
        one.set_yticks(range(len(LENGTHS)), [str(length) for length in LENGTHS], fontsize=8)
        one.set_xlabel("eta", fontsize=8)
    axes[0].set_ylabel("L", fontsize=8)
    figure.colorbar(image, ax=list(axes), shrink=0.9, label=what)
    save(figure, path)


EXPERIMENT = Experiment(
    name="lau-sghmc",
    title="SGHMC over a grid (Lau2018, Tables 4.5 to 4.8)",
    setting=SETTING + "Rows are the grid of the thesis: L steps to a draw, learning rate eta; momentum decay alpha = "
    f"{MOMENTUM_DECAY}, beta^ = 0. *SGHMC* is the sampler of Chen, Fox and Guestrin in these parameters, with the "
    "momentum resampled from N(0, eta) every L steps. The thesis's e has no place in it: the step size of the "
    "dynamics is sqrt(eta), and e could only be the sd of a resampled momentum, which eta determines. *Printed* is "
    "Algorithm "
    "16 as it stands: v ~ e N(0, 1), then L times q <- q + v and v <- -eta gradient - alpha v + N(0, 2 alpha), the "
    f"gradient of all rows estimated by a minibatch. The thesis gives no batch size: {BATCH} rows, and all 500 beside "
    f"it. Starts are from the prior. Each run is shortened to {CHAINS} chains and {FULL_SHARE:.0%} of the warm-up and "
    f"draws, {QUICK_SHARE:.0%} in a quick run; draws are L steps apart, so runs with small L are short. *NA*: a chain "
    f"diverged: its kinetic temperature exceeded {HOTTEST:g} or a value was not finite. *{REFERENCE}*: "
    f"{REFERENCE_SHARE:.0%} of the draws.",
    cases=cases,
    groups={
        "Test error of single draws": tuple(one.single for one in VARIANTS),
        "Test error of the posterior predictive": tuple(one.predictive for one in VARIANTS),
        "Full HMC": (SINGLE, SINGLE_SD, PREDICTIVE),
        "Signs of divergence": (
            MEANT.temperature,
            MEANT_ALL.temperature,
            *(one.square for one in VARIANTS),
        ),
        "Spread of single draws": tuple(one.sd for one in VARIANTS),
        "Cost of a row, all columns together": (SECONDS,),
    },
    judge=judge,
    draw=draw,
    notes="The kinetic temperature is 1 in a run that samples the posterior; for a run that diverged, it is the value "
    "at "
    "which the run was stopped. The mean square of a weight is about 1 under this posterior. The printed algorithm "
    "has no "
    "kinetic temperature: what is left of it is Langevin dynamics at temperature alpha / eta, 0.1, 1, 10 and 100 along "
    "a row. The tables of the thesis are read in the order of their captions, e from 0.1 to 0.0001.",
)
