"""A worker: runs calls that come through a connection until it is told to end, or until the other end is gone."""

import signal
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from ergonet.execution.base import WorkerError, slot
from ergonet.execution.crew import CALL, ERROR, LACKS, RESULT
from ergonet.execution.shared import lacking, run_packed


def serve(connection: Connection) -> bool:
    """Run calls.

    Returns:
        Whether this process was told to end; False: the other end is gone.
    """
    with connection, suppress(EOFError, OSError):
        while True:
            kind, *message = connection.recv()
            if kind != CALL:
                return True
            connection.send(_answer(*message))
    return False


def _answer(
    place: int, packed: bytes, tokens: list[str], contents: Mapping[str, bytes], arithmetic: Any
) -> tuple[str, Any]:
    slot.index = place
    missing = [token for token in lacking(tokens) if token not in contents]
    if missing:
        return LACKS, missing
    try:
        return RESULT, run_packed(packed, contents, arithmetic)
    except Exception as error:  # noqa: BLE001  it belongs to whoever made the call
        error.add_note("".join(traceback.format_exception(error)))
        return ERROR, _sendable(error)


def _sendable(error: Exception) -> Exception:
    import pickle

    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    except Exception:  # noqa: BLE001  whatever it is, the other side should see it
        return WorkerError(f"A worker failed: {type(error).__name__}: {error}")
    return error


def main() -> None:
    """Serve the process that has started this one, which handles signals for both."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(int(sys.argv[1]))
    path, settings = connection.recv()
    sys.path[:] = path
    import jax

    for name, value in settings.items():
        jax.config.update(name, value)
    serve(connection)


if __name__ == "__main__":
    main()
