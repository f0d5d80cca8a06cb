"""Predictions of many networks: a naive loop, the floor, and the library; loading and first predictions.

`python -m benchmarks.prediction` times 1000 networks of random weights and writes docs/results/prediction.md. `--quick
--out FOLDER` shows that it works.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks import page
from benchmarks.targets import Goal
from benchmarks.timing import Spread, interleaved, ratios
from ergonet import MLP, BayesianRegressor, Samples
from ergonet.assembly.settings import NetworkSettings, RunSettings, Settings
from ergonet.datasets.learning import learn
from ergonet.draws.versions import versions
from ergonet.estimators.saving import Parts
from ergonet.execution.threads import CPU_OPTIONS, num_cores, worker_pool

ROOT = Path(__file__).resolve().parents[1]
CHAINS, INPUTS = 4, 5
SMALL, LARGE = (20, 20), (50, 50, 50, 50, 50)  # hidden units; 561 and 10551 weights
FLOOR_ROWS = 512  # of a call of the floor; the fastest of 256, 512 and 1024

ABOUT = """
{networks} networks of random weights, tanh, known noise. The floor is the compiled forward pass alone, on all cores,
without moments; a loop collects the outputs of all networks and takes their mean and deviation. On average, {load:.1f}
processes wanted one of the {cores} cores in the last 5 minutes, those of this benchmark included. If that is more than
the cores, absolute times are too long, and so are ratios of what takes several calls to what takes one.
"""

LATER = """
import json, sys, time
import jax, numpy as np
import ergonet
seconds, compiling = {}, []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, duration, **_: compiling.append(duration) if event.startswith("/jax/core/compile") else None)
from ergonet import BayesianRegressor
jax.devices()
path, x = sys.argv[1], np.zeros((1, int(sys.argv[2])))
BayesianRegressor.load(path)  # imports
began = time.perf_counter()
model = BayesianRegressor.load(path)
seconds["load"] = time.perf_counter() - began
began = time.perf_counter()
np.asarray(model.samples_.positions[...])
seconds["read all draws"] = time.perf_counter() - began
compiling.clear()
began = time.perf_counter()
model.predict(x)
seconds["first prediction"] = time.perf_counter() - began
seconds["first prediction, without compilation"] = seconds["first prediction"] - sum(compiling)
print(json.dumps(seconds))
"""


def estimator(hidden: tuple[int, ...], networks: int) -> BayesianRegressor:
    """A fitted estimator of random weights, as if it had been sampled."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, INPUTS))
    columns = {f"x{index}": x[:, index] for index in range(INPUTS)}
    preprocessing = learn(columns, x[:, :1] * 2.0, task="regression", target_names=("y",))
    made = BayesianRegressor(hidden=hidden, num_chains=CHAINS, num_draws=networks // CHAINS, num_warmup=0)
    settings = Settings(
        network=NetworkSettings(hidden=hidden, activation="tanh"),
        likelihood={"name": "gaussian", "noise": 0.5, "units": "scaled"},
        kernel={"name": "hmc"},
        run=RunSettings(num_chains=CHAINS, num_draws=networks // CHAINS, num_warmup=0),
    )
    fitted = {"n_features_in_": INPUTS, "num_train": len(x), "is_flat": True}
    nothing: dict[str, Any] = {}
    dim = sum(leaf.size for leaf in MLP((INPUTS, *hidden, 1), activation="tanh").leaves().values())
    shape = CHAINS, networks // CHAINS, dim
    positions = rng.normal(size=shape).astype(np.float32) / np.sqrt(max(hidden))
    about = {"kernel": "HMC", "versions": versions(), "draws_by_chain": [shape[1]] * CHAINS, "seed": 0}
    samples = Samples(positions, nothing, nothing, nothing, nothing, nothing, about)
    made.restore_parts(Parts(settings, preprocessing, samples, {}, fitted))
    return made


def contestants(made: BayesianRegressor, x: np.ndarray) -> dict[str, Callable[[], object]]:
    """What computes the predictive mean and standard deviation of scaled inputs, or part of it, by name."""
    model, predictor = made.model_, made.predictor()
    flat = np.asarray(made.samples_.positions).reshape(-1, model.dim)
    device = jnp.asarray(flat)
    size = min(len(x), FLOOR_ROWS)
    parts = [jnp.asarray(x[start : start + size].T) for start in range(0, len(x), size)]
    pool = worker_pool(num_cores())

    def one(position: Any, inputs: Any) -> Any:
        return model.network.apply(model.split(position)[0], inputs)

    compiled_one = jax.jit(one)
    every = jax.jit(lambda all_, inputs: lax.map(lambda q: one(q, inputs), all_), compiler_options=CPU_OPTIONS)

    def floor() -> object:
        if len(parts) == 1:
            return jax.block_until_ready(every(device, parts[0]))
        return list(pool.map(lambda inputs: jax.block_until_ready(every(device, inputs)), parts))

    def loop(apply: Callable[[np.ndarray], np.ndarray]) -> object:
        outputs = np.stack([apply(position) for position in flat])
        return outputs.mean(axis=0), outputs.std(axis=0)

    transposed = jnp.asarray(x.T)
    sizes = model.network.sizes  # type: ignore[attr-defined]  # an MLP
    return {
        "loop over networks, NumPy": lambda: loop(partial(_by_numpy, sizes, x)),
        "loop over networks, one compiled network": lambda: loop(
            lambda position: np.asarray(compiled_one(position, transposed))
        ),
        "floor: products and activations": floor,
        "Ergonet, mean and sd": lambda: predictor.predict(x, levels=()),
        "Ergonet, mean, sd and two quantiles": lambda: predictor.predict(x),
        "Ergonet, `predict` of the estimator": lambda: made.predict(x),
    }


def _by_numpy(sizes: Sequence[int], x: np.ndarray, position: np.ndarray) -> np.ndarray:
    values, start = x, 0
    for layer, (units, out) in enumerate(itertools.pairwise(sizes)):
        weight = position[start : start + units * out].reshape(out, units)
        bias = position[start + units * out : start + (units + 1) * out]
        values = (np.tanh(values) if layer else values) @ weight.T + bias
        start += (units + 1) * out
    return values


def one_row(made: BayesianRegressor, turns: int) -> dict[str, list[float]]:
    """Microseconds for a single row: the bytes of the weights read once, the network, and predictions."""
    x = np.zeros((1, INPUTS), np.float32)
    weights = jnp.asarray(np.asarray(made.samples_.positions).reshape(-1))
    read = jax.jit(jnp.sum)
    found = contestants(made, x)
    chosen = {name: found[name] for name in (*list(found)[2:4], list(found)[4], list(found)[5])}
    return interleaved(
        {"weights read once": lambda: jax.block_until_ready(read(weights)), **chosen}, turns=turns, per_call=1
    )


def later(made: BayesianRegressor, turns: int) -> dict[str, list[float]]:
    """Seconds of loading in new processes, and of the first prediction."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        made.save(Path(folder) / "model")
        for _ in range(turns):
            answer = subprocess.run(
                [sys.executable, "-c", LATER, str(Path(folder) / "model"), str(INPUTS)],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                env={**os.environ, "ERGONET_COMPILATION_CACHE": "off"},
            )
            for name, seconds in json.loads(answer.stdout).items():
                found.setdefault(name, []).append(seconds)
    return found


def measure(networks: int, rows: int, turns: int) -> dict[str, Any]:
    """Everything, by table."""
    small, large = estimator(SMALL, networks), estimator(LARGE, networks)
    x = np.random.default_rng(1).normal(size=(rows, INPUTS)).astype(np.float32)
    return {
        "many": interleaved(contestants(small, x), turns=turns, per_call=1),
        "one": {str(made.model_.dim): one_row(made, 5 * turns) for made in (small, large)},
        "later": {str(made.model_.dim): later(made, max(turns // 3, 1)) for made in (small, large)},
        "load": os.getloadavg()[1],
    }


def goals(found: dict[str, Any]) -> list[Goal]:
    """The targets."""
    many, ours = found["many"], found["many"]["Ergonet, mean and sd"]
    least, most = sorted(found["one"], key=int)
    reading = found["one"][most]
    loading, first = found["later"][most], found["later"][least]
    return [
        Goal("4096 rows: NumPy loop / ours", ratios(many["loop over networks, NumPy"], ours), 5.0, at_most=False),
        Goal(
            "4096 rows: loop over one compiled network / ours",
            ratios(many["loop over networks, one compiled network"], ours),
            5.0,
            at_most=False,
            decides=False,
        ),
        Goal("4096 rows: ours / floor", ratios(ours, many["floor: products and activations"]), 1.5, at_most=True),
        Goal(
            f"one row, {least} weights: milliseconds",
            Spread.of([one / 1e3 for one in found["one"][least]["Ergonet, mean and sd"]]),
            1.0,
            at_most=True,
        ),
        Goal(
            f"one row, {most} weights: ours / weights read once",
            ratios(reading["Ergonet, mean and sd"], reading["weights read once"]),
            2.0,
            at_most=True,
        ),
        Goal(f"{most} weights: load, seconds", Spread.of(loading["load"]), 0.3, at_most=True),
        Goal(f"{most} weights: read all draws, seconds", Spread.of(loading["read all draws"]), 0.3, at_most=True),
        Goal(
            f"{least} weights: first prediction without compilation, seconds",
            Spread.of(first["first prediction, without compilation"]),
            1.0,
            at_most=True,
        ),
    ]


def text(found: dict[str, Any], networks: int, rows: int) -> str:
    """The tables, in Markdown."""

    def block(times: dict[str, list[float]], scale: float, pattern: str) -> list[tuple[str, str]]:
        return [(name, Spread.of([one * scale for one in values]).text(pattern)) for name, values in times.items()]

    lines = [
        ABOUT.format(networks=networks, load=found["load"], cores=num_cores()),
        f"\n### {rows} rows, 5-20-20-1\n\n",
        page.table(("", "milliseconds"), block(found["many"], 1e-3, "{:.0f}")),
    ]
    for dim, times in found["one"].items():
        lines += [f"\n### One row, {dim} weights\n\n", page.table(("", "milliseconds"), block(times, 1e-3, "{:.2f}"))]
    for dim, times in found["later"].items():
        lines += [
            f"\n### After loading, in a new process, {dim} weights\n\n",
            page.table(("", "seconds"), block(times, 1, "{:.3f}")),
        ]
    return "".join([*lines, "\n## Targets\n", page.goal_table(goals(found))])


def main(arguments: list[str]) -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prediction", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few networks and turns; needs --out")
    parser.add_argument("--out", type=Path, default=None, help="folder to write, docs/results unless set")
    given = parser.parse_args(arguments)
    if given.quick and given.out is None:
        parser.error("--quick needs --out: its figures mean nothing.")
    networks, rows, turns = (40, 600, 1) if given.quick else (1000, 4096, 3)
    began = time.perf_counter()
    found = measure(networks, rows, turns)
    about = page.describe(
        "python -m benchmarks.prediction",
        quick=given.quick,
        settings={"networks": networks, "rows": rows, "turns": turns, "seconds": time.perf_counter() - began},
    )
    out = given.out or ROOT / "docs" / "results"
    page.write_measured(out / "prediction", "Predictions", {"about": about, **found}, text(found, networks, rows))
    sys.stdout.write(page.goal_table(goals(found)))


if __name__ == "__main__":
    main(sys.argv[1:])
