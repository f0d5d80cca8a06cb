"""Sources of minibatches: all rows on the device, or chunks of rows from arrays that do not fit there."""

import abc
from concurrent.futures import Future
from typing import Any

import jax
import numpy as np

from ergonet._types import Array, PRNGKey
from ergonet.execution.threads import worker_pool
from ergonet.samplers.stochastic.ordering import SHUFFLED, AbstractOrdering
from ergonet.target.layout import count_rows

CHUNK_BYTES = 64 * 2**20  # size of a chunk of rows transferred to the device


class AbstractFeed(abc.ABC):
    """Layouts of minibatches in the order of a chain's steps, chosen by the ordering of its kernel."""

    @property
    @abc.abstractmethod
    def layout_size(self) -> int:
        """Number of minibatches in a layout."""

    @abc.abstractmethod
    def layout(self, number: int) -> tuple[Any, Array]:
        """Layout `number`: rows, and the indices `[batch, row]` of the rows in each minibatch."""


class DeviceFeed(AbstractFeed):
    """All rows on the device; a layout is a number of epochs."""

    def __init__(self, rows: Any, key: PRNGKey, batch_size: int, *, ordering: AbstractOrdering = SHUFFLED):
        self._rows, self._key, self._batch_size, self._ordering = rows, key, batch_size, ordering
        self._num_rows = count_rows(rows)
        self._num_epochs = ordering.epochs_at_once(self._num_rows, batch_size)

    @property
    def layout_size(self) -> int:
        return self._num_epochs * (self._num_rows // self._batch_size)

    def layout(self, number: int) -> tuple[Any, Array]:
        first = number * self._num_epochs
        numbers = range(first, first + self._num_epochs)
        return self._rows, self._ordering.epochs(self._key, numbers, self._num_rows, self._batch_size)


class HostFeed(AbstractFeed):
    """Rows in NumPy arrays, in memory or memory-mapped; a layout is a number of minibatches, fetched in advance.

    The rows of a minibatch do not depend on the size of layouts, which may span two epochs.
    """

    def __init__(
        self,
        rows: Any,
        seed: tuple[int, int],
        device: Any,
        batch_size: int,
        *,
        ordering: AbstractOrdering = SHUFFLED,
        chunk_bytes: int = CHUNK_BYTES,
    ):
        self._rows, self._seed, self._device, self._batch_size = rows, seed, device, batch_size
        self._ordering = ordering
        self._num_rows = count_rows(rows)
        per_row = sum(leaf.nbytes // self._num_rows for leaf in jax.tree.leaves(rows))
        self._num_batches = self._num_rows // batch_size
        self._layout_size = max(1, min(self._num_batches, chunk_bytes // max(1, per_row * batch_size)))
        self._pool = worker_pool(1)
        self._ahead: tuple[int, Future[tuple[Any, Array]]] | None = None
        self._orders: dict[int, np.ndarray] = {}

    @property
    def layout_size(self) -> int:
        return self._layout_size

    def layout(self, number: int) -> tuple[Any, Array]:
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead[0] != number:
            ahead = number, self._pool.submit(self._fetch, number)
        self._ahead = number + 1, self._pool.submit(self._fetch, number + 1)
        return ahead[1].result()

    def _fetch(self, number: int) -> tuple[Any, Array]:
        """Runs in the single thread of the pool."""
        first = number * self._layout_size
        places = (divmod(batch, self._num_batches) for batch in range(first, first + self._layout_size))
        size = self._batch_size
        wanted = np.concatenate([self._order(epoch)[batch] for epoch, batch in places])
        chosen, order = np.unique(wanted, return_inverse=True)  # in file order, for fewer seeks
        chosen = np.concatenate([chosen, np.repeat(chosen[-1:], wanted.size - chosen.size)])  # layouts of one shape
        rows = jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf[chosen]), self._device), self._rows)
        order = order.reshape(self._layout_size, size).astype(np.int32)
        return rows, jax.device_put(order, self._device)

    def _order(self, epoch: int) -> np.ndarray:
        """The minibatches of an epoch; the last two epochs are cached."""
        if epoch not in self._orders:
            self._orders = {one: order for one, order in self._orders.items() if one == epoch - 1}
            self._orders[epoch] = self._ordering.epoch(self._seed, epoch, self._num_rows, self._batch_size)
        return self._orders[epoch]
