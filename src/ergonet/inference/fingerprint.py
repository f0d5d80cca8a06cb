"""The fingerprint of a run: everything that determines its draws, so that only the same run is continued."""

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ergonet._errors import SettingError
from ergonet.draws.versions import versions
from ergonet.inference.jobs import AbstractJob, RunPlan, raw
from ergonet.target.capabilities import Rows
from ergonet.target.contract import Missing

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SHOWN = 8  # numbers of an array that are written out
_HASHED_BYTES = 2**30  # of a larger array, evenly spaced parts are read
_PARTS = 256
_CONTEXT = 60  # characters of a long text around a difference
_INITIAL = "density and gradient at the initial values"
_SOFTWARE = ("ergonet", "jax", "jaxlib", "equinox", "numpy", "platform")


def fingerprint(plan: RunPlan, jobs: Sequence[AbstractJob], **settings: Any) -> dict[str, str]:
    """What determines the draws of a run, by name, in words.

    Code cannot be compared, so it is judged by the density, its gradient and everything else that chains have at their
    initial values, bit for bit.

    Args:
        plan: what the jobs have in common.
        jobs: the jobs, started.
        settings: settings that are not in the plan, such as the kernel.
    """
    found = {
        "seed": str(plan.seed),
        "num_chains": str(plan.num_chains),
        "num_warmup": str(plan.num_warmup),
        **_parts("init", plan.init),
        **_parts("callback", plan.callback),
    }
    for name, setting in settings.items():
        found |= _parts(name, setting)
    target = jobs[0].target
    found |= _parts("target", target)
    data = target.capability(Rows)
    found |= {} if isinstance(data, Missing) or not data.is_streamed else _parts("rows", data.rows())
    found["precision"] = "64 bits" if jax.config.jax_enable_x64 else "32 bits"
    found["chains of each program"] = str([list(job.chains) for job in jobs if len(job.chains) > 1] or "one")
    found["device"] = ", ".join(sorted({_device(leaf) for job in jobs for leaf in jax.tree.leaves(job.record)}))
    software = versions()
    found |= {name: software[name] for name in _SOFTWARE}
    return found | {_INITIAL: _crc(_initial(jobs))}


def require_equal(stored: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Check that a stored run is the one that is to be continued.

    Raises:
        SettingError: it is another; names everything that differs, with both values.
    """
    names = [name for name in {**stored, **now} if stored.get(name) != now.get(name)]
    if not names:
        return
    if names == [_INITIAL]:
        raise SettingError(
            f"The stored run cannot be continued: the {_INITIAL} are not those of the stored run, bit for bit. The "
            f"code of the target has changed, or the processor is another one. Restore it, or run again in another "
            f"folder."
        )
    told = [_difference(name, stored.get(name), now.get(name)) for name in names if name != _INITIAL]
    raise SettingError(
        f"The stored run cannot be continued, because it was made with other settings, data or software: "
        f"{'; '.join(told)}. Use the same, or run again in another folder."
    )


def _difference(name: str, stored: str | None, now: str | None) -> str:
    if stored is None or now is None:
        return f"`{name}` was {stored or 'absent'}, and is {now or 'absent'}"
    pairs = zip(stored, now, strict=False)
    first = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(stored), len(now)))
    start = max(0, first - _CONTEXT // 2) if max(len(stored), len(now)) > _CONTEXT else 0
    was, is_now = (_excerpt(text, start) for text in (stored, now))
    return f"`{name}` was {was}, and is {is_now}"


def _excerpt(text: str, start: int) -> str:
    end = start + _CONTEXT
    return f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}"


def _parts(name: str, tree: Any) -> dict[str, str]:
    """A pytree in words: its structure with its settings, and each of its arrays."""
    words = _ADDRESS.sub("", eqx.tree_pformat(tree, width=10**9))
    found = {name: " ".join(words.split())}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if isinstance(leaf, jax.Array | np.ndarray | np.generic):
            found[f"{name}{jax.tree_util.keystr(path)}"] = _described(leaf)
    return found


def _described(array: Any) -> str:
    values = np.asarray(raw(array))
    kind = f"{values.dtype}{list(values.shape)}"
    return f"{kind} {values.tolist()}" if values.size <= _SHOWN else f"{kind} with checksum {_crc([values])}"


def _crc(arrays: Sequence[np.ndarray]) -> str:
    found = 0
    for array in arrays:
        for part in _read(array):
            found = zlib.crc32(np.ascontiguousarray(part).view(np.uint8), found)
    return f"{found:08x}"


def _read(array: np.ndarray) -> list[np.ndarray]:
    """The whole array, or evenly spaced parts of a very large one."""
    flat = array.reshape(-1)
    if array.nbytes <= _HASHED_BYTES:
        return [flat]
    size = _HASHED_BYTES // _PARTS // array.itemsize
    return [flat[start : start + size] for start in np.linspace(0, flat.size - size, _PARTS, dtype=int)]


def _initial(jobs: Sequence[AbstractJob]) -> list[np.ndarray]:
    return [np.asarray(leaf) for job in jobs for leaf in job.memo().leaves]


def _device(leaf: Any) -> str:
    return next((device.device_kind for device in leaf.devices()), "") if isinstance(leaf, jax.Array) else ""
