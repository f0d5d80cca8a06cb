"""Claims: a folder has one writer, is written beside its place, and replaces only what Ergonet wrote.

While `NAME` is written, the hidden folder `.NAME.ergonet` beside it contains the lock, the new content, and for the
moment of the exchange the previous one. Whatever a killed writer leaves there is put right by the next claim, or
continued by it.
"""

import enum
import os
import shutil
import warnings
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ergonet._errors import RunDirectoryError, SamplingWarning, visible
from ergonet.draws.durable import sync
from ergonet.draws.lock import Lock


@dataclass(frozen=True)
class Content:
    """A kind of folder.

    Attributes:
        foreign: returns the first file in a folder that is not part of such a content; None if there is none.
        overwriting: how a user allows replacing one, for errors.
    """

    foreign: Callable[[Path], Path | None]
    overwriting: str


class Existing(enum.Enum):
    """What a claim does with what is in the place, or is left of an unfinished run beside it.

    Attributes:
        REFUSE: raise an error if there is something in the place; discard what is beside it.
        REPLACE: replace what is in the place, if it has nothing but such a content; discard what is beside it.
        CONTINUE: go on with what is beside the place, or else with what is in it; nothing is refused or discarded.
    """

    REFUSE, REPLACE, CONTINUE = range(3)


@dataclass
class _Fate:
    """Whether new content that has not taken its place stays when the claim ends."""

    is_kept: bool = False


@dataclass(frozen=True)
class _Sides:
    """A place, and the folder beside it in which its new content is made."""

    place: Path
    content: Content

    @property
    def beside(self) -> Path:
        return self.place.parent / f".{self.place.name}.ergonet"

    @property
    def new(self) -> Path:
        return self.beside / "new"

    @property
    def previous(self) -> Path:
        return self.beside / "previous"

    @property
    def interim(self) -> Path:
        return self.beside / "interim"

    @property
    def is_unfinished(self) -> bool:
        """Whether a run that can be continued is beside the place."""
        from ergonet.draws.checkpoint import FINGERPRINT

        return (self.new / FINGERPRINT).exists() or any(self.new.glob(f"*/{FINGERPRINT}"))

    def recover(self, *, keeps_new: bool) -> None:
        """Finish what a writer has begun: the place has its new content, or else the previous one."""
        rubbish = self.beside / "rubbish"
        if self.previous.exists():
            if not os.path.lexists(self.place):
                (self.new if self.new.exists() else self.previous).rename(self.place)
            elif self.new.exists():  # somebody else put something in the place meanwhile
                return
            self.retire()
        for scratch in (
            _Sides(self.new, self.content).beside,
            self.interim,
            rubbish,
            *([] if keeps_new else [self.new]),
        ):
            shutil.rmtree(scratch, ignore_errors=True)

    def retire(self) -> Path | None:
        """Delete the previous content, unless it has gained a foreign file: returns that."""
        if not self.previous.exists():
            return None
        foreign = self.content.foreign(self.previous)
        if foreign is None:
            rubbish = self.beside / "rubbish"  # once it has this name, a killed deletion can be continued
            shutil.rmtree(rubbish, ignore_errors=True)
            self.previous.rename(rubbish)
            shutil.rmtree(rubbish, ignore_errors=True)
        return foreign


class Claim:
    """The right to write a folder, from its creation to `close`.

    Attributes:
        path: the place.
        is_there: whether the content is in its place.
    """

    def __init__(self, path: Path, content: Content, *, overwrite: bool = False, existing: Existing | None = None):
        """Lock the place and restore what a killed writer left.

        Args:
            path: the place.
            content: what the place may contain.
            overwrite: replace an existing folder, if it has nothing but such a content.
            existing: what to do with an existing folder and an unfinished run; None: as `overwrite` says.

        Raises:
            RunDirectoryError: the place exists and must not be replaced, or has another writer.
        """
        self.path, self._content = path, content
        self._existing = existing or (Existing.REPLACE if overwrite else Existing.REFUSE)
        self._sides = _Sides(path, content)
        self._fate = _Fate(is_kept=existing is Existing.CONTINUE and self._sides.new.exists())
        self._check()
        missing = [one for one in path.absolute().parents if not one.exists()]
        lock = Lock(self._sides.beside, guards=path)
        self._finish = weakref.finalize(self, _end, self._sides, lock, missing, self._fate)
        self._is_moving = self.is_there = False
        try:
            self._recover()
            self._require_nothing_kept()
            self._check()
        except BaseException:
            self.close()
            raise

    def _recover(self) -> None:
        if self._existing is not Existing.CONTINUE and self._sides.is_unfinished:
            warnings.warn(
                f"An unfinished run of `{self.path}` is discarded, because a new one was started there. `resume=True`, "
                f"or `ergonet resume {self.path}` for a run directory, would have continued it.",
                SamplingWarning,
                stacklevel=4,
            )
        self._sides.recover(keeps_new=self._existing is Existing.CONTINUE)
        self.is_there = (
            self._existing is Existing.CONTINUE and os.path.lexists(self.path) and not self._sides.new.exists()
        )

    def preserve(self) -> None:
        """Let new content that does not take its place stay beside it, to be continued by another claim."""
        self._fate.is_kept = True

    @property
    def folder(self) -> Path:
        """Where the content is now: beside the place until `take`, then in it.

        Raises:
            RunDirectoryError: the claim was closed before.
        """
        if self.is_there or (self._is_moving and not self._sides.new.exists()):
            return self.path
        if not self._finish.alive:
            raise RunDirectoryError(f"The store of `{self.path}` was closed before it had draws. Make another one.")
        return self._sides.new

    def take(self) -> None:
        """Put the new content in its place, unless it is there; may be repeated after an interrupt by Ctrl-C.

        Raises:
            RunDirectoryError: something else is in the place now.
        """
        if self.is_there:
            return
        self._is_moving = True
        new, previous = self._sides.new, self._sides.previous
        if new.exists():
            if os.path.lexists(self.path):
                if self._existing is Existing.REFUSE or previous.exists():
                    raise RunDirectoryError(f"`{self.path}` was created by another program meanwhile. Move it away.")
                self.path.rename(previous)
            new.rename(self.path)
            sync([self.path.parent])
        self.is_there = True
        foreign = self._sides.retire()
        if foreign is not None:
            warnings.warn(
                f"`{foreign.name}` was put in `{self.path}` while this was being replaced, so the previous content is "
                f"kept: `{previous}`. Move it to another place.",
                stacklevel=2,
            )

    @contextmanager
    def interim(self) -> Generator[Path]:
        """A folder that takes the free place at the end of the block, while the new content stays beside it.

        If the new content takes the place later, it replaces this.

        Raises:
            RunDirectoryError: something else is in the place now.
        """
        folder = self._sides.interim
        shutil.rmtree(folder, ignore_errors=True)
        yield folder
        if os.path.lexists(self.path):
            raise RunDirectoryError(f"`{self.path}` was created by another program meanwhile. Move it away.")
        folder.rename(self.path)
        sync([self.path.parent])

    def close(self) -> None:
        """Delete new content that is not in its place, unless it is preserved, and free the lock; may be repeated."""
        self._finish()

    def _require_nothing_kept(self) -> None:
        if self._sides.previous.exists():
            raise RunDirectoryError(
                f"What `{self.path}` contained before was kept, because it has files that Ergonet did not write: "
                f"`{self._sides.previous}`. Move it to another place and try again."
            )

    def _check(self) -> None:
        path = self.path
        if visible(str(path)) != str(path) or "\n" in str(path):
            raise RunDirectoryError(
                f"The name {str(path)!r} has a line break or another control character. Choose another folder."
            )
        if not os.path.lexists(path):
            above = next(one for one in path.absolute().parents if one.exists())
            if not above.is_dir():
                raise RunDirectoryError(f"`{above}` is a file, so it cannot contain `{path}`.")
            return
        if self._existing is Existing.CONTINUE and not self._sides.new.exists():
            return
        if self._existing is Existing.REFUSE:
            raise RunDirectoryError(
                f"`{path}` exists already. Choose another folder, or {self._content.overwriting} to replace it."
            )
        if Path.cwd().is_relative_to(path.resolve()):
            raise RunDirectoryError(f"`{path}` is not replaced, because you are in it. Choose another folder.")
        foreign = self._content.foreign(path)
        if foreign is not None:
            raise RunDirectoryError(
                f"`{foreign}` was not written by Ergonet, so `{path}` is not replaced. Move the file to another place, "
                f"or choose another folder."
            )


def whereabouts(path: Path) -> str:
    """A sentence for an error about a folder that is missing: where its content is, if it is beside its place."""
    sides = _Sides(path, Content(lambda _: None, ""))
    if sides.previous.exists():
        return (
            f" It was being replaced when its writer was stopped: the previous content is in `{sides.previous}`. "
            f"Rename that folder, or write to `{path}` again, which puts things right."
        )
    if sides.new.exists():
        way = "it can be resumed" if sides.is_unfinished else "it has nothing that could be resumed"
        return f" A run that has no draws yet, or was stopped before it had any, is in `{sides.new}`; {way}."
    return ""


def is_unfinished(path: Path) -> bool:
    """Whether a run that can be continued is beside its place."""
    return _Sides(path, Content(lambda _: None, "")).is_unfinished


def _end(sides: _Sides, lock: Lock, missing: list[Path], fate: _Fate) -> None:
    """Leave the place as it is or was, and nothing beside it but what is to be continued."""
    try:
        if lock.is_held:
            sides.recover(keeps_new=fate.is_kept)
    finally:
        lock.release()
    if not os.path.lexists(sides.place):
        for folder in missing:
            with suppress(OSError):  # not empty
                folder.rmdir()
