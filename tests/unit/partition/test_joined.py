"""Parts joined by their masses, on independent draws of the halves of a normal distribution."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import norm

from ergonet._errors import EstimateError, SettingError
from ergonet.draws.samples import Samples
from ergonet.hamiltonian.box import Box
from ergonet.partition import Joined, LogMass, Mirrored, join, split
from ergonet.report import write_parts
from tests.sampling import SCALES, gaussian_target

CUT = 0.3
DIM = len(SCALES)


def samples(target, positions):
    stats = {name: np.zeros(positions.shape[:2]) for name in ("lp", "moved", "step_size")}
    stats["lp"] = positions[..., 0].copy()
    settings = {"warmup_stats": {}, "tuning": {}, "about": {"kernel": "exact"}, "target": target}
    return Samples(positions, stats, seconds={"total": 1.0}, gradients={"sampling": 10}, **settings)


@pytest.fixture(scope="module")
def target():
    return gaussian_target()


@pytest.fixture(scope="module")
def parts(target):
    """Two chains of 300 independent draws on either side of the cut of the first coordinate."""
    rng = np.random.default_rng(0)
    points = (rng.standard_normal((4000, DIM)) * SCALES).astype(np.float32)
    sides = points[points[:, 0] < CUT], points[points[:, 0] >= CUT]
    return [samples(target, one[:600].reshape(2, 300, DIM)) for one in sides]


@pytest.fixture(scope="module")
def joined(target, parts):
    return join(target, parts, split(target, {0: CUT}), seed=1)


def test_weights_and_the_whole_mass(joined):
    share = norm.cdf(CUT / SCALES[0])
    assert abs(joined.weights[0] - share) < 4 * joined.weight_errors[0] < 0.05
    value, error = joined.log_mass
    assert abs(value - np.sum(np.log(SCALES)) - DIM / 2 * math.log(2 * math.pi)) < 4 * error < 0.1
    assert 1 < joined.effective_parts < 2


def test_every_part_has_a_line(joined):
    lines = str(joined).splitlines()
    weights, errors = joined.weights, joined.weight_errors
    assert len(lines) == 2
    where = "q[0] < 0.3", "q[0] >= 0.3"
    for n in range(2):
        assert f"part {n} ({where[n]}): weight {weights[n]:.4f} ± {errors[n]:.4f}, log mass" in lines[n]
    assert "not trusted" not in lines[0]
    unsure = dataclasses.replace(joined.masses[0], problem="too few")
    assert str(Joined(joined.parts, (unsure, joined.masses[1]))).splitlines()[0].endswith("not trusted: too few")


def test_expectations_have_the_errors_of_draws_and_weights(joined):
    mean, error = joined.expectation()
    assert np.all(np.abs(mean) < 4 * error)
    # The other coordinates are independent of the part, so only the first one has the error of the weights.
    within = np.hypot(*(weight * 1.0 / math.sqrt(600) for weight in joined.weights)) * SCALES
    np.testing.assert_allclose(error[1:], within[1:], rtol=0.2)


def test_errors_of_masses_add_to_those_of_draws(joined):
    """In the first coordinate, whose means differ between the parts."""
    unsure = Joined(joined.parts, tuple(dataclasses.replace(one, error=0.2) for one in joined.masses))
    mean, error = unsure.expectation()
    parts = [np.asarray(part.positions, np.float64)[..., 0] for part in unsure.parts]
    of_draws = [one.std() / math.sqrt(600) for one in parts]
    of_masses = [0.2 * (one.mean() - mean[0]) for one in parts]
    np.testing.assert_allclose(error[0], np.linalg.norm(unsure.weights * [of_draws, of_masses]), rtol=0.1)


def test_joined_draws_count_by_weight(joined, parts):
    found = joined.samples()
    assert found.positions.shape == (4, 300, DIM)
    shares = found.weights().sum(axis=1) / found.weights().sum()
    np.testing.assert_allclose(shares, np.repeat(joined.weights / 2, 2), rtol=1e-5)
    np.testing.assert_array_equal(found.positions[:2], parts[0].positions)
    np.testing.assert_array_equal(found.stats["lp"][2:], parts[1].stats["lp"])
    assert found.gradients == {"sampling": 20}


def test_resampled_draws_count_equally(joined):
    found = joined.resampled(100, seed=3)
    assert found.positions.shape == (4, 100, DIM)
    below = found.positions[..., 0] < CUT
    assert abs(below.sum() - 400 * joined.weights[0]) <= 1
    np.testing.assert_array_equal(found.stats["lp"], found.positions[..., 0])
    assert len(np.unique(found.positions[..., 0])) == 400
    assert not np.array_equal(joined.resampled(100, seed=4).positions, found.positions)
    np.testing.assert_array_equal(joined.resampled(100, seed=3).positions, found.positions)


def test_masses_that_are_known_are_not_estimated(target, parts):
    found = join(target, parts, Mirrored(DIM, {0: (0.0,)}, np.ones((1, DIM))), seed=0)
    np.testing.assert_allclose(found.weights, [0.5, 0.5])
    np.testing.assert_array_equal(found.weight_errors, [0, 0])
    assert str(found).splitlines()[0] == "part 0 (q[0] < 0): weight 0.5000, exactly"
    with pytest.raises(EstimateError, match="known shares, so their masses were not estimated"):
        _ = found.log_mass


def test_a_part_without_an_estimate_leaves_the_others_their_weights(target, parts, tmp_path):
    """Its chains stand still, so no proposal can be fitted."""
    still = dataclasses.replace(parts[1], positions=np.full((2, 300, DIM), 6.0, np.float32))
    with pytest.raises(EstimateError, match=r"part 2 \(q\[0\] >= 5\) of 3 .*Coordinate 0 has the same value") as caught:
        join(target, [*parts, still], split(target, {0: (CUT, 5.0)}), seed=1)
    found = caught.value.estimate
    np.testing.assert_allclose(found.weights[:2].sum(), 1)
    assert abs(found.weights[0] - norm.cdf(CUT / SCALES[0])) < 0.05
    assert np.isnan(found.weights[2])
    assert np.isnan(found.weight_errors[2])
    page = write_parts(found, tmp_path / "parts.html").read_text(encoding="utf-8")
    assert "<td>unknown</td><td>unknown</td>" in page
    assert "Part 0 has the largest weight" in page
    for use in (found.samples, found.expectation, lambda: found.resampled(10, seed=0), lambda: found.log_mass):
        with pytest.raises(
            EstimateError, match=r"part 2 .* has no estimate, so the parts cannot be joined: Coordinate 0"
        ):
            use()


def test_a_part_that_is_not_to_be_trusted_is_named(target, parts):
    stuck = np.tile(np.asarray(parts[0].positions)[:, :10], (1, 30, 1))
    slow = dataclasses.replace(parts[0], positions=np.repeat(stuck[:, :10], 30, axis=1))
    with pytest.raises(EstimateError, match=r"The mass of part 0 \(q\[0\] < 0\.3\) of 2 .*independent ones") as caught:
        join(target, [slow, parts[1]], split(target, {0: CUT}), seed=0)
    assert list(caught.value.estimate.faults) == [0]
    assert caught.value.estimate.parts[0] is slow


def test_a_part_without_mass_may_be_uncertain(parts):
    masses = (LogMass(0.0, 0.1, 100.0, 0.5, (0.0, 0.0)), LogMass(-20.0, 0.5, 100.0, 0.1, (0.0, 0.0), "too uncertain"))
    assert Joined(tuple(parts), masses).trusted().weights[0] == pytest.approx(1)


def test_bad_arguments(target, parts, joined):
    with pytest.raises(SettingError, match="got 1 for 2 parts"):
        join(target, parts[:1], split(target, {0: CUT}), seed=0)
    with pytest.raises(SettingError, match="must be at least 1"):
        joined.resampled(0, seed=0)
    short = dataclasses.replace(parts[0], positions=parts[0].positions[:, :50])
    with pytest.raises(SettingError, match="resampled"):
        Joined((short, parts[1]), joined.masses).samples()
    with pytest.raises(SettingError, match=r"Part 0 \(counted from 0\) has 30 draws .* at least 40"):
        join(target, [dataclasses.replace(parts[0], positions=parts[0].positions[:, :30])], [Box(-1, 1)], seed=0)
