"""Measurements in a folder, so that a run that was interrupted goes on: each is a file, named by what determines it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from experiments.sizes import Size

Measured = tuple[dict[str, Any], float]  # figures by quantity name, and seconds
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Kept:
    """The measurements of a reproduction at a size, by row and seed; any change of the code starts anew.

    Attributes:
        folder: where they are.
        name: of the reproduction.
        size: how much is run; the number of seeds does not matter, so that seeds can be added.
        versions: of the packages that measure.
    """

    folder: Path
    name: str
    size: Size
    versions: Mapping[str, str]

    def find(self, label: str, seed: int) -> Measured | None:
        """The figures and the seconds of a row with a seed; None if they are not known."""
        file = self._file(label, seed)
        if not file.is_file():
            return None
        found = json.loads(file.read_text(encoding="utf-8"))
        return found["figures"], found["seconds"]

    def keep(self, label: str, seed: int, found: Measured) -> None:
        """Write them; a file is complete or absent."""
        file = self._file(label, seed)
        file.parent.mkdir(parents=True, exist_ok=True)
        figures = {name: float(value) for name, value in found[0].items()}
        unfinished = file.with_suffix(".tmp")
        unfinished.write_text(json.dumps({"label": label, "figures": figures, "seconds": found[1]}), encoding="utf-8")
        unfinished.replace(file)

    def _file(self, label: str, seed: int) -> Path:
        size = {key: value for key, value in asdict(self.size).items() if key != "num_seeds"}
        parts = [self.name, size, dict(self.versions), self._source, label, seed]
        named = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]
        return self.folder / self.name / f"{named}.json"

    @cached_property
    def _source(self) -> str:
        """A digest of the code."""
        found = hashlib.sha256()
        for folder in (ROOT / "experiments", ROOT / "src"):
            for file in sorted(folder.rglob("*.py")):
                found.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes())
        return found.hexdigest()
