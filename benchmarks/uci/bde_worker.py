"""sklearn-contrib-bde in a process and an environment of its own: it imports nothing of this repository.

`python bde_worker.py SPLIT.npz OUT.npz SETTINGS` with the settings as JSON. Inputs and targets are scaled, as in the
script of its paper; the predictions are the mixture over all members and draws. Members whose predictions are not
finite are left out, in its favor, and counted.
"""

import importlib
import json
import sys

import numpy as np


def main(split: str, out: str, settings: str) -> None:
    """Fit and write the predictions."""
    with np.load(split) as content:
        x_train, y_train, x_test = (content[name] for name in ("x_train", "y_train", "x_test"))
    center, scale = x_train.mean(axis=0), x_train.std(axis=0) + 1e-8
    mean, sd = y_train.mean(), y_train.std() + 1e-8
    # Imported by name, because the package is absent where type checkers run.
    bde = importlib.import_module("bde")
    loss = importlib.import_module("bde.loss").GaussianNLL()
    model = bde.BdeRegressor(loss=loss, **json.loads(settings))
    model.fit(x=(x_train - center) / scale, y=(y_train - mean) / sd)
    raw = np.asarray(model.predict((x_test - center) / scale, raw=True), np.float64)
    is_finite = np.isfinite(raw).all(axis=(1, 2, 3))  # by member
    flat = raw[is_finite].reshape(-1, *raw.shape[2:])  # [member and draw, row, (mean, unconstrained sd)]
    sds = np.logaddexp(flat[:, :, 1], 0.0) + 1e-6
    chosen = json.dumps({"members": int(is_finite.sum()), "of": len(raw)})
    np.savez(out, means=mean + sd * flat[:, :, 0], sds=sd * sds, chosen=chosen)


if __name__ == "__main__":
    main(*sys.argv[1:])
