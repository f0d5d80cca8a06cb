"""Signals and time limits of a command: the first stops it, the second ends the process."""

import json
import os
import signal
import socket
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from ergonet._errors import RunDirectoryError, Terminated
from ergonet.cli import signals
from ergonet.cli.errors import errors_in_one_line
from ergonet.inference.progress import Silent, Tick

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
TICK = Tick(job=0, phase="sampling", done=1, total=2, step_size=1.0, acceptance=None, gradients=1, divergences=0)


@pytest.fixture(autouse=True)
def _usual_handlers():
    """A process in the background may ignore signals."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in CODES}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def ended(monkeypatch):
    """Exit codes with which the process would have ended."""
    codes, event = [], threading.Event()

    def end(code):
        codes.append(code)
        event.set()

    monkeypatch.setattr(os, "_exit", end)
    return SimpleNamespace(codes=codes, event=event)


def code_of(work):
    """The exit code of a command that does some work."""

    def command():
        with errors_in_one_line():
            work()

    with pytest.raises(typer.Exit) as found:
        command()
    return found.value.exit_code


@pytest.mark.parametrize("number", CODES)
def test_a_signal_ends_a_command_with_its_code_and_says_what_is_kept(number, capsys):
    before = signal.getsignal(number)

    def work():
        signals.active().kept = lambda: "Three draws are kept."
        signal.raise_signal(number)

    assert code_of(work) == CODES[number]
    assert "Three draws are kept." in capsys.readouterr().err
    assert signal.getsignal(number) is before
    assert threading.active_count() == len([one for one in threading.enumerate() if one.name != "ergonet-signals"])


@pytest.mark.parametrize("number", CODES)
def test_the_second_signal_ends_the_process_whatever_the_main_thread_does(number, ended, capsys):
    def work():
        found = signals.active()
        found.kept = lambda: "Three draws are kept."
        with found.deferred(*CODES, doing="something"):
            signal.raise_signal(number)
            signal.raise_signal(number)
            assert ended.event.wait(60)

    assert code_of(work) == CODES[number]
    assert ended.codes == [CODES[number]]
    assert "Stopped at once. Three draws are kept." in capsys.readouterr().err


def test_a_run_is_stopped_after_a_chunk_and_once():
    def work():
        progress = signals.BetweenChunks(Silent(), signals.active())
        progress.begin(1, 1)
        progress.tick(TICK)
        signal.raise_signal(signal.SIGTERM)  # while something is written
        with pytest.raises(Terminated):
            progress.tick(TICK)
        progress.tick(TICK)  # chunks that were still in progress
        progress.end()

    assert code_of(work) == 143


def test_an_interrupt_before_the_first_chunk_is_not_deferred():
    def work():
        progress = signals.BetweenChunks(Silent(), signals.active())
        progress.begin(1, 1)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it goes on")

    assert code_of(work) == 130


def test_a_signal_that_the_parent_ignores_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with errors_in_one_line():
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("kept", "said"), [("Three draws are kept.",) * 2, ("", "Allow more time.")])
def test_an_overrun_time_limit_ends_the_process(kept, said, ended, capsys, monkeypatch):
    now = time.monotonic()
    found = signals.Signals()
    found.kept = lambda: kept
    found.limit(60.0, began=time.perf_counter())
    incoming, outgoing = socket.socketpair()
    with incoming, outgoing, found.deferred(doing="evaluation"):
        monkeypatch.setattr(time, "monotonic", lambda: now + 70.1)
        found.watch(incoming)
    assert ended.codes == [124]
    told = capsys.readouterr().err
    assert f"The time limit of 60 s has passed during the evaluation, which is ended. {said}" in told


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([7, 9], "7 draws of each chain are kept in a run. `ergonet resume a run` goes on"),
        ([1, 1], "1 draw of each chain is kept in a run."),
    ],
)
def test_what_is_kept_is_what_the_manifest_counts(tmp_path, counts, said):
    (tmp_path / "draws.zarr").mkdir()
    manifest = {"format_version": 1, "draws_by_chain": counts, "complete": False}
    (tmp_path / "draws.zarr" / "manifest.json").write_text(json.dumps(manifest))
    claim: Any = SimpleNamespace(folder=tmp_path, path="a run")
    assert signals.how_to_go_on(claim).startswith(said)


def test_without_draws_there_is_nothing_to_say():
    class Closed:
        path = "run"

        @property
        def folder(self):
            raise RunDirectoryError("closed")

    claim: Any = Closed()
    assert signals.how_to_go_on(claim) == ""
