"""Who takes part, with settings and versions."""

import hashlib
import importlib.metadata
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.rounds import ROOT
from benchmarks.uci.tables import CLASSIFICATIONS, REGRESSIONS, TINY, Split

BDE_PYTHON = ROOT / "build" / "uci-bde" / "bin" / "python"
COMMAND = "from ergonet.cli.main import main; main()"
OURS = "ergonet"
ONE_THREAD: dict[str, str] = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Contestant:
    """A predictor in the comparison.

    Attributes:
        name: name in files and options.
        title: title in the tables.
        form: its settings and how its predictive distribution is made, in words.
        settings: what decides the result, beside the version.
        package: distribution whose version counts.
        sets: the tables that it takes.
        most_rows: training rows up to which it is run; None: any number.
    """

    name: str
    title: str
    form: str
    settings: Any
    package: str = "scikit-learn"
    sets: tuple[str, ...] = (*REGRESSIONS, *CLASSIFICATIONS, *TINY)
    most_rows: int | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: ONE_THREAD)

    @property
    def is_ours(self) -> bool:
        """Whether it is this library, which is started by its command."""
        return self.package == OURS

    @property
    def is_present(self) -> bool:
        """Whether it can be run here."""
        return self.package != "sklearn-contrib-bde" or BDE_PYTHON.exists()

    def takes(self, name: str, rows: int) -> bool:
        """Whether it is run on a table."""
        return name in self.sets and (self.most_rows is None or rows <= self.most_rows)

    def version(self) -> dict[str, str]:
        """The version that was, or would be, run."""
        if self.package == "sklearn-contrib-bde":
            return {self.package: BDE_VERSION}
        found = {self.package: importlib.metadata.version(self.package)}
        return {**found, "source": source_digest()} if self.is_ours else found

    def key(self) -> str:
        """Changes with the version and the settings."""
        return hashlib.sha256(json.dumps([self.version(), self.settings], sort_keys=True).encode()).hexdigest()[:10]

    def command(self, split: Path, out: Path) -> list[str]:
        """The process of a peer, which reads a split and writes predictions."""
        settings = json.dumps(self.settings)
        if self.package == "sklearn-contrib-bde":
            worker = Path(__file__).parent / "bde_worker.py"
            return [str(BDE_PYTHON), str(worker), str(split), str(out), settings]
        return [sys.executable, "-m", "benchmarks.uci.peers", self.name, str(split), str(out), settings]


def ours(tables: Mapping[str, Any] | None = None) -> Contestant:
    """The command as it is shipped, with a time limit; with these tables of settings in a quick run."""
    form = "the command as it is shipped: `ergonet fit`, with the time limit of the table's size"
    return Contestant(OURS, "Ergonet", form, {"tables": dict(tables or {})}, package=OURS, environment={})


def candidate(name: str, tables: Mapping[str, Any]) -> Contestant:
    """The command with these tables of settings, without a time limit: processor seconds are compared."""
    settings = {"tables": dict(tables), "is_unlimited": True}
    return Contestant(name, name, "the command with these settings", settings, package=OURS, environment={})


def time_limit(split: Split) -> int:
    """Seconds that a fit may take: 3 minutes up to 2000 training rows, 10 minutes above."""
    return 180 if len(split.x_train) <= 2000 else 600


@cache
def source_digest() -> str:
    """A hash of the library's source."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:10]


BDE_VERSION = "1.0.2"
BDE_SETTINGS = {
    "n_members": 10,
    "hidden_layers": [16, 16, 16, 16],
    "epochs": 1200,
    "validation_split": 0.15,
    "lr": 1e-3,
    "weight_decay": 1e-4,
    "warmup_steps": 50000,
    "n_samples": 1000,
    "n_thinning": 10,
    "patience": 20,
    "seed": 0,
}
BOOSTINGS = [{}, {"learning_rate": 0.05, "max_iter": 400, "min_samples_leaf": 5, "max_leaf_nodes": 15}]
MLPS = [
    {"hidden_layer_sizes": [100], "alpha": 1e-4, "max_iter": 500},
    {"hidden_layer_sizes": [50, 50], "alpha": 1e-2, "max_iter": 300, "batch_size": 32},
]
LEARNED = "form learned from rows that it was not fitted to"
PEERS = (
    Contestant("linear", "ridge / logistic regression", f"RidgeCV, LogisticRegressionCV; {LEARNED}", [{}]),
    Contestant(
        "forest",
        "random forest",
        f"300 trees, leaves of 1 or 3 rows; spread: sd over trees; {LEARNED}",
        [{"n_estimators": 300, "min_samples_leaf": leaf} for leaf in (1, 3)],
    ),
    Contestant(
        "boosting",
        "histogram gradient boosting",
        f"as shipped, or 400 smaller steps; spread: half the distance of the 16 % and 84 % quantile fits; {LEARNED}",
        BOOSTINGS,
    ),
    Contestant(
        "mlp",
        "MLPRegressor / MLPClassifier",
        f"(100) units, or (50, 50) with batches of 32; constant noise; {LEARNED}",
        MLPS,
    ),
    Contestant(
        "gp",
        "Gaussian process",
        "a length scale per input, squared exponential, learned noise; its own normal distribution",
        [{}],
        sets=REGRESSIONS,
        most_rows=1000,
    ),
    Contestant(
        "bde",
        "sklearn-contrib-bde",
        "settings of its paper's script (10 members, 4 x 16 ReLU, 50000 + 1000 microcanonical steps); mixture over all "
        "draws; above 5000 rows four members at a time, because all at once take more than 24 GB",
        BDE_SETTINGS,
        package="sklearn-contrib-bde",
        sets=REGRESSIONS,
        environment={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
    ),
)
CONTESTANTS = (*PEERS, ours())
