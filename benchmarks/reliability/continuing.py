"""Going on with a fit that was stopped: by `ergonet resume`, or, where there is nothing to resume, from the beginning."""

import contextlib
import io
import warnings
from pathlib import Path

from benchmarks.reliability import fits
from benchmarks.reliability.fits import Fit


def resume_here(place: Path) -> str:
    """`ergonet resume` in this process; its message if it failed, or else nothing."""
    import typer

    from ergonet.cli.main import app

    said = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        warnings.simplefilter("ignore")
        try:
            code = app(["resume", str(place)], standalone_mode=False)
        except typer.Exit as stopped:
            code = stopped.exit_code
        except BaseException as error:  # noqa: BLE001  whatever a person would see
            return f"{type(error).__name__}: {error}"
    return said.getvalue().strip() or f"exit code {code}" if code else ""


def continue_here(fit: Fit, place: Path, *, overwrite: bool) -> tuple[str, bool]:
    """Finish a stopped fit in this process.

    Returns:
        What went wrong, or nothing; and whether the run was resumed, and not begun again.
    """
    if fits.store_of(place) is not None:
        return resume_here(place), True
    try:
        fit.here(place, overwrite=overwrite)
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}", False
    return "", False
