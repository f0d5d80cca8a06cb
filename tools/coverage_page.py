"""Write docs/results/coverage.md from the report of `coverage json`: statements by folder, and files with gaps."""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results" / "coverage.md"
PACKAGE = "src/ergonet/"
ENOUGH = 0.9  # files below are named


def page(report: dict[str, Any]) -> str:
    """The table as Markdown.

    Args:
        report: the content of `coverage json`.
    """
    files = {
        name.split(PACKAGE, 1)[1]: (one["summary"]["covered_lines"], one["summary"]["num_statements"])
        for name, one in report["files"].items()
    }
    folders: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for name, counts in files.items():
        folders[name.rpartition("/")[0].split("/")[0] or "(top)"].append(counts)
    gaps = {name: counts for name, counts in files.items() if counts[0] < ENOUGH * counts[1]}
    named = ", ".join(f"`{name}` ({100 * gaps[name][0] / gaps[name][1]:.0f} %)" for name in sorted(gaps))
    lines = [
        "# Coverage",
        "",
        f"Statements of the library that the quick tests run: `make coverage` on commit {_commit()}. Functions that",
        "JAX compiles count when they are traced. What a process of its own runs does not count, which is most of the",
        "command, nor do the slow and statistical tests.",
        "",
        "| Folder | Statements | Run, % |",
        "| --- | ---: | ---: |",
        *(_row(folder, counts) for folder, counts in sorted(folders.items())),
        _row("**all**", list(files.values())),
        "",
        f"Files below {100 * ENOUGH:.0f} %: {named or 'none'}.",
    ]
    return "\n".join(lines) + "\n"


def _commit() -> str:
    words = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _row(name: str, counts: list[tuple[int, int]]) -> str:
    covered, total = (sum(one) for one in zip(*counts, strict=True))
    return f"| {name} | {total} | {100 * covered / max(total, 1):.1f} |"


if __name__ == "__main__":
    PAGE.write_text(page(json.loads(Path(sys.argv[1]).read_text())))
    print(f"Written: {PAGE.relative_to(ROOT)}")
