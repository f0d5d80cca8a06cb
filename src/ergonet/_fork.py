"""Forked processes: JAX's threads exist only in the process that started them, so a fork of it would wait forever.

`ergonet` registers `note` when it is imported. A process that was forked before JAX had started works.
"""

import os
import sys

from ergonet._errors import ForkError

_state = {"is_unusable": False}


def note() -> None:
    """Note in a forked process whether JAX had been started before."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    _state["is_unusable"] |= bridge is not None and bridge.backends_are_initialized()


def require_jax() -> None:
    """Check that this process can use JAX.

    Raises:
        ForkError: the process was forked from one in which JAX had been started.
    """
    if _state["is_unusable"]:
        raise ForkError(
            f"Process {os.getpid()} was forked from one that had used JAX, whose threads a fork does not have: it "
            f"would wait forever. Start processes anew: `joblib.parallel_config('loky')`, or "
            f"`multiprocessing.get_context('spawn')`. Or fork before the first fit or prediction."
        )


os.register_at_fork(after_in_child=note)
