"""Evaluation of draws for the run directory: test predictions, scores and diagnostics."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ergonet._errors import MemoryPlanError
from ergonet._keys import key_of
from ergonet.assembly.settings import Settings
from ergonet.baselines import comparison
from ergonet.baselines.linear import LinearBaseline
from ergonet.cli import distributions
from ergonet.cli.deadline import Deadline
from ergonet.cli.thinning import predict_by, thinned
from ergonet.datasets.copies import count_copies
from ergonet.datasets.dataset import Dataset
from ergonet.datasets.domain import FEW_INPUTS, NEIGHBORS, Domain
from ergonet.diagnostics.finding import COPIES, FALLBACK
from ergonet.diagnostics.function_space import choose_reference_rows
from ergonet.draws.memory import GIB, USABLE_SHARE, free_memory
from ergonet.draws.quantities import spread_draws
from ergonet.draws.samples import Samples
from ergonet.inference.waiting import LateError, finish_by
from ergonet.models.network_posterior import NUM_REFERENCE_ROWS, RELEVANCE
from ergonet.prediction.members import compare_chains
from ergonet.prediction.predictive import Prediction, predict
from ergonet.prediction.scores import classification_scores
from ergonet.prediction.trust import EXTREMES, trust_figures
from ergonet.prediction.units import predict_in_units
from ergonet.runs import metrics

LEVELS = comparison.LEVELS
_BYTES = 8
_MOST_NUMBERS = 300_000  # of test rows with many inputs, whose neighbors take seconds to find
MOST_SCALE_DRAWS, NUM_PRIOR_DRAWS = 500, 1000


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of a run.

    Attributes:
        arrays: arrays of `evaluation.npz`, described in `ergonet.report.RunRecord`.
        test: scores; empty without test rows, and if the time limit leaves no time for them.
        diagnostics: convergence diagnostics of the draws.
        baselines: scores of simple methods on the same rows, as `comparison.compare` returns them; may be empty.
        ensemble: comparison of the chains on the test rows, as `compare_chains` returns it; may be empty.
        scored_draws: draws of each chain that the scores are from; None: all.
    """

    arrays: Mapping[str, np.ndarray]
    test: Mapping[str, float]
    diagnostics: Mapping[str, Any]
    baselines: Mapping[str, Any] = field(default_factory=dict)
    ensemble: Mapping[str, Any] = field(default_factory=dict)
    scored_draws: int | None = None


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
    per_row = outputs + 4 if classes else outputs * (len(LEVELS) + len(EXTREMES) + 5) + 3
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
    """Compare with baselines, if they are wanted and there are scores.

    Args:
        found: the evaluation of the network.
        settings: say whether baselines are wanted, and how long the fit may take.
        dataset: the data set with its test rows.
        left: seconds left of the time limit; None: the fit is over.
    """
    if not (settings.run.baselines and found.test):
        return found
    baselines = comparison.fit_baselines(dataset, seconds=comparison.seconds_for(settings.run.time_limit, left))
    return replace(found, baselines=comparison.compare(baselines, dataset, found.arrays))


def evaluate(samples: Samples, dataset: Dataset, model: Any, *, deadline: Deadline | None = None) -> Evaluation:
    """Predict the test rows, score the predictions, and compute the diagnostics of the draws.

    Args:
        samples: draws from the posterior of a network, or a `fallback`, which has neither diagnostics nor chains.
        dataset: the data set with its test rows.
        model: the `BayesianNetwork`.
        deadline: fewer draws are scored if all would take longer, and none if not even a few are done before the
            process is ended. None: no limit.
    """
    is_fallback, rows = FALLBACK in samples.about, len(dataset.x_test)
    arrays: dict[str, np.ndarray] = {}
    if not is_fallback:
        arrays = {"function_draws": np.asarray(samples.monitor(), np.float32)}
        arrays |= reference_points(dataset)
        arrays |= learned_scales(samples, model, dataset.preprocessing.encoded_names)
    diagnostics = {} if is_fallback else samples.diagnostics()
    if not rows:
        return Evaluation(arrays=arrays, test={}, diagnostics=diagnostics)
    of_task = _classification if dataset.task == "classification" else _regression
    last = math.inf if deadline is None or deadline.last is None else deadline.last

    def scores(some: Samples) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        return finish_by(last, lambda: of_task(some, dataset, model))

    try:
        count, (found, test) = predict_by(deadline and deadline.until, samples, scores, rows=rows)
    except LateError:
        return Evaluation(arrays=arrays, test={}, diagnostics=diagnostics)
    members, ensemble = found.pop("members"), {}
    if not is_fallback:
        scored = thinned(samples, count)
        functions = arrays["function_draws"] if scored is samples else np.asarray(scored.monitor(), np.float32)
        ensemble = compare_chains(scored, members, functions)
    arrays |= {"test_rows": dataset.test_rows, **found}
    kept = count if count < samples.num_draws else None
    return Evaluation(arrays=arrays, test=test, diagnostics=diagnostics, ensemble=ensemble, scored_draws=kept)


def evaluate_linear(linear: LinearBaseline, dataset: Dataset) -> Evaluation:
    """The evaluation of a linear baseline that predicts instead of draws."""
    if not len(dataset.x_test):
        return Evaluation(arrays={}, test={}, diagnostics={})
    test, found = comparison.evaluated(linear, dataset)
    return Evaluation(arrays={"test_rows": dataset.test_rows, **found}, test=test, diagnostics={})


def reference_points(dataset: Dataset) -> dict[str, np.ndarray]:
    """The rows whose predictions are monitored, for the report: their indices, and the farthest input of each."""
    x = dataset.x_test if len(dataset.x_test) else dataset.x_train
    chosen, names = choose_reference_rows(x, count=NUM_REFERENCE_ROWS), dataset.preprocessing.encoded_names
    found = {"reference_rows": dataset.test_rows[chosen] if len(dataset.x_test) else chosen}
    plain = x.shape[1] - len(dataset.preprocessing.embeddings)  # without indices of categories
    if dataset.image_shape is not None or not 0 < plain <= len(names):
        return found
    distances = dataset.preprocessing.standardized(x[chosen, :plain])
    farthest = np.argmax(np.abs(distances), axis=1)
    said = [f"{names[column]} {own[column]:+.1f} sd" for own, column in zip(distances, farthest, strict=True)]
    return found | {"reference_inputs": np.asarray(said)}


def learned_scales(samples: Samples, model: Any, inputs: Sequence[str]) -> dict[str, np.ndarray]:
    """Learned scales of the priors and the noise, with draws from their priors, for the report.

    Scales of more than one group are summarized by their root mean square. At most 500 draws of every chain are used,
    spread evenly over the weights of its draws.
    """
    import jax

    chosen = spread_draws(samples.weights(), MOST_SCALE_DRAWS)
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
    levels = distributions.levels(model, (*LEVELS, *EXTREMES))
    units = dataset.preprocessing
    prediction = predict_in_units(
        samples, dataset.x_test, model=model, preprocessing=units, levels=levels, y=dataset.y_test
    )
    names = ("mean", "sd", "noise_sd", "quantiles", "members", "log_density")
    found = {name: np.asarray(getattr(prediction, name)) for name in names}
    found |= {"truth": units.inverse_target(dataset.y_test), "levels": np.asarray(levels)}
    scored = len(levels) - len(EXTREMES) if levels[-len(EXTREMES) :] == EXTREMES else len(levels)
    usual = found | {name: found[name][:scored] for name in ("quantiles", "levels")}
    more, scores = distributions.scores(samples, dataset, model, usual, found["log_density"])
    return found | more | _usual(dataset), scores


def _usual(dataset: Dataset) -> dict[str, np.ndarray]:
    """How usual each test row is among the training rows, `[rows]`; nothing where that would take long."""
    if dataset.x_test.shape[1] > FEW_INPUTS and dataset.x_test.size > _MOST_NUMBERS:
        return {}
    plain = dataset.x_train.shape[1] - len(dataset.preprocessing.embeddings)  # numbers of categories are no distances
    if plain == 0:
        return {}
    domain = Domain.of(dataset.x_train[:, :plain], neighbors=min(NEIGHBORS, len(dataset.x_train) - 1))
    return {"usual": domain.score(dataset.x_test[:, :plain])}


def _members(prediction: Prediction) -> np.ndarray:
    assert prediction.members is not None  # as `y` was given
    return prediction.members


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
        "trust": trust_figures(evaluation.arrays) if "quantiles" in evaluation.arrays else {},
        "ensemble": dict(evaluation.ensemble),
    }
    if evaluation.baselines:
        of_test["baselines"] = dict(evaluation.baselines)
    if copies := count_copies(dataset):
        of_test[COPIES] = copies
    if evaluation.scored_draws is not None:
        of_test["scored_draws"] = evaluation.scored_draws
    return found | metrics.as_json(of_test)
