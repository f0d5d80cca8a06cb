"""Table 4.12 and section 4.10: float32 against float64, for a normal prior and one with a learned scale.

Three experiments: complete runs in either precision; the same trajectory, from a draw of the float64 run with a
momentum from N(0, I), computed in both precisions with half the tuned step size; and, added here, such trajectories for
increasing numbers of rows (`energies.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from ergonet import NUTS, priors
from experiments.lau2018 import claims
from experiments.lau2018.digits import (
    GROUPS,
    NOTES,
    PREDICTIVE,
    SETTING,
    SINGLE,
    SINGLE_SD,
    TARGET_ACCEPTANCE,
    UNITS,
    Run,
    figures,
    score,
)
from experiments.lau2018.energies import (
    ACCEPTED,
    PIXEL_NOISE,
    Both,
    Ends,
    acceptance,
    accepted_step,
    different_rows,
    energies,
    follow,
    potentials,
    training_rows,
)
from experiments.pictures import ERRORS_SEEN, OTHER, OURS, THESIS, errors_by_row, new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

LENGTHS = (10, 50, 100, 200, 500, 1000)
MANY_ROWS, LENGTH_OF_ROWS = (500, 5000, 50000, 500000), 20
NUM_ROW_COUNTS = {"smoke": 2, "quick": 2, "full": 4}
NUM_POINTS = {"smoke": 3, "quick": 20, "full": 50}
MOST_ROWS = 5_000_000  # rows of all points together
STEP_SHARE = 0.5
ORDER = 10**0.5  # either way: the same order of magnitude

ABSOLUTE = Quantity("mean |H64 - H32|", -2)
SIGNED = Quantity("mean H64 - H32", -2)
OF_STATES = Quantity("mean |H64 - H32|, both ends in float64", -2)
RELATIVE = Quantity("mean |H64 - H32| / H", -2)
ENERGY_ERROR = Quantity("mean |H64 - H64 at the start|", -2)
ACCEPTANCE = Quantity("mean acceptance in float64", 4)
AROUND = Quantity("mean |dH64 - dH32|, around the start", -2)
ACCEPTANCE_CHANGE = Quantity("mean |change of the acceptance|", -2)
RATE_CHANGE = Quantity("change of the mean acceptance", -2)
WHOLE_CHANGE = Quantity("mean |change of the acceptance|, whole energies", -2)
CHANGES = (ACCEPTANCE_CHANGE, RATE_CHANGE, WHOLE_CHANGE)
DIFFERENCES = (ABSOLUTE, SIGNED, OF_STATES, RELATIVE, AROUND, ENERGY_ERROR, ACCEPTANCE, *CHANGES)

STEP_SIZE = Quantity("step size", -2)
ROUNDING = Quantity("sd of U32 - U64", -2)
ROUNDING_AROUND = Quantity("sd of U32 - U64, around a draw", -2)
MOST_CHANGE = 1e-3  # largest mean change of an acceptance, at any number of rows
INFORMATIVE = (0.6, 0.95)  # acceptances that a change of the energies would show in
NEAR = 1e-3  # around one draw: far enough for roundings to differ, near enough to hold them in double precision
SINGLE_PRECISION, DOUBLE_PRECISION = "float32", "float64"
KERNEL = NUTS(target_acceptance=TARGET_ACCEPTANCE)
NORMAL, GAMMA = "normal", "NIG"
THESIS_DIFFERENCES = {NORMAL: 1e-5, GAMMA: 1e-2}
LEARNED_SHARE = 0.25
GAMMA_PRIOR = {"layers.1.weight": priors.NormalGamma(1.0, 1.0)}
NIG_SINGLE, NIG_DOUBLE = f"{GAMMA}, {SINGLE_PRECISION}", f"{GAMMA}, {DOUBLE_PRECISION}"
FLOATS = {
    NORMAL: Run(SINGLE_PRECISION, KERNEL, source=figures(27.6)),
    GAMMA: Run(NIG_SINGLE, KERNEL, priors=GAMMA_PRIOR, share=LEARNED_SHARE, source=figures(23.2)),
}
DOUBLES = {
    NORMAL: Run(DOUBLE_PRECISION, KERNEL, is_double=True, source=figures(25.8)),
    GAMMA: replace(FLOATS[GAMMA], label=NIG_DOUBLE, is_double=True, source=figures(28.8)),
}
PRECISIONS = {prior: (FLOATS[prior].label, DOUBLES[prior].label) for prior in FLOATS}


def length_label(length: int, prior: str = NORMAL) -> str:
    """The label of trajectories of a length over the 500 training rows."""
    return f"{length} steps, 500 rows" if prior == NORMAL else f"{prior}, {length} steps"


def rows_label(rows: int) -> str:
    """The label of trajectories over `rows` rows."""
    return f"{LENGTH_OF_ROWS} steps, {rows} different rows"


LENGTH_LABELS = {prior: tuple(length_label(length, prior) for length in LENGTHS) for prior in FLOATS}


def cases(size: Size) -> list[Case]:
    """Two runs for each prior, then the trajectories, which start from draws of the float64 run of the same seed."""

    def of_double(prior: str) -> Case:
        run = DOUBLES[prior]
        return Case(run.label, lambda size, seed: _double(size, seed, prior)[0], run.source)

    def at_length(length: int, prior: str) -> Case:
        def measure(size: Size, seed: int) -> dict[str, float]:
            return _trajectories(size, seed, prior)[length]

        return Case(length_label(length, prior), measure, {ABSOLUTE.name: THESIS_DIFFERENCES[prior]})

    def at_rows(rows: int) -> Case:
        return Case(rows_label(rows), lambda size, seed: _of_rows(size, seed, rows))

    return [
        *(case for prior in FLOATS for case in (FLOATS[prior].case(), of_double(prior))),
        *(at_length(length, prior) for prior in FLOATS for length in LENGTHS),
        *map(at_rows, MANY_ROWS[: NUM_ROW_COUNTS[size.mode]]),
    ]


@cache
def _double(size: Size, seed: int, prior: str) -> tuple[dict[str, float], np.ndarray, float]:
    """Scores of the float64 run, some of its draws `[point, dim]`, and its mean step size."""
    with jax.enable_x64(True):
        samples = DOUBLES[prior].sample(size, seed)
        positions = np.asarray(samples.positions).reshape(-1, samples.positions.shape[2])
        chosen = np.linspace(0, len(positions) - 1, NUM_POINTS[size.mode]).astype(int)
        return score(samples, KERNEL), positions[chosen], float(np.mean(samples.tuning["step_size"]))


@cache
def _trajectories(size: Size, seed: int, prior: str) -> dict[int, dict[str, float]]:
    """The differences by length, over trajectories that start from draws of the float64 run."""
    _, positions, tuned = _double(size, seed, prior)
    both = training_rows((size.units(UNITS),), DOUBLES[prior].priors, len(positions))
    return _compare(both, positions.astype(np.float32), np.float32(STEP_SHARE * tuned), LENGTHS, seed)


def _of_rows(size: Size, seed: int, rows: int) -> dict[str, float]:
    """The differences over trajectories of that many rows, and the scatter of potentials near a draw."""
    count = min(NUM_POINTS[size.mode], MOST_ROWS // rows)
    both, positions = different_rows(size.units(UNITS), rows, count, seed)
    momenta = _momenta(positions, seed)
    step_size = accepted_step(both, (positions, momenta), LENGTH_OF_ROWS)
    found = _compare(both, positions, step_size, (LENGTH_OF_ROWS,), seed)[LENGTH_OF_ROWS]
    noise = np.random.default_rng(seed + 1).standard_normal((NUM_POINTS[size.mode], positions.shape[1]))
    near = (positions[0] + NEAR * noise).astype(np.float32)
    single = np.asarray(potentials(both.single, jnp.asarray(both.classes[0]), jnp.asarray(near)), np.float64)
    with jax.enable_x64(True):
        classes, points = jnp.asarray(both.classes[0]), jnp.asarray(near, np.float64)
        exact = np.asarray(potentials(both.double, classes, points))
    plain, around = np.std(single - exact, axis=0)
    return found | {STEP_SIZE.name: float(step_size), ROUNDING.name: float(plain), ROUNDING_AROUND.name: float(around)}


def _momenta(positions: np.ndarray, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(positions.shape).astype(np.float32)


def _compare(
    both: Both, positions: np.ndarray, step_size: np.float32, lengths: Sequence[int], seed: int
) -> dict[int, dict[str, float]]:
    """The differences by length of the same trajectories in both precisions."""
    starts = positions, _momenta(positions, seed)
    single = follow(both.single, both.classes, starts, step_size, lengths)
    with jax.enable_x64(True):
        double = follow(both.double, both.classes, starts, np.float64(step_size), lengths)
        evaluated = {
            length: energies(both.double, both.classes, positions, (single[length].positions, single[length].momenta))
            for length in lengths
        }
    return {
        length: _differences((double[0], double[length]), (single[0], single[length]), evaluated[length])
        for length in lengths
    }


def _differences(double: tuple[Ends, Ends], single: tuple[Ends, Ends], evaluated: Ends) -> dict[str, float]:
    """Differences between the ends in either precision, and of the float32 ends evaluated in float64."""
    (start64, end64), (start32, end32) = double, single
    change, error64 = end64.whole - end32.whole, end64.around - start64.around
    accepted64 = acceptance(start64.around, end64.around)
    accepted32 = acceptance(start32.around, end32.around)
    accepted_whole = acceptance(start32.whole, end32.whole)
    return {
        ABSOLUTE.name: float(np.mean(np.abs(change))),
        SIGNED.name: float(np.mean(change)),
        OF_STATES.name: float(np.mean(np.abs(end64.whole - evaluated.whole))),
        RELATIVE.name: float(np.mean(np.abs(change / end64.whole))),
        AROUND.name: float(np.mean(np.abs(error64 - (end32.around - start32.around)))),
        ENERGY_ERROR.name: float(np.mean(np.abs(error64))),
        ACCEPTANCE.name: float(np.mean(accepted64)),
        ACCEPTANCE_CHANGE.name: float(np.mean(np.abs(accepted64 - accepted32))),
        RATE_CHANGE.name: float(np.mean(accepted32 - accepted64)),
        WHOLE_CHANGE.name: float(np.mean(np.abs(accepted64 - accepted_whole))),
    }


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.10."""
    known = [prior for prior in FLOATS if FLOATS[prior].label in table.labels]
    found = []
    for prior in known:
        found += [
            claims.errors_agree(table, PRECISIONS[prior], f"both precisions have the same test errors ({prior} prior)"),
            claims.ess_agrees(table, PRECISIONS[prior], f"both precisions are as efficient per draw ({prior} prior)"),
            *_of_energies(table, prior),
        ]
    if len(known) > 1:
        found.append(_larger(table))
    labels = [label for label in map(rows_label, MANY_ROWS) if label in table.labels]
    if labels:
        found += [_rounding(table, labels), _drift(table, labels)]
    return [*found, claims.one_draw(table)]


def _of_energies(table: Table, prior: str) -> list[Claim]:
    labels, most = LENGTH_LABELS[prior], THESIS_DIFFERENCES[prior]
    sizes, signed, of_points, of_rates = (
        [abs(table.mean(label, one.name)) for label in labels]
        for one in (ABSOLUTE, SIGNED, ACCEPTANCE_CHANGE, RATE_CHANGE)
    )
    over = f"over {LENGTHS[0]} to {LENGTHS[-1]} steps"
    around = [table.mean(label, AROUND.name) for label in labels]
    told = (
        f"mean |H64 - H32| is {min(sizes):.1e} to {max(sizes):.1e} {over}, of the energies around the start "
        f"{min(around):.1e} to {max(around):.1e}; the mean with its sign is at most {max(signed):.1e}"
    )
    return [
        Claim(
            f"the energies at the end of a trajectory differ by "
            f"{'less than' if prior == NORMAL else 'the order of'} {most:g} on average ({prior} prior)",
            max(sizes) < most if prior == NORMAL else most / ORDER <= max(sizes) <= most * ORDER,
            told,
        ),
        Claim(
            f"the difference changes an acceptance rate by 1 % at most ({prior} prior)",
            max(of_rates) <= 0.01,
            f"the mean over trajectories changes by at most {100 * max(of_rates):.2g} %, that of one trajectory by "
            f"{100 * min(of_points):.2g} to {100 * max(of_points):.2g} % on average {over}",
        ),
    ]


def _larger(table: Table) -> Claim:
    ratios = [
        table.mean(learned, ABSOLUTE.name) / table.mean(normal, ABSOLUTE.name)
        for normal, learned in zip(LENGTH_LABELS[NORMAL], LENGTH_LABELS[GAMMA], strict=True)
    ]
    return Claim(
        "the energies differ far more under the NIG prior than under the normal one",
        min(ratios) > ORDER,
        f"NIG over normal {', '.join(f'{one:.2f}' for one in ratios)} at {', '.join(map(str, LENGTHS))} steps",
    )


def _rounding(table: Table, labels: Sequence[str]) -> Claim:
    """A claim of ours, not of the thesis."""
    plain, around = (_told(table, labels, one) for one in (ROUNDING, ROUNDING_AROUND))
    lower = [table.mean(label, ROUNDING_AROUND.name) < table.mean(label, ROUNDING.name) for label in labels]
    return Claim(
        "(our claim, not the thesis's) potentials relative to a draw have smaller rounding errors, for any number "
        "of rows",
        all(lower),
        f"sd of U32 - U64 {plain} as it is, {around} around a draw, for {', '.join(labels)}",
    )


def _drift(table: Table, labels: Sequence[str]) -> Claim:
    """A claim of ours, not of the thesis; undecided if the acceptance is too high or too low to show a change."""
    rates = [table.mean(label, ACCEPTANCE.name) for label in labels]
    is_informative = all(INFORMATIVE[0] <= rate <= INFORMATIVE[1] for rate in rates)
    is_small = all(table.mean(label, ACCEPTANCE_CHANGE.name) <= MOST_CHANGE for label in labels)
    return Claim(
        f"(our claim, not the thesis's) float32 changes an acceptance near {ACCEPTED:g} by {MOST_CHANGE:.1%} at most "
        f"on average, whatever the number of rows",
        is_small if is_informative else None,
        f"by {_told(table, labels, ACCEPTANCE_CHANGE)} around the start, by {_told(table, labels, WHOLE_CHANGE)} with "
        f"whole energies, at acceptances of {', '.join(f'{rate:.2f}' for rate in rates)}, for {', '.join(labels)}",
    )


def _told(table: Table, labels: Sequence[str], quantity: Quantity) -> str:
    return ", ".join(quantity.show(table.mean(label, quantity.name)) for label in labels)


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Draw errors by precision, and differences against the length."""
    errors, differences = "lau-precision.png", "lau-precision-energy.png"
    shown = [label for pair in PRECISIONS.values() for label in pair if label in table.labels]
    runs = Table({label: table.values[label] for label in shown}, table.sources)
    errors_by_row(runs, folder / errors, (SINGLE, PREDICTIVE), spread=SINGLE_SD)
    figure, (axes,) = new_figure(8.6, 3.6)
    for prior, style in ((NORMAL, "o-"), (GAMMA, "s:")):
        labels = [label for label in LENGTH_LABELS[prior] if label in table.labels]
        for quantity, color in ((ABSOLUTE, OURS), (OF_STATES, OTHER)) if labels else ():
            means = [table.mean(label, quantity.name) for label in labels]
            sds = np.nan_to_num([table.error(label, quantity.name) for label in labels])
            named = f"{prior}: {quantity.name.removeprefix('mean ')}"
            axes.errorbar(LENGTHS, means, yerr=sds, fmt=style, color=color, capsize=3, label=named)
        of_thesis, dashes = THESIS_DIFFERENCES[prior], "--" if prior == NORMAL else ":"
        if labels:
            axes.axhline(of_thesis, color=THESIS, ls=dashes, lw=1, label=f"thesis, {prior}: {of_thesis:g}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("leapfrog steps")
    axes.set_ylabel("difference of the energies")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(figure, folder / differences)
    return {
        errors: ERRORS_SEEN,
        differences: "Mean absolute difference of the energies against the length of the trajectory",
    }


EXPERIMENT = Experiment(
    name="lau-precision",
    title="float32 against float64 (Lau2018, Table 4.12 and section 4.10)",
    setting=SETTING
    + "NUTS. *NIG*: the prior of the output weights is N(0, sigma^2) with sigma^-2 ~ Gamma(0.5, 0.5), non-centered; "
    f"its runs have {LEARNED_SHARE:.0%} of the warm-up and of the draws, as they need up to 1023 steps a draw. The "
    f"trajectories: {NUM_POINTS['full']} draws of each float64 run, rounded to float32, each with a momentum from "
    "N(0, I), identity metric, half the step size that the run was tuned to; the same start in both precisions, the "
    "energy at the end as each precision computes it. *Both ends in float64*: the float32 end's energy computed in "
    "float64, so that only the path differs. *Around the start*: as samplers compute energies, without the potential "
    "at the start, which is taken off every row and every weight before they are summed; dH is the energy at the end "
    "less that at the start. Changes of acceptances are of those, where they are not of *whole energies*. *So many "
    "different rows*: the training rows over and over, each with noise of its own of sd "
    f"{PIXEL_NOISE:g} on every pixel, in units of the pixels' sd; weights from the prior, then classes from the "
    "network with these weights, so that every start is an exact draw of a posterior of its own; the normal prior; "
    f"the step size is one at which about {ACCEPTED:g} of the trajectories are accepted; there are "
    f"{MOST_ROWS // MANY_ROWS[-1]} of {MANY_ROWS[-1]} rows. *sd of U32 - U64*: over "
    f"{NUM_POINTS['full']} points within {NEAR:g} of the first of these draws, around the first of the points.",
    cases=cases,
    groups={
        **GROUPS,
        "The same trajectory in both precisions": DIFFERENCES,
        "Different rows": (STEP_SIZE, ROUNDING, ROUNDING_AROUND),
    },
    judge=judge,
    draw=draw,
    notes=NOTES
    + "Where the mean |H64 - H64 at the start| is well above 1, some trajectories are unstable: both precisions reject "
    "them, and the mean difference of the energies is theirs.",
    reference=DOUBLE_PRECISION,
    ratios=(),
)
