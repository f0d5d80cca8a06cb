"""Scores from as many draws as fit in the time that is left: evenly spaced ones, or all of them."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import numpy as np

from ergonet.draws.quantities import spread_draws
from ergonet.draws.samples import Samples
from ergonet.inference.waiting import LateError

FIRST_WORK = 5e4  # rows times draws of the first predictions, which show how long the others take
FEWEST, MARGIN = 2, 1.5
T = TypeVar("T")


def thinned(samples: Samples, most: int) -> Samples:
    """The samples with at most so many draws of each chain, at equal distances of summed weight."""
    if samples.num_draws <= most:
        return samples
    chosen = spread_draws(samples.weights(), most)
    chains = np.arange(samples.num_chains)[:, None]
    positions = [_rows(samples, chain, numbers) for chain, numbers in enumerate(chosen)]
    stats = {name: np.asarray(values)[chains, chosen] for name, values in samples.stats.items() if name != "weight"}
    return replace(samples, positions=np.stack(positions), stats=stats)


def _rows(samples: Samples, chain: int, numbers: np.ndarray) -> np.ndarray:
    """Positions `[number, dim]`, without all of the chain in memory."""
    found, begun = [], 0
    for part in samples.chunks(chain):
        inside = numbers[(numbers >= begun) & (numbers < begun + len(part))]
        found.append(part[inside - begun])
        begun += len(part)
    return np.concatenate(found)


def predict_by(until: float | None, samples: Samples, predict: Callable[[Samples], T], *, rows: int) -> tuple[int, T]:
    """Predictions from as many draws as fit in the time, and how many draws of each chain these are.

    A few draws come first: twice, because the first time compiles.

    Args:
        until: by `time.perf_counter`; None: there is no limit, and all draws are used.
        samples: the draws.
        predict: makes the predictions; its time is taken to be in proportion to the number of draws. If it raises
            `LateError`, those of the few draws that came first are returned.
        rows: number of rows that it predicts.

    Raises:
        LateError: the first predictions took too long.
    """
    first = max(FEWEST, int(FIRST_WORK / (rows * samples.num_chains)))
    if until is None or samples.num_draws <= first:
        return samples.num_draws, predict(samples)
    few, begun = thinned(samples, first), time.perf_counter()
    found, compiled = predict(few), time.perf_counter()
    if 2 * compiled - begun > until:
        return first, found
    with suppress(LateError):
        found, now = predict(few), time.perf_counter()
        each, compiling = (now - compiled) / first, max(2 * compiled - begun - now, 0.0)
        count = min(samples.num_draws, int(((until - now) / MARGIN - compiling) / each))
        if count > first:
            return count, predict(thinned(samples, count))
    return first, found
