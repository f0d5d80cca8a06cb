"""Memory planning: the size of a run before it starts, and an error with advice if it cannot fit."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ergonet._errors import MemoryPlanError

GIB = 2**30
USABLE_SHARE = 0.9


BLOCK = 4096  # bytes that a disk takes for the smallest file
DRAWS_PER_FILE = 100
PER_CHAIN = 10_000  # bytes of a chain of no dimension
VECTORS_OF_CHAIN, VECTORS_OF_WORK = 6, 8  # state, metric and moments of each chain; the trajectory of one
MATRICES_OF_CHAIN, MATRICES_OF_WORK = 2.5, 4.0  # the same of a dense metric; making it from the moments


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that the draws of a run take.

    Attributes:
        draws: bytes of positions and statistics.
        where: `memory` or `disk`.
        available: bytes free there; None if unknown.
        files: number of files; 0 in memory.
    """

    draws: int
    where: str
    available: int | None
    files: int = 0

    def __str__(self) -> str:
        files = f" in {self.files} files" if self.files else ""
        free = "" if self.available is None else f" of {self.available / GIB:.1f} GiB free"
        return (
            f"Draws take {self.draws / GIB:.3f} GiB{files}{free} {'on' if self.where == 'disk' else 'in'} {self.where}."
        )


def plan_memory(
    num_chains: int, num_draws: int, *, bytes_per_draw: int, folder: Path | None, num_fields: int = 0
) -> MemoryPlan:
    """Plan the memory of a run, or its place on a disk if there is a folder.

    Args:
        num_chains: number of chains.
        num_draws: number of stored draws of each chain.
        bytes_per_draw: bytes of all fields of a draw.
        folder: where draws are stored; None: in memory.
        num_fields: number of fields, each of which has its own files.

    Raises:
        MemoryPlanError: it cannot fit.
    """
    draws = num_chains * num_draws * bytes_per_draw
    if folder is None:
        plan = MemoryPlan(draws=draws, where="memory", available=free_memory())
    else:
        parent = next(p for p in [folder.absolute(), *folder.absolute().parents] if p.exists())
        files = num_chains * num_fields * -(-num_draws // DRAWS_PER_FILE)
        free = shutil.disk_usage(parent).free
        plan = MemoryPlan(draws=draws + files * BLOCK, where="disk", available=free, files=files)
        _require_inodes(plan, parent)
    if plan.available is not None and plan.draws > USABLE_SHARE * plan.available:
        largest = max(1, int(num_draws * USABLE_SHARE * plan.available / plan.draws))
        remedy = (
            "give `store` a folder on a larger disk"
            if folder is not None
            else "give `store` a folder to keep them on disk"
        )
        raise MemoryPlanError(
            f"{plan} {num_chains} chains x {num_draws} draws do not fit. Store at most {largest} draws per chain "
            f"(raise `thin` to cover the same run), or {remedy}."
        )
    return plan


def _require_inodes(plan: MemoryPlan, folder: Path) -> None:
    disk = os.statvfs(folder)
    if disk.f_files and plan.files > USABLE_SHARE * disk.f_favail:  # some disks have no such limit, and say 0
        raise MemoryPlanError(
            f"Draws take {plan.files} files, but only {disk.f_favail} more fit on the disk of `{folder}`. Use fewer "
            f"chains, raise `thin` and lower `num_draws`, or give `store` a folder on another disk."
        )


def plan_chains(num_chains: int, dim: int, *, itemsize: int, is_dense: bool) -> None:
    """Check that the chains themselves can fit in memory, before anything is allocated.

    Args:
        num_chains: number of chains.
        dim: dimension of the target.
        itemsize: bytes of a number.
        is_dense: whether each chain learns a dense metric.

    Raises:
        MemoryPlanError: the least that they need is more than is free.
    """
    vectors = (num_chains * VECTORS_OF_CHAIN + VECTORS_OF_WORK) * dim * itemsize
    matrices = int((num_chains * MATRICES_OF_CHAIN + MATRICES_OF_WORK) * dim**2 * itemsize) if is_dense else 0
    needed, free = num_chains * PER_CHAIN + vectors + matrices, free_memory()
    if free is None or needed <= USABLE_SHARE * free:
        return
    whole = f"{num_chains} chains of dimension {dim} take at least {needed / GIB:.1f} GiB of memory"
    if matrices > vectors:
        raise MemoryPlanError(
            f"{whole}, {matrices / GIB:.1f} GiB of it for dense metrics of {dim} x {dim} numbers, but "
            f'{free / GIB:.1f} GiB are free. Use `metric="diagonal"`, or fewer chains.'
        )
    raise MemoryPlanError(
        f"{whole}, but {free / GIB:.1f} GiB are free. Use fewer chains (`num_chains`), or a target of lower dimension."
    )


def free_memory() -> int | None:
    """Bytes of memory available without swapping; None if unknown."""
    limits = [_meminfo(), _control_group()]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def _meminfo() -> int | None:
    path = Path("/proc/meminfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _control_group() -> int | None:
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    try:
        text = limit.read_text().strip()
        return None if text == "max" else int(text) - int(used.read_text())
    except (OSError, ValueError):
        return None
