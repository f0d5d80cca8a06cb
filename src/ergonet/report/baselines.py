"""The scores of simple methods beside those of the network: rows of the summary, and a table of the report."""

from collections.abc import Mapping
from typing import Any

from ergonet.baselines import comparison
from ergonet.baselines.boosting import BOOSTING
from ergonet.baselines.comparison import WORSE, Rival, verdict
from ergonet.datasets.validation import capital
from ergonet.diagnostics.finding import FALLBACK
from ergonet.report import wording

SCORES = (
    ("error", "error", True),
    ("rmse", "RMSE", False),
    (comparison.SCALED_RMSE, "RMSE in standard deviations of the targets", False),
    ("nll", "NLL", False),
    ("calibration", "calibration error", True),
)


def summary_rows(metrics: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """A row for each baseline: its name, its log score, and its other scores."""
    found = []
    for one in _methods(metrics):
        own = [(name, _score(one["test"], key, percent=percent)) for key, name, percent in SCORES if key in one["test"]]
        shown = dict(own)
        nll = shown.pop("NLL", "unknown")
        others = "; ".join(f"{name} {text}" for name, text in shown.items())
        found.append((str(one["name"]).capitalize(), nll, f"its test NLL; {others}"))
    return found


def sentences(metrics: Mapping[str, Any]) -> list[str]:
    """Whether the network earns its place, what to do if it does not, and which baseline is missing."""
    methods, advice = _scored(metrics), instead(metrics)
    told = (
        methods and verdict(methods, _rows(metrics)),
        advice and f"{capital(advice)}.",
        *(_found(metrics).get("left_out") or ()),
    )
    return [str(one) for one in told if one]


def instead(metrics: Mapping[str, Any]) -> str:
    """What to do about a network that is clearly worse than a baseline; empty for others."""
    found = rival(metrics)
    if found is None or not found.is_ahead or metrics.get(FALLBACK):
        return ""
    name = found.method["name"]
    use = f"use {name}" if found.standing == WORSE else f"use {name} for point predictions"
    if name != BOOSTING and not metrics.get("has_linear_part", True):
        return f"{use}, or fit again with `--direct`, which adds a linear model to the network"
    return f"{use}, or try another prior, likelihood or number of units and compare the runs with `ergonet compare`"


def rival(metrics: Mapping[str, Any]) -> Rival | None:
    """The baseline beside which the network is judged; None without one."""
    methods = _scored(metrics)
    return comparison.rival(methods, _rows(metrics)) if methods else None


def table(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The table of the report; empty without baselines.

    Returns:
        ``names`` of the columns, ``rows`` of texts, ``notes`` on how each method was fitted, and ``sentences``.
    """
    methods, told = _methods(metrics), sentences(metrics)
    if not methods:
        return {"names": [], "rows": [], "notes": [], "sentences": told} if told else {}
    compared = [entry for entry in SCORES if entry[0] in methods[0]["difference"]]
    known = [(key, name, percent) for key, name, percent in SCORES if key in methods[0]["test"]]
    network: dict[str, Any] = {"name": "this network", "test": metrics.get("test") or {}, "difference": {}}
    rows = [
        [
            str(one["name"]),
            *(_score(one["test"], key, percent=percent) for key, _, percent in known),
            *(_score(one["difference"], key, percent=percent) for key, _, percent in compared),
        ]
        for one in (network, *methods)
    ]
    notes = [
        f"{str(one['name']).capitalize()}: {one.get('says')}; {wording.plural(int(one['num_train']), 'training row')}."
        for one in methods
    ]
    took = wording.real(metrics.get("seconds") or {}, "baselines")
    notes += [f"The baselines took {wording.duration(took)}."] if took is not None else []
    names = ["method", *(name for _, name, _ in known), *(f"{name}: network minus method" for _, name, _ in compared)]
    return {"names": names, "rows": rows, "notes": notes, "sentences": told}


def _found(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    found = metrics.get("baselines")
    return found if isinstance(found, Mapping) else {}


def _methods(metrics: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(_found(metrics).get("methods") or ())


def _scored(metrics: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in _methods(metrics) if wording.real(one["test"], "nll") is not None]


def _rows(metrics: Mapping[str, Any]) -> int | None:
    found = wording.real(metrics, "num_test")
    return None if found is None else int(found)


def _score(scores: Mapping[str, Any], key: str, *, percent: bool) -> str:
    if key not in scores:
        return ""
    pair = wording.with_error(wording.real(scores, key), wording.real(scores, f"{key}_standard_error"), percent=percent)
    return " ".join(pair).strip()
