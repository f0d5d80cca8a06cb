"""The draws of a run directory while they are made."""

import shlex
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ergonet.assembly.settings import Settings
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.draws.replacement import Claim
from ergonet.draws.store import ZarrStore
from ergonet.runs.directory import DRAWS, RunDirectory


class RunStore(ZarrStore):
    """The draws of a claimed run directory, which gets its settings when they begin."""

    def __init__(self, claim: Claim, settings: Settings, preprocessing: Preprocessing, *, resume: bool):
        super().__init__(DRAWS, within=claim, resume=resume)
        self._directory, self._settings, self._preprocessing = claim.folder, settings, preprocessing
        self.how_to_continue = how_to_continue(claim.path)

    def allocate(self, num_chains: int, num_draws: int, fields: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> None:
        RunDirectory(self._directory).write_settings(self._settings, self._preprocessing)
        super().allocate(num_chains, num_draws, fields)


def how_to_continue(path: Path) -> str:
    """A sentence for a run that was stopped."""
    return f"`ergonet resume {shlex.quote(str(path))}` continues it."
