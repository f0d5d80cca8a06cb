"""Prints how many inputs were tried."""

from typing import Any

from tests.fuzz.outcomes import COUNTS


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if COUNTS["inputs"]:
        counts = {name: COUNTS[name] for name in ("inputs", "refused", "failures")}
        terminalreporter.section("fuzzed " + ", ".join(f"{name}: {count}" for name, count in counts.items()))
