"""Constructors of targets from log densities, terms and NumPyro programs."""

from collections.abc import Callable
from typing import Any, final

from ergonet._types import Array, Float, Scalar
from ergonet.target.contract import AbstractTarget
from ergonet.target.logdensity import LogDensity
from ergonet.target.terms import LogDensityTerms


@final
class Target:
    """Constructors of targets; each returns an `AbstractTarget`."""

    @staticmethod
    def from_logdensity(logdensity_fn: Callable[[Any], Scalar] | Any, example: Any) -> LogDensity:
        """Make a target from any log density.

        Args:
            logdensity_fn: maps a pytree of arrays like `example` to a scalar. Arrays in a callable `eqx.Module` are
                data; arrays in a closure are constants of the compiled program.
            example: a pytree of floating-point arrays that gives names, shapes and dtype. Initial values are drawn from
                Uniform(-2, 2) in every coordinate, as in Stan.
        """
        return LogDensity(logdensity_fn, example)

    @staticmethod
    def from_terms(
        log_prior_fn: Callable[[Any], Scalar] | Any,
        log_likelihood_fn: Callable[[Any, Any], Float[Array, "rows"]] | Any,
        data: Any,
        example: Any,
    ) -> LogDensityTerms:
        """Make a target from a log prior and the log likelihood of each row.

        Args:
            log_prior_fn: `params -> scalar`.
            log_likelihood_fn: `(params, rows) -> [rows]`, where `rows` is like `data`.
            data: a pytree of arrays with the rows on the first axis.
            example: a pytree of floating-point arrays that gives names, shapes and dtype of the parameters.
        """
        return LogDensityTerms(log_prior_fn, log_likelihood_fn, data, example)

    @staticmethod
    def from_numpyro(model: Callable[..., Any], args: Any = (), kwargs: Any = None) -> AbstractTarget:
        """Make a target from a NumPyro program, `model(*args, **kwargs)`, on NumPyro's unconstrained space.

        `unravel` returns the constrained values of latent sites, and deterministic sites. Initial values are drawn from
        Uniform(-2, 2) in every unconstrained coordinate. Flat, improper priors are allowed.

        A program with its rows in one `numpyro.plate(name, N, subsample_size=n)` supports minibatches: its rows are the
        indices of the plate, and a minibatch has n of them. `potential` is still the full potential, computed in a loop
        over chunks of n rows, so a program for full-batch kernels is faster without `subsample_size`.

        Args:
            model: the program, with continuous latent sites outside the subsampling plate and no `param` sites.
            args: positional arguments, a tuple; arrays in it are data, everything else is fixed.
            kwargs: keyword arguments, a dict treated in the same way; None: none.

        Raises:
            SettingError: the program has a site that cannot be sampled, or nothing to sample; names the site.
        """
        from ergonet.target.numpyro import NumpyroProgram

        return NumpyroProgram(model, args, kwargs)
