"""Ergonet's jittered static HMC on its own network, at a length that its warm-up finds."""

from collections.abc import Callable

from benchmarks.samplers import common, ergonet_sampler

PACKAGES = ("jax",)


def prepare(settings: common.Settings) -> Callable[[], common.Outcome]:
    """Import, and return what is timed."""
    return ergonet_sampler.prepare(settings, "HMC")


if __name__ == "__main__":
    common.main(prepare, PACKAGES)
