"""One writer for each folder: a lock that ends with its process, even if that is killed."""

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ergonet._errors import RunDirectoryError

OWNER = "owner.json"


@dataclass(frozen=True)
class Owner:
    """The process that has a lock.

    Attributes:
        pid: its number.
        host: the name of its machine.
        since: when it took the lock, in ISO 8601.
    """

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        here = (self.pid, self.host) == (os.getpid(), os.uname().nodename)
        return f"{'this process' if here else 'process'} {self.pid} on {self.host} since {self.since}"


class Lock:
    """A lock held from its creation to `release` or the end of the process.

    The file `owner.json` says who has the lock; the operating system's lock of that file (`flock`) says whether the
    owner is alive. A lock whose owner was killed is therefore free.
    """

    def __init__(self, folder: Path, *, guards: Path):
        """Take the lock.

        Args:
            folder: the folder of the lock, which is created and, once empty, removed.
            guards: what the lock protects, for errors.

        Raises:
            RunDirectoryError: another process has the lock, or might have it on another machine.
        """
        self._file, self._pid = folder / OWNER, os.getpid()
        self._descriptor = _acquire(self._file, guards)

    @property
    def is_held(self) -> bool:
        """Whether this process took the lock: a forked child has only a copy."""
        return os.getpid() == self._pid

    def release(self) -> None:
        """Free the lock, once."""
        if self.is_held:
            self._file.unlink(missing_ok=True)
            with suppress(OSError):  # not empty
                self._file.parent.rmdir()
        os.close(self._descriptor)


def _acquire(file: Path, guarded: Path) -> int:
    """The descriptor of the locked file."""
    while True:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:  # its last owner has just removed the folder
            continue
        except FileExistsError as error:
            raise RunDirectoryError(
                f"`{file.parent}` is a file, but the lock of `{guarded}` needs this name. Choose another folder."
            ) from error
        try:
            _require_free(descriptor, file, guarded)
            if _is_still(descriptor, file):
                owner = Owner(os.getpid(), os.uname().nodename, datetime.now(UTC).isoformat(timespec="seconds"))
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(asdict(owner)).encode(), 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _require_free(descriptor: int, file: Path, guarded: Path) -> None:
    is_known = True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RunDirectoryError(
            f"`{guarded}` is being written by {_owner(descriptor) or 'another process'}. Wait until it has ended, or "
            f"choose another folder."
        ) from error
    except OSError:  # a file system without locks
        is_known = False
    owner = _owner(descriptor)
    if owner is not None and (owner.host != os.uname().nodename or not is_known):
        raise RunDirectoryError(
            f"`{guarded}` belongs to {owner}, and whether that process is still running cannot be seen from here. If "
            f"it has ended, delete `{file}` and try again; otherwise wait, or choose another folder."
        )


def _owner(descriptor: int) -> Owner | None:
    """Who wrote the file; None if it is empty, because its owner has just created it or was killed at that moment."""
    try:
        return Owner(**json.loads(os.pread(descriptor, 4096, 0)))
    except (ValueError, TypeError):
        return None


def _is_still(descriptor: int, file: Path) -> bool:
    """Whether the file is the opened one, and not another since its last owner removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
