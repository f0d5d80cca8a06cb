"""A grid over the numbers of a kernel's settings compiles each program once: numbers are arguments, not constants.

Python calls of the log density are traces, and without a new trace there is no new compilation.
"""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import (
    HMC,
    MALA,
    NUTS,
    SGHMC,
    SGLD,
    SGNUTS,
    XHMC,
    DelayedRejectionHMC,
    NaiveSGHMC,
    RandomWalk,
    SequentialKernel,
    Target,
    WindowedHMC,
    noise_models,
    schedules,
)
from ergonet.hamiltonian.metric import DiagonalMetric
from tests.compile.test_minibatch_traces import target as target_of_rows
from tests.compile.test_trace_counts import Counting
from tests.ledger import Ledger
from tests.stages import cases

TREE: dict[str, Any] = {"max_doublings": 3}
ROWS: dict[str, Any] = {"batch_size": 4}


def scaled(scale):
    return DiagonalMetric(scale=jnp.full(7, scale))


def sequence(first, second, after):
    return SequentialKernel(SGLD(learning_rate=first, **ROWS), SGHMC(learning_rate=second, **ROWS), after=after)


GRIDS = {
    "nuts": (lambda e: NUTS(step_size=e, **TREE), ((0.1, 0.2),)),
    "nuts, tuned": (lambda a: NUTS(target_acceptance=a, **TREE), ((0.6, 0.8, 0.9),)),
    "nuts, a metric": (lambda s, e: NUTS(metric=scaled(s), step_size=e, **TREE), ((0.5, 2.0), (0.1, 0.2))),
    "xhmc": (lambda d, e: XHMC(d, step_size=e, **TREE), ((0.1, 0.4), (0.1, 0.3))),
    "hmc": (
        lambda n, e, j, k: HMC(num_steps=n, step_size=e, step_jitter=j, length_jitter=k),
        ((2, 3), (0.1, 0.2), (0.0, 0.3), (0.0, 0.5)),
    ),
    "delayed rejection": (
        lambda r, n, e: DelayedRejectionHMC(r, num_steps=n, step_size=e),
        ((2.0, 4.0), (4, 5), (1.0, 2.0)),
    ),
    "windowed": (lambda w, n, e: WindowedHMC(w, num_steps=n, step_size=e), ((2, 3), (4, 5), (0.1, 0.2))),
    "mala": (lambda e: MALA(step_size=e), ((0.1, 0.2),)),
    "random walk": (lambda a: RandomWalk(target_acceptance=a), ((0.2, 0.3),)),
}
MINIBATCH_GRIDS = {
    "sgld": (lambda e, t: SGLD(learning_rate=e, temperature=t, **ROWS), ((0.01, 0.02), (0.5, 1.0))),
    "sgld, schedules": (
        lambda s, p: SGLD(learning_rate=0.01, schedule=schedules.Polynomial(scale=s, power=p), **ROWS),
        ((10.0, 20.0), (0.6, 0.9)),
    ),
    "sghmc": (
        lambda e, a, t, k: SGHMC(learning_rate=e, momentum_decay=a, temperature=t, resample_every=k, **ROWS),
        ((0.01, 0.02), (0.1, 0.3), (0.5, 1.0), (3, 4)),
    ),
    "sghmc, noise": (
        lambda k, b: SGHMC(
            learning_rate=0.001,
            momentum_decay=0.9,
            noise=noise_models.EstimatedNoise(every=k, decay=b),
            **ROWS,
        ),
        ((2, 3), (0.5, 0.9)),
    ),
    "sghmc, searched": (lambda a: SGHMC(momentum_decay=a, **ROWS), ((0.1, 0.3),)),
    "naive": (lambda e, n: NaiveSGHMC(learning_rate=e, num_steps=n, metropolis=True, **ROWS), ((0.01, 0.02), (2, 3))),
    "sg-nuts": (lambda e, a: SGNUTS(learning_rate=e, momentum_decay=a, **TREE, **ROWS), ((0.01, 0.02), (0.1, 0.3))),
    "sequential": (sequence, ((0.01, 0.02), (0.001, 0.002), (3, 4))),
}


def traces_of(calls, runs):
    """Traces of the first run and of all others, and the draws of each."""
    draws, counts = [], []
    for run in runs:
        before = len(calls)
        draws.append(run())
        counts.append(len(calls) - before)
    return counts, draws


def assert_compiled_once(counts, draws):
    assert counts[0] > 0
    assert not any(counts[1:]), counts
    assert all(np.any(one != draws[0]) for one in draws[1:])  # and the numbers are not ignored


def shortened(values):
    """The corner of a grid and its neighbors."""
    first = tuple(axis[0] for axis in values)
    return [first] + [
        one for one in itertools.product(*values) if sum(a != b for a, b in zip(one, first, strict=True)) == 1
    ]


@pytest.mark.parametrize("name", cases(GRIDS, quick=["nuts", "hmc"]))
def test_a_grid_of_settings_compiles_once(name):
    make, values = GRIDS[name]
    calls = Ledger()
    target = Target.from_logdensity(Counting(jnp.arange(1.0, 8.0), calls), jnp.ones(7))
    settings = {"num_chains": 1, "num_warmup": 20, "num_draws": 6, "seed": 1, "progress": False}
    runs = [lambda at=at: ergonet.sample(target, make(*at), **settings).positions for at in shortened(values)]
    counts, draws = traces_of(calls, runs)
    assert_compiled_once(counts, draws)


@pytest.mark.parametrize("name", cases(MINIBATCH_GRIDS, quick=["sghmc"]))
def test_a_grid_of_settings_of_a_minibatch_kernel_compiles_once(name):
    make, values = MINIBATCH_GRIDS[name]
    calls = Ledger()
    target = target_of_rows(calls, 0)
    settings = {"num_chains": 1, "num_warmup": 2, "num_draws": 3, "seed": 1, "progress": False}
    runs = [lambda at=at: ergonet.sample(target, make(*at), **settings).positions for at in shortened(values)]
    counts, draws = traces_of(calls, runs)
    assert_compiled_once(counts, draws)


def test_kernels_are_printed_with_plain_numbers():
    for make, values in (GRIDS | MINIBATCH_GRIDS).values():
        kernel = make(*(axis[0] for axis in values))
        assert "np." not in repr(kernel), kernel
    assert "step_size=0.1" in repr(NUTS(step_size=0.1))
    assert "num_steps=3" in repr(HMC(num_steps=3))
    assert repr(ergonet.criteria.Exhaustive(0.2)) == "Exhaustive(delta=0.2)"
