"""Settings that hold where nobody chose others: for tables, and for each built-in data set."""

from typing import Any, Final

GENERAL: Final[dict[str, Any]] = {
    "network": {"hidden": [50], "activation": "tanh", "bias": True},
    "prior": {"name": "fan-in-normal", "scale": 1.0},
    "kernel": {"name": "nuts"},
    "run": {"num_chains": 4, "num_warmup": 500, "num_draws": 500},
}
"""One hidden layer, whatever the table; the likelihood follows from the task (noise is learned)."""

_GREY_IMAGES: Final[dict[str, Any]] = {
    "network": {"hidden": [100], "activation": "relu", "bias": True},
    "prior": {"name": "normal", "scale": 1.0},
    "likelihood": {"name": "categorical"},
    "kernel": {"name": "sghmc", "batch_size": 500},
    "run": {"num_chains": 2, "num_warmup": 50, "num_draws": 100},
}
BUILT_IN: Final[dict[str, dict[str, Any]]] = {
    "cifar10": {
        "network": {"hidden": [100], "activation": "relu", "bias": True},
        "kernel": {"name": "sghmc", "batch_size": 500},
        "run": {"num_chains": 2, "num_warmup": 50, "num_draws": 100},
    },
    "digits": {
        "network": {"hidden": [35], "activation": "tanh", "bias": False},
        "prior": {"name": "normal", "scale": 1.0},
        "likelihood": {"name": "categorical"},
        "kernel": {"name": "nuts"},
        "run": {"num_chains": 4, "num_warmup": 500, "num_draws": 500},
    },
    "fashion-mnist": _GREY_IMAGES,
    "mnist": _GREY_IMAGES,
    "two-moons": {
        "network": {"hidden": [20], "activation": "tanh", "bias": True},
        "prior": {"name": "fan-in-normal", "scale": 4.0},
    },
}
"""Tables that replace those of `GENERAL`. `digits` is the problem of 2590 weights that the speed results are about; the
border between the moons bends sharply, which needs weights larger than tables usually do. The grey images have the
network, the prior and the batches of source 002, section 4.2; images have a run of a minute or two, for a transition is
an epoch."""


def in_words(name: str) -> str:
    """The default settings of a built-in data set as a line for a person."""
    table = {**GENERAL, **BUILT_IN.get(name, {})}
    network, prior, run = table["network"], table["prior"], table["run"]
    return (
        f"{'-'.join(map(str, network['hidden']))} {network['activation']} units"
        f"{'' if network['bias'] else ', no biases'}; {prior['name']}({prior['scale']:g}) prior; "
        f"{table['kernel']['name'].upper()}, {run['num_chains']} chains x ({run['num_warmup']} + {run['num_draws']})"
    )
