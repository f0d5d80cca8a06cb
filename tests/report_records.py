"""Run records as a real run leaves them, made up from known distributions."""

import json

import numpy as np
from scipy import stats

from ergonet.diagnostics import e_bfmi, summarize
from ergonet.prediction.scores import classification_scores, regression_scores
from ergonet.report import RunRecord

LEVELS = np.asarray([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])


def classification_record(rows=240, chains=4, draws=500, seed=0):
    """Ten classes of 8x8 images, predictions that are right as often as they say."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(rows, 10)) * random.choice([3.0, 6.0, 12.0], size=(rows, 1))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = (random.random(rows)[:, None] > probabilities.cumsum(axis=1)).sum(axis=1).clip(0, 9)
    entropies = -(probabilities * np.log(probabilities)).sum(axis=1)
    evaluation = {
        "probabilities": probabilities,
        "truth": truth,
        "images": _digits(truth, random),
        "aleatoric": 0.8 * entropies,
        "epistemic": 0.2 * entropies,
        "test_rows": np.arange(500, 500 + rows),
        "function_draws": _autoregressive((chains, draws, 60), random),
    }
    sampled = _stats(chains, draws, random)
    diagnostics = _diagnostics(evaluation["function_draws"], sampled)
    test = classification_scores(probabilities, truth)
    data = {"name": "digits", "target": "digit", "classes": [str(digit) for digit in range(10)]}
    settings = {"data": {"name": "digits"}, "network": {"hidden": [35], "activation": "tanh", "bias": False}}
    return RunRecord(
        settings=settings | _settings(likelihood="Categorical"),
        metrics=_metrics("classification", test, data, rows=rows, diagnostics=diagnostics),
        evaluation=evaluation,
        stats=sampled,
        warmup_stats=_stats(chains, draws, random, falling=True),
    )


def regression_record(rows=120, targets=1, chains=4, draws=500, seed=1):
    """Normal predictions that are right, of one target or several."""
    random = np.random.default_rng(seed)
    mean = 150 + 60 * random.normal(size=(rows, targets))
    sd = 40 * np.exp(0.35 * random.normal(size=(rows, targets)))
    truth = mean + sd * random.normal(size=(rows, targets))
    quantiles = mean + sd * stats.norm.ppf(LEVELS)[:, None, None]
    density = stats.norm.logpdf(truth, mean, sd).sum(axis=1)
    functions, sampled = _autoregressive((chains, draws, 20), random), _stats(chains, draws, random)
    names = ["progression", "weight", "age"][:targets]
    data = {"name": "diabetes", "target": names[0] if targets == 1 else names}
    settings = {"data": {"name": "diabetes"}, "network": {"hidden": [50], "activation": "tanh", "bias": True}}
    return RunRecord(
        settings=settings | _settings(likelihood={"name": "Gaussian", "noise": "learned"}),
        metrics=_metrics(
            "regression", regression_scores(mean, truth, density, quantiles, LEVELS.tolist()), data,
            rows=rows, diagnostics=_diagnostics(functions, sampled),
        ),
        evaluation={
            "mean": mean, "sd": sd, "truth": truth, "quantiles": quantiles, "levels": LEVELS,
            "noise_sd": np.full(targets, 30.0), "test_rows": np.arange(300, 300 + rows),
            "function_draws": functions,
        },
        stats=sampled,
        warmup_stats=_stats(chains, draws, random, falling=True),
    )  # fmt: skip


def save_record(record, directory):
    """Write a record as a run directory."""
    directory.mkdir()
    lines = [f"title = {json.dumps('digits')}", "[network]", "hidden = [35]"]
    (directory / "settings.toml").write_text("\n".join(lines), encoding="utf-8")
    (directory / "metrics.json").write_text(json.dumps(record.metrics), encoding="utf-8")
    np.savez(directory / "evaluation.npz", **record.evaluation)
    early = {f"warmup_{name}": values for name, values in record.warmup_stats.items()}
    np.savez(directory / "stats.npz", **record.stats, **early)


def _settings(likelihood):
    return {
        "prior": {"name": "Normal", "scale": 1.0},
        "likelihood": likelihood,
        "kernel": {"name": "NUTS", "max_doublings": 10, "target_acceptance": 0.8},
        "run": {"num_chains": 4, "num_warmup": 500, "num_draws": 500, "seed": 1},
    }


def _diagnostics(functions, sampled):
    summary, (chains, draws) = summarize(functions), sampled["lp"].shape
    return {
        "num_chains": chains, "num_draws": draws, "num_warmup": draws,
        "divergences": int(sampled["diverging"].sum()), "nonfinite": 0, "stuck_chains": [],
        "max_rhat_function": summary.max_rhat, "min_ess_bulk_function": summary.min_ess_bulk,
        "median_ess_bulk_function": summary.median_ess_bulk, "min_ess_bulk_weights": 11.0,
        "median_ess_bulk_weights": 80.0, "min_ebfmi": float(e_bfmi(sampled["energy"]).min()),
        "max_tree_depth_fraction": 0.0, "mean_acceptance": float(sampled["acceptance_rate"].mean()),
        "target_acceptance": 0.8, "mean_gradients_per_draw": float(sampled["n_steps"].mean()),
    }  # fmt: skip


def _metrics(task, test, data, *, rows, diagnostics):
    sizes = {name: diagnostics.pop(name) for name in ("num_chains", "num_draws", "num_warmup")}
    return sizes | {
        "task": task, "num_train": 500, "num_test": rows, "dim": 2590, "kernel": "NUTS",
        "test": test, "data": data, "diagnostics": diagnostics,
        "seconds": {"setup": 2.1, "compile": 3.4, "warmup": 61.2, "sampling": 48.7, "total": 115.4},
        "gradients": {"warmup": 131072, "sampling": 126000},
        "versions": {"ergonet": "0.1.0", "jax": "0.12.0", "numpy": "2.4.0", "python": "3.13.1"},
    }  # fmt: skip


def _digits(truth, random):
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    chosen = [random.choice(np.flatnonzero(np.asarray(digits) == digit)) for digit in truth]
    return np.asarray(pixels)[chosen].reshape(-1, 8, 8)


def _autoregressive(shape, random, correlation=0.0):
    values = random.normal(size=shape)
    for draw in range(1, shape[1]):
        values[:, draw] += correlation * values[:, draw - 1]
    return values


def _stats(chains, draws, random, *, falling=False):
    level = -4000 * np.exp(-np.arange(draws) / 25) if falling else np.zeros(draws)
    log_posterior = -2700 + 22 * _autoregressive((chains, draws), random, 0.8) + level
    return {
        "lp": log_posterior,
        "energy": -log_posterior + random.gamma(1295, 1, size=(chains, draws)),
        "energy_error": 0.3 * random.normal(size=(chains, draws)),
        "diverging": np.zeros((chains, draws), dtype=bool),
        "step_size": np.full((chains, draws), 0.021),
        "n_steps": random.choice([31, 63, 63, 127], size=(chains, draws)),
        "acceptance_rate": random.beta(8, 2, size=(chains, draws)),
    }
