"""BlackJAX's window adaptation and NUTS with vmapped chains, as in its documentation."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problems import log_density
from benchmarks.samplers import common

PACKAGES = ("blackjax", "jax")


def prepare(settings: common.Settings) -> Callable[[], common.Outcome]:
    """Import the library and return the timed function."""
    import blackjax
    import jax

    density = log_density(settings.problem)
    warmup: Any = blackjax.window_adaptation(
        blackjax.nuts,
        density,
        target_acceptance_rate=settings.target_acceptance,
        adaptation_info_fn=lambda _state, info, _adaptation: info.num_integration_steps,
    )

    @jax.jit
    @jax.vmap
    def adapt(key: jax.Array, start: jax.Array):
        (state, parameters), steps = warmup.run(key, start, num_steps=settings.num_warmup)
        return state, parameters, steps

    @jax.jit
    @jax.vmap
    def draw(key: jax.Array, state: Any, parameters: dict[str, jax.Array]):
        kernel: Any = blackjax.nuts(density, **parameters)

        def one(state: Any, key: jax.Array):
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps, info.is_divergent)

        return jax.lax.scan(one, state, jax.random.split(key, settings.num_draws))[1]

    def run() -> common.Outcome:
        key_warmup, key_draws = jax.random.split(jax.random.key(settings.seed))
        starts = jax.numpy.asarray(settings.problem.starts)
        adapted = adapt(jax.random.split(key_warmup, settings.num_chains), starts)
        # Otherwise the warm-up would overlap with the compilation of the sampling and be counted as compilation.
        state, parameters, warm_steps = jax.block_until_ready(adapted)
        positions, steps, diverging = draw(jax.random.split(key_draws, settings.num_chains), state, parameters)
        return common.Outcome(
            positions=np.asarray(positions),
            gradients=int(warm_steps.sum()) + int(steps.sum()),
            divergences=int(diverging.sum()),
            step_size=float(parameters["step_size"].mean()),
        )

    return run


if __name__ == "__main__":
    common.main(prepare, PACKAGES)
