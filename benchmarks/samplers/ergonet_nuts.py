"""Ergonet's NUTS on its own network."""

from collections.abc import Callable

from benchmarks.samplers import common, ergonet_sampler

PACKAGES = ("jax",)


def prepare(settings: common.Settings) -> Callable[[], common.Outcome]:
    """Import the library and return the timed function."""
    acceptance = settings.target_acceptance
    return ergonet_sampler.prepare(settings, lambda package: package.NUTS(target_acceptance=acceptance))


if __name__ == "__main__":
    common.main(prepare, PACKAGES)
