"""Not in the thesis: the joint no-U-turn sampler on non-centered weights, at the gradients of Table 5.12."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.choo2000 import means
from experiments.choo2000.comparing import RULE, beats, draw_g, label, log_ratio, slope, units_of
from experiments.choo2000.means import REJECTED, RHO, RHO_ERROR, G, ratio, ratio_quantities, ratio_scores
from experiments.choo2000.methods import GIBBS, B
from experiments.choo2000.performance import SETTING, b_beats_gibbs, b_gains, of, row
from experiments.choo2000.plan import in_words, plan_of
from experiments.record import Case, Claim, Experiment, Table
from experiments.sizes import Size

ACCEPTANCES = (0.8, 0.95)
GROUPS = {
    "The geometric mean": (G, means.G_LOW, means.G_HIGH, REJECTED),
    "Ratios": tuple(q for method in (GIBBS, B) for q in ratio_quantities(method.name)),
    "Variances of means": tuple(RHO.values()),
    "Their errors between chains": tuple(RHO_ERROR.values()),
    "Cost": (means.GRADIENTS, means.WARMUP_GRADIENTS, means.DIVERGENCES, means.SECONDS),
}


def name_of(target_acceptance: float) -> str:
    """The name of the joint sampler in labels."""
    return f"joint NUTS {target_acceptance:g}"


def cases(size: Size) -> list[Case]:
    """Gibbs and B as in `choo-performance`, then the joint sampler, by width; small sizes have one joint sampler."""
    acceptances = ACCEPTANCES if size.mode == "full" else ACCEPTANCES[-1:]
    return [
        case
        for units in plan_of(size).units
        for case in (row(GIBBS, units, ()), row(B, units, (GIBBS,)), *(_joint(one, units) for one in acceptances))
    ]


def _joint(target_acceptance: float, units: int) -> Case:
    def measure(size: Size, seed: int) -> Mapping[str, float]:
        chains = means.run_joint(target_acceptance, units, plan_of(size), seed)
        found = chains.scores()
        for other in (GIBBS, B):
            found |= ratio_scores(other.name, ratio(chains, of(other, units, size, seed)))
        return found

    return Case(label(name_of(target_acceptance), units), measure)


def judge(table: Table) -> Sequence[Claim]:
    """Whether the joint sampler answers the question that the thesis leaves open."""
    return [b_beats_gibbs(table), b_gains(table), *(claim for one in _run(table) for claim in _beats(table, one))]


def _run(table: Table) -> list[float]:
    """The target acceptances in the table."""
    return [one for one in ACCEPTANCES if units_of(table, name_of(one))]


def _beats(table: Table, target_acceptance: float) -> list[Claim]:
    name, claims = name_of(target_acceptance), []
    for other in (GIBBS, B):
        units = units_of(table, name)
        found = [log_ratio(table, label(name, one), other.name) for one in units]
        told = ", ".join(f"{one.show()} at {at}" for one, at in zip(found, units, strict=True))
        change = slope(table, name, other.name)
        more = "" if change.is_below is None else f"; a doubling of the units changes them by {change.show()}"
        text = f"{name} on non-centered weights beats {other.name} at every width, at equal gradients"
        claims.append(Claim(text, beats(found), f"ratios of g by units: {told}{more}"))
    return claims


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Draw g and its ratios by units."""
    name = "choo-modern.png"
    joint = [name_of(one) for one in _run(table)]
    ratios = [(B.name, GIBBS.name), *((one, GIBBS.name) for one in joint)]
    draw_g(table, folder / name, [GIBBS.name, B.name, *joint], ratios)
    return {name: "g by hidden units with 90 % intervals (crosses: the thesis), and ratios of g, paired by start"}


EXPERIMENT = Experiment(
    name="choo-modern",
    title="Gibbs and Dynamical B against joint no-U-turn sampling (after Choo2000, Table 5.12)",
    setting=SETTING
    + "Joint: NUTS over weights and log precisions together, non-centered, diagonal metric, at two target acceptances. "
    "The number of transitions is chosen so that chains take the same gradients on average; the warm-up, which begins "
    "at the "
    "initial state of each chain, is not in the budget, like the tuning of the other methods.",
    cases=cases,
    groups=GROUPS,
    judge=judge,
    draw=draw,
    notes=RULE,
    in_words=in_words,
)
