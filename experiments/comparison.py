"""Comparisons over seeds on which the verdicts are based; one rule for every table.

Two rows differ if a t-test over seeds is significant at the 5 % level divided by the number of comparisons of the claim
(Bonferroni); the variance between seeds is pooled over the compared rows. Effective sample sizes and costs are compared
by factors: "about the same" means a factor of at most 1.25 in either direction.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from experiments.record import Quantity, Table

LEVEL = 0.05
FACTOR = 1.25


@dataclass(frozen=True)
class Difference:
    """The mean of one row minus the mean of another.

    Attributes:
        first: label of the first row.
        second: label of the second row.
        value: difference of means over seeds.
        error: standard error with the pooled variance; NaN if no row has two seeds.
        probability: two-sided p-value; NaN if no row has two seeds.
    """

    first: str
    second: str
    value: float
    error: float
    probability: float

    def show(self, quantity: Quantity) -> str:
        """The difference as text, such as `A minus B: 0.10 +- 0.04`."""
        error = "" if math.isnan(self.error) else f" \N{PLUS-MINUS SIGN} {quantity.show(self.error)}"
        return f"{self.first} minus {self.second}: {quantity.show(self.value)}{error}"


def differences(
    table: Table, pairs: Sequence[tuple[str, str]], quantity: Quantity, scale: Callable[[float], float] = float
) -> list[Difference]:
    """Tests of every pair of rows; an empty list where a row lacks the quantity.

    `scale` is what is compared of each value; with `math.log`, for values above 0, differences are logs of ratios.
    """
    labels = dict.fromkeys(label for pair in pairs for label in pair)
    values = {label: [scale(one) for one in table.of(label, quantity.name)] for label in labels}
    if not all(values.values()):
        return []
    means = {label: sum(found) / len(found) for label, found in values.items()}
    freedom = sum(len(found) - 1 for found in values.values())
    squares = sum((one - means[label]) ** 2 for label, found in values.items() for one in found)
    variance = squares / freedom if freedom else math.nan
    found = []
    for first, second in pairs:
        value = means[first] - means[second]
        error = math.sqrt(variance * (1 / len(values[first]) + 1 / len(values[second])))
        found.append(Difference(first, second, value, error, _probability(value, error, freedom)))
    return found


def _probability(value: float, error: float, freedom: int) -> float:
    from scipy.stats import t

    if math.isnan(error):
        return math.nan
    if error == 0:
        return 1.0 if value == 0 else 0.0
    return float(2 * t.sf(abs(value) / error, freedom))


def all_pairs(table: Table, labels: Iterable[str], quantity: Quantity) -> list[Difference]:
    """The differences of all pairs of rows, the larger mean first."""
    ordered = sorted(labels, key=lambda label: -table.mean(label, quantity.name))
    return differences(table, list(combinations(ordered, 2)), quantity)


def against(table: Table, labels: Iterable[str], reference: str, quantity: Quantity) -> list[Difference]:
    """The difference of each row from the reference."""
    return differences(table, [(label, reference) for label in labels], quantity)


def significant(found: Sequence[Difference]) -> list[Difference] | None:
    """The significant differences at the common level; None if the seeds are too few to tell."""
    if not found or any(math.isnan(one.probability) for one in found):
        return None
    return [one for one in found if one.probability < LEVEL / len(found)]


def none_differs(found: Sequence[Difference]) -> bool | None:
    """Whether no difference is significant; None if the seeds are too few to tell."""
    real = significant(found)
    return None if real is None else not real


def largest(found: Sequence[Difference]) -> Difference | None:
    """The difference furthest from 0."""
    return max(found, key=lambda one: abs(one.value), default=None)


def spread(table: Table, labels: Sequence[str], quantity: str) -> float:
    """Ratio of the largest to the smallest mean; NaN unless all are above 0."""
    means = [table.mean(label, quantity) for label in labels]
    return max(means) / min(means) if min(means) > 0 else math.nan


def is_about_the_same(factor: float) -> bool | None:
    """Whether a factor is at most 1.25 either way; None for NaN."""
    return None if math.isnan(factor) else 1 / FACTOR <= factor <= FACTOR


def every(answers: Iterable[bool | None]) -> bool | None:
    """Whether all are true; None if some are undecided and none is false."""
    found = list(answers)
    if any(one is False for one in found):
        return False
    return None if any(one is None for one in found) else True
