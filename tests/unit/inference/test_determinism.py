"""A chain's draws depend on its seed and number, and on nothing else."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from ergonet import HMC, NUTS
from ergonet.inference.progress import Silent
from ergonet.inference.trajectory_jobs import TrajectoryJob
from tests.sampling import SCALES, draw, place_in_one_batch
from tests.stages import cases, slow

KERNELS = {"nuts": lambda: NUTS(max_doublings=5), "hmc": lambda: HMC(step_jitter=0.1)}
STATISTICS = {"lp", "energy", "acceptance_rate", "step_size", "n_steps", "diverging", "moved"}
STATISTICS |= {"energy_error", "max_energy_error", "gradients", "nonfinite"}


def assert_same(first, second, chains=slice(None)):
    np.testing.assert_array_equal(first.positions[chains], second.positions[chains])
    assert (
        set(first.stats)
        == set(second.stats)
        == STATISTICS | ({"tree_depth"} if first.about["kernel"] == "NUTS" else set())
    )
    for name in first.stats:
        np.testing.assert_array_equal(first.stats[name][chains], second.stats[name][chains], err_msg=name)
        np.testing.assert_array_equal(first.warmup_stats[name][chains], second.warmup_stats[name][chains], err_msg=name)
    for name, values in first.tuning.items():
        np.testing.assert_array_equal(values[chains], second.tuning[name][chains], err_msg=name)


@pytest.mark.parametrize("kernel", KERNELS)
def test_from_run_to_run(kernel):
    assert_same(draw(KERNELS[kernel](), num_chains=3), draw(KERNELS[kernel](), num_chains=3))


@pytest.mark.parametrize("kernel", [NUTS(max_doublings=5), HMC(num_steps=4, step_jitter=0.1)], ids=["nuts", "hmc"])
def test_for_any_number_of_chains(kernel):
    """Chains that learn a length share it, so theirs is given here."""
    whole = draw(kernel, num_chains=4)
    for num_chains in (1, 2):
        assert_same(draw(kernel, num_chains=num_chains), whole, slice(num_chains))
    assert len(np.unique(np.asarray(whole.positions)[:, 0, 0])) == 4


def test_for_any_number_of_workers():
    assert_same(draw(num_chains=3, devices=1), draw(num_chains=3, devices=2))


@pytest.mark.parametrize("kernel", cases(KERNELS, quick=["nuts"]))
def test_for_any_size_of_chunk(monkeypatch, kernel):
    usual = draw(KERNELS[kernel]())
    for size in (1, 7, 1000):
        monkeypatch.setattr(TrajectoryJob, "_chunk_size", lambda self, size=size: size)
        assert_same(usual, draw(KERNELS[kernel]()))


@pytest.mark.parametrize("kernel", cases(KERNELS, quick=["nuts"]))
def test_thinning_keeps_every_third_draw_and_adds_up_its_costs(kernel):
    every, third = draw(KERNELS[kernel](), num_draws=30), draw(KERNELS[kernel](), num_draws=10, thin=3)
    np.testing.assert_array_equal(third.positions, every.positions[:, 2::3])
    for name in ("lp", "energy", "acceptance_rate"):
        np.testing.assert_array_equal(third.stats[name], every.stats[name][:, 2::3])
    for name in ("gradients", "n_steps"):
        np.testing.assert_array_equal(third.stats[name], every.stats[name].reshape(2, 10, 3).sum(axis=2))
    if "tree_depth" in third.stats:
        deepest = every.stats["tree_depth"].reshape(2, 10, 3).max(axis=2)
        np.testing.assert_array_equal(third.stats["tree_depth"], deepest)
    np.testing.assert_array_equal(third.stats["moved"], every.stats["moved"].reshape(2, 10, 3).any(axis=2))


class Ticks(Silent):
    """Keeps the reports of every chunk."""

    def __init__(self):
        self.seen = []

    def tick(self, tick):
        self.seen.append(tick)


@pytest.mark.parametrize("is_batched", cases([False, True], quick=[False]))
def test_a_chunk_may_end_within_a_draw(monkeypatch, is_batched):
    if is_batched:
        place_in_one_batch(monkeypatch)
    usual, ticks = draw(num_draws=10, thin=25), Ticks()
    monkeypatch.setattr(TrajectoryJob, "_chunk_size", lambda self: 10)
    assert_same(usual, draw(num_draws=10, thin=25, progress=ticks))
    within = {(tick.done - 40) % 25 for tick in ticks.seen if tick.phase == "sampling"}
    assert {0, 5, 10, 15, 20} <= within


def test_a_chunk_ends_when_its_work_is_done(monkeypatch):
    """The next tree may be a thousand times larger than the last, so transitions alone say little about time."""
    usual, ticks = draw(num_chains=1), Ticks()
    monkeypatch.setattr(TrajectoryJob, "_chunk_size", lambda self: 1000)
    monkeypatch.setattr(TrajectoryJob, "_most_work", lambda self: 50)
    assert_same(usual, draw(num_chains=1, progress=ticks))
    work = np.diff([0, *(tick.done + tick.gradients for tick in ticks.seen)])
    assert work.max() < 50 + 2**5  # the last tree is completed
    assert 4 < len(work) < 70


def test_other_seeds_are_other_draws():
    seeds = (5, 6, 5 + 2**32, 2**63 - 1)
    firsts = {float(draw(seed=seed, num_chains=1).positions[0, -1, 0]) for seed in seeds}
    assert len(firsts) == len(seeds)


TWO_DEVICES = """
    import sys
    import jax
    jax.config.update("jax_num_cpu_devices", 2)
    import numpy as np
    from tests.sampling import draw
    assert len(jax.devices()) == 2
    spread = draw(num_chains=3, devices=jax.devices())
    np.savez(sys.argv[1], positions=spread.positions, energy=spread.stats["energy"])
"""


@pytest.mark.slow
def test_on_two_devices_of_jax(tmp_path):
    root = Path(__file__).parents[3]
    file = tmp_path / "draws.npz"
    program = [sys.executable, "-c", textwrap.dedent(TWO_DEVICES), str(file)]
    environment = os.environ | {"PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"}
    subprocess.run(program, cwd=root, env=environment, check=True)
    spread, usual = np.load(file), draw(num_chains=3)
    np.testing.assert_array_equal(spread["positions"], usual.positions)
    np.testing.assert_array_equal(spread["energy"], usual.stats["energy"])


@pytest.mark.parametrize("thin", [slow(1), 3])
@pytest.mark.parametrize("name", cases(KERNELS, quick=["nuts"]))
def test_a_batch_of_chains_draws_what_single_chains_draw(monkeypatch, name, thin):
    kernel = {"nuts": NUTS(max_doublings=5, step_size=0.4), "hmc": HMC(step_size=0.4, num_steps=5)}[name]
    single = draw(kernel, num_chains=3, num_warmup=0, num_draws=8, thin=thin)
    place_in_one_batch(monkeypatch)
    batch = draw(kernel, num_chains=3, num_warmup=0, num_draws=8, thin=thin)
    np.testing.assert_allclose(batch.positions, single.positions, rtol=0, atol=1e-4)
    for statistic in single.stats:
        np.testing.assert_allclose(batch.stats[statistic], single.stats[statistic], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(batch.stats["gradients"], single.stats["gradients"])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_batch_of_chains_tunes_as_single_chains_do(monkeypatch, kernel):
    single = draw(KERNELS[kernel](), num_chains=4, num_warmup=300, num_draws=300)
    place_in_one_batch(monkeypatch)
    batch = draw(KERNELS[kernel](), num_chains=4, num_warmup=300, num_draws=300)
    assert batch.warmup_stats["energy"].shape == single.warmup_stats["energy"].shape == (4, 300)
    assert batch.tuning["step_size"].shape == (4,)
    ratio = batch.tuning["inverse_mass_matrix"].mean(axis=0) / SCALES**2
    assert np.all((ratio > 0.5) & (ratio < 2))
    for samples in (batch, single):
        spread = np.asarray(samples.positions).std(axis=(0, 1)) / SCALES
        assert np.all(np.abs(spread - 1) < 0.25), spread
        assert 0.6 < samples.stats["acceptance_rate"].mean() < 0.97
