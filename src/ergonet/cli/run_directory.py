"""The run directory written by a fit; an existing one is replaced only once the new one contains draws."""

import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergonet._errors import RunDirectoryError, SettingError
from ergonet.assembly.renamed import translate
from ergonet.assembly.settings import Settings
from ergonet.cli.toml import to_toml
from ergonet.draws.durable import checksum_of, replacing, temporary, write_json
from ergonet.draws.manifest import read_manifest

if TYPE_CHECKING:
    import numpy as np

    from ergonet.datasets.preprocessing import Preprocessing
    from ergonet.draws.replacement import Claim
    from ergonet.draws.samples import Samples

FORMAT_VERSION = 1
SETTINGS, PREPROCESSING, METRICS = "settings.toml", "preprocessing.json", "metrics.json"
EVALUATION, STATS, REPORT, MANIFEST = "evaluation.npz", "stats.npz", "report.html", "manifest.json"
DRAWS = "draws.zarr"
_ALL = (SETTINGS, PREPROCESSING, DRAWS, STATS, EVALUATION, METRICS, REPORT)  # in the order in which they are written


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


def claim_run(out: str | None, name: str, *, overwrite: bool) -> "Claim":
    """Claim the directory of a new run: as given, or else `NAME-run`, with a number if that exists or is being written.

    Args:
        out: the directory; None: derived from the name.
        name: the name of the data.
        overwrite: replace an existing run directory, once the new run has draws.

    Raises:
        RunDirectoryError: the directory exists and must not be replaced, or another fit writes it.
    """
    from ergonet.draws.replacement import Claim, Content

    content = Content(_foreign_to_run, "add `--overwrite`")
    if out is not None:
        return Claim(Path(out), content, overwrite=overwrite)
    for number in range(1, 1000):
        with suppress(RunDirectoryError):
            return Claim(Path(f"{name}-run" if number == 1 else f"{name}-run-{number}"), content, overwrite=False)
    raise RunDirectoryError(f"`{name}-run` and the names with a number up to 999 are taken. Choose one with `--out`.")


def check_file(path: Path, *, overwrite: bool) -> None:
    """Check that a command can write a file.

    Raises:
        RunDirectoryError: the file exists and must not be replaced, or its folder is missing.
    """
    if path.exists() and not overwrite:
        raise RunDirectoryError(f"`--out`: {str(path)!r} exists already. Choose another name, or add `--overwrite`.")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise RunDirectoryError(f"`--out`: {str(path)!r} cannot be written: there is no folder {str(path.parent)!r}.")


def _foreign_to_run(folder: Path) -> Path | None:
    """The first file in a run directory that `ergonet fit` did not write; None if there is none."""
    from ergonet.draws.contents import foreign_to_store

    if folder.is_symlink() or not folder.is_dir():
        return folder
    ours = _own_names(folder)
    for entry in sorted(folder.iterdir()):
        if entry.name == DRAWS and DRAWS in ours:
            foreign = foreign_to_store(entry)
        else:
            is_known = entry.name in ours or (ours and entry.name.startswith(f".{REPORT}."))
            foreign = None if is_known and entry.is_file() and not entry.is_symlink() else entry
        if foreign is not None:
            return foreign
    return None


def _is_report(file: Path) -> bool:
    """Whether `ergonet report` wrote the file, which it also does for an unfinished run."""
    try:
        with file.open("rb") as content:
            return b'<meta name="generator" content="ergonet">' in content.read(1000)
    except OSError:
        return False


def _own_names(folder: Path) -> set[str]:
    """Names of the files that a fit has written, complete or not.

    The manifest of a finished run lists them. An unfinished run has draws and, in the order of writing, some others.
    """
    from ergonet.draws.contents import read_json

    manifest = read_json(folder / MANIFEST)
    if {"format_version", "ergonet", "files"} <= manifest.keys() and isinstance(manifest["files"], list):
        names = {MANIFEST, REPORT, *(name for name in _ALL if name in manifest["files"])}
    elif (folder / DRAWS).is_dir():
        names = {*takewhile(lambda name: (folder / name).exists(), _ALL)}
        names |= {REPORT} if DRAWS in names and _is_report(folder / REPORT) else set()
    else:
        names = set[str]()
    return names | {temporary(Path(name)).name for name in (*_ALL, MANIFEST) if names}
