"""Versions of the software that determines the draws."""

import importlib.metadata
import platform


def versions() -> dict[str, str]:
    """Versions of the software that determines the draws, for the record of a run."""
    found = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "equinox", "numpy")}
    try:
        found["ergonet"] = importlib.metadata.version("ergonet")
    except importlib.metadata.PackageNotFoundError:
        found["ergonet"] = "not installed"
    return found | {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
