"""How the chains compare on held-out rows, for the summary and the report."""

from collections.abc import Mapping, Sequence
from typing import Any

from ergonet.report import wording

Row = tuple[str, str, str]


def rows(metrics: Mapping[str, Any]) -> list[Row]:
    """Figures of the chains as members of an ensemble: name, value and meaning; empty if they were not compared."""
    found = metrics.get("ensemble") or {}
    if not found.get("scores"):
        return []
    scores, best = found["scores"], _with_error(found, "gain_over_best")
    before = ", before temperature and label noise" if metrics.get("task") == "classification" else ""
    alone = f"log score of a test row by each chain alone{before}"
    entries = [
        ("Score of chains", f"{min(scores):.3f} to {max(scores):.3f}", alone),
        (
            "Gain by averaging",
            _with_error(found, "gain_over_mean"),
            f"nats per row over the mean chain; over the best: {best}",
        ),
        ("Change of score", _with_error(found, "change"), "second half of the draws minus the first; 0 if settled"),
    ]
    return [entry for entry in entries if entry[1]]


def columns(metrics: Mapping[str, Any], chains: int) -> list[tuple[str, list[str]]]:
    """Columns of the table of chains: name, and the text for each chain; empty if they were not compared."""
    found = metrics.get("ensemble") or {}
    if not found.get("scores"):
        return []

    def column(values: Sequence[float | None], errors: Sequence[float | None] | None = None) -> list[str]:
        shown = {
            chain: " ".join(wording.with_error(values[i], None if errors is None else errors[i])).strip()
            for i, chain in enumerate(found["chains"])
        }
        return [shown.get(chain, "") for chain in range(chains)]

    return [
        ("log score of test rows", column(found["scores"])),
        ("score minus the mean", column(found["differences"], found["difference_errors"])),
        ("change of score", column(found["changes"])),
    ]


def _with_error(found: Mapping[str, Any], name: str) -> str:
    return " ".join(wording.with_error(wording.real(found, name), wording.real(found, f"{name}_error"))).strip()
