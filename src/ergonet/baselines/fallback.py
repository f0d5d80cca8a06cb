"""What predicts after a time limit that ended before the first draw: warm-started networks, or a linear baseline.

Both are kept in the form of draws, so that everything that predicts from draws predicts from them: the networks as one
draw of each chain, the baseline as the only draw of a network without hidden layers. `about["fallback"]` says what they
are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from ergonet._errors import TimeLimitError
from ergonet.assembly.likelihoods import OF_COUNTS
from ergonet.assembly.settings import ModelSettings
from ergonet.baselines.comparison import fit_linear
from ergonet.baselines.forecast import Rows
from ergonet.baselines.linear import LinearBaseline
from ergonet.diagnostics.finding import FALLBACK
from ergonet.draws.samples import Samples
from ergonet.draws.versions import versions
from ergonet.inference.progress import WARM_START
from ergonet.models.embedding import width

ADVICE = "Allow more time."
SECONDS = 2.0  # for the penalty of a logistic regression
SettingsT = TypeVar("SettingsT", bound=ModelSettings)


@dataclass(frozen=True)
class Fallback:
    """What predicts instead of draws.

    Attributes:
        samples: one draw of each chain.
        linear: the linear baseline that they describe; None: they are networks that a warm start found.
    """

    samples: Samples
    linear: LinearBaseline | None

    @property
    def sentence(self) -> str:
        """What it is, why, and what to do."""
        return self.samples.about[FALLBACK]["sentence"]

    @property
    def statement(self) -> str:
        """What it is, and why."""
        return self.sentence.removesuffix(f" {ADVICE}")

    def settings(self, settings: SettingsT) -> SettingsT:
        """The settings of the model whose coordinates the draws are, from those of the fit."""
        if self.linear is None:
            return settings
        return replace(
            settings,
            network=replace(settings.network, hidden=(), bias=True, direct=False),
            prior={"name": "normal"},
            likelihood=_likelihood(self.linear),
        )


def _likelihood(linear: LinearBaseline) -> dict[str, Any]:
    if linear.dispersion is not None:
        return {"name": OF_COUNTS, "unit": 1.0, "dispersion": linear.dispersion}
    sd = linear.error_sd
    return {"name": "categorical" if sd is None else "gaussian" if len(sd) == 1 else "heteroscedastic-gaussian"}


def fall_back(error: TimeLimitError, rows: Rows, *, seed: int, levels: tuple[int, ...] = ()) -> Fallback:
    """The chains where a warm start has left them, or else ridge, logistic or Poisson regression.

    Args:
        error: of a run without draws.
        rows: the training rows.
        seed: seed of the run.
        levels: rows of each embedding of the network, whose categories are the last inputs of `rows`; the linear
            model leaves them out, since an embedding is too narrow for a coefficient of each.
    """
    states = error.states if error.is_warm_started else None
    if states is not None and np.isfinite(states).all():
        count = len(states)
        what = (
            f"the average of {count} networks that the warm start found"
            if count > 1
            else "one network that the warm start found"
        )
        return Fallback(_samples(np.asarray(states)[:, None], WARM_START, what, error, seed=seed), None)
    plain = rows.x.shape[1] - sum(levels)
    without = replace(rows, x=rows.x[:, :plain] if plain else np.zeros((len(rows.x), 1)))
    linear = fit_linear(without, seconds=SECONDS)
    blank = np.zeros((len(linear.coefficients), sum(levels)))
    linear = replace(linear, coefficients=np.concatenate([linear.coefficients[:, :plain], blank], axis=1))
    what = f"{linear.name} without columns of many categories" if levels else linear.name
    return Fallback(_samples(coordinates(linear, levels)[None, None], linear.name, what, error, seed=seed), linear)


def coordinates(linear: LinearBaseline, levels: tuple[int, ...] = ()) -> np.ndarray:
    """The coordinates of a network without hidden layers that predicts as a linear baseline does.

    The log precision of a regression is a coordinate; with several targets, it is a constant output for each.

    Args:
        linear: the baseline; it ignores categories that have an embedding.
        levels: rows of each embedding, whose weights are 0.
    """
    widths = [width(one) for one in levels]
    tables = np.zeros(sum(rows * columns for rows, columns in zip(levels, widths, strict=True)))
    weights, biases, own = linear.coefficients, linear.intercepts, np.zeros(0)
    weights = np.pad(weights[:, : weights.shape[1] - sum(levels)], ((0, 0), (0, sum(widths))))
    if linear.error_sd is not None:
        own = -2 * np.log(linear.error_sd)
    if len(own) > 1:
        weights, biases, own = np.concatenate([weights, 0 * weights]), np.concatenate([biases, own]), np.zeros(0)
    return np.concatenate([tables, weights.reshape(-1), biases, own]).astype(np.float32)


def _samples(positions: np.ndarray, kind: str, what: str, error: TimeLimitError, *, seed: int) -> Samples:
    during = f", {error.during}" if error.during else ""
    sentence = (
        f"These are predictions of {what}, not of draws from the posterior of the network: the time limit ended before "
        f"every chain had a draw{during}. {ADVICE}"
    )
    about: Mapping[str, Any] = {
        FALLBACK: {"name": kind, "sentence": sentence},
        "seed": seed,
        "num_chains": len(positions),
        "num_draws": 1,
        "dim": positions.shape[2],
        "versions": versions(),
    }
    return Samples(positions, stats={}, warmup_stats={}, seconds={}, gradients={}, tuning={}, about=about)
