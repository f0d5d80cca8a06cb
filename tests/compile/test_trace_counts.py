"""Each program compiles once for a whole run, and never again for the same shapes.

Python calls of the log density are traces; JAX's own log tells which programs it compiled.
"""

import logging
import re
from collections import Counter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import HMC, MLP, NUTS, BayesianNetwork, Target, likelihoods, priors
from ergonet.assembly import temperature
from ergonet.assembly.settings import RunSettings
from ergonet.inference.warm_start import adam_then_mclmc
from tests.ledger import Ledger
from tests.sampling import place_in_one_batch
from tests.stages import cases

PROGRAMS = ("drawn_start", "evaluate", "start_chain", "advance_chain", "finish_stage")
KERNELS = {
    "nuts": lambda: NUTS(max_doublings=4),
    "hmc": HMC,
    "hmc, nothing to tune": lambda: HMC(num_steps=3, step_size=0.2, metric="identity"),
}


class Counting(eqx.Module):
    """A density that counts its Python calls."""

    scale: jax.Array
    calls: list = eqx.field(static=True)

    def __call__(self, q):
        self.calls.append(1)
        return -0.5 * jnp.sum((q / self.scale) ** 2)


def run(target, kernel, *, seed=1, num_chains=2, num_warmup=60, num_draws=50, thin=1, init=None, warm_start=None):
    return ergonet.sample(
        target,
        kernel,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_draws=num_draws,
        thin=thin,
        seed=seed,
        init=init,
        warm_start=warm_start,
        progress=False,
    )


@pytest.fixture
def compiled(caplog):
    """How often each program of a run, or of JAX, has compiled since the last call."""

    def count(*, of_all=False):
        found = [re.match(r"Compiling (?:jit\()?(\w+)", record.getMessage()) for record in caplog.records]
        caplog.clear()
        return Counter(one[1] for one in found if one and (one[1] in PROGRAMS or of_all))

    jax.config.update("jax_log_compiles", True)
    try:
        with caplog.at_level(logging.WARNING, logger="jax"):
            yield count
    finally:
        jax.config.update("jax_log_compiles", False)


@pytest.mark.parametrize("kernel", cases(KERNELS, quick=["nuts"]))
def test_one_compilation_for_a_whole_run_and_none_for_the_next(compiled, kernel):
    calls = Ledger()
    target = Target.from_logdensity(Counting(jnp.arange(1.0, 8.0), calls), jnp.zeros(7))
    run(target, KERNELS[kernel]())
    assert compiled() == dict.fromkeys(PROGRAMS, 1)
    traces = len(calls)
    assert 0 < traces < 40

    run(target, KERNELS[kernel](), seed=2, num_chains=3, num_draws=70, num_warmup=90, thin=2)
    other_data = Target.from_logdensity(Counting(jnp.linspace(0.3, 0.9, 7), calls), jnp.ones(7))
    run(other_data, KERNELS[kernel]())
    assert compiled() == {}
    assert len(calls) == traces


def test_what_does_not_run_is_not_compiled(compiled):
    """The end of a stage, where there is no warm-up and no step size to search."""
    target = Target.from_logdensity(Counting(jnp.arange(1.0, 4.0), Ledger()), jnp.zeros(3))
    run(target, HMC(num_steps=3, step_size=0.2, metric="identity"), num_warmup=0)
    assert compiled() == {"drawn_start": 1, "evaluate": 1, "start_chain": 1, "advance_chain": 1}


@pytest.mark.slow
@pytest.mark.parametrize(("warm_start", "units"), [(None, 5), ("adam", 6)])
def test_nothing_is_computed_by_programs_of_its_own(compiled, warm_start, units):
    """As by `jnp` outside compiled programs, or by `np.mean` of an array of JAX: each takes tens of milliseconds."""
    model = BayesianNetwork(MLP((3, units, 2)), priors.Normal(1.0), likelihoods.Categorical())
    target = model.condition(np.ones((30, 3)), np.arange(30) % 2)
    jax.clear_caches()
    compiled()
    run(target, HMC(), warm_start=warm_start)
    more = {} if warm_start is None else {"begin_chain": 1, "train": 1}
    found = compiled(of_all=True)
    assert found.pop("integer_pow", 1) == 1  # of the inverse mass matrix, at the end
    assert found == dict.fromkeys(PROGRAMS, 1) | more


def test_chains_of_a_batch_compile_once(compiled, monkeypatch):
    place_in_one_batch(monkeypatch)
    target = Target.from_logdensity(Counting(jnp.arange(1.0, 7.0), Ledger()), jnp.zeros(6))
    run(target, KERNELS["nuts"]())
    assert compiled() == dict.fromkeys(PROGRAMS, 1) | {"evaluate": 2}  # also for one chain, at its start
    run(target, KERNELS["nuts"](), seed=3)
    assert compiled() == {}


def test_new_data_of_the_same_shape_compile_nothing_for_a_network(compiled):
    model = BayesianNetwork(MLP((3, 4, 2)), priors.Normal(1.0), likelihoods.Categorical())
    rng = np.random.default_rng(0)

    def posterior():
        return model.condition(rng.normal(size=(30, 3)), rng.integers(0, 2, size=30))

    run(posterior(), NUTS(max_doublings=4))
    assert compiled() == dict.fromkeys(PROGRAMS, 1)
    run(posterior(), NUTS(max_doublings=4))
    same = BayesianNetwork(MLP((3, 4, 2)), priors.Normal(1.0), likelihoods.Categorical())
    run(same.condition(rng.normal(size=(30, 3)), rng.integers(0, 2, size=30)), NUTS(max_doublings=4))
    assert compiled() == {}


@pytest.mark.slow
def test_a_chain_of_one_draw_compiles_for_the_parts_of_cross_validation(compiled):
    model = BayesianNetwork(MLP((3, 4, 2)), priors.Normal(1.0), likelihoods.Categorical())
    x = np.random.default_rng(0).normal(size=(30, 3))
    settings = RunSettings(num_warmup=60, num_draws=50, seed=0, warm_start="adam+mclmc")

    def compiled_by(lengths):
        target = model.condition(x, (x[:, 0] > 0).astype(int))
        chain = temperature._Chain(HMC(metric="diagonal"), lengths)
        temperature._sampled(target, chain, seed=0, time_limit=None)
        return compiled(of_all=True)

    assert set(compiled_by(temperature._shortest(settings))) >= set(PROGRAMS)
    assert compiled_by(temperature._short(settings)) == {}


@pytest.mark.slow
def test_posteriors_of_about_as_many_rows_compile_nothing():
    """Nor do their predictions, learned scales and log likelihoods: of all programs of JAX none is new."""
    model = BayesianNetwork(MLP((3, 4, 1)), priors.Normal(1.0), likelihoods.Gaussian())
    rng = np.random.default_rng(0)

    def fit(rows, new_rows):
        x = rng.normal(size=(rows, 3))
        target = model.condition(x, x[:, 0])
        warm_start = adam_then_mclmc(most_epochs=2, num_transitions=4)
        init = warm_start.run(target, num_chains=2, seed=1)
        samples = run(target, HMC(num_steps=3, step_size=1e-3), num_warmup=0, num_draws=4, init=init)
        samples.diagnostics()
        ergonet.predict(samples, x[:new_rows], y=x[:new_rows, 0])
        assert samples.log_likelihood().shape == (2, 4, rows)

    programs = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **named: programs.append(named.get("fun_name")) if "backend_compile" in event else None
    )
    fit(1000, 33)
    assert programs
    programs.clear()
    fit(1001, 40)
    assert not programs
