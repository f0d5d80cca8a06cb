"""Every trajectory kernel leaves the target where it is, at acceptances from above .7 to about .1.

|z| < 4.5 for some 30 statistics in each of 4 step sizes: about one false alarm in 1000 rows. A row beyond is run again
with another seed and four times as many starts, which has to pass.
"""

from functools import cache
from typing import Any

import numpy as np
import pytest

from ergonet import (
    HMC,
    MALA,
    MAMS,
    NUTS,
    XHMC,
    DelayedRejectionHMC,
    DynamicalA,
    DynamicalB,
    GibbsHMC,
    RandomWalk,
    WindowedHMC,
)
from tests.laws.joint import Step

pytestmark = pytest.mark.statistical

STATIC: dict[str, Any] = {"num_steps": 5, "length_jitter": 0.2, "metric": "identity"}
TREE: dict[str, Any] = {"max_doublings": 3, "metric": "identity"}
CHEAP, DEAR = 60_000, 30_000
MANY = 250_000  # where a fault is small at any acceptance
TESTS_ONE_END = ("hmc", "hmc, random direction", "mala", "random walk", "dynamical A", "dynamical B", "gibbs, hmc")

# kernel, problem, starts, step sizes from high to low acceptance
ROWS: dict[str, tuple[Any, str, int, tuple[float, ...]]] = {
    "hmc": (HMC(**STATIC), "bananas", CHEAP, (0.5, 0.8, 1.1)),
    "hmc, random direction": (HMC(**STATIC, direction="random", step_jitter=0.3), "bananas", CHEAP, (0.7, 1.4)),
    "delayed rejection": (DelayedRejectionHMC(3.0, **STATIC), "bananas", CHEAP, (0.5, 0.8, 1.1)),
    "delayed rejection, jitter": (
        DelayedRejectionHMC(1.5, **STATIC, step_jitter=0.3),
        "bananas",
        CHEAP,
        (0.8, 1.4),
    ),
    "windowed": (WindowedHMC(3, **STATIC), "bananas", MANY, (1.0, 1.4)),
    "windowed, most states": (WindowedHMC(5, **STATIC), "bananas", CHEAP, (1.0, 1.4)),
    "mams": (MAMS(**STATIC), "bananas", CHEAP, (0.7, 1.4, 2.8)),
    "mams, refreshed": (MAMS(**STATIC, memory=1.0), "bananas", CHEAP, (0.7, 1.4, 2.8)),
    "mala": (MALA(metric="identity"), "bananas", CHEAP, (0.8, 1.6, 2.4)),
    "random walk": (RandomWalk(metric="identity"), "bananas", CHEAP, (1.0, 2.5, 6.0)),
    "nuts": (NUTS(**TREE), "bananas", CHEAP, (0.5, 1.0, 1.6)),
    "nuts, slice": (NUTS(**TREE, selection="slice"), "bananas", CHEAP, (0.5, 1.0, 1.6)),
    "nuts, original, slice": (NUTS(**TREE, criterion="original", selection="slice"), "bananas", CHEAP, (1.0, 1.6)),
    "xhmc": (XHMC(0.2, **TREE), "bananas", CHEAP, (0.5, 1.0, 1.6)),
    "gibbs, hmc": (GibbsHMC(HMC(**STATIC)), "centered", DEAR, (0.25, 0.4)),
    "gibbs, delayed rejection": (GibbsHMC(DelayedRejectionHMC(**STATIC)), "centered", DEAR, (0.25, 0.4)),
    "gibbs, nuts, curvature": (GibbsHMC(NUTS(**TREE), step_sizes="curvature"), "centered", DEAR, (1.0, 1.8)),
    "dynamical A": (DynamicalA(4, hyperparameter_splits=2), "centered", 100_000, (0.8, 1.4)),
    "dynamical B": (DynamicalB(4, hyperparameter_ratio=0.7), "non-centered", 100_000, (0.8, 1.4)),
}


@cache
def compiled(row):
    kernel, problem, num_starts, _ = ROWS[row]
    return Step(problem, kernel, num_starts=num_starts)


@cache
def results(row):
    return [compiled(row)(step_size) for step_size in ROWS[row][3]]


def worst(row, result):
    """A Gibbs draw followed by a reversible move is not reversible, so there only the drift counts."""
    scores = result.drift if row.startswith("gibbs") else np.concatenate([result.drift, result.flow])
    return float(np.max(np.abs(scores)))


@pytest.mark.parametrize("row", ROWS)
def test_the_joint_distribution_is_invariant(row):
    for step_size, result in zip(ROWS[row][3], results(row), strict=True):
        chosen = result
        if worst(row, result) >= 4.5:
            chosen = compiled(row)(step_size, seed=1, longer=4)
        assert worst(row, chosen) < 4.5, (step_size, chosen)


@pytest.mark.parametrize("row", ROWS)
def test_the_step_sizes_cover_high_and_low_acceptances(row):
    acceptances = [result.acceptance for result in results(row)]
    assert acceptances == sorted(acceptances, reverse=True)
    assert acceptances[-1] < 0.4


@pytest.mark.parametrize("row", TESTS_ONE_END)
def test_proposals_are_accepted_as_often_as_their_probability_says(row):
    """By tenths of the probability: one that is always accepted above some level shows in its tenth."""
    for result in results(row):
        assert np.count_nonzero(result.calibration) > 1
        assert np.max(np.abs(result.calibration)) < 4.5, result.calibration
