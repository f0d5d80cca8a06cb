"""Table 4.3: Gibbs against joint sampling of one precision, that of the input weights."""

from collections.abc import Sequence

from ergonet import NUTS, GibbsHMC, priors
from experiments.comparison import differences, significant
from experiments.lau2018 import claims
from experiments.lau2018.digits import (
    EFFECTIVE,
    GROUPS,
    MEDIAN_ESS,
    MIN_ESS,
    NOTES,
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

STEP_SIZE = 0.01
ENOUGH = 100  # ESS; runs that the thesis calls meaningful are far above, the others far below
GIBBS, TUNED, CENTERED, NON_CENTERED = "Gibbs, e = 0.01", "Gibbs, tuned", "joint, centered", "joint, non-centered"


def prior(parametrization: str) -> dict[str, priors.NormalGamma]:
    """Gamma(0.5, 0.5) on the precision of the input weights."""
    return {"layers.0.weight": priors.NormalGamma(1.0, 1.0, "leaf", parametrization)}


JOINT = NUTS(target_acceptance=TARGET_ACCEPTANCE)
FIXED = NUTS(metric="identity", step_size=STEP_SIZE)
RUNS = (
    Run(GIBBS, GibbsHMC(FIXED), priors=prior("centered"), source=figures(88.4, 1.29, 45.3) | {VARIANCE_ESS.name: 4.38}),
    Run(TUNED, GibbsHMC(JOINT), priors=prior("centered")),
    Run(CENTERED, JOINT, priors=prior("centered"), source=figures(25.8, 4.69, 1037) | {VARIANCE_ESS.name: 4.86}),
    Run(NON_CENTERED, JOINT, priors=prior("non-centered"), source=figures(28.4, 434, 1333) | {VARIANCE_ESS.name: 504}),
)
LABELS = tuple(run.label for run in RUNS)


def cases(_: Size) -> list[Case]:
    """The rows."""
    return [run.case() for run in RUNS]


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.4."""
    of_variance = {label: table.mean(label, VARIANCE_ESS.name) for label in LABELS}
    told = ", ".join(f"{label} {value:.0f}" for label, value in of_variance.items())
    ours = {label: table.mean(label, MIN_ESS.name) for label in LABELS}
    joint = differences(table, [(GIBBS, NON_CENTERED)], SINGLE)
    real = significant(joint)
    return [
        Claim(
            "joint sampling of centered weights cannot sample the variance, but of non-centered weights it can",
            of_variance[CENTERED] < ENOUGH <= of_variance[NON_CENTERED],
            f"ESS of sigma^2: {told}; enough is {ENOUGH}",
        ),
        Claim(
            "joint sampling of non-centered weights is more efficient than the Gibbs sampler with step size 0.01",
            of_variance[NON_CENTERED] > of_variance[GIBBS] and ours[NON_CENTERED] > ours[GIBBS],
            f"ESS of sigma^2 {of_variance[NON_CENTERED]:.0f} against {of_variance[GIBBS]:.0f}, min ESS of the weights "
            f"{ours[NON_CENTERED]:.0f} against {ours[GIBBS]:.0f}",
        ),
        Claim(
            "no step size gives the Gibbs sampler decent efficiency (here: the one that a warm-up finds)",
            of_variance[TUNED] < ENOUGH,
            f"tuned, its ESS of sigma^2 is {of_variance[TUNED]:.0f}, the median ESS of the weights "
            f"{table.mean(TUNED, MEDIAN_ESS.name):.0f}",
        ),
        Claim(
            "the Gibbs sampler with step size 0.01 predicts far worse",
            None if real is None else bool(real) and real[0].value > 0,
            "; ".join(one.show(SINGLE) for one in joint),
        ),
        claims.one_draw(table),
    ]


EXPERIMENT = Experiment(
    name="lau-gibbs",
    title="Gibbs against joint sampling of a precision (Lau2018, Table 4.3)",
    setting=SETTING
    + "The prior of the input weights is N(0, sigma^2) with sigma^-2 ~ Gamma(0.5, 0.5); the output weights keep "
    f"N(0, 1). *{GIBBS}* is the thesis's Gibbs sampler: the precision from its Gamma distribution, then a no-U-turn "
    f"trajectory with identity metric and step size {STEP_SIZE}; *{TUNED}* is ours, with metric and step size found by "
    "the warm-up. Chains start with sigma^2 within a factor e of 1.",
    cases=cases,
    groups={**GROUPS, "ESS of the weights": (*EFFECTIVE, VARIANCE_ESS, VARIANCE_BULK)},
    judge=judge,
    draw=errors_picture("lau-gibbs"),
    notes=NOTES + "ESS of weights: of their coordinates, under a non-centered prior the standardized weights.",
)
