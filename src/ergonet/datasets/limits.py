"""How large a table or a decompressed file may be, so that a small file cannot fill the memory."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ergonet._errors import DataError

MOST_COLUMNS = 2**16
LONGEST_NAME = 1000  # characters
_SMALLEST_LIMIT = 256 * 2**20
_CONTROL_GROUP = Path("/sys/fs/cgroup/memory.max")


def largest_bytes() -> int:
    """A third of the memory that this process may use, at least 256 MiB.

    A table of numbers takes up to three times its size, 2.6 while it is read and 2.9 on its way to the network.
    """
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on Windows
        memory = 0
    with suppress(OSError, ValueError):  # no control group, or one without a limit
        memory = min(memory, int(_CONTROL_GROUP.read_text()))
    return max(_SMALLEST_LIMIT, memory // 3)


def check_decompressed(num_bytes: int, *, file: Path | str) -> None:
    """Reject a file whose content would not fit, before it is read.

    Args:
        num_bytes: What the file says that its content takes.
        file: What the content is called in the message.

    Raises:
        DataError: More than `largest_bytes()`.
    """
    limit = largest_bytes()
    if num_bytes > limit:
        raise DataError(
            f"{file} would take {_size(num_bytes)} of memory when decompressed; at most {_size(limit)} (a third of "
            "the memory that this process may use) are read. Check where the file comes from, or split it."
        )


def check_table(num_rows: int, num_columns: int, *, file: Path | str) -> None:
    """Reject a table whose numbers would not fit, or with more columns than `MOST_COLUMNS`, before it is read.

    Raises:
        DataError: The table is too large; says how large it is and may be.
    """
    if num_columns > MOST_COLUMNS:
        raise DataError(
            f"{file} has {num_columns} columns; at most {MOST_COLUMNS} are read. Select the columns that matter, or "
            "check the delimiter."
        )
    check_decompressed(8 * num_rows * num_columns, file=file)


def check_name_lengths(names: Iterable[str], *, file: Path | str) -> None:
    """Reject column names that no message or report could show.

    Raises:
        DataError: A name is longer than `LONGEST_NAME`.
    """
    for position, name in enumerate(names, start=1):
        if len(name) > LONGEST_NAME:
            raise DataError(
                f"{file}: the name of column {position} (counting from 1) has {len(name)} characters, starting with "
                f"{name[:30]!r}; at most {LONGEST_NAME} are allowed. Shorten it."
            )


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.1f} GiB" if num_bytes >= 2**29 else f"{num_bytes / 2**20:.1f} MiB"
