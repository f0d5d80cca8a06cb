"""Settings, results and command line of the adapters.

An adapter runs in its own process, which loads only its sampler and the arrays of a problem, so that memory and
start-up time are those of the sampler. The time that JAX reports for tracing and compiling is recorded separately.
"""

import argparse
import importlib.metadata
import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.problems import Problem, load


@dataclass(frozen=True)
class Settings:
    """Settings of all samplers."""

    problem: Problem
    num_warmup: int
    num_draws: int
    seed: int
    target_acceptance: float = 0.8

    @property
    def num_chains(self) -> int:
        """Number of chains, one per initial position."""
        return len(self.problem.starts)


@dataclass(frozen=True)
class Outcome:
    """Result of a sampler.

    Attributes:
        positions: draws `[chain, draw, dim]`, in the order of `problems.py`.
        gradients: number of gradients of all chains, warm-up included.
        divergences: number of divergent draws.
        step_size: step size, averaged over chains.
        note: remark for the table.
    """

    positions: np.ndarray
    gradients: int
    divergences: int
    step_size: float
    note: str = ""


class CompileClock:
    """Measures the time in which JAX traces, lowers or compiles; nested events count once."""

    def __init__(self):
        import jax

        self._spans: list[tuple[float, float]] = []
        jax.monitoring.register_event_duration_secs_listener(self._on_event)

    def _on_event(self, event: str, duration_secs: float, **_kwargs: str | int) -> None:
        if event.startswith("/jax/core/compile/"):
            now = time.perf_counter()
            self._spans.append((now - duration_secs, now))

    def seconds(self) -> float:
        """Seconds covered by all events so far."""
        total, reached = 0.0, float("-inf")
        for start, end in sorted(self._spans):
            total += max(0.0, end - max(start, reached))
            reached = max(reached, end)
        return total


def peak_memory() -> float:
    """Peak resident set size of this process so far, MiB."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def main(prepare: Callable[[Settings], Callable[[], Outcome]], packages: tuple[str, ...]) -> None:
    """Parse the command line, run the sampler once, and write the record.

    Args:
        prepare: imports the library and returns the timed function.
        packages: packages whose versions are recorded.
    """
    parser = argparse.ArgumentParser(description="Run one sampler once and write what it cost.")
    parser.add_argument("--problem", type=Path, required=True, help="file that benchmarks.problems has saved")
    parser.add_argument("--out", type=Path, required=True, help="record (JSON); positions go to the same name, .npy")
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    settings = Settings(load(options.problem), options.warmup, options.draws, options.seed)

    began = time.perf_counter()
    sampler = prepare(settings)
    clock = CompileClock()
    imported = time.perf_counter()
    outcome = sampler()
    ended = time.perf_counter()
    memory = peak_memory()

    expected = (settings.num_chains, settings.num_draws, settings.problem.dim)
    if outcome.positions.shape != expected:
        raise RuntimeError(f"The sampler returned positions of shape {outcome.positions.shape}, not {expected}.")
    np.save(options.out.with_suffix(".npy"), outcome.positions)
    compiling = clock.seconds()
    record = {
        "import_seconds": imported - began,
        "compile_seconds": compiling,
        "run_seconds": ended - imported - compiling,
        "peak_memory_mib": memory,
        "gradients": outcome.gradients,
        "divergences": outcome.divergences,
        "step_size": outcome.step_size,
        "note": outcome.note,
        "versions": {name: importlib.metadata.version(name) for name in packages},
    }
    options.out.write_text(json.dumps(record, indent=1), encoding="utf-8")
