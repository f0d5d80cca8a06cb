"""`ergonet prior-check`: functions drawn from the prior, compared with the target."""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ergonet._errors import visible
from ergonet.assembly.settings import Settings
from ergonet.cli.outputs import check_picture

if TYPE_CHECKING:
    from ergonet.datasets.dataset import Dataset
    from ergonet.datasets.preprocessing import Preprocessing
    from ergonet.prediction.prior_check import PriorPrediction

POINTS = 100
WIDE, NARROW = 5.0, 0.2  # spread of a function over the rows, in standard deviations of the target
SURE = 0.99
MOSTLY = 0.5


def run(settings: Settings, *, num_draws: int, out: str, overwrite: bool) -> str:
    """Draw from the prior, save a picture, and describe what the prior expects.

    Args:
        settings: resolved settings, before the data are known.
        num_draws: number of functions, at least 1.
        out: the picture to write, PNG, SVG or PDF.
        overwrite: replace an existing file.

    Returns:
        The findings, one sentence per line.

    Raises:
        ErgonetError: the data, the settings or the path cannot be used.
    """
    path = check_picture(out, overwrite=overwrite)
    from ergonet.assembly import build
    from ergonet.cli.loading import load_data

    dataset = load_data(settings.data, seed=settings.run.seed, likelihood=settings.likelihood)
    build.check(settings)
    is_default = {"network", "prior"} <= set(build.left_open(settings))
    settings = build.complete(settings, dataset.preprocessing, dataset.y_train)
    model = build.model(settings, build.Task.of(dataset.preprocessing))
    sys.stdout.write(f"{model.describe()}\n")

    from ergonet.prediction.prior_check import prior_predictive

    feature, grid = _line(dataset)
    x, rows = np.concatenate([dataset.x_train, grid]), len(dataset.x_train)
    drawn = prior_predictive(model, x, num_draws=num_draws, seed=settings.run.seed)
    at_rows = dataclasses.replace(drawn, mean=drawn.mean[:, :rows], targets=drawn.targets[:, :rows])
    of_task = _classes if dataset.task == "classification" else _reals
    told, is_wide = of_task(dataset, at_rows, drawn.mean[:, rows:], feature, path)
    if is_wide:
        told += _ON_PURPOSE if is_default else _TOO_WIDE
    return f"{told}Picture: {path}"


_ON_PURPOSE = (
    "The prior of the default network is that wide on purpose: narrower ones predicted worse on the tables that chose "
    "it. Rows soon narrow it.\n"
)
_TOO_WIDE = "Use a smaller `--prior-scale` (or width).\n"


def _line(dataset: "Dataset") -> tuple[int, np.ndarray]:
    """The input with the widest range, and rows that vary this input with all others at their means."""
    x, indices = dataset.x_train, len(dataset.preprocessing.embeddings)  # indices of categories are the last inputs
    plain = x.shape[1] - indices or x.shape[1]
    feature = int(np.argmax(np.ptp(x[:, :plain], axis=0)))
    grid = np.repeat(x.mean(axis=0, keepdims=True), POINTS, axis=0)
    grid[:, x.shape[1] - indices :] = x[0, x.shape[1] - indices :]
    grid[:, feature] = np.linspace(x[:, feature].min(), x[:, feature].max(), POINTS)
    return feature, grid


def _reals(
    dataset: "Dataset", found: "PriorPrediction", along: np.ndarray, feature: int, path: Path
) -> tuple[str, bool]:
    """What the functions look like, and whether they vary too much."""
    from ergonet import plots

    preprocessing = dataset.preprocessing
    name, target = preprocessing.encoded_names[feature], _target_name(preprocessing)
    scaled_back = dataclasses.replace(preprocessing, target_transform=None).inverse_mean
    lost = ~np.isfinite(found.mean).all(axis=(1, 2))
    truth = scaled_back(dataset.y_train)[:, 0]
    scale = float(np.std(truth))
    share = found.mean[:, :, 0].std(axis=1) * (float(preprocessing.target_sd[0]) / scale)  # of the target's
    spread = np.where(lost, np.inf, share)
    low, middle, high = np.percentile(spread, (5, 50, 95), method="inverted_cdf")
    predicted = scaled_back(found.targets)[..., 0]
    lines = scaled_back(along)[..., 0]
    x = dataset.x_train[:, feature]
    grid = np.linspace(x.min(), x.max(), POINTS)
    plots.save_side_by_side(
        str(path),
        lambda axes: plots.prior_functions(grid, lines, name=f"{name} (standardized)", target=target, axes=axes),
        lambda axes: plots.prior_histogram(predicted, truth, name=target, axes=axes),
    )
    told = (
        f"Over the rows, a function from the prior has a standard deviation of {scale * middle:.3g} in the median "
        f"({scale * low:.3g} to {scale * high:.3g} in 90 % of the draws); that of {visible(target)} is {scale:.3g}.\n"
    ) + _overflows(lost)
    if middle > WIDE:
        told += f"That is {middle:.2g} times the target's: most functions from the prior are far too steep. "
    elif middle < NARROW:
        told += (
            f"That is {middle:.2g} times the target's: the prior hardly allows what the data show. Use a larger "
            f"`--prior-scale` (or width).\n"
        )
    return told, bool(middle > WIDE)


def _target_name(preprocessing: "Preprocessing") -> str:
    """The first target as the network learns it: `log10(price)`."""
    name, transform = preprocessing.target_names[0], preprocessing.target_transform
    return name if transform is None else f"{transform.name}({name})"


def _classes(
    dataset: "Dataset", found: "PriorPrediction", along: np.ndarray, feature: int, path: Path
) -> tuple[str, bool]:
    """What the probabilities look like, and whether they are too sure."""
    from ergonet import plots

    name = dataset.preprocessing.encoded_names[feature]
    lost = ~np.isfinite(found.mean).all(axis=(1, 2))
    surest = np.where(lost[:, None], 1.0, found.mean.max(axis=2))
    x = dataset.x_train[:, feature]
    label = f"P({dataset.preprocessing.classes[0]})"
    grid = np.linspace(x.min(), x.max(), POINTS)
    plots.save_side_by_side(
        str(path),
        lambda axes: plots.prior_functions(grid, along[..., 0], name=f"{name} (standardized)", target=label, axes=axes),
        lambda axes: plots.prior_histogram(surest, name="probability of the surest class", axes=axes),
    )
    sure = float(np.mean(surest > SURE))
    winners = found.mean.argmax(axis=2)
    most = np.asarray([np.bincount(draw).max() / draw.size for draw in winners])
    told = (
        f"Before any data, the surest class has probability {np.median(surest):.2f} in the median; it is above {SURE} "
        f"at {sure:.0%} of the rows. One class wins at {np.median(most):.0%} of the rows of a draw.\n"
    ) + _overflows(lost)
    if sure > MOSTLY:
        told += "The prior is sure of itself nearly everywhere. "
    return told, sure > MOSTLY


def _overflows(lost: np.ndarray) -> str:
    """A sentence about draws whose functions are not finite."""
    if not lost.any():
        return ""
    return (
        f"{np.mean(lost):.0%} of the functions from the prior are not finite: its scales exceed the range of "
        f"floating-point numbers. Use a narrower prior of the scales, such as a larger `alpha`.\n"
    )
