"""Plant every fault in a copy of the library and see that its test fails.

`python -m tests.faults.run` plants all of them and writes `tests/faults/README.md`; with words as arguments, those
whose names have one of the words, and writes nothing. The exit status is 1 where a test passed in spite of a fault.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.faults.table import FAULTS, Fault

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).with_name("README.md")
TESTS_FAILED = 1  # pytest's exit status


def planted(fault: Fault, source: str) -> str:
    """The source with the fault; raises `ValueError` where there is no place for it."""
    if fault.right not in source:
        raise ValueError(f"{fault.file} has no such text any more, so {fault.name!r} cannot be planted: {fault.right}")
    return source.replace(fault.right, fault.wrong)


def pytest_command(fault: Fault) -> list[str]:
    """The test of a fault, up to its first failure."""
    path, expression = fault.test
    return [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", path, "-k", expression]


def caught_by(fault: Fault) -> str:
    """The test that fails with the fault; empty where all pass."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__"))
        file = Path(folder) / "src" / "ergonet" / fault.file
        file.write_text(planted(fault, file.read_text()))
        environment = os.environ | {"PYTHONPATH": f"{folder}/src", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            pytest_command(fault), cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    failed = re.search(r"^FAILED (\S.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if done.returncode == TESTS_FAILED and failed:
        return failed.group(1)
    if done.returncode != 0:
        raise RuntimeError(f"{fault.name!r}: no test could be run\n{done.stdout[-3000:]}\n{done.stderr[-1000:]}")
    return ""


def page(rows: list[tuple[Fault, str]]) -> str:
    """The table as Markdown."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    caught = sum(bool(test) for _, test in rows)
    lines = [
        "# Planted faults",
        "",
        f"`make test-long` on commit {commit}, {datetime.now(UTC):%Y-%m-%d}: {caught} of {len(rows)} caught.",
        "",
        "| Fault | In | Caught by |",
        "| --- | --- | --- |",
        *(f"| {fault.name} | `{fault.file}` | {f'`{test}`' if test else '**nothing**'} |" for fault, test in rows),
    ]
    return "\n".join(lines) + "\n"


def main(words: list[str]) -> int:
    """Plant the faults that are chosen; the exit status."""
    chosen = [fault for fault in FAULTS if not words or any(word in fault.name for word in words)]
    rows = []
    for fault in chosen:
        began = time.monotonic()
        try:
            test = caught_by(fault)
        except (RuntimeError, ValueError) as error:
            print(error, flush=True)  # noqa: T201
            test = ""
        rows.append((fault, test))
        print(f"{time.monotonic() - began:6.1f} s  {fault.name}: {test or 'NOT CAUGHT'}", flush=True)  # noqa: T201
    if not words:
        PAGE.write_text(page(rows))
    return 0 if all(test for _, test in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
