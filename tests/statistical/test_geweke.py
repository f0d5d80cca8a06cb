"""Geweke's joint test: every prior with every update of hyperparameters, and every kernel with one prior.

|z| < 4 for some 32 quantities in each of 32 rows, about one row in a hundred beyond; such a row is run again with
another seed and four times as many chains, which has to pass. Step sizes are fixed, for an acceptance near 0.7.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import pytest

from ergonet import (
    HMC,
    MALA,
    MAMS,
    NUTS,
    XHMC,
    DelayedRejectionHMC,
    DynamicalA,
    DynamicalB,
    GibbsHMC,
    RandomWalk,
    WindowedHMC,
)
from ergonet.models import precision
from ergonet.models.prior import normal_gamma
from ergonet.samplers.base import AbstractKernel
from tests.statistical import geweke

pytestmark = pytest.mark.statistical


def static(step_size, num_steps=5):
    return HMC(num_steps=num_steps, step_size=step_size, metric="identity")


def delayed(step_size):
    return DelayedRejectionHMC(num_steps=5, step_size=step_size, metric="identity")


def windowed(step_size):
    return WindowedHMC(2, num_steps=5, step_size=step_size, metric="identity")


def tree(step_size, kind: Any = NUTS, doublings=4):
    return kind(max_doublings=doublings, step_size=step_size, metric="identity")


def gibbs(update, step_sizes="adapted"):
    return GibbsHMC(update, step_sizes=step_sizes)


ROWS = {
    "leaf, gibbs": ("leaf", "centered", gibbs(static(0.22))),
    "leaf, joint centered": ("leaf", "centered", static(0.18)),
    "leaf, joint": ("leaf", "non-centered", static(0.2)),
    "leaf, A": ("leaf", "centered", DynamicalA(5, step_size=0.9, hyperparameter_splits=2)),
    "leaf, B": ("leaf", "non-centered", DynamicalB(5, step_size=0.8, hyperparameter_ratio=0.7)),
    "ard, gibbs": ("ard", "centered", gibbs(static(0.22))),
    "ard, joint centered": ("ard", "centered", static(0.18)),
    "ard, joint": ("ard", "non-centered", static(0.2)),
    "ard, A": ("ard", "centered", DynamicalA(5, step_size=0.7)),
    "ard, B": ("ard", "non-centered", DynamicalB(5, step_size=0.8)),
    "three levels, gibbs": ("three levels", "centered", gibbs(static(0.18))),
    "three levels, joint centered": ("three levels", "centered", static(0.17)),
    "three levels, joint": ("three levels", "non-centered", static(0.15)),
    "three levels, gibbs, curvature": ("three levels", "centered", gibbs(static(0.9), "curvature")),
    "layer and source, gibbs": ("layer and source", "centered", gibbs(static(0.22))),
    "layer and source, joint": ("layer and source", "non-centered", static(0.2)),
    "box, gibbs": ("box", "centered", gibbs(static(0.38))),
    "horseshoe, joint centered": ("horseshoe", "centered", static(0.02, 8)),
    "horseshoe, joint": ("horseshoe", "non-centered", static(0.13)),
    "regularized horseshoe, joint centered": ("regularized horseshoe", "centered", static(0.02, 8)),
    "regularized horseshoe, joint": ("regularized horseshoe", "non-centered", static(0.2)),
    "nuts": ("leaf", "non-centered", tree(0.2)),
    "xhmc": ("leaf", "non-centered", tree(0.2, XHMC)),
    "delayed rejection": ("leaf", "non-centered", delayed(0.2)),
    "windowed": ("leaf", "non-centered", windowed(0.2)),
    "mams": ("leaf", "non-centered", MAMS(num_steps=4, step_size=0.6, metric="identity")),
    "mala": ("leaf", "non-centered", MALA(step_size=0.25, metric="identity")),
    "random walk": ("leaf", "non-centered", RandomWalk(step_size=0.1, metric="identity")),
    "gibbs, nuts, adapted": ("leaf", "centered", gibbs(tree(0.22))),
    "gibbs, xhmc, adapted": ("leaf", "centered", gibbs(tree(0.22, XHMC))),
    "gibbs, nuts, curvature": ("leaf", "centered", gibbs(tree(1.0), "curvature")),
    "gibbs, hmc, curvature": ("leaf", "centered", gibbs(static(1.0), "curvature")),
    "gibbs, windowed, adapted": ("leaf", "centered", gibbs(windowed(0.22))),
    "gibbs, windowed, curvature": ("leaf", "centered", gibbs(windowed(1.0), "curvature")),
}


LOW = {  # a fault that only rejections show is seen here
    "gibbs": ("leaf", "centered", gibbs(static(0.32))),
    "joint": ("leaf", "non-centered", static(0.3)),
    "A": ("leaf", "centered", DynamicalA(5, step_size=1.1)),
    "B": ("leaf", "non-centered", DynamicalB(5, step_size=1.1)),
    "nuts": ("leaf", "non-centered", tree(0.35)),
    "delayed rejection": ("leaf", "non-centered", delayed(0.3)),
    "windowed": ("leaf", "non-centered", windowed(0.3)),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_prior_is_invariant(row):
    result = geweke.run(*ROWS[row])
    assert 0.55 < result.acceptance < 0.88
    assert result.moved > 0.5
    assert worst(ROWS[row], result) < 4


@pytest.mark.parametrize("row", LOW)
def test_the_prior_is_invariant_at_low_acceptance(row):
    result = geweke.run(*LOW[row])
    assert 0.1 < result.acceptance < 0.5
    assert worst(LOW[row], result) < 4


def worst(row, result):
    """The largest |z|, of a longer run if it is 4 or more."""
    return result.worst if result.worst < 4 else geweke.run(*row, seed=1, longer=4).worst


class StepByStep(GibbsHMC):
    """Runs by single steps, in which the faults are planted."""

    def complete(self, target, trajectory, tuning):
        return AbstractKernel.complete(self, target, trajectory, tuning)


class StaleGradient(StepByStep):
    """The planted fault: the first kick has the gradient from before the Gibbs step."""

    def advance(self, target, trajectory, tuning):
        before: Any = trajectory.update
        new: Any = super().advance(target, trajectory, tuning)
        gradient = jnp.where(trajectory.fresh, before.phase.gradient, new.update.phase.gradient)
        return eqx.tree_at(lambda one: one.update.phase.gradient, new, gradient)


class StaleState(StepByStep):
    """The planted fault: neither potential nor gradient are evaluated again after the Gibbs step."""

    def begin(self, key, target, state, tuning):
        trajectory = super().begin(key, target, state, tuning)
        return eqx.tree_at(lambda one: one.fresh, trajectory, jnp.zeros((), bool))


STALE: dict[str, Any] = {  # kernel, update, step sizes, times as many chains
    "state": (StaleState, static(0.22), "adapted", 1),
    "gradient": (StaleGradient, static(1.0, 2), "curvature", 12),
}


@pytest.mark.parametrize("fault", STALE)
def test_stale_values_after_a_gibbs_step_are_caught(fault):
    """A stale gradient alone takes more chains: given the weights, precisions before and after are exchangeable."""
    kind, update, step_sizes, longer = STALE[fault]
    assert geweke.run("leaf", "centered", kind(update, step_sizes=step_sizes), longer=longer).worst > 5


GIBBS = precision.gibbs_log_precision
WRONG = {
    "shape": lambda key, mean, alpha, count, squares: GIBBS(key, mean, alpha, 2 * count, squares),
    "rate": lambda key, mean, alpha, count, squares: GIBBS(key, mean, alpha, count, 2 * squares),
    "scale for rate": lambda key, mean, alpha, count, squares: (
        GIBBS(key, mean, alpha, count, squares) + 2 * jnp.log(alpha / 2 * jnp.exp(-jnp.asarray(mean)) + squares / 2)
    ),
}


@pytest.mark.parametrize("module", [precision, normal_gamma], ids=["noise", "weights"])
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_conditional_is_caught(fault, module, monkeypatch):
    monkeypatch.setattr(module, "gibbs_log_precision", WRONG[fault])
    assert geweke.run("leaf", "centered", gibbs(static(0.22))).worst > 6


@pytest.mark.parametrize("module", [precision, normal_gamma], ids=["noise", "weights"])
def test_a_missing_jacobian_is_caught(module, monkeypatch):
    right = precision.log_precision_density
    monkeypatch.setattr(module, "log_precision_density", lambda value, *others: right(value, *others) - value)
    assert geweke.run("leaf", "non-centered", static(0.2)).worst > 6
