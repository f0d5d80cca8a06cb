"""A folder has one writer, and is replaced by what is complete, from what Ergonet wrote."""

import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
import zarr

from ergonet import Samples, load
from ergonet._errors import RunDirectoryError
from ergonet.draws.replacement import Claim, Content, whereabouts
from ergonet.draws.store import STORE, ZarrStore

ANYTHING = Content(lambda folder: None, "say so")
WHICH = Content(lambda folder: None if (folder / "which").exists() else folder, "say so")


def record(value=1.0, positions=None):
    shape = 2, 3
    return Samples(
        positions=np.full((*shape, 4), value, np.float32) if positions is None else positions,
        stats={"lp": np.zeros(shape), "gradients": np.ones(shape, int)},
        warmup_stats={"lp": np.zeros((2, 5))},
        seconds={},
        gradients={},
        tuning={"step_size": np.ones(2), "metric/scale": np.ones((2, 4))},
        about={},
        curve={"lp": np.zeros((2, 8))},
    )


def value_of(path):
    return float(np.unique(load(path).positions[...]).item())


def files(folder):
    return {str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


HOLD = """
import sys
from pathlib import Path
from ergonet.draws.replacement import Claim, Content
claim = Claim(Path(sys.argv[1]), Content(lambda folder: None, ""), overwrite=True)
claim.folder.mkdir()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path):
    """Another process, which has claimed `run` and waits."""
    command = [sys.executable, "-c", HOLD, tmp_path / "run"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_folder_has_one_writer(writer, tmp_path):
    path = tmp_path / "run"
    for write in (lambda: ZarrStore(path), lambda: ZarrStore(path, overwrite=True), lambda: record().save(path)):
        with pytest.raises(RunDirectoryError, match=rf"run` is being written by process {writer.pid} on .* since 20"):
            write()
    writer.communicate("")  # it ends, and tidies up
    assert list(tmp_path.iterdir()) == []
    record().save(path)
    assert value_of(path) == 1


def test_the_lock_of_a_killed_process_is_free(writer, tmp_path):
    writer.kill()
    writer.wait()
    assert (tmp_path / ".run.ergonet" / "owner.json").exists()
    record().save(tmp_path / "run")
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


def test_one_process_has_one_writer_too(tmp_path):
    store = ZarrStore(tmp_path / "run")
    with pytest.raises(RunDirectoryError, match=f"by this process {os.getpid()}"):
        record().save(tmp_path / "run")
    store.close()
    with pytest.raises(RunDirectoryError, match="Make another one"):
        store.allocate(1, 1, {"positions": ((1,), np.dtype(np.float32))})
    record().save(tmp_path / "run")


def owned_elsewhere(folder, host):
    folder.mkdir()
    owner = {"pid": 7, "host": host, "since": "2026-01-01T00:00:00+00:00"}
    (folder / "owner.json").write_text(json.dumps(owner))


def test_a_lock_of_another_machine_is_named_with_what_to_do(tmp_path):
    beside = tmp_path / ".run.ergonet"
    owned_elsewhere(beside, "far")
    for _ in range(2):
        with pytest.raises(RunDirectoryError, match=r"process 7 on far since 2026.*delete `.*owner.json`"):
            ZarrStore(tmp_path / "run")
    (beside / "owner.json").unlink()
    record().save(tmp_path / "run")
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


def test_on_a_file_system_without_locks_every_owner_may_be_alive(tmp_path, monkeypatch):
    def unsupported(descriptor, operation):
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    record().save(tmp_path / "run")
    owned_elsewhere(tmp_path / ".run.ergonet", os.uname().nodename)
    with pytest.raises(RunDirectoryError, match="cannot be seen from here"):
        record().save(tmp_path / "run", overwrite=True)


def test_a_lock_that_is_freed_while_it_is_taken_is_taken_once(tmp_path, monkeypatch):
    """The owner removes its file after another process has opened that, whose lock would then guard nothing."""
    first, lock = Claim(tmp_path / "run", ANYTHING, overwrite=True), fcntl.flock

    def release_before(descriptor, operation):
        first.close()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", release_before)
    second = Claim(tmp_path / "run", ANYTHING, overwrite=True)
    with pytest.raises(RunDirectoryError, match="is being written"):
        Claim(tmp_path / "run", ANYTHING, overwrite=True)
    second.close()


KILLED = """
import os, signal, sys
from contextlib import closing
from pathlib import Path
from ergonet.draws.replacement import Claim, Content

place, last = Path(sys.argv[1]), int(sys.argv[2])
remaining = last

def count(event, arguments):
    global remaining
    if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"):
        remaining -= 1
        if remaining < 0:
            os.kill(os.getpid(), signal.SIGKILL)

def mine(folder):
    return next((one for one in folder.iterdir() if one.name != "which"), None)

sys.addaudithook(count)
with closing(Claim(place, Content(mine, ""), overwrite=True)) as claim:
    claim.folder.mkdir()
    (claim.folder / "which").write_text("new")
    claim.take()
"""


@pytest.mark.parametrize("before", ["old", None])
def test_a_kill_at_any_point_leaves_the_old_or_the_new(tmp_path, before):
    """The process is killed before its first, second, ... change of the file system."""
    seen, code, steps = set(), None, 0
    while code != 0:
        folder = tmp_path / str(steps)
        folder.mkdir()
        place = folder / "run"
        if before:
            place.mkdir()
            (place / "which").write_text(before)
        code = subprocess.run([sys.executable, "-c", KILLED, place, str(steps)], check=False).returncode
        assert code in (0, -signal.SIGKILL)
        if place.exists():
            wanted = (place / "which").read_text()
        else:
            assert (str(folder / ".run.ergonet" / "previous") in whereabouts(place)) == (before is not None)
            wanted = before and "new"  # between the two renamings, or before the only one
        Claim(place, WHICH, overwrite=True).close()
        assert wanted == ((place / "which").read_text() if place.exists() else None)
        assert [one.name for one in folder.iterdir()] == (["run"] if place.exists() else [])
        seen.add(wanted)
        steps += 1
    assert seen == {before, "new"}
    assert 5 < steps < 20


FOREIGN = {
    "photos/cat.jpg": lambda run: write(run / "photos" / "cat.jpg"),
    "notes.txt": lambda run: write(run / "notes.txt"),
    "positions/notes.txt": lambda run: write(run / "positions" / "notes.txt"),
    "positions/c/0/notes": lambda run: write(run / "positions" / "c" / "0" / "notes"),
    "photos": lambda run: zarr.open_group(run, mode="r+").create_group("photos"),
    "warmup/notes.txt": lambda run: write(run / "warmup" / "notes.txt"),
    "ages": lambda run: zarr.open_group(run, mode="r+").create_array("ages", data=np.ones(9)),
    "link": lambda run: (run / "link").symlink_to(run.parent),
}


def write(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("hours of work")


@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_foreign_file_in_a_run_is_named_and_kept(tmp_path, foreign):
    record().save(tmp_path / "run")
    FOREIGN[foreign](tmp_path / "run")
    before = files(tmp_path)
    for overwrite in (lambda path: ZarrStore(path, overwrite=True), lambda path: record(2).save(path, overwrite=True)):
        with pytest.raises(RunDirectoryError, match=f"run/{foreign}` was not written by Ergonet"):
            overwrite(tmp_path / "run")
    assert files(tmp_path) == before


@pytest.mark.parametrize("name", ["thesis.txt", "manifest.json", "zarr.json"])
def test_a_folder_that_is_no_run_is_not_replaced(tmp_path, name):
    write(tmp_path / "mine" / name)
    with pytest.raises(RunDirectoryError, match=f"mine/{name}` was not written by Ergonet"):
        record().save(tmp_path / "mine", overwrite=True)
    with pytest.raises(RunDirectoryError, match=f"{name}` was not written by Ergonet"):
        record().save(tmp_path / "mine" / name, overwrite=True)
    assert files(tmp_path) == {f"mine/{name}": b"hours of work"}


def test_siblings_are_not_touched(tmp_path):
    path = tmp_path / "run"
    record().save(path)
    shutil.copytree(path, tmp_path / ".run.previous")
    write(tmp_path / "run.new")
    before = files(tmp_path / ".run.previous")
    record(2).save(path, overwrite=True)
    assert value_of(path) == 2
    assert files(tmp_path / ".run.previous") == before
    assert sorted(one.name for one in tmp_path.iterdir()) == [".run.previous", "run", "run.new"]


def test_a_save_that_fails_leaves_the_old_run(tmp_path):
    class Damaged(np.ndarray):
        def __getitem__(self, index):
            if index == 1:
                raise OSError(errno.EIO, "damaged")
            return np.asarray(self)[index]

    record().save(tmp_path / "run")
    with pytest.raises(OSError, match="damaged"):
        record(positions=np.zeros((2, 3, 4), np.float32).view(Damaged)).save(tmp_path / "run", overwrite=True)
    assert value_of(tmp_path / "run") == 1
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


def test_a_store_takes_its_place_once_every_chain_has_a_draw(tmp_path):
    path, draws = tmp_path / "run", {"positions": np.full((1, 4), 2, np.float32)}
    record().save(path)
    store = ZarrStore(path, overwrite=True)
    store.allocate(2, 3, {"positions": ((4,), np.dtype(np.float32))})
    store.write(0, 0, draws)
    assert value_of(path) == 1
    store.write(1, 0, draws)
    assert value_of(path) == 2
    for chain in (0, 1):
        store.write(chain, 1, draws)
    store.close()
    assert load(path).num_draws == 2
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


def test_without_draws_nothing_is_left(tmp_path):
    store = ZarrStore(tmp_path / "new" / "deep" / "run")
    store.allocate(2, 3, {"positions": ((4,), np.dtype(np.float32))})
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_arrives_while_a_run_is_replaced_is_kept(tmp_path):
    path = tmp_path / "run"
    record().save(path)
    with closing(Claim(path, STORE, overwrite=True)) as claim:
        record(2).save(claim.folder)
        write(path / "predictions.csv")
        with pytest.warns(UserWarning, match=r"`predictions\.csv` was put in .*run.*previous"):
            claim.take()
    assert value_of(path) == 2
    kept = tmp_path / ".run.ergonet" / "previous"
    assert (kept / "predictions.csv").read_text() == "hours of work"
    with pytest.raises(RunDirectoryError, match=r"was kept, because.*ergonet/previous"):
        record(3).save(path, overwrite=True)
    kept.rename(tmp_path / "kept")
    record(3).save(path, overwrite=True)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["kept", "run"]


def test_a_place_that_another_program_takes_is_left_to_it(tmp_path):
    with closing(Claim(tmp_path / "run", ANYTHING, overwrite=False)) as claim:
        claim.folder.mkdir()
        write(tmp_path / "run" / "thesis.txt")
        with pytest.raises(RunDirectoryError, match="created by another program"):
            claim.take()
    assert files(tmp_path) == {"run/thesis.txt": b"hours of work"}
