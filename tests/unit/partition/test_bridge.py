"""Bridge sampling of densities in NumPy whose masses are known, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from ergonet._errors import EstimateError, SettingError
from ergonet.hamiltonian.box import Box
from ergonet.partition import bridge
from ergonet.partition.bridge import LogMass
from ergonet.partition.proposal import Proposal, fit
from tests.sampling import gaussian_target


def normal(dim, constant=0.0):
    """A normal density with correlations, times e^constant, and the factor of its covariance."""
    sd = np.linspace(0.5, 2, dim)
    covariance = (0.5 + 0.5 * np.eye(dim)) * np.outer(sd, sd)
    factor = np.linalg.cholesky(covariance)
    rotation = np.linalg.inv(factor).T
    height = -0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1] + constant
    return lambda points: height - 0.5 * ((points.astype(float) @ rotation) ** 2).sum(axis=1), factor


def orthant(factor, split, wall, count, rng):
    """Independent draws beyond a wall in the first coordinates, the box, and the log of its probability."""
    dim, lower = len(factor), np.full(len(factor), -np.inf)
    lower[:split] = wall
    found = []
    while sum(map(len, found)) < count:
        points = rng.standard_normal((4 * count, dim)) @ factor.T
        found.append(points[np.all(points >= lower, axis=1)])
    covariance = (factor @ factor.T)[:split, :split]
    law = multivariate_normal(np.zeros(split), covariance, seed=1)
    truth = math.log(law.cdf(np.full(split, -wall)))
    return np.concatenate(found)[:count].astype(np.float32), Box(lower, np.full(dim, np.inf)), truth


@pytest.mark.parametrize(("dim", "split"), [(2, 1), (3, 2), (10, 3), (12, 5)])
def test_mass_of_an_orthant(dim, split):
    """With 5 split coordinates, the proposal is not truncated."""
    log_density, factor = normal(dim, constant=-300.0)
    draws, box, truth = orthant(factor, split, 0.2, 800, np.random.default_rng(dim))
    found = bridge.bridge(log_density, draws.reshape(2, 400, dim), region=box, seed=0)
    assert not found.problem
    assert abs(found.value - truth + 300) < 4 * found.error < 0.3


def test_more_coordinates_than_draws():
    dim = 60
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((1, 80, dim)) * np.linspace(1, 3, dim)
    gaussian = fit(draws[0, :20], draws[0, 20:40])
    assert gaussian.axes.shape[1] < dim
    points = gaussian.sample(rng, 20_000)
    np.testing.assert_allclose(points.std(axis=0), gaussian.sd, rtol=0.05)
    every: Any = gaussian.covariance(np.arange(dim))
    expected = multivariate_normal(gaussian.mean, every).logpdf(points[:5])
    np.testing.assert_allclose(gaussian.log_density(points[:5]), expected, rtol=1e-9)


def test_a_proposal_is_truncated_and_normalized():
    rng = np.random.default_rng(0)
    draws = np.abs(rng.standard_normal((400, 2)))
    proposal = Proposal.of(fit(draws[:200], draws[200:]), Box(np.zeros(2), np.full(2, np.inf)))
    points, inside = proposal.sample(rng, 500, np.float32)
    assert proposal.truncated
    assert inside.all()
    assert np.all(points >= 0)
    line = np.linspace(0, 6, 301)[:-1] + 0.01
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    assert np.exp(proposal.log_density(grid)).sum() * 0.02**2 == pytest.approx(1, abs=2e-3)


def test_chains_in_different_places_are_refused():
    log_density, factor = normal(2)
    draws = np.random.default_rng(0).standard_normal((2, 400, 2)) @ factor.T
    draws[1] += 3
    problem = bridge.bridge(log_density, draws, seed=0).problem
    assert "independent ones" in problem
    assert "R-hat" in problem


def test_halves_that_disagree_are_refused():
    halves = [bridge.Half(value, 0.02, 200.0, 0.5) for value in (1.0, 1.2)]
    assert "differ by 7.1 standard errors (1.000 and 1.200)" in bridge.problem_of(*halves)


def test_too_many_coordinates_for_the_draws_are_refused():
    dim = 400
    factor = np.linalg.cholesky(np.cov(np.random.default_rng(1).standard_normal((dim, 600))))
    draws = np.random.default_rng(0).standard_normal((1, 200, dim)) @ factor.T
    rotation = np.linalg.inv(factor).T
    found = bridge.bridge(lambda points: -0.5 * ((points @ rotation) ** 2).sum(axis=1), draws, seed=0)
    assert "overlap" in found.problem
    with pytest.raises(EstimateError, match=r"The evidence cannot be told by bridge sampling: the standard error"):
        found.trusted("The evidence")


def test_estimates_that_are_trusted_are_returned():
    found = LogMass(1.0, 0.1, 100.0, 0.5, (1.0, 1.0))
    assert found.trusted() is found
    assert str(found) == "1.000 ± 0.100"


@pytest.mark.parametrize(
    ("shape", "proposals", "message"),
    [((4, 30, 2), None, "at least 40"), ((400, 2), None, "at least 40"), ((1, 400, 3), None, "3 coordinates")],
)
def test_bad_arguments(shape, proposals, message):
    with pytest.raises(SettingError, match=message):
        bridge.log_mass(gaussian_target(np.ones(2)), np.zeros(shape), num_proposals=proposals)


def test_a_coordinate_that_stands_still():
    draws = np.random.default_rng(0).standard_normal((1, 400, 2))
    draws[..., 1] = 3
    with pytest.raises(EstimateError, match="Coordinate 1 has the same value"):
        bridge.bridge(normal(2)[0], draws)
