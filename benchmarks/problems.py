"""The problems on which all samplers are timed, with their density as users of other libraries write it.

Positions are flat: the weights of each layer `[in, out]`, row by row, followed by its biases, if any. Ergonet's
networks store weights as `[out, in]`; `to_ergonet` and `from_ergonet` convert.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

NUM_TEST_ROWS = 20
NUM_STARTS = 4
START_SEED = 20_000


@dataclass(frozen=True)
class Problem:
    """Data, a tanh network with the prior N(0, 1) on every weight, and initial positions.

    Attributes:
        name: `digits` (P1) or `regression` (P2).
        sizes: number of units of each layer, inputs first.
        has_bias: whether the layers have biases.
        noise: known standard deviation of the targets of a regression; None: classification with softmax.
        x: training inputs `[rows, features]`.
        y: training targets `[rows]`.
        x_test: inputs `[rows, features]` of the predictions whose ESS is reported.
        starts: draws from the prior, `[chain, dim]`.
    """

    name: str
    sizes: tuple[int, ...]
    has_bias: bool
    noise: float | None
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    starts: np.ndarray

    @property
    def dim(self) -> int:
        """Number of weights."""
        return sum(int(np.prod(shape)) for shape in layer_shapes(self.sizes, has_bias=self.has_bias))

    def save(self, path: Path) -> None:
        """Write the problem to one file, so that timed processes load only arrays."""
        noise = np.nan if self.noise is None else self.noise
        fields: dict[str, Any] = vars(self) | {"sizes": np.asarray(self.sizes), "noise": noise}
        np.savez(path, **fields)


def load(path: Path) -> Problem:
    """Load a problem written by `Problem.save`."""
    with np.load(path) as held:
        fields: dict[str, Any] = {name: held[name] for name in held.files}
    noise = float(fields["noise"])
    fields |= {
        "name": str(fields["name"]),
        "sizes": tuple(int(size) for size in fields["sizes"]),
        "has_bias": bool(fields["has_bias"]),
        "noise": None if np.isnan(noise) else noise,
    }
    return Problem(**fields)


def digits() -> Problem:
    """P1: 8x8 digits, first 500 rows, 64-35-10 tanh, no biases: 2590 weights."""
    from ergonet.datasets import load as load_dataset

    data = load_dataset("digits")
    rows = np.linspace(0, len(data.x_test) - 1, NUM_TEST_ROWS).astype(int)
    sizes = (64, 35, 10)
    return Problem(
        name="digits",
        sizes=sizes,
        has_bias=False,
        noise=None,
        x=np.asarray(data.x_train, np.float32),
        y=np.asarray(data.y_train, np.int32),
        x_test=np.asarray(data.x_test, np.float32)[rows],
        starts=_starts(sizes, has_bias=False),
    )


def regression() -> Problem:
    """P2: 1000 rows of a smooth function of 5 inputs, known noise 0.5, 5-20-20-1 tanh with biases: 561 weights."""
    source = np.random.default_rng(START_SEED + 2)
    x = source.standard_normal((1000 + NUM_TEST_ROWS, 5))
    mean = np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] - 0.3 * x[:, 3] ** 2 + 0.2 * x[:, 4]
    y = mean + 0.5 * source.standard_normal(len(x))
    sizes = (5, 20, 20, 1)
    return Problem(
        name="regression",
        sizes=sizes,
        has_bias=True,
        noise=0.5,
        x=x[:1000].astype(np.float32),
        y=y[:1000].astype(np.float32),
        x_test=x[1000:].astype(np.float32),
        starts=_starts(sizes, has_bias=True),
    )


PROBLEMS: Mapping[str, Callable[[], Problem]] = {"digits": digits, "regression": regression}


def _starts(sizes: tuple[int, ...], *, has_bias: bool) -> np.ndarray:
    dim = sum(int(np.prod(shape)) for shape in layer_shapes(sizes, has_bias=has_bias))
    return np.random.default_rng(START_SEED).standard_normal((NUM_STARTS, dim)).astype(np.float32)


def layer_shapes(sizes: tuple[int, ...], *, has_bias: bool) -> list[tuple[int, ...]]:
    """Shapes of the arrays in a position, in order."""
    shapes: list[tuple[int, ...]] = []
    for fan_in, out in itertools.pairwise(sizes):
        shapes.append((fan_in, out))
        if has_bias:
            shapes.append((out,))
    return shapes


def unravel(problem: Problem, position: Any) -> list[Any]:
    """Split flat JAX or NumPy positions `[..., dim]` into their arrays, which keep the leading axes."""
    parts, start = [], 0
    for shape in layer_shapes(problem.sizes, has_bias=problem.has_bias):
        size = int(np.prod(shape))
        parts.append(position[..., start : start + size].reshape(*position.shape[:-1], *shape))
        start += size
    return parts


def log_density(problem: Problem) -> Callable[[Any], Any]:
    """The log posterior density of a flat position in plain JAX, rows first."""
    import jax
    import jax.numpy as jnp

    x, y = jnp.asarray(problem.x), jnp.asarray(problem.y)
    rows = jnp.arange(len(problem.y))

    def density(position: Any) -> Any:
        outputs = _forward(problem, unravel(problem, position), x, jnp.tanh)
        if problem.noise is None:
            likelihood = jnp.sum(jax.nn.log_softmax(outputs)[rows, y])
        else:
            likelihood = -0.5 * jnp.sum(((y - outputs[:, 0]) / problem.noise) ** 2)
        return likelihood - 0.5 * jnp.sum(position**2)

    return density


def _forward(problem: Problem, parts: list[Any], x: Any, tanh: Callable[[Any], Any]) -> Any:
    per_layer = 2 if problem.has_bias else 1
    layers = [parts[i : i + per_layer] for i in range(0, len(parts), per_layer)]
    values = x
    for number, (weight, *bias) in enumerate(layers):
        values = (tanh(values) if number else values) @ weight
        if bias:
            values = values + bias[0]
    return values


def predictions(problem: Problem, positions: np.ndarray) -> np.ndarray:
    """Log probabilities (means for a regression) at the test rows, `[chain, draw, quantity]`, in float64."""
    found = []
    for chain in positions:
        parts = [part if part.ndim > 2 else part[:, None, :] for part in unravel(problem, chain.astype(np.float64))]
        outputs = _forward(problem, parts, problem.x_test.astype(np.float64), np.tanh)
        if problem.noise is None:
            shifted = outputs - outputs.max(axis=-1, keepdims=True)
            outputs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        found.append(outputs.reshape(len(chain), -1))
    return np.stack(found)


def to_ergonet(problem: Problem, positions: np.ndarray) -> np.ndarray:
    """Reorder positions `[..., dim]` for `ergonet.MLP`."""
    parts = unravel(problem, positions)
    flat = [_transposed(part, positions.ndim).reshape(*positions.shape[:-1], -1) for part in parts]
    return np.concatenate(flat, axis=-1)


def from_ergonet(problem: Problem, positions: np.ndarray) -> np.ndarray:
    """Reorder positions `[..., dim]` of `ergonet.MLP`; the inverse of `to_ergonet`."""
    parts, start = [], 0
    for shape in layer_shapes(problem.sizes, has_bias=problem.has_bias):
        size = int(np.prod(shape))
        part = positions[..., start : start + size].reshape(*positions.shape[:-1], *shape[::-1])
        parts.append(_transposed(part, positions.ndim).reshape(*positions.shape[:-1], size))
        start += size
    return np.concatenate(parts, axis=-1)


def _transposed(part: np.ndarray, position_ndim: int) -> np.ndarray:
    is_weight = part.ndim == position_ndim + 1
    return np.swapaxes(part, -1, -2) if is_weight else part


def ergonet_target(problem: Problem, prior: Any = None) -> Any:
    """The posterior as an Ergonet target, with a prior other than N(0, 1) if one is given."""
    import ergonet

    likelihoods: Any = ergonet.likelihoods
    is_regression = problem.noise is not None
    likelihood = likelihoods.Gaussian(noise=problem.noise) if is_regression else likelihoods.Categorical()
    network = ergonet.MLP(problem.sizes, activation="tanh", bias=problem.has_bias)
    model = ergonet.BayesianNetwork(network, prior or ergonet.priors.Normal(1.0), likelihood)
    return model.condition(problem.x, problem.y, reference=problem.x_test)
