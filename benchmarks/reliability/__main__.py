"""`python -m benchmarks.reliability`: measure every section that has not been measured, and write the page.

Finished sections are kept as JSON in build/reliability, so that an interrupted run continues where it was;
`--section NAME` measures sections anew. `--quick` takes minutes, with smaller numbers.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import page
from benchmarks.reliability import SECTIONS, measure
from benchmarks.reliability.section import Bench, Section
from benchmarks.rounds import ROOT

INTRODUCTION = """# Reliability
Written by `{command}` on {date}. Every figure is printed by this command; nothing was filled in by hand.
Sections that are finished are kept, so the last table says when and where each of them was measured.{quick}

- Versions on this day: {versions}.

"""
QUICK = """

**A quick run, with small numbers: `make reliability` gives the published figures.**"""


def main(arguments: list[str] | None = None) -> int:
    """Measure, write the page and print which goals are met; 1 if one is not."""
    parser = argparse.ArgumentParser(description="What is lost, silent or wrong, by attack.")
    parser.add_argument("--quick", action="store_true", help="a few minutes, with small numbers")
    parser.add_argument("--section", action="append", choices=list(SECTIONS), help="measure this section anew; repeat")
    parser.add_argument(
        "--only", action="store_true", help="measure nothing but named sections; the page has all kept ones"
    )
    parser.add_argument("--out", type=Path, help="folder of reliability.md and .json; docs/results unless quick")
    parser.add_argument("--kept", type=Path, help="folder of finished sections; build/reliability unless given")
    parser.add_argument("--share", type=float, default=1.0, help="of the full numbers, for a shorter run")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs without it
    name = "reliability-quick" if options.quick else "reliability"
    kept = options.kept or ROOT / "build" / name
    out = options.out or (kept if options.quick else ROOT / "docs" / "results")
    kept.mkdir(parents=True, exist_ok=True)
    for section in options.section or ():
        (kept / f"{section}.json").unlink(missing_ok=True)
    chosen = (options.section or []) if options.only else list(SECTIONS)
    found = {}
    for section in SECTIONS:
        file = kept / f"{section}.json"
        if section in chosen and not file.exists():
            _measure(section, file, is_quick=options.quick, share=options.share)
        if file.exists():
            found[section] = json.loads(file.read_text(encoding="utf-8"))
    words = ["python -m benchmarks.reliability", *(["--quick"] if options.quick else [])]
    words += [f"--share {options.share:g}"] if options.share != 1 else []
    return _write(out, found, " ".join(words), is_quick=options.quick)


def _measure(name: str, file: Path, *, is_quick: bool, share: float) -> None:
    print(f"{name}: {SECTIONS[name]}", flush=True)
    began = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix=f"reliability-{name}-"))
    try:
        section = measure(name, Bench(folder, is_quick, share))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.perf_counter() - began
    about = page.describe("", quick=is_quick, settings={})
    content = {"seconds": seconds, "date": about["date"], "machine": about["machine"], **section.to_table()}
    unfinished = file.with_suffix(".tmp")
    unfinished.write_text(json.dumps(content, indent=1), encoding="utf-8")
    unfinished.replace(file)
    print(f"{name}: {seconds:.0f} s", flush=True)


def _write(folder: Path, found: dict[str, dict[str, Any]], command: str, *, is_quick: bool) -> int:
    made = {name: {one: content.pop(one) for one in ("seconds", "date", "machine")} for name, content in found.items()}
    sections = {name: Section.from_table(content) for name, content in found.items()}
    about = page.describe(command, quick=is_quick, settings={})
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    text = INTRODUCTION.format(
        command=command,
        date=about["date"],
        versions=versions,
        quick=QUICK if is_quick else "",
    )
    missing = [name for name in SECTIONS if name not in found]
    text += f"**Not measured yet, and not on this page: {', '.join(missing)}.**\n\n" if missing else ""
    text += "\n".join(section.markdown() for section in sections.values())
    text += "\n## Time and place\n" + page.table(
        ("section", "s", "date", "machine"),
        [(name, f"{one['seconds']:.0f}", one["date"], one["machine"]) for name, one in made.items()],
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reliability.md").write_text(text, encoding="utf-8")
    record = {"about": about, "made": made, "sections": {name: one.to_table() for name, one in sections.items()}}
    (folder / "reliability.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    goals = [(name, goal) for name, section in sections.items() for goal in section.goals]
    for name, goal in goals:
        print(f"{'met    ' if goal.is_met else 'NOT MET'}  {name}: {goal.what}: {goal.found} (wanted {goal.wanted})")
    print(f"Written: {folder / 'reliability.md'}")
    return 0 if all(goal.is_met for _, goal in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
