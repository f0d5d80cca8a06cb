"""Table 4.10, the rows of the normal prior: dense, diagonal and identity metric."""

from collections.abc import Sequence

from ergonet import NUTS
from experiments.comparison import FACTOR, against, significant
from experiments.lau2018 import claims
from experiments.lau2018.digits import (
    EFFECTIVE,
    GRADIENTS,
    GROUPS,
    MEDIAN_ESS,
    NOTES,
    PREDICTIVE,
    SECONDS,
    SETTING,
    SINGLE,
    TARGET_ACCEPTANCE,
    Run,
    figures,
)
from experiments.lau2018.drawing import errors_picture
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

MOST_DOUBLINGS = 7
DENSE_SHARE, DENSE_CHAINS = 0.25, 2
EFFECTIVE_SHARE = Quantity("median ESS, % of the draws", 1)

DENSE, REFERENCE, IDENTITY = "dense, shortened run", "diagonal", "identity"
RUNS = (
    Run(
        DENSE,
        NUTS(metric="dense", max_doublings=MOST_DOUBLINGS, target_acceptance=TARGET_ACCEPTANCE),
        share=DENSE_SHARE,
        most_chains=DENSE_CHAINS,
        source=figures(67.0, 5, 17, 36596),
    ),
    Run(REFERENCE, NUTS(target_acceptance=TARGET_ACCEPTANCE), source=figures(24.4, 563, 1331, 10165)),
    Run(IDENTITY, NUTS(metric="identity", target_acceptance=TARGET_ACCEPTANCE), source=figures(20.6, 708, 1324, 11569)),
)
THESIS_DRAWS = 4000


def cases(size: Size) -> list[Case]:
    """The rows, with the ESS as a share of the draws: the dense row has fewer."""

    def measured(run: Run) -> Case:
        part = size.part(run.share, run.most_chains)

        def measure(size: Size, seed: int) -> dict[str, float]:
            found = run.measure(size, seed)
            return found | {EFFECTIVE_SHARE.name: 100 * found[MEDIAN_ESS.name] / (part.num_chains * part.num_draws)}

        theirs = 100 * run.source[MEDIAN_ESS.name] / THESIS_DRAWS
        return Case(run.label, measure, {**run.source, EFFECTIVE_SHARE.name: theirs})

    return [measured(run) for run in RUNS]


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.8 on the normal prior."""
    shares = {label: table.mean(label, EFFECTIVE_SHARE.name) for label in table.labels}
    per_gradient = {
        label: 1000 * table.mean(label, SECONDS.name) / table.mean(label, GRADIENTS.name) for label in shares
    }
    times = per_gradient[DENSE] / per_gradient[REFERENCE]
    return [
        _worse(table, SINGLE, "the dense metric errs far more than the diagonal one"),
        Claim(
            "the dense metric has a far lower ESS",
            shares[DENSE] < shares[REFERENCE] / FACTOR,
            f"median ESS {shares[DENSE]:.1f} % of the draws against {shares[REFERENCE]:.1f} %",
        ),
        Claim(
            "the dense metric costs more time",
            times > FACTOR,
            f"{per_gradient[DENSE]:.0f} microseconds of the run per gradient against {per_gradient[REFERENCE]:.0f}; "
            f"compared by gradient because the dense row is shorter",
        ),
        claims.errors_agree(table, [REFERENCE, IDENTITY], "identity and diagonal metric err alike"),
        claims.ess_agrees(table, [REFERENCE, IDENTITY], "identity and diagonal metric are as efficient"),
        claims.one_draw(table),
    ]


def _worse(table: Table, quantity: Quantity, text: str) -> Claim:
    found = {one: against(table, [DENSE], REFERENCE, one) for one in (quantity, PREDICTIVE)}
    real = significant(found[quantity])
    worse = None if real is None else bool(real) and real[0].value > 0
    told = "; ".join(f"{one.name} {difference.show(one)}" for one, (difference, *_) in found.items())
    return Claim(text, worse, told)


EXPERIMENT = Experiment(
    name="lau-metric",
    title="Dense, diagonal and identity metric (Lau 2018, Table 4.10)",
    setting=SETTING
    + "NUTS. Rows of the normal prior only: those of the hierarchical priors are not there yet. A dense step costs two "
    f"products with a 2590 x 2590 matrix, so the dense row is shortened: at most {MOST_DOUBLINGS} doublings (127 "
    f"steps), {DENSE_CHAINS} chains, and {DENSE_SHARE:.0%} of the warm-up and of the draws of each.",
    cases=cases,
    groups={**GROUPS, "Effective draws of the weights": (*EFFECTIVE, EFFECTIVE_SHARE)},
    judge=judge,
    draw=errors_picture("lau-metric"),
    notes=NOTES + "The thesis's seconds are of other hardware: compare ratios.",
)
