"""Where the chains of a command run: `--dask`, or worker threads of this process."""

from collections.abc import Generator
from concurrent.futures import Executor
from contextlib import contextmanager

import typer

_active: list[Executor | None] = [None]


def active() -> Executor | None:
    """The executor of the command that is running; None: worker threads."""
    return _active[-1]


@contextmanager
def chosen(*, dask: str | None, distributed: bool = False) -> Generator[Executor | None]:
    """Run the block with the workers of a Dask cluster, or as process 0 of several; the others do not get there.

    Raises:
        SettingError: Dask is not installed.
        WorkerError: the cluster does not answer.
        typer.BadParameter: both are asked for.
    """
    if dask is None and not distributed:
        yield None
        return
    with _made(dask, distributed=distributed) as executor:
        _active.append(executor)
        try:
            yield executor
        finally:
            _active.pop()


def _made(dask: str | None, *, distributed: bool) -> Executor:
    if dask is None:
        from ergonet.execution.distributed import initialize

        return initialize()
    if distributed:
        raise typer.BadParameter("give one of them at most.", param_hint="'--dask', '--distributed'")
    from ergonet.execution.dask import DaskExecutor

    return DaskExecutor(dask)
