"""The errors that Ergonet raises, and the one helper that words them.

Every message names the argument, column or leaf, says what was found, and what to do next.
"""

import difflib
from collections.abc import Iterable


class ErgonetError(Exception):
    """Base of every error that Ergonet raises on purpose."""


class DataError(ErgonetError, ValueError):
    """Data that cannot be fitted or predicted: names the column, the first bad row and the value."""


class SettingError(ErgonetError, ValueError):
    """A setting or argument out of its range, or a name that is not known."""


class CapabilityError(ErgonetError, TypeError):
    """A kernel or function needs something that the target or kernel does not offer."""


class StartError(ErgonetError, RuntimeError):
    """No finite starting point was found; names the leaf, prior, likelihood or row to blame."""


class DivergedError(ErgonetError, RuntimeError):
    """A minibatch chain ran away before any draw was kept; says how it shows and which setting to change."""


class TimeLimitError(ErgonetError, TimeoutError):
    """The time limit came before the warm-up was over, so there are no draws to keep."""


class MemoryPlanError(ErgonetError, MemoryError):
    """The run would not fit in memory or on disk; says how much it needs and what to change."""


class RunDirectoryError(ErgonetError, OSError):
    """A run directory that is missing, incomplete, already there, or written by another version."""


class SamplingWarning(UserWarning):
    """Draws were made, but something about them is off; says what, how often, and what to do next."""


def suggest(name: str, choices: Iterable[str]) -> str:
    """Return the nearest known names as sentences, such as: Did you mean 'tanh'? Known: relu, tanh."""
    known = sorted(choices)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(repr(n) for n in near)}? " if near else ""
    return f"{hint}Known: {', '.join(known)}."
