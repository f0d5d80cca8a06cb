"""What a folder of draws contains, so that nothing else is deleted when it is replaced."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ergonet.draws.checkpoint import CHECKPOINT, FINGERPRINT, OLDER
from ergonet.draws.durable import temporary
from ergonet.draws.manifest import MANIFEST, PREVIOUS, read_file

POSITIONS = "positions"
EXTRAS = ("warmup", "tuning", "curve")  # groups beside the arrays [chain, draw, ...]

_NODE = "zarr.json"
_REPLACED = MANIFEST, CHECKPOINT, FINGERPRINT  # each under a temporary name until it is on disk
_FILES = _NODE, *_REPLACED, PREVIOUS, OLDER, *(temporary(Path(name)).name for name in _REPLACED)
_CHUNK = re.compile(r"c(\.\d+)*|\d+")
_PARTIAL = re.compile(r"(zarr|c|\d+)[.\d]*\.[0-9a-f]{32}\.partial")  # Zarr renames a file once it is complete


def foreign_to_store(folder: Path) -> Path | None:
    """The first file in a folder of draws that Ergonet did not write; None if there is none."""
    if folder.is_symlink() or not folder.is_dir():
        return folder
    entries = sorted(folder.iterdir())
    manifests = folder / MANIFEST, folder / PREVIOUS
    if not any({"format_version", "draws_by_chain"} <= read_json(one).keys() for one in manifests):
        return next((one for one in (*manifests, *entries) if one.exists()), None)
    return next(_foreign_to_root(folder, entries), None)


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file; empty if it cannot be read or is something else than a dictionary."""
    try:
        content = json.loads(read_file(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _foreign_to_root(folder: Path, entries: list[Path]) -> Iterator[Path]:
    size = _size(read_json(folder / POSITIONS / _NODE))
    for entry in entries:
        if entry.is_symlink() or not entry.is_dir():
            if not _is_file(entry, *_FILES):
                yield entry
            continue
        node = read_json(entry / _NODE)
        is_array = node.get("node_type") == "array"
        if node and (_size(node) != size if is_array else entry.name not in EXTRAS):
            yield entry
        yield from _foreign_to_node(entry)


def _size(node: dict[str, Any]) -> list[Any]:
    """Numbers of chains and draws, the same for all arrays of a run."""
    shape = node.get("shape")
    return shape[:2] if isinstance(shape, list) else []


def _foreign_to_node(folder: Path) -> Iterator[Path]:
    """Everything in the folder of a Zarr group or array that is not part of it."""
    kind = read_json(folder / _NODE).get("node_type")
    for entry in sorted(folder.iterdir()):
        is_folder = entry.is_dir() and not entry.is_symlink()
        if kind == "group" and is_folder:
            yield from _foreign_to_node(entry)
        elif kind == "array" and entry.name == "c" and is_folder:
            yield from (one for one in entry.rglob("*") if not _is_chunk(one))
        elif not (_is_file(entry, _NODE) or (kind == "array" and _is_chunk(entry) and entry.is_file())):
            yield entry


def _is_chunk(path: Path) -> bool:
    """Whether the name is that of a chunk, in one folder or, in format version 1, of a folder for each axis."""
    return (bool(_CHUNK.fullmatch(path.name)) and not path.is_symlink()) or _is_file(path)


def _is_file(path: Path, *names: str) -> bool:
    """Whether it is a file with one of the names, or one that Zarr has not completed."""
    return path.is_file() and not path.is_symlink() and bool(path.name in names or _PARTIAL.fullmatch(path.name))
