"""Simulated crashes: the files as they are before an operation of a fit are what a crash at that moment leaves.

An audit hook sees every file that is opened for writing, renamed or removed, and `os.fsync` is watched too. At chosen
operations the whole folder is copied. Every second copy is that of a power failure: files that were written since they
were last synced are torn, emptied or removed.
"""

import os
import random
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reliability import fits
from benchmarks.reliability.continuing import continue_here
from benchmarks.reliability.fits import Fit, Stored
from benchmarks.reliability.section import Bench, Goal, Section, without_paths

ABOUT = """Fits of every kernel and one that overwrites another run. Before a file operation of a fit (opening for
writing, renaming, removing, syncing) its folder is copied, which is what a crash of the process at this moment leaves.
In every second copy, files that had not been synced since they were written are torn, emptied or removed, which is what
a power failure may leave; a torn chunk may then cost the draws of its block. Every copy is loaded and compared bit for
bit with the run that was not stopped. Some copies of each fit are resumed, which must give that run."""
_EVENTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Watch:
    """Counts the file operations below a folder, and calls a function before each of them."""

    def __init__(self, root: Path):
        self.root, self._act = str(root), None
        self._lock, self._inside = threading.Lock(), threading.local()
        self.count, self._began = 0, 0
        self._synced: dict[int, tuple[int, int]] = {}
        self._fsync = os.fsync
        sys.addaudithook(self._hook)  # which cannot be removed, so it is switched off

    def during(self, work: Callable[[], None], act: Callable[[int], None]) -> int:
        """Do some work; `act` is given the number of each operation before it happens. Returns their number."""
        self.count, self._act, self._synced, self._began = 0, act, {}, time.time_ns()
        os.fsync = self._sync
        try:
            work()
        finally:
            self._act, os.fsync = None, self._fsync
        return self.count

    def is_synced(self, file: Path) -> bool:
        """Whether a file has not been written since it was synced, or since the work began."""
        found = file.stat()
        return found.st_mtime_ns < self._began or self._synced.get(found.st_ino) == (found.st_mtime_ns, found.st_size)

    def _sync(self, descriptor: int) -> None:
        self._before()
        self._fsync(descriptor)
        found = os.fstat(descriptor)
        self._synced[found.st_ino] = (found.st_mtime_ns, found.st_size)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._act is None or getattr(self._inside, "value", False):
            return
        if event == "open":
            path, _, flags = arguments
            if not (isinstance(flags, int) and flags & _WRITES and self._is_below(path)):
                return
        elif event not in _EVENTS or not self._is_below(arguments[0]):
            return
        self._before()

    def _is_below(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and str(path).startswith(self.root)

    def _before(self) -> None:
        with self._lock:
            act, self._inside.value = self._act, True
            try:
                if act is not None:
                    act(self.count)
                self.count += 1
            finally:
                self._inside.value = False


@dataclass(frozen=True)
class Copy:
    """What a crash left.

    Attributes:
        folder: the copied files.
        phase: of the fit.
        counted: the draws by chain that the newest manifest counted.
        is_power: whether unsynced files were torn.
    """

    folder: Path
    phase: str
    counted: Sequence[int]
    is_power: bool


@dataclass(frozen=True)
class Case:
    """A fit whose crashes are simulated.

    Attributes:
        name: in the table.
        fit: the fit.
        before: the fit whose run is overwritten; None: there is none.
    """

    name: str
    fit: Fit
    before: Fit | None = None


def cases(*, is_quick: bool) -> list[Case]:
    """Every kernel, and an overwrite."""
    draws, warmup = (30, 10) if is_quick else (150, 50)
    chosen = ["nuts", "gibbs", "sghmc"] if is_quick else list(fits.KERNELS)
    fitted = [Case(kernel, Fit(kernel, num_draws=draws, num_warmup=warmup)) for kernel in chosen]
    nuts = fitted[0].fit
    return [*fitted, Case("nuts, overwriting", nuts, before=Fit("nuts", 1, draws, warmup))]


def measure(bench: Bench) -> Section:
    """Simulate crashes of every case."""
    wanted = bench.size(2000, 60)
    chosen = cases(is_quick=bench.is_quick)
    numbers = random.Random(0)  # noqa: S311
    total, notes, rows = Counter[str](), list[str](), list[list[str]]()
    watch = Watch(bench.folder)
    for index, case in enumerate(chosen):
        share = wanted * (index + 1) // len(chosen) - wanted * index // len(chosen)
        found = _crash(case, share, watch, numbers, notes)
        total += found
        rows.append([case.name, *(str(found[key]) for key in (*COLUMNS, *fits.PHASES[1:]))])
        bench.say(f"    {case.name}: {dict(found)}")
    rows.append(["all", *(str(total[key]) for key in (*COLUMNS, *fits.PHASES[1:]))])
    goals = [
        Goal("simulated crashes", str(total["crashes"]), str(wanted), total["crashes"] >= wanted),
        Goal.none_of("unreadable stores", total["unreadable"]),
        Goal.none_of("acknowledged draws lost, crashes of the process", total["lost"]),
        Goal.none_of("draws lost outside the torn block, power failures", total["lost more"]),
        Goal.none_of("stores with phantom draws", total["phantom"]),
        Goal.none_of(
            "copies that could not be resumed, or not bit for bit",
            total["resumed"] + total["begun again"] - total["equal"],
        ),
    ]
    head = ("fit", *COLUMNS, *(f"in {phase}" for phase in fits.PHASES[1:]))
    return Section("Simulated crashes", ABOUT, goals, head, rows, notes[:20])


COLUMNS = ("crashes", "power", "unreadable", "lost", "torn block lost", "phantom", "resumed", "begun again", "equal")


def _crash(case: Case, count: int, watch: Watch, numbers: random.Random, notes: list[str]) -> Counter[str]:
    folder = Path(watch.root) / case.name.replace(", ", "-")
    folder.mkdir()
    old = _finished(case.before, folder / "old") if case.before else None
    place = folder / "once" / "run"
    _prepare(place, case.before and folder / "old")
    overwrite = case.before is not None
    operations = watch.during(lambda: case.fit.here(place, overwrite=overwrite), lambda _: None)
    reference = Stored.of(place)
    taken = list[Copy]()
    while len(taken) < count:  # a run may have fewer operations than the one before
        place = folder / f"again-{len(taken)}" / "run"
        _prepare(place, case.before and folder / "old")
        taken += _copies(case, place, _chosen(operations, count - len(taken), numbers), watch, numbers)
        difference = reference.equals(Stored.of(place))
        if difference:
            notes.append(f"{case.name}: two runs with the same seed differ in {difference}")
    found = Counter[str]()
    for number, copy in enumerate(taken):
        found += Counter({"crashes": 1, "power": int(copy.is_power), copy.phase: 1})
        store = fits.store_of(copy.folder / "run")
        if store is not None:
            found += _judge(case, copy, (store, reference, copy.counted), notes)
        if old is not None and case.before and fits.seed_of(copy.folder / "run") == case.before.seed:
            everything = [old.fields["lp"].shape[1]] * len(old.fields["lp"])
            found += _judge(case, copy, (copy.folder / "run" / "draws.zarr", old, everything), notes)
        if number % RESUMED_OF == 0 and copy.phase != "start":
            found += _resume(case, copy, reference, notes)
        shutil.rmtree(copy.folder)
    shutil.rmtree(folder)
    return found


RESUMED_OF = 10


def _finished(fit: Fit, place: Path) -> Stored:
    fit.here(place)
    return Stored.of(place)


def _prepare(place: Path, old: Path | None) -> None:
    place.parent.mkdir()
    if old:
        shutil.copytree(old, place)


def _chosen(operations: int, count: int, numbers: random.Random) -> set[int]:
    """Numbers of operations: all of them, or so many spread over the fit."""
    return set(numbers.sample(range(operations), min(count, operations)))


def _copies(case: Case, place: Path, chosen: set[int], watch: Watch, numbers: random.Random) -> list[Copy]:
    taken: list[Copy] = []

    def take(number: int) -> None:
        if number not in chosen:
            return
        copied = place.parent.with_name(f"{place.parent.name}-crash-{number}")
        store = fits.store_of(place)
        counted = [] if store is None else fits.acknowledged(store)
        is_power = len(taken) % 2 == 1
        _copy(place.parent, copied)
        if is_power:
            _tear(place.parent, copied, watch, numbers)
        taken.append(Copy(copied, fits.phase_of(place), counted, is_power))

    watch.during(lambda: case.fit.here(place, overwrite=case.before is not None), take)
    return taken


def _copy(original: Path, copied: Path) -> None:
    """Copy a folder in which another thread may just be renaming or removing a file: then copy it once more."""
    for attempt in range(MOST_COPIES):
        try:
            shutil.copytree(original, copied)
        except OSError:
            shutil.rmtree(copied, ignore_errors=True)
            if attempt == MOST_COPIES - 1:
                raise
        else:
            return


MOST_COPIES = 20


def _tear(original: Path, copied: Path, watch: Watch, numbers: random.Random) -> None:
    """Damage the copies of files that were not synced."""
    for file in sorted(copied.rglob("*")):
        try:
            is_whole = not file.is_file() or watch.is_synced(original / file.relative_to(copied))
        except FileNotFoundError:  # another thread has renamed or removed it since
            is_whole = True
        if is_whole:
            continue
        size = file.stat().st_size
        match numbers.randrange(3):
            case 0:
                file.unlink()
            case 1:
                os.truncate(file, numbers.randrange(size + 1))
            case _:
                file.write_bytes(b"\0" * size)


def _judge(case: Case, copy: Copy, expected: tuple[Path, Stored, Sequence[int]], notes: list[str]) -> Counter[str]:
    """Examine one of the stores that a crash left."""
    store, reference, counted = expected
    found = Counter[str]()
    verdict = fits.examine(store, reference, counted)
    where = f"{case.name}, {'power failure' if copy.is_power else 'crash'} in {copy.phase}"
    if verdict.unreadable and not (copy.is_power and min(counted, default=0) <= BLOCK):
        found["unreadable"] += 1
        notes.append(f"{where}, {counted} draws counted: {without_paths(verdict.unreadable, copy.folder)}")
    elif verdict.unreadable:
        found["torn block lost"] += sum(counted)
    elif copy.is_power and verdict.lost <= BLOCK * len(counted):
        found["torn block lost"] += verdict.lost
    else:
        found["lost more" if copy.is_power else "lost"] += verdict.lost
    if verdict.phantom:
        found["phantom"] += 1
        notes.append(f"{where}: {verdict.phantom} differs from the reference")
    return found


BLOCK = 100  # draws of a chain in a chunk


def _resume(case: Case, copy: Copy, reference: Stored, notes: list[str]) -> Counter[str]:
    """Continue what a crash left; where nothing can be continued, the fit begins again."""
    place = copy.folder / "run"
    problem, is_resumed = continue_here(case.fit, place, overwrite=case.before is not None)
    difference = problem or reference.equals(Stored.of(place))
    if difference:
        kind = "power failure" if copy.is_power else "crash"
        notes.append(f"{case.name}, {kind} in {copy.phase}, resumed: {without_paths(difference, copy.folder)}")
    return Counter({"resumed" if is_resumed else "begun again": 1, "equal": int(not difference)})
