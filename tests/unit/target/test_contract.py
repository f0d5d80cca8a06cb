"""The ground floor: what a trajectory needs, and capabilities that are asked for by type."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from ergonet import HMC, MLP, NUTS, AbstractTarget, BayesianNetwork, GibbsHMC, RandomWalk, Target, likelihoods, priors
from ergonet._errors import CapabilityError
from ergonet.models.streamed_posterior import stream
from ergonet.samplers.base import run_transition
from ergonet.target import capabilities as kinds
from ergonet.target.contract import AbstractDensity, Missing, find, offers, require

X = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
Y = np.sin(X[:, 0])


class Bowl(AbstractDensity):
    """A density and nothing else."""

    scale: jax.Array
    dim: int = eqx.field(static=True, default=3)

    def potential(self, position):
        return 0.5 * jnp.sum((position / self.scale) ** 2)


def network(prior=None):
    return BayesianNetwork(MLP((2, 3, 1)), priors.Normal() if prior is None else prior, likelihoods.Gaussian(0.5))


def density():
    return Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2), jnp.zeros(3))


def terms():
    return Target.from_terms(
        lambda w: -0.5 * jnp.sum(w**2), lambda w, row: -0.5 * (row[1] - row[0] @ w) ** 2, (X, Y), jnp.zeros(2)
    )


def regression(x, y, batch=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", 12, subsample_size=batch) as i:
        numpyro.sample("y", dist.Normal(x[i] @ w, 1.0), obs=y[i])


TARGETS = {
    "density": (density, set()),
    "terms": (terms, {kinds.Rows, kinds.PointwiseLogLikelihood}),
    "program": (lambda: Target.from_numpyro(regression, (X, Y)), {kinds.PointwiseLogLikelihood}),
    "subsampling program": (
        lambda: Target.from_numpyro(regression, (X, Y, 5)),
        {kinds.Rows, kinds.PointwiseLogLikelihood},
    ),
    "network": (
        lambda: network().condition(X, Y),
        {kinds.Rows, kinds.PointwiseLogLikelihood, kinds.Monitor, kinds.Scales},
    ),
    "centered": (
        lambda: network(priors.NormalGamma(parametrization="centered")).condition(X, Y),
        {
            kinds.Rows,
            kinds.PointwiseLogLikelihood,
            kinds.Monitor,
            kinds.Scales,
            kinds.GibbsBlock,
            kinds.WeightCurvature,
            kinds.CenteredCurvature,
        },
    ),
    "non-centered": (
        lambda: network(priors.NormalGamma()).condition(X, Y),
        {kinds.Rows, kinds.PointwiseLogLikelihood, kinds.Monitor, kinds.Scales, kinds.NonCenteredCurvature},
    ),
    "streamed": (lambda: stream(network(), X, Y), {kinds.Rows, kinds.Monitor, kinds.Scales}),
}
KINDS = (
    kinds.Rows,
    kinds.Monitor,
    kinds.PointwiseLogLikelihood,
    kinds.Scales,
    kinds.GibbsBlock,
    kinds.WeightCurvature,
    kinds.CenteredCurvature,
    kinds.NonCenteredCurvature,
)


@pytest.mark.parametrize("name", TARGETS)
def test_what_a_target_offers_is_of_the_type_asked_for_or_missing_with_a_reason(name):
    make, expected = TARGETS[name]
    target = make()
    assert isinstance(target, AbstractTarget)
    for kind in KINDS:
        found = target.capability(kind)
        assert offers(target, kind) == (kind in expected), kind
        if kind in expected:
            assert isinstance(found, kind)
            continue
        assert isinstance(found, Missing)
        assert len(found.reason) > 20
        with pytest.raises(CapabilityError) as complaint:
            require(target, kind, "Kernel")
        assert str(complaint.value).startswith(f"`Kernel` needs {kind.title}: {found.reason}. ".rstrip())


@pytest.mark.parametrize("name", [name for name, (_, expected) in TARGETS.items() if kinds.Rows in expected])
def test_minibatches_of_equal_size_average_to_the_potential(name):
    target = TARGETS[name][0]()
    rows = require(target, kinds.Rows, "test")
    size = 5 if name == "subsampling program" else 4
    data = rows.rows()
    assert rows.num_rows == 12
    parts = [jax.tree.map(lambda leaf, at=at: jnp.asarray(leaf)[at : at + 1], data) for at in range(12)]
    position = 0.5 * target.initial_position(jax.random.key(0))
    found = np.mean([rows.minibatch_potential(position, part) for part in parts])
    whole = TARGETS["network"][0]() if name == "streamed" else target
    np.testing.assert_allclose(found, whole.potential(position), rtol=1e-5)
    some = jax.tree.map(lambda leaf: jnp.asarray(leaf)[:size], data)
    assert abs(rows.minibatch_potential(position, some) - found) > 1e-4  # rows differ


@pytest.mark.parametrize(
    "name", [name for name, (_, expected) in TARGETS.items() if kinds.PointwiseLogLikelihood in expected]
)
def test_log_likelihoods_of_some_rows_are_those_rows(name):
    target = TARGETS[name][0]()
    rows = require(target, kinds.PointwiseLogLikelihood, "test")
    position = 0.5 * target.initial_position(jax.random.key(1))
    every = rows.log_likelihood(position)
    assert every.shape == (rows.num_rows,) == (12,)
    assert np.ptp(every) > 0.01
    for chosen in ([3], [7, 0, 7, 11], range(12)):
        some = rows.log_likelihood(position, jnp.asarray(list(chosen)))
        np.testing.assert_allclose(some, every[jnp.asarray(list(chosen))], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_trajectories_move_on_anything_with_a_potential():
    bowl, position = Bowl(scale=jnp.asarray([1.0, 2.0, 0.5])), jnp.ones(3)
    for kernel in (HMC(num_steps=3, step_size=0.2), NUTS(step_size=0.3, max_doublings=3), RandomWalk(step_size=0.1)):
        state = kernel.init(bowl, position)
        moved, _ = run_transition(kernel, jax.random.key(0), bowl, state, kernel.tuning(bowl, position))
        np.testing.assert_allclose(moved.potential, bowl.potential(moved.position), rtol=1e-6)
        assert not np.array_equal(moved.position, position)


def test_a_density_that_is_no_target_offers_nothing_and_says_so():
    bowl = Bowl(scale=jnp.ones(3))
    assert isinstance(find(bowl, kinds.Rows), Missing)
    with pytest.raises(CapabilityError, match=r"needs Gibbs draws .*: Bowl does not tell weights .*`NUTS\(\)`"):
        GibbsHMC().init(bowl, jnp.zeros(3))
    np.testing.assert_array_equal(kinds.quantities(bowl, jnp.arange(3.0)), [0, 1, 2])


FLOORS = ("target", "models", "hamiltonian", "trajectory", "samplers", "adaptation", "inference")
LOOPS = "ergonet.trajectory.packing"  # a loop of any body: it comes back to whoever called it


def floors_above() -> list[str]:
    """The packages of ergonet on the way from the outermost call to here, without repetitions."""
    frame, names = sys._getframe(1), []
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("ergonet.") and module != LOOPS:
            names.append(module.split(".")[1])
        frame = frame.f_back
    names = [name for name in reversed(names) if name in FLOORS]
    return [name for before, name in zip(["", *names], names, strict=False) if name != before]


@pytest.mark.parametrize(
    ("kernel", "target"),
    [
        (HMC(num_steps=2, step_size=0.1), density),
        (NUTS(step_size=0.1, max_doublings=2), TARGETS["network"][0]),
        (GibbsHMC(NUTS(step_size=0.1, max_doublings=2)), TARGETS["centered"][0]),
    ],
    ids=["hmc", "nuts", "gibbs"],
)
def test_the_way_from_a_transition_down_to_the_gradient_climbs_no_floor_twice(kernel, target, monkeypatch):
    ways, made = [], target()
    original = type(made).potential

    def watched(self, position):
        ways.append(floors_above())
        return original(self, position)

    monkeypatch.setattr(type(made), "potential", watched)
    position = made.initial_position(jax.random.key(0))
    started = kernel.init(made, position), kernel.tuning(made, position)
    ways.clear()
    eqx.filter_eval_shape(lambda started: run_transition(kernel, jax.random.key(0), made, *started), started)
    assert ways
    for way in ways:
        numbers = [FLOORS.index(name) for name in way]
        assert numbers == sorted(numbers, reverse=True), way
    assert any({"samplers", "hamiltonian"} <= set(way) for way in ways)
