"""The run directory written by a fit; an existing one is replaced only once the new one contains draws."""

import json
import shutil
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergonet._errors import RunDirectoryError, SettingError
from ergonet.assembly.renamed import translate
from ergonet.assembly.settings import Settings
from ergonet.cli.toml import to_toml
from ergonet.draws.durable import replacing, write_json
from ergonet.draws.manifest import checksum_of, read_manifest

if TYPE_CHECKING:
    import numpy as np

    from ergonet.datasets.preprocessing import Preprocessing
    from ergonet.draws.samples import Samples

FORMAT_VERSION = 1
SETTINGS, PREPROCESSING, METRICS = "settings.toml", "preprocessing.json", "metrics.json"
EVALUATION, STATS, REPORT, MANIFEST = "evaluation.npz", "stats.npz", "report.html", "manifest.json"
DRAWS = "draws.zarr"
_ALL = (SETTINGS, PREPROCESSING, DRAWS, METRICS, EVALUATION, STATS, REPORT)


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

        present = [name for name in _ALL if (self.path / name).exists()]
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
            raise RunDirectoryError(
                f"There is no run directory {str(self.path)!r}. `ergonet fit ... --out {self.path.name or 'RUN'}` "
                f"creates one."
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


def choose_path(out: str | None, name: str) -> Path:
    """The path of a new run: as given, or else `NAME-run`, with a number if that exists."""
    if out is not None:
        return Path(out)
    taken = (Path(f"{name}-run" if number == 1 else f"{name}-run-{number}") for number in range(1, 10_000))
    return next(path for path in taken if not path.exists())


def check_free(path: Path, *, overwrite: bool) -> None:
    """Check that a run can be written to a path.

    Raises:
        RunDirectoryError: the path exists and must not be replaced, or its parent is not a folder.
    """
    if path.exists() or path.is_symlink():
        if not overwrite:
            raise RunDirectoryError(
                f"`--out`: {str(path)!r} exists already. Choose another folder, or add `--overwrite` to replace it."
            )
        inside = Path.cwd().is_relative_to(path.resolve())
        if inside or path.is_symlink() or not path.is_dir() or not _looks_like_run(path):
            raise RunDirectoryError(
                f"`--out`: {str(path)!r} is not a run directory, so `--overwrite` does not replace it. Choose another "
                f"folder."
            )
    above = next(one for one in path.absolute().parents if one.exists())
    if not above.is_dir():
        raise RunDirectoryError(f"`--out`: {str(above)!r} is a file, so it cannot hold {str(path)!r}.")


def _looks_like_run(path: Path) -> bool:
    """Whether a folder is empty or contains only files of a run."""
    known = {*_ALL, MANIFEST}
    return all(entry.name in known or entry.name.startswith(f".{REPORT}") for entry in path.iterdir())


@contextmanager
def new_run_directory(path: Path) -> Generator[RunDirectory]:
    """A new, empty run directory; after an error without draws it is removed and the previous one is restored.

    Args:
        path: a path checked by `check_free`.
    """
    previous = path.with_name(f".{path.name}.previous")
    if path.exists():
        shutil.rmtree(previous, ignore_errors=True)
        path.rename(previous)
    directory = RunDirectory(path)
    try:
        path.mkdir(parents=True)
        yield directory
    except BaseException:
        if not directory.has_draws():
            shutil.rmtree(path, ignore_errors=True)
            if previous.exists():
                previous.rename(path)
        raise
    finally:
        if path.exists():
            shutil.rmtree(previous, ignore_errors=True)
