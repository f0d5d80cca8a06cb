"""The compiled programs of a run, one set per platform, shared by all runs of a process.

On a CPU each program runs on the one thread that calls it: chains use the cores, not matrix products (Eigen's pool is
switched off for these programs only; nothing of the user's process is touched). Loops may use vectors of 512 bits
where the processor has them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import equinox as eqx

from ergonet.inference import batches, chains

CPU_OPTIONS = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_prefer_vector_width": 512}


@dataclass(frozen=True)
class Programs:
    """Start, advance and finish a stage of the chains of a job."""

    first_record: Callable[..., Any]
    advance: Callable[..., Any]
    finish_stage: Callable[..., Any]


@cache
def programs(platform: str, *, is_batched: bool) -> Programs:
    """The programs for one chain at a time, or for a batch of chains."""
    options: dict[str, Any] = {"compiler_options": CPU_OPTIONS} if platform == "cpu" else {}
    module: Any = batches if is_batched else chains
    return Programs(
        first_record=eqx.filter_jit(chains.first_record, **options),
        advance=eqx.filter_jit(module.advance_chain, **options),
        finish_stage=eqx.filter_jit(module.finish_stage, **options),
    )
