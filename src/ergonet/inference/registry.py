"""Warm starts by name."""

from typing import TYPE_CHECKING

from ergonet._registry import Registry

if TYPE_CHECKING:
    from ergonet.inference.warm_start import WarmStart

WARM_STARTS: "Registry[WarmStart]" = Registry(
    "warm_start",
    {
        "adam": "ergonet.inference.warm_start:adam",
        "adam+mclmc": "ergonet.inference.warm_start:adam_then_mclmc",
    },
    of=("ergonet.inference.warm_start:WarmStart",),
)
