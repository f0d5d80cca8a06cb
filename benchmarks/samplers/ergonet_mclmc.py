"""Ergonet's microcanonical dynamics, whose bias `benchmarks.microcanonical` measures."""

from collections.abc import Callable

from benchmarks.samplers import common, ergonet_sampler

PACKAGES = ("jax",)
NUM_STEPS, NUM_WARMUP = 32, 100  # after Adam


def prepare(settings: common.Settings) -> Callable[[], common.Outcome]:
    """Import the library and return the timed function."""
    warmup = min(NUM_WARMUP, settings.num_warmup)
    return ergonet_sampler.prepare(
        settings, lambda package: package.MCLMC(num_steps=NUM_STEPS), warm_start="adam", num_warmup=warmup
    )


if __name__ == "__main__":
    common.main(prepare, PACKAGES)
