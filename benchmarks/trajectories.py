"""Seconds of a draw of static HMC by the number of steps, beside TensorFlow Probability's.

`python -m benchmarks.trajectories --peer PYTHON` writes docs/results/trajectories.md; PYTHON is that of an environment
with `tensorflow-cpu`, `tensorflow-probability` and `tf-keras`, without which there is no peer. `--quick --out FOLDER`
shows that it works.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import ergonet
from benchmarks import page
from benchmarks.problems import Problem, ergonet_target, log_density, regression, unravel
from benchmarks.targets import Goal
from benchmarks.timing import Spread, ratios
from ergonet.execution.threads import num_cores

ROOT = Path(__file__).resolve().parents[1]
WORKER = Path(__file__).with_name("tfp_worker.py")
STEP_SIZE = 1e-5  # so that no trajectory is cut short by a divergence
FULL = {"rows": 12_800, "lengths": (32, 128, 512), "draws": 4, "turns": 5}
QUICK = {"rows": 100, "lengths": (4, 8), "draws": 2, "turns": 1}
OURS, PLAIN, XLA = "Ergonet", "TensorFlow Probability", "TensorFlow Probability, compiled by XLA"

ABOUT = """
One chain of HMC with a fixed number of leapfrog steps and the identity metric, {rows} rows, 5-20-20-1 tanh with biases:
561 weights with N(0, 1) priors, known noise, float32; the shape of the networks of Ask2022, whose programs were written
for TensorFlow Probability. A turn is {draws} draws of each contestant, one contestant after another; compilation is not
counted. On average, {load:.1f} processes wanted one of the {cores} cores in the last 5 minutes.
"""


def enlarged(rows: int) -> Problem:
    """The regression of 561 weights with its rows repeated or cut; only the time is of interest."""
    made = regression()
    chosen = np.arange(rows) % len(made.x)
    return replace(made, x=made.x[chosen], y=made.y[chosen])


def ours(problem: Problem) -> Callable[[int, int], float]:
    """Seconds of draws with a number of steps."""
    target = ergonet_target(problem)

    def run(steps: int, draws: int) -> float:
        kernel = ergonet.HMC(
            num_steps=steps, step_size=STEP_SIZE, length_jitter=0.0, step_jitter=0.0, metric="identity"
        )
        found = ergonet.sample(
            target, kernel, num_chains=1, num_warmup=0, num_draws=draws, seed=0, progress=False, stop_when_stuck=False
        )
        return found.seconds["sampling"]

    return run


@contextmanager
def peer(python: str | None, problem: Problem) -> Generator[tuple[dict[str, str], Mapping[str, Callable[..., float]]]]:
    """Versions and contestants of the other environment; none without it."""
    if python is None:
        yield {}, {}
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        start = {f"start_{index}": one for index, one in enumerate(unravel(problem, problem.starts[0]))}
        np.savez(path, x=problem.x, y=problem.y, noise=problem.noise, step_size=STEP_SIZE, arrays=len(start), **start)
        command = [python, str(WORKER), str(path)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            asking, answers = process.stdin, process.stdout
            assert asking is not None
            assert answers is not None

            def ask(steps: int, draws: int, *, xla: bool) -> float:
                asking.write(json.dumps({"steps": steps, "draws": draws, "xla": xla}) + "\n")
                asking.flush()
                return json.loads(answers.readline())["seconds"]

            said = json.loads(answers.readline())
            density = float(log_density(problem)(problem.starts[0]))
            assert np.isclose(said["log_prob"], density, rtol=1e-4), "the contestants have different densities"
            yield (
                said["versions"],
                {
                    PLAIN: lambda steps, draws: ask(steps, draws, xla=False),
                    XLA: lambda steps, draws: ask(steps, draws, xla=True),
                },
            )
            asking.close()


def measure(settings: Mapping[str, Any], python: str | None) -> dict[str, Any]:
    """Milliseconds of a draw by length and contestant, turn by turn."""
    problem = enlarged(settings["rows"])
    with peer(python, problem) as (versions, others):
        contestants = {OURS: ours(problem), **others}
        found: dict[str, dict[str, list[float]]] = {}
        for steps in settings["lengths"]:
            times: dict[str, list[float]] = {name: [] for name in contestants}
            for turn in range(settings["turns"] + 1):  # the first one compiles
                for name, run in contestants.items():
                    seconds = run(steps, settings["draws"])
                    if turn:
                        times[name].append(1e3 * seconds / settings["draws"])
            found[str(steps)] = times
    return {"milliseconds": found, "versions": versions, "load": os.getloadavg()[1]}


def slope(found: Mapping[str, Mapping[str, list[float]]]) -> Spread:
    """The power of the number of steps by which our seconds of a draw grow, by turn."""
    steps = np.log([float(one) for one in found])
    turns = np.log([one[OURS] for one in found.values()])
    return Spread.of([float(np.polyfit(steps, turn, 1)[0]) for turn in turns.T])


def goals(found: Mapping[str, Mapping[str, list[float]]]) -> list[Goal]:
    """The targets."""
    longest = list(found)[-1]
    times = found[longest]
    growth = slope(found)
    made = [
        Goal("power of the number of steps: at most", growth, 1.1, at_most=True),
        Goal("power of the number of steps: at least", growth, 0.9, at_most=False),
    ]
    made += [
        Goal(f"L = {longest}: {name} / ours", ratios(times[name], times[OURS]), 1.0, at_most=False)
        for name in (PLAIN, XLA)
        if name in times
    ]
    return made


def text(found: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """The tables, in Markdown."""
    measured = found["milliseconds"]
    names = list(next(iter(measured.values())))
    rows = [
        (f"L = {steps}", *(Spread.of(times[name]).text("{:.1f}") for name in names))
        for steps, times in measured.items()
    ]
    return "".join(
        [
            ABOUT.format(rows=settings["rows"], draws=settings["draws"], load=found["load"], cores=num_cores()),
            "\n### Milliseconds of a draw\n\n",
            page.table(("", *names), rows),
            "\n## Targets\n",
            page.goal_table(goals(measured)),
        ]
    )


def main(arguments: list[str]) -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trajectories", description=__doc__)
    parser.add_argument("--peer", metavar="PYTHON", help="Python of an environment with TensorFlow Probability")
    parser.add_argument("--quick", action="store_true", help="few rows, steps and turns; needs --out")
    parser.add_argument("--out", type=Path, default=None, help="folder to write, docs/results unless set")
    given = parser.parse_args(arguments)
    if given.quick and given.out is None:
        parser.error("--quick needs --out: its figures mean nothing.")
    settings = QUICK if given.quick else FULL
    found = measure(settings, given.peer)
    about = page.describe("python -m benchmarks.trajectories --peer PYTHON", quick=given.quick, settings=settings)
    about["versions"] |= found.pop("versions")
    out = given.out or ROOT / "docs" / "results"
    page.write_measured(out / "trajectories", "Trajectories", {"about": about, **found}, text(found, settings))
    sys.stdout.write(page.goal_table(goals(found["milliseconds"])))


if __name__ == "__main__":
    main(sys.argv[1:])
