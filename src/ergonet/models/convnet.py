"""Convolutional networks for images.

A convolutional layer consists of convolution, normalization, activation and pooling; dense layers follow. Internally,
images are `[rows, height, width, channels]`: convolutions do not benefit from having rows on the last axis.
"""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._errors import SettingError, suggest
from ergonet._types import AnyArray, Array, Float
from ergonet.models.network import AbstractNetwork, Leaf, Weights
from ergonet.models.registry import ACTIVATIONS

NORMALIZATIONS = ("group", "batch", "none")
POOLINGS = ("max", "mean", "none")
LAYOUTS = ("NHWC", "NCHW")
_EPSILON = 1e-5
_WINDOW = 2

Images = Float[Array, "rows height width channels"]
Seen = Float[Array, "reference height width channels"]  # values of the reference rows


class ConvNet(AbstractNetwork):
    """Convolutions with normalization and pooling, then dense layers with a linear output.

    Each entry of `channels` is a layer: a convolution with stride 1 that preserves height and width (zero padding),
    normalization, activation, and pooling over 2x2 windows with stride 2 (an odd last row or column is dropped). The
    result is flattened; `hidden` and the output are dense layers.

    Leaves are numbered from 0 through both kinds of layers. Convolutions have `layers.0.weight` `[out, in, height,
    width]` with `layers.0.scale` and `layers.0.shift` `[out]` of the normalization, or `layers.0.bias` `[out]` without
    normalization (the shift makes a bias redundant). Dense layers have `layers.2.weight` `[out, in]` and
    `layers.2.bias`. The scale is multiplicative; a separate prior around 1, as in
    ``{"*.scale": priors.Normal(0.3, mean=1.0), "*": priors.FanInNormal(1.0)}``, keeps channels active at the start (a
    minibatch run starts at a tenth of a prior draw; pass `init` there).

    **Normalization and posteriors.** ``"group"`` normalizes each row by its own statistics, so an output depends only
    on the weights and its row, as all formulas in Ergonet assume. ``"batch"`` normalizes by the statistics of all rows
    in the call. The likelihood of a row then depends on the other rows of its minibatch, so a minibatch sampler does
    not sample from a posterior, and predictions would depend on how rows are cut into chunks. Prediction therefore
    rejects such a network until `with_reference` has fixed the rows that supply the statistics. The resulting network
    has the same leaves and depends on weights and row only; it can be used for prediction, or also for sampling, which
    defines a proper posterior at the cost of one more pass over the reference rows. (Without reference rows,
    convergence is monitored with the statistics of the monitored rows, at most 20.) Source of reference batches:
    Salimans2016, section 3.5.
    """

    image_shape: tuple[int, int, int] = eqx.field(static=True)
    channels: tuple[int, ...] = eqx.field(static=True)
    kernel_size: int = eqx.field(static=True)
    hidden: tuple[int, ...] = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    normalization: str = eqx.field(static=True)
    num_groups: int = eqx.field(static=True)
    pooling: str = eqx.field(static=True)
    layout: str = eqx.field(static=True)
    reference: Array | None

    def __init__(
        self,
        image_shape: Sequence[int],
        *,
        num_outputs: int,
        channels: Sequence[int] = (16, 32),
        kernel_size: int = 3,
        hidden: Sequence[int] = (64,),
        activation: str = "tanh",
        normalization: str = "group",
        num_groups: int = 4,
        pooling: str = "max",
        layout: str = "NHWC",
    ):
        """Check and keep the settings.

        Args:
            image_shape: (height, width, channels) of an image, or (height, width) for one channel, in either layout.
            num_outputs: number of outputs, at least 1.
            channels: output channels of each convolution; at least one entry.
            kernel_size: height and width of the convolution kernels, at least 1.
            hidden: units of the dense layers before the output; may be empty.
            activation: name of the activation after every layer but the last.
            normalization: ``group``, ``batch`` or ``none``; see above.
            num_groups: number of groups of channels in group normalization; must divide each entry of `channels`.
            pooling: ``max``, ``mean`` or ``none``.
            layout: layout of the inputs: ``NHWC`` `[rows, height, width, channels]` or ``NCHW``
                `[rows, channels, height, width]`; either may be flattened to `[rows, features]`.

        Raises:
            SettingError: a setting is out of range or unknown, or pooling reduces the image to nothing.
        """
        sizes = _whole("image_shape", image_shape)
        if len(sizes) not in (2, 3):
            raise SettingError(
                f"`ConvNet(image_shape=...)` must be (height, width) or (height, width, channels), got {sizes}."
            )
        self.image_shape = (sizes[0], sizes[1], sizes[2] if len(sizes) == 3 else 1)
        self.channels = _whole("channels", channels)
        if not self.channels:
            raise SettingError(
                "`ConvNet(channels=...)` needs at least one convolution; without convolutions, use an `MLP`."
            )
        self.kernel_size, self.num_outputs = (
            _whole("kernel_size", (kernel_size,))[0],
            _whole("num_outputs", (num_outputs,))[0],
        )
        self.hidden = _whole("hidden", hidden)
        ACTIVATIONS.entry(activation)
        self.activation = activation
        self.normalization = _choice("normalization", normalization, NORMALIZATIONS)
        self.num_groups = _whole("num_groups", (num_groups,))[0]
        self.pooling = _choice("pooling", pooling, POOLINGS)
        self.layout = _choice("layout", layout, LAYOUTS)
        self.reference = None
        self._check_sizes()

    def _check_sizes(self) -> None:
        if self.normalization == "group":
            for count in self.channels:
                if count % self.num_groups:
                    raise SettingError(
                        f"`ConvNet(num_groups={self.num_groups})` must divide every entry of `channels`, got {count} "
                        f"in {self.channels}."
                    )
        if min(self._out_shape()) < 1:
            raise SettingError(
                f"`ConvNet(channels={self.channels})`: pooling halves {self.image_shape[0]} x {self.image_shape[1]} "
                f'pixels {len(self.channels)} times, which leaves nothing. Give fewer channels, or `pooling="none"`.'
            )

    def _out_shape(self) -> tuple[int, int]:
        """Height and width after all convolutions."""
        share = 1 if self.pooling == "none" else _WINDOW ** len(self.channels)
        return self.image_shape[0] // share, self.image_shape[1] // share

    @property
    def rows_interact(self) -> bool:
        return self.normalization == "batch" and self.reference is None

    def with_reference(self, x: AnyArray) -> "ConvNet":
        """Return the same network with batch statistics taken from the given rows instead of from each call.

        Args:
            x: inputs as `prepare` takes them, at least 2 rows; a few hundred training rows suffice. Every call also
                passes these rows through the network.

        Raises:
            SettingError: the normalization is not ``batch``, or `x` does not match the network.
        """
        if self.normalization != "batch":
            raise SettingError(
                f'`ConvNet.with_reference` is for `normalization="batch"`, not for {self.normalization!r}, which '
                "needs no reference rows."
            )
        if len(x) < 2:
            raise SettingError(f"`ConvNet.with_reference(x)` needs at least 2 rows, got {len(x)}.")
        reference = jnp.asarray(self.prepare(np.asarray(x)))
        return eqx.tree_at(lambda network: network.reference, self, reference, is_leaf=lambda leaf: leaf is None)

    def leaves(self) -> dict[str, Leaf]:
        found, fan_in = {}, self.image_shape[2]
        window = (self.kernel_size, self.kernel_size)
        for layer, out in enumerate(self.channels):
            found[f"layers.{layer}.weight"] = Leaf(shape=(out, fan_in, *window), fan_in=fan_in * math.prod(window))
            for name in ("bias",) if self.normalization == "none" else ("scale", "shift"):
                found[f"layers.{layer}.{name}"] = Leaf(shape=(out,), fan_in=1)
            fan_in = out
        fan_in *= math.prod(self._out_shape())
        for layer, out in enumerate((*self.hidden, self.num_outputs), start=len(self.channels)):
            found[f"layers.{layer}.weight"] = Leaf(shape=(out, fan_in), fan_in=fan_in)
            found[f"layers.{layer}.bias"] = Leaf(shape=(out,), fan_in=1)
            fan_in = out
        return found

    def prepare(self, x: AnyArray) -> Any:
        """Inputs `[rows, features]` or images in the layout, as `[rows, height, width, channels]`."""
        height, width, depth = self.image_shape
        full = (height, width, depth) if self.layout == "NHWC" else (depth, height, width)
        known = [(math.prod(full),), full] + ([(height, width)] if depth == 1 else [])
        if x.shape[1:] not in known:
            shapes = " or ".join(str(["rows", *shape]).replace("'", "") for shape in known)
            raise SettingError(
                f'`ConvNet(image_shape={self.image_shape}, layout="{self.layout}")` takes x of shape {shapes}, got '
                f"{list(x.shape)}."
            )
        images = x.reshape(x.shape[0], *full)
        return images if self.layout == "NHWC" else images.transpose(0, 2, 3, 1)

    def rows_first(self, inputs: Array) -> Array:
        return inputs if self.layout == "NHWC" else inputs.transpose(0, 3, 1, 2)

    def apply(self, weights: Weights, inputs: Array) -> Float[Array, "outputs rows"]:
        act = ACTIVATIONS.load(self.activation)
        values, seen = inputs, self.reference
        for layer in range(len(self.channels)):
            values = _convolve(values, weights[f"layers.{layer}.weight"])
            seen = None if seen is None else _convolve(seen, weights[f"layers.{layer}.weight"])
            values, seen = self._normalize(weights, layer, values, seen)
            values = _pool(act(values), self.pooling)
            seen = None if seen is None else _pool(act(seen), self.pooling)
        values = values.reshape(values.shape[0], -1).T
        first, last = len(self.channels), len(self.channels) + len(self.hidden)
        for layer in range(first, last + 1):
            values = weights[f"layers.{layer}.weight"] @ values + weights[f"layers.{layer}.bias"][:, None]
            values = act(values) if layer < last else values
        return values

    def _normalize(self, weights: Weights, layer: int, values: Images, seen: Seen | None) -> tuple[Images, Seen | None]:
        """Normalized values, and normalized values of the reference rows."""
        if self.normalization == "none":
            return values + weights[f"layers.{layer}.bias"], None
        scale, shift = weights[f"layers.{layer}.scale"], weights[f"layers.{layer}.shift"]
        if self.normalization == "group":
            return _group_normalized(values, self.num_groups) * scale + shift, None
        source = values if seen is None else seen
        mean = jnp.mean(source, axis=(0, 1, 2))
        factor = scale * lax.rsqrt(jnp.mean((source - mean) ** 2, axis=(0, 1, 2)) + _EPSILON)
        return (values - mean) * factor + shift, None if seen is None else (seen - mean) * factor + shift


def _convolve(
    values: Float[Array, "rows height width in"], weight: Float[Array, "out in kernel_height kernel_width"]
) -> Float[Array, "rows height width out"]:
    """Convolve as a matrix product of the weights with shifted copies of the images.

    XLA's own convolution is five times slower inside a compiled loop on a CPU, where samplers run.
    """
    dtype = jnp.result_type(values, weight)
    rows, height, width, depth = values.shape
    out, _, down, across = weight.shape
    before = (down - 1) // 2, (across - 1) // 2
    margins = ((0, 0), (before[0], down - 1 - before[0]), (before[1], across - 1 - before[1]), (0, 0))
    padded = jnp.pad(values.astype(dtype), margins)
    shifted = [padded[:, i : i + height, j : j + width] for i in range(down) for j in range(across)]
    patches = jnp.concatenate(shifted, axis=-1).reshape(-1, down * across * depth)
    matrix = weight.astype(dtype).transpose(2, 3, 1, 0).reshape(-1, out)
    return (patches @ matrix).reshape(rows, height, width, out)


def _group_normalized(values: Images, num_groups: int) -> Images:
    """Normalize each group of channels of each row to mean 0 and variance 1 (WuHe2018)."""
    grouped = values.reshape(*values.shape[:3], num_groups, -1)
    mean = jnp.mean(grouped, axis=(1, 2, 4), keepdims=True)
    centered = grouped - mean
    variance = jnp.mean(centered**2, axis=(1, 2, 4), keepdims=True)
    return (centered * lax.rsqrt(variance + _EPSILON)).reshape(values.shape)


def _pool(values: Images, pooling: str) -> Float[Array, "rows _ _ channels"]:
    """Maximum or mean of each 2x2 window, as reductions over whole axes, whose gradients need no search."""
    if pooling == "none":
        return values
    rows, height, width, depth = values.shape
    height, width = height // _WINDOW, width // _WINDOW
    kept = values[:, : height * _WINDOW, : width * _WINDOW]
    windows = kept.reshape(rows, height, _WINDOW, width, _WINDOW, depth)
    return jnp.max(windows, axis=(2, 4)) if pooling == "max" else jnp.mean(windows, axis=(2, 4))


def _whole(name: str, values: Any) -> tuple[int, ...]:
    try:
        found = tuple(values)
    except TypeError as error:
        raise SettingError(f"`ConvNet({name}=...)` must be a sequence of whole numbers, got {values!r}.") from error
    for value in found:
        if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
            raise SettingError(f"`ConvNet({name}=...)` must be a whole number of at least 1, got {value!r}.")
    return tuple(int(value) for value in found)


def _choice(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise SettingError(f"`ConvNet({name}={value!r})` is not known. {suggest(str(value), known)}")
    return value
