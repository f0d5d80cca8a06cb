"""Errors, warnings and signals of the command, in one line on standard error with an exit code."""

import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from signal import SIGINT, SIGTERM
from typing import Any

import typer

from ergonet._errors import ErgonetError, Terminated, visible
from ergonet.cli import signals
from ergonet.cli.signals import SIGNAL_CODES
from ergonet.draws.faults import explain

BAD_INPUT = 1


@contextmanager
def errors_in_one_line() -> Generator[None]:
    """Report errors of the user or the system, and signals, in one line on standard error with an exit code."""
    with warnings.catch_warnings(), signals.handled() as found:
        warnings.showwarning = _show_warning
        try:
            yield
        except (ErgonetError, OSError, MemoryError) as error:
            sys.stderr.write(f"Error: {_one_line(error)} {found.kept()}".rstrip() + "\n")
            raise typer.Exit(found.code if found.received else BAD_INPUT) from error
        except KeyboardInterrupt as error:
            sys.stderr.write(f"{str(error) or found.kept() or 'Interrupted before there were any draws.'}\n")
            raise typer.Exit(SIGNAL_CODES + (SIGTERM if isinstance(error, Terminated) else SIGINT)) from error
        if found.received is not None:
            sys.stderr.write(f"{found.kept() or 'Stopped.'}\n")
            raise typer.Exit(found.code)


def _one_line(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, OSError) and not isinstance(error, ErgonetError):
        text = explain(error)
    elif isinstance(error, MemoryError) and not isinstance(error, ErgonetError):
        text = f"There is not enough memory. {text}"
    return " ".join(visible(text).split()) or type(error).__name__


def _show_warning(message: Any, category: Any, *_where: Any) -> None:
    if issubclass(category, UserWarning):
        sys.stderr.write(f"Warning: {' '.join(visible(str(message)).split())}\n")
