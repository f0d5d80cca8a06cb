"""Parts joined even where a mass is not to be trusted, which the tables then say."""

from collections.abc import Sequence
from typing import Any

from ergonet import Samples, partition
from ergonet._errors import EstimateError
from experiments.record import Quantity

UNKNOWN = (
    1000.0  # the error of a log mass without an estimate: a number, as tables need, far beyond any that is trusted
)
TRUSTED = Quantity("runs whose weights are to be trusted, %")


def joined_anyway(
    target: Any, samples: Sequence[Samples], parts: partition.Partition, *, seed: int
) -> partition.Joined:
    """As `partition.join`, without its refusal; equal weights where a part has no estimate at all."""
    try:
        masses = [
            partition.log_mass(target, one.positions, region=box, seed=seed + number)
            for number, (one, box) in enumerate(zip(samples, parts.boxes, strict=True))
        ]
    except EstimateError:  # a chain stands still
        masses = [partition.LogMass(0.0, UNKNOWN, 0.0, 0.0, (0.0, 0.0))] * len(samples)
    return partition.Joined(tuple(samples), tuple(masses))
