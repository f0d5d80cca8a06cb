"""Time steps of `posteriors` (PyTorch) on the problem of `minibatches.py`, and print JSON.

Run it with an interpreter that has both packages; it needs nothing of this project. Arguments: rows and steps.
"""

import json
import sys
import time
from importlib.metadata import version
from typing import Any

import posteriors  # pyright: ignore[reportMissingImports]
import torch  # pyright: ignore[reportMissingImports]

BATCH, RATE = 500, 1e-6


def main(rows: int, steps: int) -> None:
    """Time each kernel, after one untimed call."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(rows, 784, generator=generator), torch.randint(0, 10, (rows,), generator=generator)
    network = torch.nn.Sequential(torch.nn.Linear(784, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
    start = {name: one.detach().clone() for name, one in network.named_parameters()}

    def log_posterior(weights: dict[str, Any], batch: tuple[Any, Any]) -> tuple[Any, Any]:
        images, labels = batch
        logits = torch.func.functional_call(network, weights, (images,))
        loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum") * rows / len(images)
        prior = sum(0.5 * (one**2).sum() for one in weights.values())
        return -(loss + prior), torch.zeros(())

    found: dict[str, Any] = {"versions": {"torch": version("torch"), "posteriors": version("posteriors")}}
    kernels = {
        "SGLD": posteriors.sgmcmc.sgld.build(log_posterior, lr=2 * RATE),
        "SGHMC": posteriors.sgmcmc.sghmc.build(log_posterior, lr=RATE**0.5, alpha=0.01 / RATE**0.5),
    }
    order = torch.randperm(rows, generator=generator)
    for name, kernel in kernels.items():
        state, seconds = kernel.init(start), 0.0
        for _ in range(2):
            began = time.perf_counter()
            for number in range(steps):
                first = number * BATCH % (rows - BATCH + 1)
                chosen = order[first : first + BATCH]
                state, _ = kernel.update(state, (x[chosen], y[chosen]))
            seconds = time.perf_counter() - began
        found[name] = [seconds / steps * 1e6]
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
