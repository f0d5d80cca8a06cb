"""What the data determine about a likelihood, and what a likelihood determines about the data."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpyro.distributions import constraints

from ergonet._errors import SettingError
from ergonet.models.likelihood import AbstractLikelihood
from ergonet.models.likelihoods.distribution import AbstractDistribution
from ergonet.models.likelihoods.ordinal import Ordinal
from ergonet.models.registry import LIKELIHOODS

Scaling = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
COUNT, OF_COUNTS = "count", "negative-binomial"


def name_of(choice: Any) -> str | None:
    """The name in a choice of a likelihood; None for an object or a table without one."""
    name = choice.get("name") if isinstance(choice, Mapping) else choice
    return name if isinstance(name, str) else None


def task_of(choice: Any) -> str | None:
    """The task that a likelihood chosen by name is for; None if there is no name, or an unknown one."""
    name = name_of(choice)
    return LIKELIHOODS.entry(name).tags[0] if name in LIKELIHOODS else None


def target_scaling(choice: Any, task: str) -> Scaling | None:
    """What is subtracted from targets, and by what they are divided; None: as usual for the task.

    Raises:
        SettingError: a setting of the likelihood is unknown or out of range.
    """
    if task == COUNT:
        return None
    if isinstance(choice, Mapping) and name_of(choice):
        choice = {key: value for key, value in choice.items() if key != "units"}
    likelihood: Any = LIKELIHOODS.resolve(choice) if name_of(choice) else choice
    if not isinstance(likelihood, AbstractDistribution) or likelihood.support is constraints.real:
        return None
    is_positive = any(likelihood.support is one for one in (constraints.positive, constraints.nonnegative))
    return divided if is_positive else unchanged


def unchanged(targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """0 and 1 for each of `[rows, targets]`."""
    return np.zeros(targets.shape[1]), np.ones(targets.shape[1])


def divided(targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """0 and the geometric means, or 1 if a value is not above 0, which the likelihood then names as it is."""
    if not (targets > 0).all():
        return unchanged(targets)
    return np.zeros(targets.shape[1]), np.exp(np.log(targets).mean(axis=0))


def with_unit(choice: Any, task: str, targets: Any) -> Any:
    """A likelihood of counts by name, with the mean of the training rows as its unit unless that is given."""
    if task != COUNT or isinstance(choice, AbstractLikelihood):
        return choice
    table = {"name": choice} if isinstance(choice, str) else {"name": OF_COUNTS, **(choice or {})}
    counts = np.asarray(targets, np.float64)
    if not counts.size or "unit" in table or "unit" not in LIKELIHOODS.settings(table["name"]):
        return table
    return {**table, "unit": float(counts.mean()) or 1.0}


def with_classes(likelihood: AbstractLikelihood, count: int) -> AbstractLikelihood:
    """A likelihood of ordered classes with their number.

    Raises:
        SettingError: it was made for another number of classes.
    """
    if not isinstance(likelihood, Ordinal):
        return likelihood
    if likelihood.num_classes not in (None, count):
        raise SettingError(f"`likelihood` {likelihood!r} has {likelihood.num_classes} classes, but the data {count}.")
    return replace(likelihood, num_classes=count)


def tell_order(choice: Any, classes: Sequence[Any]) -> None:
    """Warn of the order of classes that are texts, if the likelihood takes them for ordered."""
    is_ordered = isinstance(choice, Ordinal) or name_of(choice) == "ordinal"
    if is_ordered and any(isinstance(one, str) for one in classes):
        warnings.warn(
            f"`likelihood='ordinal'` takes the classes in the order of their texts: {' < '.join(map(repr, classes))}. "
            f"If they have another order, number them.",
            UserWarning,
            stacklevel=3,
        )


def require_task(likelihood: AbstractLikelihood, choice: Any, task: str) -> None:
    """Check that a likelihood is for a task.

    Raises:
        SettingError: it is not.
    """
    named = task_of(choice)
    is_other = named is not None and named != task
    is_classes = task == "classification"
    if is_other or likelihood.is_classification != is_classes or (task == COUNT and not likelihood.is_discrete):
        raise SettingError(
            f"`likelihood` {name_of(choice) or choice!r} is not for {task}. Choose {LIKELIHOODS.listed(task)}, or "
            f"another `--task` (`task` in Python)."
        )
