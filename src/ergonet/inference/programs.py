"""The compiled programs of a run, one set per platform, shared by all runs of a process.

On a CPU each program runs on the one thread that calls it: chains use the cores, not matrix products (Eigen's pool is
switched off for these programs only; nothing of the user's process is touched). Loops may use vectors of 512 bits
where the processor has them.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import equinox as eqx

from ergonet.inference import batches, chains

CPU_OPTIONS: dict[str, Any] = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_prefer_vector_width": 512}
SELDOM = {"xla_backend_optimization_level": 1}  # what runs a few dozen times is worth less time to compile


@dataclass(frozen=True)
class Programs:
    """Start, advance and finish a stage of the chains of a job."""

    start: Any
    advance: Any
    finish_stage: Any


@cache
def programs(platform: str, *, is_batched: bool) -> Programs:
    """The programs for one chain at a time, or for a batch of chains."""
    is_cpu = platform == "cpu"
    often: dict[str, Any] = {"compiler_options": CPU_OPTIONS} if is_cpu else {}
    seldom: dict[str, Any] = {"compiler_options": CPU_OPTIONS | SELDOM} if is_cpu else {}
    module: Any = batches if is_batched else chains
    return Programs(
        start=eqx.filter_jit(chains.start_chain, **seldom),
        advance=eqx.filter_jit(module.advance_chain, **often),
        finish_stage=eqx.filter_jit(module.finish_stage, **seldom),
    )
