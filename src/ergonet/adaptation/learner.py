"""The contract of a learner: it learns one field of `Tuning` during a warm-up.

A learner keeps a *memory*, a pytree of arrays in the record of its chain. Before each transition it may `propose` a
tuning, after each transition it may `observe` the result, and at the end of a stage it may `finish` by applying what it
has learned. It is active in the stages of a warm-up that name it (`stages.py`); `machine.py` makes the calls. A new
learner is one file with one class, and one entry in a stage of a recipe.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from ergonet._types import Flag, PRNGKey
from ergonet.samplers.base import AbstractInfo, AbstractKernel, State, Tuning
from ergonet.target.contract import AbstractDensity


class Transition(eqx.Module):
    """One transition as a learner sees it.

    Attributes:
        target: the target.
        before: the state before the transition.
        after: the state after the transition.
        info: diagnostics of the transition.
    """

    target: AbstractDensity
    before: State
    after: State
    info: AbstractInfo


class Ending(eqx.Module):
    """The end of a stage as a learner sees it.

    Attributes:
        kernel: the kernel whose tuning is learned.
        target: the target.
        state: state of the chain.
        key: PRNG key that no transition uses.
        active: whether the stage names the learner.
        active_next: whether the next stage names the learner.
        rescaled: whether the stage names a learner that `rescales`; also True for the search before all transitions.
    """

    kernel: AbstractKernel
    target: AbstractDensity
    state: State
    key: PRNGKey
    active: Flag
    active_next: Flag
    rescaled: Flag


class AbstractLearner(eqx.Module):
    """Learns one field of `Tuning`.

    Numeric and Boolean settings are arguments of the compiled programs, so that they may differ between stages.

    Attributes:
        learns: name of the field.
        fewest_transitions: smallest number of transitions of a stage that names the learner.
        is_cheap: whether `observe` costs less than a branch that skips it; it then runs in every stage, and its result
            is used only in stages that name the learner.
        rescales: whether finishing a stage invalidates what other learners have learned. Such a stage must be followed
            by stages that name the other learners.
    """

    learns: ClassVar[str]
    fewest_transitions: ClassVar[int] = 1
    is_cheap: ClassVar[bool] = False
    rescales: ClassVar[bool] = False

    @property
    def aim(self) -> float | None:
        """The target acceptance, in (0, 1); None for learners without one."""
        return None

    @abc.abstractmethod
    def init(self, target: AbstractDensity, state: State, tuning: Tuning) -> Any:
        """The memory before any transition."""

    def propose(self, memory: Any, tuning: Tuning) -> Tuning:
        """The tuning for the next transition; called only in stages that name the learner."""
        return tuning

    @abc.abstractmethod
    def observe(self, memory: Any, tuning: Tuning, transition: Transition) -> tuple[Any, Tuning]:
        """Memory and tuning after a transition with `tuning`; called only in stages that name the learner."""

    def finish(self, memory: Any, tuning: Tuning, ending: Ending) -> tuple[Any, Tuning]:
        """Memory and tuning after a stage; called at the end of every stage, whether or not the learner was active."""
        return memory, tuning

    def shared(self, memory: Any, learned: np.ndarray) -> float:
        """The value with which all chains go on, if they share what they have learned, as they do a length.

        Args:
            memory: the memories of the chains at the end of the warm-up; leaves are `[chain, ...]`.
            learned: what each chain has learned by itself, `[chain]`.

        Returns:
            By default their geometric mean.
        """
        return float(np.exp(np.mean(np.log(learned))))

    def report(self, memory: Any) -> dict[str, Any]:
        """Arrays by name for `Samples.tuning`, after the run."""
        return {}
