"""Workers of a Dask cluster: of this machine, or of many."""

import logging
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

from ergonet._errors import SettingError
from ergonet.execution.base import AbstractExecutor, WorkerError
from ergonet.execution.shared import Arithmetic, Shared, pack, run_packed, unpack

ANSWER_SECONDS = 20.0  # for a scheduler to answer
WORKER_SECONDS = 120.0  # for the first worker to come
LOCAL = "local"
MOST_DEATHS = 3  # workers that a call may lose before it is given up


class DaskExecutor(AbstractExecutor):
    """Makes calls on the workers of a Dask cluster.

    A call whose worker dies is made again on another one. Values that calls have in common, such as a target, are sent
    to each worker once, and again to a worker that takes the place of another.
    """

    def __init__(self, address: Any = LOCAL, *, num_workers: int | None = None):
        """Connect to a cluster, or start one on this machine.

        Args:
            address: `"local"`; the address of a scheduler such as `"tcp://head:8786"`; the path of the JSON file that a
                scheduler has written; or a `distributed.Client`, which stays open.
            num_workers: number of workers of a local cluster; None: one per core.

        Raises:
            SettingError: Dask is not installed, or `num_workers` is given for a cluster that has its own.
            WorkerError: the scheduler or the first worker does not answer.
        """
        try:
            import distributed
        except ImportError as error:
            raise SettingError("Dask is not installed. Install it: `pip install distributed`.") from error
        if num_workers is not None and address != LOCAL:
            raise SettingError(f"`num_workers={num_workers}` is for a local cluster; {address!r} has its own workers.")
        self._owned: list[Any] = []
        if isinstance(address, distributed.Client):
            self._client: Any = address
        elif address == LOCAL:
            self._client = self._local(num_workers)
        else:
            self._client = self._remote(str(address))
        self._held: dict[str, Any] = {}
        try:
            self._client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError as error:
            self.shutdown()
            raise WorkerError(
                f"The Dask cluster {address!r} had no worker within {WORKER_SECONDS:g} s. Start some: `dask worker "
                f"ADDRESS`."
            ) from error

    def _local(self, num_workers: int | None) -> Any:
        from distributed import Client, LocalCluster

        settings: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.ERROR}
        cluster = LocalCluster(n_workers=num_workers, **settings)
        client = Client(cluster)
        self._owned = [client, cluster]
        return client

    def _remote(self, address: str) -> Any:
        from distributed import Client

        where: dict[str, Any] = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
        try:
            client = Client(timeout=ANSWER_SECONDS, **where)
        except (OSError, ValueError, TimeoutError) as error:
            raise WorkerError(
                f"The Dask scheduler {address!r} did not answer within {ANSWER_SECONDS:g} s: {error}. Check the "
                f"address, and that the scheduler is running, or use `local`."
            ) from error
        self._owned = [client]
        return client

    @property
    def num_workers(self) -> int:
        return max(1, sum(self._client.nthreads().values()))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if kwargs:
            raise TypeError("`submit` takes positional arguments.")
        packed, used = pack((fn, args))
        contents = {token: self._remote_content(shared) for token, shared in used.items()}
        ours: Future[Any] = Future()
        ours.set_running_or_notify_cancel()
        theirs = self._client.submit(run_packed, packed, contents, Arithmetic.ours(), pure=False)
        theirs.add_done_callback(lambda done: _pass_on(done, ours))
        return ours

    def _remote_content(self, shared: Shared) -> Any:
        """The content as a result that the scheduler can have made again, if all workers that had it have died."""
        from dask import config

        if shared.token not in self._held:
            with config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
                self._held[shared.token] = self._client.submit(_same, shared.content, key=f"ergonet-{shared.token}")
            weakref.finalize(shared, self._held.pop, shared.token, None)  # the cluster may forget what nobody uses
        return self._held[shared.token]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  as its base
        """End the connection, and a local cluster."""
        self._held = {}
        for one in self._owned:
            one.close()
        self._owned = []


def _same(content: bytes) -> bytes:
    return content


def _pass_on(theirs: Any, ours: Future[Any]) -> None:
    """Give a result of Dask to a future of this process; runs in a thread of Dask."""
    try:
        ours.set_result(unpack(theirs.result()))
    except CancelledError:
        ours.set_exception(
            WorkerError("The Dask scheduler is gone. A run in a `store` goes on with `resume=True`, here or elsewhere.")
        )
    except Exception as error:  # noqa: BLE001  it belongs to whoever asks for the result
        ours.set_exception(_in_our_words(error))


def _in_our_words(error: Exception) -> Exception:
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        return WorkerError(
            f"A call has ended {MOST_DEATHS + 1} Dask workers one after the other; {error}. Look at their logs, and at "
            f"the memory of their machines."
        )
    return error
