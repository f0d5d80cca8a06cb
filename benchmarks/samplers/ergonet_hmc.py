"""Ergonet's static HMC with jitter on its own network, with a length found by the warm-up."""

from collections.abc import Callable

from benchmarks.samplers import common, ergonet_sampler

PACKAGES = ("jax",)


def prepare(settings: common.Settings) -> Callable[[], common.Outcome]:
    """Import the library and return the timed function."""
    acceptance = settings.target_acceptance
    return ergonet_sampler.prepare(settings, lambda package: package.HMC(target_acceptance=acceptance))


if __name__ == "__main__":
    common.main(prepare, PACKAGES)
