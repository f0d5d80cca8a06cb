"""Run directories without a fit: random draws of a tiny network, as while a fit samples and once it is done."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ergonet.assembly import build
from ergonet.assembly.settings import resolve
from ergonet.cli import evaluation, fitting, loading
from ergonet.draws.samples import load
from ergonet.draws.store import ZarrStore
from ergonet.runs.directory import RunDirectory

CHAINS, ROOM, DRAWS = 2, 20, 8
GIVEN = {
    "data": {"target": ("z",)},
    "network": {"hidden": (2,)},
    "likelihood": {"name": "heteroscedastic-gaussian", "floor": 0.001},
    "kernel": {"name": "nuts", "max_doublings": 5},
    "run": {"num_chains": CHAINS, "num_draws": ROOM, "baselines": False},
}


def write_killed(folder: Path) -> RunDirectory:
    """Write `table.csv`, and `run` as it is while a fit samples: 8 of 20 draws of each chain are stored.

    The working directory must be the folder.
    """
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=30), "y": rng.normal(size=30)})
    table.assign(z=table["x"] - table["y"]).to_csv(folder / "table.csv", index=False)
    settings = resolve("table.csv", {}, GIVEN)
    dataset = loading.load_data(settings.data, seed=settings.run.seed)
    settings = build.complete(settings, dataset.preprocessing)
    model = build.model(settings, build.Task.of(dataset.preprocessing))
    (folder / "run").mkdir()
    directory = RunDirectory(folder / "run")
    directory.write_settings(settings, dataset.preprocessing)
    kinds = {"nonfinite": bool, "moved": bool, "diverging": bool, "gradients": np.int32, "tree_depth": np.int32}
    fields: dict[str, Any] = {name: ((), np.dtype(kinds.get(name, np.float32))) for name in (*kinds, "lp", "energy")}
    fields["positions"] = ((model.dim,), np.dtype(np.float32))
    store = ZarrStore(directory.draws, draws_per_chunk=5)
    store.allocate(CHAINS, ROOM, fields)
    for chain in range(CHAINS):
        rows = {name: rng.integers(0, 2, (DRAWS + chain, *shape)).astype(t) for name, (shape, t) in fields.items()}
        rows |= {"nonfinite": np.zeros(DRAWS + chain, bool), "energy": rng.normal(size=DRAWS + chain)}
        rows["positions"] = rng.normal(size=(DRAWS + chain, model.dim))
        store.write(chain, 0, rows)
    return directory


def finish(directory: RunDirectory) -> None:
    """Write all files that a fit writes, except the report."""
    settings, preprocessing = directory.read_settings()
    dataset = loading.load_data(settings.data, seed=settings.run.seed)
    model = build.model(settings, build.Task.of(preprocessing))
    samples = load(directory.draws, target=fitting.condition(model, dataset))
    found = evaluation.Evaluation({"function_draws": np.zeros((CHAINS, DRAWS, 1))}, {}, {})
    metrics = evaluation.metrics_of(settings, dataset, samples, found, seconds={})
    directory.write_results(metrics, found.arrays, samples)
    directory.write_manifest()
