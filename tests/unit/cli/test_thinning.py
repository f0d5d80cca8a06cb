"""Near a time limit, scores are from as many draws as fit; on a clock of its own, whatever the speed of the machine."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from ergonet.cli import thinning
from ergonet.draws.samples import Samples
from ergonet.inference.waiting import LateError


def samples(num_draws, weights=None):
    positions = np.arange(2 * num_draws * 3, dtype=np.float32).reshape(2, num_draws, 3)
    stats = {"lp": positions[:, :, 0]} | ({} if weights is None else {"weight": np.asarray(weights, np.float32)})
    return Samples(positions, stats, {}, {}, {}, {}, {})


def test_thinned_draws_are_evenly_spaced_over_their_weights():
    few = thinning.thinned(samples(100), 4)
    np.testing.assert_array_equal(few.positions[0, :, 0], [36, 111, 186, 261])
    np.testing.assert_array_equal(few.stats["lp"], few.positions[:, :, 0])
    weights = np.zeros((2, 100))
    weights[:, 90:] = 1.0
    few = thinning.thinned(samples(100, weights), 5)
    np.testing.assert_array_equal(few.positions[0, :, 0], [270, 276, 282, 288, 294])
    assert "weight" not in few.stats
    whole = samples(100)
    assert thinning.thinned(whole, 100) is whole


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, 1000), (1e4, 1000), (60.0, 50), (30.0, 10), (15.0, 10), (0.0, 10)],
)
def test_as_many_draws_are_used_as_fit(monkeypatch, seconds, expected):
    """Predictions compile for 10 seconds at each new number of draws, and then take a third of a second for each."""
    now, compiled, used = [100.0], set[int](), []
    monkeypatch.setattr(thinning, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def predict(some):
        now[0] += (0.0 if some.num_draws in compiled else 10.0) + some.num_draws / 3
        compiled.add(some.num_draws)
        used.append(some.num_draws)
        return some.num_draws

    until = None if seconds is None else 100.0 + seconds
    count, found = thinning.predict_by(until, samples(1000), predict, rows=2500)
    assert count == found == used[-1]
    assert used[:-1] == ([] if seconds is None else [10] * (len(used) - 1))
    assert count == pytest.approx(expected, rel=0.2)
    if count > 10 and until is not None:
        assert now[0] < until


def test_later_predictions_that_are_late_leave_those_of_the_first_draws():
    used = []

    def predict(some):
        used.append(some.num_draws)
        if some.num_draws > 10:
            raise LateError
        return some.num_draws

    until = time.perf_counter() + 100.0
    assert thinning.predict_by(until, samples(1000), predict, rows=2500) == (10, 10)
    assert used == [10, 10, 1000]
