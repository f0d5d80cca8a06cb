"""Pictures of the report on what the predictions depend on."""

import numpy as np

from ergonet import plots
from ergonet.explanation import Importance, PartialDependence
from ergonet.report import predictions, wording
from ergonet.report.pictures import Picture, draw
from ergonet.report.record import RunRecord


def pictures(record: RunRecord) -> list[Picture]:
    """The importance of the columns, and the prediction as a function of the most important; empty if unknown."""
    arrays, made = record.evaluation, []
    names, values = arrays.get("importance_names"), arrays.get("importance")
    if names is not None and values is not None and len(names):
        made.append(_importance(Importance(tuple(map(str, names)), values[0], values[1], values[2])))
    for number, name in enumerate(arrays.get("dependence_names", ())):
        mean, lower, upper = arrays[f"dependence_{number}"]
        found = PartialDependence(str(name), arrays[f"dependence_{number}_values"], mean, lower, upper)
        made.append(_dependence(record, found, number))
    return made


def _importance(found: Importance) -> Picture:
    known = [index for index in found.order if np.isfinite(found.loss[index])]
    largest = ", ".join(
        f"{found.names[index]} {' '.join(wording.with_error(found.loss[index], found.standard_error[index]))}".strip()
        for index in known[:5]
    )
    lacking = len(found.names) - len(known)
    unknown = f" There was no time for {wording.plural(lacking, 'column')}." if lacking else ""
    return Picture(
        title="Which columns matter?",
        svg=draw("importance", lambda: plots.importance_plot(found)),
        caption=(
            "How much worse the log score of held-out rows becomes if the values of a column are exchanged among them, "
            "with 95 % intervals over rows. Columns that say the same share their importance." + unknown
        ),
        alternative=f"Loss of log score in nats per row, most important first: {largest}.",
    )


def _dependence(record: RunRecord, found: PartialDependence, number: int) -> Picture:
    target, name = _shown_target(record, found)
    mean = found.mean[:, target]
    low, high = (wording.number(float(one)) for one in (mean.min(), mean.max()))
    return Picture(
        title=f"How does {name} change with {found.name}?",
        svg=draw(f"dependence-{number}", lambda: plots.dependence_plot(found, target=target, name=name)),
        caption=(
            "The prediction averaged over rows if this column is changed and the others are not, with a 90 % band for "
            "what the data leave open about this average."
        ),
        alternative=f"Average prediction of {name} as a function of {found.name}, from {low} to {high}.",
    )


def _shown_target(record: RunRecord, found: PartialDependence) -> tuple[int, str]:
    """The first target; or the class whose probability changes most, the second of two."""
    count = found.mean.shape[1]
    if "probabilities" not in record.evaluation and (record.metrics.get("task") != "classification"):
        return 0, wording.target_names(record.metrics, count)[0]
    names = predictions.class_names(record.metrics, count)
    target = 1 if count == 2 else int(np.argmax(np.ptp(found.mean, axis=0)))
    return target, f"P({names[target]})"
