"""Two fits that are started on one path at nearly the same time."""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.reliability import fits
from benchmarks.reliability.fits import Fit, Stored
from benchmarks.reliability.section import Bench, Goal, Section, without_paths

ABOUT = """Two commands `ergonet fit` with different seeds write to one path, the second up to three seconds after the
first: with `--out`, with `--out --overwrite`, and without a path. *Mixed*: a run directory whose draws, figures or
settings are not those of one of the two. *Lost*: a fit that exits with 0 and whose run is not there, although no later
fit was allowed to replace it. Runs are compared bit for bit with those of a fit alone."""
SEEDS = (0, 1)
PAIR = [Fit("nuts", seed, num_draws=50, num_warmup=30) for seed in SEEDS]
MODES = ("--out", "--out --overwrite", "no path")
COLUMNS = ("launches", "both succeeded", "one refused", "both failed", "mixed", "lost")


def measure(bench: Bench) -> Section:
    """Start pairs of fits."""
    launches = bench.size(40, 3)
    for fit in PAIR:
        fit.write(bench.folder)
        fits.run(["fit", "--settings", fit.write(bench.folder).name, "--out", f"alone-{fit.seed}"], bench.folder)
    alone = [Stored.of(bench.folder / f"alone-{seed}") for seed in SEEDS]
    numbers, notes = random.Random(0), list[str]()  # noqa: S311
    delays = [numbers.uniform(0.0, 3.0) for _ in range(launches)]
    by_mode = {mode: Counter[str]() for mode in MODES}

    def launch(index: int) -> None:
        mode = MODES[index % len(MODES)]
        by_mode[mode] += _launch(bench.folder / f"launch-{index}", mode, delays[index], alone=alone, notes=notes)

    with ThreadPoolExecutor(max(1, bench.workers // 2)) as pool:
        list(pool.map(launch, range(launches)))
    total = sum(by_mode.values(), Counter[str]())
    rows = [[mode, *(str(found[key]) for key in COLUMNS)] for mode, found in by_mode.items()]
    goals = [
        Goal("launches of two writers", str(total["launches"]), str(launches), total["launches"] == launches),
        Goal.none_of("mixed runs", total["mixed"]),
        Goal.none_of("lost runs", total["lost"]),
    ]
    return Section("Two writers on one path", ABOUT, goals, ("mode", *COLUMNS), rows, notes[:20])


def _launch(folder: Path, mode: str, delay: float, *, alone: list[Stored], notes: list[str]) -> Counter[str]:
    folder.mkdir()
    paths = ["--out", "run"] if mode.startswith("--out") else []
    paths += ["--overwrite"] if "--overwrite" in mode else []
    commands = [["fit", "--settings", str(fit.write(folder)), "--quiet", *paths] for fit in PAIR]
    first = fits.start(commands[0], folder, log=folder / "0.txt")
    time.sleep(delay)
    second = fits.start(commands[1], folder, log=folder / "1.txt")
    codes = [process.wait() for process in (first, second)]
    successes = [seed for seed, code in zip(SEEDS, codes, strict=True) if code == 0]
    kind = ("both failed", "one refused", "both succeeded")[len(successes)]
    found = Counter({"launches": 1, kind: 1})
    for seed, code in zip(SEEDS, codes, strict=True):
        said = (folder / f"{seed}.txt").read_text(encoding="utf-8")
        if code != 0 and "Error:" not in said:
            notes.append(f"{mode}: a refused fit says {without_paths(said[-300:], folder)}")
    there = list[int]()
    for run in sorted(one for one in folder.iterdir() if one.is_dir()):
        seed = fits.seed_of(run)
        difference = "its settings" if seed not in SEEDS else alone[seed].equals(Stored.of(run))
        if difference or seed is None:
            found["mixed"] += 1
            notes.append(f"{mode}, {delay:.2f} s apart: {run.name} differs in {difference}")
        else:
            there.append(seed)
    missing = set(successes) - set(there)
    if missing and not ("--overwrite" in mode and len(successes) == 2 and there):
        found["lost"] += 1
        notes.append(f"{mode}, {delay:.2f} s apart: exit codes {codes}, but the runs that are there have seeds {there}")
    return found
