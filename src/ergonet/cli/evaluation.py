"""Evaluation of draws for the run directory: test predictions, scores and diagnostics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ergonet._errors import MemoryPlanError
from ergonet._keys import key_of
from ergonet.assembly.settings import Settings
from ergonet.baselines import comparison
from ergonet.datasets.dataset import Dataset
from ergonet.draws.memory import GIB, USABLE_SHARE, free_memory
from ergonet.draws.samples import Samples
from ergonet.models.network_posterior import NUM_REFERENCE_ROWS, RELEVANCE
from ergonet.prediction.members import compare_chains
from ergonet.prediction.predictive import Prediction, predict
from ergonet.prediction.scores import classification_scores, regression_scores
from ergonet.runs import metrics

LEVELS = comparison.LEVELS
_BYTES = 8
MOST_SCALE_DRAWS, NUM_PRIOR_DRAWS = 500, 1000


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of a run.

    Attributes:
        arrays: arrays of `evaluation.npz`, described in `ergonet.report.RunRecord`.
        test: scores; empty without test rows.
        diagnostics: convergence diagnostics of the draws.
        baselines: scores of simple methods on the same rows, as `comparison.compare` returns them; may be empty.
        ensemble: comparison of the chains on the test rows, as `compare_chains` returns it; may be empty.
    """

    arrays: Mapping[str, np.ndarray]
    test: Mapping[str, float]
    diagnostics: Mapping[str, Any]
    baselines: Mapping[str, Any] = field(default_factory=dict)
    ensemble: Mapping[str, Any] = field(default_factory=dict)


def plan_predictions(settings: Settings, *, rows: int, outputs: int, classes: bool) -> str:
    """Estimate the memory that predictions will take, as a sentence.

    Args:
        settings: give the numbers of chains and draws.
        rows: number of test rows.
        outputs: number of classes or targets.
        classes: whether this is a classification.

    Raises:
        MemoryPlanError: more memory is needed than is free.
    """
    per_row = outputs + 4 if classes else outputs * (len(LEVELS) + 5) + 2
    per_row += 8 * settings.run.num_chains  # densities of the halves of chains, and what compares them
    monitored = settings.run.num_chains * settings.run.num_draws * NUM_REFERENCE_ROWS * outputs
    size, free = _BYTES * (rows * per_row + monitored), free_memory()
    sentence = f"Predictions take {size / GIB:.3f} GiB"
    if free is None:
        return f"{sentence} in memory."
    sentence += f" of {free / GIB:.1f} GiB free in memory."
    if size > USABLE_SHARE * free:
        raise MemoryPlanError(f"{sentence} Keep fewer draws (`--draws`, with `--thin` to cover the same run).")
    return sentence


def with_baselines(found: Evaluation, settings: Settings, dataset: Dataset, *, left: float | None = None) -> Evaluation:
    """Compare with baselines, if they are wanted and there are test rows.

    Args:
        found: the evaluation of the network.
        settings: say whether baselines are wanted, and how long the fit may take.
        dataset: the data set with its test rows.
        left: seconds left of the time limit; None: the fit is over.
    """
    if not (settings.run.baselines and len(dataset.x_test)):
        return found
    baselines = comparison.fit_baselines(dataset, seconds=comparison.seconds_for(settings.run.time_limit, left))
    return replace(found, baselines=comparison.compare(baselines, dataset, found.arrays))


def evaluate(samples: Samples, dataset: Dataset, model: Any) -> Evaluation:
    """Predict the test rows, score the predictions, and compute the diagnostics of the draws.

    Args:
        samples: draws from the posterior of a network.
        dataset: the data set with its test rows.
        model: the `BayesianNetwork`.
    """
    arrays: dict[str, np.ndarray] = {"function_draws": np.asarray(samples.monitor(), np.float32)}
    arrays |= learned_scales(samples, model, dataset.preprocessing.encoded_names)
    test: dict[str, float] = {}
    ensemble: dict[str, Any] = {}
    if len(dataset.x_test):
        of_task = _classification if dataset.task == "classification" else _regression
        found, test = of_task(samples, dataset, model)
        ensemble = compare_chains(samples, found.pop("members"), arrays["function_draws"])
        arrays |= {"test_rows": dataset.test_rows, **found}
    return Evaluation(arrays=arrays, test=test, diagnostics=samples.diagnostics(), ensemble=ensemble)


def learned_scales(samples: Samples, model: Any, inputs: Sequence[str]) -> dict[str, np.ndarray]:
    """Learned scales of the priors and the noise, with draws from their priors, for the report.

    Scales of more than one group are summarized by their root mean square. At most 500 draws of every chain are used,
    spread evenly over the weights of its draws.
    """
    import jax

    chosen = _spread(samples.weights(), MOST_SCALE_DRAWS)
    chains = np.arange(samples.num_chains)[:, None]
    draws = {name: values[chains, chosen] for name, values in samples.scales().items()}
    relevance = draws.pop(RELEVANCE, None)
    if not draws:
        return {}
    keys = jax.random.split(key_of(0), NUM_PRIOR_DRAWS)
    prior = jax.jit(jax.vmap(lambda key: model.overall_scales(model.sample_prior(key))))(keys)
    found = {
        "scale_names": np.asarray(list(draws)),
        "scale_draws": np.stack(list(draws.values()), axis=-1),
        "scale_prior": np.stack([np.asarray(prior[name]) for name in draws], axis=-1),
    }
    if relevance is not None:
        found |= {"input_names": np.asarray(inputs), "input_draws": relevance}
    return found


def _spread(weights: np.ndarray, most: int) -> np.ndarray:
    """Indices `[chain, at most most]` of draws at equal distances of summed weight; all of them if all are equal."""
    count = min(weights.shape[1], most)
    levels = (np.arange(count) + 0.5) / count
    sums = np.cumsum(np.where(weights.any(axis=1, keepdims=True), weights, 1.0), axis=1, dtype=np.float64)
    return np.stack([np.searchsorted(one / one[-1], levels) for one in sums])


def _classification(samples: Samples, dataset: Dataset, model: Any) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    prediction = predict(samples, dataset.x_test, model=model, y=dataset.y_test)
    probabilities = np.asarray(prediction.mean, np.float64)
    found = {"probabilities": probabilities, "truth": np.asarray(dataset.y_test), "members": _members(prediction)}
    if prediction.entropy is not None and prediction.expected_entropy is not None:
        noise = np.asarray(prediction.expected_entropy, np.float64)
        found |= {"aleatoric": noise, "epistemic": np.maximum(np.asarray(prediction.entropy) - noise, 0.0)}
    if dataset.image_shape is not None:
        found["images"] = np.asarray(dataset.raw_test).reshape(-1, *dataset.image_shape)
    return found, classification_scores(probabilities, found["truth"])


def _regression(samples: Samples, dataset: Dataset, model: Any) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    prediction = predict(samples, dataset.x_test, model=model, levels=LEVELS, y=dataset.y_test)
    found = in_units(prediction, dataset)
    found |= {"truth": dataset.preprocessing.inverse_mean(dataset.y_test), "levels": np.asarray(LEVELS)}
    if prediction.noise_sd is not None:
        found["noise_sd"] = dataset.preprocessing.inverse_sd(prediction.noise_sd)
    volume = float(np.log(dataset.preprocessing.target_sd).sum())
    density = np.asarray(prediction.log_density, np.float64) - volume
    found["members"] = _members(prediction) - volume
    scores = regression_scores(found["mean"], found["truth"], density, found["quantiles"], LEVELS)
    return found | {"log_density": density}, scores


def _members(prediction: Prediction) -> np.ndarray:
    assert prediction.members is not None  # as `y` was given
    return prediction.members


def in_units(prediction: Prediction, data: Any) -> dict[str, np.ndarray]:
    """Mean and sd `[rows, targets]` and quantiles `[level, rows, targets]`, in the units of the targets."""
    preprocessing = getattr(data, "preprocessing", data)
    return {
        "mean": preprocessing.inverse_mean(prediction.mean),
        "sd": preprocessing.inverse_sd(prediction.sd),
        "quantiles": preprocessing.inverse_mean(prediction.quantiles),
    }


def metrics_of(
    settings: Settings,
    dataset: Dataset,
    samples: Samples,
    evaluation: Evaluation,
    *,
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """The content of `metrics.json`; unknown figures are None."""
    found = metrics.metrics_of(
        settings,
        dataset.preprocessing,
        samples,
        name=dataset.name,
        num_train=len(dataset.x_train),
        diagnostics=evaluation.diagnostics,
    )
    of_test = {
        "num_test": len(dataset.x_test),
        "num_features": int(dataset.x_train.shape[1]),
        "seconds": dict(seconds),
        "test": dict(evaluation.test),
        "ensemble": dict(evaluation.ensemble),
    }
    if evaluation.baselines:
        of_test["baselines"] = dict(evaluation.baselines)
    return found | metrics.as_json(of_test)
