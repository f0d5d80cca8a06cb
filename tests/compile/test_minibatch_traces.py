"""A minibatch run compiles each of its programs once: for all chains, chunks, phases, seeds and data of one shape."""

import gc
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import (
    MLP,
    SGHMC,
    SGLD,
    SGNUTS,
    BayesianNetwork,
    NaiveSGHMC,
    Target,
    likelihoods,
    priors,
    schedules,
    stream,
)
from ergonet.baselines import SGD, Adam
from ergonet.inference import minibatch_jobs
from tests.ledger import Ledger
from tests.minibatches import run

pytestmark = pytest.mark.slow  # the whole file

KERNELS = {
    "sgld": lambda **more: SGLD(learning_rate=0.01, schedule=schedules.Polynomial(), batch_size=4, **more),
    "sghmc": lambda **more: SGHMC(learning_rate=0.01, noise="estimated", resample_every=9, batch_size=4, **more),
    "sghmc, searched": lambda **more: SGHMC(momentum_decay=0.1, batch_size=4, **more),
    "sghmc, cyclical": lambda **more: SGHMC(
        learning_rate=0.01, schedule=schedules.Cyclical(period=30), batch_size=4, **more
    ),
    "naive": lambda **more: NaiveSGHMC(learning_rate=0.001, num_steps=3, metropolis=True, batch_size=4, **more),
    "sg-nuts": lambda **more: SGNUTS(learning_rate=0.01, max_doublings=3, batch_size=4, **more),
}
MODEL = BayesianNetwork(MLP((2, 3, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=0.5))


class CountingRows(eqx.Module):
    """A log likelihood that counts its Python calls, each of them a trace."""

    scale: jax.Array
    calls: list = eqx.field(static=True)

    def __call__(self, q, rows):
        self.calls.append(1)
        return -0.5 * jnp.sum((q - rows) ** 2, axis=1) / self.scale


def prior(q):
    return -0.5 * jnp.sum(q**2)


def target(calls, seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(30, 3)).astype(np.float32)
    scale = jnp.asarray(rng.uniform(1, 2), jnp.float32)
    return Target.from_terms(prior, CountingRows(scale, calls), rows, jnp.zeros(3))


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_compilation_for_a_whole_run_and_none_for_the_next(monkeypatch, kernel):
    monkeypatch.setattr(minibatch_jobs, "CHUNK_SECONDS", 1e-3)
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **named: compiled.append(named.get("fun_name")) if "backend_compile" in event else None
    )
    calls = Ledger()
    make = KERNELS[kernel]
    run(target(calls, 0), make(), num_chains=2, num_warmup=3, num_draws=40)
    first = len(calls)
    assert 0 < first < 60
    names = [name for name in compiled if name and "advance" in name]
    assert len(names) <= 1, names

    compiled.clear()
    run(target(calls, 1), make(), num_chains=3, num_warmup=5, num_draws=60, seed=8)
    assert len(calls) == first
    assert not [name for name in compiled if name and "advance" in name], compiled


def test_another_streamed_table_compiles_nothing_and_the_first_is_not_kept():
    def streamed(rows, seed):
        rng = np.random.default_rng(seed)
        return stream(MODEL, rng.normal(size=(rows, 2)).astype(np.float32), rng.normal(size=rows))

    def used(posterior):
        samples = run(posterior, SGLD(learning_rate=0.001, batch_size=4), num_chains=1, num_draws=6, num_warmup=2)
        for quantities in (samples.monitor, samples.scales, samples.parameters):
            quantities()

    programs, compiled = {f"jit({name})" for name in ("start_position", "first_record", "advance", "_monitor")}, []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **named: compiled.append(named.get("fun_name")) if "backend_compile" in event else None
    )
    first = streamed(30, 0)
    kept = weakref.ref(first.rows()[0])
    used(first)
    assert programs <= set(compiled)
    del first
    gc.collect()
    assert kept() is None
    compiled.clear()
    used(streamed(30, 1))
    assert not programs & set(compiled)


@pytest.mark.parametrize("make", [SGLD, SGHMC, SGNUTS, Adam, SGD])
def test_another_learning_rate_compiles_nothing(make):
    calls = Ledger()
    one = run(target(calls, 0), make(learning_rate=0.01, batch_size=4), num_draws=4)
    first = len(calls)
    other = run(target(calls, 0), make(learning_rate=0.02, batch_size=4), num_draws=4)
    assert 0 < len(calls) == first
    assert np.all(one.positions != other.positions)
