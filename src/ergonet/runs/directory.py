"""The run directory: the one format of a fitted model, written by the command and by estimators.

Every file but the draws, which have their own, has a checksum in the manifest. The manifest is replaced after each step
of a fit, and says at the end that the fit has finished. `Preprocessing` and `Settings` check what they read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergonet import _notebook
from ergonet._errors import ErgonetError, RunDirectoryError, SettingError
from ergonet.assembly.renamed import translate
from ergonet.assembly.settings import Settings
from ergonet.draws.durable import checksum_of, replacing, write_json
from ergonet.draws.manifest import read_manifest
from ergonet.runs import files
from ergonet.runs.toml import to_toml

if TYPE_CHECKING:
    import numpy as np

    from ergonet.datasets.preprocessing import Preprocessing
    from ergonet.draws.samples import Samples
    from ergonet.models.network_posterior import BayesianNetwork

FORMAT_VERSION = 2
WITHOUT_CHECKSUMS = 1  # runs of this version may lack checksums, and have a manifest only if they finished
SETTINGS, PREPROCESSING, METRICS = "settings.toml", "preprocessing.json", "metrics.json"
EVALUATION, STATS, REPORT, MANIFEST = "evaluation.npz", "stats.npz", "report.html", "manifest.json"
ESTIMATOR = "estimator.json"  # parameters of a saved estimator
DRAWS = "draws.zarr"
BY_FIT = (SETTINGS, PREPROCESSING, DRAWS, STATS, EVALUATION, METRICS, REPORT)  # in the order in which they are written
ALL = (*BY_FIT, ESTIMATOR)
RESULTS = (METRICS, EVALUATION, STATS)  # of a fit that finished


@dataclass(frozen=True)
class Fitted:
    """Everything that predictions need.

    Attributes:
        settings: resolved settings.
        preprocessing: the transformation of columns.
        model: the network that both describe.
        samples: the draws, without their target.
    """

    settings: Settings
    preprocessing: "Preprocessing"
    model: "BayesianNetwork"
    samples: "Samples"

    def __str__(self) -> str:
        from ergonet.runs.facts import facts

        return _notebook.printed("Run", facts(self.settings, self.preprocessing, self.model, self.samples))


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
        """Write everything that prediction needs besides the draws; results of fewer draws are deleted."""
        self.path.mkdir(exist_ok=True)
        for name in (MANIFEST, *RESULTS):  # the manifest has the checksums of what is replaced
            (self.path / name).unlink(missing_ok=True)
        with replacing(self.path / SETTINGS) as file:
            file.write(to_toml(settings.to_table()).encode())
        write_json(self.path / PREPROCESSING, preprocessing.to_dict())
        self._write_manifest()

    def write_results(
        self, metrics: Mapping[str, Any], evaluation: Mapping[str, "np.ndarray"], samples: "Samples"
    ) -> None:
        """Write the figures and arrays from which the report is made."""
        self._write_manifest(without=RESULTS)
        early = {f"warmup_{name}": values for name, values in samples.warmup_stats.items()}
        self._write_arrays(STATS, {**samples.stats, **early})
        self._write_arrays(EVALUATION, evaluation)
        write_json(self.path / METRICS, metrics)
        self._write_manifest()

    def write_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Replace the figures of a complete run; killed meanwhile, it is one that did not finish."""
        self._write_manifest(without=(METRICS,))
        write_json(self.path / METRICS, metrics)
        self._write_manifest(is_finished=True)

    def write_estimator(self, content: Mapping[str, Any], metrics: Mapping[str, Any]) -> None:
        """Write what a saved estimator has besides settings and draws."""
        write_json(self.path / METRICS, metrics)
        write_json(self.path / ESTIMATOR, content)

    def write_manifest(self) -> None:
        """Write that the directory is complete; this comes last."""
        self._write_manifest(is_finished=True)

    def _write_manifest(self, *, is_finished: bool = False, without: tuple[str, ...] = ()) -> None:
        from ergonet import __version__

        present = [name for name in ALL if name not in without and (self.path / name).exists()]
        content = {
            "format_version": FORMAT_VERSION,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "ergonet": __version__,
            "finished": is_finished,
            "files": present,
            "checksums": {
                name: files.checksum((self.path / name).read_bytes()) for name in present if name not in (DRAWS, REPORT)
            },
        }
        write_json(self.path / MANIFEST, content | {"checksum": checksum_of(content)})

    def read(self, name: str) -> dict[str, Any]:
        """The content of a file, once its checksum is right: a table, or arrays by name.

        Raises:
            RunDirectoryError: it is missing, damaged, or not as it was written.
        """
        self.require((name,))
        path, manifest = self.path / name, self.read_manifest() or {}
        return files.parse(path, files.read(path, manifest.get("checksums", {}).get(name)))

    def read_settings(self) -> tuple[Settings, "Preprocessing"]:
        """Read the settings and the preprocessing of a run.

        Raises:
            RunDirectoryError: the directory or a file in it is missing or unreadable, or this version does not know a
                setting.
        """
        from ergonet.datasets.preprocessing import Preprocessing

        self.require((SETTINGS, PREPROCESSING, DRAWS))
        table, record = self.read(SETTINGS), self.read(PREPROCESSING)
        path = self.path / SETTINGS
        try:
            settings = files.using(path, lambda: Settings.from_table(translate(table)))
        except RunDirectoryError as error:
            if not isinstance(error.__cause__, SettingError):
                raise
            raise RunDirectoryError(
                f"{str(path)!r} was changed or written by another version of Ergonet: {error.__cause__} Change it in "
                f"that file and delete 'manifest.json', use the version that wrote it, or fit again."
            ) from error
        return settings, files.using(self.path / PREPROCESSING, lambda: Preprocessing.from_dict(record))

    def read_model(self) -> "tuple[Settings, Preprocessing, BayesianNetwork]":
        """Read the settings and the preprocessing, and make the model that they describe.

        Raises:
            RunDirectoryError: as `read_settings`, or they describe no model.
        """
        settings, preprocessing = self.read_settings()

        from ergonet.assembly import build

        path = self.path / SETTINGS
        return settings, preprocessing, files.using(path, lambda: _model(build, settings, preprocessing))

    def read_fitted(self) -> Fitted:
        """Read everything that predictions need.

        Raises:
            RunDirectoryError: a file is missing, damaged, or does not belong to the others.
        """
        settings, preprocessing, model = self.read_model()

        from ergonet.draws.samples import load

        samples = load(self.draws)
        if samples.positions.shape[2] != model.dim:
            raise RunDirectoryError(
                f"The draws in {str(self.draws)!r} have {samples.positions.shape[2]} coordinates, but the settings "
                f"give {model.dim}: a file of the run was changed. Restore it from a backup, or fit again."
            )
        return Fitted(settings, preprocessing, model, samples)

    def missing_results(self) -> list[str]:
        """The files of results that are missing or have no checksum, as in a run that was killed."""
        manifest = self.read_manifest()
        lacking = [name for name in RESULTS if not (self.path / name).exists()]
        if lacking:
            return lacking
        if manifest is None:
            return [MANIFEST]
        if manifest["format_version"] == WITHOUT_CHECKSUMS:
            return []
        return [name for name in RESULTS if name not in manifest["checksums"]]

    def read_metrics(self) -> dict[str, Any]:
        """The content of ``metrics.json``; raises `RunDirectoryError` if it is missing or cannot be read."""
        return self.read(METRICS)

    def check_version(self) -> bool:
        """Whether the run finished; raises `RunDirectoryError` if the directory has another format version."""
        manifest = self.read_manifest()
        return manifest is not None and manifest.get("finished", True)

    def read_manifest(self) -> dict[str, Any] | None:
        """The content of the manifest; None if there is none.

        Raises:
            RunDirectoryError: it cannot be read, or has another format version.
        """
        path = self.path / MANIFEST
        if not path.exists() and not path.is_symlink():
            return None
        manifest = files.parse(path, files.read(path, None))
        version = manifest.get("format_version")
        if type(version) is not int or version not in (WITHOUT_CHECKSUMS, FORMAT_VERSION):
            raise RunDirectoryError(
                f"The run directory {str(self.path)!r} has format version {version!r}, but this version of Ergonet "
                f"reads {WITHOUT_CHECKSUMS} and {FORMAT_VERSION}. Use the version that wrote it, or fit again."
            )
        found, intact = manifest.pop("checksum", None), checksum_of(manifest)
        if found != intact and not (found is None and version == WITHOUT_CHECKSUMS):
            raise RunDirectoryError(
                f"{str(path)!r} is damaged: its checksum does not match. Restore it from a backup, or delete it to use "
                f"the run as one that did not finish."
            )
        if found is None:  # of a version whose manifest nothing protects
            manifest = {"format_version": version, "files": [name for name in ALL if (self.path / name).exists()]}
        return manifest

    def has_draws(self) -> bool:
        """Whether there is at least one draw of every chain."""
        try:
            return min(read_manifest(self.draws)["draws_by_chain"]) > 0
        except RunDirectoryError:
            return False

    def require_own_draws(self) -> None:
        """Raise `RunDirectoryError` if the directory has a `fallback` in place of draws."""
        from ergonet.diagnostics.finding import FALLBACK  # which imports NumPy

        fallback = read_manifest(self.draws).get("about", {}).get(FALLBACK) if self.draws.exists() else None
        if fallback:
            raise RunDirectoryError(
                f"{str(self.path)!r} has no draws to go on with. {fallback['sentence']} Fit again with a longer "
                f"`--time-limit`, `--out {self.path}` and `--overwrite`."
            )

    def require(self, names: tuple[str, ...]) -> None:
        """Raise `RunDirectoryError` unless the directory and these files exist."""
        if not self.path.is_dir():
            from ergonet.draws.replacement import whereabouts
            from ergonet.runs.nearby import near_runs

            raise RunDirectoryError(
                f"There is no run directory {str(self.path)!r}. `ergonet fit ... --out {self.path.name or 'RUN'}` "
                f"creates one.{whereabouts(self.path)}{near_runs(self.path)}"
            )
        missing = [name for name in names if not (self.path / name).exists()]
        if missing:
            raise RunDirectoryError(
                f"{str(self.path)!r} has no {' and no '.join(missing)}: it is not a run directory of "
                f"`ergonet fit`, or the run did not finish. Fit again."
            )

    def _write_arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        import numpy as np

        with replacing(self.path / name) as file:
            np.savez(file, allow_pickle=False, **arrays)


def _model(build: Any, settings: Settings, preprocessing: "Preprocessing") -> "BayesianNetwork":
    """The model of a run."""
    try:
        made = build.model(settings, build.Task.of(preprocessing))
    except ErgonetError as error:
        raise ValueError(str(error)) from error
    return made
