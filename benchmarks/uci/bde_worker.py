"""sklearn-contrib-bde in a process and an environment of its own: it imports nothing of this repository.

`python bde_worker.py SPLIT.npz OUT.npz SETTINGS` with the settings as JSON. Inputs and targets are scaled, as in the
script of its paper; the predictions are the mixture over all members and draws. Members whose predictions are not
finite are left out, in its favor, and counted.

With the members of the settings together, its memory grew by half a megabyte per step on 7373 rows: 23.9 GB after 40752
of 50000 steps of the warm-up. Above `MOST_ROWS`, some members at a time are therefore fitted, each group in a process
and with a seed of its own; members do not depend on each other.
"""

import importlib
import json
import subprocess
import sys
from collections.abc import Sequence

import numpy as np

MOST_ROWS = 5000  # up to which all members are fitted together
GROUP = 4  # members at a time above


def main(split: str, out: str, settings: str) -> None:
    """Fit and write the predictions."""
    with np.load(split) as content:
        x_train, y_train, x_test = (content[name] for name in ("x_train", "y_train", "x_test"))
    chosen = json.loads(settings)
    if len(x_train) > MOST_ROWS and chosen["n_members"] > GROUP:
        join(
            [fit_group(split, f"{out}-{start}.npz", chosen, start) for start in range(0, chosen["n_members"], GROUP)],
            out,
        )
        return
    center, scale = x_train.mean(axis=0), x_train.std(axis=0) + 1e-8
    mean, sd = y_train.mean(), y_train.std() + 1e-8
    # Imported by name, because the package is absent where type checkers run.
    bde = importlib.import_module("bde")
    loss = importlib.import_module("bde.loss").GaussianNLL()
    model = bde.BdeRegressor(loss=loss, **chosen)
    model.fit(x=(x_train - center) / scale, y=(y_train - mean) / sd)
    raw = np.asarray(model.predict((x_test - center) / scale, raw=True), np.float64)
    is_finite = np.isfinite(raw).all(axis=(1, 2, 3))  # by member
    flat = raw[is_finite].reshape(-1, *raw.shape[2:])  # [member and draw, row, (mean, unconstrained sd)]
    sds = np.logaddexp(flat[:, :, 1], 0.0) + 1e-6
    found = json.dumps({"members": int(is_finite.sum()), "of": len(raw)})
    np.savez(out, means=mean + sd * flat[:, :, 0], sds=sd * sds, chosen=found)


def fit_group(split: str, out: str, settings: dict[str, int], start: int) -> str:
    """Fit the members from number `start` on in a process of their own; the file of their predictions."""
    members = min(GROUP, settings["n_members"] - start)
    own = json.dumps(settings | {"n_members": members, "seed": settings["seed"] + start})
    subprocess.run([sys.executable, __file__, split, out, own], check=True)
    return out


def join(groups: Sequence[str], out: str) -> None:
    """Write the mixture over the draws of all groups."""
    parts = [dict(np.load(group)) for group in groups]
    counts = [json.loads(str(part["chosen"])) for part in parts]
    means, sds = (np.concatenate([part[name] for part in parts]) for name in ("means", "sds"))
    chosen = json.dumps({name: sum(count[name] for count in counts) for name in counts[0]})
    np.savez(out, means=means, sds=sds, chosen=chosen)


if __name__ == "__main__":
    main(*sys.argv[1:])
