"""Small fits with every kernel, and what a stored run may contain beside what it does contain."""

import io
import json
import os
import subprocess
import sys
import time
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MANIFESTS = ("manifest.json", "manifest.previous.json")  # of a store; while one is replaced, only the second exists
COMMAND = (sys.executable, "-c", "from ergonet.cli.main import main; main()")


def _hierarchical(parametrization: str) -> dict[str, Any]:
    return {"*": {"name": "normal-gamma", "parametrization": parametrization}}


# Kernel, and the prior if it needs one of its own.
KERNELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nuts": ({"max_doublings": 4}, {}),
    "hmc": ({}, {}),
    "windowed": ({"window": 2, "num_steps": 6}, {}),
    "delayed-rejection": ({}, {}),
    "mams": ({}, {}),
    "mclmc": ({}, {}),
    "xhmc": ({"max_doublings": 4}, {}),
    "mala": ({}, {}),
    "random-walk": ({}, {}),
    "gibbs": ({}, _hierarchical("centered")),
    "dynamical-a": ({"num_steps": 5}, _hierarchical("centered")),
    "dynamical-b": ({"num_steps": 5}, _hierarchical("non-centered")),
    "sgld": ({"batch_size": 40}, {}),
    "sghmc": ({"batch_size": 40}, {}),
    "naive-sghmc": ({"batch_size": 40, "num_steps": 4, "learning_rate": 1e-3}, {}),
    "sg-nuts": ({"batch_size": 40, "max_doublings": 3}, {}),
}


@dataclass(frozen=True)
class Fit:
    """A small fit of two-moons.

    Attributes:
        kernel: its name.
        seed: of the run.
        num_draws: of each chain.
        num_warmup: of each chain.
    """

    kernel: str
    seed: int = 0
    num_draws: int = 100
    num_warmup: int = 50

    def table(self) -> dict[str, Any]:
        """The tables of its settings file."""
        kernel, prior = KERNELS[self.kernel]
        run = {"num_chains": 2, "num_warmup": self.num_warmup, "num_draws": self.num_draws, "seed": self.seed}
        tables: dict[str, Any] = {
            "data": {"source": "two-moons"},
            "network": {"hidden": [3]},
            "kernel": {"name": self.kernel, **kernel},
            "run": {**run, "devices": 1, "baselines": False},
        }
        return tables | ({"prior": prior} if prior else {})

    def write(self, folder: Path) -> Path:
        """Write the settings file; its path."""
        from ergonet.runs.toml import to_toml

        file = folder / f"{self.kernel}-{self.seed}-{self.num_draws}.toml"
        file.write_text(to_toml(self.table()), encoding="utf-8")
        return file

    def here(self, out: Path, *, overwrite: bool = False) -> None:
        """Fit in this process."""
        from ergonet.assembly.settings import resolve
        from ergonet.cli import fitting

        silent = io.StringIO()
        with warnings.catch_warnings(), redirect_stdout(silent), redirect_stderr(silent):
            warnings.simplefilter("ignore")
            settings = resolve(None, self.table(), {})
            began = time.perf_counter()
            fitting.run(settings, out=str(out), overwrite=overwrite, strict=False, quiet=True, began=began)


def start(arguments: Sequence[str], folder: Path, *, log: Path) -> subprocess.Popen[str]:
    """Start the command `ergonet` in a folder; its messages go to a file."""
    with log.open("w", encoding="utf-8") as output:
        return subprocess.Popen(
            [*COMMAND, *arguments], cwd=folder, env=environment(), stdout=output, stderr=subprocess.STDOUT, text=True
        )


def run(arguments: Sequence[str], folder: Path, *, timeout: float = 600.0) -> subprocess.CompletedProcess[str]:
    """Run the command `ergonet` to its end; stderr is part of the output."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )


@dataclass(frozen=True)
class Answer:
    """What the command `ergonet` answered: its exit code, and both of its outputs."""

    code: int
    out: str
    err: str


def here(*arguments: str) -> Answer:
    """Run the command `ergonet` in this process; raises what a person would see with a traceback."""
    from ergonet.cli.main import app

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            app(list(arguments))
        except SystemExit as ended:
            code = ended.code
        else:
            code = 0
    return Answer(int(code or 0), out.getvalue(), err.getvalue())


def environment() -> dict[str, str]:
    """The environment of a command: the library of this process."""
    import ergonet

    paths = [str(Path(ergonet.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "MPLBACKEND": "Agg"}


@dataclass(frozen=True)
class Stored:
    """The draws of a finished run that others are compared with.

    Attributes:
        fields: arrays `[chain, draw, ...]` by name, with positions.
        metrics: content of metrics.json without times.
    """

    fields: Mapping[str, np.ndarray]
    metrics: Mapping[str, Any]

    @classmethod
    def of(cls, run_directory: Path) -> "Stored":
        """Read a finished run."""
        import ergonet

        samples = ergonet.load(run_directory / "draws.zarr")
        fields = {name: np.asarray(values) for name, values in samples.stats.items()}
        file = run_directory / "metrics.json"
        metrics = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        return cls(fields | {"positions": np.asarray(samples.positions)}, without_times(metrics))

    def equals(self, other: "Stored") -> str:
        """What differs from another run; empty if nothing does."""
        if set(self.fields) != set(other.fields):
            return "names of statistics"
        for name, values in self.fields.items():
            if not same(values, other.fields[name]):
                return name
        return "" if self.metrics == other.metrics else "metrics.json"


def without_times(value: Any) -> Any:
    """A table without what depends on the clock, at any depth."""
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if "second" not in key and key != "created"}
    return value


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are equal bit for bit."""
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


def acknowledged(store: Path) -> list[int]:
    """The draws by chain that the manifest, or else the one before it, counts; empty without one."""
    for name in MANIFESTS:
        try:
            return list(json.loads((store / name).read_text(encoding="utf-8"))["draws_by_chain"])
        except (OSError, ValueError, KeyError):
            continue
    return []


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a store after its writer was stopped.

    Attributes:
        unreadable: why it cannot be read; empty if it can, or if no chain had a draw.
        lost: draws, counted for all chains, that the manifest counted and that are not there.
        phantom: the field in which a draw differs from the reference; empty if none does.
        draws: draws of each chain that are there.
    """

    unreadable: str = ""
    lost: int = 0
    phantom: str = ""
    draws: int = 0


def examine(store: Path, reference: Stored, counted: Sequence[int]) -> Verdict:
    """Compare what can be loaded with the reference.

    Args:
        store: the folder of the draws.
        reference: the run that was not stopped.
        counted: draws by chain that the manifest counted.
    """
    import ergonet
    from ergonet._errors import ErgonetError

    promised = min(counted, default=0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            samples = ergonet.load(store)
            fields = {**samples.stats, "positions": samples.positions}
            found = {name: np.asarray(values) for name, values in fields.items()}
    except ErgonetError as error:
        return Verdict(unreadable=str(error)) if promised else Verdict()
    except Exception as error:  # noqa: BLE001  whatever a person would see
        return Verdict(unreadable=f"{type(error).__name__}: {error}")
    draws = samples.num_draws
    wrong = [name for name, values in found.items() if not same(values, reference.fields[name][:, :draws])]
    lost = max(0, promised - draws) * len(counted)
    return Verdict(lost=lost, phantom=wrong[0] if wrong else "", draws=draws)


PHASES = ("start", "setup", "warm-up", "sampling", "evaluation")


def phase_of(path: Path, *, seed: int = 0) -> str:
    """How far the fit with a seed that writes a path has come, by what is on disk."""
    beside = path.parent / f".{path.name}.ergonet"
    store = store_of(path, seed=seed)
    if store is None:
        return "setup" if beside.exists() else "start"
    if store.is_relative_to(beside):
        return "warm-up"
    try:
        manifest = json.loads((store / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "sampling"
    return "evaluation" if manifest.get("complete") else "sampling"


def store_of(path: Path, *, seed: int = 0) -> Path | None:
    """Where the draws of the run with a seed are that is written to a path; None before there are any files."""
    for folder in (path.parent / f".{path.name}.ergonet" / "new", path):
        store = folder / "draws.zarr"  # a manifest that is being replaced has the second name for a moment
        if any((store / name).exists() for name in MANIFESTS) and seed_of(folder) == seed:
            return store
    return None


def seed_of(run_directory: Path) -> int | None:
    """The seed in the settings of a run; None if they cannot be read."""
    try:
        return tomllib.loads((run_directory / "settings.toml").read_text(encoding="utf-8"))["run"]["seed"]
    except (OSError, ValueError, KeyError):
        return None
