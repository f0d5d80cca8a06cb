"""Executors: wherever the chunks of a run are made, the draws are the same."""

import os
import pickle
import signal
import threading
import time
from concurrent.futures import Executor, Future
from multiprocessing import Pipe
from typing import Any

import numpy as np
import pytest

import ergonet
from ergonet import SGLD
from ergonet._errors import SettingError
from ergonet.execution import crew
from ergonet.execution.base import AbstractExecutor, WorkerError
from ergonet.execution.crew import Crew, Worker
from ergonet.execution.in_process import InProcess
from ergonet.execution.processes import Processes
from ergonet.execution.serving import _answer, serve
from ergonet.execution.shared import Arithmetic, lacking, pack, run_packed, share, unpack
from ergonet.inference.devices import place
from ergonet.inference.progress import AbstractProgress
from tests.minibatches import network
from tests.sampling import draw, gaussian_target, place_in_one_batch


class Pickling(Executor):
    """Moves every call and result through a pickle, as a pool of processes does."""

    def submit(self, fn, /, *args, **kwargs):
        done: Future = Future()
        done.set_result(pickle.loads(pickle.dumps(fn(*pickle.loads(pickle.dumps(args)), **kwargs))))
        return done


class Packing(AbstractExecutor):
    """Moves every call as ours do, to a process that has everything that is shared."""

    @property
    def num_workers(self):
        return 3

    def submit(self, fn, /, *args, **kwargs):
        done: Future = Future()
        packed, used = pack((fn, args))
        contents = {token: one.content for token, one in used.items()}
        done.set_result(unpack(run_packed(packed, contents, Arithmetic.ours())))
        return done


class KillOne(AbstractProgress):
    """Kills a process once the chains sample."""

    def __init__(self, pid):
        self.pid = pid

    def begin(self, num_jobs, chains_per_job):
        return None

    def say(self, message):
        return None

    def tick(self, tick):
        if tick.phase == "sampling" and self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            self.pid = None

    def end(self):
        assert self.pid is None


def test_moved_chains_draw_the_same():
    here = draw()
    for executor in (InProcess(), Pickling(), Packing()):
        moved = draw(executor=executor)
        np.testing.assert_array_equal(moved.positions, here.positions)
        np.testing.assert_array_equal(moved.tuning["step_size"], here.tuning["step_size"])


def test_moved_batches_of_chains_draw_the_same(monkeypatch):
    place_in_one_batch(monkeypatch)
    np.testing.assert_array_equal(draw(executor=Pickling()).positions, draw().positions)


def test_moved_minibatch_chains_and_warm_starts_draw_the_same():
    chosen = {"num_chains": 2, "num_warmup": 2, "num_draws": 3, "seed": 1, "progress": False}
    kernel = SGLD(batch_size=5, learning_rate=1e-4)
    runs = [
        ergonet.sample(network(), kernel, warm_start={"name": "adam", "most_epochs": 3}, executor=one, **chosen)
        for one in (None, Pickling())
    ]
    np.testing.assert_array_equal(runs[0].positions, runs[1].positions)


def test_what_jobs_share_is_sent_once():
    value = np.arange(1000.0)
    packed, used = pack([share(value)] * 2)
    assert len(packed) < 300
    assert list(used) == [share(value).token]
    assert not lacking(used)
    assert unpack(packed)[0].value is value


def test_another_version_of_the_software_is_rejected():
    ours = Arithmetic.ours()
    theirs = Arithmetic({**ours.software, "jax": "0.0.1"}, ours.settings)
    with pytest.raises(WorkerError, match=r"jax .* instead of 0\.0\.1"):
        run_packed(pack((int, ()))[0], {}, theirs)


def test_what_cannot_be_pickled_says_so():
    with pytest.raises(WorkerError, match="cannot be sent to another process"):
        pack(threading.Lock())


def test_batched_chains_are_spread_over_the_workers():
    placed = place(None, 4).over(Packing())
    assert placed.num_workers == 4
    assert placed.over(None) is placed


def test_a_worker_that_ends_while_it_is_idle_takes_nothing_with_it(monkeypatch):
    monkeypatch.setattr(crew, "LOOK_SECONDS", 0.01)
    (ours, frail), (others, lasting) = Pipe(), Pipe()
    is_alone = threading.Event()

    def serve_once():
        _, *message = frail.recv()
        frail.send(_answer(*message))
        frail.close()

    def serve_later():
        is_alone.wait()
        serve(lasting)

    for work in (serve_once, serve_later):
        threading.Thread(target=work, daemon=True).start()
    with Crew([Worker("frail", ours), Worker("lasting", others)]) as executor:
        early = [executor.submit(abs, -number) for number in (1, 2)]
        until = time.monotonic() + 30
        while executor.num_workers == 2 and time.monotonic() < until:
            time.sleep(0.01)
        is_alone.set()
        late = executor.submit(abs, -3)
        assert [one.result(timeout=30) for one in (*early, late)] == [1, 2, 3]


@pytest.mark.parametrize("count", [0, True])
def test_a_number_of_processes_is_checked(count):
    with pytest.raises(SettingError, match="`num_workers` must be an integer of at least 1"):
        Processes(count)


@pytest.mark.slow
def test_parts_in_processes_and_a_killed_process_change_no_draw():
    chosen = {"num_chains": 2, "num_draws": 3000}
    parts = ergonet.partition.split(gaussian_target(), [0, 1])
    one_chain: dict[str, Any] = {"num_chains": 1, "num_warmup": 20, "num_draws": 10, "seed": 3}
    here = ergonet.partition.sample(gaussian_target(), parts, **one_chain)
    with Processes(2) as executor:
        there = ergonet.partition.sample(gaussian_target(), parts, executor=executor, **one_chain)
        for one, other in zip(here, there, strict=True):
            np.testing.assert_array_equal(one.positions, other.positions)
        victim = executor._processes[0]
        moved = draw(executor=executor, progress=KillOne(victim.pid), **chosen)
        assert executor.submit(os.getpid).result() != victim.pid
        os.kill(executor._processes[1].pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match="All workers have ended"):
            executor.submit(os.getpid).result()
    np.testing.assert_array_equal(moved.positions, draw(**chosen).positions)
