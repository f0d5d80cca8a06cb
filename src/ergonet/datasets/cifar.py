"""CIFAR-10 from its binary batches or from a tree of image files, either in a folder or in a .tar archive.

Every image becomes a row of 3072 bytes in the order height, width, channel.
"""

import io
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from jaxtyping import UInt8

from ergonet._errors import DataError
from ergonet.datasets.idx import check_classes
from ergonet.datasets.limits import check_decompressed

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SHAPE = (32, 32, 3)
BATCHES = {"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)}
ARCHIVES = (".tar.gz", ".tgz", ".tar")
_PICTURES = (".jpg", ".jpeg", ".png")
_ROW = 1 + 32 * 32 * 3

Part = tuple[UInt8[np.ndarray, "_ 3072"], UInt8[np.ndarray, "_"]]


@dataclass(frozen=True)
class Source:
    """Named files in a folder or an archive.

    Attributes:
        path: The folder or archive, for messages.
        walk: Yields the name of each file and a function that reads it; in an archive, in archive order.
    """

    path: Path
    walk: Callable[[], Iterator[tuple[PurePosixPath, Callable[[], bytes]]]]

    def name(self, file: PurePosixPath) -> str:
        """The name of a file in messages."""
        return str(self.path / file) if self.path.is_dir() else f"{file} in {self.path}"


def source_in(folder: Path, *, archives: bool) -> Source | None:
    """Find the batches or the tree of image files in a folder, or else an archive that contains them.

    Args:
        folder: The folder to search; of its subfolders only ``train`` and ``test`` are searched.
        archives: Whether to accept any archive; otherwise only those with ``cifar`` in their name.

    Returns:
        The source found; None if nothing looks like CIFAR-10.
    """
    batches = [name for names in BATCHES.values() for name in names if (folder / name).is_file()]
    if batches:
        return Source(folder, lambda: ((PurePosixPath(name), (folder / name).read_bytes) for name in batches))
    if (folder / "train").is_dir():
        return Source(folder, lambda: _pictures_below(folder))
    if not folder.is_dir():
        return None
    found = sorted(one for one in folder.iterdir() if one.name.lower().endswith(ARCHIVES) and one.is_file())
    chosen = next((one for one in found if archives or "cifar" in one.name.lower()), None)
    return None if chosen is None else Source(chosen, lambda: _members(chosen))


def read(source: Source) -> dict[str, Part]:
    """Read pixels ``[rows, 3072]`` and class indices ``[rows]`` of the parts ``"train"`` and ``"test"``.

    Binary batches keep their order. Image files are sorted by file name and then by class, so that any range of rows
    contains all classes if the file names are numbers.

    Raises:
        DataError: A file is damaged, has the wrong size or is missing, or a class is unknown; names the file.
    """
    names = {name: part for part, batches in BATCHES.items() for name in batches}
    rows: dict[str, dict[tuple[str, int], Part]] = {"train": {}, "test": {}}
    try:
        for name, content in source.walk():
            if name.name.startswith("."):  # metadata files of some systems
                continue
            if name.name in names:
                rows[names[name.name]][name.name, 0] = _batch(content(), source.name(name))
            elif len(name.parts) >= 3 and name.parts[-3] in rows and name.suffix.lower() in _PICTURES:
                label = _class_of(name.parts[-2], source.name(name))
                picture = _picture(content(), source.name(name))
                rows[name.parts[-3]][name.name, label] = picture[None], np.full(1, label, np.uint8)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise DataError(
            f"{source.path} cannot be read: {error}. Check that it was copied or downloaded completely."
        ) from error
    _check_complete(source, {part: [name for name, _ in found] for part, found in rows.items()})
    return {part: _joined(found) for part, found in rows.items()}


def _joined(found: dict[tuple[str, int], Part]) -> Part:
    parts = [found[key] for key in sorted(found)]
    found.clear()
    return np.concatenate([pixels for pixels, _ in parts]), np.concatenate([classes for _, classes in parts])


def _check_complete(source: Source, names: dict[str, list[str]]) -> None:
    if any(name.endswith(".bin") for found in names.values() for name in found):
        missing = [one for part, expected in BATCHES.items() for one in expected if one not in names[part]]
    else:
        missing = [f"{part}/<class>/<name>.jpg or .png" for part, found in names.items() if not found]
    if missing:
        raise DataError(f"{source.path} lacks {', '.join(missing)}: CIFAR-10 is incomplete there.")


def _batch(content: bytes, file: str) -> Part:
    """Parse a batch: each row is one byte for the class and 1024 bytes each for red, green and blue."""
    if not content or len(content) % _ROW:
        raise DataError(
            f"{file} has {len(content)} bytes, not a multiple of {_ROW} (a class and 32 x 32 x 3 pixels): "
            "it is truncated, or it is not the binary version of CIFAR-10."
        )
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, _ROW)
    check_classes(rows[:, 0], len(CLASSES), file=file)
    channels_last = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(channels_last).reshape(len(rows), -1), rows[:, 0].copy()


def _class_of(name: str, file: str) -> int:
    if name not in CLASSES:
        raise DataError(f"{file}: there is no class {name!r}. The folders of images are: {', '.join(CLASSES)}.")
    return CLASSES.index(name)


def _picture(content: bytes, file: str) -> UInt8[np.ndarray, "3072"]:
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError(
            f"{file}: reading JPEG and PNG files needs Pillow. Install it (`pip install pillow`), or "
            "use the binary version of CIFAR-10."
        ) from error
    try:
        with Image.open(io.BytesIO(content), formats=("JPEG", "PNG")) as image:
            if image.size != SHAPE[1::-1]:
                raise DataError(f"{file} has {image.size[0]} x {image.size[1]} pixels; expected 32 x 32.")
            return np.asarray(image.convert("RGB"), dtype=np.uint8).reshape(-1)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{file} is not a readable JPEG or PNG file: {error}. Get a new copy.") from error


def _pictures_below(folder: Path) -> Iterator[tuple[PurePosixPath, Callable[[], bytes]]]:
    for part in BATCHES:
        for file in sorted((folder / part).glob("*/*")):
            if file.is_file():
                yield PurePosixPath(file.relative_to(folder).as_posix()), file.read_bytes


def _members(archive: Path) -> Iterator[tuple[PurePosixPath, Callable[[], bytes]]]:
    """Yield the files of an archive in order, since seeking back in a compressed archive starts from its beginning."""
    with tarfile.open(archive, mode="r|*") as members:
        total = 0
        for member in members:
            total += member.size
            check_decompressed(total, file=archive)
            stream = members.extractfile(member) if member.isfile() else None
            if stream is not None:
                yield PurePosixPath(member.name), stream.read
