"""The part shared by the adapters of Ergonet's kernels."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problems import ergonet_target, from_ergonet, log_density, to_ergonet
from benchmarks.samplers.common import Outcome, Settings


def prepare(
    settings: Settings, make_kernel: Callable[[Any], Any], *, own_network: bool = True, **run: Any
) -> Callable[[], Outcome]:
    """Import the library and return the timed function.

    Args:
        settings: settings of all samplers.
        make_kernel: makes the kernel, given the imported package.
        own_network: whether to use Ergonet's own network; otherwise the density that the other libraries are given.
        run: arguments of `sample` in place of the common warm-up and initial positions.
    """
    import ergonet

    kernel = make_kernel(ergonet)
    problem = settings.problem

    def sampled() -> Outcome:
        if own_network:
            target, starts = ergonet_target(problem), to_ergonet(problem, problem.starts)
        else:
            target, starts = ergonet.Target.from_logdensity(log_density(problem), problem.starts[0]), problem.starts
        shared: dict[str, Any] = {"num_warmup": settings.num_warmup, "init": starts}
        samples = ergonet.sample(
            target,
            kernel,
            num_chains=settings.num_chains,
            num_draws=settings.num_draws,
            seed=settings.seed,
            progress=False,
            **(run or shared),
        )
        positions = np.asarray(samples.positions)
        return Outcome(
            positions=from_ergonet(problem, positions) if own_network else positions,
            gradients=sum(samples.gradients.values()),
            divergences=int(samples.stats["diverging"].sum()),
            step_size=float(np.mean(samples.tuning["step_size"])),
            note=_length(samples.tuning) if getattr(kernel, "num_steps", 1) is None else "",
        )

    return sampled


def _length(tuning: Any) -> str:
    return f"lengths found: {', '.join(str(int(steps)) for steps in tuning['num_steps'])}"
