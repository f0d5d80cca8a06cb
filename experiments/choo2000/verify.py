"""Figs. 5.3, 5.7 and 5.8: the three methods sample one posterior, at 8 hidden units.

They, and joint no-U-turn sampling, are compared with a Gibbs run of another seed that is several times as long. Its
conditional draws are exact, and it enters the region of large sigmas so seldom that a run of the thesis's size does not
determine the tails.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import ergonet
from ergonet import diagnostics
from experiments.choo2000 import data
from experiments.choo2000.master import initial_states
from experiments.choo2000.methods import GIBBS, METHODS, VERIFY, Method, joint
from experiments.choo2000.plan import Plan, plan_of
from experiments.choo2000.sampling import draw as run_chains
from experiments.pictures import new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

UNITS = 8
NUM_CHAINS, SMOKE_CHAINS = 8, 2
RECORDS, SMOKE_RECORDS = 400, 16  # records of each chain
DROPPED = 0.25
SEED, REFERENCE_SEED, JOINT_SEED = 3000, 3500, 3600
LONGER = {"smoke": 2, "quick": 2, "full": 8}  # times as many gradients in the reference
JOINT, JOINT_ACCEPTANCE, JOINT_WARMUP, JOINT_PILOT = "joint NUTS", 0.95, 500, 50
REFERENCE = "Gibbs, longer"
FALSE_ALARM = 0.05
SHARES = (0.25, 0.5, 0.75, 0.95)
OF_U = data.GROUPS.index("u")
CUTS = (6.0, 8.0)  # values of log sigma_u above all compared quantiles, which are near 4
POINTS = 9  # points of the surface along each input

MEAN = {group: Quantity(f"mean log sigma_{group}", 2) for group in data.GROUPS}
SD = {group: Quantity(f"sd of log sigma_{group}", 2) for group in data.GROUPS}
EFFECTIVE = {group: Quantity(f"ESS, {group}") for group in data.GROUPS}
SHIFT = {group: Quantity(f"z of the mean, {group}", 1) for group in data.GROUPS}
BELOW = {
    (group, share): Quantity(f"z of the share below the quantile {share:g}, {group}", 1)
    for group in data.GROUPS
    for share in SHARES
}
FAR = {cut: Quantity(f"log sigma_u above {cut:g}, %", 2) for cut in CUTS}
FAR_Z = {cut: Quantity(f"z of the share above {cut:g}", 1) for cut in CUTS}
LARGEST = Quantity("largest log sigma_u", 1)
APART = Quantity("mean |surface - that of the longer Gibbs run|", 3)
WRONG = Quantity("mean |surface - truth|", 3)
INSIDE = Quantity("posterior in G, %", 1)
REJECTED = Quantity("rejected, %", 1)
GRADIENTS = Quantity("gradients / 10^6", 1)
SECONDS = Quantity("seconds")
Z_SCORES = (*SHIFT.values(), *BELOW.values())
_LAST: list[tuple[Size, int]] = []  # what was measured last in this process, for the pictures


@dataclass(frozen=True)
class Long:
    """A long run of a method.

    Attributes:
        log_sigmas: log standard deviations `[chain, draw, group]`, without the dropped beginning.
        after_drop: states at the beginning of the kept part, in the method's own coordinates `[chain, dim]`.
        surface: posterior mean of the network's output on the grid, `[point]`.
        samples: gradients and statistics.
    """

    log_sigmas: np.ndarray
    after_drop: np.ndarray
    surface: np.ndarray
    samples: Any


def grid() -> np.ndarray:
    """Inputs at which the surface is evaluated, `[point, 2]`."""
    along = np.linspace(-1, 1, POINTS, dtype=np.float32)
    return np.stack(np.meshgrid(along, along, indexing="ij"), axis=-1).reshape(-1, 2)


@cache
def long_run(method: Method, plan: Plan, seed: int) -> Long:
    """Gibbs starts from `initial_states`; the others where the retained part of its run begins, also with 8 chains."""
    if method == GIBBS:
        positions = initial_states(UNITS, _chains(plan))
    else:
        positions = _begun(plan, seed, is_centered=method.is_centered)
    return _of_method(method, plan, positions, seed=SEED + 10 * seed + METHODS.index(method))


@cache
def reference(plan: Plan, seed: int, times: int) -> Long:
    """A Gibbs run that is several times as long, from other initial states and another seed."""
    longer = replace(plan, verify_gradients=times * plan.verify_gradients)
    positions = initial_states(UNITS, 2 * _chains(plan))[_chains(plan) :]
    return _of_method(GIBBS, longer, positions, seed=REFERENCE_SEED + seed)


@cache
def joint_run(plan: Plan, seed: int) -> Long:
    """No-U-turn sampling of non-centered weights and log precisions; what a transition costs is found by a pilot."""
    positions = _begun(plan, seed, is_centered=False)
    target, kernel = data.target(UNITS, is_centered=False), joint(JOINT_ACCEPTANCE)
    warmup = min(JOINT_WARMUP, _records(plan))
    about: Any = {"seed": JOINT_SEED + seed, "warmup": warmup}
    pilot = run_chains(target, kernel, positions, num_draws=JOINT_PILOT, thin=1, **about)
    cost = pilot.gradients["sampling"] / JOINT_PILOT * _records(plan)
    thin = max(1, round(plan.verify_gradients / cost))
    return _kept(run_chains(target, kernel, positions, num_draws=_records(plan), thin=thin, **about))


def _of_method(method: Method, plan: Plan, positions: np.ndarray, *, seed: int) -> Long:
    length, eta, _ = VERIFY[method.name]
    cost = len(positions) * _records(plan) * length * method.gradients_per_step
    return _kept(
        run_chains(
            data.target(UNITS, is_centered=method.is_centered),
            method.build(length, eta),
            positions,
            num_draws=_records(plan),
            thin=max(1, round(plan.verify_gradients / cost)),
            seed=seed,
        )
    )


def _kept(samples: Any) -> Long:
    first = int(DROPPED * samples.num_draws)
    surface = ergonet.predict(samples, grid()).mean.reshape(-1)
    return Long(data.log_sigmas(samples)[:, first:], np.asarray(samples.positions[:, first]), surface, samples)


def _begun(plan: Plan, seed: int, *, is_centered: bool) -> np.ndarray:
    """States at the beginning of the kept part of the Gibbs run."""
    begun = long_run(GIBBS, plan, seed).after_drop
    return begun if is_centered else data.non_centered(begun, UNITS)


def _chains(plan: Plan) -> int:
    return SMOKE_CHAINS if _is_smoke(plan) else NUM_CHAINS


def _records(plan: Plan) -> int:
    return SMOKE_RECORDS if _is_smoke(plan) else RECORDS


def _is_smoke(plan: Plan) -> bool:
    return plan.verify_gradients < 10**6


def runs(size: Size, seed: int) -> dict[str, Callable[[], Long]]:
    """The functions that run the rows; each runs once."""
    plan, times = plan_of(size), LONGER[size.mode]
    found: dict[str, Callable[[], Long]] = {REFERENCE: partial(reference, plan, seed, times)}
    found |= {method.name: partial(long_run, method, plan, seed) for method in METHODS}
    return found | {JOINT: partial(joint_run, plan, seed)}


ROWS = (*(method.name for method in METHODS), JOINT)


def cases(_: Size) -> list[Case]:
    """One row for each run."""
    return [Case(name, _measured(name)) for name in (REFERENCE, *ROWS)]


def _measured(name: str) -> Any:
    def measure(size: Size, seed: int) -> Mapping[str, float]:
        _LAST[:] = [(size, seed)]
        made = runs(size, seed)
        ours, longer = made[name](), made[REFERENCE]()
        found = {}
        for number, group in enumerate(data.GROUPS):
            values = ours.log_sigmas[..., number]
            found[MEAN[group].name] = values.mean()
            found[SD[group].name] = values.std()
            found[EFFECTIVE[group].name] = diagnostics.ess_bulk(values[..., None])[0]
        if name != REFERENCE:
            found |= _compared(ours.log_sigmas, longer.log_sigmas)
            found[APART.name] = np.mean(np.abs(ours.surface - longer.surface))
        far = ours.log_sigmas[..., OF_U]
        found |= {FAR[cut].name: 100 * np.mean(far > cut) for cut in CUTS} | {LARGEST.name: far.max()}
        large = np.max(ours.log_sigmas[..., [data.GROUPS.index(group) for group in "ua"]], axis=-1)
        stats = ours.samples
        found[WRONG.name] = np.mean(np.abs(ours.surface - data.surface(*grid().T)))
        found[INSIDE.name] = 100 * np.mean(large > 4)
        found[REJECTED.name] = 100 * (1 - stats.stats["acceptance_rate"].mean())
        found[GRADIENTS.name] = stats.gradients["sampling"] / 1e6
        found[SECONDS.name] = stats.seconds["sampling"]
        return {name: float(value) for name, value in found.items()}

    return measure


def _compared(ours: np.ndarray, longer: np.ndarray) -> dict[str, float]:
    """Differences of means, and of shares below the reference's quantiles, in their Monte Carlo standard errors."""
    found = {}
    for number, group in enumerate(data.GROUPS):
        pair = ours[..., number], longer[..., number]
        found[SHIFT[group].name] = _z(*pair)
        for share in SHARES:
            cut = np.quantile(pair[1], share)
            found[BELOW[group, share].name] = _z(*((values < cut).astype(float) for values in pair))
    for cut in CUTS:
        found[FAR_Z[cut].name] = _z(*((run[..., OF_U] > cut).astype(float) for run in (ours, longer)))
    return found


def _z(first: np.ndarray, second: np.ndarray) -> float:
    """Difference of means in Monte Carlo errors; values that are all the same have none, 0 where neither has."""
    errors = [0.0 if np.ptp(one) == 0 else float(diagnostics.mcse_mean(one[..., None])[0]) for one in (first, second)]
    error = math.hypot(*errors)
    return float((first.mean() - second.mean()) / error) if error else 0.0


def judge(table: Table) -> Sequence[Claim]:
    """The conclusion of section 5.2.2, and that the points are fitted."""
    return [*(_agrees(table, name) for name in ROWS), _far_tail(table), _surfaces(table)]


def _agrees(table: Table, name: str) -> Claim:
    """Every z over seeds below the bound that all rows pass with probability 95 %."""
    bound = _bound(len(Z_SCORES))
    scores = {q.name: _over_seeds(table, name, q) for q in Z_SCORES}
    most = max(scores, key=lambda one: abs(scores[one]))
    least = min(table.mean(row, q.name) for row in (name, REFERENCE) for q in EFFECTIVE.values())
    told = (
        f"of {len(scores)} comparisons of means and of shares below quantiles the largest is {scores[most]:+.1f} "
        f"Monte Carlo errors ({most}), the bound for all is {bound:.1f}; an ESS of at least {least:.0f} per seed"
    )
    answer = bool(abs(scores[most]) < bound) if least >= 100 else None
    text = f"{name} has the marginal distributions of a longer run of Gibbs in all log sigmas"
    return Claim(f"up to their 95 % quantile, {text}", answer, told)


def _far_tail(table: Table) -> Claim:
    """Whether the shares of log sigma_u far above the compared quantiles agree, by the same rule."""
    scores = {(name, cut): _over_seeds(table, name, FAR_Z[cut]) for name in ROWS for cut in CUTS}
    bound, most = _bound(len(CUTS)), float(np.max(np.abs(list(scores.values()))))
    shares = ", ".join(f"{name} {table.mean(name, FAR[CUTS[0]].name):.2f}" for name in (REFERENCE, *ROWS))
    told = ", ".join(f"{name} {score:+.1f} above {cut:g}" for (name, cut), score in scores.items())
    return Claim(
        "far above it, log sigma_u has the distribution of the longer run of Gibbs",
        None if math.isnan(most) else most < bound,
        f"% above {CUTS[0]:g}: {shares}; in Monte Carlo errors: {told}; the bound for all is {bound:.1f}",
    )


def _over_seeds(table: Table, name: str, score: Quantity) -> float:
    values = table.of(name, score.name)
    return float(np.sum(values) / np.sqrt(len(values)))


def _bound(num_scores: int) -> float:
    """The bound that the largest of all scores stays below with probability 95 %."""
    from scipy.stats import norm

    return float(norm.isf(FALSE_ALARM / 2 / (len(ROWS) * num_scores)))


def _surfaces(table: Table) -> Claim:
    apart = max(table.mean(name, APART.name) for name in ROWS)
    wrong = table.mean(REFERENCE, WRONG.name)
    told = f"surfaces are apart by {apart:.3f} in the mean, and from the function behind the data by {wrong:.3f}"
    return Claim("the methods predict the same surface", apart < 0.25 * wrong, told)


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Histograms and surfaces of the last seed, where this process has made the run; else the pictures there are."""
    del table
    names = {
        "choo-verify.png": "Marginal distributions of the five log sigmas by method, last seed (Figs. 5.7 and 5.8)",
        "choo-verify-surface.png": "The surface that each method predicts, and the function behind the data (Fig. 5.3)",
    }
    if _LAST:
        made = runs(*_LAST[-1])
        shown = {name: made[name]() for name in (REFERENCE, *ROWS)}
        _draw_marginals(shown, folder / "choo-verify.png")
        _draw_surfaces(shown, folder / "choo-verify-surface.png")
    return {name: seen for name, seen in names.items() if (folder / name).is_file()}


def _draw_marginals(shown: Mapping[str, Long], path: Path) -> None:
    figure, axes = new_figure(12.0, 2.8, columns=len(data.GROUPS))
    for number, (group, ax) in enumerate(zip(data.GROUPS, axes, strict=True)):
        everything = np.concatenate([run.log_sigmas[..., number].ravel() for run in shown.values()])
        low, high = np.quantile(everything, [0.001, 0.999])
        bins = np.linspace(low, high, 30)
        for name, run in shown.items():
            values = run.log_sigmas[..., number].ravel()
            about: Any = {"color": "0.8", "histtype": "stepfilled"} if name == REFERENCE else {"histtype": "step"}
            ax.hist(values, bins=bins, density=True, label=name, **about)
        ax.set(xlabel=f"log sigma_{group}", yticks=[])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(shown), frameon=False, fontsize=9)
    save(figure, path)


def _draw_surfaces(shown: Mapping[str, Long], path: Path) -> None:
    truth = data.surface(*grid().T)
    surfaces = {"truth": truth, **{name: run.surface for name, run in shown.items()}}
    figure, axes = new_figure(14.0, 2.6, columns=len(surfaces))
    low, high = truth.min(), truth.max()
    for (name, values), ax in zip(surfaces.items(), axes, strict=True):
        ax.imshow(values.reshape(POINTS, POINTS).T, origin="lower", extent=(-1, 1, -1, 1), vmin=low, vmax=high)
        ax.plot(*data.ROWS[:, :2].T, "w*", ms=6, mec="k", mew=0.4)
        ax.set(title=name, xlabel="x")
    figure.colorbar(axes[0].images[0], ax=axes)
    save(figure, path)


def in_words(size: Size) -> str:
    """The size of a run, in words."""
    millions = plan_of(size).verify_gradients / 1e6
    return (
        f"{size.num_seeds} seeds of {NUM_CHAINS} chains, {millions:g} million gradients for each method, of which the "
        f"first quarter is dropped; {LONGER[size.mode]} times as many for the longer run of Gibbs"
    )


EXPERIMENT = Experiment(
    name="choo-verify",
    title="Three methods, one posterior (Choo2000, Figs. 5.3, 5.7, 5.8)",
    setting="""
Eight cases (Table 5.1), 8 hidden tanh units, priors of Table 5.2, lengths and eta of Table 5.3: Gibbs 400 and 0.35,
Dynamical A 100 and 0.48, Dynamical B 300 and 0.08. Gibbs starts from weights drawn from their priors at the mean
precision, the others where the retained part of the Gibbs chains begins: A does not move from a state that fits badly.
*Gibbs, longer* is another run of Gibbs with another seed. *Joint NUTS*, which is not in the thesis: weights
non-centered, target acceptance 0.95, after 500 transitions of warm-up.
""",
    cases=cases,
    groups={
        "Log sigmas": (*MEAN.values(), *SD.values()),
        "Against the longer run of Gibbs": tuple(SHIFT.values()),
        "Shares below its quantiles": tuple(BELOW.values()),
        "The far tail of sigma_u": (*FAR.values(), *FAR_Z.values(), LARGEST),
        "Surface": (WRONG, APART),
        "Run": (*EFFECTIVE.values(), INSIDE, REJECTED, GRADIENTS, SECONDS),
    },
    judge=judge,
    draw=draw,
    notes="The thesis compares histograms by eye. *z*: the difference from the longer run of Gibbs in Monte Carlo "
    "standard "
    "errors of both runs; for the verdict, z is summed over seeds and divided by the square root of their number. Its "
    "bound "
    "allows for 5 % false alarms in all comparisons of all rows together.",
    in_words=in_words,
)
