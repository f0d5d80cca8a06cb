"""Geweke's joint test: a kernel and the drawing of data, in turn, must leave the prior where it is.

Draw a position from the prior; then, in turn, draw data given the position, and a position given the data by one
transition. Position and data keep their joint distribution if, and only if, the transition leaves every posterior
invariant. Chains start from the prior and are independent, so the spread of their averages is an honest standard
error. Sources: Geweke 2004; Grosse and Duvenaud 2014.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet import MLP, BayesianNetwork, likelihoods, priors
from ergonet.checking.joint import NetworkJoint, draw_all
from ergonet.samplers.base import run_transition

NETWORK = MLP((1, 2, 1))
INPUTS = np.linspace(-1.2, 1.5, 4, dtype=np.float32)[:, None]
NOISE = likelihoods.GammaPrecision(0.5, 8.0)
NUM_CHAINS, NUM_STEPS, NUM_DRAWS = 512, 100, 50_000
MOST_LONGER = 4  # times as many draws from the prior, whose error is small beside that of the chains
# Compiling takes longer than running.
COMPILER = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
OPTIONS: dict[str, Any] = {"compiler_options": COMPILER}


def normal_gamma(group: str, parametrization: str, below: Any = (), alpha: float = 6.0) -> BayesianNetwork:
    """Normal weights with learned precisions, vague enough that they matter, not so vague that moments are lost."""
    prior = priors.NormalGamma(0.8, alpha, group, parametrization, below=below)
    return BayesianNetwork(NETWORK, prior, likelihoods.Gaussian(NOISE))


def by_layer_and_source(parametrization: str) -> BayesianNetwork:
    """Groups that other rows lack: a whole layer, every weight, and the unit that weights come from."""

    def gamma(group: str) -> priors.NormalGamma:
        return priors.NormalGamma(0.8, 6.0, group, parametrization)

    chosen = {"layers.0.*": gamma("layer"), "layers.1.weight": gamma("outgoing"), "*": gamma("weight")}
    return BayesianNetwork(NETWORK, chosen, likelihoods.Gaussian(NOISE))


def three_levels(parametrization: str) -> BayesianNetwork:
    below = [priors.Level("incoming", 8.0), priors.Level("weight", 8.0)]
    return normal_gamma("leaf", parametrization, below, alpha=8.0)


def horseshoe(kind: Callable[..., priors.AbstractPrior], parametrization: str) -> BayesianNetwork:
    return BayesianNetwork(NETWORK, kind(0.3, "incoming", parametrization), likelihoods.Gaussian(NOISE))


MODELS: dict[str, Callable[[str], BayesianNetwork]] = {
    "leaf": lambda way: normal_gamma("leaf", way),
    "ard": lambda way: normal_gamma("incoming", way),
    "layer and source": by_layer_and_source,
    "three levels": three_levels,
    "box": lambda way: BayesianNetwork(NETWORK, priors.Uniform(-1.5, 1.5), likelihoods.Gaussian(NOISE)),
    "horseshoe": lambda way: horseshoe(priors.Horseshoe, way),
    "regularized horseshoe": lambda way: horseshoe(priors.RegularizedHorseshoe, way),
}
HEAVY = ("horseshoe", "regularized horseshoe")  # their weights have no moments


@dataclass(frozen=True)
class Result:
    """What the joint test found.

    Attributes:
        scores: z of every quantity's mean, and of its square.
        acceptance: mean statistic.
        moved: share of transitions that changed the position.
    """

    scores: np.ndarray
    acceptance: float
    moved: float

    @property
    def worst(self) -> float:
        return float(np.max(np.abs(self.scores)))


def quantities(joint: NetworkJoint, data: Any, position: Any, *, is_heavy: bool) -> Any:
    """What `NetworkJoint` compares, without densities, and its squares.

    Weights and residuals are shrunk into (-1, 1) where they have no moments.
    """
    found = joint.quantities(data, position)
    shrunk = {"residuals", *joint.posterior.model.network.leaves()} if is_heavy else set()
    seen = {name: value.reshape(-1) for name, value in found.items() if name not in ("log prior", "log likelihood")}
    values = [value / (1 + jnp.abs(value)) if name in shrunk else value for name, value in seen.items()]
    return jnp.concatenate([*values, *(value**2 for value in values)])


@cache
def exact_moments(name: str, longer: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Means of the quantities under the prior and their variances, from independent draws, `longer` times as many."""
    model = MODELS[name]("non-centered")
    joint = NetworkJoint.of(model.condition(INPUTS, np.zeros((len(INPUTS), 1), np.float32)))

    def draw(key):
        position, data = draw_all(joint, key)
        return quantities(joint, data, position, is_heavy=name in HEAVY)

    keys = jax.random.split(jax.random.key(1000), longer * NUM_DRAWS)
    draws = np.asarray(jax.jit(jax.vmap(draw), compiler_options=COMPILER)(keys), np.float64)
    return draws.mean(axis=0), draws.var(axis=0) / len(draws)


# Positions drawn from the prior, by a program of its own, which the kernels share.
starts: Any = eqx.filter_jit(lambda joint, keys: jax.vmap(joint.draw)(keys), **OPTIONS)


def run(name: str, parametrization: str, kernel: Any, *, seed: int = 0, longer: int = 1) -> Result:
    """The joint test of a kernel with fixed step sizes.

    Args:
        name: of the prior.
        parametrization: `centered` or `non-centered`.
        kernel: with its step size and length.
        seed: of everything but the draws from the prior.
        longer: times as many chains.
    """
    model = MODELS[name](parametrization)
    joint = NetworkJoint.of(model.condition(INPUTS, np.zeros((len(INPUTS), 1), np.float32)))
    tuning = kernel.tuning(joint.posterior, jnp.zeros(joint.posterior.dim))

    def chains(joint, kernel, tuning, positions, keys):
        def step(position, key):
            first, second = jax.random.split(key)
            data = joint.simulate(first, position)
            given = joint.given(data)
            info: Any
            state, info = run_transition(kernel, second, given, kernel.init(given, position), tuning)
            seen = quantities(joint, data, state.position, is_heavy=name in HEAVY)
            return state.position, (seen, info.acceptance, info.moved)

        def chain(position, key):
            _, found = jax.lax.scan(step, position, jax.random.split(key, NUM_STEPS))
            return jax.tree.map(lambda one: jnp.mean(one, axis=0), found)

        return jax.vmap(chain)(positions, keys)

    pairs = jax.vmap(jax.vmap(jax.random.split))(jax.random.split(jax.random.key(seed), (longer, NUM_CHAINS)))
    program: Any = eqx.filter_jit(chains, **OPTIONS)  # the same for kernels that differ in numbers only
    parts = [program(joint, kernel, tuning, starts(joint, pair[:, 0]), pair[:, 1]) for pair in pairs]
    means, acceptance, moved = jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)
    exact, exact_error = exact_moments(name, min(longer, MOST_LONGER))
    ours = np.asarray(means, np.float64)
    scores = (ours.mean(axis=0) - exact) / np.sqrt(ours.var(axis=0) / len(ours) + exact_error)
    return Result(scores=scores, acceptance=float(acceptance.mean()), moved=float(moved.mean()))
