"""The run directory written by a fit: its files, and how they are written and read."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergonet._errors import RunDirectoryError, SettingError
from ergonet.assembly.renamed import translate
from ergonet.assembly.settings import Settings
from ergonet.draws.durable import checksum_of, replacing, write_json
from ergonet.draws.manifest import read_manifest
from ergonet.runs.toml import to_toml

if TYPE_CHECKING:
    import numpy as np

    from ergonet.datasets.preprocessing import Preprocessing
    from ergonet.draws.samples import Samples

FORMAT_VERSION = 1
SETTINGS, PREPROCESSING, METRICS = "settings.toml", "preprocessing.json", "metrics.json"
EVALUATION, STATS, REPORT, MANIFEST = "evaluation.npz", "stats.npz", "report.html", "manifest.json"
DRAWS = "draws.zarr"
ALL = (SETTINGS, PREPROCESSING, DRAWS, STATS, EVALUATION, METRICS, REPORT)  # in the order in which they are written


@dataclass(frozen=True)
class RunDirectory:
    """A run directory, by its path."""

    path: Path

    @property
    def draws(self) -> Path:
        """The Zarr group of the draws."""
        return self.path / DRAWS

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / REPORT

    def write_settings(self, settings: Settings, preprocessing: "Preprocessing") -> None:
        """Write everything that prediction needs besides the draws."""
        self.path.mkdir(exist_ok=True)
        with replacing(self.path / SETTINGS) as file:
            file.write(to_toml(settings.to_table()).encode())
        write_json(self.path / PREPROCESSING, preprocessing.to_dict())

    def write_results(
        self, metrics: Mapping[str, Any], evaluation: Mapping[str, "np.ndarray"], samples: "Samples"
    ) -> None:
        """Write the figures and arrays from which the report is made."""
        early = {f"warmup_{name}": values for name, values in samples.warmup_stats.items()}
        self._write_arrays(STATS, {**samples.stats, **early})
        self._write_arrays(EVALUATION, evaluation)
        write_json(self.path / METRICS, metrics)

    def write_manifest(self) -> None:
        """Write the manifest; this comes last, so that a directory with a manifest is complete."""
        from ergonet import __version__

        present = [name for name in ALL if (self.path / name).exists()]
        content = {
            "format_version": FORMAT_VERSION,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "ergonet": __version__,
            "files": present,
            "checksums": {
                name: zlib.crc32((self.path / name).read_bytes()) for name in present if name not in (DRAWS, REPORT)
            },
        }
        write_json(self.path / MANIFEST, content | {"checksum": checksum_of(content)})

    def read_settings(self) -> tuple[Settings, "Preprocessing"]:
        """Read the settings and the preprocessing of a run.

        Raises:
            RunDirectoryError: the directory or a file in it is missing or unreadable, or this version does not know a
                setting.
        """
        import tomllib

        from ergonet.datasets.preprocessing import Preprocessing

        self.require((SETTINGS, PREPROCESSING, DRAWS))
        try:
            table = tomllib.loads((self.path / SETTINGS).read_text(encoding="utf-8"))
            record = json.loads((self.path / PREPROCESSING).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunDirectoryError(f"The run directory {str(self.path)!r} is damaged: {error}. Fit again.") from error
        try:
            settings = Settings.from_table(translate(table))
        except SettingError as error:
            raise RunDirectoryError(
                f"{str(self.path / SETTINGS)!r} was written by another version of Ergonet: {error} Change it in that "
                f"file, use the version that wrote it, or fit again."
            ) from error
        return settings, Preprocessing.from_dict(record)

    def missing_results(self) -> list[str]:
        """The files of results that are missing, as in a run that was killed."""
        return [name for name in (METRICS, EVALUATION, STATS) if not (self.path / name).exists()]

    def read_metrics(self) -> dict[str, Any]:
        """The content of ``metrics.json``.

        Raises:
            RunDirectoryError: it is missing or cannot be read.
        """
        self.require((METRICS,))
        try:
            return json.loads((self.path / METRICS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunDirectoryError(f"{str(self.path / METRICS)!r} cannot be read: {error}. Fit again.") from error

    def check_version(self) -> bool:
        """Whether the run finished.

        Raises:
            RunDirectoryError: the directory has another format version.
        """
        return self.read_manifest() is not None

    def read_manifest(self) -> dict[str, Any] | None:
        """The content of the manifest; None if the run did not finish.

        Raises:
            RunDirectoryError: it cannot be read, or has another format version.
        """
        try:
            manifest = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunDirectoryError(f"{str(self.path / MANIFEST)!r} cannot be read: {error}. Fit again.") from error
        version = manifest.get("format_version") if isinstance(manifest, dict) else None
        if version != FORMAT_VERSION:
            raise RunDirectoryError(
                f"The run directory {str(self.path)!r} has format version {version!r}, but this version of Ergonet "
                f"reads {FORMAT_VERSION}. Use the version that wrote it, or fit again."
            )
        if manifest.pop("checksum", None) not in (None, checksum_of(manifest)):
            raise RunDirectoryError(
                f"{str(self.path / MANIFEST)!r} is damaged: its checksum does not match. Restore it from a backup, or "
                f"delete it to use the run as one that did not finish."
            )
        return manifest

    def has_draws(self) -> bool:
        """Whether there is at least one draw of every chain."""
        try:
            return min(read_manifest(self.draws)["draws_by_chain"]) > 0
        except RunDirectoryError:
            return False

    def require(self, names: tuple[str, ...]) -> None:
        """Raise `RunDirectoryError` unless the directory and these files exist."""
        if not self.path.is_dir():
            from ergonet.draws.replacement import whereabouts

            raise RunDirectoryError(
                f"There is no run directory {str(self.path)!r}. `ergonet fit ... --out {self.path.name or 'RUN'}` "
                f"creates one.{whereabouts(self.path)}"
            )
        missing = [name for name in names if not (self.path / name).exists()]
        if missing:
            raise RunDirectoryError(
                f"{str(self.path)!r} has no {' and no '.join(missing)}: it is not a run directory of "
                f"`ergonet fit`, or the run did not finish."
            )

    def _write_arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        import numpy as np

        with replacing(self.path / name) as file:
            np.savez(file, allow_pickle=False, **arrays)
