"""From the start of a process to its first prediction, with an empty and then a filled cache of compiled programs.

`python -m benchmarks.first_prediction` fits a regression of 200 rows and 10 columns in processes of their own, and
prints the seconds of the stages, by the wall and of the processor, and how many programs were compiled. A last fit in
the second process has another number of rows, as another fold would.
"""

import json
import os
import subprocess
import sys
import tempfile

STAGES = ("import", "fit", "predict", "another fold")
PROGRAM = """
import time
began = time.perf_counter(), time.process_time()
import json, sys
import numpy as np

stages, compiled = [], []
def stage():
    global began
    now = time.perf_counter(), time.process_time()
    stages.append([now[0] - began[0], now[1] - began[1], len(compiled)])
    compiled.clear()
    began = time.perf_counter(), time.process_time()

import jax
from ergonet import BayesianRegressor
jax.monitoring.register_event_listener(
    lambda event, **_: compiled.append(1) if event.endswith("/cache_misses") else None)
stage()
rng = np.random.default_rng(0)
x = rng.normal(size=(200, 10))
y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.3 * rng.normal(size=200)
settings = dict(num_chains=4, num_warmup=50, num_draws=50, random_state=0)
import warnings
warnings.simplefilter("ignore")
model = BayesianRegressor(**settings).fit(x, y)
stage()
model.predict(x, return_std=True)
stage()
BayesianRegressor(**settings).fit(x[:190], y[:190]).predict(x[190:], return_std=True)
stage()
print(json.dumps(stages))
"""


def measure(cache: str) -> list[list[float]]:
    """Wall seconds, processor seconds and compiled programs of each stage of a process.

    Args:
        cache: folder of the cache of compiled programs.
    """
    script = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        script, env=os.environ | {"XDG_CACHE_HOME": cache}, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as cache:
        for name in ("empty cache", "filled cache"):
            found = dict(zip(STAGES, measure(cache), strict=True))
            first = [sum(found[stage][kind] for stage in STAGES[:3]) for kind in range(3)]
            for stage, (wall, processor, programs) in {**found, "to the first prediction": first}.items():
                figures = f"{wall:6.1f} s  {processor:6.1f} s of the processor  {programs:3.0f} compiled"
                sys.stdout.write(f"{name:12}  {stage:23}  {figures}\n")


if __name__ == "__main__":
    main()
