"""Priors, likelihoods, activations and parametrizations by name."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ergonet._registry import Entry, Registry

if TYPE_CHECKING:
    from ergonet._types import Array
    from ergonet.models.likelihood import AbstractLikelihood
    from ergonet.models.prior import AbstractPrior
    from ergonet.models.prior.parametrization import AbstractParametrization

PARAMETRIZATIONS: "Registry[AbstractParametrization]" = Registry(
    "parametrization",
    {
        "centered": "ergonet.models.prior.parametrization:Centered",
        "non-centered": "ergonet.models.prior.parametrization:NonCentered",
    },
    of=("ergonet.models.prior.parametrization:AbstractParametrization",),
)
PRIORS: "Registry[AbstractPrior]" = Registry(
    "prior",
    {
        "normal": "ergonet.models.prior.simple:Normal",
        "fan-in-normal": "ergonet.models.prior.simple:FanInNormal",
        "laplace": "ergonet.models.prior.simple:Laplace",
        "student-t": "ergonet.models.prior.simple:StudentT",
        "uniform": "ergonet.models.prior.simple:Uniform",
        "normal-gamma": "ergonet.models.prior.normal_gamma:NormalGamma",
        "horseshoe": "ergonet.models.prior.horseshoe:Horseshoe",
        "regularized-horseshoe": "ergonet.models.prior.horseshoe:RegularizedHorseshoe",
    },
    of=("ergonet.models.prior.base:AbstractPrior",),
)
LIKELIHOODS: "Registry[AbstractLikelihood]" = Registry(
    "likelihood",
    {
        "categorical": Entry("ergonet.models.likelihoods.classes:Categorical", tags=("classification",)),
        "bernoulli": Entry("ergonet.models.likelihoods.classes:Bernoulli", tags=("classification",)),
        "gaussian": Entry("ergonet.models.likelihood:gaussian", tags=("regression",)),
        "heteroscedastic-gaussian": Entry("ergonet.models.likelihood:HeteroscedasticGaussian", tags=("regression",)),
        "heteroscedastic-student-t": Entry("ergonet.models.likelihood:HeteroscedasticStudentT", tags=("regression",)),
        "ordinal": Entry("ergonet.models.likelihoods.ordinal:Ordinal", tags=("classification",)),
        "student-t": Entry("ergonet.models.likelihoods.reals:StudentT", tags=("regression",)),
        "log-normal": Entry("ergonet.models.likelihoods.reals:LogNormal", tags=("regression",)),
        "beta": Entry("ergonet.models.likelihoods.reals:Beta", tags=("regression",)),
        "poisson": Entry("ergonet.models.likelihoods.counts:Poisson", tags=("count",)),
        "negative-binomial": Entry("ergonet.models.likelihoods.counts:NegativeBinomial", tags=("count",)),
        "zero-inflated-poisson": Entry("ergonet.models.likelihoods.counts:ZeroInflatedPoisson", tags=("count",)),
        "zero-inflated-negative-binomial": Entry(
            "ergonet.models.likelihoods.counts:ZeroInflatedNegativeBinomial", tags=("count",)
        ),
    },
    of=("ergonet.models.likelihood:AbstractLikelihood",),
)
"""By task: ``classification``, ``regression`` or ``count``."""
ACTIVATIONS: "Registry[Callable[[Array], Array]]" = Registry(
    "activation",
    {
        "tanh": "jax.numpy:tanh",
        "relu": "jax.nn:relu",
        "sigmoid": "jax.nn:sigmoid",
        "silu": "jax.nn:silu",
        "gelu": "jax.nn:gelu",
        "softplus": "jax.nn:softplus",
    },
)
"""Elementwise functions, as `Registry.load` gives them."""
