"""Steps of minibatch kernels: `python -m benchmarks.minibatches` writes docs/results/minibatches.md.

Steps of Ergonet and BlackJAX are timed interleaved in one process; `posteriors` (PyTorch), if requested, runs in
another process.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import options, page
from benchmarks.targets import Goal
from benchmarks.timing import Spread, interleaved, ratios
from ergonet import MLP, SGHMC, SGLD, BayesianNetwork, likelihoods, priors
from ergonet.baselines import SGD
from ergonet.draws.callback import NoCallback
from ergonet.execution.threads import CPU_OPTIONS
from ergonet.inference import epochs
from ergonet.samplers.stochastic.ordering import shuffle

INPUTS, HIDDEN, CLASSES, BATCH = 784, 100, 10, 500
FULL = {"rows": 60_000, "turns": 15, "steps": 120}
SMOKE = {"rows": 1000, "turns": 2, "steps": 4}
RATE = 1e-6
POSTERIORS = {"SGLD": "posteriors SGLD", "SGHMC": "posteriors SGHMC"}
INTRODUCTION = """# Minibatch steps
Written by `{command}` on {date}. Figures are medians over turns, with the range in parentheses; compared steps ran
interleaved. Absolute figures hold for this machine only; ratios carry over to others.{quick}

- Machine: {machine}.
- Versions: {versions}{torch}.
- Problem: 784-100-10 ReLU with biases, N(0, 1) on all 79510 weights, batches of 500 of {rows} rows, gathered in
  shuffled order inside the compiled loop, which may use every core.
"""


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark, write the results and print which targets are met."""
    parser = options.parser("Speed of minibatch steps beside other libraries.", "minibatches.md and .json")
    parser.add_argument("--torch-python", help="an interpreter that has `posteriors` and PyTorch; else they are absent")
    chosen = options.parsed(parser, arguments)
    settings = SMOKE if chosen.quick else FULL
    times, versions = measure(settings, chosen.torch_python)
    words = "python -m benchmarks.minibatches" + (" --quick" if chosen.quick else "")
    about = page.describe(words, quick=chosen.quick, settings=settings)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "minibatches.md").write_text(text(times, about, versions), encoding="utf-8")
    record = {"about": about, "torch": versions, "microseconds": times}
    (chosen.out / "minibatches.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    for goal in goals(times):
        print(f"{'met    ' if goal.is_met else 'NOT MET'}  {goal.measured.median:6.2f}  {goal.what}")


def measure(settings: dict[str, int], torch_python: str | None) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Microseconds per step by name, and the versions of the packages in the other process."""
    x, y = data(settings["rows"])
    programs = ours(x, y, settings["steps"]) | {"BlackJAX SGLD": blackjax_sgld(x, y, settings["steps"])}
    versions: dict[str, str] = {}
    peers: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(settings["turns"]):
        for name, values in interleaved(programs, turns=1, per_call=settings["steps"]).items():
            times[name] += values
        if torch_python is not None and turn % 3 == 0:
            found = posteriors(torch_python, settings)
            versions = found.pop("versions")
            for name, values in found.items():
                peers.setdefault(POSTERIORS[name], []).extend(values)
    return times | peers, versions


def data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Random images and classes; a step's time does not depend on what is in them."""
    rng = np.random.default_rng(0)
    return rng.random((rows, INPUTS), np.float32), rng.integers(0, CLASSES, rows).astype(np.int32)


def ours(x: np.ndarray, y: np.ndarray, steps: int) -> dict[str, Callable[[], object]]:
    """Ergonet's kernels as blocking calls, compiled as `sample` compiles them for a single chain."""
    model = BayesianNetwork(
        MLP((INPUTS, HIDDEN, CLASSES), activation="relu"), priors.Normal(1.0), likelihoods.Categorical()
    )
    target = model.condition(x, y)
    rows, callback, rate = target.rows(), NoCallback(), jnp.asarray(RATE)
    words = jnp.zeros(3, jnp.uint32)
    order = shuffle(jax.random.key(0), jnp.asarray(0), num_rows=len(x), batch_size=BATCH, num_epochs=1)
    batches = jnp.resize(order, (steps, BATCH))
    position = target.initial_position(jax.random.key(1))
    zero, count = jnp.zeros((), jnp.int32), jnp.asarray(steps, jnp.int32)
    section = epochs.Section(offset=zero, num_steps=count, steps_per_draw=count, counts=jnp.ones((), bool))
    options: dict[str, Any] = CPU_OPTIONS | {"xla_cpu_multi_thread_eigen": True}
    compiled: dict[str, Any] = {"compiler_options": options}
    program = eqx.filter_jit(epochs.advance, **compiled)
    found: dict[str, Callable[[], object]] = {}
    kernels = {"SGD": SGD, "SGD with momentum": partial(SGD, momentum_decay=0.01), "SGLD": SGLD, "SGHMC": SGHMC}
    for name, kind in kernels.items():
        kernel = kind(learning_rate=RATE, batch_size=BATCH)
        record = epochs.first_record(kernel, target, callback, words, (position, rate))

        def run(kernel: Any = kernel, record: Any = record) -> object:
            after, _ = program(kernel, target, record, (rows, batches, section), callback, capacity=1)
            return jax.block_until_ready(after.state.position)

        found[f"Ergonet {name}"] = run
    return found


def blackjax_sgld(x: np.ndarray, y: np.ndarray, steps: int) -> Callable[[], object]:
    """BlackJAX's SGLD in a compiled loop over the same batches, with a network written as in its examples."""
    import blackjax

    def log_prior(weights: Any) -> Any:
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(weights))

    def log_likelihood(weights: Any, row: Any) -> Any:
        image, label = row
        hidden = jax.nn.relu(image @ weights["w0"] + weights["b0"])
        return jax.nn.log_softmax(hidden @ weights["w1"] + weights["b1"])[label]

    sgld: Any = blackjax.sgld(blackjax.sgmcmc.gradients.grad_estimator(log_prior, log_likelihood, len(x)))
    shapes = {"w0": (INPUTS, HIDDEN), "b0": (HIDDEN,), "w1": (HIDDEN, CLASSES), "b1": (CLASSES,)}
    keys = jax.random.split(jax.random.key(2), len(shapes))
    start = {name: jax.random.normal(key, shape) for key, (name, shape) in zip(keys, shapes.items(), strict=True)}
    rows = jnp.asarray(x), jnp.asarray(y)
    order = jnp.resize(jax.random.permutation(jax.random.key(0), len(x)), (steps, BATCH))

    @jax.jit
    def loop(rows: Any, order: Any, key: Any, state: Any) -> Any:
        def step(number: Any, state: Any) -> Any:
            minibatch = jax.tree.map(lambda leaf: leaf[order[number]], rows)
            return sgld.step(jax.random.fold_in(key, number), state, minibatch, 2 * RATE)

        return jax.lax.fori_loop(0, steps, step, state)

    state = sgld.init(start, None)
    return lambda: jax.block_until_ready(loop(rows, order, jax.random.key(3), state))


def posteriors(python: str, settings: dict[str, int]) -> dict[str, Any]:
    """Microseconds per step of `posteriors`, timed in another process."""
    script = Path(__file__).with_name("posteriors_steps.py")
    answer = subprocess.run(
        [python, str(script), str(settings["rows"]), str(settings["steps"])], capture_output=True, text=True, check=True
    )
    return json.loads(answer.stdout)


def goals(times: dict[str, list[float]]) -> list[Goal]:
    """Targets for the time of minibatch steps."""
    sgd = times["Ergonet SGD"]
    found = [
        Goal("SGHMC step / SGD step of the same stack", ratios(times["Ergonet SGHMC"], sgd), 1.25, at_most=True),
        Goal(
            "SGLD steps per second / BlackJAX SGLD's",
            ratios(times["BlackJAX SGLD"], times["Ergonet SGLD"]),
            1.3,
            at_most=False,
        ),
    ]
    peer = times.get(POSTERIORS["SGHMC"])
    if peer:
        own = Spread.of(times["Ergonet SGHMC"]).median
        spread = Spread.of([one / own for one in peer])
        found.append(Goal("SGHMC steps per second / posteriors SGHMC's", spread, 1.7, at_most=False))
    return found


def text(times: dict[str, list[float]], about: dict[str, Any], versions: dict[str, str]) -> str:
    """The page, in Markdown."""
    torch = "".join(f", {name} {version}" for name, version in versions.items())
    settings = about["settings"]
    quick = page.QUICK if about["quick"] else ""
    shown = {key: about[key] for key in ("command", "date", "machine")}
    installed = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    head = INTRODUCTION.format(**shown, versions=installed, torch=torch, quick=quick, rows=settings["rows"])
    sgd = Spread.of(times["Ergonet SGD"]).median
    lines = ["| step | microseconds | relative to Ergonet SGD |", "| --- | --- | --- |"]
    for name, values in times.items():
        found = Spread.of(values)
        lines.append(f"| {name} | {found.text('{:.0f}')} | {found.median / sgd:.2f} |")
    absent = (name for name in POSTERIORS.values() if name not in times)
    lines += [f"| {name} | not measured: no interpreter with `posteriors` was given | |" for name in absent]
    targets = ["", "## Targets", "| what | measured | target | met |", "| --- | --- | --- | --- |"]
    targets += [
        f"| {goal.what} | {goal.measured.text()} | {goal.bound_text} | {'yes' if goal.is_met else '**no**'} |"
        for goal in goals(times)
    ]
    return "\n".join([head, *lines, *targets, ""])


if __name__ == "__main__":
    main(sys.argv[1:])
