import time

import pytest

from ergonet.cli.deadline import Deadline


@pytest.mark.parametrize(
    ("limit", "spent", "num_test", "left"),
    [
        (20.0, 3.0, 0, 13.0),
        (3600.0, 3.0, 0, 3587.0),
        (3600.0, 3.0, 200_000, 3567.0),
        (60.0, 3.0, 200_000, 45.0),
        (1.0, 3.0, 0, 1e-3),
    ],
)
def test_sampling_leaves_time_for_scores_and_report(limit, spent, num_test, left, monkeypatch):
    monkeypatch.setattr(time, "perf_counter", lambda: 100.0)
    deadline = Deadline(limit, 100.0 - spent, num_test)
    assert deadline.left_to_sample == pytest.approx(left)
    assert (deadline.left, deadline.until) == (limit - spent, 100.0 - spent + limit)


def test_there_may_be_no_limit():
    deadline = Deadline(None, 0.0, 10)
    assert (deadline.left_to_sample, deadline.left, deadline.until) == (None, None, None)
