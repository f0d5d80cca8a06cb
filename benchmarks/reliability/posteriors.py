"""Moments of small models against moments that are known without a sampler, for kernels and for NumPyro's NUTS."""

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks.reliability.known_models import MODELS, Model
from benchmarks.reliability.section import Bench, Goal, Section

ABOUT = """Models of posteriordb and a Gaussian; {num_chains} chains x ({num_warmup} + {num_draws}) each, 'random walk'
and 'MALA' thinned. The moments are known without a sampler: sums over a grid where the model is Gaussian given one
scale, importance sampling for the logistic regression. |z| is the largest, over all parameters, of the difference of a
posterior mean (or mean square) from the known one in units of both standard errors. With {count} numbers in judged rows
the largest |z| of a sound sampler is below {bound:.2f} in 99 of 100 runs. Rows are not judged, but shown, if the
smallest ESS is below {least} or the model is known to fool samplers (a centered funnel)."""
LEAST_ESS = 400
FALSE_ALARM = 0.01


def kernels() -> dict[str, tuple[Callable[[], Any], int]]:
    """Kernels with the number of transitions per draw."""
    from ergonet import HMC, MALA, NUTS, XHMC, RandomWalk, WindowedHMC

    return {
        "NUTS": (NUTS, 1),
        "HMC": (HMC, 1),
        "windowed HMC": (lambda: WindowedHMC(4, num_steps=16), 1),
        "XHMC": (lambda: XHMC(max_doublings=7), 1),
        "MALA": (MALA, 20),
        "random walk": (RandomWalk, 100),
    }


def measure(bench: Bench) -> Section:
    """Sample every model with every kernel."""
    run = {"num_chains": 4, "num_warmup": bench.size(1000, 300), "num_draws": bench.size(4000, 400)}
    models = {name: make() for name, make in MODELS.items()}
    chosen = kernels()
    if bench.is_quick:
        models = {name: models[name] for name in ("eight schools, non-centered", "kidscore")}
        chosen = {name: chosen[name] for name in ("NUTS", "HMC")}
    rows, scores, judged = list[list[str]](), list[np.ndarray](), 0
    for name, model in models.items():
        found = {title: _ergonet(model, make(), thin, run) for title, (make, thin) in chosen.items()}
        found["NumPyro NUTS"] = _numpyro(model, run)
        for title, (positions, divergences) in found.items():
            means, squares, least = compare(model, positions)
            is_judged = model.is_judged and least >= LEAST_ESS and title != "NumPyro NUTS"
            if is_judged:
                scores += [means, squares]
                judged += 1
            worst = [f"{np.abs(one).max():.2f}" for one in (means, squares)]
            rows.append([name, title, f"{least:.0f}", *worst, str(divergences), "yes" if is_judged else "no"])
        bench.say(f"    {name}: {rows[-len(found) :]}")
    every = np.concatenate(scores) if scores else np.zeros(1)
    bound = float(norm.isf(FALSE_ALARM / 2 / every.size))
    worst = float(np.abs(every).max())
    goals = [
        Goal(f"largest |z| of {every.size} moments in {judged} rows", f"{worst:.2f}", f"< {bound:.2f}", worst < bound)
    ]
    head = ("model", "kernel", "smallest ESS", "|z| of means", "|z| of squares", "divergences", "judged")
    about = ABOUT.format(**run, count=every.size, bound=bound, least=LEAST_ESS)
    return Section("Models with known moments", about, goals, head, rows)


def compare(model: Model, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Z of every mean and of every mean square, and the smallest bulk ESS of both.

    Args:
        model: the model.
        positions: draws `[chain, draw, dim]`.
    """
    statistics: Any = importlib.import_module("arviz_stats.base").array_stats
    draws = np.asarray(positions, np.float64)
    seen = draws if model.quantities is None else model.quantities(draws)
    known, count = model.moments, seen.shape[-1]
    both = np.moveaxis(np.concatenate([seen, seen**2], axis=-1), -1, 0)
    error = np.asarray(statistics.mcse(both, chain_axis=1, draw_axis=2, method="mean"))
    ess = np.asarray(statistics.ess(both, chain_axis=1, draw_axis=2, method="bulk"))
    mean = both.mean(axis=(1, 2))
    means = (mean[:count] - known.mean) / np.hypot(error[:count], known.mean_error)
    squares = (mean[count:] - known.square) / np.hypot(error[count:], known.square_error)
    return means, squares, float(ess.min())


def _ergonet(model: Model, kernel: Any, thin: int, run: dict[str, Any]) -> tuple[np.ndarray, int]:
    import jax.numpy as jnp

    import ergonet

    target = ergonet.Target.from_logdensity(model.log_density, jnp.zeros(model.dim))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = ergonet.sample(target, kernel, **run, thin=thin, seed=1, progress=False)
    return np.asarray(samples.positions), int(samples.stats["diverging"].sum())


def _numpyro(model: Model, run: dict[str, int]) -> tuple[np.ndarray, int]:
    import jax
    import jax.numpy as jnp
    from numpyro.infer import MCMC, NUTS

    kernel = NUTS(potential_fn=lambda q: -model.log_density(q))
    chains = run["num_chains"]
    sampler = MCMC(
        kernel,
        num_warmup=run["num_warmup"],
        num_samples=run["num_draws"],
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    starts = 0.1 * jax.random.normal(jax.random.key(2), (chains, model.dim))
    sampler.run(jax.random.key(1), init_params=jnp.asarray(starts), extra_fields=("diverging",))
    draws: Any = sampler.get_samples(group_by_chain=True)
    return np.asarray(draws), int(np.asarray(sampler.get_extra_fields()["diverging"]).sum())
