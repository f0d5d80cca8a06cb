"""Two processes that `jax.distributed` brings together, with gloo collectives: one run, and one end."""

import os
import signal
import socket
import subprocess
import sys
import time
import zlib
from contextlib import suppress

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import ergonet
from ergonet._errors import RunDirectoryError
from ergonet.cli.main import app
from ergonet.draws.checkpoint import read_checkpoint
from ergonet.draws.manifest import read_manifest
from ergonet.execution import distributed
from ergonet.runs.directory import RunDirectory
from tests.minibatches import network
from tests.sampling import draw

ANSWER = 600  # seconds for what takes a few on an idle machine
LIMIT = 30  # seconds in which the other process ends
FIT = ["fit", "table.csv", "--target", "y", "--hidden", "2", "--chains", "4", "--warmup", "30", "--no-baselines"]
PROGRAM = """
import sys, zlib
import jax
import ergonet

jax.config.update("jax_num_cpu_devices", 2)
executor = ergonet.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
from tests.unit.execution.test_distributed import by_rows, draw

found = [draw(num_chains=4, executor=executor), *(by_rows(count, executor=executor) for count in (2, 4))]
print("\\nfound", executor.num_workers > 1, *(zlib.crc32(one.positions) for one in found), flush=True)
by_rows(4, num_draws=10**6, thin=100, executor=executor)
"""
LONELY = """
import sys
from ergonet import distributed
from ergonet._errors import ErgonetError

for arguments in ((), (sys.argv[1], 2, 1)):
    try:
        distributed.initialize(*arguments, seconds=2)
    except ErgonetError as error:
        print(error)
"""


def by_rows(count, **settings):
    """A short run of chains of which every gradient is a sum over devices."""
    kernel, devices = ergonet.HMC(num_steps=3), ergonet.RowShards(count)
    return draw(kernel, target=network(), devices=devices, **({"num_warmup": 20, "num_draws": 10} | settings))


def free_address():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


def environment():
    """That of this process, with its own platform only."""
    return os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def as_mpi_does(job, rank):
    """What Open MPI says to a process; JAX makes an address of it."""
    return environment() | {
        "OMPI_MCA_orte_hnp_uri": f"{job * 2**12}.0;tcp://127.0.0.1:1",
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
    }


def drawn(folder):
    """How many draws every chain of an unfinished run has, according to its manifest, where there is a checkpoint."""
    for file in folder.glob("**/checkpoint.npz"):
        with suppress(RunDirectoryError):
            return min(read_manifest(file.parent)["draws_by_chain"])
    return 0


def start(folder, *command, env):
    return subprocess.Popen(
        [sys.executable, *command], cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.fixture
def table(tmp_path, monkeypatch):
    x = np.random.default_rng(0).normal(size=(40, 2))
    np.savetxt(tmp_path / "table.csv", np.c_[x, x[:, 0]], delimiter=",", header="a,b,y", comments="")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--divide", "rows", "--warm-start", "none"]], ids=["chains", "rows"])
def test_the_command_makes_one_run_and_ends_when_a_process_is_killed(table, more):
    job, fit = int.from_bytes(os.urandom(2), "big") % 2**12, [*FIT, *more, "--quiet", "--out"]
    command = "from ergonet.cli.main import main; main()", *fit, "two", "--distributed"
    both = [
        start(table, "-c", *command, "--draws", "1000000", "--thin", "20", env=as_mpi_does(job, rank))
        for rank in (0, 1)
    ]
    try:
        until = time.monotonic() + ANSWER
        while not drawn(table):
            assert time.monotonic() < until
            assert all(one.poll() is None for one in both), [one.communicate() for one in both]
            time.sleep(0.2)
        both[1].kill()
        said = both[0].communicate(timeout=LIMIT)[1]
    finally:
        for one in both:
            one.kill()
    assert both[0].returncode not in (0, None)
    assert "Process 1 on" in said
    assert "has ended before its work was done" in said
    assert "ergonet resume" in said
    (file,) = table.glob("**/checkpoint.npz")
    assert len(read_checkpoint(file.parent).memos) == 4
    done = CliRunner().invoke(app, [*fit, "one", "--draws", "5", "--thin", "20"])
    assert done.exit_code == 0, done.output
    one = np.asarray(ergonet.load(RunDirectory(table / "one").draws).positions)
    two = np.asarray(ergonet.load(file.parent).positions[:, :5])
    np.testing.assert_array_equal(one[:, : two.shape[1]], two)


@pytest.mark.slow
def test_two_processes_draw_as_one_by_chains_and_by_rows_and_the_other_ends_when_process_0_is_killed(tmp_path):
    address = free_address()
    both = [start(tmp_path, "-c", PROGRAM, address, str(rank), env=environment()) for rank in (0, 1)]
    try:
        lines = iter(both[0].stdout.readline, "")
        line = next((line for line in lines if line.startswith("found ")), "")  # among messages of Gloo
        assert line, both[0].communicate(timeout=LIMIT)
        _, is_shared, *found = line.split()
        both[0].send_signal(signal.SIGKILL)
        said = both[1].communicate(timeout=LIMIT)[1]
    finally:
        for one in both:
            one.kill()
    assert is_shared == "True"
    expected = [draw(num_chains=4), by_rows(1), by_rows(1)]
    assert [int(one) for one in found] == [zlib.crc32(one.positions) for one in expected]
    assert both[1].returncode not in (0, None)
    assert "Process 0 has ended before its work was done, so process 1 ends" in said


def test_a_process_has_a_worker_per_core_where_cores_cannot_be_assigned(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # as on macOS
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert len(distributed._threads()) == (3 if jax.default_backend() == "cpu" else jax.local_device_count())


@pytest.mark.slow
def test_a_coordinator_that_is_not_known_or_does_not_answer_is_one_error(tmp_path):
    lonely = start(tmp_path, "-c", LONELY, free_address(), env=environment())
    said, problems = lonely.communicate(timeout=ANSWER)
    assert lonely.returncode == 0, problems
    assert "The processes of this run are not known" in said
    assert "Not all processes have come within 2 s" in said
