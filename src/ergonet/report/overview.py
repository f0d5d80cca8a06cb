"""The first screen of the report: what was fitted, the verdict, the scores and the cost."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ergonet._checks import is_number
from ergonet.baselines.comparison import WORSE, Rival
from ergonet.diagnostics import advice, held_out
from ergonet.diagnostics.finding import (
    COST,
    FALLBACK,
    MODEL,
    MODES,
    RECALIBRATION,
    SCALES,
    UNJUDGED,
    beside,
    needed_ess,
)
from ergonet.diagnostics.scales import limits_of_scales
from ergonet.report import baselines, ensemble, wording
from ergonet.report.record import RunRecord


@dataclass(frozen=True)
class Card:
    """One figure with its explanation.

    Attributes:
        name: name of the figure.
        value: the figure as text.
        error: its standard error as text; may be empty.
        meaning: one line of explanation for readers who do not know the name.
        mark: ``good``, ``bad`` or empty.
    """

    name: str
    value: str
    error: str
    meaning: str
    mark: str = ""


@dataclass(frozen=True)
class Verdict:
    """Whether the results can be used.

    Attributes:
        level: ``good``, ``note``, ``bad`` or ``unknown``.
        headline: one sentence.
        sentences: what is wrong and what to change; empty if every check passed.
    """

    level: str
    headline: str
    sentences: tuple[str, ...]


def verdict(record: RunRecord) -> Verdict:
    """The verdict of ``ergonet.diagnostics.advice``, as a headline and sentences."""
    return judge(record.metrics)


def judge(metrics: Mapping[str, Any]) -> Verdict:
    """The verdict on a run with these metrics, see ``verdict``."""
    if fallback := _table(metrics, FALLBACK):
        return Verdict("bad", f"Not the posterior of the network: {fallback['name']}.", tuple(advice.advise(metrics)))
    if not metrics.get("diagnostics"):
        return Verdict("unknown", "The draws could not be checked: this run has no diagnostics.", ())
    findings = advice.find(metrics)
    sentences = tuple(finding.sentence for finding in findings)
    problems = {finding.subject for finding in findings if finding.problem}
    notes = {finding.subject for finding in findings if not finding.problem}
    if problems == {MODEL}:
        what = "probabilities" if "error" in _table(metrics, "test") else "intervals"
        headline = f"The draws are sound, but the stated {what} are not calibrated on the held-out rows"
        return Verdict("bad", f"{headline}: {held_out.miscalibration(metrics)}.", sentences)
    if problems:
        count = sum(finding.problem for finding in findings)
        things = "there is one problem" if count == 1 else f"there are {count} problems"
        return Verdict("bad", f"Do not rely on these results yet: {things}.", sentences)
    if UNJUDGED in notes:
        headline = "The draws are an average over chains in different modes, which no held-out rows have judged."
        return Verdict("note", headline, sentences)
    if (rival := baselines.rival(metrics)) is not None and rival.is_ahead:
        return Verdict("note", f"The draws are sound, but {_lead(rival)}.", sentences)
    if MODES in notes:
        return Verdict("note", "The results can be used: an average over chains in different modes.", sentences)
    if SCALES in notes:
        return Verdict("note", "Predictions can be used, but do not rely on the learned scales.", sentences)
    if findings:
        but = "but the run cost more than necessary" if notes == {COST} else "with the reservation below"
        return Verdict("note", f"The results can be used, {but}.", sentences)
    return Verdict("good", "Every check of the draws passed: the results can be used.", ())


def _lead(rival: Rival) -> str:
    name = rival.method["name"]
    if rival.standing == WORSE:
        return f"{name} predicts the held-out rows better"
    does = "misclassifies fewer of the held-out rows" if "error" in rival.method["test"] else ""
    return f"{name} {does or 'predicts the held-out rows more closely'}"


def title(record: RunRecord) -> str:
    """The title, named after the data: ``Bayesian neural network for digits``."""
    data = _table(record.metrics, "data")
    name = data.get("name") or wording.setting(record.settings, "data", "dataset")
    if isinstance(name, Mapping):
        name = name.get("name")
    return f"Bayesian neural network for {name}" if name else "Bayesian neural network"


def story(record: RunRecord) -> str:
    """What was done, for readers who have never heard of a posterior."""
    metrics = record.metrics
    if fallback := _table(metrics, FALLBACK):
        return str(fallback["sentence"])
    chains, draws = wording.real(metrics, "num_chains"), wording.real(metrics, "num_draws")
    count = f"{wording.grouped(chains * draws)} networks" if chains and draws else "many networks"
    return (
        f"Instead of training one best network, this run drew {count} in proportion to how plausible the data and "
        f"the prior make them. A prediction is the average over all of them; where they disagree, the stated "
        f"uncertainty is large."
    )


def fitted(record: RunRecord) -> list[tuple[str, str]]:
    """What was fitted, as rows of a name and a description."""
    metrics, settings = record.metrics, record.settings
    rows = [
        ("Data", _data(metrics)),
        ("Network", _network(metrics, settings)),
        ("Prior", _described(settings, "prior", "priors")),
        ("Likelihood", _described(settings, "likelihood")),
        ("Sampler", _sampler(metrics, settings)),
        ("Scores", wording.scored_draws(metrics)),
        ("Probabilities", _stated(settings)),
        ("Recalibration", _recalibration(metrics)),
    ]
    return [(name, text) for name, text in rows if text]


_SCORES_OF_DISTRIBUTIONS = (
    ("mae", "Mean absolute error", "of the median, in the target's unit"),
    ("deviance", "Poisson deviance", "mean over the test rows; lower is better"),
    ("crps", "CRPS", "continuous ranked probability score, in the target's unit; lower is better"),
)


def columns(record: RunRecord) -> list[tuple[str, str, str]]:
    """Name, kind and remark of the columns of a table that are not plain numbers."""
    found = _table(record.metrics, "data").get("columns")
    rows = [row for row in found if isinstance(row, Mapping)] if isinstance(found, list) else []
    return [(str(row.get("name", "")), str(row.get("kind", "")), str(row.get("note", ""))) for row in rows]


def score_cards(record: RunRecord) -> list[Card]:
    """Test scores with their standard errors; empty without test rows."""
    test = _table(record.metrics, "test")
    cards = []
    if "error" in test:
        value, error = wording.with_error(
            wording.real(test, "error"), wording.real(test, "error_standard_error"), percent=True
        )
        cards.append(Card("Test error", value, error, "of the test rows were misclassified"))
    if "rmse" in test:
        value, error = wording.with_error(wording.real(test, "rmse"), wording.real(test, "rmse_standard_error"))
        several = wording.target_errors(record.metrics)
        unit = "over all targets; for each of them see the predictions" if several else "in the target's unit"
        cards.append(Card("Root mean square error", value, error, f"typical size of an error, {unit}"))
    for name, title, meaning in _SCORES_OF_DISTRIBUTIONS:
        if name in test:
            found = wording.with_error(wording.real(test, name), wording.real(test, f"{name}_standard_error"))
            cards.append(Card(title, *found, meaning))
    if "nll" in test:
        value, error = wording.with_error(wording.real(test, "nll"), wording.real(test, "nll_standard_error"))
        meaning = "mean negative log predictive probability of the truth, in nats; lower is better"
        cards.append(Card("Negative log likelihood", value, error, meaning))
    if "calibration" in test:
        value, error = wording.with_error(
            wording.real(test, "calibration"), wording.real(test, "calibration_standard_error"), percent=True
        )
        meaning = "mean difference between stated probabilities and observed frequencies"
        cards.append(Card("Calibration error", value, error, meaning))
    ninety = wording.real(test, "coverage_90")
    if ninety is not None:
        cards.append(Card("90 % intervals", f"{100 * ninety:.1f} %", "", "of the true values lie inside"))
    return cards


def trust_cards(record: RunRecord) -> list[Card]:
    """Diagnostics of the draws, each marked good or bad."""
    found, cards = _table(record.metrics, "diagnostics"), []
    needed = float(needed_ess(record.metrics))
    coldest, hottest = advice.KINETIC_TEMPERATURES
    unstable = "trajectories that" if advice.thin_of(record.metrics) == 1 else "draws with a trajectory that"
    scales_rhat, scales_ess = limits_of_scales(record.metrics)
    entries = (
        ("max_rhat_function", "R-hat of predictions", 3, (-math.inf, advice.LARGEST_RHAT),
         f"do the chains agree? at most {advice.LARGEST_RHAT}"),
        ("min_ess_bulk_function", "Effective draws", 0, (needed, math.inf),
         f"independent draws that the draws are worth, worst prediction; at least {wording.grouped(needed)}"),
        ("max_rhat_scales", "R-hat of learned scales", 3, (-math.inf, scales_rhat),
         f"do the chains agree about scales of weights and noise? at most {scales_rhat}"),
        ("min_ess_bulk_scales", "Effective draws of scales", 0, (float(scales_ess), math.inf),
         f"for the worst learned scale; at least {scales_ess}"),
        ("divergences", "Divergences", 0, (0.0, 0.0), f"{unstable} became unstable; should be 0"),
        ("min_ebfmi", "E-BFMI", 2, (advice.SMALLEST_E_BFMI, math.inf),
         f"does each chain reach all energies? at least {advice.SMALLEST_E_BFMI}"),
        ("mean_kinetic_temperature", "Kinetic temperature", 2, (coldest, hottest),
         "does friction balance the noise of the minibatch gradient? should be near 1"),
    )  # fmt: skip
    for key, name, decimals, (low, high), meaning in entries:
        if key in found:
            value = wording.real(found, key)
            text = wording.number(value) if value is None else beside(value, low, high, decimals=decimals)
            mark = "good" if value is not None and low <= value <= high else "bad"
            cards.append(Card(name, text, "", meaning, mark))
    cards.extend(Card(name, value, "", meaning) for name, value, meaning in ensemble.rows(record.metrics))
    return cards


def cost(record: RunRecord) -> dict[str, Any]:
    """Seconds by stage with their shares of the total, gradients by stage, and gradients per draw."""
    seconds, gradients = _table(record.metrics, "seconds"), _table(record.metrics, "gradients")
    stages = [(name.lower(), wording.real(seconds, key)) for key, name in wording.STAGES.items()]
    known = [(name, value) for name, value in stages if value is not None]
    total = wording.real(seconds, "total") or sum(value for _, value in known)
    counts = [(name.lower(), wording.real(gradients, key)) for key, name in wording.STAGES.items()]
    return {
        "stages": [
            {"name": name, "text": wording.duration(value), "share": 100 * value / total if total else 0}
            for name, value in known
        ],
        "total": wording.duration(total) if known or total else "",
        "gradients": [(name, wording.number(value, 4)) for name, value in counts if value is not None],
        "per_draw": wording.number(wording.real(_table(record.metrics, "diagnostics"), "mean_gradients_per_draw"), 3),
    }


def versions(record: RunRecord) -> list[tuple[str, str]]:
    """Versions of the software, as rows."""
    found = record.metrics.get("versions") or {}
    return [(str(name), wording.in_words(value)) for name, value in found.items()]


def _table(metrics: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = metrics.get(name)
    return found if isinstance(found, Mapping) else {}


def _data(metrics: Mapping[str, Any]) -> str:
    data, parts = _table(metrics, "data"), []
    if data.get("name"):
        parts.append(str(data["name"]))
    train, test = wording.real(metrics, "num_train"), wording.real(metrics, "num_test")
    if train is not None:
        parts.append(f"{wording.plural(int(train), 'row')} for training")
    if test is not None:
        parts.append(f"{wording.plural(int(test), 'row')} held out for testing" if test else "no test rows")
    if data.get("target"):
        parts.append(f"target: {wording.in_words(data['target'])}")
    classes = data.get("classes")
    if isinstance(classes, (list, tuple)) and classes:
        parts.append(wording.plural(len(classes), "class", "classes"))
    return "; ".join(parts)


def _network(metrics: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    parts = []
    hidden = wording.setting(settings, "hidden", "hidden_units", "hidden_layers")
    if isinstance(hidden, int):
        hidden = [hidden]
    if isinstance(hidden, (list, tuple)):
        layers = wording.plural(len(hidden), "hidden layer")
        sizes = [str(hidden[0])] if len(set(hidden)) == 1 else [str(one) for one in hidden]
        parts.append(f"{layers} of {' and '.join(sizes)} units" if hidden else "no hidden layer (linear)")
    activation = wording.setting(settings, "activation")
    if activation is not None:
        parts.append(wording.in_words(activation))
    bias = wording.setting(settings, "bias")
    if isinstance(bias, bool):
        parts.append("with biases" if bias else "without biases")
    if wording.setting(settings, "direct") is True:
        parts.append("inputs connected to the outputs directly, too")
    dim = wording.real(metrics, "dim")
    if dim is not None:
        parts.append(f"{wording.grouped(dim)} parameters in all")
    return "; ".join(parts)


def _described(settings: Mapping[str, Any], *names: str) -> str:
    found = wording.setting(settings, *names)
    return "" if found is None else wording.in_words(found)


def _stated(settings: Mapping[str, Any]) -> str:
    """What temperature and label noise of a likelihood of classes do to the probabilities that are stated."""
    likelihood = settings.get("likelihood")
    found = likelihood if isinstance(likelihood, Mapping) else {}
    temperature, label_noise = (found.get(name) for name in ("temperature", "label_noise"))
    said: list[str] = []
    if is_number(temperature) and temperature != 1:
        sure = "surer" if temperature < 1 else "less sure"
        said.append(f"averages over the draws to the power 1/{temperature:.3g}, normalized, which makes them {sure}")
    if is_number(label_noise) and label_noise > 0:
        said.append(f"with {100 * label_noise:.2g} % label noise: so many labels are taken to say nothing")
    after = "Scores and pictures here are those after it, except how predictions depend on single columns"
    return f"{', '.join(said)}. {after}." if said else ""


def _recalibration(metrics: Mapping[str, Any]) -> str:
    found = _table(metrics, RECALIBRATION)
    if not found:
        return ""
    return f"{found['sentence']} The rows are those of {found['file']}. Scores and pictures here are those before it."


def _sampler(metrics: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    if fallback := _table(metrics, FALLBACK):
        return f"none: {fallback['name']}"
    kernel = metrics.get("kernel") or wording.setting(settings, "kernel")
    parts = [wording.in_words(kernel)] if kernel else []
    chains, draws = wording.real(metrics, "num_chains"), wording.real(metrics, "num_draws")
    warmup = wording.real(metrics, "num_warmup")
    if chains is not None and draws is not None:
        each = wording.plural(int(draws), "draw")
        after = f" after {wording.grouped(warmup)} of warm-up" if warmup is not None else ""
        parts.append(f"{wording.plural(int(chains), 'chain')} of {each}{after}")
    return "; ".join(parts)
