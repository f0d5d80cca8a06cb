"""How reliable the library is, measured by attack; `python -m benchmarks.reliability` writes the page."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.reliability.section import Bench, Section

SECTIONS = {
    "kills": "fits that are killed",
    "crashes": "crashes at file operations",
    "writers": "two writers on one path",
    "mutations": "altered files",
    "fuzzing": "odd inputs",
    "calibration": "SBC and Geweke",
    "posteriors": "models with known moments",
    "promises": "faults that were found before",
}


def measure(name: str, bench: "Bench") -> "Section":
    """Measure a section; each is the module of its name."""
    return importlib.import_module(f"benchmarks.reliability.{name}").measure(bench)
