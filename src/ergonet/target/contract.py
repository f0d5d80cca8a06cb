"""The contract between models and sampling: densities for trajectories, targets for runs.

Sampling (hamiltonian, trajectory, samplers, adaptation, inference) depends on this package and on nothing else of the
models. A trajectory needs only an `AbstractDensity`. A run needs an `AbstractTarget`. Anything beyond that is a
*capability*, an object requested by its type, such as `target.capability(Rows)`; if a target does not have it, the
result is a `Missing` record that says why. Targets are pytrees: their data are array leaves that are passed as
arguments, so new data of the same shape never recompile anything.
"""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import equinox as eqx

from ergonet import _notebook
from ergonet._errors import CapabilityError
from ergonet._types import Position, PRNGKey, Scalar


class AbstractDensity(eqx.Module):
    """A density on R^dim, given by its potential: all that a trajectory needs.

    Attributes:
        dim: number of coordinates of a position, at least 1.
    """

    dim: eqx.AbstractVar[int]

    @abc.abstractmethod
    def potential(self, position: Position) -> Scalar:
        """U(q) = -log density, up to a constant; JAX differentiates it."""


class Capability(eqx.Module):
    """Something that only some targets can do; each subclass is one such capability.

    Attributes:
        title: name of the capability in messages.
        absent: predicate that follows the target's name in the message for a target without it.
        otherwise: what to do without it, as a sentence; may be empty.
    """

    title: ClassVar[str]
    absent: ClassVar[str]
    otherwise: ClassVar[str] = ""


CapabilityT = TypeVar("CapabilityT", bound=Capability)


@dataclass(frozen=True)
class Missing:
    """A capability that a target does not have.

    Attributes:
        reason: why, in words, without a final period.
    """

    reason: str


class ReferencePoint(eqx.Module):
    """The potential at a reference position, which is subtracted from potentials; see `AbstractTarget.relative_to`.

    Attributes:
        potential: the potential there; it is added back to the values stored with draws.
        parts: the same value by summand, in a form that the target defines.
    """

    potential: Scalar
    parts: Any = None


class AbstractTarget(AbstractDensity):
    """What is sampled: a density at temperature 1, the map to named parameters, and capabilities.

    Potentials are *sums* over rows, not means.
    """

    def __repr__(self) -> str:
        return _notebook.line(self, self._facts())

    def _repr_html_(self) -> str:
        return _notebook.table(self, self._facts())

    def _facts(self) -> dict[str, object]:
        """What a reader wants to know first."""
        return {"dim": self.dim}

    @abc.abstractmethod
    def unravel(self, position: Position) -> Any:
        """Named parameters (a pytree of arrays) of a flat position."""

    @abc.abstractmethod
    def initial_position(self, key: PRNGKey) -> Position:
        """A random place to start a chain from."""

    @abc.abstractmethod
    def reference_point(self, position: Position) -> ReferencePoint:
        """What `relative_to` leaves out: the potential at a position by summand; 0 where it is no sum."""

    @abc.abstractmethod
    def relative_to(self, reference: ReferencePoint) -> "AbstractTarget":
        """The same density, with `reference.potential` subtracted from its potential summand by summand.

        A sum over many rows or weights is large, and float32 resolves it only to 1e-7 of its size, whereas the
        difference from a reference point nearby is small. The rounding of each row's log likelihood remains.
        """

    def device_part(self) -> "AbstractTarget":
        """What compiled programs take: all but data that stay on the host.

        A compiled program keeps its non-array arguments alive, and is compiled again for others.
        """
        return self

    @abc.abstractmethod
    def explain(self, position: Position) -> str:
        """Which part of the density is not finite at `position`, in words; for error messages."""

    @abc.abstractmethod
    def capability(self, kind: type[CapabilityT]) -> CapabilityT | Missing:
        """The capability of that type, or why there is none."""


def own_capability(target: AbstractTarget, kind: type[CapabilityT]) -> CapabilityT | Missing:
    """The target itself if it is of that type; `Missing` otherwise."""
    return target if isinstance(target, kind) else Missing(f"{type(target).__name__} {kind.absent}")


def find(density: AbstractDensity, kind: type[CapabilityT]) -> CapabilityT | Missing:
    """The capability of a density that may be a target, or why there is none."""
    if isinstance(density, AbstractTarget):
        return density.capability(kind)
    return Missing(f"{type(density).__name__} {kind.absent}")


def offers(density: AbstractDensity, kind: type[Capability]) -> bool:
    """Whether there is a capability of that type."""
    return not isinstance(find(density, kind), Missing)


def require(density: AbstractDensity, kind: type[CapabilityT], owner: str) -> CapabilityT:
    """The capability of that type.

    Args:
        density: what is sampled.
        kind: the type of the capability.
        owner: name of the kernel or function that needs it, such as `GibbsHMC`, for the message.

    Raises:
        CapabilityError: the target does not have it; says what needs it, why it is missing, and what to do.
    """
    found = find(density, kind)
    if isinstance(found, Missing):
        raise CapabilityError(f"`{owner}` needs {kind.title}: {found.reason}. {kind.otherwise}".rstrip())
    return found
