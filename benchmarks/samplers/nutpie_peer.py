"""nutpie (Rust) on the same JAX density, with one jitted call per gradient and nutpie's diagonal adaptation."""

import importlib
import itertools
from collections.abc import Callable

import numpy as np

from benchmarks.problems import log_density
from benchmarks.samplers import common

PACKAGES = ("nutpie", "jax")


def prepare(settings: common.Settings) -> Callable[[], common.Outcome]:
    """Import the library and return the timed function."""
    import jax

    # Imported by name, because nutpie may be absent where type checkers run.
    nutpie = importlib.import_module("nutpie")
    from_pyfunc = importlib.import_module("nutpie.compiled_pyfunc").from_pyfunc

    problem = settings.problem
    gradient = jax.jit(jax.value_and_grad(log_density(problem)))
    turn = itertools.count()

    def make_gradient() -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        def evaluate(position: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = gradient(position.astype(np.float32))
            return float(value), np.asarray(slope, np.float64)

        return evaluate

    def make_expansion(*_seeds_and_chain: int) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
        return lambda position: {"position": position.astype(np.float32)}

    def start(_seed: int) -> np.ndarray:
        return problem.starts[next(turn) % settings.num_chains].astype(np.float64)

    def run() -> common.Outcome:
        gradient(problem.starts[0])  # compile before the chains start, as nutpie's own front ends do
        model = from_pyfunc(
            problem.dim,
            make_gradient,
            make_expansion,
            [np.dtype(np.float32)],
            [(problem.dim,)],
            ["position"],
            coords={"unconstrained_parameter": np.arange(problem.dim)},
            make_initial_point_fn=start,
        )
        trace = nutpie.sample(
            model,
            draws=settings.num_draws,
            tune=settings.num_warmup,
            chains=settings.num_chains,
            seed=settings.seed,
            target_accept=settings.target_acceptance,
            save_warmup=True,
            progress_bar=False,
        )
        warm, stats = trace["warmup_sample_stats"], trace["sample_stats"]
        return common.Outcome(
            positions=np.asarray(trace["posterior"]["position"].values),
            gradients=int(warm["n_steps"].sum()) + int(stats["n_steps"].sum()),
            divergences=int(stats["diverging"].sum()),
            step_size=float(stats["step_size"].values[:, -1].mean()),
        )

    return run


if __name__ == "__main__":
    common.main(prepare, PACKAGES)
