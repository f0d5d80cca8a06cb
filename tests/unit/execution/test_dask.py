"""Dask: a real scheduler and three workers, one of which is killed."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ergonet
from ergonet import partition
from ergonet._errors import SettingError
from ergonet.cli.main import app
from ergonet.execution import dask
from ergonet.execution.base import WorkerError
from ergonet.runs.directory import RunDirectory
from tests.sampling import draw, gaussian_target
from tests.unit.execution.test_executors import KillOne

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    """Three workers that have the cache of programs of this process."""
    settings = {"distributed.comm.timeouts.connect": "120s", "distributed.worker.memory.terminate": False}
    with (
        dask_settings(settings),
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


def dask_settings(settings):
    from dask import config

    return config.set(settings)


@contextmanager
def killing_one(client):
    """Kill the first of the workers that has something to do in this block."""
    killed, over = [], threading.Event()

    def look():
        pids = client.run(os.getpid)
        while not killed and not over.wait(0.02):
            busy = [worker for worker, tasks in client.processing().items() if tasks and worker in pids]
            for worker in busy[:1]:
                os.kill(pids[worker], signal.SIGKILL)
                killed.append(worker)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)
    assert killed


@pytest.mark.slow
def test_parts_are_the_same_when_a_worker_is_killed(client):
    target = gaussian_target()
    parts = partition.split(target, [0, 1])
    settings: dict[str, Any] = {"num_chains": 1, "num_warmup": 20, "num_draws": 10, "seed": 3}
    with dask.DaskExecutor(client) as executor, killing_one(client):
        moved = partition.sample(target, parts, executor=executor, **settings)
    for one, other in zip(moved, partition.sample(target, parts, **settings), strict=True):
        np.testing.assert_array_equal(one.positions, other.positions)
        assert one.target is target


@pytest.mark.slow
def test_a_killed_worker_changes_no_draw(client):
    pid = next(iter(client.run(os.getpid).values()))
    with dask.DaskExecutor(client) as executor:
        moved = draw(num_chains=4, executor=executor, progress=KillOne(pid))
    np.testing.assert_array_equal(moved.positions, draw(num_chains=4).positions)


@pytest.mark.slow
def test_the_command_fits_and_reproduces_with_dask_and_a_killed_worker_changes_nothing(client, tmp_path, monkeypatch):
    x = np.random.default_rng(0).normal(size=(40, 2))
    np.savetxt(tmp_path / "table.csv", np.c_[x, x[:, 0]], delimiter=",", header="a,b,y", comments="")
    monkeypatch.chdir(tmp_path)
    fit = ["fit", "table.csv", "--target", "y", "--hidden", "2", "--chains", "2", "--warmup", "30", "--draws", "20"]
    fit += ["--kernel", "hmc", "--no-baselines", "--quiet", "--out"]
    for name, more in (("plain", []), ("dask", ["--dask", client.scheduler.address])):
        with killing_one(client) if more else nullcontext():
            done = CliRunner().invoke(app, [*fit, name, *more])
        assert done.exit_code == 0, done.output
        command = [sys.executable, "-c", "from ergonet.cli.main import main; main()"]
        command += ["reproduce", "sghmc-phase", "--smoke", "--out", f"{name}-page", *more]
        with killing_one(client) if more else nullcontext():
            made = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert made.returncode == 0, made.stderr
    runs = [ergonet.load(RunDirectory(tmp_path / name).draws) for name in ("plain", "dask")]
    np.testing.assert_array_equal(np.asarray(runs[0].positions), np.asarray(runs[1].positions))
    pages = [json.loads((tmp_path / f"{name}-page" / "sghmc-phase.json").read_text()) for name in ("plain", "dask")]
    assert pages[0]["values"] == pages[1]["values"]


def test_a_scheduler_that_does_not_answer_is_one_error(monkeypatch):
    monkeypatch.setattr(dask, "ANSWER_SECONDS", 0.1)
    with pytest.raises(WorkerError, match=r"did not answer within 0\.1 s"):
        dask.DaskExecutor("tcp://127.0.0.1:1")


def test_the_number_of_workers_is_that_of_a_local_cluster():
    with pytest.raises(SettingError, match="`num_workers=2` is for a local cluster"):
        dask.DaskExecutor("tcp://127.0.0.1:1", num_workers=2)
