"""Priors and likelihoods by name, for settings that come as text: files, the command line, estimators.

A name stands for a class, and a table of settings for its arguments; whatever is not known is refused with the
nearest names.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ergonet import _named
from ergonet._errors import SettingError
from ergonet.models.likelihood import (
    AbstractLikelihood,
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
)
from ergonet.models.likelihood import GammaPrecision as _GammaPrecision
from ergonet.models.prior import (
    AbstractPrior,
    FanInNormal,
    Horseshoe,
    Laplace,
    Normal,
    NormalGamma,
    RegularizedHorseshoe,
    StudentT,
    Uniform,
)

_PRIORS: dict[str, Callable[..., AbstractPrior]] = {
    "normal": Normal,
    "fan-in-normal": FanInNormal,
    "laplace": Laplace,
    "student-t": StudentT,
    "uniform": Uniform,
    "normal-gamma": NormalGamma,
    "horseshoe": Horseshoe,
    "regularized-horseshoe": RegularizedHorseshoe,
}


def _gaussian(noise: float | None = None, width: float | None = None, alpha: float | None = None) -> Gaussian:
    """Known noise, or the prior of a learned one; see `Gaussian` and `GammaPrecision`."""
    given = {key: value for key, value in {"width": width, "alpha": alpha}.items() if value is not None}
    if noise is not None and given:
        raise SettingError(
            f"`likelihood`: a known `noise` has no prior, so it excludes {', '.join(map(repr, given))}. Give one or "
            f"the other."
        )
    return Gaussian(noise=_GammaPrecision(**given) if given else noise)


_LIKELIHOODS: dict[str, Callable[..., AbstractLikelihood]] = {
    "categorical": Categorical,
    "bernoulli": Bernoulli,
    "gaussian": _gaussian,
    "heteroscedastic-gaussian": HeteroscedasticGaussian,
}
_CLASSIFICATION = ("categorical", "bernoulli")


def prior_names() -> tuple[str, ...]:
    """The priors that can be had by name."""
    return tuple(_PRIORS)


def prior(name: str, settings: Mapping[str, Any] | None = None) -> AbstractPrior:
    """The prior of that name.

    Args:
        name: one of `prior_names()`.
        settings: arguments of the prior by name, such as ``{"scale": 1.0}``; the rest keep their defaults.

    Raises:
        SettingError: the name or a setting is not known, or a value is out of its range.
    """
    return _named.make("prior", name, settings, _PRIORS)


def prior_defaults(name: str) -> dict[str, Any]:
    """Arguments of a prior with their defaults."""
    return _named.defaults("prior", name, _PRIORS)


def likelihood_names(task: str | None = None) -> tuple[str, ...]:
    """The likelihoods that can be had by name, of one task (``classification``, ``regression``) or of both."""
    return tuple(
        name for name in _LIKELIHOODS if task is None or (name in _CLASSIFICATION) == (task == "classification")
    )


def likelihood(name: str, settings: Mapping[str, Any] | None = None) -> AbstractLikelihood:
    """The likelihood of that name.

    Args:
        name: one of `likelihood_names()`.
        settings: arguments by name. ``gaussian`` takes ``noise`` (known standard deviation), or ``width`` and ``alpha``
            of the prior of a learned one; the others take none.

    Raises:
        SettingError: the name or a setting is not known, or a value is out of its range.
    """
    return _named.make("likelihood", name, settings, _LIKELIHOODS)


def default_likelihood(task: str, num_classes: int = 0) -> str:
    """The likelihood that suits a task: Gaussian noise, learned, for regression; by the number of classes otherwise."""
    if task == "regression":
        return "gaussian"
    return "bernoulli" if num_classes == 2 else "categorical"
