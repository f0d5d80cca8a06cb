"""Conclusions shared by several tables, as rules; see `experiments/comparison.py`."""

from collections.abc import Sequence

from experiments.comparison import (
    Difference,
    all_pairs,
    every,
    is_about_the_same,
    largest,
    none_differs,
    significant,
    spread,
)
from experiments.lau2018.digits import MEDIAN_ESS, MIN_ESS, PREDICTIVE, SINGLE, SINGLE_SD
from experiments.record import Claim, Quantity, Table

ONE_DRAW_SDS = 2
SMALLEST_SD = 0.2  # %: one row in 500


def errors_differ(table: Table, labels: Sequence[str], text: str) -> Claim:
    """Claim that test errors differ between rows: true if the single-draw errors of some pair of rows differ."""
    single, predictive = (all_pairs(table, labels, quantity) for quantity in (SINGLE, PREDICTIVE))
    same = none_differs(single)
    because = "; ".join(sentence(found, q) for found, q in ((single, SINGLE), (predictive, PREDICTIVE)))
    return Claim(text, None if same is None else not same, because)


def errors_agree(table: Table, labels: Sequence[str], text: str) -> Claim:
    """Claim that all rows have the same test errors, both of single draws and of the posterior predictive."""
    pairs = {quantity: all_pairs(table, labels, quantity) for quantity in (SINGLE, PREDICTIVE)}
    because = "; ".join(sentence(found, quantity) for quantity, found in pairs.items())
    return Claim(text, every(none_differs(found) for found in pairs.values()), because)


def sentence(found: Sequence[Difference], quantity: Quantity) -> str:
    """The number of significant differences and the largest difference, as a sentence."""
    most, real = largest(found), significant(found)
    if most is None:
        return f"{quantity.name}: not measured"
    count = "too few seeds to tell" if real is None else f"{len(real)} of {len(found)} differences are significant"
    return f"{quantity.name}: {count}, the largest is {most.show(quantity)}"


def ess_agrees(table: Table, labels: Sequence[str], text: str) -> Claim:
    """Claim that all rows have about the same median ESS; the smallest ESS is reported, too."""
    factor, least = (spread(table, labels, quantity.name) for quantity in (MEDIAN_ESS, MIN_ESS))
    because = f"largest over smallest median ESS {factor:.2f}, of the min ESS {least:.2f}"
    return Claim(text, is_about_the_same(factor), because)


def one_draw(table: Table) -> Claim:
    """Claim that the thesis's errors are errors of single draws: each is within two of our sds of our mean."""
    scores = []
    for label in table.labels:
        theirs = table.source(label, SINGLE.name)
        if theirs is not None and table.of(label, SINGLE.name):
            sd = max(table.mean(label, SINGLE_SD.name), SMALLEST_SD)
            scores.append((theirs - table.mean(label, SINGLE.name)) / sd)
    inside = sum(abs(score) <= ONE_DRAW_SDS for score in scores)
    because = (
        f"{inside} of {len(scores)} of its figures lie within {ONE_DRAW_SDS} of our sds between draws of our mean: "
        f"{', '.join(f'{score:+.1f}' for score in scores)} sds, in the order of the rows"
    )
    return Claim(
        "the printed test errors are what single draws of these posteriors give", inside == len(scores), because
    )
