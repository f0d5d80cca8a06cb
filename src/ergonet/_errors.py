"""The errors that Ergonet raises, and a helper for their messages.

Every message names the argument, column or leaf, says what was found, and says what to do next.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

# Characters that command a terminal or reorder text: control characters, separators of lines, marks of direction, lone
# surrogates.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

LONGEST_SHOWN = 80  # characters of a value


def visible(text: str) -> str:
    """The text with characters that command a terminal replaced by their escapes in Python; lines stay lines."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shown(value: object) -> str:
    """The value as an error quotes it: its `repr`, cut after 80 characters."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - some have none, such as integers of more than 4300 digits
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


class ErgonetError(Exception):
    """Base of every error that Ergonet raises on purpose; its text commands no terminal, whatever the data contain."""

    def __str__(self) -> str:
        return visible(super().__str__())


class DataError(ErgonetError, ValueError):
    """Data that cannot be fitted or predicted; names the column, the first invalid row and the value."""


class SettingError(ErgonetError, ValueError):
    """A setting or argument that is out of range, or an unknown name."""


class CapabilityError(ErgonetError, TypeError):
    """A kernel or function needs a capability that the target or kernel does not have."""


class StartError(ErgonetError, RuntimeError):
    """No initial values with a finite density were found; names the leaf, prior, likelihood or row at fault."""


class DivergedError(ErgonetError, RuntimeError):
    """A minibatch chain diverged before any draw was stored; says how this shows and which setting to change."""


class TimeLimitError(ErgonetError, TimeoutError):
    """The time limit was reached before every chain had a draw, so there are none to return.

    Attributes:
        states: the last warm-up state of each chain, `[chain, dim]`; None if a chain has not moved from its start. They
            are no draws from the posterior, but can be the `init` of another run.
        during: where the time ended, as the end of a sentence; empty if that is not known.
        is_warm_started: whether they come after the optimizer of a warm start, and predict about as well as it does.
    """

    states: Any = None
    during: str = ""
    is_warm_started: bool = False


class PartError(ErgonetError, RuntimeError):
    """Parts of a partition could not be sampled; names the first one and says why.

    Attributes:
        finished: the samples of the other parts, by number.
    """

    finished: Mapping[int, Any] = MappingProxyType({})


class EstimateError(ErgonetError, RuntimeError):
    """An estimate is not to be trusted; gives the number that says so, and what to do next.

    Attributes:
        estimate: the estimate all the same, such as a `Joined` or a `LogMass`; None: there is none.
    """

    estimate: Any = None


class Terminated(KeyboardInterrupt):
    """A command was asked to end by SIGTERM; everything that handles Ctrl-C handles it in the same way."""


class MemoryPlanError(ErgonetError, MemoryError):
    """The run would not fit in memory or on disk; says how much it needs and what to change."""


class RunDirectoryError(ErgonetError, OSError):
    """A run directory is missing, incomplete, already exists, or was written by another version."""


class ForkError(ErgonetError, RuntimeError):
    """JAX was started before this process was forked, so it cannot be used here; says how to start processes."""


class SamplingWarning(UserWarning):
    """Draws were made, but there is a problem with them; says what, how often, and what to do next."""


def suggest(name: object, choices: Iterable[str]) -> str:
    """Suggest similar known names, in sentences such as: Did you mean 'tanh'? Known: relu, tanh."""
    import difflib

    known = sorted(choices)
    word = name if isinstance(name, str) and len(name) <= LONGEST_SHOWN else ""
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(repr(n) for n in near)}? " if near else ""
    return f"{hint}Known: {', '.join(known)}."
