"""The options of a benchmark that writes a page."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.rounds import ROOT

RESULTS = ROOT / "docs" / "results"


def parser(description: str, files: str) -> argparse.ArgumentParser:
    """A parser with `--quick` and `--out`; `files` are what is written."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--quick", action="store_true", help="a smoke run; its figures mean nothing")
    made.add_argument("--out", type=Path, default=RESULTS, help=f"folder of {files}")
    return made


def parsed(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, which do not let a quick run replace published results."""
    options = parser.parse_args(arguments)
    if options.quick and options.out == RESULTS:
        parser.error("`--quick` must not replace the results in docs/: give another folder with `--out`.")
    return options
