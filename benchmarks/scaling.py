"""What it costs to divide rows over devices, and to send chunks of chains to other processes.

Usage::

    python -m benchmarks.scaling

simulates four devices on the CPU. Functions are timed in turn, and the least of many turns counts, because other work
on the machine only adds to a time. Simulated devices share the cores, so a gradient gets faster up to the number of
cores that are free; processor time, which other work hardly changes, shows what dividing the rows adds to the work.
"""

import argparse
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

NUM_DEVICES = 4
ROWS = (512, 4096, 32768)
SIZES = (5, 20, 20, 1)
STEPS = {512: 40, 4096: 20, 32768: 5}
SUM_STEPS = 100
CHAIN_DRAWS = 100


def main() -> None:
    """Print the tables."""
    import jax

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10, help="timed calls of each function")
    turns = parser.parse_args().turns
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", NUM_DEVICES)
    sums(turns)
    for rows in ROWS:
        gradients(rows, turns)
    chains(turns)
    calls(turns)


def least(functions: Mapping[str, Callable[[], object]], turns: int, per_call: int) -> dict[str, tuple[float, float]]:
    """The least microseconds of a unit of work of each function: by the clock, and of processor time."""
    found = dict.fromkeys(functions, (math.inf, math.inf))
    for turn in range(turns + 1):
        for name, function in functions.items():
            began, used = time.perf_counter(), time.process_time()
            function()
            took = time.perf_counter() - began, time.process_time() - used
            if turn:  # the first one compiles
                clock, processor = (
                    min(pair) for pair in zip(found[name], (1e6 * one / per_call for one in took), strict=True)
                )
                found[name] = clock, processor
    return found


def posterior(rows: int) -> Any:
    """The posterior of a small network."""
    import numpy as np

    import ergonet

    x = np.random.default_rng(0).normal(size=(rows, SIZES[0])).astype(np.float32)
    network = ergonet.BayesianNetwork(ergonet.MLP(SIZES), ergonet.priors.Normal(1.0), ergonet.likelihoods.Gaussian(0.5))
    return network.condition(x, np.sin(x[:, 0]))


def looped(step: Callable[[Any], Any], start: Any, steps: int) -> Callable[[], object]:
    """A blocking call that makes `steps` steps, one after another, in a compiled loop."""
    import jax

    from ergonet.execution.threads import CPU_OPTIONS

    def loop(start: Any) -> Any:
        return jax.lax.fori_loop(0, steps, lambda _, state: step(state), start)

    program = jax.jit(loop, compiler_options=CPU_OPTIONS)
    return lambda: jax.block_until_ready(program(start))


def sums(turns: int) -> None:
    """The time of one sum over devices, by number of devices and of floats."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec

    from ergonet.target.shards import ROWS as AXIS
    from ergonet.target.shards import RowShards

    functions: dict[str, Callable[[], object]] = {}
    for count in (2, 4):
        shards = RowShards(count)
        for size in (1, 562, 100_000):

            def step(state: Any, mesh: Any = shards.mesh) -> Any:
                every = PartitionSpec()
                added = jax.shard_map(
                    lambda one: jax.lax.psum(one, AXIS), mesh=mesh, in_specs=every, out_specs=every, check_vma=False
                )(state)
                return 0.1 * added

            start = jax.device_put(jnp.ones(size), shards.everywhere)
            functions[f"{count} devices, {size} floats"] = looped(step, start, SUM_STEPS)
    print("psum, microseconds by the clock")
    for name, (clock, _) in least(functions, turns, SUM_STEPS).items():
        print(f"  {name:<28} {clock:10.0f}")


def gradients(rows: int, turns: int) -> None:
    """The time of a gradient with the rows on one device, and divided."""
    import jax

    from ergonet.target.shards import RowShards

    whole = posterior(rows)
    start = whole.initial_position(jax.random.key(0))
    cases = {"whole": None, **{f"fixed order, {n}": RowShards(n) for n in (1, 2, 4)}}
    cases |= {f"any order, {n}": RowShards(n, order="any") for n in (2, 4)}
    functions: dict[str, Callable[[], object]] = {}
    for name, shards in cases.items():
        target = whole if shards is None else whole.divided(shards)
        at = start if shards is None else jax.device_put(start, shards.everywhere)

        def step(position: Any, target: Any = target) -> Any:
            return position - 1e-9 * jax.grad(target.potential)(position)

        functions[name] = looped(step, at, STEPS[rows])
    found = least(functions, turns, STEPS[rows])
    first = found["whole"]
    print(
        f"gradient of {whole.dim} weights, {rows} rows: {first[0]:.0f} microseconds; relative to it, by the clock and "
        "in processor time"
    )
    for name, (clock, processor) in found.items():
        print(f"  {name:<28} {clock / first[0]:10.2f} {processor / first[1]:10.2f}")


def chains(turns: int) -> None:
    """The time of four chains and of four parts of one chain each, by what they run on, relative to one core."""
    from functools import partial

    import ergonet
    from ergonet import partition

    target = posterior(4096)
    parts, kernel = partition.split(target, [0, 1]), ergonet.HMC(num_steps=8, step_size=1e-3)
    settings: dict[str, Any] = {"num_warmup": 0, "num_draws": CHAIN_DRAWS, "seed": 0}
    run = partial(ergonet.sample, target, kernel, num_chains=4, progress=False, **settings)
    split = partial(partition.sample, target, parts, kernel, num_chains=1, **settings)
    with ergonet.Processes(1) as one, ergonet.Processes(2) as two:
        for what, call in (("chains", run), ("parts", split)):
            cases = {
                "1 core": partial(call, devices=1),
                "2 cores": partial(call, devices=2),
                "1 process": partial(call, executor=one),
                "2 processes": partial(call, executor=two),
            }
            found = least(cases, turns, 1)
            first = found["1 core"][0]
            print(f"4 {what} on 1 core: {first / 1e6:.2f} seconds; relative to it, by the clock")
            for name, (clock, _) in found.items():
                print(f"  {name:<28} {clock / first:10.2f}")


def calls(turns: int) -> None:
    """Processor time of this process for a chunk of one chain that goes to another process and comes back."""
    from concurrent.futures import Future

    import ergonet
    from ergonet.execution.base import AbstractExecutor
    from ergonet.execution.shared import Arithmetic, pack, run_packed, unpack
    from ergonet.inference import trajectory_jobs

    trajectory_jobs.CHUNK_SECONDS = 0.05  # for more of them

    class Noting(AbstractExecutor):
        @property
        def num_workers(self) -> int:
            return 1

        def __init__(self):
            self.seconds: list[float] = []
            self.sent: list[int] = []
            self.shared: list[int] = []

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            began = time.process_time()
            packed, used = pack((fn, args))
            took = time.process_time() - began
            contents = {token: one.content for token, one in used.items()}
            back = run_packed(packed, contents, Arithmetic.ours())
            began = time.process_time()
            done: Future[Any] = Future()
            done.set_result(unpack(back))
            self.seconds.append(took + time.process_time() - began)
            self.sent.append(len(packed) + len(back))
            self.shared.append(sum(map(len, contents.values())))
            return done

    noting = Noting()
    ergonet.sample(
        posterior(4096),
        ergonet.HMC(num_steps=4, step_size=1e-4),
        num_chains=1,
        num_warmup=0,
        num_draws=200 * turns,
        seed=0,
        executor=noting,
        progress=False,
    )
    middle = sorted(noting.seconds)[len(noting.seconds) // 2]
    print(
        f"a chunk of one chain, {len(noting.seconds)} calls: {1e3 * middle:.2f} ms of this process, "
        f"{max(noting.sent) / 1e3:.0f} kB there and back at most; once for each process: "
        f"{noting.shared[-1] / 1e3:.0f} kB"
    )


if __name__ == "__main__":
    main()
