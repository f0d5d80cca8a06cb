"""Figs. 5.3, 5.7 and 5.8: the three methods sample one posterior, at 8 hidden units."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import ergonet
from ergonet import diagnostics
from experiments.choo2000 import data
from experiments.choo2000.master import moderate_states
from experiments.choo2000.methods import GIBBS, METHODS, VERIFY, Method
from experiments.choo2000.plan import Plan, plan_of
from experiments.choo2000.sampling import draw as run_chains
from experiments.pictures import OTHER, OURS, THESIS, new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

UNITS = 8
NUM_CHAINS, SMOKE_CHAINS = 8, 2
RECORDS, SMOKE_RECORDS = 400, 16  # of each chain
DROPPED = 0.25
SEED = 3000
FALSE_ALARM = 0.05
QUARTILES = (0.25, 0.5, 0.75)
POINTS = 9  # of the grid of the surface, along each input

MEAN = {group: Quantity(f"mean log sigma_{group}", 2) for group in data.GROUPS}
SD = {group: Quantity(f"sd of log sigma_{group}", 2) for group in data.GROUPS}
EFFECTIVE = {group: Quantity(f"effective draws, {group}") for group in data.GROUPS}
SHIFT = {group: Quantity(f"z of the mean, {group}", 1) for group in data.GROUPS}
BELOW = {
    (group, share): Quantity(f"z of the share below the quartile {share:g}, {group}", 1)
    for group in data.GROUPS
    for share in QUARTILES
}
APART = Quantity("mean |surface - that of Gibbs|", 3)
WRONG = Quantity("mean |surface - truth|", 3)
INSIDE = Quantity("posterior in G, %", 1)
REJECTED = Quantity("rejected, %", 1)
GRADIENTS = Quantity("gradients / 10^6", 1)
SECONDS = Quantity("seconds")
Z_SCORES = (*SHIFT.values(), *BELOW.values())
_LAST: list[tuple[Plan, int]] = []  # what was measured last in this process, for the pictures


@dataclass(frozen=True)
class Long:
    """A long run of a method.

    Attributes:
        log_sigmas: `[chain, draw, group]`, its beginning dropped.
        after_drop: states where the kept part begins, of the method's own target, `[chain, dim]`.
        surface: posterior mean of the network's output on the grid, `[point]`.
        samples: gradients and statistics.
    """

    log_sigmas: np.ndarray
    after_drop: np.ndarray
    surface: np.ndarray
    samples: Any


def grid() -> np.ndarray:
    """Inputs of the surface, `[point, 2]`."""
    along = np.linspace(-1, 1, POINTS, dtype=np.float32)
    return np.stack(np.meshgrid(along, along, indexing="ij"), axis=-1).reshape(-1, 2)


@cache
def long_run(method: Method, plan: Plan, seed: int) -> Long:
    """Gibbs begins in moderate states; the others where the kept part of its run begins, in 8 chains likewise."""
    length, eta, _ = VERIFY[method.name]
    is_smoke = plan.verify_gradients < 10**6
    chains, records = (SMOKE_CHAINS, SMOKE_RECORDS) if is_smoke else (NUM_CHAINS, RECORDS)
    if method == GIBBS:
        positions = moderate_states(UNITS, chains)
    else:
        begun = long_run(GIBBS, plan, seed).after_drop
        positions = begun if method.is_centred else data.non_centred(begun, UNITS)
    cost = chains * records * length * method.gradients_per_step
    samples = run_chains(
        data.target(UNITS, is_centred=method.is_centred),
        method.build(length, eta),
        positions,
        num_draws=records,
        thin=max(1, round(plan.verify_gradients / cost)),
        seed=SEED + 10 * seed + METHODS.index(method),
    )
    first = int(DROPPED * records)
    surface = ergonet.predict(samples, grid()).mean.reshape(-1)
    return Long(data.log_sigmas(samples)[:, first:], np.asarray(samples.positions[:, first]), surface, samples)


def cases(_: Size) -> list[Case]:
    """One row for each method."""
    return [Case(method.name, _measured(method)) for method in METHODS]


def _measured(method: Method) -> Any:
    def measure(size: Size, seed: int) -> Mapping[str, float]:
        plan = plan_of(size)
        _LAST[:] = [(plan, seed)]
        ours, gibbs = long_run(method, plan, seed), long_run(GIBBS, plan, seed)
        found = {}
        for number, group in enumerate(data.GROUPS):
            values = ours.log_sigmas[..., number]
            found[MEAN[group].name] = values.mean()
            found[SD[group].name] = values.std()
            found[EFFECTIVE[group].name] = diagnostics.ess_bulk(values[..., None])[0]
        if method != GIBBS:
            found |= _compared(ours.log_sigmas, gibbs.log_sigmas)
            found[APART.name] = np.mean(np.abs(ours.surface - gibbs.surface))
        large = np.max(ours.log_sigmas[..., [data.GROUPS.index(group) for group in "ua"]], axis=-1)
        stats = ours.samples
        found[WRONG.name] = np.mean(np.abs(ours.surface - data.surface(*grid().T)))
        found[INSIDE.name] = 100 * np.mean(large > 4)
        found[REJECTED.name] = 100 * (1 - stats.stats["acceptance_rate"].mean())
        found[GRADIENTS.name] = stats.gradients["sampling"] / 1e6
        found[SECONDS.name] = stats.seconds["sampling"]
        return {name: float(value) for name, value in found.items()}

    return measure


def _compared(ours: np.ndarray, gibbs: np.ndarray) -> dict[str, float]:
    """Differences of means, and of shares below the quartiles of Gibbs, in their Monte Carlo standard errors."""
    found = {}
    for number, group in enumerate(data.GROUPS):
        pair = ours[..., number], gibbs[..., number]
        found[SHIFT[group].name] = _z(*pair)
        for share in QUARTILES:
            cut = np.quantile(pair[1], share)
            found[BELOW[group, share].name] = _z(*((values < cut).astype(float) for values in pair))
    return found


def _z(first: np.ndarray, second: np.ndarray) -> float:
    """Difference of means in Monte Carlo errors; values that are all the same have none, 0 where neither has."""
    errors = [0.0 if np.ptp(one) == 0 else float(diagnostics.mcse_mean(one[..., None])[0]) for one in (first, second)]
    error = math.hypot(*errors)
    return float((first.mean() - second.mean()) / error) if error else 0.0


def judge(table: Table) -> Sequence[Claim]:
    """The conclusion of section 5.2.2, and that the points are fitted."""
    return [*(_agrees(table, method.name) for method in METHODS[1:]), _surfaces(table)]


def _agrees(table: Table, name: str) -> Claim:
    """Every z over seeds below the bound that all of both methods pass with probability 95 %."""
    from scipy.stats import norm

    bound = float(norm.isf(FALSE_ALARM / 2 / (2 * len(Z_SCORES))))
    scores = {q.name: np.sum(table.of(name, q.name)) / np.sqrt(len(table.of(name, q.name))) for q in Z_SCORES}
    most = max(scores, key=lambda one: abs(scores[one]))
    least = min(table.mean(row, q.name) for row in (name, GIBBS.name) for q in EFFECTIVE.values())
    told = (
        f"of {len(scores)} comparisons of means and of shares below quartiles the largest is {scores[most]:+.1f} "
        f"Monte Carlo errors ({most}), the bound for all is {bound:.1f}; at least {least:.0f} effective draws a seed"
    )
    answer = bool(abs(scores[most]) < bound) if least >= 100 else None
    return Claim(f"{name} has the same marginal distributions of the five log sigmas as Gibbs", answer, told)


def _surfaces(table: Table) -> Claim:
    apart = max(table.mean(method.name, APART.name) for method in METHODS[1:])
    wrong = table.mean(GIBBS.name, WRONG.name)
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
        runs = {method.name: long_run(method, *_LAST[-1]) for method in METHODS}
        _draw_marginals(runs, folder / "choo-verify.png")
        _draw_surfaces(runs, folder / "choo-verify-surface.png")
    return {name: seen for name, seen in names.items() if (folder / name).is_file()}


def _draw_marginals(runs: Mapping[str, Long], path: Path) -> None:
    figure, axes = new_figure(12.0, 2.8, columns=len(data.GROUPS))
    for number, (group, ax) in enumerate(zip(data.GROUPS, axes, strict=True)):
        everything = np.concatenate([run.log_sigmas[..., number].ravel() for run in runs.values()])
        low, high = np.quantile(everything, [0.001, 0.999])
        bins = np.linspace(low, high, 30)
        for (name, run), colour in zip(runs.items(), (THESIS, OURS, OTHER), strict=True):
            values = run.log_sigmas[..., number].ravel()
            ax.hist(values, bins=bins, density=True, histtype="step", color=colour, label=name)
        ax.set(xlabel=f"log sigma_{group}", yticks=[])
    axes[0].legend(frameon=False, fontsize=7)
    save(figure, path)


def _draw_surfaces(runs: Mapping[str, Long], path: Path) -> None:
    truth = data.surface(*grid().T)
    shown = {"truth": truth, **{name: run.surface for name, run in runs.items()}}
    figure, axes = new_figure(12.0, 3.0, columns=len(shown))
    low, high = truth.min(), truth.max()
    for (name, values), ax in zip(shown.items(), axes, strict=True):
        image = ax.imshow(values.reshape(POINTS, POINTS).T, origin="lower", extent=(-1, 1, -1, 1), vmin=low, vmax=high)
        ax.plot(*data.ROWS[:, :2].T, "w*", ms=6, mec="k", mew=0.4)
        ax.set(title=name, xlabel="x")
    figure.colorbar(image, ax=axes)
    save(figure, path)


def in_words(size: Size) -> str:
    """How much is run."""
    millions = plan_of(size).verify_gradients / 1e6
    return (
        f"{size.num_seeds} seeds of {NUM_CHAINS} chains, {millions:g} million gradients for each method, of which the "
        f"first quarter is dropped"
    )


EXPERIMENT = Experiment(
    name="choo-verify",
    title="Three methods, one posterior (Choo 2000, Figs. 5.3, 5.7, 5.8)",
    setting="""
Eight cases (Table 5.1), 8 hidden tanh units, priors of Table 5.2, lengths and eta of Table 5.3: Gibbs 400 and 0.35,
Dynamical A 100 and 0.48, Dynamical B 300 and 0.08. Gibbs begins in moderate states (weights from their priors at the
mean precision), A and B where the kept part of Gibbs's chains begins: from a state that fits badly A does not move.
""",
    cases=cases,
    groups={
        "Log sigmas": (*MEAN.values(), *SD.values()),
        "Against Gibbs": tuple(SHIFT.values()),
        "Shares below the quartiles of Gibbs": tuple(BELOW.values()),
        "Surface": (WRONG, APART),
        "Run": (*EFFECTIVE.values(), INSIDE, REJECTED, GRADIENTS, SECONDS),
    },
    judge=judge,
    draw=draw,
    notes="The thesis compares histograms by eye. *z*: a difference to Gibbs in Monte Carlo standard errors of both "
    "runs, added over seeds and divided by the root of their number in the verdict; its bound allows for 5 % of false "
    "alarms in all comparisons of both methods together.",
    in_words=in_words,
)
