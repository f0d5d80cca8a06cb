"""The fuzz tests, with as many examples as the page asks for: tables, settings, options, targets and stored files."""

import os
import re
import subprocess
import sys

from benchmarks.reliability import fits
from benchmarks.reliability.section import Bench, Goal, Section
from benchmarks.rounds import ROOT

ABOUT = """Hypothesis makes tables, archives, settings, options, arguments of estimators, targets and altered stored
files (`tests/fuzz`). An input may give a sound result or an error of the library; *failures* are other exceptions,
calls of more than a minute, and results that the tests know to be wrong."""
_COUNTS = re.compile(r"fuzzed inputs: (\d+), refused: (\d+), failures: (\d+)")
_OF_A_TEST = 12  # tests among which inputs are divided


def measure(bench: Bench) -> Section:
    """Run the fuzz tests until there were enough inputs."""
    wanted = bench.size(10_000, 300)
    inputs = refused = failures = failed = 0
    rows, notes = list[list[str]](), list[str]()
    while inputs < wanted and not failed:
        examples = max(10, (wanted - inputs) // _OF_A_TEST)
        answer = _run(examples, bench)
        found = _COUNTS.search(answer.stdout)
        if found is None:
            notes.append(answer.stdout.strip().splitlines()[-1] if answer.stdout.strip() else "there are no fuzz tests")
            break
        counts = [int(one) for one in found.groups()]
        inputs, refused, failures = inputs + counts[0], refused + counts[1], failures + counts[2]
        failed += answer.returncode != 0
        notes += [line for line in answer.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        rows.append([str(examples), *map(str, counts), str(answer.returncode)])
    goals = [
        Goal("inputs", str(inputs), str(wanted), inputs >= wanted),
        Goal.none_of("failures", failures + (failed if not failures else 0)),
    ]
    head = ("examples for each test", "inputs", "refused", "failures", "exit code")
    return Section("Odd inputs", ABOUT, goals, head, rows, notes[:20])


def _run(examples: int, bench: Bench) -> subprocess.CompletedProcess[str]:
    if not (ROOT / "tests" / "fuzz").is_dir():
        return subprocess.CompletedProcess([], 1, "", "")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-o", f"cache_dir={bench.folder / 'cache'}"]
    environment = fits.environment() | {"ERGONET_FUZZ_EXAMPLES": str(examples), "PYTHONHASHSEED": "0"}
    path = os.pathsep.join([environment["PYTHONPATH"], str(ROOT)])
    return subprocess.run(
        [*command, "tests/fuzz"],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
