"""Table 4.12 and section 4.10: float32 against float64, for a normal prior and one with a learned scale.

Two experiments: whole runs in either precision; and the same trajectory, from a draw of the float64 run with a
momentum from N(0, I), followed in both by leapfrog steps of half the size that the run was tuned to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import equinox as eqx
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
    target,
)
from experiments.pictures import ERRORS_SEEN, OTHER, OURS, THESIS, errors_by_row, new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

LENGTHS = (10, 50, 100, 200, 500, 1000)
ROWS = (100, 500, 5000)
TRAINING_ROWS, LENGTH_OF_ROWS = 500, 100
NUM_POINTS, SMOKE_POINTS = 50, 3
STEP_SHARE = 0.5
ORDER = 10**0.5  # either way: the same order of magnitude

ABSOLUTE = Quantity("mean |H64 - H32|", -2)
SIGNED = Quantity("mean H64 - H32", -2)
OF_STATES = Quantity("mean |H64 - H32|, both ends in float64", -2)
RELATIVE = Quantity("mean |H64 - H32| / H", -2)
ENERGY_ERROR = Quantity("mean |H64 - H64 at the start|", -2)
ACCEPTANCE = Quantity("mean acceptance in float64", 4)
ACCEPTANCE_CHANGE = Quantity("mean |change of the acceptance|", -2)
RATE_CHANGE = Quantity("change of the mean acceptance", -2)
DIFFERENCES = (ABSOLUTE, SIGNED, OF_STATES, RELATIVE, ENERGY_ERROR, ACCEPTANCE, ACCEPTANCE_CHANGE, RATE_CHANGE)

ROUNDING = Quantity("sd of U32 - U64", -2)
ROUNDING_OFFSET = Quantity("sd of U32 - U64, offset taken off", -2)
MANY_ROWS = (500, 5000, 50000, 500000)
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
    """Of a row of trajectories over the 500 training rows."""
    return f"{length} steps, 500 rows" if prior == NORMAL else f"{prior}, {length} steps"


def rows_label(rows: int) -> str:
    """Of a row of trajectories over other numbers of rows."""
    return f"{LENGTH_OF_ROWS} steps, {rows} rows"


def rounding_label(rows: int) -> str:
    """Of a row of potentials."""
    return f"potential of {rows} rows"


LENGTH_LABELS = {prior: tuple(length_label(length, prior) for length in LENGTHS) for prior in FLOATS}
OTHER_ROWS = {rows_label(rows): rows for rows in ROWS if rows_label(rows) not in LENGTH_LABELS[NORMAL]}


def cases(size: Size) -> list[Case]:
    """Two runs for each prior, then the trajectories, which start from draws of the float64 run of the same seed."""

    def of_double(prior: str) -> Case:
        run = DOUBLES[prior]
        return Case(run.label, lambda size, seed: _double(size, seed, prior)[0], run.source)

    def at_length(length: int, prior: str) -> Case:
        def measure(size: Size, seed: int) -> dict[str, float]:
            return _trajectories(size, seed, TRAINING_ROWS, prior)[length]

        return Case(length_label(length, prior), measure, {ABSOLUTE.name: THESIS_DIFFERENCES[prior]})

    def at_rows(label: str, rows: int) -> Case:
        def measure(size: Size, seed: int) -> dict[str, float]:
            return _trajectories(size, seed, rows, NORMAL)[LENGTH_OF_ROWS]

        return Case(label, measure, {ABSOLUTE.name: THESIS_DIFFERENCES[NORMAL]})

    def at_size(rows: int) -> Case:
        return Case(rounding_label(rows), lambda size, seed: _rounding(size, seed, rows))

    rounded = MANY_ROWS[:2] if size.mode == "smoke" else MANY_ROWS
    return [
        *(case for prior in FLOATS for case in (FLOATS[prior].case(), of_double(prior))),
        *(at_length(length, prior) for prior in FLOATS for length in LENGTHS),
        *(at_rows(label, rows) for label, rows in OTHER_ROWS.items()),
        *map(at_size, rounded),
    ]


@cache
def _double(size: Size, seed: int, prior: str) -> tuple[dict[str, float], np.ndarray, float]:
    """Scores of the float64 run, some of its draws `[point, dim]`, and its mean step size."""
    with jax.enable_x64(True):
        samples = DOUBLES[prior].sample(size, seed)
        positions = np.asarray(samples.positions).reshape(-1, samples.positions.shape[2])
        count = SMOKE_POINTS if size.mode == "smoke" else NUM_POINTS
        chosen = np.linspace(0, len(positions) - 1, count).astype(int)
        return score(samples, KERNEL), positions[chosen], float(np.mean(samples.tuning["step_size"]))


@cache
def _trajectories(size: Size, seed: int, rows: int, prior: str) -> dict[int, dict[str, float]]:
    """The differences by length, over trajectories that start from draws of the float64 run."""
    lengths = LENGTHS if rows == TRAINING_ROWS else (LENGTH_OF_ROWS,)
    _, positions, tuned = _double(size, seed, prior)
    momenta = np.random.default_rng(seed).standard_normal(positions.shape)
    starts = positions.astype(np.float32).astype(np.float64), momenta.astype(np.float32).astype(np.float64)
    step_size = float(np.float32(STEP_SHARE * tuned * min(1.0, (TRAINING_ROWS / rows) ** 0.5)))
    hidden, chosen = (size.units(UNITS),), DOUBLES[prior].priors
    with jax.enable_x64(True):
        exact = target(hidden, 1.0, is_double=True, num_rows=rows, priors=chosen)
        double = _follow(exact, starts, np.float64(step_size), lengths)
    rounded = target(hidden, 1.0, is_double=False, num_rows=rows, priors=chosen)
    single = _follow(rounded, starts, np.float32(step_size), lengths)
    with jax.enable_x64(True):
        evaluated = {
            length: np.asarray(_energies(exact, *(jnp.asarray(part, np.float64) for part in single[length][:2])))
            for length in lengths
        }
    return {length: _differences(double, single, evaluated, length) for length in lengths}


def _rounding(size: Size, seed: int, rows: int) -> dict[str, float]:
    """How far float32 potentials near a draw scatter around float64 ones, with and without the bulk of the rows."""
    _, (position, *_), _ = _double(size, seed, NORMAL)
    noise = np.random.default_rng(seed).standard_normal((NUM_POINTS, position.size))
    points = (position + NEAR * noise).astype(np.float32)
    hidden = (size.units(UNITS),)
    with jax.enable_x64(True):
        exact = target(hidden, 1.0, is_double=True, num_rows=rows)
        truth = np.asarray(_potentials(exact, jnp.asarray(points, np.float64)))
    single = target(hidden, 1.0, is_double=False, num_rows=rows)
    moved = single.with_offset(single.offset_at(jnp.asarray(points[0])))
    plain, better = (np.asarray(_potentials(one, jnp.asarray(points)), np.float64) for one in (single, moved))
    return {ROUNDING.name: float(np.std(plain - truth)), ROUNDING_OFFSET.name: float(np.std(better - truth))}


@eqx.filter_jit
def _potentials(posterior: Any, positions: jax.Array) -> jax.Array:
    return jax.lax.map(posterior.potential, positions)


def _differences(double: Any, single: Any, evaluated: Any, length: int) -> dict[str, float]:
    change = double[length][2] - single[length][2]
    error64 = double[length][2] - double[0][2]
    accepted64 = np.exp(np.minimum(0.0, -error64))
    accepted32 = np.exp(np.minimum(0.0, single[0][2] - single[length][2]))
    return {
        ABSOLUTE.name: float(np.mean(np.abs(change))),
        SIGNED.name: float(np.mean(change)),
        OF_STATES.name: float(np.mean(np.abs(double[length][2] - evaluated[length]))),
        RELATIVE.name: float(np.mean(np.abs(change / double[length][2]))),
        ENERGY_ERROR.name: float(np.mean(np.abs(error64))),
        ACCEPTANCE.name: float(np.mean(accepted64)),
        ACCEPTANCE_CHANGE.name: float(np.mean(np.abs(accepted64 - accepted32))),
        RATE_CHANGE.name: float(np.mean(accepted32 - accepted64)),
    }


def _follow(
    posterior: Any, starts: tuple[np.ndarray, np.ndarray], step_size: np.floating, lengths: Sequence[int]
) -> dict[int, Any]:
    """Positions, momenta and energies `[point]` of all trajectories by length, 0 for the start, as NumPy float64.

    Computed in the precision of the step size.
    """
    positions, momenta = (jnp.asarray(part, step_size.dtype) for part in starts)
    found = {0: (positions, momenta, _energies(posterior, positions, momenta))}
    for before, length in pairwise((0, *lengths)):
        positions, momenta = _leapfrog(
            posterior, positions, momenta, jnp.asarray(step_size), jnp.asarray(length - before)
        )
        found[length] = (positions, momenta, _energies(posterior, positions, momenta))
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), found)


@eqx.filter_jit
def _energies(posterior: Any, positions: jax.Array, momenta: jax.Array) -> jax.Array:
    """H = U + p'p / 2 of every point, in the precision of the points."""

    def one(point: tuple[jax.Array, jax.Array]) -> jax.Array:
        return posterior.potential(point[0]) + 0.5 * jnp.dot(point[1], point[1])

    return jax.lax.map(one, (positions, momenta))


@eqx.filter_jit
def _leapfrog(
    posterior: Any, positions: jax.Array, momenta: jax.Array, step_size: jax.Array, count: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """`count` leapfrog steps of every point under the identity metric."""
    gradient = jax.grad(posterior.potential)

    def step(_: jax.Array, state: Any) -> Any:
        position, momentum, force = state
        momentum = momentum - 0.5 * step_size * force
        position = position + step_size * momentum
        force = gradient(position)
        return position, momentum - 0.5 * step_size * force, force

    def one(point: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return jax.lax.fori_loop(0, count, step, (*point, gradient(point[0])))[:2]

    return jax.lax.map(one, (positions, momenta))


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.10."""
    known = [prior for prior in FLOATS if FLOATS[prior].label in table.labels]
    found = []
    for prior in known:
        found += [
            claims.errors_agree(table, PRECISIONS[prior], f"both precisions err alike ({prior} prior)"),
            claims.ess_agrees(table, PRECISIONS[prior], f"both precisions are as efficient per draw ({prior} prior)"),
            *_of_energies(table, prior),
        ]
    if len(known) > 1:
        found.append(_larger(table))
    return [*found, _offset(table), claims.one_draw(table)]


def _of_energies(table: Table, prior: str) -> list[Claim]:
    labels, most = LENGTH_LABELS[prior], THESIS_DIFFERENCES[prior]
    sizes, signed, of_points, of_rates = (
        [abs(table.mean(label, one.name)) for label in labels]
        for one in (ABSOLUTE, SIGNED, ACCEPTANCE_CHANGE, RATE_CHANGE)
    )
    over = f"over {LENGTHS[0]} to {LENGTHS[-1]} steps"
    told = f"mean |H64 - H32| is {min(sizes):.1e} to {max(sizes):.1e} {over}, the mean with its sign at most "
    return [
        Claim(
            f"the energies at the end of a trajectory differ by "
            f"{'less than' if prior == NORMAL else 'the order of'} {most:g} on average ({prior} prior)",
            max(sizes) < most if prior == NORMAL else most / ORDER <= max(sizes) <= most * ORDER,
            f"{told}{max(signed):.1e}",
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


def _offset(table: Table) -> Claim:
    """Ours, not the thesis's."""
    labels = [label for label in map(rounding_label, MANY_ROWS) if label in table.labels]
    plain, better = ([table.mean(label, one.name) for label in labels] for one in (ROUNDING, ROUNDING_OFFSET))
    shares = [new / old for new, old in zip(better, plain, strict=True)]
    return Claim(
        "(ours, not the thesis's) a potential with its bulk taken off rounds less, the more so the more rows there are",
        max(shares) < 1 and shares[-1] < shares[0],
        f"sd of U32 - U64 {', '.join(f'{one:.1e}' for one in plain)} as it is, "
        f"{', '.join(f'{one:.1e}' for one in better)} with the offset that samplers take off, for "
        f"{', '.join(labels)}",
    )


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Errors by precision; differences against the length."""
    errors, differences = "lau-precision.png", "lau-precision-energy.png"
    shown = [label for pair in PRECISIONS.values() for label in pair if label in table.labels]
    runs = Table({label: table.values[label] for label in shown}, table.sources)
    errors_by_row(runs, folder / errors, (SINGLE, PREDICTIVE), spread=SINGLE_SD)
    figure, (axes,) = new_figure(8.6, 3.6)
    for prior, style in ((NORMAL, "o-"), (GAMMA, "s:")):
        labels = [label for label in LENGTH_LABELS[prior] if label in table.labels]
        for quantity, colour in ((ABSOLUTE, OURS), (OF_STATES, OTHER)) if labels else ():
            means = [table.mean(label, quantity.name) for label in labels]
            sds = np.nan_to_num([table.error(label, quantity.name) for label in labels])
            named = f"{prior}: {quantity.name.removeprefix('mean ')}"
            axes.errorbar(LENGTHS, means, yerr=sds, fmt=style, color=colour, capsize=3, label=named)
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
    title="float32 against float64 (Lau 2018, Table 4.12 and section 4.10)",
    setting=SETTING
    + "NUTS. *NIG*: the prior of the output weights is N(0, sigma^2) with sigma^-2 ~ Gamma(0.5, 0.5), non-centred; "
    f"its runs have {LEARNED_SHARE:.0%} of the warm-up and of the draws, as they need up to 1023 steps a draw. The "
    f"trajectories: {NUM_POINTS} draws of each float64 run, rounded to float32, each with a momentum from N(0, I), "
    "identity metric, "
    "half the step size that the run was tuned to; the same start in both precisions, the energy at the end as each "
    "precision computes it. *Both ends in float64*: the float32 end's energy computed in float64, so that only the "
    "path differs. 100 rows are the first of the training rows, 5000 are ten times all of them with the step size "
    "divided by the root of 10. *Potential of so many rows*: the training rows over and over, at "
    f"{NUM_POINTS} points within {NEAR:g} of a draw; *offset taken off*: as samplers compute it, less the sum over "
    "rows where the last warm-up stage ended, row by row.",
    cases=cases,
    groups={**GROUPS, "The same trajectory in both precisions": DIFFERENCES, "Rounding": (ROUNDING, ROUNDING_OFFSET)},
    judge=judge,
    draw=draw,
    notes=NOTES
    + "Where the mean |H64 - H64 at the start| is well above 1, some trajectories are unstable: both precisions reject "
    "them, and the mean difference of the energies is theirs.",
    reference=DOUBLE_PRECISION,
    ratios=(),
)
