"""The cache of compiled programs of the command."""

import errno
import os
import stat
import warnings
from contextlib import suppress
from pathlib import Path

from ergonet.draws.faults import explain

MOST_BYTES = 2**30  # of all cached programs; a fit has some 2 MB


def keep_compiled_programs() -> None:
    """Cache compiled programs in the user's cache folder, so that the next run of the command starts sooner.

    What the cache contains is executed. It is therefore not used, with a warning, if others could have written it.
    """
    import jax

    if jax.config.jax_compilation_cache_dir is not None:
        return
    try:
        home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        folder = Path(home) / "ergonet" / "compiled"
        folder.mkdir(parents=True, exist_ok=True)
        reasons = [distrust(one) for one in (folder.parent, folder)]
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "unwritable", str(folder))
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home
        reasons = [
            f"{explain(error) if isinstance(error, OSError) else error} Or set XDG_CACHE_HOME to another folder."
        ]
        folder = Path()
    for reason in filter(None, reasons):
        warnings.warn(f"Compiled programs are not cached: {reason}", UserWarning, stacklevel=2)
        return
    discard_unused(folder, MOST_BYTES)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def distrust(folder: Path) -> str:
    """Why programs in a folder might be somebody else's, and what to do; empty if they are the user's own."""
    found = folder.stat()
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        return f"the folder {str(folder)!r} belongs to another user. Set XDG_CACHE_HOME to a folder of your own."
    if hasattr(os, "getuid") and found.st_mode & stat.S_IWOTH:
        return f"everybody may write to the folder {str(folder)!r}. Remove it, or `chmod o-w` it and empty it."
    return ""


def discard_unused(folder: Path, most_bytes: int) -> None:
    """Remove the programs that were not used for longest, until all are at most so many bytes.

    A process that was about to read one of them compiles it.
    """
    found: list[tuple[float, int, Path]] = []
    for file in folder.glob("*-cache"):
        with suppress(OSError):  # another process removed it
            status = file.stat()
            found.append((max(status.st_atime, status.st_mtime), status.st_size, file))
    total = sum(size for _, size, _ in found)
    for _, size, file in sorted(found, key=lambda one: one[0]):
        if total <= most_bytes:
            break
        with suppress(OSError):
            file.unlink()
        total -= size
