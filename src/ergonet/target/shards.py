"""Rows divided over devices: every device has some of them, and each gradient is one sum over devices.

The rows are cut into parts that do not depend on the number of devices. In fixed order, every device computes its parts
one by one, all devices get the results of all parts, and each adds them up in the same order: the sum has the same bits
on any number of devices. In any order, a device computes all of its rows at once, and the sum is a single `psum`.

The devices may be those of several processes that `ergonet.distributed.initialize` has brought together. Between calls,
a process keeps records on a device of its own; in a call, which all processes make at the same time with the same
arguments, they are copies on all devices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ergonet._checks import is_integer
from ergonet._errors import SettingError
from ergonet._types import Array, Position, Scalar

ROWS = "rows"  # name of the axis of devices
ORDERS = ("fixed", "any")
NUM_PARTS = 8


@dataclass(frozen=True)
class RowShards:
    """Divides the rows of a target over devices, instead of giving each device chains of its own.

    Pass it to `sample` as `devices`. Chains advance one after the other on CPUs, and together on accelerators.

    Attributes:
        devices: how many of the devices that JAX sees, in all processes, or `jax.Device` objects; None: all of them.
        order: `"fixed"`: draws are the same, bit for bit, on 1, 2, 4 and 8 devices; `"any"`: a single `psum`, whose
            rounding depends on the number of devices.
        num_parts: number of parts of the rows in fixed order, a multiple of the number of devices; draws depend on it.
    """

    devices: int | Sequence[Any] | None = None
    order: str = "fixed"
    num_parts: int = NUM_PARTS

    def __post_init__(self):
        if self.order not in ORDERS:
            raise SettingError(f"`order` must be one of {', '.join(map(repr, ORDERS))}, got {self.order!r}.")
        if not is_integer(self.num_parts) or self.num_parts < 1:
            raise SettingError(f"`num_parts` must be an integer of at least 1, got {self.num_parts!r}.")
        object.__setattr__(self, "devices", self._found())
        count = len(self.found)
        if self.order == "fixed" and self.num_parts % count:
            raise SettingError(
                f"`num_parts={self.num_parts}` is not a multiple of {count} devices. Use as many devices as divide it, "
                f"or another number of parts, which has other draws."
            )

    def _found(self) -> tuple[Any, ...]:
        if isinstance(self.devices, Sequence) and not isinstance(self.devices, str):
            if not self.devices or not all(hasattr(device, "platform") for device in self.devices):
                raise SettingError(f"`devices` must contain at least one `jax.Device`, got {self.devices!r}.")
            return tuple(self.devices)
        seen = jax.devices()
        if self.devices is None:
            return tuple(seen)
        if not is_integer(self.devices) or self.devices < 1:
            raise SettingError(
                f"`devices` must be None, an integer of at least 1, or JAX devices, got {self.devices!r}."
            )
        return chosen_of(seen, self.devices)

    @property
    def found(self) -> tuple[Any, ...]:
        """The devices."""
        assert isinstance(self.devices, tuple)
        return self.devices

    def __reduce__(self) -> Any:
        return _received, (tuple(device.id for device in self.found), self.order, self.num_parts)

    @property
    def processes(self) -> frozenset[int]:
        """The processes that have these devices, by number."""
        return frozenset(device.process_index for device in self.found)

    @property
    def is_spread(self) -> bool:
        """Whether devices of other processes are among them."""
        return self.processes != frozenset([jax.process_index()])

    @property
    def own(self) -> tuple[Any, ...]:
        """Those of this process."""
        return tuple(device for device in self.found if device.process_index == jax.process_index())

    @property
    def platform(self) -> str:
        """The kind of the devices."""
        return self.found[0].platform

    @property
    def mesh(self) -> Mesh:
        """The devices as an axis."""
        return Mesh(np.asarray(self.found), (ROWS,))

    @property
    def everywhere(self) -> NamedSharding:
        """Where copies are on every device."""
        return NamedSharding(self.mesh, PartitionSpec())

    @property
    def by_part(self) -> NamedSharding:
        """Where every device has some entries of the first axis."""
        return NamedSharding(self.mesh, PartitionSpec(ROWS))

    @property
    def home(self) -> Any:
        """Where a process keeps records between calls: copies on every device, or its own device among several."""
        return self.own[0] if self.is_spread else self.everywhere

    def copies(self, tree: Any) -> Any:
        """The same tree with copies of its JAX arrays on every device."""
        arrays, rest = eqx.partition(tree, eqx.is_array)
        if not self.is_spread:
            return eqx.combine(jax.device_put(arrays, self.everywhere), rest)

        def copied(leaf: Any) -> Array:
            own = [jax.device_put(leaf, device) for device in self.own]
            return jax.make_array_from_single_device_arrays(leaf.shape, self.everywhere, own)

        return eqx.combine(jax.tree.map(copied, arrays), rest)

    def parts(self, data: Any) -> Any:
        """NumPy arrays `[part, ...]` with every part on its device."""
        if not self.is_spread:
            return jax.device_put(data, self.by_part)
        return jax.tree.map(
            lambda leaf: jax.make_array_from_callback(leaf.shape, self.by_part, lambda index: leaf[index]), data
        )

    def sent(self, tree: Any) -> Any:
        """What a process has between calls, as copies for a call."""
        return self.copies(tree) if self.is_spread else tree

    def kept(self, tree: Any) -> Any:
        """What a call returns, as a process has it between calls."""
        return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree) if self.is_spread else tree

    @property
    def num_shares(self) -> int:
        """Number of parts that the rows are cut into."""
        return self.num_parts if self.order == "fixed" else len(self.found)

    @property
    def rounding(self) -> str:
        """What the rounding of sums depends on, in words."""
        return f"{self.num_shares} parts in {self.order} order"

    def total(
        self, potential: Callable[[Position, Any, Any], Scalar], position: Position, same: Any, data: Any, *, most: Any
    ) -> Scalar:
        """The sum of the potentials of all parts; its derivative by the position is computed along with it.

        Args:
            potential: the potential of a part at a position, from what is the same for all parts and its own data.
            position: the position.
            same: arrays that are the same for all parts.
            data: arrays `[part, ...]`, divided over the devices.
            most: number of parts of each device, as an array: so the compiler does not know it, and makes the same loop
                for any number.
        """

        def both(position: Position, same: Any, data: Any, most: Any) -> Array:
            """The potential and its gradient as one vector, so that there is one sum over devices."""

            def of_part(index: Any) -> Array:
                part = jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, index, keepdims=False), data)
                value, gradient = jax.value_and_grad(potential)(position, same, part)
                return jnp.concatenate([value[None], gradient])

            if self.order == "any":
                return lax.psum(of_part(0), ROWS)
            blank = jnp.zeros((jax.tree.leaves(data)[0].shape[0], position.shape[0] + 1), position.dtype)
            found = lax.fori_loop(0, most, lambda index, rows: rows.at[index].set(of_part(index)), blank)
            return _in_order(lax.all_gather(found, ROWS, tiled=True))

        divided = jax.shard_map(
            both,
            mesh=self.mesh,
            in_specs=(PartitionSpec(), PartitionSpec(), PartitionSpec(ROWS), PartitionSpec()),
            out_specs=PartitionSpec(),
            check_vma=False,
        )

        @jax.custom_vjp
        def total(position: Position, same: Any, data: Any, most: Any) -> Scalar:
            return divided(position, same, data, most)[0]

        def forward(position: Position, same: Any, data: Any, most: Any) -> tuple[Scalar, Array]:
            found = divided(position, same, data, most)
            return found[0], found[1:]

        def backward(gradient: Array, change: Scalar) -> tuple[Array, None, None, None]:
            return change * gradient, None, None, None

        total.defvjp(forward, backward)
        return total(position, same, data, most)


def _received(numbers: tuple[int, ...], order: str, num_parts: int) -> RowShards:
    """The same devices, as another process knows them."""
    seen = {device.id: device for device in jax.devices()}
    return RowShards([seen[number] for number in numbers], order, num_parts)


def _in_order(parts: Array) -> Array:
    """The sum over the first axis, added from first to last."""
    found = parts[0]
    for index in range(1, parts.shape[0]):
        found = found + parts[index]
    return found


def chosen_of(seen: Sequence[Any], count: int) -> tuple[Any, ...]:
    """The first `count` of the devices that JAX sees.

    Raises:
        SettingError: there are not so many.
    """
    if count > len(seen):
        kind = seen[0].platform
        more = (
            " To have more on a CPU, `jax.config.update('jax_num_cpu_devices', N)` before JAX is used."
            if kind == "cpu"
            else ""
        )
        raise SettingError(f"`devices={count}`, but JAX sees {len(seen)} {kind} device{'s' * (len(seen) > 1)}.{more}")
    return tuple(seen[:count])
