"""Progress lines: warm-up divergences and the time left."""

import pytest

from ergonet.inference import progress
from ergonet.inference.progress import Lines, Overall, Pace, Tick


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    return now


def test_lines_say_how_long_it_takes_and_what_diverged(clock, tmp_path):
    lines = Lines(path=tmp_path / "log")
    lines.begin(1, 1)
    for seconds, phase, done, late in (
        (10.0, "warm-up", 100, 0),
        (20.0, "warm-up", 200, 0),
        (30.0, "sampling", 600, 2),
    ):
        clock[0] = seconds
        lines.tick(Tick(0, phase, done, 1000, 0.1, 0.8, 7 * done, late, warmup_divergences=1))
    clock[0] = 70.0
    lines.tick(Tick(0, "sampling", 800, 1000, 0.1, 0.8, 5600, 2, warmup_divergences=1))
    lines.end()
    said = [line[20:] for line in (tmp_path / "log").read_text().splitlines()]
    assert said == [
        "warm-up: 10 % of 1000 transitions, 700 gradients, 1 divergence in the warm-up",
        "warm-up: 20 % of 1000 transitions, 1400 gradients, 1 divergence in the warm-up, about 1 min 20 s left",
        "sampling: 60 % of 1000 transitions, 4200 gradients, 2 divergences (and 1 in the warm-up)",
        "sampling: 80 % of 1000 transitions, 5600 gradients, 2 divergences (and 1 in the warm-up), about 40 s left",
        "sampling: 80 % of 1000 transitions, 5600 gradients, 2 divergences (and 1 in the warm-up)",
    ]


def test_lines_say_that_the_next_look_is_not_the_end(clock, tmp_path):
    lines = Lines(path=tmp_path / "log")
    lines.begin(1, 1)
    for clock[0], done in ((10.0, 100), (20.0, 200)):
        lines.tick(Tick(0, "warm-up", done, 1000, 0.1, 0.8, 7 * done, 0, is_to_look=True))
    said = [line[20:] for line in (tmp_path / "log").read_text().splitlines()]
    assert said[1].startswith("warm-up: 20 % of 1000 transitions to the next look, 1400 gradients")
    assert said[1].endswith("about 1 min 20 s left")


def test_the_pace_is_that_of_the_phase_and_of_jobs_that_are_counted_already():
    pace = Pace()

    def left(phase, done, now, jobs=2):
        return pace.left(Overall(phase, jobs, done, 100, 0, ""), now=now)

    assert left("warm-up", 10, 0.0) is None
    assert left("warm-up", 10, 5.0) is None
    assert left("warm-up", 20, 10.0) == 80.0
    assert left("sampling", 50, 12.0, jobs=1) is None
    assert left("sampling", 80, 12.5) is None  # one more that goes on from what was made before
    assert left("sampling", 90, 13.5) == 1.0
    assert left("sampling", 100, 14.0) is None
