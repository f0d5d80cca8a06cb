"""Pages of benchmark results, in Markdown."""

import datetime as dt
import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.rounds import CONTESTANTS, WHOLE, spread
from benchmarks.startup import STATEMENTS
from benchmarks.targets import PROBLEM_TITLES, Goal, gradient_goals, sampler_goals
from benchmarks.timing import Spread

PACKAGES = ("ergonet", "jax", "jaxlib", "numpy", "numpyro", "blackjax", "nutpie", "arviz-stats")

INTRODUCTION = """# Speed
Written by `{command}` on {date}. Figures are medians over turns or rounds, with the range in parentheses. All compared
figures were measured interleaved in the same run, one process at a time. Absolute figures hold for this machine only;
ratios carry over to others.{quick}

- Machine: {machine}.
- Versions: {versions}.
"""

QUICK = """

**A quick run: it shows that the command works. Its figures mean nothing.**"""

PROBLEMS = """
## Problems
- **P1 digits**: 500 images of 64 pixels, 64-35-10 tanh without biases, N(0, 1) on all 2590 weights, softmax.
- **P2 regression**: 1000 rows of 5 inputs, 5-20-20-1 tanh with biases, N(0, 1) on all 561 weights, known noise 0.5.
"""

STEPS = """
## Gradients and steps
Microseconds per call, in a compiled loop on one thread. *Gradient* is the gradient of the library's own network; *rows
first* is that of `tanh(X @ W)`, the density given to the peers. *Products* are the matrix products of one gradient and
nothing else; *matrix-vector product* is M^-1 p with a dense M^-1 over all weights. A *step* is a leapfrog step within a
compiled trajectory, with a diagonal metric unless the row says dense: of static HMC, of HMC with windows of 4 states,
or in a tree of 1023 steps under the no-U-turn criterion or the *exhaustive* one.
"""

SAMPLERS = """
## Samplers on P1
4 chains x ({num_warmup} + {num_draws}), target acceptance 0.8, diagonal metric, float32, the same initial values drawn
from the prior, {rounds} rounds with seeds 0 to {last}. *ESS*: smallest bulk effective sample size of 10 log
probabilities at 20 test rows. *Run*: time of warm-up and sampling, without *compile*, the time that JAX reports for
tracing and compiling. *Memory*: peak resident set size of the process. Peers have the rows-first density. *The
default* is the kernel, warm start and warm-up of a classification; MCLMC starts from Adam, too,
and its bias is on [a page of its own](microcanonical.md). Programs are compiled anew in every process.
"""

LONGER = """
## Within the time of the best peer
As above, with as many draws as take at most the time of the best peer in the same round, at the pace of the run above.
A draw of NUTS takes a hundred gradients and more, one of these about 32. With equally many draws most of their time
goes to compiling and the warm-up; whoever waits as long as for the peer has several times the draws.
"""

WAITS = """
## From the start of a process to {effective} effective predictions
Wall time of a process that imports, compiles, warms up and draws as few times as the smallest ESS takes, once.
"""

STARTUP = """
## Start-up
Seconds in a fresh process.
"""


def write(path: Path, record: dict[str, Any]) -> list[Goal]:
    """Write the page of `benchmarks.run`, and return its targets."""
    goals = gradient_goals(record["gradients"]) + sampler_goals(record["samplers"], record["longer"], record["imports"])
    about = record["about"]
    parts = [
        INTRODUCTION.format(
            command=about["command"],
            date=about["date"],
            machine=about["machine"],
            versions=", ".join(f"{name} {version}" for name, version in about["versions"].items()),
            quick=QUICK if about["quick"] else "",
        ),
        "\n## Targets\n" + goal_table(goals),
        PROBLEMS,
        STEPS + step_table(record["gradients"]),
        SAMPLERS.format(**about["settings"], last=about["settings"]["rounds"] - 1) + sampler_table(record["samplers"]),
        LONGER + longer_table(record["longer"]),
        WAITS.format(**about["settings"]) + wait_table(record["waits"]),
        STARTUP + startup_table(record["imports"]),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(parts), encoding="utf-8")
    return goals


def write_measured(path: Path, title: str, record: dict[str, Any], text: str) -> None:
    """Write a page of measurements, and its record as JSON beside it.

    Args:
        path: path of both files, without the suffix.
        title: title of the page.
        record: content of the JSON file, with `about` as made by `describe`.
        text: tables in Markdown.
    """
    about = record["about"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    quick = QUICK if about["quick"] else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    path.with_suffix(".md").write_text(
        f"# {title}\nWritten by `{about['command']}` on {about['date']}.{quick}\n\n- Machine: {about['machine']}.\n"
        f"- Versions: {versions}.\n\n## Measured\n{text}",
        encoding="utf-8",
    )


def goal_table(goals: Sequence[Goal]) -> str:
    """A table with one row per target."""
    rows = []
    for goal in goals:
        verdict = ("met" if goal.is_met else "**not met**") + ("" if goal.decides else " (for information)")
        rows.append((goal.what, goal.measured.text(), goal.bound_text, verdict))
    return table(("what", "measured", "target", ""), rows)


def step_table(gradients: dict[str, Any]) -> str:
    """A table of microseconds by problem."""
    names = list(next(iter(gradients.values()))["microseconds"])
    rows = [
        (name, *(Spread.of(record["microseconds"][name]).text("{:.1f}") for record in gradients.values()))
        for name in names
    ]
    return table(("us", *(PROBLEM_TITLES[name] for name in gradients)), rows)


def sampler_table(records: dict[str, list[dict[str, Any]]]) -> str:
    """A table with one row per sampler."""
    head = (
        "sampler",
        "compile s",
        "run s",
        "gradients / 1000",
        "ESS",
        "ESS / s",
        "ESS / s, with compile",
        "memory MiB",
        "",
    )
    rows = []
    for one in CONTESTANTS:
        if one.module not in records:
            rows.append((one.title, *("-",) * 7, f"absent: `{one.requires}` is not installed"))
            continue
        runs = records[one.module]
        divergences = sum(run["divergences"] for run in runs)
        notes = [runs[-1]["note"], f"{divergences} divergences in all" if divergences else ""]
        rows.append(
            (
                one.title,
                spread(runs, "compile_seconds").text("{:.1f}"),
                spread(runs, "run_seconds").text("{:.1f}"),
                f"{spread(runs, 'gradients').median / 1000:.0f}",
                spread(runs, "least_effective_draws").text("{:.0f}"),
                spread(runs, "effective_draws_per_second").text("{:.1f}"),
                spread(runs, WHOLE).text("{:.1f}"),
                f"{spread(runs, 'peak_memory_mib').median:.0f}",
                "; ".join(note for note in notes if note),
            )
        )
    return table(head, rows)


def longer_table(records: dict[str, list[dict[str, Any]]]) -> str:
    """A table of the runs within the time of the best peer."""
    head = ("sampler", "draws of a chain", "compile s", "run s", "gradients / 1000", "ESS", "ESS / s, with compile")
    rows = [
        (
            one.title,
            f"{spread(runs, 'num_draws').median:.0f}",
            spread(runs, "compile_seconds").text("{:.1f}"),
            spread(runs, "run_seconds").text("{:.1f}"),
            f"{spread(runs, 'gradients').median / 1000:.0f}",
            spread(runs, "least_effective_draws").text("{:.0f}"),
            spread(runs, WHOLE).text("{:.1f}"),
        )
        for one in CONTESTANTS
        if (runs := records.get(one.module))
    ]
    return table(head, rows)


def wait_table(records: dict[str, dict[str, Any]]) -> str:
    """A table of the wall time to a wanted ESS."""
    rows = [
        (
            one.title,
            f"{records[one.module]['process_seconds']:.1f}",
            f"{records[one.module]['num_draws']}",
            f"{records[one.module]['least_effective_draws']:.0f}",
        )
        for one in CONTESTANTS
        if one.module in records
    ]
    return table(("sampler", "s", "draws of a chain", "ESS"), rows)


def startup_table(imports: dict[str, list[float]]) -> str:
    """A table of the seconds of imports."""
    return table(
        ("statement", "s"), [(f"`{STATEMENTS[name]}`", Spread.of(values).text()) for name, values in imports.items()]
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def describe(command: str, *, quick: bool, settings: dict[str, Any]) -> dict[str, Any]:
    """The date, machine, versions and settings of a run, without names of machines or people."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return {
        "command": command,
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "versions": {"Python": platform.python_version(), **found},
        "quick": quick,
        "settings": settings,
    }


def machine() -> str:
    """The processor, number of cores and memory, in words."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    words = [_processor(), f"{cores} cores"]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        words.append(f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB")
    return ", ".join([*words, f"{platform.system()} {platform.machine()}, no accelerator used"])


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"
