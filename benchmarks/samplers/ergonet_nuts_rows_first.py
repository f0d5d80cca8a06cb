"""Ergonet's NUTS on the very density that the other libraries are given (rows first, from a log density)."""

from collections.abc import Callable

from benchmarks.samplers import common, ergonet_sampler

PACKAGES = ("jax",)


def prepare(settings: common.Settings) -> Callable[[], common.Outcome]:
    """Import, and return what is timed."""
    return ergonet_sampler.prepare(settings, "NUTS", own_network=False)


if __name__ == "__main__":
    common.main(prepare, PACKAGES)
