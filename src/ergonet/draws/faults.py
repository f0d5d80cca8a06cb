"""What a disk can do to a run, in one sentence: the path, what is wrong, and what to do."""

import errno
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from ergonet._errors import ErgonetError, RunDirectoryError

_KEPT = "What was written before is kept."
_REASONS = {
    errno.ENOSPC: f"the disk is full. Free space on it, or choose a folder on another disk. {_KEPT}",
    errno.EDQUOT: f"your quota of this disk is used up. Delete files, or choose a folder on another disk. {_KEPT}",
    errno.EFBIG: f"it is larger than files may be here (see `ulimit -f`). {_KEPT}",
    errno.EROFS: "the disk is read-only. Choose a folder on another disk.",
    errno.EACCES: "this user has no permission. Change it with `chmod`, or choose another folder.",
    errno.EPERM: "this user has no permission. Change it with `chmod`, or choose another folder.",
    errno.ENOENT: "it was removed or renamed meanwhile. Move it back, or run again.",
    errno.ENOTDIR: "a part of its path is a file. Choose another folder.",
    errno.EMFILE: f"this process has too many files open. Raise the limit with `ulimit -n 4096`. {_KEPT}",
    errno.ENFILE: f"this machine has too many files open. Close other programs. {_KEPT}",
    errno.ENAMETOOLONG: "its name is too long. Choose a shorter one.",
    errno.EIO: f"the disk reports an error, and may be damaged. Copy your files to another one. {_KEPT}",
    errno.ESTALE: f"the network disk has lost it. Connect the disk again. {_KEPT}",
}


def explain(error: OSError, path: Path | None = None) -> str:
    """What is wrong with a path and what to do; the system's own words if it is something unusual."""
    where = error.filename if path is None else path
    reason = _REASONS.get(error.errno or 0, f"{error.strerror or error}.")
    return f"`{where}`: {reason}" if where is not None else f"{reason[:1].upper()}{reason[1:]}"


@contextmanager
def told(path: Path) -> Generator[None]:
    """Raise what the system says about writing a path as a `RunDirectoryError` that names it and what to do."""
    try:
        yield
    except OSError as error:
        if isinstance(error, ErgonetError):
            raise
        raise RunDirectoryError(f"Cannot write {explain(error, path)}") from error


_Method = TypeVar("_Method", bound=Callable[..., Any])


def writes(method: _Method) -> _Method:
    """A method that writes to `self.path`, with `told`."""

    @wraps(method)
    def telling(self: Any, *args: Any, **named: Any) -> Any:
        with told(self.path):
            return method(self, *args, **named)

    return cast(_Method, telling)


def require_present(folder: Path) -> None:
    """Check that nobody has removed a folder: Zarr would make a new one and write on.

    Raises:
        FileNotFoundError: it is not there.
    """
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "removed", str(folder))
