"""What `begin` draws has the distribution that the laws of trajectories take for granted.

Laws of trajectories are given offset, order, direction and level; here the kernels draw them. Uniforms and normals by
Kolmogorov and Smirnov, choices by a chi-squared test; each p-value above 1e-5, some 40 of them.
"""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ergonet import HMC, MALA, NUTS, XHMC, DelayedRejectionHMC, DynamicalA, DynamicalB, RandomWalk, WindowedHMC
from tests.laws.joint import COMPILER, PROBLEMS
from tests.stages import cases, slow

NUM_KEYS, LEVEL = 40_000, 1e-5
MANY = 200_000  # a level u^0.97 shows
STATIC: dict[str, Any] = {"num_steps": 6, "step_size": 0.3, "metric": "identity"}
TREE: dict[str, Any] = {"max_doublings": 5, "step_size": 0.3, "metric": "identity"}
KERNELS: dict[str, tuple[Any, str]] = {
    "hmc": (HMC(**STATIC, length_jitter=0.5, step_jitter=0.25), "bananas"),
    "hmc, random direction": (HMC(**STATIC, direction="random"), "bananas"),
    "delayed rejection": (DelayedRejectionHMC(**STATIC), "bananas"),
    "windowed": (WindowedHMC(3, **STATIC), "bananas"),
    "windowed, all states": (WindowedHMC(7, **STATIC, length_jitter=0.0), "bananas"),
    "mala": (MALA(step_size=0.3, metric="identity"), "bananas"),
    "random walk": (RandomWalk(step_size=0.3, metric="identity"), "bananas"),
    "nuts": (NUTS(**TREE), "bananas"),
    "nuts, slice": (NUTS(**TREE, selection="slice"), "bananas"),
    "xhmc, slice": (XHMC(0.2, **TREE, selection="slice"), "bananas"),
    "dynamical A": (DynamicalA(4, step_size=0.3), "centered"),
    "dynamical B": (DynamicalB(4, step_size=0.3), "non-centered"),
}


def is_uniform(values) -> bool:
    return stats.kstest(np.asarray(values, np.float64), "uniform").pvalue > LEVEL


def is_normal(values) -> bool:
    return stats.kstest(np.asarray(values, np.float64).ravel(), "norm").pvalue > LEVEL


def is_fair(values, choices: int) -> bool:
    counts = np.bincount(np.asarray(values).astype(int).ravel(), minlength=choices)
    return len(counts) == choices and stats.chisquare(counts).pvalue > LEVEL


@cache
def begun(name: str, count: int = NUM_KEYS) -> Any:
    """The kernel, and so many trajectories from one state that have not moved yet."""
    kernel, problem = KERNELS[name]
    target = PROBLEMS[problem]().target
    position = jnp.full(target.dim, 0.3)
    state, tuning = kernel.init(target, position), kernel.tuning(target, position)
    keys = jax.random.split(jax.random.key(12), count)
    draw_all = jax.jit(jax.vmap(lambda key: kernel.begin(key, target, state, tuning)), compiler_options=COMPILER)
    return kernel, draw_all(keys)


ONE_VARIATE = [name for name in KERNELS if "nuts" not in name and "xhmc" not in name]


@pytest.mark.parametrize("name", cases(ONE_VARIATE, quick=["hmc", "windowed"]))
def test_the_acceptance_variate_is_uniform(name):
    _, drawn = begun(name)
    assert is_uniform(drawn.uniform)


@pytest.mark.parametrize(
    "name", cases(["hmc", "delayed rejection", "mala", "dynamical A", "dynamical B"], quick=["hmc"])
)
def test_a_momentum_is_standard_normal_and_independent_of_the_acceptance_variate(name):
    _, drawn = begun(name)
    momentum = np.asarray(drawn.start.momentum)
    assert is_normal(momentum)
    assert np.max(np.abs(np.corrcoef(momentum.T, drawn.uniform)[-1, :-1])) < 5 / np.sqrt(NUM_KEYS)


@pytest.mark.parametrize("name", ["windowed", slow("windowed, all states")])
def test_the_start_has_every_place_in_its_window_equally_often(name):
    kernel, drawn = begun(name)
    assert is_fair(drawn.offset, kernel.window)
    assert np.all(drawn.num_steps >= kernel.window - 1)
    assert abs(np.corrcoef(drawn.offset, drawn.uniform)[0, 1]) < 5 / np.sqrt(NUM_KEYS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dynamical A", "dynamical B"])
def test_both_blocks_go_first_equally_often(name):
    _, drawn = begun(name)
    assert is_fair(drawn.hyperparameters_first, 2)
    assert abs(np.corrcoef(drawn.hyperparameters_first, drawn.uniform)[0, 1]) < 5 / np.sqrt(NUM_KEYS)


def test_both_directions_are_equally_frequent():
    _, drawn = begun("hmc, random direction")
    assert is_fair(drawn.step_size < 0, 2)


@pytest.mark.parametrize("name", [slow("nuts"), "nuts, slice", slow("xhmc, slice")])
def test_every_doubling_goes_forward_and_backward_equally_often(name):
    kernel, drawn = begun(name)
    bits = (np.asarray(drawn.directions)[:, None] >> np.arange(kernel.max_doublings)) & 1
    assert all(is_fair(bits[:, number], 2) for number in range(kernel.max_doublings))
    assert np.max(np.abs(np.corrcoef(bits.T) - np.eye(kernel.max_doublings))) < 5 / np.sqrt(NUM_KEYS)


@pytest.mark.parametrize("name", ["nuts, slice", slow("xhmc, slice")])
def test_the_level_of_a_slice_is_uniform_under_the_density(name):
    _, drawn = begun(name, MANY)
    assert is_uniform(np.exp(np.asarray(drawn.threshold)))
