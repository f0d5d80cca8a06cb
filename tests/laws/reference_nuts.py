"""The no-U-turn sampler by recursion, in plain NumPy and textbook momenta, with exact selection probabilities.

Written from the papers and Stan's description alone: it shares no code with the library.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

THRESHOLD = 1000.0


@dataclass
class Tree:
    """A finished subtree: its ends, the sum of its momenta, and the exact distribution of its draw."""

    ends: tuple[Any, Any]  # (position, momentum) in the order of time
    rho: np.ndarray
    log_weight: float
    chance: dict[int, float]  # offset from the start -> probability


@dataclass
class Outcome:
    """What a transition did on one sequence of directions."""

    chance: dict[int, float] = field(default_factory=dict)
    visited: list[int] = field(default_factory=list)
    positions: dict[int, np.ndarray] = field(default_factory=dict)
    depth: int = 0
    stop: str = "depth"


class Reference:
    """No-U-turn transitions of one target, step size and mass matrix."""

    def __init__(self, potential, gradient, inverse_mass, step_size, *, extra_checks=True):
        self.potential, self.gradient = potential, gradient
        self.inverse_mass, self.step_size = inverse_mass, step_size
        self.extra_checks = extra_checks

    def energy(self, q, p):
        return float(self.potential(q) + 0.5 * p @ self.inverse_mass @ p)

    def leapfrog(self, q, p, sign):
        e = sign * self.step_size
        p = p - 0.5 * e * self.gradient(q)
        q = q + e * self.inverse_mass @ p
        return q, p - 0.5 * e * self.gradient(q)

    def going_on(self, rho, first, last):
        return rho @ self.inverse_mass @ first > 0 and rho @ self.inverse_mass @ last > 0

    def turned(self, left: Tree, right: Tree) -> bool:
        """Left and right in the order of time."""
        checks = [(left.rho + right.rho, left.ends[0], right.ends[1])]
        if self.extra_checks:
            checks.append((left.rho + right.ends[0][1], left.ends[0], right.ends[0]))
            checks.append((right.rho + left.ends[1][1], left.ends[1], right.ends[1]))
        return not all(self.going_on(rho, first[1], last[1]) for rho, first, last in checks)

    def build(self, depth, state, sign, offset, out: Outcome):
        """A subtree of 2^depth new states; None where it is invalid, with the reason in `out.stop`."""
        if depth == 0:
            q, p = self.leapfrog(state[0], state[1], sign)
            offset += sign
            out.visited.append(offset)
            out.positions[offset] = q
            error = self.energy(q, p) - self.start_energy
            if not np.isfinite(error) or error > THRESHOLD:
                out.stop = "divergent"
                return None
            return Tree(((q, p), (q, p)), p, -error, {offset: 1.0})
        near = self.build(depth - 1, state, sign, offset, out)
        if near is None:
            return None
        edge = near.ends[1] if sign > 0 else near.ends[0]
        far = self.build(depth - 1, edge, sign, offset + sign * 2 ** (depth - 1), out)
        if far is None:
            return None
        left, right = (near, far) if sign > 0 else (far, near)
        if self.turned(left, right):
            out.stop = "turned"
            return None
        total = np.logaddexp(left.log_weight, right.log_weight)
        chance = {
            offset: probability * np.exp(part.log_weight - total)
            for part in (left, right)
            for offset, probability in part.chance.items()
        }
        return Tree((left.ends[0], right.ends[1]), left.rho + right.rho, total, chance)

    def transition(self, q, p, directions) -> Outcome:
        """`directions`: +1 or -1 for each doubling."""
        out = Outcome()
        self.start_energy = self.energy(q, p)
        tree = Tree(((q, p), (q, p)), p, 0.0, {0: 1.0})
        low = high = 0
        for depth, sign in enumerate(directions):
            edge, offset = (tree.ends[1], high) if sign > 0 else (tree.ends[0], low)
            new = self.build(depth, edge, sign, offset, out)
            if new is None:
                break
            out.depth = depth + 1
            swap = min(1.0, float(np.exp(new.log_weight - tree.log_weight)))
            chance = {offset: (1 - swap) * probability for offset, probability in tree.chance.items()}
            chance |= {offset: swap * probability for offset, probability in new.chance.items()}
            left, right = (tree, new) if sign > 0 else (new, tree)
            low, high = (low, high + 2**depth) if sign > 0 else (low - 2**depth, high)
            total = np.logaddexp(tree.log_weight, new.log_weight)
            stops = self.turned(left, right)
            tree = Tree((left.ends[0], right.ends[1]), left.rho + right.rho, total, chance)
            if stops:
                out.stop = "turned"
                break
        out.chance = tree.chance
        return out
