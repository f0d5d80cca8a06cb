"""Rounds of all samplers in the order A B C A B C; each run has its own process, and no two run at once."""

import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.problems import Problem, predictions
from benchmarks.timing import Spread

MARGIN, MOST_TRIES = 1.15, 4  # of the draws that an effective sample size takes
WHOLE = "effective_draws_per_whole_second"  # of compiling, warm-up and sampling
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Contestant:
    """A sampler in the comparison.

    Attributes:
        module: name of its adapter in `benchmarks/samplers`.
        title: title in the tables.
        requires: package that must be installed.
        is_peer: whether it belongs to another library.
    """

    module: str
    title: str
    requires: str
    is_peer: bool

    @property
    def is_present(self) -> bool:
        """Whether the package is installed."""
        return importlib.util.find_spec(self.requires) is not None


CONTESTANTS = (
    Contestant("ergonet_nuts", "Ergonet NUTS", "ergonet", is_peer=False),
    Contestant("numpyro_peer", "NumPyro NUTS, parallel", "numpyro", is_peer=True),
    Contestant("ergonet_hmc", "Ergonet HMC, learned length", "ergonet", is_peer=False),
    Contestant("ergonet_default", "Ergonet, the default", "ergonet", is_peer=False),
    Contestant("ergonet_mclmc", "Ergonet MCLMC (biased)", "ergonet", is_peer=False),
    Contestant("blackjax_peer", "BlackJAX NUTS, vmap", "blackjax", is_peer=True),
    Contestant("ergonet_nuts_rows_first", "Ergonet NUTS, the peers' density", "ergonet", is_peer=False),
    Contestant("nutpie_peer", "nutpie NUTS", "nutpie", is_peer=True),
)


def start_process(module: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
    """Run `python -m module` and wait for it.

    Raises:
        RuntimeError: the process failed; the message ends with the last lines of its stderr.
    """
    answer = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise RuntimeError(f"`python -m {module}` ended with {answer.returncode}:\n{answer.stderr[-3000:]}")


def run_contestant(
    contestant: Contestant, problem: Problem, folder: Path, *, num_warmup: int, num_draws: int, seed: int
) -> dict[str, Any]:
    """Run a sampler once; returns the record of its process, with the ESS of its predictions."""
    out = folder / f"{contestant.module}.json"
    began = time.perf_counter()
    start_process(
        f"benchmarks.samplers.{contestant.module}",
        *("--problem", str(folder / f"{problem.name}.npz"), "--out", str(out)),
        *("--warmup", str(num_warmup), "--draws", str(num_draws), "--seed", str(seed)),
        environment={"ERGONET_COMPILATION_CACHE": "off"},  # peers have none
    )
    seconds = time.perf_counter() - began
    record = json.loads(out.read_text(encoding="utf-8"))
    positions = np.load(out.with_suffix(".npy"))
    least, median = effective_draws(predictions(problem, positions))
    record |= {"least_effective_draws": least, "median_effective_draws": median}
    record["effective_draws_per_second"] = least / record["run_seconds"]
    record[WHOLE] = least / whole_seconds(record)
    record |= {"process_seconds": seconds, "num_draws": num_draws}
    return record


def whole_seconds(record: dict[str, Any]) -> float:
    """Seconds of compiling, warm-up and sampling."""
    return record["run_seconds"] + record["compile_seconds"]


def within(
    contestant: Contestant,
    problem: Problem,
    folder: Path,
    seconds: float,
    first: dict[str, Any],
    *,
    num_warmup: int,
    seed: int,
) -> dict[str, Any]:
    """Run a sampler with as many draws as `seconds` allow at the pace of its `first` run; returns its record.

    It makes no fewer draws than the first. Otherwise it takes less time than `seconds`, because the warm-up and
    compiling do not take longer for more draws.
    """
    num_draws = max(first["num_draws"], math.floor(first["num_draws"] * seconds / whole_seconds(first)))
    return run_contestant(contestant, problem, folder, num_warmup=num_warmup, num_draws=num_draws, seed=seed)


def until_effective(
    contestant: Contestant, problem: Problem, folder: Path, wanted: int, first: dict[str, Any], *, num_warmup: int
) -> dict[str, Any]:
    """Run a sampler with about as few draws as `wanted` effective ones need; returns the record of the last try.

    Args:
        contestant: the sampler.
        problem: the problem.
        folder: folder of files.
        wanted: wanted smallest ESS of a prediction.
        first: a record of the sampler, which tells how many draws that takes.
        num_warmup: number of warm-up transitions.
    """
    record = first
    for seed in range(MOST_TRIES):
        held = record["least_effective_draws"]
        share = wanted / held if held > 0 else 1.0  # NaN of too few draws
        num_draws = math.ceil(MARGIN * share * record["num_draws"])
        record = run_contestant(contestant, problem, folder, num_warmup=num_warmup, num_draws=num_draws, seed=seed)
        if record["least_effective_draws"] >= wanted:
            break
    return record


def effective_draws(values: np.ndarray) -> tuple[float, float]:
    """Smallest and median bulk effective sample size of quantities `[chain, draw, quantity]`."""
    statistics: Any = importlib.import_module("arviz_stats.base").array_stats
    sizes = np.asarray(statistics.ess(np.moveaxis(values, 2, 0), chain_axis=1, draw_axis=2, method="bulk"))
    return float(np.min(sizes)), float(np.median(sizes))


def spread(records: list[dict[str, Any]], name: str) -> Spread:
    """Median and range of a figure over the records of a sampler."""
    return Spread.of([float(record[name]) for record in records])


def best_peer(records: dict[str, list[dict[str, Any]]], name: str, *, largest: bool) -> tuple[Contestant, float] | None:
    """The peer with the best median of a figure, and that median; None if no peer is installed."""
    found = [(one, spread(records[one.module], name).median) for one in CONTESTANTS if one.is_peer and one.is_present]
    if not found:
        return None
    return (max if largest else min)(found, key=lambda pair: pair[1])
