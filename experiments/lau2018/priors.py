"""Table 4.4: priors of the output weights, from a normal to the horseshoe."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ergonet import NUTS, priors
from experiments.comparison import Difference, against, differences, significant
from experiments.lau2018 import claims
from experiments.lau2018.digits import (
    DIVERGENCES,
    EFFECTIVE,
    GROUPS,
    MEDIAN_ESS,
    MIN_ESS,
    NOTES,
    PREDICTIVE,
    SETTING,
    SINGLE,
    TARGET_ACCEPTANCE,
    VARIANCE_BULK,
    VARIANCE_ESS,
    Run,
    figures,
)
from experiments.lau2018.drawing import errors_picture
from experiments.record import Case, Claim, Experiment, Table
from experiments.sizes import Size

NORMAL, HORSESHOE, HORSESHOE_ARD = "normal", "horseshoe", "horseshoe ARD"
REGULARIZED, REGULARIZED_ARD = "regularized horseshoe", "regularized horseshoe ARD"
GAMMA, GAMMA_ARD = "normal-inverse-gamma", "normal ARD"
UNIT = "incoming"
QUICK_SHARE = 0.5
PRIORS: dict[str, tuple[Any, Mapping[str, float]]] = {
    NORMAL: (None, figures(23.4, 358, 1348)),
    GAMMA: (priors.NormalGamma(1.0, 1.0), figures(26.8, 440, 1298)),
    GAMMA_ARD: (priors.NormalGamma(1.0, 1.0, UNIT), figures(24.0, 574, 1220)),
    REGULARIZED: (priors.RegularizedHorseshoe(), figures(37.8, 151, 911)),
    REGULARIZED_ARD: (priors.RegularizedHorseshoe(group=UNIT), figures(30.8, 334, 1356)),
    HORSESHOE: (priors.Horseshoe(), figures(41.0, 4, 80)),
    HORSESHOE_ARD: (priors.Horseshoe(group=UNIT), figures(33.6, 349, 1354)),
}
KERNEL = NUTS(target_acceptance=TARGET_ACCEPTANCE)
RUNS = tuple(
    Run(label, KERNEL, priors={} if prior is None else {"layers.1.weight": prior}, source=source)
    for label, (prior, source) in PRIORS.items()
)
OTHERS = tuple(label for label in PRIORS if label != NORMAL)
WITH_ARD = ((GAMMA_ARD, GAMMA), (REGULARIZED_ARD, REGULARIZED), (HORSESHOE_ARD, HORSESHOE))


def cases(size: Size) -> list[Case]:
    """The rows; those of hierarchical priors shortened in a quick run."""
    share = QUICK_SHARE if size.mode == "quick" else 1.0
    return [(replace(run, share=share) if run.priors else run).case() for run in RUNS]


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.5."""
    least = {label: table.mean(label, MIN_ESS.name) for label in PRIORS}
    gains = differences(table, WITH_ARD, MIN_ESS, math.log)
    diverged = {label: table.mean(label, DIVERGENCES.name) for label in (HORSESHOE, REGULARIZED)}
    told = "; ".join(f"{one.show(SINGLE)}" for one in against(table, OTHERS, NORMAL, SINGLE))
    predictive = "; ".join(f"{one.show(PREDICTIVE)}" for one in against(table, OTHERS, NORMAL, PREDICTIVE))
    real = significant(against(table, OTHERS, NORMAL, PREDICTIVE))
    better = None if real is None else not any(one.value < 0 for one in real)
    return [
        Claim(
            "no hierarchical prior predicts better than the normal one",
            better,
            f"single draws: {told}; posterior predictive: {predictive}",
        ),
        Claim(
            "ARD groups make every prior sample more efficiently",
            _all_gain(gains),
            "min ESS with ARD over without, by geometric means: "
            f"{', '.join(f'{math.exp(one.value):.2f} (p = {one.probability:.2g})' for one in gains)} "
            "(normal, regularized horseshoe, horseshoe)",
        ),
        Claim(
            "the plain horseshoe hardly converges",
            least[HORSESHOE] < 0.1 * least[NORMAL],
            f"min ESS {least[HORSESHOE]:.0f} and median {table.mean(HORSESHOE, MEDIAN_ESS.name):.0f}, against "
            f"{least[NORMAL]:.0f} and {table.mean(NORMAL, MEDIAN_ESS.name):.0f} with the normal prior",
        ),
        Claim(
            "the regularized horseshoe does not diverge, the plain one does",
            diverged[REGULARIZED] < 1 <= diverged[HORSESHOE],
            f"divergences per run {diverged[REGULARIZED]:.1f} against {diverged[HORSESHOE]:.1f}",
        ),
        claims.one_draw(table),
    ]


def _all_gain(gains: Sequence[Difference]) -> bool | None:
    """Whether every ratio is significantly above 1; None if some are undecided."""
    real = significant(gains)
    if real is None:
        return None
    if any(one.value < 0 for one in real):
        return False
    return True if len(real) == len(gains) else None


EXPERIMENT = Experiment(
    name="lau-priors",
    title="Priors of the output weights (Lau2018, Table 4.4)",
    setting=SETTING
    + "NUTS; the prior changes on the hidden-to-output weights only. Where the thesis gives no numbers: sigma^-2 ~ "
    "Gamma(0.5, 0.5); *normal ARD* is read as normal-inverse-gamma with a variance for each unit; ARD groups are the "
    "weights that enter a unit, as its definition says, here an output. All scales are non-centered; half-Cauchy "
    "scales are products of a half-normal and the *root* of an inverse gamma (the thesis multiplies by the inverse "
    f"gamma itself). In a quick run the rows of hierarchical priors have {QUICK_SHARE:.0%} of the transitions.",
    cases=cases,
    groups={**GROUPS, "ESS of the weights": (*EFFECTIVE, VARIANCE_ESS, VARIANCE_BULK)},
    judge=judge,
    draw=errors_picture("lau-priors"),
    notes=NOTES + "ESS: of the weights' coordinates, which under a non-centered prior are the standardized weights.",
    reference=NORMAL,
)
