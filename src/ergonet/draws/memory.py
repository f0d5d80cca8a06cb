"""Memory planning: the size of a run before it starts, and an error with advice if it cannot fit."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ergonet._errors import MemoryPlanError

GIB = 2**30
USABLE_SHARE = 0.9


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that the draws of a run take.

    Attributes:
        draws: bytes of positions and statistics.
        where: `memory` or `disk`.
        available: bytes free there; None if unknown.
    """

    draws: int
    where: str
    available: int | None

    def __str__(self) -> str:
        free = "" if self.available is None else f" of {self.available / GIB:.1f} GiB free"
        return f"Draws take {self.draws / GIB:.3f} GiB{free} {'on' if self.where == 'disk' else 'in'} {self.where}."


def plan_memory(num_chains: int, num_draws: int, *, bytes_per_draw: int, folder: Path | None) -> MemoryPlan:
    """Plan the memory of a run; raises `MemoryPlanError` if it cannot fit."""
    draws = num_chains * num_draws * bytes_per_draw
    if folder is None:
        plan = MemoryPlan(draws=draws, where="memory", available=free_memory())
    else:
        parent = next(p for p in [folder.absolute(), *folder.absolute().parents] if p.exists())
        plan = MemoryPlan(draws=draws, where="disk", available=shutil.disk_usage(parent).free)
    if plan.available is not None and draws > USABLE_SHARE * plan.available:
        largest = max(1, int(USABLE_SHARE * plan.available / (num_chains * bytes_per_draw)))
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
