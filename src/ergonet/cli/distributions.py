"""The transform of the test targets, and scores: more of them if the distribution is not Gaussian."""

from typing import Any

import numpy as np

from ergonet.draws.samples import Samples
from ergonet.models.likelihoods.distribution import AbstractDistribution
from ergonet.prediction.pit import probability_transform, steps_of
from ergonet.prediction.predictive import sample_predictive
from ergonet.prediction.scores import COUNT_LEVELS, count_scores, regression_scores, sample_crps, transform_scores

MOST_SIMULATED = 500  # draws from which the CRPS is estimated
LARGEST = float(np.finfo(np.float32).max)  # in place of simulated targets that are infinite


def levels(model: Any, usual: tuple[float, ...]) -> tuple[float, ...]:
    """Probabilities of the quantiles of test targets; few for counts, because each takes a search."""
    return COUNT_LEVELS if model.likelihood.is_discrete else usual


def scores(
    samples: Samples, dataset: Any, model: Any, found: dict[str, np.ndarray], density: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """The transform of the test targets and the scores.

    Args:
        samples: the draws.
        dataset: the data set with its test rows.
        model: the `BayesianNetwork`.
        found: `mean`, `truth`, `quantiles` and `levels`, in the units of the data.
        density: log density of the test rows, in the same units.
    """
    likelihood, mean, truth, quantiles = model.likelihood, found["mean"], found["truth"], found["quantiles"]
    steps = steps_of(likelihood, dataset.y_test, known=dataset.y_train, scaling=dataset.preprocessing)
    transform = probability_transform(samples, dataset.x_test, dataset.y_test, model=model, steps=steps)
    if likelihood.is_discrete:
        scored = count_scores(mean, truth, density, quantiles, transform=transform)
    else:
        scored = regression_scores(mean, truth, density, quantiles, found["levels"])
        scored |= transform_scores(transform) if steps is not None else {}
    if not isinstance(likelihood, AbstractDistribution):
        return {"transform": transform}, scored
    count = min(MOST_SIMULATED, samples.num_chains * samples.num_draws)
    drawn = sample_predictive(samples, dataset.x_test, num_samples=max(2, count), seed=0, model=model)
    simulated = np.clip(dataset.preprocessing.inverse_target(drawn), -LARGEST, LARGEST)
    return {"transform": transform}, scored | sample_crps(simulated, truth)
