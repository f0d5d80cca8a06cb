"""TensorFlow Probability's HMC in a process and an environment of its own: it imports nothing of this repository.

`python tfp_worker.py PROBLEM.npz` reads lines of JSON, `{"steps": L, "draws": n, "xla": true}`, and answers each with
the seconds of the draws. The first call of every kind of work is not timed, so it holds the compilation.
"""

import importlib
import json
import sys
import time
from typing import Any

import numpy as np


def density(tf: Any, path: str) -> Any:
    """Log density of the weight arrays of a tanh network: N(0, 1) on all weights, known noise."""
    with np.load(path) as content:
        x, y, noise = tf.constant(content["x"]), tf.constant(content["y"]), float(content["noise"])

    def log_prob(*weights: Any) -> Any:
        hidden = x
        for index in range(0, len(weights), 2):
            hidden = tf.linalg.matmul(hidden, weights[index]) + weights[index + 1]
            hidden = hidden if index + 2 == len(weights) else tf.tanh(hidden)
        prior = sum(tf.reduce_sum(tf.square(one)) for one in weights)
        return -0.5 * (prior + tf.reduce_sum(tf.square((y - hidden[:, 0]) / noise)))

    return log_prob


def main(path: str) -> None:
    """Answer requests until the input ends."""
    # Imported by name, because the packages are absent where type checkers run.
    tf: Any = importlib.import_module("tensorflow")
    tfp: Any = importlib.import_module("tensorflow_probability")
    log_prob = density(tf, path)
    with np.load(path) as content:
        step_size = float(content["step_size"])
        start = [tf.constant(content[f"start_{index}"]) for index in range(int(content["arrays"]))]
    versions = {"tensorflow": tf.__version__, "tensorflow-probability": tfp.__version__}
    print(json.dumps({"versions": versions, "log_prob": float(log_prob(*start))}), flush=True)
    programs: dict[tuple[int, int, bool], Any] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        steps, draws, xla = asked["steps"], asked["draws"], asked["xla"]
        if (steps, draws, xla) not in programs:
            kernel = tfp.mcmc.HamiltonianMonteCarlo(log_prob, step_size=step_size, num_leapfrog_steps=steps)

            def run(kernel: Any = kernel, draws: int = draws) -> Any:
                return tfp.mcmc.sample_chain(
                    num_results=draws, num_burnin_steps=0, current_state=start, kernel=kernel, trace_fn=None
                )

            programs[steps, draws, xla] = tf.function(run, jit_compile=xla)
            programs[steps, draws, xla]()
        began = time.perf_counter()
        [np.asarray(one) for one in programs[steps, draws, xla]()]
        print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
