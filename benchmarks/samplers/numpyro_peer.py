"""NumPyro's NUTS with one host device per chain, the fastest of its chain methods on a CPU."""

from collections.abc import Callable

import numpy as np

from benchmarks.problems import log_density
from benchmarks.samplers import common

PACKAGES = ("numpyro", "jax")


def prepare(settings: common.Settings) -> Callable[[], common.Outcome]:
    """Import the library and return the timed function."""
    import jax

    jax.config.update("jax_num_cpu_devices", settings.num_chains)
    from numpyro.infer import MCMC, NUTS

    density = log_density(settings.problem)

    def run() -> common.Outcome:
        kernel = NUTS(potential_fn=lambda position: -density(position), target_accept_prob=settings.target_acceptance)
        sampler = MCMC(
            kernel,
            num_warmup=settings.num_warmup,
            num_samples=settings.num_draws,
            num_chains=settings.num_chains,
            chain_method="parallel",
            progress_bar=False,
        )
        starts = jax.numpy.asarray(settings.problem.starts)
        fields = ("num_steps", "diverging", "adapt_state.step_size")
        key = jax.random.PRNGKey(settings.seed)
        # A separate call for the warm-up would report its gradients, but everything would compile twice.
        sampler.run(key, init_params=starts, extra_fields=fields)
        positions = np.asarray(sampler.get_samples(group_by_chain=True))
        stats = {name: np.asarray(values) for name, values in sampler.get_extra_fields(group_by_chain=True).items()}
        return common.Outcome(
            positions=positions,
            gradients=int(stats["num_steps"].sum()),
            divergences=int(stats["diverging"].sum()),
            step_size=float(stats["adapt_state.step_size"][:, -1].mean()),
            note="gradients: sampling only",
        )

    return run


if __name__ == "__main__":
    common.main(prepare, PACKAGES)
