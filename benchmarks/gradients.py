"""Time of a gradient and of a step of each kind of trajectory, for one chain on one thread, in a separate process.

`products` are the matrix products of one gradient and nothing else: forward, and backward to every weight. A
`matrix-vector product` is M^-1 p with a dense M^-1. Each compiled loop feeds its results back, so that the compiler can
neither hoist nor drop any work.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.problems import Problem, ergonet_target, load, log_density, to_ergonet
from benchmarks.timing import interleaved

TINY = 1e-9  # hardly changes the state of a loop, but the compiler cannot know that
STEP_SIZE = 1e-5  # so small that a tree of 2^10 states never turns
DOUBLINGS = 10
DENSE_SHARE = 10  # a step with a dense metric costs about twenty gradients, so a call has fewer of them


def compile_cpu(function: Callable[..., Any], *arguments: Any) -> Callable[[], object]:
    """Compile a function for one thread; returns a blocking call with these arguments."""
    import equinox as eqx
    import jax

    from ergonet.execution.threads import CPU_OPTIONS

    options: dict[str, Any] = {"compiler_options": CPU_OPTIONS}
    program: Any = eqx.filter_jit(function, **options)
    return lambda: jax.block_until_ready(program(*arguments))


def gradient_loop(potential: Callable[[Any], Any], position: Any, steps: int) -> Any:
    """Evaluate the potential and its gradient `steps` times, one after another."""
    import jax

    def body(_: int, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        position, total = carry
        value, slope = jax.value_and_grad(potential)(position)
        return position - TINY * slope, total + value

    return jax.lax.fori_loop(0, steps, body, (position, 0.0))


def product_loop(weights: list[Any], inputs: Any, steps: int) -> Any:
    """The matrix products of `steps` gradients in XLA, rows last."""
    import jax

    def body(_: int, weights: list[Any]) -> list[Any]:
        values = [inputs]
        for weight in weights:
            values.append(weight @ values[-1])
        slope, slopes = values[-1], []
        for layer in reversed(range(len(weights))):
            slopes.insert(0, slope @ values[layer].T)
            if layer:
                slope = weights[layer].T @ slope
        return [weight + TINY * one for weight, one in zip(weights, slopes, strict=True)]

    return jax.lax.fori_loop(0, steps, body, weights)


def numpy_products(weights: list[np.ndarray], inputs: np.ndarray, steps: int) -> Callable[[], object]:
    """The matrix products of `steps` gradients in NumPy's BLAS, into preallocated arrays, as a call."""
    rows = inputs.shape[1]
    values = [inputs, *(np.empty((len(weight), rows), np.float32) for weight in weights)]
    slopes = [np.empty_like(weight) for weight in weights]
    back = [np.empty_like(value) for value in values]
    back[-1][:] = 1.0

    def run() -> None:
        for _ in range(steps):
            for layer, weight in enumerate(weights):
                np.dot(weight, values[layer], out=values[layer + 1])
            for layer in reversed(range(len(weights))):
                np.dot(back[layer + 1], values[layer].T, out=slopes[layer])
                if layer:
                    np.dot(weights[layer].T, back[layer + 1], out=back[layer])

    return run


def vector_product_loop(matrix: Any, vector: Any, steps: int) -> Any:
    """`steps` products of a matrix and a vector, one after another."""
    import jax

    return jax.lax.fori_loop(0, steps, lambda _, vector: vector + TINY * (matrix @ vector), vector)


def trajectory(kernel: Any, target: Any, position: Any) -> tuple[Callable[[], object], int]:
    """One transition of a kernel as a blocking call, and its number of gradients."""
    import jax
    import jax.numpy as jnp

    from ergonet.samplers.base import Tuning, run_transition

    first = kernel.tuning(target, position)
    tuning = Tuning(step_size=jnp.asarray(STEP_SIZE, position.dtype), metric=first.metric, num_steps=first.num_steps)
    state = kernel.init(target, position)
    call = compile_cpu(lambda t, s, u: run_transition(kernel, jax.random.key(0), t, s, u), target, state, tuning)
    answer: Any = call()
    return call, int(answer[1].gradients)


def measure(problem: Problem, *, turns: int, steps: int) -> dict[str, Any]:
    """Microseconds of each operation on one problem, interleaved over `turns`, with `steps` of each per call."""
    import jax
    import jax.numpy as jnp

    import ergonet

    target = ergonet_target(problem)
    position = jnp.asarray(to_ergonet(problem, problem.starts[:1])[0])
    rows_first = log_density(problem)
    weights = [
        np.asarray(jax.random.normal(jax.random.key(layer), (out, fan_in))) * 0.1
        for layer, (fan_in, out) in enumerate(zip(problem.sizes[:-1], problem.sizes[1:], strict=True))
    ]
    inputs = np.ascontiguousarray(problem.x.T)
    learned = ergonet_target(problem, ergonet.priors.NormalGamma())
    few = max(1, steps // DENSE_SHARE)
    matrix = jax.random.normal(jax.random.key(0), (problem.dim, problem.dim), position.dtype)
    calls = {
        "gradient": (compile_cpu(lambda t, q: gradient_loop(t.potential, q, steps), target, position), steps),
        "gradient, learned precisions": (
            compile_cpu(
                lambda t, q: gradient_loop(t.potential, q, steps), learned, learned.initial_position(jax.random.key(0))
            ),
            steps,
        ),
        "gradient, rows first": (
            compile_cpu(lambda q: gradient_loop(lambda p: -rows_first(p), q, steps), jnp.asarray(problem.starts[0])),
            steps,
        ),
        "products, XLA": (
            compile_cpu(lambda w, x: product_loop(w, x, steps), [jnp.asarray(w) for w in weights], jnp.asarray(inputs)),
            steps,
        ),
        "products, NumPy": (numpy_products(weights, inputs, steps), steps),
        **{name: trajectory(kernel, target, position) for name, kernel in kernels(steps, few).items()},
        "matrix-vector product": (compile_cpu(lambda m, v: vector_product_loop(m, v, few), matrix, position), few),
    }
    found = interleaved({name: call for name, (call, _) in calls.items()}, turns=turns, per_call=1)
    microseconds = {name: [value / calls[name][1] for value in values] for name, values in found.items()}
    return {"microseconds": microseconds, "dim": problem.dim, "rows": len(problem.x)}


def kernels(steps: int, few: int) -> dict[str, Any]:
    """Kernels by the name of their step, with trajectories of `steps` or `few` steps, or with full trees."""
    import ergonet

    return {
        "static step": ergonet.HMC(num_steps=steps, length_jitter=0.0),
        "windowed step": ergonet.WindowedHMC(num_steps=steps, length_jitter=0.0),
        "doubling step": ergonet.NUTS(max_doublings=DOUBLINGS),
        "doubling step, exhaustive": ergonet.XHMC(max_doublings=DOUBLINGS),
        "static step, dense metric": ergonet.HMC(num_steps=few, length_jitter=0.0, metric="dense"),
    }


def main() -> None:
    """Time one problem and write the record."""
    parser = argparse.ArgumentParser(description="Time gradients and steps of trajectories.")
    parser.add_argument("--problem", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    record = measure(load(options.problem), turns=options.turns, steps=options.steps)
    options.out.write_text(json.dumps(record, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
