"""Whether the chains predict the same: figures of the monitored predictions, the worst of them, and a map of chains."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ergonet import plots
from ergonet.diagnostics import ConvergenceSummary, chain_map, estimates, summarize
from ergonet.diagnostics.chain_map import ChainMap
from ergonet.diagnostics.ensemble import are_apart, between_share, ess_within
from ergonet.diagnostics.finding import shown_rhat
from ergonet.report import wording
from ergonet.report.pictures import Picture, draw
from ergonet.report.record import RunRecord

DRAWN, LISTED = 3, 8  # of the worst points


@dataclass(frozen=True)
class Monitored:
    """The monitored predictions of a run.

    Attributes:
        values: their draws, ``[chain, draw, quantity]``.
        weights: weight of each draw, ``[chain, draw]``; None: all are equal.
        summary: R-hat, ESS and Monte Carlo errors.
        rows: the reference point of each quantity, counted from 0, ``[quantity]``.
        names: name of each quantity.
        places: where each reference point is, such as the row of a table; as many as there are points.
        inputs: the input of each point that is farthest from the middle, or none.
        are_rows: whether it is known which rows the points are.
    """

    values: np.ndarray
    weights: np.ndarray | None
    summary: ConvergenceSummary
    rows: np.ndarray
    names: tuple[str, ...]
    places: tuple[str, ...]
    inputs: tuple[str, ...]
    are_rows: bool

    @classmethod
    def of(cls, record: RunRecord) -> "Monitored | None":
        """Those of a run; None: it has recorded none."""
        values = record.evaluation.get("function_draws")
        if values is None or values.ndim != 3 or not values.shape[2]:
            return None
        weights, count = record.stats.get("weight"), values.shape[2]
        places = _places(record)
        are_rows = bool(places) and count % len(places) == 0
        places = places if are_rows else tuple(f"prediction {number}" for number in range(count))
        rows, outputs = np.arange(count) % len(places), np.arange(count) // len(places)
        said = _outputs(record, count // len(places)) if are_rows else [""]
        inputs = tuple(map(str, record.evaluation.get("reference_inputs", ())))
        names = tuple(f"{places[row]}{said[output]}" for row, output in zip(rows, outputs, strict=True))
        inputs = inputs if are_rows and len(inputs) == len(places) else ()
        return cls(values, weights, summarize(values, weights), rows, names, places, inputs, are_rows)

    @property
    def worst(self) -> np.ndarray:
        """The worst quantity of each of the worst points, the worst first."""
        return self.summary.worst(LISTED, self.rows)


def pictures(found: Monitored) -> list[Picture]:
    """Figures of all monitored predictions, the worst points, and a map of the chains if there are several."""
    made = [_convergence(found)]
    if len(found.worst):
        made.append(_worst(found))
    placed = chain_map(found.values, found.weights)
    return made if placed is None else [*made, _map(found, placed)]


def table(record: RunRecord) -> dict[str, Any] | None:
    """Tabulate the worst points, the worst first; None if there are none."""
    found = Monitored.of(record)
    if found is None or not len(found.worst):
        return None
    of = found.summary
    shares, means = between_share(found.values, found.weights), estimates(found.weights).mean(found.values)
    names = ["prediction", "R-hat", "bulk ESS", "tail ESS", "mean", "MCSE", "variance between chains"]
    rows = []
    for one in found.worst:
        figures = [
            shown_rhat(float(of.rhat[one])),
            f"{of.ess_bulk[one]:.0f}",
            f"{of.ess_tail[one]:.0f}",
            wording.number(float(means[one])),
            wording.number(float(of.mcse[one]), 2),
            _percent(float(shares[one])),
        ]
        rows.append([found.names[one], *figures, *([found.inputs[found.rows[one]]] if found.inputs else [])])
    return {"names": [*names, "farthest input"] if found.inputs else names, "rows": rows}


def _convergence(found: Monitored) -> Picture:
    summary, chains = found.summary, found.values.shape[0]
    svg = draw("convergence", lambda: plots.convergence_plot(summary.rhat, summary.ess_bulk, num_chains=chains)[0])
    left_out = (
        f" {wording.plural(summary.num_degenerate, 'prediction')} left out (constant or not finite)."
        if summary.num_degenerate
        else ""
    )
    errors = (
        f" The least certain mean is off by {100 * summary.max_mcse:.1f} % of a standard deviation (its Monte Carlo "
        f"error); the tails of the worst prediction are worth {wording.number(summary.min_ess_tail)} draws."
        if np.isfinite(summary.max_mcse)
        else ""
    )
    return Picture(
        title="Do the chains make the same predictions?",
        svg=svg,
        caption=(
            "R-hat should be near 1 for every prediction: then all chains make the same. Effective draws are the "
            f"number of independent draws that the correlated draws are worth: farther right is better.{errors}"
            f"{left_out}"
        ),
        alternative=(
            f"Two histograms over {found.values.shape[2]} monitored predictions. Largest R-hat: "
            f"{wording.number(summary.max_rhat, 4)}. Effective draws: fewest "
            f"{wording.number(summary.min_ess_bulk)}, median {wording.number(summary.median_ess_bulk)}."
        ),
    )


def _worst(found: Monitored) -> Picture:
    chosen, of = found.worst[:DRAWN], found.summary
    points = (
        f"Monitored are the predictions of {len(found.places)} rows that lie as far apart as possible; these are the "
        "worst of them."
        if found.are_rows
        else "These are the worst of all monitored predictions."
    )
    figures = "; ".join(
        f"{found.names[one]}: R-hat {wording.number(float(of.rhat[one]), 4)}, {of.ess_bulk[one]:.0f} effective draws"
        for one in chosen
    )
    return Picture(
        title="Where do the chains agree least?",
        svg=draw(
            "worst",
            lambda: plots.chain_intervals(found.values[:, :, chosen], [found.names[i] for i in chosen], found.weights)[
                0
            ],
        ),
        caption=(
            "For each chain: its mean (dot) with two Monte Carlo errors (thick), and the middle 90 % of its draws "
            f"(thin). The thick lines should overlap. {points}"
        ),
        alternative=f"Intervals by chain of the worst predictions. {figures}.",
    )


def _map(found: Monitored, placed: ChainMap) -> Picture:
    shown, shares = 100 * placed.shares.sum(), between_share(found.values, found.weights)
    share, precision = np.nanmedian(shares), ess_within(found.values, found.weights)
    halves = f", the halves of one {placed.typical_move:.2f}" if np.isfinite(placed.typical_move) else ""
    explained = (
        "; their means differ by more than Monte Carlo errors: they are in different parts of the posterior"
        if are_apart(shares, precision, len(placed.chains))
        else "; Monte Carlo errors explain how much their means differ"
    )
    explained = "" if np.isnan(precision).all() else explained  # as those of predictions that are constant in a chain
    said = (
        f"Two chains are typically {placed.typical_distance:.2f} standard deviations apart{halves}{explained}. "
        f"Between the chains lies {_percent(share)} of the variance of a typical prediction"
    )
    return Picture(
        title="Which chains predict alike? A map",
        svg=draw("map", lambda: plots.chain_map_plot(placed)),
        caption=(
            "A point is a chain, near those whose distributions of predictions are similar; its line goes from the "
            f"first to the second half of its draws. {said}. The map shows {shown:.0f} % of the squared "
            "distances."
        ),
        alternative=f"Map of {wording.plural(len(placed.chains), 'chain')}. {said}.",
    )


def _percent(share: float) -> str:
    return "below 1 %" if share < 0.005 else f"{100 * share:.0f} %"


def _places(record: RunRecord) -> tuple[str, ...]:
    rows = record.evaluation.get("reference_rows")
    if rows is None or not len(rows):
        return ()
    kind = "row" if wording.real(record.metrics, "num_test") else "training row"
    return tuple(f"{kind} {int(row)}" for row in rows)


def _outputs(record: RunRecord, count: int) -> list[str]:
    """What each output of a point is, as the end of its name."""
    data = record.metrics.get("data") or {}
    classes, target = data.get("classes"), data.get("target")
    if record.metrics.get("task") == "classification":
        names = classes if isinstance(classes, (list, tuple)) and len(classes) == count else range(count)
        return [f", log probability of {name}" for name in names]
    targets = target if isinstance(target, (list, tuple)) else [target]
    if count == 1 or len(targets) == count:
        return [f", {name} (scaled)" if name else "" for name in targets]
    if count == 2 * len(targets) and "heteroscedastic" in str(wording.setting(record.settings, "likelihood")):
        means = [f", {name or 'mean'} (scaled)" for name in targets]
        return means + [f", log precision of {name or 'the noise'}" for name in targets]
    return [f", output {number}" for number in range(count)]
