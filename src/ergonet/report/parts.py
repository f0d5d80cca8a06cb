"""The page of joined parts: how much of the mass each has, and how far that is to be trusted."""

import math
from collections.abc import Collection
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ergonet._errors import EstimateError
from ergonet.diagnostics.advice import LARGEST_RHAT
from ergonet.diagnostics.finding import shown_rhat
from ergonet.report import wording
from ergonet.report.comparing import Strip, on_one_scale
from ergonet.report.pages import fill, replace_page

MOST_NAMED = 4  # parts in a sentence

if TYPE_CHECKING:
    from ergonet.partition import Joined


def write_parts(joined: "Joined", path: str | PathLike[str], *, title: str = "Parts of the space") -> Path:
    """Write joined parts as one HTML file that needs no network, no scripts and no other files.

    Args:
        joined: what `partition.join` returns, or the `estimate` of its error.
        path: the file to write; an existing file is replaced.
        title: heading of the page.

    Returns:
        The path.

    Raises:
        OSError: the folder is missing or not writable.
    """
    rhats = [part.convergence().max_rhat for part in joined.parts]
    problems = {number: one.problem for number, one in enumerate(joined.masses) if one.problem}
    content = {
        "title": title,
        "level": "bad" if joined.faults else "note" if problems or _apart(rhats) else "good",
        "sentences": sentences(joined, rhats),
        "strips": _strips(joined),
        "rows": [_row(joined, number, rhat) for number, rhat in enumerate(rhats)],
        "problems": [(f"Part {number}", problem) for number, problem in problems.items()],
        "log_mass": _log_mass(joined),
    }
    return replace_page(Path(path), fill("parts.html", content))


def sentences(joined: "Joined", rhats: list[float]) -> list[str]:
    """What the weights say, in words, the most important first."""
    weights, faults = joined.weights, joined.faults
    largest = int(np.argmax(np.nan_to_num(weights, nan=-1.0)))
    has = f"Part {largest} has the largest weight, {_weight(joined, largest)}"
    worth = f"All parts together count as {wording.number(joined.effective_parts, 2)} of equal weight."
    if faults:
        mass = "the mass" if len(faults) == 1 else "the masses"
        found = [
            f"The weights are not to be trusted: {mass} of {_named(faults)} cannot be told.",
            f"{has}, as far as is known.",
        ]
    elif joined.is_exact:
        found = [f"{has}.", "The weights are known exactly, from a symmetry.", worth]
    else:
        found = [f"{has}.", "The masses of all parts that count are to be trusted.", worth]
    if apart := _apart(rhats):
        found.append(
            f"R-hat is above {LARGEST_RHAT} in {_named(apart)}: chains that disagree have not converged, and what the "
            "weights say is as uncertain as they are."
        )
    return found


def _named(numbers: Collection[int]) -> str:
    """Parts by number: `part 4`, `parts 0 and 3`, `parts 0, 1, 2, 3 and 12 more`."""
    shown = [str(one) for one in numbers][: MOST_NAMED if len(numbers) > MOST_NAMED + 1 else None]
    last = f"{len(numbers) - len(shown)} more" if len(shown) < len(numbers) else shown.pop()
    return f"part {last}" if not shown else f"parts {', '.join(shown)} and {last}"


def _apart(rhats: list[float]) -> list[int]:
    """The parts whose chains disagree."""
    return [number for number, rhat in enumerate(rhats) if rhat > LARGEST_RHAT]


def _log_mass(joined: "Joined") -> str:
    """The log mass of all parts, with its error; nothing if it has no estimate."""
    try:
        return " ".join(wording.with_error(*joined.log_mass))
    except EstimateError:
        return ""


def _weight(joined: "Joined", number: int) -> str:
    weight, error = float(joined.weights[number]), float(joined.weight_errors[number])
    return " ".join(wording.with_error(weight, error, percent=True)).strip()


def _strips(joined: "Joined") -> list[Strip]:
    """The weights that are known with lines of two standard errors, on a scale from 0 to the largest."""
    weights, errors = joined.weights, joined.weight_errors
    known = np.flatnonzero(np.isfinite(weights)).tolist()
    if not known:
        return []
    pairs = zip(weights[known], errors[known], strict=True)
    ends = [(max(0.0, float(weight - 2 * error)), min(1.0, float(weight + 2 * error))) for weight, error in pairs]
    place = on_one_scale(ends)
    return [
        Strip(
            f"part {number}",
            place(low),
            place(high),
            place(float(weights[number])),
            place(0.0),
            _weight(joined, number),
        )
        for number, (low, high) in zip(known, ends, strict=True)
    ]


def _row(joined: "Joined", number: int, rhat: float) -> dict[str, str | bool]:
    mass, part = joined.masses[number], joined.parts[number]
    is_known, weight = joined.is_exact, joined.weights[number]
    return {
        "name": joined.name(number),
        "weight": f"{weight:.4f} ± {joined.weight_errors[number]:.4f}" if math.isfinite(weight) else "unknown",
        "log_mass": "known" if is_known else str(mass) if math.isfinite(mass.value) else "unknown",
        "overlap": "" if is_known else wording.number(mass.overlap, 2),
        "ess": "" if is_known else wording.grouped(mass.ess),
        "draws": wording.grouped(float(part.num_chains * part.num_draws)),
        "rhat": "unknown" if math.isnan(rhat) else shown_rhat(rhat, LARGEST_RHAT),
        "is_trusted": not mass.problem,
    }
