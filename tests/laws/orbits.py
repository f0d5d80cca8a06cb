"""Small densities in JAX and by hand in NumPy, and every criterion in the library's and the reference's form."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ergonet import AbstractTarget, Target
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import AbstractMetric, DenseMetric, DiagonalMetric, IdentityMetric
from ergonet.hamiltonian.phase import phase_at
from ergonet.trajectory.criterion import AbstractCriterion, Exhaustive, Generalized, Original
from ergonet.trajectory.doubling import Doubling
from tests.laws import reference_nuts
from tests.laws.enumeration import orbit

PRECISION = np.array([[1.5, -0.9], [-0.9, 2.0]])
FACTOR = np.array([[1.1, 0.0], [0.5, 0.7]])
WALL = 1.2


def quartic(q):
    return -0.25 * jnp.sum(q**4) + 0.3 * jnp.sum(q)


def gaussian(q):
    return -0.5 * q @ jnp.asarray(PRECISION) @ q


def banana_with_a_wall(q):
    """Diverges beyond the wall."""
    density = -0.5 * q[0] ** 2 - 2.0 * (q[1] - q[0] ** 2) ** 2
    return jnp.where(q[0] > WALL, -jnp.inf, density)


def banana_potential(q):
    return np.inf if q[0] > WALL else 0.5 * q[0] ** 2 + 2.0 * (q[1] - q[0] ** 2) ** 2


def banana_gradient(q):
    off = q[1] - q[0] ** 2
    return np.array([q[0] - 8.0 * q[0] * off, 4.0 * off])


METRICS: dict[str, Callable[[], AbstractMetric]] = {
    "identity": IdentityMetric,
    "diagonal": lambda: DiagonalMetric(scale=jnp.array([0.7, 1.3])),
    "dense": lambda: DenseMetric(factor=jnp.asarray(FACTOR)),
}
INVERSE_MASS = {"identity": np.eye(2), "diagonal": np.diag([0.49, 1.69]), "dense": FACTOR @ FACTOR.T}


@dataclass(frozen=True)
class Case:
    """A density, its potential and gradient by hand, and a start."""

    logdensity: Callable
    potential: Callable
    gradient: Callable
    metric_name: str
    step_size: float
    position: tuple[float, ...]
    momentum: tuple[float, ...]  # standardized

    @property
    def metric(self) -> AbstractMetric:
        return METRICS[self.metric_name]()

    @property
    def inverse_mass(self) -> np.ndarray:
        dim = len(self.position)
        return INVERSE_MASS[self.metric_name][:dim, :dim]

    @property
    def target(self) -> AbstractTarget:
        return Target.from_logdensity(self.logdensity, jnp.zeros(len(self.position)))

    def orbit(self, doubling: Doubling, reach: int):
        """The states of the orbit through the start, as far as they are on this side of the wall."""
        target, integrator = self.target, doubling.integrator
        assert isinstance(integrator, Composition)
        start = phase_at(target, jnp.asarray(self.position, float), jnp.asarray(self.momentum, float))
        states = orbit(target, integrator, start, reach, step_size=self.step_size, metric=self.metric)
        finite = np.isfinite(np.asarray(states.potential))
        low = 0 if finite[: reach + 1].all() else reach - np.argmin(finite[reach::-1]) + 1
        high = len(finite) if finite[reach:].all() else reach + np.argmin(finite[reach:])
        return jax.tree.map(lambda leaf: leaf[low:high], states)

    def reference(self, criterion: Callable[[np.ndarray], reference_nuts.Criterion]) -> reference_nuts.Reference:
        return reference_nuts.Reference(self.potential, self.gradient, self.step_size, criterion(self.inverse_mass))


GAUSSIAN = (gaussian, lambda q: 0.5 * q @ PRECISION @ q, lambda q: PRECISION @ q)
BANANA = (banana_with_a_wall, banana_potential, banana_gradient)
QUARTIC = (quartic, lambda q: float(np.sum(0.25 * q**4 - 0.3 * q)), lambda q: q**3 - 0.3)
CASES = {
    "quartic": Case(*QUARTIC, "identity", 0.23, (0.4,), (1.1,)),
    "gaussian": Case(*GAUSSIAN, "dense", 0.31, (0.5, -1.0), (0.8, 0.3)),
    "gaussian, long steps": Case(*GAUSSIAN, "diagonal", 0.9, (0.5, -1.0), (0.8, 0.3)),
    "banana": Case(*BANANA, "diagonal", 0.12, (0.3, -0.2), (2.1, 0.9)),
}

DELTA = 0.2
CRITERIA: dict[str, AbstractCriterion] = {
    "original": Original(),
    "generalized": Generalized(),
    "exhaustive": Exhaustive(DELTA),
}
REFERENCES: dict[str, Callable[[np.ndarray], reference_nuts.Criterion]] = {
    "original": reference_nuts.Original,
    "generalized": reference_nuts.Generalized,
    "exhaustive": lambda inverse_mass: reference_nuts.Exhaustive(inverse_mass, delta=DELTA),
}
