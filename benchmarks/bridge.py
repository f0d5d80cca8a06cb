"""Bridge sampling of masses in closed form: how often stated errors cover the truth, and where it ends.

`python -m benchmarks.bridge` prints both tables of `docs/results/bridge.md`; it takes minutes.
"""

import math
import sys
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal

from ergonet.hamiltonian.box import Box
from ergonet.partition.bridge import LogMass, bridge

WALL, CORRELATION = 0.2, 0.5
COVERAGE, SEEDS, DRAWS = (
    ((2, 1), (2, 2), (10, 1), (10, 2), (10, 3), (10, 4), (57, 1), (57, 2), (57, 3), (57, 4)),
    100,
    500,
)
DIMS, COUNTS = (10, 57, 200, 500), (250, 1000, 4000)


def estimated(dim: int, split: int, num_draws: int, seed: int) -> tuple[LogMass, float]:
    """Mass of a normal distribution beyond a wall in some coordinates, from independent draws; and the truth."""
    sd = np.linspace(0.5, 2, dim)
    covariance = (CORRELATION + (1 - CORRELATION) * np.eye(dim)) * np.outer(sd, sd)
    factor = np.linalg.cholesky(covariance)
    rotation, height = np.linalg.inv(factor).T, -0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    lower = np.full(dim, -np.inf)
    lower[:split] = WALL
    rng, parts = np.random.default_rng(seed), []
    while sum(map(len, parts)) < num_draws:
        points = rng.standard_normal((4 * num_draws, dim)) @ factor.T
        parts.append(points[np.all(points >= lower, axis=1)])
    draws = np.concatenate(parts)[:num_draws].astype(np.float32)
    normal: Any = multivariate_normal
    law = normal(np.zeros(split), covariance[:split, :split], seed=0, abseps=1e-8)
    found = bridge(
        lambda points: height - 0.5 * ((points.astype(float) @ rotation) ** 2).sum(axis=1),
        draws[None],
        region=Box(lower, np.full(dim, np.inf)),
        seed=seed,
    )
    return found, math.log(law.cdf(np.full(split, -WALL)))


def main() -> None:
    """Print both tables."""
    say = sys.stdout.write
    say(
        "| dimensions | split | within 1 error | within 2 | sd of scores | stated error |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
    )
    for dim, split in COVERAGE:
        pairs = [estimated(dim, split, DRAWS, seed) for seed in range(SEEDS)]
        scores = np.array([(found.value - truth) / found.error for found, truth in pairs])
        error = np.mean([found.error for found, _ in pairs])
        shares = [f"{100 * np.mean(np.abs(scores) < limit):.0f} %" for limit in (1, 2)]
        say(f"| {dim} | {split} | {' | '.join(shares)} | {scores.std():.2f} | {error:.4f} |\n")
    say(
        "\n| dimensions | draws | estimate minus truth | stated error | overlap | |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
    )
    for dim in DIMS:
        for count in COUNTS:
            found, truth = estimated(dim, 1, count, 100)
            numbers = f"{found.value - truth:.3f} | {found.error:.3f} | {found.overlap:.2g}"
            say(f"| {dim} | {count} | {numbers} | {'refused' if found.problem else ''} |\n")


if __name__ == "__main__":
    main()
