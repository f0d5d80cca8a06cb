"""A disk that is full, read-only, gone or out of handles: one sentence, and what was written stays."""

import errno
import os
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
import typer

import ergonet
from ergonet._errors import RunDirectoryError
from ergonet.cli import fitting
from ergonet.cli.errors import errors_in_one_line
from ergonet.draws import durable, store
from ergonet.draws.recorder import Chunk, Recorder
from ergonet.draws.retention import Every
from ergonet.draws.store import MemoryStore
from ergonet.inference.progress import Silent
from ergonet.inference.trajectory_jobs import TrajectoryJob
from tests.sampling import draw


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(TrajectoryJob, "_chunk_size", lambda self: 10)


def fail_after(count, number):
    """A function that raises a system's error after some calls, instead of syncing files."""
    calls = []

    def sync(paths):
        calls.append(1)
        if len(calls) > count:
            raise OSError(number, os.strerror(number))

    return sync


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, r"the disk is full\. Free space on it.*What was written before is kept"),
        (errno.EMFILE, r"too many files open\. Raise the limit with `ulimit -n 4096`"),
        (errno.EIO, r"the disk reports an error"),
        (errno.ELOOP, os.strerror(errno.ELOOP)),
    ],
)
def test_a_disk_that_fails_in_the_middle_keeps_what_it_has(small_chunks, monkeypatch, tmp_path, number, said):
    monkeypatch.setattr(store, "sync", fail_after(10, number))
    with pytest.raises(RunDirectoryError, match=rf"Cannot write `{tmp_path / 'run'}`: .*{said}"):
        draw(num_draws=500, store=tmp_path / "run")
    monkeypatch.undo()
    kept, whole = ergonet.load(tmp_path / "run"), draw(num_draws=60)
    assert kept.num_draws >= 20
    np.testing.assert_array_equal(kept.positions[...], whole.positions[:, : kept.num_draws])


def test_a_folder_that_is_removed_while_it_is_written_ends_the_run(small_chunks, tmp_path):
    class Removing(Silent):
        def tick(self, tick):
            if tick.done == 100:
                shutil.rmtree(tmp_path / "run")

    with pytest.raises(RunDirectoryError, match=r"run`: it was removed or renamed meanwhile\. Move it back"):
        draw(num_chains=1, num_draws=500, store=tmp_path / "run", progress=Removing())
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_that_cannot_be_replaced_names_its_file(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EDQUOT, "quota")))
    with pytest.raises(RunDirectoryError, match=r"Cannot write `.*report\.json`: your quota of this disk is used up"):
        durable.write_json(tmp_path / "report.json", {})


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb"])
def test_a_name_with_control_characters_is_refused(tmp_path, name):
    with pytest.raises(RunDirectoryError, match="has a line break or another control character"):
        draw(store=tmp_path / name)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "out.csv"), "Error: `out.csv`: the disk is full."),
        (OSError(errno.EROFS, "Read-only file system", "out.csv"), "Error: `out.csv`: the disk is read-only."),
        (OSError("0 of 512 bytes written"), "Error: 0 of 512 bytes written."),
        (MemoryError("1 GiB"), "Error: There is not enough memory. 1 GiB"),
    ],
)
def test_the_command_says_it_in_one_line(capsys, error, said):
    def command():
        with errors_in_one_line():
            raise error

    with pytest.raises(typer.Exit) as found:
        command()
    assert found.value.exit_code == 1
    err = capsys.readouterr().err
    assert err.startswith(said)
    assert err.count("\n") == 1


@pytest.mark.parametrize("home", ["none", "a file"])
def test_a_cache_that_cannot_be_written_is_said_once(monkeypatch, tmp_path, home):
    (tmp_path / ".cache").write_text("")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    missing = RuntimeError("Could not determine home directory.")
    given = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        monkeypatch.setattr(Path, "home", lambda: tmp_path if home == "a file" else (_ for _ in ()).throw(missing))
        with pytest.warns(UserWarning, match="Compiled programs are not cached: .* set XDG_CACHE_HOME") as said:
            fitting.keep_compiled_programs()
        assert len(said) == 1
        assert jax.config.jax_compilation_cache_dir is None
    finally:
        jax.config.update("jax_compilation_cache_dir", given)


def test_a_chunk_that_could_not_be_stored_leaves_no_curve():
    """Its checkpoint would have a curve with draws that are made again."""

    class Full(MemoryStore):
        def write(self, chain, start, rows):
            raise OSError("full")

    recorder = Recorder(Full(), Every(1), has_curve=True)
    shapes = {"positions": ((1,), np.dtype(np.float32)), "lp": ((), np.dtype(np.float32))}
    recorder.allocate(1, 4, shapes)
    fields = {"positions": np.zeros((1, 2, 1), np.float32), "lp": np.zeros((1, 2), np.float32)}
    with pytest.raises(OSError, match="full"):
        recorder.keep(Chunk((0,), is_warmup=False, start=0, fields=fields))
    assert recorder._statistics == [{}]
