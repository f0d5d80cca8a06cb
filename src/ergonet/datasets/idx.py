"""Files in the idx format of MNIST: arrays of bytes with a short header, plain or gzip-compressed."""

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Shaped, UInt8

from ergonet._errors import DataError
from ergonet.datasets.limits import check_decompressed

_UNSIGNED_BYTE = 0x08


def read_idx(file: Path, *, num_axes: int) -> UInt8[np.ndarray, "..."]:
    """Read an array of unsigned bytes.

    The header is two zero bytes, a byte for the type (8: unsigned byte), a byte for the number of axes, and the length
    of each axis as a big-endian 32-bit integer; the entries follow in C order.

    Args:
        file: The file; gzip-compressed if its name ends in ``.gz``.
        num_axes: Required number of axes, at least 1.

    Returns:
        The array, read-only.

    Raises:
        DataError: The file is not gzip, not idx, has another type or number of axes, or is longer or shorter than its
            header says.
    """
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            magic = stream.read(4)
            lengths = _header(file, magic, stream.read(4 * num_axes), num_axes=num_axes)
            size = math.prod(lengths)
            check_decompressed(size, file=file)
            content = stream.read(size)
            rest = stream.read(1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{file} cannot be read: {error}. Check that it was copied or downloaded completely."
        ) from error
    if len(content) < size or rest:
        found = "more" if rest else f"only {len(content)}"
        raise DataError(
            f"{file} should hold {' x '.join(map(str, lengths))} = {size} bytes after its header, but holds {found}: "
            "it is truncated or was modified. Get a new copy."
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(lengths)


def _header(file: Path, magic: bytes, lengths: bytes, *, num_axes: int) -> tuple[int, ...]:
    expected = bytes((0, 0, _UNSIGNED_BYTE, num_axes))
    if magic != expected:
        raise DataError(
            f"{file} is not the idx file that its name suggests: it starts with the bytes {magic.hex() or '(none)'}, "
            f"not {expected.hex()} (unsigned bytes, {num_axes} axes). Check that it is the right file."
        )
    if len(lengths) < 4 * num_axes:
        raise DataError(f"{file} ends within its header: it is truncated. Get a new copy.")
    return tuple(int(one) for one in np.frombuffer(lengths, dtype=">u4"))


def read_pair(
    images: Path, labels: Path, *, shape: Sequence[int], num_classes: int
) -> tuple[UInt8[np.ndarray, "rows features"], Shaped[np.ndarray, "rows"]]:
    """Read images and their class indices, and check that they match.

    Args:
        images: idx file ``[rows, height, width]``.
        labels: idx file ``[rows]``.
        shape: Required (height, width) of every image.
        num_classes: Number of classes; class indices must be below it.

    Returns:
        Pixels, one row per image, and class indices, both as unsigned bytes.

    Raises:
        DataError: A file cannot be used (see `read_idx`), there are no images or they have another shape, the two
            files differ in their number of rows, or a class index is too large.
    """
    pixels, classes = read_idx(images, num_axes=3), read_idx(labels, num_axes=1)
    if pixels.shape[1:] != tuple(shape):
        raise DataError(
            f"{images} holds images of {pixels.shape[1]} x {pixels.shape[2]} pixels; expected {shape[0]} x {shape[1]}."
        )
    if not len(pixels):
        raise DataError(f"{images} holds no images. Check that it was written completely.")
    if len(pixels) != len(classes):
        raise DataError(
            f"{images} holds {len(pixels)} images, but {labels} holds {len(classes)} labels: they do not belong "
            "together."
        )
    check_classes(classes, num_classes, file=labels)
    return pixels.reshape(len(pixels), -1), classes


def check_classes(classes: Shaped[np.ndarray, "rows"], num_classes: int, *, file: Path | str) -> None:
    """Check that class indices are in range.

    Raises:
        DataError: A class index is too large; names the file, the first such row and the index.
    """
    bad = classes >= num_classes
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{file} has the class {int(classes[row])} for image {row} (counted from 0); classes run from 0 to "
            f"{num_classes - 1}. The file was modified, or it is the wrong file."
        )
