"""The live view of `ergonet fit` and `ergonet resume`."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ergonet._errors import visible

if TYPE_CHECKING:
    from ergonet.draws.replacement import Claim
    from ergonet.inference.progress import AbstractProgress
    from ergonet.report.live import LivePage


@contextmanager
def page(claim: "Claim", *, wanted: bool, quiet: bool) -> "Generator[LivePage | None]":
    """The page of a run, which points to the report once the block has ended; None unless wanted.

    Raises:
        RunDirectoryError: there is a file of somebody else in its place.
    """
    if not wanted:
        yield None
        return
    from ergonet.report.live import LivePage

    made = LivePage(claim.path, lambda sentence: sys.stderr.write(f"{visible(sentence)}\n"))
    if not quiet:
        sys.stdout.write(f"Live view: {visible(str(made.path))}\n")
        sys.stdout.flush()
    try:
        yield made
    except BaseException:
        made.fail()
        raise
    made.finish()


def progress(live: "LivePage | None", target: Any, *, quiet: bool) -> "AbstractProgress":
    """Progress reports in the terminal, and on the page if there is one."""
    from ergonet.inference.progress import choose_progress

    shown = choose_progress(not quiet)
    return shown if live is None else live.following(shown, target)
