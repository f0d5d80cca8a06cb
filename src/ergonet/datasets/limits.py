"""How large a decompressed file may be, so that a small file cannot fill the memory."""

import os
from pathlib import Path

from ergonet._errors import DataError

_SMALLEST_LIMIT = 256 * 2**20


def largest_bytes() -> int:
    """Half of the machine's memory, at least 256 MiB: a table is copied once on its way to the network."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on Windows
        memory = 0
    return max(_SMALLEST_LIMIT, memory // 2)


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
            f"{file} would take {num_bytes / 2**30:.1f} GiB of memory when decompressed; at most "
            f"{limit / 2**30:.1f} GiB (half of this machine's memory) are read. Check where the file comes from, or "
            "split it."
        )
