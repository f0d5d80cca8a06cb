"""How the rows of minibatches are chosen: in shuffled epochs, or independently.

An epoch contains each row once, so the noise of its minibatch gradients adds up to zero. A chain that remembers more
than an epoch therefore hardly feels it, whatever the variance V of a single gradient, and a chain that remembers less
feels all of it. A kernel that replaces part of its injected noise by the noise of the gradient, as `SGHMC` does with a
noise model, needs noise without memory: minibatches that are drawn independently.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._types import Array, Count, PRNGKey

ORDER_KEY = 0xFFFF_FFFE
LAYOUT_ROWS = 2**18  # row indices laid out at once on the device; at least an epoch
LAYOUT_BATCHES = 2**12  # minibatches laid out at once on the host; at least an epoch


class AbstractOrdering(abc.ABC):
    """A rule that chooses the rows of minibatches, as a function of a seed and the number of an epoch."""

    words: ClassVar[str]

    @abc.abstractmethod
    def epoch(self, seed: tuple[int, ...], number: int, num_rows: int, batch_size: int) -> np.ndarray:
        """Row indices `[batch, row]` of as many minibatches as an epoch has."""

    def epochs_at_once(self, num_rows: int, batch_size: int) -> int:
        """Number of epochs that are laid out together for rows on the device, at least 1."""
        return max(1, LAYOUT_BATCHES // (num_rows // batch_size))

    def epochs(self, key: PRNGKey, numbers: range, num_rows: int, batch_size: int) -> Array:
        """Row indices `[batch, row]` of some epochs, on the device of the key."""
        seed = tuple(int(word) for word in np.asarray(jax.random.key_data(key)).ravel())
        orders = [self.epoch(seed, number, num_rows, batch_size) for number in numbers]
        return jax.device_put(np.concatenate(orders), next(iter(key.devices())))


class ShuffledEpochs(AbstractOrdering):
    """Each epoch is a new permutation of the rows; the incomplete last minibatch is dropped."""

    words = "shuffled epochs"

    def epoch(self, seed: tuple[int, ...], number: int, num_rows: int, batch_size: int) -> np.ndarray:
        order = np.random.default_rng((*seed, number)).permutation(num_rows)
        return order[: num_rows // batch_size * batch_size].reshape(-1, batch_size)

    def epochs_at_once(self, num_rows: int, batch_size: int) -> int:
        return max(1, LAYOUT_ROWS // num_rows)

    def epochs(self, key: PRNGKey, numbers: range, num_rows: int, batch_size: int) -> Array:
        first, count = np.asarray(numbers.start, np.int32), len(numbers)
        return _shuffle(key, first, num_rows=num_rows, batch_size=batch_size, num_epochs=count)


class IndependentMinibatches(AbstractOrdering):
    """Each minibatch is drawn from all rows, without replacement; rows may recur in the next one."""

    words = "drawn independently"

    def epoch(self, seed: tuple[int, ...], number: int, num_rows: int, batch_size: int) -> np.ndarray:
        generator = np.random.default_rng((*seed, number))
        if batch_size == 1:  # no row can recur within a minibatch, so all are drawn at once
            return generator.integers(num_rows, size=(num_rows, 1), dtype=np.int32)
        drawn = [generator.choice(num_rows, batch_size, replace=False) for _ in range(num_rows // batch_size)]
        return np.stack(drawn).astype(np.int32)


SHUFFLED, INDEPENDENT = ShuffledEpochs(), IndependentMinibatches()


@eqx.filter_jit
def _shuffle(key: PRNGKey, first_epoch: Any, *, num_rows: int, batch_size: int, num_epochs: int) -> Array:
    return shuffle(key, jnp.asarray(first_epoch), num_rows=num_rows, batch_size=batch_size, num_epochs=num_epochs)


def shuffle(key: PRNGKey, first_epoch: Count, *, num_rows: int, batch_size: int, num_epochs: int) -> Array:
    """Row indices of the minibatches of some epochs, `[batch, row]`; the incomplete last minibatch is dropped."""
    num_batches = num_rows // batch_size

    def epoch(number: Count) -> Array:
        order = jax.random.permutation(jax.random.fold_in(jax.random.fold_in(key, ORDER_KEY), number), num_rows)
        return order[: num_batches * batch_size].reshape(num_batches, batch_size)

    return lax.map(epoch, first_epoch + jnp.arange(num_epochs)).reshape(num_epochs * num_batches, batch_size)
