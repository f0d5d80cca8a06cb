"""From draws to what a run directory says about them: test predictions, scores, diagnostics."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergonet._errors import MemoryPlanError
from ergonet.cli.settings import Settings
from ergonet.datasets.dataset import Dataset
from ergonet.inference.memory import GIB, USABLE_SHARE, free_memory
from ergonet.inference.samples import Samples
from ergonet.inference.versions import versions
from ergonet.models.network_posterior import NUM_REFERENCE_ROWS, RELEVANCE
from ergonet.prediction.predictive import Prediction, predict
from ergonet.prediction.scores import classification_scores, regression_scores

LEVELS = tuple(round(0.05 * step, 2) for step in range(1, 20))
_BYTES = 8
MOST_SCALE_DRAWS, NUM_PRIOR_DRAWS = 500, 1000


@dataclass(frozen=True)
class Evaluation:
    """What was found out about a run.

    Attributes:
        arrays: of `evaluation.npz`, as `ergonet.report.RunRecord` describes them.
        test: scores; empty where there are no test rows.
        diagnostics: whether to trust the draws.
    """

    arrays: Mapping[str, np.ndarray]
    test: Mapping[str, float]
    diagnostics: Mapping[str, Any]


def plan_predictions(settings: Settings, *, rows: int, outputs: int, classes: bool) -> str:
    """The memory that predictions will take, as a sentence.

    Args:
        settings: for the numbers of chains and draws.
        rows: test rows.
        outputs: classes, or targets.
        classes: whether it is a classification.

    Raises:
        MemoryPlanError: more than there is.
    """
    per_row = outputs + 4 if classes else outputs * (len(LEVELS) + 5) + 2
    monitored = settings.run.num_chains * settings.run.num_draws * NUM_REFERENCE_ROWS * outputs
    size, free = _BYTES * (rows * per_row + monitored), free_memory()
    sentence = f"Predictions take {size / GIB:.3f} GiB"
    if free is None:
        return f"{sentence} in memory."
    sentence += f" of {free / GIB:.1f} GiB free in memory."
    if size > USABLE_SHARE * free:
        raise MemoryPlanError(f"{sentence} Keep fewer draws (`--draws`, with `--thin` to cover the same run).")
    return sentence


def evaluate(samples: Samples, dataset: Dataset, model: Any) -> Evaluation:
    """Predictions of the test rows, their scores, and the diagnostics of the draws.

    Args:
        samples: of a network's posterior.
        dataset: what was learned from, and its test rows.
        model: the `BayesianNetwork`.
    """
    arrays: dict[str, np.ndarray] = {"function_draws": np.asarray(samples.monitor(), np.float32)}
    arrays |= learned_scales(samples, model, dataset.preprocessing.encoded_names)
    test: dict[str, float] = {}
    if len(dataset.x_test):
        of_task = _classification if dataset.task == "classification" else _regression
        found, test = of_task(samples, dataset, model)
        arrays |= {"test_rows": dataset.test_rows, **found}
    return Evaluation(arrays=arrays, test=test, diagnostics=samples.diagnostics())


def learned_scales(samples: Samples, model: Any, inputs: Sequence[str]) -> dict[str, np.ndarray]:
    """Scales that the priors and the noise have learned, beside draws of their priors, for the report.

    Scales of more than one group are summed up by their root mean square. Every chain gives at most 500 draws.
    """
    import jax

    every = -(-samples.num_draws // MOST_SCALE_DRAWS)
    draws = {name: values[:, ::every] for name, values in samples.scales().items()}
    relevance = draws.pop(RELEVANCE, None)
    if not draws:
        return {}
    keys = jax.random.split(jax.random.key(0), NUM_PRIOR_DRAWS)
    prior = jax.jit(jax.vmap(lambda key: model.overall_scales(model.sample_prior(key))))(keys)
    found = {
        "scale_names": np.asarray(list(draws)),
        "scale_draws": np.stack(list(draws.values()), axis=-1),
        "scale_prior": np.stack([np.asarray(prior[name]) for name in draws], axis=-1),
    }
    if relevance is not None:
        found |= {"input_names": np.asarray(inputs), "input_draws": relevance}
    return found


def _classification(samples: Samples, dataset: Dataset, model: Any) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    prediction = predict(samples, dataset.x_test, model=model, y=dataset.y_test)
    probabilities = np.asarray(prediction.mean, np.float64)
    found = {"probabilities": probabilities, "truth": np.asarray(dataset.y_test)}
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
    density = np.asarray(prediction.log_density, np.float64)
    density = density - np.log(dataset.preprocessing.target_sd).sum()
    scores = regression_scores(found["mean"], found["truth"], density, found["quantiles"], LEVELS)
    return found, scores


def in_units(prediction: Prediction, data: Any) -> dict[str, np.ndarray]:
    """Mean, sd `[rows, targets]` and quantiles `[level, rows, targets]` in the units of the targets."""
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
    """The content of `metrics.json`; a number that is not known is None."""
    preprocessing = dataset.preprocessing
    data: dict[str, Any] = {"name": dataset.name, "target": list(preprocessing.target_names)}
    if preprocessing.classes:
        data["classes"] = [str(one) for one in preprocessing.classes]
    content = {
        "task": dataset.task,
        "data": data,
        "num_train": len(dataset.x_train),
        "num_test": len(dataset.x_test),
        "num_features": int(dataset.x_train.shape[1]),
        "dim": int(samples.positions.shape[2]),
        "kernel": str(settings.kernel["name"]).upper(),
        "num_chains": samples.num_chains,
        "num_warmup": settings.run.num_warmup,
        "num_draws": samples.num_draws,
        "thin": settings.run.thin,
        "stopped_by": samples.about.get("stopped_by"),
        "seconds": dict(seconds),
        "gradients": dict(samples.gradients),
        "test": dict(evaluation.test),
        "diagnostics": dict(evaluation.diagnostics),
        "versions": samples.about.get("versions") or versions(),
    }
    return _json(content)


def _json(value: Any) -> Any:
    """With Python's own types, and None for what is not finite: JSON has no NaN."""
    if isinstance(value, Mapping):
        return {str(key): _json(one) for key, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_json(one) for one in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
