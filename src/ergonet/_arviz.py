"""ArviZ, imported on first use: it imports pandas and xarray, and fails for users without a home directory."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from ergonet._errors import SettingError


def from_dict() -> Any:
    """The function `arviz_base.from_dict`, which makes a `DataTree`."""
    with _importable():
        from arviz_base import from_dict

    return from_dict


def array_stats() -> Any:
    """The object `arviz_stats.base.array.array_stats`, which computes diagnostics of arrays."""
    with _importable():
        from arviz_stats.base.array import array_stats

    return array_stats


def plots() -> Any:
    """The package `arviz_plots`, which is optional.

    Raises:
        SettingError: it is not installed.
    """
    try:
        with _importable():
            import arviz_plots
    except ImportError as error:
        raise SettingError("This picture needs arviz-plots. Install it: `pip install arviz-plots`.") from error
    return arviz_plots


@contextmanager
def _importable() -> Generator[None]:
    """ArviZ looks for its settings in the home directory; a user without one has none.

    If NumPyro is not there yet, ArviZ leaves a module in its place that is loaded on first use. `numpyro.distributions`
    is then loaded twice, and the second time without its submodules as attributes, which NumPyro's programs need.
    """
    import_module("numpyro.distributions")

    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = os.devnull
        try:
            yield
        finally:
            del os.environ["HOME"]
    else:
        yield
