"""Time of `import ergonet`, with the names in everyday use, and of `import jax`, each in a fresh process."""

import subprocess
import sys

from benchmarks.timing import Spread, ratios

_CLOCK = "import time; began = time.perf_counter(); {}; print(time.perf_counter() - began)"
STATEMENTS = {
    "jax": "import jax",
    "ergonet": "import ergonet; ergonet.sample, ergonet.NUTS, ergonet.BayesianNetwork, ergonet.MLP",
}


def measure(turns: int) -> dict[str, list[float]]:
    """Seconds of each statement, interleaved; one unmeasured turn warms the file cache."""
    seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for turn in range(turns + 1):
        for name, statement in STATEMENTS.items():
            answer = subprocess.run(
                [sys.executable, "-c", _CLOCK.format(statement)], capture_output=True, text=True, check=True
            )
            if turn:
                seconds[name].append(float(answer.stdout))
    return seconds


def ratio(seconds: dict[str, list[float]]) -> Spread:
    """Ratio of `import ergonet` to `import jax`."""
    return ratios(seconds["ergonet"], seconds["jax"])
