"""Bridge sampling of masses in closed form: how often stated errors cover the truth, and where it ends.

`python -m benchmarks.bridge` prints both tables of `docs/results/bridge.md`; it takes minutes.
"""

import math
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal

from ergonet.hamiltonian.box import Box
from ergonet.partition.bridge import LogMass, bridge

WALL, CORRELATION = 0.2, 0.5
COVERAGE = (2, 1), (2, 2), (10, 1), (10, 2), (10, 3), (10, 4), (57, 1), (57, 2), (57, 3), (57, 4)
SEEDS, DRAWS, CHAINS = 100, 500, 4
DIMS, COUNTS, ENDS = (10, 57, 200, 500), (250, 1000, 4000), (100, 101)


def estimated(dim: int, split: int, num_draws: int, seed: int, *, num_chains: int = 1) -> tuple[LogMass, float]:
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
        draws.reshape(num_chains, -1, dim),
        region=Box(lower, np.full(dim, np.inf)),
        seed=seed,
    )
    return found, math.log(law.cdf(np.full(split, -WALL)))


def coverage(dim: int, split: int) -> str:
    """A line of the first table."""
    pairs = [estimated(dim, split, DRAWS, seed, num_chains=CHAINS) for seed in range(SEEDS)]
    scores = np.array([(found.value - truth) / found.error for found, truth in pairs])
    shares = " | ".join(f"{100 * np.mean(np.abs(scores) < limit):.0f} %" for limit in (1, 2))
    moments = f"{scores.mean():.2f} | {scores.std():.2f} | {np.abs(scores).max():.1f}"
    error, refused = np.mean([found.error for found, _ in pairs]), sum(bool(found.problem) for found, _ in pairs)
    return f"| {dim} | {split} | {shares} | {moments} | {error:.4f} | {refused} |"


def end(dim: int, count: int) -> str:
    """A line of the second table."""
    pairs = [estimated(dim, 1, count, seed) for seed in ENDS]
    off = " / ".join(f"{found.value - truth:.3f}" for found, truth in pairs)
    errors = " / ".join(f"{found.error:.3f}" for found, _ in pairs)
    overlaps = " / ".join(f"{found.overlap:.2g}" for found, _ in pairs)
    refused = " / ".join("refused" if found.problem else "trusted" for found, _ in pairs)
    return f"| {dim} | {count} | {off} | {errors} | {overlaps} | {refused} |"


def main() -> None:
    """Print both tables."""
    columns = "within 1 error | within 2 errors | mean score | sd of scores | largest | stated error | refused"
    print(f"| dimensions | split coordinates | {columns} |\n|{' ---: |' * 9}")
    for dim, split in COVERAGE:
        print(coverage(dim, split), flush=True)
    columns = "estimate minus truth | stated error | overlap of the proposals | "
    print(f"\n| dimensions | draws | {columns} |\n|{' ---: |' * 5} --- |")
    for dim in DIMS:
        for count in COUNTS:
            print(end(dim, count), flush=True)


if __name__ == "__main__":
    main()
