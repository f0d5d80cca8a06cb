import time

import pytest

from ergonet.cli.deadline import Deadline


@pytest.mark.parametrize(
    ("limit", "started", "num_test", "left"),
    [
        (20.0, 2.0, 0, 14.0),
        (3600.0, 2.0, 0, 3588.0),
        (3600.0, 2.0, 200_000, 3568.0),
        (180.0, 6.0, 10_000, 149.0),  # slow to start, and to end
        (60.0, 2.0, 200_000, 46.0),
        (60.0, 9.0, 0, 39.0),
        (1.0, 2.0, 0, 1e-3),
    ],
)
def test_sampling_leaves_time_for_scores_and_report(limit, started, num_test, left, monkeypatch):
    monkeypatch.setattr(time, "perf_counter", lambda: 100.0)
    deadline = Deadline(limit, 100.0 - started, num_test, started)
    assert deadline.left_to_sample == pytest.approx(left)
    assert (deadline.left, deadline.until) == (limit - started, 100.0 - started + limit)


def test_there_may_be_no_limit():
    deadline = Deadline(None, 0.0, 10)
    assert (deadline.left_to_sample, deadline.left, deadline.until) == (None, None, None)
