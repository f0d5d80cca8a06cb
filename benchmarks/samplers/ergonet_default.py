"""Ergonet's HMC as a classification gets it by default: its length, its warm start and its warm-up."""

from collections.abc import Callable

from benchmarks.samplers import common, ergonet_sampler

PACKAGES = ("jax",)


def prepare(settings: common.Settings) -> Callable[[], common.Outcome]:
    """Import the library and return the timed function."""
    from ergonet.assembly.default import Table, default_for
    from ergonet.samplers.registry import KERNELS

    default = default_for(Table("classification", *settings.problem.x.shape))
    run = {name: default.run[name] for name in ("warm_start", "num_warmup")}
    return ergonet_sampler.prepare(settings, lambda _package: KERNELS.resolve(default.kernel), **run)


if __name__ == "__main__":
    common.main(prepare, PACKAGES)
