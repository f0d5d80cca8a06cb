"""Builders of the image data sets MNIST, Fashion-MNIST and CIFAR-10 from the user's files.

Nothing is downloaded unless requested. Pixels stay bytes until the last step, which scales them in chunks, so that
memory holds only the bytes and one float32 array.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Shaped, UInt8

from ergonet._errors import DataError, SettingError
from ergonet.datasets import cifar, idx
from ergonet.datasets.dataset import Dataset
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.datasets.validation import Label

VARIABLE = "ERGONET_DATA"
_CHUNK = 1024  # rows scaled at once
_IDX_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}

Part = tuple[UInt8[np.ndarray, "_ features"], Shaped[np.ndarray, "_"]]


@dataclass(frozen=True)
class _Kind:
    """A data set: name, usual folder names, classes, image shape, name on OpenML, number of training rows there."""

    name: str
    folders: tuple[str, ...]
    classes: tuple[Label, ...]
    shape: tuple[int, ...]
    open_name: str
    open_train: int


_MNIST = _Kind("mnist", ("mnist", "MNIST"), tuple(range(10)), (28, 28), "mnist_784", 60_000)
_FASHION = _Kind(
    "fashion-mnist",
    ("fashion_mnist", "fashion-mnist", "FashionMNIST"),
    (
        "T-shirt/top",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ),
    (28, 28),
    "Fashion-MNIST",
    60_000,
)
_CIFAR = _Kind(
    "cifar10",
    ("cifar10", "cifar10_subset", "cifar-10-batches-bin", "cifar-10", "CIFAR10"),
    cifar.CLASSES,
    cifar.SHAPE,
    "CIFAR_10",
    50_000,
)


def mnist(*, folder: str | os.PathLike[str] | None, fetch: bool) -> Dataset:
    """28x28 gray images of handwritten digits, pixels / 255; the official training and test rows.

    Args:
        folder: Folder that contains ``mnist/`` with the four idx files, plain or ``.gz``, or these files themselves;
            None: the folder named by the environment variable ERGONET_DATA.
        fetch: Download from OpenML (``mnist_784``) instead; scikit-learn caches a copy.

    Raises:
        DataError: Files are missing, damaged or do not match each other, or the download failed.
        SettingError: Both a folder and a download are requested.

    Source: LeCun, Cortes and Burges, The MNIST database of handwritten digits.
    """
    return _gray(_MNIST, _FASHION, folder, fetch=fetch)


def fashion_mnist(*, folder: str | os.PathLike[str] | None, fetch: bool) -> Dataset:
    """28x28 gray images of articles of clothing, pixels / 255; the official training and test rows.

    Arguments and errors as for `mnist`; the folder is ``fashion_mnist/``, the name on OpenML ``Fashion-MNIST``.

    Source: Xiao2017.
    """
    return _gray(_FASHION, _MNIST, folder, fetch=fetch)


def cifar10(*, folder: str | os.PathLike[str] | None, fetch: bool) -> Dataset:
    """32x32 color images of 10 classes; each channel minus its training mean, divided by its training sd.

    A row is an image flattened in the order height, width, channel. Arguments and errors as for `mnist`. The folder is
    ``cifar10/`` with ``data_batch_1.bin`` to ``data_batch_5.bin`` and ``test_batch.bin``, or with
    ``train/<class>/*.jpg`` (or ``.png``) and ``test/<class>/*.jpg``, or with a ``.tar.gz`` of either. The name on
    OpenML is ``CIFAR_10``; its first 50000 rows are used for training, although OpenML does not state that they are
    the official training rows.

    Source: Krizhevsky2009.
    """
    if fetch:
        parts = {part: (_channels_last(pixels), classes) for part, (pixels, classes) in _fetch(_CIFAR, folder).items()}
    else:
        parts = cifar.read(_find_cifar(_data_folder(_CIFAR, folder)))
    mean, sd = _channel_moments(parts["train"][0], channels=_CIFAR.shape[2])
    return _dataset(
        _CIFAR,
        parts,
        mean=np.tile(mean, parts["train"][0].shape[1] // len(mean)),
        sd=np.tile(sd, parts["train"][0].shape[1] // len(sd)),
        scaling="each channel minus its mean over all training pixels, divided by its standard deviation there",
    )


def _gray(kind: _Kind, other: _Kind, folder: str | os.PathLike[str] | None, *, fetch: bool) -> Dataset:
    if fetch:
        parts = _fetch(kind, folder)
    else:
        found = _find_idx(kind, other, _data_folder(kind, folder))
        parts = {
            part: idx.read_pair(images, labels, shape=kind.shape, num_classes=len(kind.classes))
            for part, (images, labels) in found.items()
        }
    features = int(np.prod(kind.shape))
    return _dataset(kind, parts, mean=np.zeros(features), sd=np.full(features, 255.0), scaling="pixels / 255")


def _data_folder(kind: _Kind, folder: str | os.PathLike[str] | None) -> Path:
    found = folder if folder is not None else os.environ.get(VARIABLE)
    if not found:
        raise _missing(kind, "is read from files, but no folder was given")
    path = Path(found)
    if not path.is_dir():
        raise _missing(kind, f"was not found: there is no folder {str(path)!r}")
    return path


def _missing(kind: _Kind, problem: str) -> DataError:
    """The error for missing files: which files are expected, where, and in which format."""
    if kind is _CIFAR:
        batches = ", ".join(name for names in cifar.BATCHES.values() for name in names)
        files = (
            f"{batches} (the binary version; the pickles of the Python version are never loaded), or images as "
            "train/<class>/<name>.jpg or .png and test/<class>/<name>.jpg or .png, or one .tar.gz of either"
        )
    else:
        files = f"{', '.join(name for pair in _IDX_FILES.values() for name in pair)} (idx format, plain or with .gz)"
    return DataError(
        f"The data set {kind.name!r} {problem}. Name with `data=` (`--data` on the command line) or the environment "
        f"variable {VARIABLE} a folder that has in it, or in a folder {' or '.join(kind.folders[:3])} below: {files}. "
        "Or ask for a download from OpenML with `fetch=True` (`--fetch`)."
    )


def _find_idx(kind: _Kind, other: _Kind, folder: Path) -> dict[str, tuple[Path, Path]]:
    """The four files, images and labels by part, in the first folder that has any of them."""
    places = [folder / name for name in kind.folders]
    whole = folder.resolve()
    if not {whole.name, whole.parent.name} & set(other.folders):  # the files of both sets have the same names
        places.append(folder)
    names = [name for pair in _IDX_FILES.values() for name in pair]
    for place in [deeper for one in places for deeper in (one, one / "raw")]:
        found = {name: _idx_file(place, name) for name in names}
        files = {name: file for name, file in found.items() if file is not None}
        missing = [name for name in names if name not in files]
        if not missing:
            return {part: (files[images], files[labels]) for part, (images, labels) in _IDX_FILES.items()}
        if files:
            raise _missing(kind, f"is not complete in {place}: {', '.join(missing)} is not there")
    raise _missing(kind, f"was not found in {folder}")


def _idx_file(folder: Path, name: str) -> Path | None:
    dotted = name.replace("-idx", ".idx")
    candidates = (folder / f"{one}{suffix}" for one in (name, dotted) for suffix in ("", ".gz"))
    return next((one for one in candidates if one.is_file()), None)


def _find_cifar(folder: Path) -> cifar.Source:
    own = folder.resolve().name in _CIFAR.folders
    named = [folder / name for name in _CIFAR.folders]
    places = [deeper for place in named for deeper in (place, place / "cifar-10-batches-bin")]
    for place in (*places, folder):
        source = cifar.source_in(place, archives=own or place != folder)
        if source is not None:
            return source
    raise _missing(_CIFAR, f"was not found in {folder}")


def _fetch(kind: _Kind, folder: str | os.PathLike[str] | None) -> dict[str, Part]:
    """Download pixels as bytes and class indices from OpenML, in its order of features."""
    if folder is not None:
        raise SettingError(
            f"`data` (`--data`) reads {kind.name!r} from files and `fetch` (`--fetch`) downloads it: give only one."
        )
    from sklearn.datasets import fetch_openml

    try:
        bunch: Any = fetch_openml(kind.open_name, version=1, as_frame=False, parser="auto")
    except (OSError, ValueError) as error:
        raise DataError(
            f"The data set {kind.name!r} could not be downloaded from OpenML ({kind.open_name}): {error}. Check the "
            f"connection, or give a folder with the files (`data=`, `--data`, or {VARIABLE})."
        ) from error
    values, classes = np.asarray(bunch.data), np.asarray(bunch.target).astype(np.int64)
    features = int(np.prod(kind.shape))
    if values.ndim != 2 or values.shape[1] != features or len(values) <= kind.open_train:
        raise DataError(
            f"OpenML returned {kind.open_name} with shape {values.shape}; expected more than {kind.open_train} rows of "
            f"{features} pixels."
        )
    if values.min() < 0 or values.max() > 255:
        raise DataError(f"OpenML returned {kind.open_name} with values outside 0 to 255.")
    idx.check_classes(classes, len(kind.classes), file=f"OpenML's {kind.open_name}")
    pixels = values.astype(np.uint8)
    return {
        "train": (pixels[: kind.open_train], classes[: kind.open_train]),
        "test": (pixels[kind.open_train :], classes[kind.open_train :]),
    }


def _channels_last(pixels: UInt8[np.ndarray, "rows features"]) -> UInt8[np.ndarray, "rows features"]:
    height, width, channels = cifar.SHAPE
    moved = pixels.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(moved).reshape(len(pixels), -1)


def _channel_moments(
    pixels: UInt8[np.ndarray, "rows features"], *, channels: int
) -> tuple[Float[np.ndarray, "channels"], Float[np.ndarray, "channels"]]:
    """Mean and standard deviation of each channel, from the counts of its 256 possible values."""
    values = np.arange(256.0)
    counts = np.stack([np.bincount(pixels[:, one::channels].reshape(-1), minlength=256) for one in range(channels)])
    shares = counts / counts.sum(axis=1, keepdims=True)
    mean = shares @ values
    sd = np.sqrt(np.sum(shares * (values - mean[:, None]) ** 2, axis=1))
    if not np.all(sd > 0):
        raise DataError(
            "A channel has the same value in every pixel of the training images: these are not photographs."
        )
    return mean, sd


def _dataset(
    kind: _Kind,
    parts: dict[str, Part],
    *,
    mean: Float[np.ndarray, "features"],
    sd: Float[np.ndarray, "features"],
    scaling: str,
) -> Dataset:
    (train, train_classes), (test, test_classes) = parts["train"], parts["test"]
    preprocessing = Preprocessing(
        task="classification",
        feature_names=_pixel_names(kind.shape),
        target_names=("class",),
        dropped=(),
        feature_mean=mean,
        feature_sd=sd,
        target_mean=np.zeros(0),
        target_sd=np.zeros(0),
        classes=kind.classes,
        scaling=scaling,
    )
    return Dataset(
        name=kind.name,
        task="classification",
        x_train=_scaled(train, mean, sd),
        y_train=train_classes.astype(np.int32),
        x_test=_scaled(test, mean, sd),
        y_test=test_classes.astype(np.int32),
        preprocessing=preprocessing,
        image_shape=kind.shape,  # pyright: ignore[reportArgumentType]
        raw_test=test,
        test_rows=np.arange(len(test)),
    )


def _pixel_names(shape: Sequence[int]) -> tuple[str, ...]:
    places = [f"pixel_{row}_{column}" for row in range(shape[0]) for column in range(shape[1])]
    if len(shape) == 2:
        return tuple(places)
    return tuple(f"{place}_{color}" for place in places for color in ("red", "green", "blue"))


def _scaled(
    pixels: UInt8[np.ndarray, "rows features"], mean: Float[np.ndarray, "features"], sd: Float[np.ndarray, "features"]
) -> Float32[np.ndarray, "rows features"]:
    """Scale pixels to exactly the numbers that `Preprocessing.transform` gives for new rows, bit for bit."""
    found = np.empty(pixels.shape, dtype=np.float32)
    for start in range(0, len(pixels), _CHUNK):
        rows = slice(start, start + _CHUNK)
        found[rows] = (pixels[rows].astype(np.float64) - mean) / sd
    return found
