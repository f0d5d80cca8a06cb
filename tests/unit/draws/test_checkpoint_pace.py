"""How often a run writes a checkpoint."""

from types import SimpleNamespace

import pytest

from ergonet.draws import checkpoint
from ergonet.draws.checkpoint import Pace


@pytest.mark.parametrize("cost", [0.001, 0.1, 3.0])
def test_checkpoints_take_at_most_a_fiftieth_of_the_time(monkeypatch, cost):
    now, count = [0.0], 0
    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    pace = Pace()
    while now[0] < 10_000:
        now[0] += 0.5  # a chunk
        if pace.is_due:
            began = now[0]
            now[0] += cost
            pace.wrote(began)
            count += 1
    assert 1 < count <= 10_000 / 5
    assert (count - 1) * cost <= 0.02 * now[0]
