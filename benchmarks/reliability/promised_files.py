"""Scripts about files: two writers, overwriting, damage, code in stores, disks."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from importlib.metadata import requires
from pathlib import Path

import numpy as np

from benchmarks.reliability import fits
from benchmarks.reliability.fits import Answer, Fit, Stored, here
from benchmarks.reliability.promises import Check, Outcome, all_of

SMALL = Fit("nuts", num_draws=30, num_warmup=20)
COMMAND = ("fit", "two-moons", "--hidden", "3", "--chains", "2", "--warmup", "20", "--draws", "30", "--quiet")


def refused(answer: Answer, *words: str) -> Outcome:
    """One line of error with exit code 1 that has these words."""
    text = answer.err.strip()
    is_line = answer.code == 1 and text.startswith("Error:") and "\n" not in text
    return Outcome(text or f"exit code {answer.code}", is_line and all(word in text for word in words))


def _two_fits(folder: Path) -> Outcome:
    first = fits.start([*COMMAND, "--out", "run"], folder, log=folder / "first.txt")
    while not (folder / ".run.ergonet").exists() and first.poll() is None:
        time.sleep(0.01)
    second = here(*COMMAND, "--activation", "relu", "--out", "run")
    code = first.wait()
    found = refused(second, "is being written by process")
    return Outcome(f"{found.seen} (the first fit: exit code {code})", found.is_kept and code == 0)


def _save_over_a_folder(folder: Path) -> Outcome:
    import ergonet
    from ergonet._errors import RunDirectoryError

    SMALL.here(folder / "run")
    (folder / "work").mkdir()
    (folder / "work" / "thesis.txt").write_text("years")
    try:
        ergonet.load(folder / "run" / "draws.zarr").save(folder / "work", overwrite=True)
    except RunDirectoryError as error:
        return Outcome(str(error), (folder / "work" / "thesis.txt").read_text() == "years")
    return Outcome("replaced", is_kept=False)


_KILLED = """
import os, signal
import ergonet
from ergonet.cli.main import main
ergonet.sample = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
main()
"""


def _killed_overwrite(folder: Path) -> Outcome:
    SMALL.here(folder / "run")
    old = Stored.of(folder / "run")
    arguments = [*COMMAND, "--seed", "3", "--out", "run", "--overwrite"]
    killed = subprocess.run([sys.executable, "-c", _KILLED, *arguments], env=fits.environment(), check=False)
    answer = here(*arguments, "--time-limit", "0.000001")
    difference = old.equals(Stored.of(folder / "run"))
    seen = f"killed with {-killed.returncode}, then: {answer.err.strip()} The old run: {difference or 'intact'}"
    return Outcome(seen, killed.returncode == -signal.SIGKILL and not difference)


def _foreign_files(folder: Path) -> Outcome:
    SMALL.here(folder / "run")
    shutil.copytree(folder / "run", folder / ".other.previous")
    (folder / "mine").mkdir()
    (folder / "mine" / "settings.toml").write_text("mine")
    shutil.copytree(folder / "run", folder / "album")
    (folder / "album" / "draws.zarr" / "photos").mkdir()
    (folder / "album" / "draws.zarr" / "photos" / "cat").write_text("cat")
    (folder / "photo.png").write_text("cat")
    outcomes = [
        ("settings.toml of a person", refused(here(*COMMAND, "--out", "mine", "--overwrite"), "was not written by")),
        ("photos in draws.zarr", refused(here(*COMMAND, "--out", "album", "--overwrite"), "was not written by")),
        ("prior-check", refused(here("prior-check", "two-moons", "--out", "photo.png"), "--overwrite")),
    ]
    here(*COMMAND, "--out", "other")
    kept = (folder / ".other.previous" / "settings.toml").exists() and (folder / "mine" / "settings.toml").exists()
    kept &= (folder / "album" / "draws.zarr" / "photos" / "cat").exists()
    return all_of([*outcomes, ("files", Outcome("all there" if kept else "gone", kept))])


def _new_rows(folder: Path) -> Path:
    table = folder / "new.csv"
    table.write_text("x0,x1\n0.1,0.2\n1.0,-0.4\n", encoding="utf-8")
    return table


def _damaged_chunks(folder: Path) -> Outcome:
    SMALL.here(folder / "run")
    table, numbers, told = _new_rows(folder), random.Random(0), 0  # noqa: S311
    for index in range(20):
        shutil.rmtree(folder / "copy", ignore_errors=True)
        shutil.copytree(folder / "run", folder / "copy")
        chunk = numbers.choice(sorted((folder / "copy" / "draws.zarr" / "positions").glob("c.*")))
        if index < 16:
            data = bytearray(chunk.read_bytes())
            data[numbers.randrange(len(data))] ^= 1 << numbers.randrange(8)
            chunk.write_bytes(data)
        else:
            chunk.unlink()
        told += refused(here("predict", "copy", str(table), "--out", "out.csv", "--overwrite"), "positions").is_kept
    return Outcome(f"16 flipped bits and 4 deleted chunks: {told} of 20 are errors of `predict`", told == 20)


def _code_in_a_store(folder: Path) -> Outcome:
    SMALL.here(folder / "run")
    array = folder / "run" / "draws.zarr" / "positions"
    (array / "zarr.json").unlink()
    about = {"zarr_format": 2, "shape": [2, 30, 13], "chunks": [1, 30, 13], "dtype": "|O", "fill_value": None}
    about |= {"order": "C", "compressor": None, "filters": [{"id": "pickle", "protocol": 5}]}
    (array / ".zarray").write_text(json.dumps(about))
    payload = b"cos\nsystem\n(S'touch hacked'\ntR."
    for chunk in ("0.0.0", "1.0.0"):
        (array / chunk).write_bytes(payload)
    found = refused(here("predict", "run", str(_new_rows(folder)), "--out", "out.csv"))
    bound = next(one for one in requires("ergonet") or [] if one.startswith("zarr"))
    return Outcome(f"{found.seen} ({bound})", found.is_kept and not (folder / "hacked").exists())


def _killed_after_its_draws(folder: Path) -> Outcome:
    SMALL.here(folder / "run")
    whole = Stored.of(folder / "run")
    for name in ("manifest.json", "metrics.json", "evaluation.npz", "stats.npz", "report.html"):
        (folder / "run" / name).unlink()
    table = str(_new_rows(folder))
    answers = {
        "diagnose": here("diagnose", "run"),
        "report": here("report", "run"),
        "predict": here("predict", "run", table, "--out", "out.csv"),
        "verify": here("verify", "run"),
        "resume": here("resume", "run"),
    }
    outcomes = [(name, Outcome(one.err.strip() or "works", one.code == 0)) for name, one in answers.items()]
    difference = whole.equals(Stored.of(folder / "run"))
    return all_of([*outcomes, ("after resume", Outcome(difference or "bit-equal", not difference))])


def _signal(folder: Path) -> Outcome:
    outcomes = list[tuple[str, Outcome]]()
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        name = f"run-{code}"
        process = fits.start([*_long(), "--out", name], folder, log=folder / f"{name}.txt")
        while fits.phase_of(folder / name) in ("start", "setup", "warm-up") and process.poll() is None:
            time.sleep(0.02)
        time.sleep(0.5)
        process.send_signal(number)
        began = time.perf_counter()
        found = _end_of(process, 120.0)
        said = (folder / f"{name}.txt").read_text(encoding="utf-8").strip()
        seen = f"exit code {found} after {time.perf_counter() - began:.1f} s: {said[-120:]}"
        outcomes.append((number.name, Outcome(seen, found == code and "ergonet resume" in said)))
    return all_of(outcomes)


def _end_of(process: subprocess.Popen[str], seconds: float) -> int | None:
    """The exit code of a process; None if it had to be killed after so many seconds."""
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def _long() -> list[str]:
    return ["fit", "two-moons", "--hidden", "3", "--chains", "2", "--warmup", "50", "--draws", "30000", "--quiet"]


_FULL = """
import errno, os
from ergonet.draws import durable, store
real, count = os.fsync, [0]
def full(descriptor):
    count[0] += 1
    if count[0] > 150:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    real(descriptor)
os.fsync = full
from ergonet.cli.main import main
main()
"""


def _full_disk(folder: Path) -> Outcome:
    answer = _script(_FULL, [*COMMAND, "--out", "run"], folder)
    found = refused(answer)
    return Outcome(
        found.seen, found.is_kept and "run" in found.seen and len(found.seen) > len("Error: [Errno 28]") + 60
    )


def _script(text: str, arguments: list[str], folder: Path, *, environment: Mapping[str, str] | None = None) -> Answer:
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments],
        cwd=folder,
        env=environment or fits.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def _removed_folder(folder: Path) -> Outcome:
    process = fits.start([*_long(), "--out", "run"], folder, log=folder / "said.txt")
    while fits.phase_of(folder / "run") in ("start", "setup", "warm-up") and process.poll() is None:
        time.sleep(0.02)
    shutil.rmtree(folder / "run", ignore_errors=True)
    code = _end_of(process, 120.0)
    said = (folder / "said.txt").read_text(encoding="utf-8").strip()
    return Outcome(f"exit code {code}: {said[-200:]}", code == 1 and "Traceback" not in said and "run" in said)


_HOMELESS = """
import pwd, sys
def unknown(user):
    raise KeyError(user)
pwd.getpwuid = unknown
from ergonet.cli.main import main
main()
"""


def _strange_homes(folder: Path) -> Outcome:
    newline = here(*COMMAND, "--out", "a\nb")
    outcomes = [("newline in --out", Outcome(newline.err.strip() or "works", newline.code in (0, 1)))]
    homeless = {name: one for name, one in fits.environment().items() if name not in ("HOME", "XDG_CACHE_HOME")}
    done = _script(_HOMELESS, [*COMMAND, "--out", "run"], folder, environment=homeless)
    said = done.err.strip().splitlines()
    seen = f"exit code {done.code}: {said[-1] if said else ''}"
    outcomes.append(("no HOME, no passwd entry", Outcome(seen, done.code == 0 and "Traceback" not in done.err)))
    return all_of(outcomes)


def _world_writable_cache(folder: Path) -> Outcome:
    cache = folder / "cache" / "ergonet" / "compiled"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    uncached = {name: one for name, one in fits.environment().items() if name != "JAX_COMPILATION_CACHE_DIR"}
    done = subprocess.run(
        [*fits.COMMAND, *COMMAND, "--out", "run"],
        cwd=folder,
        env={**uncached, "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    said = next((line for line in done.stderr.splitlines() if "cached" in line), "nothing is said")
    return Outcome(said, "not cached" in said and done.returncode == 0 and not any(cache.iterdir()))


def _quiet_and_safe_predictions(folder: Path) -> Outcome:
    rng = np.random.default_rng(0)
    x, classes = rng.normal(size=(40, 2)), np.array(["=cmd|' /C calc'!A0", "+1", "ok"])
    rows = [f"{a:.3f},{b:.3f},{classes[int(a > 0) + int(b > 0)]}\n" for a, b in x]
    (folder / "table.csv").write_text("a,b,class\n" + "".join(rows), encoding="utf-8")
    short = ("--hidden", "2", "--chains", "2", "--warmup", "20", "--draws", "20", "--quiet")
    fitted = here("fit", "table.csv", "--target", "class", *short, "--out", "run")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = here("predict", "run", "table.csv", "--out", "out.csv")
    text = (folder / "out.csv").read_text(encoding="utf-8") if answer.code == 0 else ""
    cells = {cell.strip('"') for line in text.splitlines()[1:] for cell in line.split(",")}
    formulas = [cell for cell in cells if cell.startswith(("=", "@")) or cell == "+1"]
    remarks = [str(one.message) for one in caught if "manifest" in str(one.message)] + [answer.err.strip()]
    seen = f"exit codes {fitted.code}, {answer.code}; {len(formulas)} formulas; said: {''.join(remarks) or 'nothing'}"
    return Outcome(seen, answer.code == 0 and not formulas and not any(remarks))


CHECKS = [
    Check("two fits on one path", _two_fits),
    Check("`Samples.save(overwrite=True)` on somebody's folder", _save_over_a_folder),
    Check("an overwrite killed in its warm-up, then another one", _killed_overwrite),
    Check("files that Ergonet did not write", _foreign_files),
    Check("flipped bits and deleted chunks of positions", _damaged_chunks),
    Check("a Zarr array with a pickle filter", _code_in_a_store),
    Check("a fit killed after its draws", _killed_after_its_draws),
    Check("SIGTERM and SIGINT while sampling", _signal),
    Check("a full disk", _full_disk),
    Check("the run directory is removed while sampling", _removed_folder),
    Check("a newline in `--out`; no home", _strange_homes),
    Check("a world-writable cache", _world_writable_cache),
    Check("predictions: formulas, needless warnings", _quiet_and_safe_predictions),
]
