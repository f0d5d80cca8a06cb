"""Going on with a stopped fit: by `ergonet resume`, or from the beginning if there is nothing to resume."""

from pathlib import Path

from benchmarks.reliability import fits
from benchmarks.reliability.fits import Fit


def continue_here(fit: Fit, place: Path, *, overwrite: bool) -> tuple[str, bool]:
    """Finish a stopped fit in this process.

    Returns:
        What went wrong, or nothing; and whether the run was resumed, and not begun again.
    """
    store = fits.store_of(place, seed=fit.seed)
    try:
        if store is not None:
            answer = fits.here("resume", str(place))
            if answer.code == 0 or store.is_relative_to(place):
                return (answer.err.strip() or f"exit code {answer.code}") if answer.code else "", True
        fit.here(place, overwrite=overwrite)
    except BaseException as error:  # noqa: BLE001  whatever a person would see
        return f"{type(error).__name__}: {error}", store is not None
    return "", False
