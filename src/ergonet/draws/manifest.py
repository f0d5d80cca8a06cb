"""The manifest of stored draws: how many of them are valid, and what the run was.

It is written after the data that it counts, with a checksum, and the one that it replaces is kept, so that a power
failure leaves at least one that can be read.
"""

import json
import re
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ergonet._errors import RunDirectoryError, SamplingWarning
from ergonet.draws.durable import checksum_of, write_json
from ergonet.draws.replacement import whereabouts

FORMAT_VERSION = 2
FORMAT_WITHOUT_CHECKSUMS = 1
MANIFEST, PREVIOUS = "manifest.json", "manifest.previous.json"
METADATA = "zarr.json"  # of an array
_NAME = re.compile(r"[\w.-]*\w[\w.-]*(/[\w.-]*\w[\w.-]*)*")  # of an array: a path in the folder


def write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    """Replace the manifest; the previous one is kept under another name."""
    forms = {name: form_of(folder / name) for name in content.get("arrays", ())}
    whole = {"format_version": FORMAT_VERSION, **content, "forms": forms}
    write_json(folder / MANIFEST, {**whole, "checksum": checksum_of(whole)}, previous=folder / PREVIOUS)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest, or the previous one, with a warning, if the newest is missing or damaged.

    Raises:
        RunDirectoryError: there is none, both are damaged, or they have a format version that is not known.
    """
    damage: list[str] = []
    for path in (folder / MANIFEST, folder / PREVIOUS):
        content = _attempt(path)
        if isinstance(content, str):
            damage.append(content)
            continue
        _check_version(folder, content)
        if damage:
            warnings.warn(
                f"{damage[0]}, so the manifest written before it is used. Draws stored in between are left out.",
                SamplingWarning,
                stacklevel=2,
            )
        return content
    if not any((folder / name).exists() for name in (MANIFEST, PREVIOUS)):
        raise RunDirectoryError(
            f"`{folder}` has no `{MANIFEST}`: it is not a stored run, or the run never started.{whereabouts(folder)}"
        )
    raise RunDirectoryError(f"{' and '.join(damage)}. Restore one of them from a backup, or run again.")


def manifest_faults(folder: Path) -> list[str]:
    """What is wrong with the manifests, one sentence each; there may be no previous one."""
    paths = [path for path in (folder / MANIFEST, folder / PREVIOUS) if path.exists() or path.name == MANIFEST]
    return [f"{found}." for found in map(_attempt, paths) if isinstance(found, str)]


def _attempt(path: Path) -> dict[str, Any] | str:
    """The content of a manifest, or what is wrong with it."""
    try:
        return _checked(read_file(path))
    except FileNotFoundError:
        return f"`{path}` is missing"
    except (OSError, ValueError, RecursionError) as error:
        return f"`{path}` is damaged ({error})"


def _checked(data: bytes) -> dict[str, Any]:
    """Parse a manifest; raises `ValueError` if it is incomplete or was changed."""
    content = json.loads(data)
    if not isinstance(content, dict):
        raise ValueError("it is no table")  # noqa: TRY004 - damage, as in all other cases
    if content.get("format_version") == FORMAT_VERSION and content.pop("checksum", None) != checksum_of(content):
        raise ValueError("its checksum does not match")
    return content


def _check_version(folder: Path, content: Mapping[str, Any]) -> None:
    version, counts = content.get("format_version"), content.get("draws_by_chain")
    if version not in (FORMAT_WITHOUT_CHECKSUMS, FORMAT_VERSION):
        raise RunDirectoryError(
            f"`{folder}` has format version {version}, but this version of Ergonet reads {FORMAT_WITHOUT_CHECKSUMS} "
            f"and {FORMAT_VERSION}. Use the version that wrote it, or run again."
        )
    tables = [content.get(name, {}) for name in ("seconds", "gradients", "about", "forms")]
    checksums = content.get("checksums", {})
    names, draws = content.get("arrays", []), content.get("draws", 0)
    has_counts = isinstance(counts, list) and bool(counts) and all(map(_is_count, counts))
    is_valid = {
        "draws_by_chain": has_counts,
        "draws": _is_count(draws) and (not has_counts or draws <= min(counts or ())),
        "arrays": isinstance(names, list) and all(isinstance(one, str) and _NAME.fullmatch(one) for one in names),
        "about": all(isinstance(one, dict) for one in tables),
        "checksums": isinstance(checksums, dict) and all(isinstance(one, list) for one in checksums.values()),
    }
    for name, valid in is_valid.items():
        if not valid:
            raise RunDirectoryError(f"`{folder / MANIFEST}` has no valid `{name}`. Restore it from a backup.")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def read_file(path: Path) -> bytes:
    """Read a file; anything else, such as a pipe, which would be waited for, raises `ValueError`."""
    if path.exists() and not path.is_file():
        raise ValueError("it is no file")
    return path.read_bytes()


def form_of(folder: Path) -> int | None:
    """The CRC-32 of the metadata of an array, but for its number of draws, which may grow; None if they are damaged."""
    try:
        table = json.loads(read_file(folder / METADATA))
        size = table.pop("shape")
        return zlib.crc32(json.dumps([table, size[:1], size[2:]], sort_keys=True).encode())
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
