"""Termination criteria and selections of trajectories by name."""

from typing import TYPE_CHECKING

from ergonet._registry import Registry

if TYPE_CHECKING:
    from ergonet.trajectory.criterion import AbstractCriterion
    from ergonet.trajectory.selection import AbstractSelection

CRITERIA: "Registry[AbstractCriterion]" = Registry(
    "criterion",
    {
        "original": "ergonet.trajectory.criterion:Original",
        "generalized": "ergonet.trajectory.criterion:Generalized",
        "exhaustive": "ergonet.trajectory.criterion:Exhaustive",
    },
    of=("ergonet.trajectory.criterion:AbstractCriterion",),
)
SELECTIONS: "Registry[AbstractSelection]" = Registry(
    "selection",
    {
        "multinomial": "ergonet.trajectory.selection:Multinomial",
        "slice": "ergonet.trajectory.selection:Slice",
    },
    of=("ergonet.trajectory.selection:AbstractSelection",),
)
