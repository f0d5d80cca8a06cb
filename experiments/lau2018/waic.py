"""Table 4.14: WAIC by numbers of units, why the printed one grows, and whether any criterion chooses well."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ergonet
from ergonet import NUTS, comparison
from experiments.comparison import FACTOR
from experiments.lau2018 import claims
from experiments.lau2018.digits import (
    NOTES,
    PREDICTIVE,
    SETTING,
    SINGLE,
    SINGLE_SD,
    TARGET_ACCEPTANCE,
    Run,
    data,
    draw_errors,
    figures,
    target,
)
from experiments.pictures import OTHER, OURS, THESIS, new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

PRINTED = {35: (3.05e4, 23.4), 50: (4.35e4, 20.4), 75: (6.36e4, 21.2), 90: (7.57e4, 21.2)}  # WAIC, error
WIDTHS = (5, 15, *PRINTED)
REFERENCE = 35
KERNEL = NUTS(target_acceptance=TARGET_ACCEPTANCE)
ERRORS = 2  # standard errors over rows within which two scores count as the same

RIGHT = Quantity("WAIC, -2 elpd")
OTHER_LABELS = Quantity("with the labels of the test rows")
OTHER_INPUTS = Quantity("with the inputs of the test rows")
PRIOR = Quantity("of draws of the prior")
LPPD = Quantity("lppd", 1)
PARAMETERS = Quantity("p_WAIC", 1)
LOO = Quantity("LOO, nats per row", 3)
WAIC = Quantity("WAIC, nats per row", 3)
HELD = Quantity("held-out log score, nats per row", 3)
BAD = Quantity("rows with a bad Pareto k", 1)
CROSS = Quantity("5-fold cross-validation, nats per row", 3)
CROSS_APART = Quantity("LOO minus cross-validation", 3)
CROSS_ERROR = Quantity("its error over rows", 3)
NUM_FOLDS = 5
CRITERIA = (LOO, WAIC, HELD)
APART = {one: Quantity(f"{one.name.partition(',')[0]} minus that of {REFERENCE} units", 4) for one in CRITERIA}
APART_ERROR = {one: Quantity(f"error over rows of the {one.name.partition(',')[0]} difference", 4) for one in CRITERIA}


def label(units: int) -> str:
    """The label of a row."""
    return f"{units} units"


@dataclass(frozen=True, eq=False)
class Scored:
    """Figures of a run, and the parts of each row of the criteria."""

    figures: Mapping[str, float]
    rows: Mapping[Quantity, np.ndarray]


def scored(units: int, size: Size, seed: int) -> Scored:
    """Sample and score one width; in a smoke run most are as narrow as the reference, and are sampled once."""
    return _scored(REFERENCE if size.units(units) == size.units(REFERENCE) else units, size, seed)


@cache
def _scored(units: int, size: Size, seed: int) -> Scored:
    """Kept, because every other width is compared with the reference row by row."""
    hidden = (size.units(units),)
    samples = Run(label(units), KERNEL, hidden=hidden).sample(replace(size, width=1.0), seed)
    held = data()
    x_train, x_test = (np.asarray(one, np.float32) for one in (held.x_train, held.x_test))
    loo, waic = comparison.loo(samples), comparison.waic(samples)
    rows = {LOO: loo.pointwise, WAIC: waic.pointwise}
    rows[HELD] = comparison.held_out(samples, x_test, held.y_test).pointwise
    single = 100 * draw_errors(samples, x_test, np.asarray(held.y_test))
    wrong = ergonet.predict(samples, x_test).mean.argmax(axis=1) != np.asarray(held.y_test)
    found = {
        SINGLE.name: float(single.mean()),
        SINGLE_SD.name: float(single.std()),
        PREDICTIVE.name: 100 * float(wrong.mean()),
        RIGHT.name: -2 * waic.value,
        LPPD.name: waic.value + waic.num_parameters,
        PARAMETERS.name: waic.num_parameters,
        OTHER_LABELS.name: deviance(samples, x_train, held.y_test),
        OTHER_INPUTS.name: deviance(samples, x_test, held.y_train),
        PRIOR.name: deviance(from_prior(samples, hidden, seed), x_train, held.y_train),
        BAD.name: float(loo.unreliable.sum()),
        **{one.name: float(values.mean()) for one, values in rows.items()},
    }
    if units == REFERENCE:
        crossed = cross_validated(samples, x_train, np.asarray(held.y_train), size, seed)
        found[CROSS.name] = float(crossed.mean())
        found[CROSS_APART.name], found[CROSS_ERROR.name] = mean_and_error(rows[LOO] - crossed)
    return Scored(found, rows)


def cross_validated(samples: Any, x: np.ndarray, y: np.ndarray, size: Size, seed: int) -> np.ndarray:
    """Log densities of the training rows by fits without a fifth of them, which no importance weights spoil."""
    lengths: dict[str, Any] = {
        "num_chains": size.num_chains,
        "num_warmup": size.num_warmup,
        "num_draws": size.num_draws,
    }

    def fit(x: np.ndarray, y: np.ndarray) -> Any:
        return ergonet.sample(samples.target.model.condition(x, y), KERNEL, seed=seed, progress=False, **lengths)

    folds = [np.arange(first, len(y), NUM_FOLDS) for first in range(NUM_FOLDS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return comparison.cross_validate(fit, x, y, folds).pointwise


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """The mean over rows and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def deviance(samples: Any, x: np.ndarray, y: np.ndarray) -> float:
    """WAIC times -2 of draws for other rows than those of the fit."""
    other = samples.target.model.condition(x, np.asarray(y)[: len(x)])
    return -2 * comparison.waic(replace(samples, target=other)).value


def from_prior(samples: Any, hidden: tuple[int, ...], seed: int) -> Any:
    """As many draws of the prior."""
    model = target(hidden, 1.0, is_double=False).model
    keys = jax.random.split(jax.random.key(seed), samples.num_chains * samples.num_draws)
    drawn = np.asarray(jax.vmap(model.sample_prior)(keys)).reshape(samples.num_chains, samples.num_draws, -1)
    return replace(samples, positions=drawn)


def measure(units: int, size: Size, seed: int) -> dict[str, float]:
    """The figures of a width, with its differences from the reference, paired over rows."""
    found, apart = scored(units, size, seed), {}
    if units != REFERENCE:
        base = scored(REFERENCE, size, seed)
        for one in CRITERIA:
            apart[APART[one].name], apart[APART_ERROR[one].name] = mean_and_error(found.rows[one] - base.rows[one])
    return {**found.figures, **apart}


def cases(_: Size) -> list[Case]:
    """The rows."""
    found = []
    for units in WIDTHS:
        waic, error = PRINTED.get(units, (None, None))
        source = figures(error) | ({} if waic is None else {RIGHT.name: waic, OTHER_LABELS.name: waic})
        found.append(Case(label(units), partial(measure, units), source))
    return found


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.12, and what stands behind them."""
    thesis = tuple(PRINTED)
    first, last = (table.mean(label(units), RIGHT.name) for units in (thesis[0], thesis[-1]))
    growth = PRINTED[thesis[-1]][0] / PRINTED[thesis[0]][0]
    told = ", ".join(f"{table.mean(label(units), RIGHT.name):.0f}" for units in thesis)
    return [
        Claim(
            "WAIC grows with the units",
            last / first > FACTOR,
            f"{told} for {', '.join(map(str, thesis))} units, so the last is {last / first:.2f} times the first, and "
            f"{growth:.2f} times in the thesis",
        ),
        _of_strangers(table),
        _of_thesis(table),
        *(_chooses(table, criterion) for criterion in (WAIC, LOO)),
        _agrees(table),
        _is_trusted(table),
        claims.one_draw(table),
    ]


def _of_strangers(table: Table) -> Claim:
    """A claim of ours, not of the thesis."""
    ratios = {
        one: [table.mean(label(units), one.name) / waic for units, (waic, _) in PRINTED.items()]
        for one in (OTHER_LABELS, OTHER_INPUTS, PRIOR)
    }
    told = "; ".join(f"{one.name} {', '.join(f'{ratio:.2f}' for ratio in found)}" for one, found in ratios.items())
    return Claim(
        "(our claim, not the thesis's) the printed WAIC is what draws give that are scored with labels which they have "
        "not seen, here those of the test rows",
        all(1 / FACTOR <= ratio <= FACTOR for ratio in ratios[OTHER_LABELS]),
        f"ours over the printed figure at {', '.join(map(str, PRINTED))} units: {told}",
    )


def _loss(table: Table, widths: Sequence[int], criterion: Quantity) -> tuple[str, str, float, float]:
    """The width with the best value of a criterion, the best one, and the loss in held-out log score with its error."""
    labels = list(map(label, widths))
    chosen = max(labels, key=lambda one: table.mean(one, criterion.name))
    best = max(labels, key=lambda one: table.mean(one, HELD.name))
    parts = [table.mean(one, APART_ERROR[HELD].name) for one in {chosen, best} - {label(REFERENCE)}]
    error = float(np.linalg.norm(parts)) if chosen != best else 0.0
    return chosen, best, table.mean(best, HELD.name) - table.mean(chosen, HELD.name), error


def _of_thesis(table: Table) -> Claim:
    """Its conclusion, which needs widths that differ."""
    chosen, best, loss, error = _loss(table, tuple(PRINTED), WAIC)
    lowest = min((label(units) for units in PRINTED), key=lambda one: table.mean(one, HELD.name))
    spread = table.mean(best, HELD.name) - table.mean(lowest, HELD.name)
    parts = [table.mean(one, APART_ERROR[HELD].name) for one in {lowest, best} - {label(REFERENCE)}]
    is_spread = bool(spread > ERRORS * np.linalg.norm(parts))
    return Claim(
        "WAIC does not choose the width that predicts held-out rows best, of 35, 50, 75 and 90 units",
        bool(loss > ERRORS * error) if is_spread else None,
        f"it chooses {chosen}, held-out rows {best}; all four have held-out log scores within {spread:.3f} "
        f"\N{PLUS-MINUS SIGN} {np.linalg.norm(parts):.3f} nats per row",
    )


def _chooses(table: Table, criterion: Quantity) -> Claim:
    """Whether the width with the best value has a held-out score within the noise of the best one."""
    chosen, best, loss, error = _loss(table, WIDTHS, criterion)
    name = criterion.name.partition(",")[0]
    return Claim(
        f"(not in the thesis) of {WIDTHS[0]} to {WIDTHS[-1]} units {name} chooses one that predicts held-out rows as "
        "well as the best",
        bool(loss <= ERRORS * error),
        f"it chooses {chosen}, which is worse than {best} by {loss:.3f} \N{PLUS-MINUS SIGN} {error:.3f} nats per row",
    )


def _is_trusted(table: Table) -> Claim:
    """Whether LOO is what fits without the rows give."""
    place = label(REFERENCE)
    apart, error = (table.mean(place, one.name) for one in (CROSS_APART, CROSS_ERROR))
    return Claim(
        f"(not in the thesis) LOO of {place} is what {NUM_FOLDS}-fold cross-validation gives",
        bool(abs(apart) <= ERRORS * error),
        f"{table.mean(place, LOO.name):.3f} and {table.mean(place, CROSS.name):.3f} nats per row, "
        f"{apart:+.3f} \N{PLUS-MINUS SIGN} {error:.3f}; held-out rows {table.mean(place, HELD.name):.3f}",
    )


def _agrees(table: Table) -> Claim:
    """Whether LOO changes with the width as the held-out log score does."""
    told, within = [], []
    for units in WIDTHS:
        if units != REFERENCE:
            loo, held = (table.mean(label(units), APART[one].name) for one in (LOO, HELD))
            error = np.linalg.norm([table.mean(label(units), APART_ERROR[one].name) for one in (LOO, HELD)])
            within.append(bool(abs(loo - held) <= ERRORS * error))
            told.append(f"{label(units)} {loo:+.3f} and {held:+.3f} \N{PLUS-MINUS SIGN} {error:.3f}")
    return Claim(
        f"(not in the thesis) LOO changes with the width as the held-out log score does, within {ERRORS} errors",
        all(within),
        f"LOO and held-out log score minus those of {label(REFERENCE)}: {', '.join(told)}",
    )


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Draw WAIC by units beside the printed figures, and the criteria per row."""
    file = "lau-waic.png"
    figure, (left, right) = new_figure(9.6, 3.9, columns=2)
    means = {one: [table.mean(label(units), one.name) for units in WIDTHS] for one in (RIGHT, OTHER_LABELS, PRIOR)}
    for (one, values), color, style in zip(means.items(), (OURS, OTHER, OTHER), ("o-", "s-", "^--"), strict=True):
        left.plot(WIDTHS, values, style, color=color, ms=5, label=one.name)
    left.plot(list(PRINTED), [one for one, _ in PRINTED.values()], "x", color=THESIS, ms=9, mew=2, label="thesis")
    left.set_yscale("log")
    left.set_ylabel("WAIC, -2 elpd, of 500 rows")
    for one, color, style in zip(CRITERIA, (OURS, OURS, OTHER), ("o-", "^--", "s-"), strict=True):
        values = [table.mean(label(units), one.name) for units in WIDTHS]
        errors = np.nan_to_num([table.mean(label(units), APART_ERROR[one].name) for units in WIDTHS])
        right.errorbar(WIDTHS, values, yerr=errors, fmt=style, color=color, ms=5, capsize=3, label=one.name)
    right.plot([REFERENCE], [table.mean(label(REFERENCE), CROSS.name)], "*", color=THESIS, ms=11, label=CROSS.name)
    right.set_ylabel("nats per row, larger is better")
    for axes in (left, right):
        axes.set_xlabel("hidden units")
        axes.set_xticks(WIDTHS)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    save(figure, folder / file)
    return {
        file: "Left: WAIC of the draws, of the same draws with other labels, and of the prior; crosses: the thesis. "
        f"Right: criteria per row; bars: error over rows of the difference from {REFERENCE} units"
    }


EXPERIMENT = Experiment(
    name="lau-waic",
    title="WAIC by units, and whether any criterion chooses well (Lau2018, Table 4.14)",
    setting=SETTING
    + "NUTS, one hidden layer. The thesis defines WAIC = lppd - p_WAIC, which cannot exceed 0 for probabilities of "
    "classes, and prints 3 to 8 times 10^4, of which the lowest is to be chosen: so its scale must be that of the "
    "deviance, -2 (lppd - p_WAIC), and that is the scale of the first table. Beside WAIC of the training rows stand "
    "three that are wrong on purpose: of the same draws for the training inputs with the *labels of the test rows* "
    "(there are 500 of both), for the *inputs of the test rows* with the labels of the training rows, and of draws of "
    "the *prior*. The second table has the criteria per row and on the scale of the log score, where larger is better: "
    "LOO by Pareto-smoothed importance sampling, WAIC, and the log score of the 500 test rows; for "
    f"{REFERENCE} units also {NUM_FOLDS}-fold cross-validation of the training rows, which needs {NUM_FOLDS} more "
    "fits. The rows of 5 and 15 units are not in the thesis; they are a range in which there is something to choose.",
    cases=cases,
    groups={
        "WAIC as deviance": (RIGHT, LPPD, PARAMETERS, OTHER_LABELS, OTHER_INPUTS, PRIOR),
        "Criteria": (LOO, BAD, WAIC, HELD, CROSS, CROSS_APART, CROSS_ERROR),
        f"Differences from {REFERENCE} units": (
            *(one for pair in CRITERIA for one in (APART[pair], APART_ERROR[pair])),
        ),
        "Test error": (SINGLE, SINGLE_SD, PREDICTIVE),
    },
    judge=judge,
    draw=draw,
    notes=NOTES + f"Errors over rows are of differences paired by row; a choice is within the noise of the best if the "
    f"two held-out log scores differ by at most {ERRORS} errors.",
)
