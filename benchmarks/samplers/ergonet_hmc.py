"""Ergonet's static HMC with jitter on its own network, with a length found by the warm-up."""

from collections.abc import Callable

from benchmarks.samplers import common, ergonet_sampler

PACKAGES = ("jax",)


def prepare(settings: common.Settings) -> Callable[[], common.Outcome]:
    """Import the library and return the timed function."""
    return ergonet_sampler.prepare(settings, "HMC")


if __name__ == "__main__":
    common.main(prepare, PACKAGES)
