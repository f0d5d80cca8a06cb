"""Compiled programs: their cache on disk, and how many of them a process can hold."""

import errno
import gc
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ergonet.draws.faults import explain

MOST_BYTES = 2**30  # of all cached programs; a fit has some 2 MB
SWITCH = "ERGONET_COMPILATION_CACHE"  # environment variable
MOST_MAPPINGS_SHARE = 0.7  # of the memory mappings that Linux allows a process
_MAPPINGS, _MOST_MAPPINGS = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")


def keep_compiled_programs() -> str:
    """Cache compiled programs in the user's cache folder, so that the next process starts sooner.

    What the cache contains is executed. It is therefore not used if others could have written it. Nothing changes if
    JAX has a cache already, or if the environment variable `ERGONET_COMPILATION_CACHE` is `off`.

    Returns:
        Why there is no cache although it was wanted, as a sentence; empty if all is well.
    """
    import jax

    if jax.config.jax_compilation_cache_dir is not None or os.environ.get(SWITCH, "").lower() in ("off", "0", "no"):
        return ""
    if not jax.config.jax_enable_compilation_cache:
        return ""
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
        return f"Compiled programs are not cached: {reason}"
    discard_unused(folder, MOST_BYTES)

    from jax.experimental.compilation_cache import compilation_cache

    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()  # JAX decides at the first compilation of a process whether there is one
    return ""


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


def make_room_for_programs(say: Callable[[str], None]) -> None:
    """Forget all compiled programs if the process has almost as many memory mappings as Linux allows.

    Every program takes some, and a process that has too many fails as if it had no memory. What is needed again is
    compiled again, or read from the cache.

    Args:
        say: tells the user.
    """
    try:
        used, most = _MAPPINGS.read_bytes().count(b"\n"), int(_MOST_MAPPINGS.read_text())
    except (OSError, ValueError):  # not Linux
        return
    if used < MOST_MAPPINGS_SHARE * most:
        return
    import jax

    jax.clear_caches()
    gc.collect()
    say(
        f"This process had {used} of {most} memory mappings, most of them for compiled programs, which were forgotten "
        f"to make room. Use targets of the same shapes, or a process for each, to compile fewer."
    )
