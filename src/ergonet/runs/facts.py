"""What a reader wants to know of a fitted model: architecture, preprocessing, likelihood, kernel, draws, versions."""

from collections.abc import Mapping
from typing import Any

from ergonet.assembly.settings import Settings
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.diagnostics.finding import FALLBACK
from ergonet.draws.samples import Samples
from ergonet.models.network import MLP
from ergonet.models.network_posterior import BayesianNetwork
from ergonet.prediction.compression import COMPRESSED
from ergonet.prediction.loss import PredictiveLoss

ROUNDED = "rounded"  # in `Samples.about`: the precision in which draws were stored
_SHOWN = 8  # names of columns


def facts(
    settings: Settings, preprocessing: Preprocessing, model: BayesianNetwork, samples: Samples
) -> dict[str, object]:
    """One line by name for each part, without reading a draw."""
    about, known = samples.about, model.facts()
    inputs = f"{len(preprocessing.encoded_names)}: {_listed(preprocessing.kept)}"
    found: dict[str, object] = {
        "network": _network(model),
        "inputs": inputs + (f"; left out: {_listed(preprocessing.dropped)}" if preprocessing.dropped else ""),
        "target": _listed(preprocessing.target_names)
        + (f", classes {_listed(preprocessing.classes)}" if preprocessing.classes else ""),
        "preprocessing": preprocessing.scaling + _beyond(preprocessing) + _kinds(preprocessing),
        "prior": known["prior"],
        "likelihood": _chosen(settings.likelihood, known["likelihood"]),
        "kernel": _chosen(settings.kernel, about.get("kernel", "unknown")),
        "draws": f"{samples.num_chains} x {samples.num_draws} (chains x draws)",
    }
    if FALLBACK in about:
        found["draws"] = about[FALLBACK]["sentence"]
    if COMPRESSED in about:
        origin = about[COMPRESSED]
        found["draws"] = f"{samples.num_draws} weighted ones of {origin['chains']} x {origin['draws']}"
        found["compression"] = PredictiveLoss.of_record(origin)
    if ROUNDED in about:
        found["precision"] = f"{about[ROUNDED]['precision']}: {PredictiveLoss.of_record(about[ROUNDED])}"
    names = {"ergonet": "Ergonet", "jax": "JAX", "numpy": "NumPy", "python": "Python"}
    known_versions = about.get("versions", {})
    versions = [f"{name} {known_versions[key]}" for key, name in names.items() if key in known_versions]
    return found | {"versions": ", ".join(versions) or "unknown"}


def _network(model: BayesianNetwork) -> str:
    network = model.network
    weights = sum(leaf.size for leaf in network.leaves().values())
    if not isinstance(network, MLP):
        return f"{type(network).__name__}, {weights} weights"
    sizes = "-".join(map(str, network.sizes))
    direct = ", direct connections" if network.direct else ""
    return f"{sizes}, {network.activation}, {'with' if network.bias else 'without'} biases{direct}, {weights} weights"


def _beyond(preprocessing: Preprocessing) -> str:
    beyond = preprocessing.log_beyond
    return "" if beyond is None else f", and beyond {beyond:g} of these by its logarithm"


def _kinds(preprocessing: Preprocessing) -> str:
    named = [f"{name} ({encoder.kind})" for name, encoder in preprocessing.encoders.items()]
    return f"; {_listed(named)}" if named else ""


def _chosen(choice: Any, otherwise: object) -> str:
    """A table of settings as text: its name, and then the others."""
    if not isinstance(choice, Mapping):
        return str(otherwise)
    name = choice.get("name", otherwise)
    rest = ", ".join(f"{key}={value}" for key, value in choice.items() if key not in ("name", "units"))
    return f"{name}({rest})" if rest else str(name)


def _listed(names: Any) -> str:
    shown = [str(one) for one in names]
    more = len(shown) - _SHOWN
    return ", ".join(shown[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
