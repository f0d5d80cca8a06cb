"""Figs. 6.2, 6.5 to 6.7: the rejection rate against the length of trajectories, and what flattens it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ergonet import DynamicalB
from experiments.choo2000 import data
from experiments.choo2000.master import starts
from experiments.choo2000.methods import GIBBS, A, B
from experiments.choo2000.plan import Master, Plan, plan_of
from experiments.choo2000.sampling import draw as run_chains
from experiments.pictures import new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

LENGTHS = {"smoke": (4, 16), "quick": (10, 300), "full": (10, 100, 1000, 10000)}
ALL_LENGTHS = sorted({length for lengths in LENGTHS.values() for length in lengths})
FEWEST, STEPS = 2, 20_000  # trajectories of a chain, and its steps where they are long
MASTERS = {"smoke": Master(4, 2, 8, 1), "quick": Master(16, 8, 8, 30), "full": Master(20, 100, 40, 50)}
SHARE = 0.4  # share of the chains
SEED = 4000
CERTAIN = 3.0  # standard errors
FLAT = 0.5  # largest ratio of the rises that counts as flat

AT = {length: Quantity(f"rejected at l = {length}, %", 1) for length in ALL_LENGTHS}
LOST = {length: Quantity(f"not finite at l = {length}, %", 1) for length in ALL_LENGTHS}
RISE = Quantity("rise from the shortest to the longest, %", 1)
ERROR = Quantity("its error between chains, %", 1)


@dataclass(frozen=True)
class Series:
    """A curve of a figure.

    Attributes:
        label: label of the row.
        units: number of hidden units at full size; 8 at the other sizes.
        is_centered: whether weights are centered.
        build: makes the kernel from the length.
        steps: maximum length of a trajectory.
        is_quick: whether quick runs have the curve.
    """

    label: str
    units: int
    is_centered: bool
    build: Any
    steps: int = 10_000
    is_quick: bool = False


def _b(eta: float, *, ratio: float = 1.0, splits: int = 1) -> Any:
    return lambda length: DynamicalB(length, step_size=eta, hyperparameter_ratio=ratio, hyperparameter_splits=splits)


SERIES = (
    Series("Gibbs, 0.283", 20, True, lambda length: GIBBS.build(length, 0.283), is_quick=True),
    Series("Dynamical A, 0.32", 20, True, lambda length: A.build(length, 0.32), is_quick=True),
    Series("Dynamical B, 0.16", 20, False, lambda length: B.build(length, 0.16)),
    Series("Dynamical B, 0.01", 8, False, _b(0.01)),
    Series("Dynamical B, 0.01, hyperparameters split in 2", 8, False, _b(0.01, splits=2)),
    Series("Dynamical B, 0.32", 16, False, _b(0.32)),
    Series("Dynamical B, 0.32, eta_h = eta_p / 100", 16, False, _b(0.32, ratio=0.01)),
    Series("Dynamical B, 0.20", 8, False, _b(0.20), is_quick=True),
    Series("Dynamical B, 0.20, hyperparameters split in 100", 8, False, _b(0.20, splits=100), 1000, is_quick=True),
)


def chosen(mode: str) -> list[Series]:
    """The curves of a run of this size."""
    return [one for one in SERIES if mode == "full" or one.is_quick]


def cases(size: Size) -> list[Case]:
    """One row for each curve."""
    return [Case(one.label, _measured(one)) for one in chosen(size.mode)]


def _measured(series: Series) -> Any:
    def measure(size: Size, seed: int) -> Mapping[str, float]:
        found, rates = {}, []
        for length in LENGTHS[size.mode]:
            if length <= series.steps:
                rate, lost = _rejections(series, length, size, seed)
                rates.append(rate)
                found[AT[length].name] = float(rate.mean())
                found[LOST[length].name] = lost
        rise = rates[-1] - rates[0]
        found[RISE.name] = float(rise.mean())
        found[ERROR.name] = float(rise.std(ddof=1) / math.sqrt(len(rise)))
        return found

    return measure


def _rejections(series: Series, length: int, size: Size, seed: int) -> tuple[np.ndarray, float]:
    """One minus the mean acceptance probability of each chain, `[chain]`, and the share that is not finite, in %."""
    units = series.units if size.mode == "full" else 8
    begun = starts(units, _plan(size), seed).first(SHARE if size.mode == "full" else 1.0)
    positions = begun.positions if series.is_centered else data.non_centered(begun.positions, units)
    trajectories = max(FEWEST, min(plan_of(size).rejection_draws, STEPS // length))
    samples = run_chains(
        data.target(units, is_centered=series.is_centered),
        series.build(length),
        positions,
        num_draws=trajectories,
        thin=1,
        seed=SEED + seed,
    )
    rate = 100 * (1 - np.asarray(samples.stats["acceptance_rate"], np.float64).mean(axis=1))
    return rate, 100 * float(samples.stats["nonfinite"].mean())


def _plan(size: Size) -> Plan:
    """Shorter master runs: initial states need fewer draws than true means."""
    return replace(plan_of(size), master=MASTERS[size.mode])


@dataclass(frozen=True)
class Rise:
    """The rise of a row's rejection rate with the length, and its standard error, in %."""

    value: float
    error: float

    @property
    def is_certain(self) -> bool:
        """Whether the rise exceeds three standard errors."""
        return self.value > CERTAIN * self.error

    def show(self) -> str:
        """The rise as text, such as `12.3 +- 1.4`."""
        return f"{self.value:.1f} \N{PLUS-MINUS SIGN} {self.error:.1f}"


def _rise(table: Table, label: str) -> Rise:
    errors = table.of(label, ERROR.name)
    return Rise(table.mean(label, RISE.name), math.sqrt(sum(one**2 for one in errors)) / len(errors))


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 6.2."""
    pairs = [
        ("Dynamical B, 0.01", "Dynamical B, 0.01, hyperparameters split in 2", "updates split in 2"),
        ("Dynamical B, 0.32", "Dynamical B, 0.32, eta_h = eta_p / 100", "a hundredth of eta for the hyperparameters"),
        ("Dynamical B, 0.20", "Dynamical B, 0.20, hyperparameters split in 100", "updates split in 100"),
    ]
    found = [_b_rises(table), *(_is_flat(table, name) for name in ("Gibbs, 0.283", "Dynamical A, 0.32"))]
    for plain, other, words in pairs:
        if other in table.labels:
            found.append(_flattens(table, plain, other, words))
    return found


def _b_labels(table: Table) -> list[str]:
    return [one for one in ("Dynamical B, 0.16", "Dynamical B, 0.20") if one in table.labels]


def _b_rises(table: Table) -> Claim:
    found = {label: _rise(table, label) for label in _b_labels(table)}
    told = "; ".join(f"{label}: by {rise.show()} %" for label, rise in found.items())
    answer = True if all(rise.is_certain for rise in found.values()) else None
    answer = False if any(-rise.value > CERTAIN * rise.error for rise in found.values()) else answer
    return Claim("the rejection rate of Dynamical B rises with the length", answer, told)


def _is_flat(table: Table, label: str) -> Claim:
    mine, b = _rise(table, label), _rise(table, _b_labels(table)[0])
    told = f"it rises by {mine.show()} %, that of Dynamical B by {b.show()} %"
    name = label.partition(",")[0]
    text = f"the rejection rate of {name} rises less than half as much as that of Dynamical B"
    return Claim(text, mine.value < FLAT * b.value if b.is_certain else None, told)


def _flattens(table: Table, plain: str, other: str, words: str) -> Claim:
    """Whether fewer are rejected at the longest common length, by more than three standard errors of the two rises."""
    before, after = _rise(table, plain), _rise(table, other)
    common = [one for one in ALL_LENGTHS if all(table.of(row, AT[one].name) for row in (plain, other))]
    rates = [table.mean(row, AT[common[-1]].name) for row in (plain, other)]
    told = f"at l = {common[-1]} it rejects {rates[1]:.1f} % instead of {rates[0]:.1f} %"
    certain = abs(rates[0] - rates[1]) > CERTAIN * math.hypot(before.error, after.error)
    fewer = rates[0] > rates[1] if certain else None
    return Claim(f"{words} make Dynamical B reject less in long trajectories", fewer, told)


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Draw rejection rates against the length."""
    name = "choo-rejection.png"
    figure, (ax,) = new_figure(9.5, 4.6)
    for label in table.labels:
        lengths = [one for one in ALL_LENGTHS if table.of(label, AT[one].name)]
        ax.plot(lengths, [table.mean(label, AT[one].name) for one in lengths], "o-", ms=4, label=label)
    ax.set(xscale="log", xlabel="leapfrogs of a trajectory", ylabel="rejected, %", ylim=(-2, 102))
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(figure, folder / name)
    return {name: "Rejection rate against the length of trajectories"}


def in_words(size: Size) -> str:
    """The size of a run, in words."""
    plan = _plan(size)
    chains = round(SHARE * plan.num_chains) if size.mode == "full" else plan.num_chains
    return (
        f"{size.num_seeds} seeds of {chains} chains of at most {plan.rejection_draws} trajectories, at least {FEWEST} "
        f"where they are long"
    )


EXPERIMENT = Experiment(
    name="choo-rejection",
    title="Rejection rates against the length (Choo2000, Figs. 6.2, 6.5 to 6.7)",
    setting="""
Eight cases (Table 5.1) and the priors of Table 5.6. Chains start in equilibrium, a fifth of them in the region of large
log sigma. The number in a row's name is eta. Gibbs, A and B 0.16 have 20 hidden units (Fig. 6.2), B 0.01 has 8 (Fig.
6.5), B 0.32 has 16 (Fig. 6.6), B 0.20 has 8 (Fig. 6.7); smaller sizes run fewer rows, all with 8.
""",
    cases=cases,
    groups={
        "Rejected": (*AT.values(), RISE, ERROR),
        "Not finite": tuple(LOST.values()),
    },
    judge=judge,
    draw=draw,
    notes="The thesis shows curves without figures. Rejected: one minus the acceptance probability, averaged over "
    "chains and their trajectories. A verdict requires three standard errors between chains. Parameter updates split "
    "in "
    "two (Fig. 6.5) are not run: the kernels split only the hyperparameter updates.",
    in_words=in_words,
)
