"""The part shared by the adapters of Ergonet's kernels."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problems import ergonet_target, from_ergonet, log_density, to_ergonet
from benchmarks.samplers.common import Outcome, Settings


def prepare(settings: Settings, kernel_name: str, *, own_network: bool = True) -> Callable[[], Outcome]:
    """Import the library and return the timed function.

    Args:
        settings: settings of all samplers.
        kernel_name: `NUTS` or `HMC`.
        own_network: whether to use Ergonet's own network; otherwise the density that the other libraries are given.
    """
    import ergonet

    kernel = getattr(ergonet, kernel_name)(target_acceptance=settings.target_acceptance)
    problem = settings.problem

    def run() -> Outcome:
        if own_network:
            target, starts = ergonet_target(problem), to_ergonet(problem, problem.starts)
        else:
            target, starts = ergonet.Target.from_logdensity(log_density(problem), problem.starts[0]), problem.starts
        samples = ergonet.sample(
            target,
            kernel,
            num_chains=settings.num_chains,
            num_warmup=settings.num_warmup,
            num_draws=settings.num_draws,
            seed=settings.seed,
            init=starts,
            progress=False,
        )
        positions = np.asarray(samples.positions)
        return Outcome(
            positions=from_ergonet(problem, positions) if own_network else positions,
            gradients=sum(samples.gradients.values()),
            divergences=int(samples.stats["diverging"].sum()),
            step_size=float(np.mean(samples.tuning["step_size"])),
            note=_length(samples.tuning) if kernel_name == "HMC" else "",
        )

    return run


def _length(tuning: Any) -> str:
    return f"lengths found: {', '.join(str(int(steps)) for steps in tuning['num_steps'])}"
