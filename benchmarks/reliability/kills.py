"""Fits that are killed with SIGKILL at random moments, examined, and resumed."""

import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from benchmarks.reliability import fits
from benchmarks.reliability.fits import PHASES, Fit, Stored
from benchmarks.reliability.section import Bench, Goal, Section, without_paths

ABOUT = """Processes of `ergonet fit` with every kernel, {phases}. Each is killed with signal 9 at a random moment of a
phase, which is chosen in turn. Then its store is loaded and compared bit for bit with the run of a process that was not
killed: draws that the manifest counted before the kill and that are gone are *lost*, draws that differ are *phantoms*.
Then `ergonet resume` finishes the run, or `ergonet fit` where the kill came before there was anything to resume; draws,
statistics and figures must be those of the reference, bit for bit."""
COLUMNS = ("kills", "unreadable", "draws lost", "phantom", "resumed", "begun again", "equal")
_POLL = 0.005  # seconds between looks at the folder
_MOST = 3  # launches for a kill: some processes end first


@dataclass(frozen=True)
class Kill:
    """A killed process: the phase it was in, and the draws by chain that its manifest counted just before."""

    phase: str
    counted: Sequence[int]


def measure(bench: Bench) -> Section:
    """Kill fits of every kernel in every phase."""
    kernels = ["nuts", "sghmc"] if bench.is_quick else list(fits.KERNELS)
    wanted = bench.size(200, 4)
    draws, warmup = (400, 200) if bench.is_quick else (1000, 500)
    references: dict[str, tuple[Stored, dict[str, float]]] = {}
    notes, lock, found = list[str](), Lock(), {kernel: Counter[str]() for kernel in kernels}

    def refer(kernel: str) -> None:
        fit = Fit(kernel, num_draws=draws, num_warmup=warmup)
        _watched(fit, bench.folder / f"{kernel}-first")  # which compiles
        seconds = _watched(fit, bench.folder / f"{kernel}-reference")
        references[kernel] = Stored.of(bench.folder / f"{kernel}-reference" / "run"), seconds

    def one(index: int) -> None:
        kernel = kernels[index % len(kernels)]
        phase = PHASES[1:][index // len(kernels) % 4]
        fit = Fit(kernel, num_draws=draws, num_warmup=warmup)
        counts, said = _attempt(fit, phase, references[kernel], bench.folder / f"kill-{index}", random.Random(index))  # noqa: S311
        with lock:
            found[kernel] += counts
            notes.extend(said)
            if index % 20 == 19:
                bench.say(f"    {index + 1} fits")

    with ThreadPoolExecutor(bench.workers) as pool:
        list(pool.map(refer, kernels))
        list(pool.map(one, range(wanted)))
    total = sum(found.values(), Counter[str]())
    head = ("kernel", *COLUMNS, *(f"in {phase}" for phase in PHASES))
    rows = [[kernel, *(str(counts[key]) for key in (*COLUMNS, *PHASES))] for kernel, counts in found.items()]
    rows.append(["all", *(str(total[key]) for key in (*COLUMNS, *PHASES))])
    goals = [
        Goal("kills", str(total["kills"]), str(wanted), total["kills"] >= wanted),
        Goal.none_of("unreadable stores", total["unreadable"]),
        Goal.none_of("acknowledged draws lost", total["draws lost"]),
        Goal.none_of("stores with phantom draws", total["phantom"]),
        Goal.none_of("runs that were not finished bit for bit", total["kills"] - total["equal"]),
    ]
    about = ABOUT.format(phases=f"2 chains x ({warmup} + {draws})")
    return Section("Kills", about, goals, head, rows, notes[:20])


def _watched(fit: Fit, folder: Path) -> dict[str, float]:
    """Run a fit to its end; the seconds of each phase."""
    folder.mkdir()
    process = fits.start(_command(fit, folder), folder, log=folder / "said.txt")
    seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)
    before = time.perf_counter()
    while process.poll() is None:
        phase = fits.phase_of(folder / "run")
        time.sleep(_POLL)
        now = time.perf_counter()
        seconds[phase] += now - before
        before = now
    if process.returncode != 0:
        raise RuntimeError(f"{fit}: {(folder / 'said.txt').read_text(encoding='utf-8')[-2000:]}")
    return seconds


def _command(fit: Fit, folder: Path) -> list[str]:
    return ["fit", "--settings", str(fit.write(folder)), "--quiet", "--out", "run"]


def _attempt(
    fit: Fit, phase: str, reference: tuple[Stored, dict[str, float]], folder: Path, numbers: random.Random
) -> tuple[Counter[str], list[str]]:
    """Kill a fit and judge what is left."""
    stored, seconds = reference
    kill, place = None, folder
    for launch in range(_MOST):
        place = folder.with_name(f"{folder.name}-{launch}") / "run"
        place.parent.mkdir()
        kill = _kill(fit, place, phase, numbers.uniform(0.0, seconds[phase] / (launch + 1)))
        if kill is not None:
            break
    if kill is None:
        return Counter({"ended before": 1}), [f"{fit.kernel}: ended {_MOST} times before it was killed in {phase}"]
    found, notes = Counter({"kills": 1, kill.phase: 1}), list[str]()
    store = fits.store_of(place)
    if store is not None:
        verdict = fits.examine(store, stored, kill.counted)
        found["unreadable"] += bool(verdict.unreadable)
        found["draws lost"] += verdict.lost
        found["phantom"] += bool(verdict.phantom)
        if verdict.unreadable or verdict.phantom or verdict.lost:
            notes.append(f"{fit.kernel}, {kill.phase}, {kill.counted} draws counted: {verdict}")
    word, answer = "begun again", None
    if store is not None:
        word, answer = "resumed", fits.run(["resume", "run"], place.parent)
        if answer.returncode and not store.is_relative_to(place):  # it had no checkpoint yet
            word, answer = "begun again", None
    answer = answer or fits.run(_command(fit, place.parent), place.parent)
    difference = without_paths(answer.stdout[-300:], place.parent) or f"exit code {answer.returncode}"
    if answer.returncode == 0:
        difference = stored.equals(Stored.of(place))
    if difference:
        notes.append(f"{fit.kernel}, killed in {kill.phase}, {word}: {difference}")
    return found + Counter({word: 1, "equal": int(not difference)}), notes


def _kill(fit: Fit, place: Path, phase: str, delay: float) -> Kill | None:
    """Start a fit and kill it so many seconds after a phase has begun; None if it ended first."""
    process = fits.start(_command(fit, place.parent), place.parent, log=place.parent / "said.txt")
    order = PHASES.index(phase)
    while PHASES.index(fits.phase_of(place)) < order:
        if process.poll() is not None:
            return None
        time.sleep(_POLL)
    time.sleep(delay)
    store = fits.store_of(place)
    counted = [] if store is None else fits.acknowledged(store)
    process.send_signal(signal.SIGKILL)
    if process.wait() != -signal.SIGKILL:
        return None
    return Kill(fits.phase_of(place), counted)
