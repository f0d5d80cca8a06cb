"""Default settings of the built-in data sets."""

from typing import Any, Final

_GRAY_IMAGES: Final[dict[str, Any]] = {
    "network": {"hidden": [100], "activation": "relu"},
    "prior": {"name": "normal", "scale": 1.0},
    "likelihood": {"name": "categorical"},
    "kernel": {"name": "sghmc", "batch_size": 500},
    "run": {"num_chains": 2, "num_warmup": 50, "num_draws": 100},
}
BUILT_IN: Final[dict[str, dict[str, Any]]] = {
    "cifar10": {name: _GRAY_IMAGES[name] for name in ("network", "kernel", "run")},
    "cross-section": {"data": {"target_transform": "log10"}},
    "fashion-mnist": _GRAY_IMAGES,
    "mnist": _GRAY_IMAGES,
    "two-moons": {
        "network": {"hidden": [20]},
        "prior": {"name": "fan-in-normal", "scale": 4.0},
    },
}
"""Tables that come before the default of a table (`default.py`). The boundary between the moons bends sharply, which
needs larger weights than most tables do. The gray images have the network, the prior and the batch size of ChenReport,
section 4.2; the runs on images take a minute or two, since a transition is an epoch."""
