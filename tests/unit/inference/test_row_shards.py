"""Rows divided over devices: the same density, and in fixed order the same bits on any number of devices."""

import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import Future

import jax
import numpy as np
import pytest

import ergonet
from ergonet import HMC, SGLD
from ergonet._errors import CapabilityError, SettingError
from ergonet.execution.base import AbstractExecutor
from ergonet.inference.devices import place
from ergonet.inference.trajectory_jobs import TrajectoryJob
from ergonet.target.capabilities import Divisible
from ergonet.target.contract import require
from ergonet.target.shards import RowShards
from tests.minibatches import network
from tests.sampling import gaussian_target
from tests.unit.execution.test_executors import Packing

FOUR_DEVICES = """
import json, sys, zlib
import jax
jax.config.update("jax_num_cpu_devices", 4)
import numpy as np
import ergonet
from ergonet.target.shards import RowShards

x = np.random.default_rng(0).normal(size=(100, 3))
model = ergonet.BayesianNetwork(ergonet.MLP((3, 4, 1)), ergonet.priors.Normal(1.0), ergonet.likelihoods.Gaussian(0.5))
posterior, kernel = model.condition(x, x[:, 0]), ergonet.HMC(num_steps=4, step_size=0.05)

def run(devices):
    found = ergonet.sample(
        posterior, kernel, num_chains=1, num_warmup=0, num_draws=20, seed=1, devices=devices, progress=False
    )
    return np.asarray(found.positions)

plain = run(None)
fixed = [run(RowShards(count)) for count in (1, 2, 4)]
some = run(RowShards(4, order="any"))
json.dump({
    "fixed": [zlib.crc32(one) for one in fixed],
    "difference": [float(np.abs(one - plain).max()) for one in (fixed[0], some)],
    "spread": float(plain.std()),
}, sys.stdout)
"""


@pytest.mark.parametrize("settings", [{}, {"order": "any"}, {"num_parts": 3}])
def test_divided_rows_have_the_same_density(settings):
    posterior = network()
    divided = require(posterior, Divisible, "it").divided(RowShards(1, **settings))
    position = posterior.initial_position(jax.random.key(0))
    for one, other in (
        (posterior, divided),
        *[[t.relative_to(t.reference_point(position)) for t in (posterior, divided)]],
    ):
        found, expected = (jax.jit(jax.value_and_grad(target.potential))(1.1 * position) for target in (other, one))
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        divided.reference_point(position).potential, posterior.reference_point(position).potential, rtol=1e-6
    )


@pytest.mark.slow
def test_draws_are_the_same_on_one_two_and_four_devices():
    flags = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    done = subprocess.run(
        [sys.executable, "-c", FOUR_DEVICES], capture_output=True, text=True, check=False, env=os.environ | flags
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(set(found["fixed"])) == 1
    assert max(found["difference"]) < 1e-3 * found["spread"]


class Together(AbstractExecutor):
    """Makes calls in this process, and notes that one is made, as if others made it, too."""

    is_in_unison = True
    is_making = False

    @property
    def num_workers(self):
        return 1

    def in_unison(self, processes):
        assert processes == {0}
        return self

    def submit(self, fn, /, *args, **kwargs):
        done: Future = Future()
        self.is_making = True
        done.set_result(fn(*pickle.loads(pickle.dumps(args)), **kwargs))
        self.is_making = False
        return done


@pytest.mark.slow
def test_programs_of_divided_rows_run_in_unison_and_draw_the_same(monkeypatch):
    """A program that one process runs alone would wait for the others for ever."""
    chosen = {"num_chains": 2, "num_warmup": 10, "num_draws": 5, "seed": 1, "progress": False}
    chosen |= {"warm_start": {"name": "adam+mclmc", "most_epochs": 2, "num_transitions": 5}}
    alone = ergonet.sample(network(), HMC(num_steps=2), devices=RowShards(1), **chosen)
    together, calls = Together(), []
    for name in ("_finish", "advance"):
        plain = getattr(TrajectoryJob, name)

        def noted(*arguments, plain=plain):
            calls.append(together.is_making)
            return plain(*arguments)

        monkeypatch.setattr(TrajectoryJob, name, noted)
    found = ergonet.sample(network(), HMC(num_steps=2), devices=RowShards(1), executor=together, **chosen)
    assert calls
    assert all(calls)
    np.testing.assert_array_equal(found.positions, alone.positions)


def test_rows_are_not_divided_over_workers_that_take_calls_in_turn():
    with pytest.raises(SettingError, match=r"or over those of `executor=ergonet\.distributed\.initialize\(\)`"):
        ergonet.sample(network(), devices=RowShards(1), executor=Packing(), seed=0, progress=False)


def test_chains_of_divided_rows_advance_one_after_the_other():
    placed = place(RowShards(1), 3)
    assert placed.num_workers == 1
    assert placed.groups == ((0,), (1,), (2,))
    assert placed.rounding == "8 parts in fixed order"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"devices": 99}, "`devices=99`, but JAX sees"),
        ({"devices": 0}, "`devices` must be None, an integer"),
        ({"devices": []}, "`devices` must contain at least one"),
        ({"order": "random"}, "`order` must be one of 'fixed', 'any', got 'random'"),
        ({"num_parts": 0}, "`num_parts` must be an integer"),
    ],
)
def test_what_cannot_divide_rows_says_so(settings, said):
    with pytest.raises(SettingError, match=said):
        RowShards(**settings)


def test_a_kernel_of_minibatches_and_a_target_without_rows_are_rejected():
    chosen = {"num_warmup": 0, "num_draws": 1, "num_chains": 1, "seed": 0, "progress": False, "devices": RowShards(1)}
    with pytest.raises(SettingError, match="`SGLD` takes minibatches"):
        ergonet.sample(network(), SGLD(batch_size=5, learning_rate=1e-4), **chosen)
    with pytest.raises(CapabilityError, match="`RowShards` needs rows that can be divided"):
        ergonet.sample(gaussian_target(), ergonet.NUTS(max_doublings=5), **chosen)
