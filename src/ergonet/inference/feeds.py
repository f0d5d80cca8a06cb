"""Where the rows of minibatches come from: all on the device, or in chunks from arrays that do not fit there."""

import abc
from concurrent.futures import Future
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._types import Array, PRNGKey
from ergonet.inference.epochs import shuffle
from ergonet.inference.workers import worker_pool
from ergonet.models.target import count_rows

LAYOUT_ROWS = 2**18  # row numbers that are laid out at once, and at least those of an epoch
CHUNK_BYTES = 64 * 2**20  # rows of a chunk that is moved to the device


class AbstractFeed(abc.ABC):
    """Blocks of minibatches in the order of a chain's steps: each epoch a new permutation of the rows."""

    @property
    @abc.abstractmethod
    def block_size(self) -> int:
        """Minibatches of a block."""

    @abc.abstractmethod
    def block(self, number: int) -> tuple[Any, Array]:
        """Rows, and the numbers `[batch, row]` of those in each minibatch, of block `number`."""


class DeviceFeed(AbstractFeed):
    """All rows on the device; a block is some epochs."""

    def __init__(self, rows: Any, key: PRNGKey, batch_size: int):
        self._rows, self._key, self._batch_size = rows, key, batch_size
        self._num_rows = count_rows(rows)
        self._num_epochs = max(1, LAYOUT_ROWS // self._num_rows)

    @property
    def block_size(self) -> int:
        return self._num_epochs * (self._num_rows // self._batch_size)

    def block(self, number: int) -> tuple[Any, Array]:
        order = _shuffle(
            self._key,
            np.asarray(number * self._num_epochs, np.int32),
            num_rows=self._num_rows,
            batch_size=self._batch_size,
            num_epochs=self._num_epochs,
        )
        return self._rows, order


class HostFeed(AbstractFeed):
    """Rows in NumPy arrays, in memory or mapped from a file; a block is some minibatches, fetched ahead.

    Which rows a minibatch has does not depend on the size of blocks, which may span two epochs.
    """

    def __init__(
        self, rows: Any, seed: tuple[int, int], device: Any, batch_size: int, *, chunk_bytes: int = CHUNK_BYTES
    ):
        self._rows, self._seed, self._device, self._batch_size = rows, seed, device, batch_size
        self._num_rows = count_rows(rows)
        per_row = sum(leaf.nbytes // self._num_rows for leaf in jax.tree.leaves(rows))
        self._num_batches = self._num_rows // batch_size
        self._block_size = max(1, min(self._num_batches, chunk_bytes // max(1, per_row * batch_size)))
        self._pool = worker_pool(1)
        self._ahead: tuple[int, Future[tuple[Any, Array]]] | None = None
        self._orders: dict[int, np.ndarray] = {}

    @property
    def block_size(self) -> int:
        return self._block_size

    def block(self, number: int) -> tuple[Any, Array]:
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead[0] != number:
            ahead = number, self._pool.submit(self._fetch, number)
        self._ahead = number + 1, self._pool.submit(self._fetch, number + 1)
        return ahead[1].result()

    def _fetch(self, number: int) -> tuple[Any, Array]:
        """In the pool's one thread."""
        first = number * self._block_size
        places = (divmod(batch, self._num_batches) for batch in range(first, first + self._block_size))
        size = self._batch_size
        wanted = np.concatenate([self._order(epoch)[batch * size : (batch + 1) * size] for epoch, batch in places])
        chosen, order = np.unique(wanted, return_inverse=True)  # in order of the file: fewer seeks
        chosen = np.concatenate([chosen, np.repeat(chosen[-1:], wanted.size - chosen.size)])  # blocks of one shape
        rows = jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf[chosen]), self._device), self._rows)
        order = order.reshape(self._block_size, size).astype(np.int32)
        return rows, jax.device_put(order, self._device)

    def _order(self, epoch: int) -> np.ndarray:
        """The permutation of an epoch; the last two are kept."""
        if epoch not in self._orders:
            self._orders = {one: order for one, order in self._orders.items() if one == epoch - 1}
            self._orders[epoch] = np.random.default_rng((*self._seed, epoch)).permutation(self._num_rows)
        return self._orders[epoch]


@eqx.filter_jit
def _shuffle(key: PRNGKey, first_epoch: Any, *, num_rows: int, batch_size: int, num_epochs: int) -> Array:
    return shuffle(key, jnp.asarray(first_epoch), num_rows=num_rows, batch_size=batch_size, num_epochs=num_epochs)
