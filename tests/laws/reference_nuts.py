"""Doubling trajectories by recursion, in plain NumPy and textbook momenta, with exact selection probabilities.

Written from the papers, the two theses and Stan's description alone: it shares no code with the library. The
criteria are those of HoffmanGelman2014 (Ask2022, Algorithm 5.1), of Stan, and of Betancourt2016 (Lau2018,
Algorithm 13); the selections those of Ask's Algorithm 5.2 (slice) and of Lau's Algorithm 12 (multinomial), with their
slips mended.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

THRESHOLD = 1000.0


@dataclass
class Tree:
    """A finished subtree: its ends, what the criteria sum, and the exact distribution of its draw."""

    ends: tuple[Any, Any]  # (position, momentum) in the order of time
    rho: np.ndarray  # sum of the momenta
    log_density: float  # log of the sum of e^-H
    virial: float  # mean of dG/dt by e^-H
    log_weight: float  # of the selection: the same, or log of the number of states in the slice
    chance: dict[int, float]  # offset from the start -> probability; empty where no state has weight


@dataclass
class Outcome:
    """What a transition did on one sequence of directions; `drawn` is its state where uniforms were given."""

    chance: dict[int, float] = field(default_factory=dict)
    visited: list[int] = field(default_factory=list)
    positions: dict[int, np.ndarray] = field(default_factory=dict)
    depth: int = 0
    stop: str = "depth"
    drawn: Any = None


class Criterion:
    """`turned(left, right)` of two neighboring trees in the order of time."""

    def __init__(self, inverse_mass):
        self.inverse_mass = inverse_mass


class Generalized(Criterion):
    def __init__(self, inverse_mass, *, extra_checks=True):
        super().__init__(inverse_mass)
        self.extra_checks = extra_checks

    def going_on(self, rho, first, last):
        return rho @ self.inverse_mass @ first > 0 and rho @ self.inverse_mass @ last > 0

    def turned(self, left: Tree, right: Tree) -> bool:
        checks = [(left.rho + right.rho, left.ends[0], right.ends[1])]
        if self.extra_checks:
            checks.append((left.rho + right.ends[0][1], left.ends[0], right.ends[0]))
            checks.append((right.rho + left.ends[1][1], left.ends[1], right.ends[1]))
        return not all(self.going_on(rho, first[1], last[1]) for rho, first, last in checks)


class Original(Criterion):
    def turned(self, left: Tree, right: Tree) -> bool:
        (q_minus, p_minus), (q_plus, p_plus) = left.ends[0], right.ends[1]
        return (q_plus - q_minus) @ p_minus < 0 or (q_plus - q_minus) @ p_plus < 0


class Exhaustive(Criterion):
    def __init__(self, inverse_mass, *, delta):
        super().__init__(inverse_mass)
        self.delta = delta

    def turned(self, left: Tree, right: Tree) -> bool:
        return abs(stable_sum(left, right)[0]) < self.delta


def stable_sum(one: Tree, other: Tree) -> tuple[float, float]:
    """Mean and log weight of both together."""
    total = float(np.logaddexp(one.log_density, other.log_density))
    shares = [np.exp(tree.log_density - total) for tree in (one, other)]
    return float(shares[0] * one.virial + shares[1] * other.virial), total


def probability(log_part: float, log_whole: float) -> float:
    return 0.0 if log_part == -np.inf else float(np.exp(log_part - log_whole))


class Reference:
    """Doubling transitions of one target, step size and mass matrix.

    Without a `log_level` states weigh e^-H. With it, log u, states of log u <= -H weigh the same and others nothing.
    """

    def __init__(self, potential, gradient, step_size, criterion):
        self.potential, self.gradient, self.step_size = potential, gradient, step_size
        self.criterion, self.inverse_mass = criterion, criterion.inverse_mass

    def energy(self, q, p):
        return float(self.potential(q) + 0.5 * p @ self.inverse_mass @ p)

    def virial(self, q, p):
        return float(p @ self.inverse_mass @ p - q @ self.gradient(q))

    def leapfrog(self, q, p, sign):
        e = sign * self.step_size
        p = p - 0.5 * e * self.gradient(q)
        q = q + e * self.inverse_mass @ p
        return q, p - 0.5 * e * self.gradient(q)

    def log_weight(self, energy):
        if self.log_level is None:
            return self.start_energy - energy
        return 0.0 if self.log_level <= -energy else -np.inf

    def diverged(self, energy):
        if self.log_level is None:
            return not energy - self.start_energy <= THRESHOLD
        return not self.log_level - THRESHOLD <= -energy

    def leaf(self, state, sign, offset, out: Outcome):
        q, p = self.leapfrog(state[0], state[1], sign)
        out.visited.append(offset)
        out.positions[offset] = q
        energy = self.energy(q, p)
        if self.diverged(energy):
            out.stop = "divergent"
            return None
        weight = self.log_weight(energy)
        self.walk(q, weight)
        chance = {} if weight == -np.inf else {offset: 1.0}
        return Tree(((q, p), (q, p)), p, self.start_energy - energy, self.virial(q, p), weight, chance)

    def walk(self, q, weight):
        """Draw among the leaves of the new subtree in the order in which they come."""
        if self.uniforms is not None:
            inside, self.across = next(self.uniforms)
            self.walked = np.logaddexp(self.walked, weight)
            if inside < probability(weight, self.walked):
                self.candidate = q

    def build(self, depth, state, sign, offset, out: Outcome):
        """A subtree of 2^depth new states; None where it is invalid, with the reason in `out.stop`."""
        if depth == 0:
            return self.leaf(state, sign, offset + sign, out)
        near = self.build(depth - 1, state, sign, offset, out)
        if near is None:
            return None
        edge = near.ends[1] if sign > 0 else near.ends[0]
        far = self.build(depth - 1, edge, sign, offset + sign * 2 ** (depth - 1), out)
        if far is None:
            return None
        left, right = (near, far) if sign > 0 else (far, near)
        if self.criterion.turned(left, right):
            out.stop = "turned"
            return None
        total = np.logaddexp(near.log_weight, far.log_weight)
        replaced = probability(far.log_weight, total)  # n'' / (n' + n'')
        return self.join(left, right, mix(near.chance, far.chance, replaced))

    def join(self, left: Tree, right: Tree, chance) -> Tree:
        virial, log_density = stable_sum(left, right)
        weight = float(np.logaddexp(left.log_weight, right.log_weight))
        return Tree((left.ends[0], right.ends[1]), left.rho + right.rho, log_density, virial, weight, chance)

    def transition(
        self, q, p, directions, *, log_level: float | None = None, uniforms: Iterable[Any] | None = None
    ) -> Outcome:
        """`directions`: +1 or -1 for each doubling; `uniforms`: for each leaf, one to take it, one to take its tree."""
        out = Outcome(drawn=q)
        self.start_energy, self.log_level = self.energy(q, p), log_level
        self.uniforms = None if uniforms is None else iter(uniforms)
        tree = Tree(((q, p), (q, p)), p, 0.0, self.virial(q, p), 0.0, {0: 1.0})
        low = high = 0
        for depth, sign in enumerate(directions):
            edge, offset = (tree.ends[1], high) if sign > 0 else (tree.ends[0], low)
            self.walked, self.candidate = -np.inf, q
            new = self.build(depth, edge, sign, offset, out)
            if new is None:
                break
            out.depth = depth + 1
            swap = min(1.0, probability(new.log_weight, tree.log_weight))  # min(1, n' / n)
            if self.uniforms is not None and self.across < swap:
                out.drawn = self.candidate
            left, right = (tree, new) if sign > 0 else (new, tree)
            low, high = (low, high + 2**depth) if sign > 0 else (low - 2**depth, high)
            stops = self.criterion.turned(left, right)
            tree = self.join(left, right, mix(tree.chance, new.chance, swap))
            if stops:
                out.stop = "turned"
                break
        out.chance = tree.chance
        return out


def mix(old: dict[int, float], new: dict[int, float], share: float) -> dict[int, float]:
    """The distribution that is `new` with probability `share`."""
    return {offset: (1 - share) * chance for offset, chance in old.items()} | {
        offset: share * chance for offset, chance in new.items()
    }
