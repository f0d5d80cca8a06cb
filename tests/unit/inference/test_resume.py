"""A run that was killed or stopped goes on as if nothing had happened, bit for bit."""

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ergonet
from ergonet import SGHMC, Target
from ergonet._errors import RunDirectoryError, SamplingWarning, SettingError, TimeLimitError
from ergonet.draws import checkpoint
from ergonet.draws.checkpoint import CHECKPOINT, OLDER, Pace
from ergonet.draws.retention import Last
from ergonet.draws.store import ZarrStore
from ergonet.inference.minibatch_jobs import MinibatchJob
from ergonet.inference.progress import Silent
from ergonet.inference.trajectory_jobs import TrajectoryJob
from ergonet.samplers.registry import KERNELS
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel
from tests.minibatches import linear_regression
from tests.sampling import draw, place_in_one_batch

NAME = "run"


@pytest.fixture(autouse=True)
def checkpoints_after_every_chunk(monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "LARGEST_SHARE", 1e9)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(TrajectoryJob, "_chunk_size", lambda self: 7)


class Kills(Silent):
    """At some ticks, copies everything that is on the disk, as a kill at that moment would leave it."""

    def __init__(self, folder: Path, copies: Path, every: int):
        self.folder, self.copies, self.every, self.ticks = folder, copies, every, 0

    def tick(self, tick):
        self.ticks += 1
        if self.ticks % self.every == 0:
            shutil.copytree(self.folder, self.copies / f"{self.ticks:03d} {tick.phase}")


def killed_runs(tmp_path, run, every):
    """The uninterrupted run, and folders with what kills at many moments would have left."""
    (tmp_path / "whole").mkdir()
    whole = run(store=tmp_path / "whole" / NAME, progress=Kills(tmp_path / "whole", tmp_path / "killed", every))
    return whole, sorted((tmp_path / "killed").iterdir())


def assert_same_run(one, other):
    np.testing.assert_array_equal(one.positions[...], other.positions[...])
    for group in ("stats", "warmup_stats", "tuning", "curve"):
        mine, theirs = getattr(one, group) or {}, getattr(other, group) or {}
        assert mine.keys() == theirs.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name], err_msg=f"{group} {name}")
    assert one.gradients == other.gradients
    assert one.about == other.about


def assert_resumes(tmp_path, run, *, every=3):
    """Resumed at every moment, the run and what is stored of it are the uninterrupted ones."""
    whole, folders = killed_runs(tmp_path, run, every)
    phases = {folder.name.partition(" ")[2] for folder in folders}
    assert phases == {"warm-up", "sampling"}
    for folder in folders:
        resumed = run(store=folder / NAME, resume=True)
        assert_same_run(resumed, whole)
        stored = ergonet.load(folder / NAME)
        np.testing.assert_array_equal(stored.positions[...], whole.positions[...])
        np.testing.assert_array_equal(stored.stats["lp"], whole.stats["lp"])
        assert [one.name for one in folder.iterdir()] == [NAME]


def minibatch_run(**settings: Any):
    target, _, _ = linear_regression()
    chosen = {"num_chains": 2, "num_warmup": 20, "num_draws": 30, "seed": 3, "progress": False, "devices": 1}
    kernel = SGHMC(learning_rate=1e-3, batch_size=8)
    return ergonet.sample(target, kernel, **(chosen | settings))


def test_a_killed_run_goes_on_bit_for_bit(tmp_path):
    assert_resumes(tmp_path, draw, every=5)


def test_a_killed_minibatch_run_goes_on_bit_for_bit(tmp_path, monkeypatch):
    size = MinibatchJob._chunk_size
    monkeypatch.setattr(MinibatchJob, "_chunk_size", lambda self: min(7, size(self)))
    assert_resumes(tmp_path, minibatch_run, every=9)
