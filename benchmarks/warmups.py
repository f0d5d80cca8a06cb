"""Warm-ups compared on networks: `python -m benchmarks.warmups` writes docs/results/warmups.md and .json.

The rows are Stan's windows of two lengths, a step size alone, and two metrics that no warm-up can know: they are
computed from the pooled draws of four long chains of another seed, and bound the gain of a metric that is pooled over
chains or has low rank. Costs are counted in gradients. P2 takes several times as long as P1; `--quick` only shows that
everything works.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ergonet
from benchmarks import options, page
from benchmarks.problems import PROBLEMS, ergonet_target, to_ergonet
from benchmarks.rounds import effective_draws
from benchmarks.timing import Spread
from ergonet import NUTS, AbstractTarget, Target, capabilities, recipes

FULL = {"rounds": 2, "num_draws": 500, "pooled_draws": 1000, "warmups": [500, 150]}
SMOKE = {"rounds": 1, "num_draws": 5, "pooled_draws": 5, "warmups": [12, 10]}
POOLED_SEED = 99
MOST_DIRECTIONS, LEAST_EIGENVALUE = 100, 1e-6  # smaller eigenvalues belong to directions without draws
TITLES = {"digits": "P1: a network on the digits", "regression": "P2: a regression"}
PREFACE = """NUTS, target acceptance 0.8, 4 chains x (warm-up + {num_draws}), started from draws of the prior. Figures
are medians over {rounds} seeds, with the range in parentheses. *ESS*: smallest bulk effective sample size of the
predictions at 20 rows. *Per 1000 gradients* counts those of warm-up and sampling; *per 1000 sampling gradients* is the
limit for a long run. Other programs may have run at the same time, so no times are reported.

*Pooled variances* and *pooled directions* are diagonal and low-rank metrics computed from {pooled_draws} draws of each
of four other chains, which no warm-up has. The directions are the eigenvectors of the correlation matrix whose
eigenvalues lie outside the range of those of as many independent draws of uncorrelated coordinates
(MarchenkoPastur1967), at most {most}.
"""


class Preconditioned(eqx.Module):
    """The log density of z for the position scale * (z + V (factor - 1) V'z), which acts as a low-rank metric."""

    posterior: AbstractTarget
    scale: Any
    directions: Any
    factor: Any

    def position(self, z: Any) -> Any:
        """The position of a z."""
        return self.scale * (z + self.directions @ ((self.factor - 1) * (self.directions.T @ z)))

    def inverse(self, position: Any) -> Any:
        """The z of a position."""
        z = position / self.scale
        return z + self.directions @ ((1 / self.factor - 1) * (self.directions.T @ z))

    def __call__(self, z: Any) -> Any:
        return -self.posterior.potential(self.position(z))


def unchanged(posterior: AbstractTarget) -> Preconditioned:
    """The log density in the original coordinates: z is the position."""
    dim = posterior.dim
    return Preconditioned(posterior, jnp.ones(dim), jnp.zeros((dim, 0)), jnp.zeros(0))


def preconditioned(posterior: AbstractTarget, draws: np.ndarray, *, most: int) -> Preconditioned:
    """Precondition with the variances of draws `[draw, dim]` and with at most `most` directions beyond chance."""
    scale = draws.std(axis=0)
    values, vectors = np.linalg.eigh(np.cov(draws / scale, rowvar=False))
    values = np.maximum(values, LEAST_EIGENVALUE)
    edge = np.sqrt(draws.shape[1] / len(draws))
    beyond = (values > (1 + edge) ** 2) | (values < max(0.0, 1 - edge) ** 2)
    order = np.argsort(-np.abs(np.log(values)) * beyond)[: min(most, int(beyond.sum()))]
    arrays = (scale, vectors[:, order], np.sqrt(values[order]))
    return Preconditioned(posterior, *(jnp.asarray(one, jnp.float32) for one in arrays))


def run_once(
    density: Preconditioned, warmup: recipes.Warmup, starts: Any, *, seed: int, num_draws: int
) -> dict[str, Any]:
    """Run once from positions `[chain, dim]` and return the figures of the run."""
    samples = ergonet.sample(
        Target.from_logdensity(density, starts[0]),
        NUTS(),
        warmup=warmup,
        num_draws=num_draws,
        init=jax.vmap(density.inverse)(jnp.asarray(starts)),
        seed=seed,
        progress=False,
    )
    monitor = capabilities.require(density.posterior, capabilities.Monitor, "warmups").monitor
    predict = jax.jit(jax.vmap(lambda z: monitor(density.position(z))))
    least, _ = effective_draws(np.stack([np.asarray(predict(jnp.asarray(chain))) for chain in samples.positions]))
    warm, sampling = samples.gradients["warmup"], samples.gradients["sampling"]
    return {
        "warmup": warm / samples.num_chains,
        "per_draw": sampling / samples.num_chains / samples.num_draws,
        "effective": least,
        "per_sampling": 1000 * least / sampling,
        "per_gradient": 1000 * least / (warm + sampling),
        "acceptance": float(samples.stats["acceptance_rate"].mean()),
        "diverged": float(samples.stats["diverging"].sum()),
    }


def measure_problem(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The interleaved `runs` of every recipe on a problem, and the number of `directions` beyond chance."""
    problem = PROBLEMS[name]()
    posterior, starts = ergonet_target(problem), to_ergonet(problem, problem.starts)
    longest, shortest = settings["warmups"][0], settings["warmups"][-1]
    draws = settings["pooled_draws"]
    long = ergonet.sample(
        posterior, NUTS(), num_warmup=longest, num_draws=draws, seed=POOLED_SEED, init=starts, progress=False
    )
    pooled = np.asarray(long.positions, np.float64).reshape(-1, posterior.dim)
    plain = unchanged(posterior)
    of_variances = preconditioned(posterior, pooled, most=0)
    of_directions = preconditioned(posterior, pooled, most=MOST_DIRECTIONS)
    learns, alone = NUTS().warmup(), NUTS(metric="identity").warmup()
    rows = {
        **{f"Stan's windows, {n}": (plain, recipes.stan_windows(learns, n)) for n in settings["warmups"]},
        **{f"step size only, {n}": (plain, recipes.step_size_only(alone, n)) for n in (longest, shortest)},
        f"pooled variances, step size only, {shortest}": (of_variances, recipes.step_size_only(alone, shortest)),
        f"pooled directions, step size only, {shortest}": (of_directions, recipes.step_size_only(alone, shortest)),
    }
    found: dict[str, list[dict[str, Any]]] = {title: [] for title in rows}
    for seed in range(settings["rounds"]):
        for title, (density, recipe) in rows.items():
            found[title].append(run_once(density, recipe, starts, seed=seed, num_draws=settings["num_draws"]))
            print(f"{name}, round {seed + 1}: {title}: {found[title][-1]}", flush=True)
    return {"runs": found, "directions": of_directions.factor.size}


def tables(record: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """The tables of the page, in Markdown."""
    parts = [PREFACE.format(**settings, most=MOST_DIRECTIONS)]
    head = ["warm-up", "warm-up gradients per chain", "ESS", "gradients per draw"]
    head += ["ESS per 1000 sampling gradients", "ESS per 1000 gradients", "acceptance", "divergences"]
    for name, held in record.items():
        rows = []
        for title, runs in held["runs"].items():
            spread = {key: Spread.of([run[key] for run in runs]) for key in runs[0]}
            row = [title, f"{spread['warmup'].median:.0f}", spread["effective"].text("{:.0f}")]
            row += [f"{spread['per_draw'].median:.0f}", spread["per_sampling"].text("{:.2f}")]
            row += [f"{spread['per_gradient'].median:.2f}", f"{spread['acceptance'].median:.2f}"]
            rows.append([*row, f"{spread['diverged'].median:.0f}"])
        note = f"Directions beyond chance: {held['directions']}.\n\n"
        parts.append(f"### {TITLES[name]}\n{note}{page.table(head, rows)}")
    return "\n".join(parts)


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and write the results."""
    parser = options.parser("Recipes of warm-ups on two networks.", "warmups.md and .json")
    parser.add_argument("--problem", choices=TITLES, help="only this one")
    chosen = options.parsed(parser, arguments)
    settings = SMOKE if chosen.quick else FULL
    words = ["python -m benchmarks.warmups", *(["--quick"] if chosen.quick else [])]
    words += [f"--problem {chosen.problem}"] if chosen.problem else []
    about = page.describe(" ".join(words), quick=chosen.quick, settings=settings)
    names = [chosen.problem] if chosen.problem else list(TITLES)
    record = {"about": about, "problems": {name: measure_problem(name, settings) for name in names}}
    page.write_measured(chosen.out / "warmups", "Warm-ups", record, tables(record["problems"], settings))
    print(f"Written: {chosen.out / 'warmups.md'}")


if __name__ == "__main__":
    main()
