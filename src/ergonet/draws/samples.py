"""The result of a run: the record of its draws, with methods for the most common operations."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ergonet.diagnostics.function_space import ConvergenceSummary
from ergonet.draws import arviz, diagnosis, quantities, storing, summary
from ergonet.draws.record import Record
from ergonet.target.contract import AbstractTarget


@dataclass(frozen=True, repr=False)
class Samples(Record):
    """Draws of a run: a `Record`, which documents the attributes, with methods for the most common operations."""

    def parameters(self) -> dict[str, np.ndarray]:
        """Named arrays `[chain, draw, ...]`."""
        return quantities.parameters(self)

    def weights(self) -> np.ndarray:
        """How much each draw counts in averages, `[chain, draw]`, at least 0.

        1, or what the schedule of a minibatch kernel gives. Predictions, `summary` and `diagnostics` use them.

        Raises:
            SettingError: every stored draw has weight 0.
        """
        return quantities.draw_weights(self)

    def monitor(self) -> np.ndarray:
        """Quantities on which convergence is judged, `[chain, draw, quantity]`.

        Predictions on reference rows if the target is the posterior of a network, otherwise the positions.
        """
        return np.asarray(quantities.monitored(self))

    def scales(self) -> dict[str, np.ndarray]:
        """Learned standard deviations of weights and noise by name, `[chain, draw]`.

        Scales with several groups are summarized by their root mean square. If every input of a network has a scale,
        these are included as `input relevance`, `[chain, draw, input]`. Empty if the target learns no scales. These
        are draws, one by one: an average over them takes `weights`, as that of `summary` does.
        """
        return quantities.learned_scales(self)

    def log_likelihood(self) -> np.ndarray:
        """Log likelihood of each row of the data, `[chain, draw, row]`, computed in chunks of rows and draws."""
        return quantities.log_likelihood(self)

    def convergence(self) -> ConvergenceSummary:
        """R-hat, ESS and Monte Carlo errors of the monitored quantities, with `weights`."""
        return diagnosis.convergence(self)

    def diagnostics(self) -> dict[str, Any]:
        """The diagnostics that say whether to trust the run, as in `metrics.json`."""
        return diagnosis.diagnose(self)

    def alarms(self) -> list[str]:
        """Sentences about problems that no run should have: divergences, values that are not finite, stuck chains."""
        return diagnosis.alarms(self)

    def summary(self) -> Any:
        """A pandas table by monitored quantity: mean, sd, 5 % and 95 % quantiles, MCSE, bulk and tail ESS, R-hat.

        Draws count by `weights`.

        Raises:
            SettingError: every stored draw has weight 0.
        """
        return summary.summary_table(self)

    def to_datatree(self, *, log_likelihood: bool = False, posterior_predictive: bool = False) -> Any:
        """Convert to an ArviZ `DataTree`, optionally with what `arviz_stats.loo` and predictive plots need.

        Args:
            log_likelihood: whether to add the log likelihood of each row.
            posterior_predictive: whether to add targets simulated from every draw, and the observed ones.

        Raises:
            CapabilityError: the target is unknown or cannot compute them.
        """
        return arviz.to_datatree(self, log_likelihood=log_likelihood, posterior_predictive=posterior_predictive)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write positions, statistics and tuning as a Zarr group with a manifest; no pickle.

        An existing folder is replaced once the new one is complete.

        Raises:
            RunDirectoryError: the folder exists and `overwrite` is not set, contains files that Ergonet did not write,
                or is being written by another process.
        """
        return storing.save(self, path, overwrite=overwrite)


def load(path: str | os.PathLike[str], *, target: AbstractTarget | None = None) -> Samples:
    """Load the samples of a stored run; positions are read lazily, and only valid draws are included.

    Args:
        path: a folder written by `Samples.save` or by a run with `store=path`.
        target: the target, which gives names to positions; draws and statistics can be read without it.

    Raises:
        RunDirectoryError: the folder is not a stored run, or has no draw of every chain.
    """
    return Samples(**vars(storing.read(path, target)))
