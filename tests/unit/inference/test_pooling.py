"""Chains share the length of their trajectories, whatever interrupts them."""

import shutil
import time

import numpy as np
import pytest

import ergonet
from ergonet import HMC, MAMS, NUTS
from ergonet.adaptation.learner import AbstractLearner
from ergonet.adaptation.length import LengthLearner
from ergonet.draws import checkpoint
from ergonet.inference.pooling import SharedLength
from ergonet.inference.progress import Silent
from ergonet.inference.trajectory_jobs import TrajectoryJob
from tests.sampling import draw, place_in_one_batch

SETTINGS = {"num_chains": 3, "num_warmup": 40, "num_draws": 20}
SHARED = 4  # the geometric mean of 2, 4 and 6, rounded
pytestmark = pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")


@pytest.fixture(autouse=True)
def lengths_that_differ(monkeypatch):
    """At the end of the warm-up, as if the chains had learned 2, 4 and 6, and no more were known of them."""
    monkeypatch.setattr(LengthLearner, "shared", AbstractLearner.shared)
    learned = TrajectoryJob.lengths
    assert isinstance(learned, property)

    def lengths(job):
        return learned.__get__(job) if job.done > job.num_warmup else 2 * np.array(job.chains) + 2

    monkeypatch.setattr(TrajectoryJob, "lengths", property(lengths))


@pytest.mark.parametrize("is_batched", [False, True])
def test_chains_go_on_with_the_geometric_mean_of_their_lengths(is_batched, monkeypatch):
    if is_batched:
        place_in_one_batch(monkeypatch)
    kept = TrajectoryJob._kept

    def kept_late(self, tree):
        if self.done == self.num_warmup:
            time.sleep(0.5)  # the loop sees how many transitions the chain has made, but its record is yet to come
        return kept(self, tree)

    monkeypatch.setattr(TrajectoryJob, "_kept", kept_late)
    found = draw(HMC(length_jitter=0.0), **SETTINGS)
    np.testing.assert_array_equal(found.tuning["num_steps"], [SHARED] * 3)
    np.testing.assert_array_equal(found.stats["n_steps"], np.full((3, 20), SHARED))


@pytest.mark.parametrize("kernel", [HMC(), pytest.param(MAMS(), marks=pytest.mark.slow)])
def test_a_run_that_was_killed_while_one_chain_had_gone_on_takes_its_length(kernel, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "LARGEST_SHARE", 1e9)
    monkeypatch.setattr(TrajectoryJob, "_chunk_size", lambda self: 10)
    monkeypatch.setattr(TrajectoryJob, "_most_work", lambda self: 10**9)
    killed = tmp_path / "killed"

    class KillAtFirstDraws(Silent):
        def tick(self, tick):
            if tick.phase == "sampling" and not killed.exists():
                shutil.copytree(tmp_path / "whole", killed)

    (tmp_path / "whole").mkdir()
    whole = draw(kernel, store=tmp_path / "whole" / "run", progress=KillAtFirstDraws(), devices=1, **SETTINGS)
    np.testing.assert_array_equal(whole.tuning["num_steps"], [SHARED] * 3)
    again = draw(kernel, store=killed / "run", resume=True, **SETTINGS)
    np.testing.assert_array_equal(again.positions[...], whole.positions[...])
    np.testing.assert_array_equal(again.tuning["num_steps"], whole.tuning["num_steps"])


def test_other_kernels_do_not_wait(monkeypatch):
    monkeypatch.setattr(SharedLength, "reason", lambda self, jobs, recorder: pytest.fail("it waits"))
    draw(NUTS(max_doublings=5), num_draws=5)
    draw(HMC(num_steps=4), num_draws=5)


def test_a_stop_rule_keeps_its_looks():
    found = draw(HMC(), num_chains=2, num_warmup=40, num_draws=400, until=ergonet.Until(ess=5, minimum=50))
    assert found.num_draws == 50
    np.testing.assert_array_equal(found.tuning["num_steps"], [3, 3])  # of 2 and 4
