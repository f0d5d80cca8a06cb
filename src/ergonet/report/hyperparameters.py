"""Pictures of the report that compare learned scales with their priors."""

import numpy as np

from ergonet import plots
from ergonet.report import wording
from ergonet.report.pictures import Picture, draw
from ergonet.report.record import RunRecord

RESOLVED = 0.1  # an input counts as relevant above this fraction of the largest scale


def pictures(record: RunRecord) -> list[Picture]:
    """Learned scales against their priors, and the relevance of every input; empty if no scale was learned."""
    arrays, made = record.evaluation, []
    names, draws = arrays.get("scale_names"), arrays.get("scale_draws")
    if names is not None and draws is not None and draws.size:
        flat = draws.reshape(-1, draws.shape[-1])
        made.append(_scales([str(name) for name in names], flat, arrays.get("scale_prior")))
    inputs, relevance = arrays.get("input_names"), arrays.get("input_draws")
    if inputs is not None and relevance is not None and relevance.size:
        made.append(_relevance([str(name) for name in inputs], relevance.reshape(-1, relevance.shape[-1])))
    return made


def _scales(names: list[str], draws: np.ndarray, prior: np.ndarray | None) -> Picture:
    median = np.median(draws, axis=0)
    return Picture(
        title="What did the data say about the scales?",
        svg=draw("scales", lambda: plots.scales_plot(names, draws, prior)),
        caption=(
            "Learned standard deviations of the weights, and what was learned about the noise, in standardized units. "
            "If a line is as wide as the band of the prior, the data said nothing about that value."
        ),
        alternative="Posterior medians: "
        + ", ".join(f"{name} {wording.number(float(one))}" for name, one in zip(names, median, strict=True))
        + ".",
    )


def _relevance(names: list[str], draws: np.ndarray) -> Picture:
    median = np.median(draws, axis=0)
    order = np.argsort(-median, kind="stable")
    largest = ", ".join(f"{names[row]} {wording.number(float(median[row]))}" for row in order[:5])
    least = int(np.sum(median < RESOLVED * median[order[0]]))
    return Picture(
        title="Which inputs matter?",
        svg=draw("relevance", lambda: plots.relevance_plot(names, draws)),
        caption=(
            "Scale of the weights out of each input, most relevant input first (automatic relevance determination): "
            "an input whose scale is far below the others has little effect on the predictions."
        ),
        alternative=(
            f"Median scales of {wording.plural(len(names), 'input')}. The largest: {largest}. Below a tenth of the "
            f"largest: {least}."
        ),
    )
