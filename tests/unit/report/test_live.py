"""The live view shows a run while it goes on, costs nothing if it cannot be written, and ends at the report."""

import re
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ergonet._errors import RunDirectoryError
from ergonet.draws.recorder import Chunk
from ergonet.inference.progress import Silent, Tick
from ergonet.report import live, traces
from ergonet.report.live import LivePage
from ergonet.report.traces import MOST_POINTS, Trace, Traces
from tests.sampling import gaussian_target


def tick(job, done, *, phase="sampling", divergences=0, detail=""):
    return Tick(
        job, phase, done, 100, step_size=0.1, acceptance=0.8, gradients=10 * done, divergences=divergences,
        detail=detail, warmup_divergences=2,
    )  # fmt: skip


def chunk(chain, start, count, *, is_warmup=False, fault=""):
    values = np.arange(start, start + count, dtype=np.float32)
    fields = {"lp": values[None], "positions": values[None, :, None] * np.ones(5, np.float32)}
    return Chunk((chain,), is_warmup, start, fields, fault)


class Recorded(Silent):
    """What another reporter is told."""

    def __init__(self):
        self.said = []

    def begin(self, num_jobs, chains_per_job):
        self.said.append(("begin", num_jobs, chains_per_job))

    def say(self, message):
        self.said.append(message)

    def watch(self, chunk):
        self.said.append(chunk)

    def tick(self, tick):
        self.said.append(tick)

    def end(self):
        self.said.append("end")


@pytest.fixture
def told():
    return []


@pytest.fixture
def page(tmp_path, told, monkeypatch):
    monkeypatch.setattr(live, "SECONDS_BETWEEN_PAGES", 0.0)
    monkeypatch.setattr(live, "LARGEST_SHARE", 1e9)
    monkeypatch.setattr(traces, "monitor", lambda _, positions: positions * [1, -1, 2, 3, 10])
    monkeypatch.setattr(traces, "offers", lambda *_: True)
    return LivePage(tmp_path / "my run", told.append)


def text(page):
    return page.path.read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")


def test_the_page_shows_progress_traces_and_divergences(page, told):
    shown = Recorded()
    progress = page.following(shown, gaussian_target())
    progress.begin(2, 1)
    assert "The programs are being compiled." in text(page)
    events = [tick(0, 0, phase="warm start", detail="chain 0, epoch 3, loss 1"), chunk(0, 0, 40, is_warmup=True)]
    events += [tick(0, 40, phase="warm-up"), chunk(0, 0, 50), chunk(1, 0, 30), tick(0, 90), tick(1, 70, divergences=3)]
    pages = []
    for event in events:
        (progress.tick if isinstance(event, Tick) else progress.watch)(event)
        pages.append(text(page))
    assert "Chain 0: warm start: epoch 3, loss 1" in pages[0]
    assert "Log posterior in the warm-up" in pages[2]
    last = pages[-1]
    assert "The fit is going on: sampling." in last
    assert "80 % of 200 transitions" in last
    assert "3 divergences (and 4 in the warm-up)" in last
    assert re.findall(r"<h3>(.*?)</h3>", last) == [
        "Prediction 1 of 5", "Prediction 3 of 5", "Prediction 5 of 5", "Log posterior",
    ]  # fmt: skip
    assert "between 0 and 490." in last
    assert last.count("<polyline") == 8
    assert '<meta http-equiv="refresh" content="3">' in last
    assert "<script" not in last
    assert not re.search(r'(?:src|href)="(?!data:)', last)
    assert "Time left" in last
    events.append(replace(tick(0, 95), is_to_look=True))
    progress.tick(events[-1])
    assert "Time to the next look" in text(page)
    progress.say("hello")
    progress.end()
    assert "Sampling has ended" in text(page)
    assert shown.said == [("begin", 2, 1), *events, "hello", "end"]
    assert told == []
    assert [one.name for one in page.path.parent.iterdir()] == ["my run-live.html"]


def test_it_ends_at_the_report(page):
    page.finish()
    assert "without a report" in text(page)
    assert "refresh" not in text(page)
    run = page.path.parent / "my run"
    run.mkdir()
    (run / "report.html").touch()
    page.finish()
    assert '<a href="my%20run/report.html">' in text(page)
    assert '<meta http-equiv="refresh" content="3; url=my%20run/report.html">' in text(page)
    page.fail()
    assert "ended before it had a report" in text(page)
    assert "refresh" not in text(page)


def test_an_error_of_writing_is_told_once_and_costs_nothing(page, told, monkeypatch):
    def full(*_):
        raise OSError("No space left on device")

    progress = page.following(Recorded(), gaussian_target())
    progress.begin(1, 1)
    with monkeypatch.context() as broken:
        broken.setattr(live, "replace_page", full)
        for done in (10, 20):
            progress.watch(chunk(0, done, 10))
            progress.tick(tick(0, done))
    assert len(told) == 1
    assert "my run-live.html` cannot be written, and the fit goes on without it: No space left on device" in told[0]
    progress.tick(tick(0, 30))  # there is space again
    assert "30 % of 100" in text(page)
    assert len(told) == 1


def test_an_error_of_a_trace_costs_nothing_and_faulty_chunks_are_left_out(page, told, monkeypatch):
    def broken(*_):
        raise MemoryError("too large")

    monkeypatch.setattr(traces, "monitor", broken)
    progress = page.following(Recorded(), gaussian_target())
    progress.begin(1, 1)
    progress.watch(chunk(0, 0, 10, fault="diverged"))
    progress.tick(tick(0, 10))
    assert told == []
    progress.watch(chunk(0, 10, 10))
    progress.tick(tick(0, 20))
    assert len(told) == 1


def test_pages_are_not_written_more_often_than_wanted(page, monkeypatch):
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], strftime=time.strftime)
    monkeypatch.setattr(live, "time", clock)
    monkeypatch.setattr(live, "SECONDS_BETWEEN_PAGES", 2.0)
    progress = page.following(Recorded(), gaussian_target())
    progress.begin(1, 1)
    for done, passed, seen in ((10, 0.0, 10), (20, 1.9, 10), (30, 0.2, 30), (40, 1.0, 30)):
        now[0] += passed
        progress.tick(tick(0, done))
        assert f"{seen} % of 100" in text(page)


def test_a_file_of_somebody_else_is_not_replaced(tmp_path):
    own = tmp_path / "run-live.html"
    own.write_text("mine", encoding="utf-8")
    with pytest.raises(RunDirectoryError, match=r"run-live.html` was not written by Ergonet"):
        LivePage(tmp_path / "run", print)
    assert own.read_text(encoding="utf-8") == "mine"
    LivePage(tmp_path / "other", print)
    LivePage(tmp_path / "other", print)  # of an earlier fit


def test_a_folder_that_is_missing_costs_nothing(told):
    LivePage(Path("/nowhere/at/all"), told.append).fail()
    assert len(told) == 1


def test_long_traces_keep_few_points_at_equal_distances():
    trace = Trace()
    for start in range(0, 5000, 100):
        draws = range(start, start + 100)
        trace.add(1, draws, np.asarray(draws, float))
    trace.add(0, range(3), np.asarray([np.nan, 1.0, np.inf]))
    drawing = trace.drawing("one")
    assert drawing is not None
    assert (drawing.first, drawing.last, drawing.low) == (1, 4993, "0")
    ((color, points),) = drawing.lines
    assert color == "series-2"
    places = np.asarray([one.split(",") for one in points.split()], float)
    assert MOST_POINTS / 2 < len(places) <= MOST_POINTS
    np.testing.assert_allclose(np.diff(places[:, 0]), 600 * trace.stride / 4992, atol=0.11)
    np.testing.assert_allclose(places[[0, -1]], [[0, 140], [600, 0]])


def test_a_large_target_has_no_traces_of_predictions(monkeypatch):
    monkeypatch.setattr(traces, "offers", lambda *_: True)
    monkeypatch.setattr(traces, "LARGEST_DIM", 4)
    found = Traces(gaussian_target())
    found.add(chunk(0, 0, 10))
    assert [one.title for one in found.drawings()] == ["Log posterior"]
