"""An ensemble of networks as one ONNX graph: from rows in the user's units to means and standard deviations.

The weights of all networks are stacked, so that each layer is one product. Everything is in single precision but the
scaling of inputs and targets, which is in double precision, as in the library.
"""

import importlib
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet import __version__
from ergonet._errors import CapabilityError
from ergonet._types import AnyArray, Array
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.draws.quantities import draw_weights
from ergonet.draws.samples import Samples
from ergonet.models.likelihood import AbstractHeteroscedastic, Gaussian, HeteroscedasticStudentT
from ergonet.models.likelihoods.classes import Bernoulli, Categorical
from ergonet.models.network import DIRECT, MLP
from ergonet.models.network_posterior import BayesianNetwork

OPSET, FORMAT = 20, 10  # versions of the operators and of the file, of 2023 and 2024
MOST_BYTES = 2**31 - 2**20  # of a file
_SIMPLE = {"tanh": "Tanh", "relu": "Relu", "sigmoid": "Sigmoid", "softplus": "Softplus"}


def onnx_model(model: BayesianNetwork, samples: Samples, preprocessing: Preprocessing) -> Any:
    """An ensemble as an ONNX model.

    Its input is `x`, Float64 [rows, features], with the columns of `preprocessing.feature_names`. Its outputs are, for
    numbers, `mean` and `sd`, Float64 [rows, targets], in the units of the target; for classes, `probabilities`, Float32
    [rows, classes], and `sd`, their standard deviation over networks. All networks are evaluated at once, so memory is
    in proportion to rows x networks x the units of the widest layer.

    Raises:
        CapabilityError: `onnx` is not installed, or the network, the likelihood or a column cannot be exported.
    """
    _require_exportable(model, preprocessing)
    graph = _Graph(_onnx())
    weights = draw_weights(samples).reshape(-1)
    positions = np.asarray(samples.positions[...]).reshape(weights.size, -1)[weights > 0]
    if positions.nbytes > MOST_BYTES:
        raise CapabilityError(
            f"An ONNX file has at most 2 GiB, but the weights take {positions.nbytes / 2**30:.1f} GiB. Export "
            f"`model.compress(k, X)` instead."
        )
    shares = weights[weights > 0].astype(np.float64)
    graph.shares = graph.constant((shares / shares.sum()).astype(np.float32)[:, None, None])
    named, own = _split(model, jnp.asarray(positions))
    assert isinstance(model.network, MLP)  # as `_require_exportable` has checked
    outputs = _forward(graph, model.network, jax.tree.map(np.asarray, named), _scaled(graph, preprocessing))
    mean, noise = _conditional(graph, model, outputs, own)
    average = graph.average(mean)
    away = graph.add("Sub", mean, average)
    spread = graph.average(graph.add("Mul", away, away))
    if model.likelihood.is_classification:
        graph.output("probabilities", _stated(graph, model, average), np.float32)
        graph.output("sd", graph.add("Sqrt", spread), np.float32)
    else:
        total = graph.add("Sqrt", graph.add("Add", spread, graph.average(noise)))
        sd = graph.add("Mul", graph.double(total), graph.constant(preprocessing.target_sd[:, None]))
        scaled = graph.add("Mul", graph.double(average), graph.constant(preprocessing.target_sd[:, None]))
        graph.output("mean", graph.add("Add", scaled, graph.constant(preprocessing.target_mean[:, None])), np.float64)
        graph.output("sd", sd, np.float64)
    about = {
        "producer": f"Ergonet {__version__}",
        "networks": str(len(positions)),
        "features": ", ".join(preprocessing.feature_names),
        "targets": ", ".join(preprocessing.target_names),
        "classes": ", ".join(map(str, preprocessing.classes)),
    }
    return graph.model(about, features=len(preprocessing.feature_names))


def _onnx() -> Any:
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise CapabilityError("Exporting needs onnx. Install it: `pip install onnx`.") from error


def _require_exportable(model: BayesianNetwork, preprocessing: Preprocessing) -> None:
    """Raise `CapabilityError`, with what to do, if a part has no counterpart in a graph."""
    if not isinstance(model.network, MLP):
        raise CapabilityError(
            f"Only an `MLP` can be exported, this is a {type(model.network).__name__}. Serve it: `ergonet serve`."
        )
    if not isinstance(model.likelihood, Gaussian | AbstractHeteroscedastic | Categorical | Bernoulli):
        raise CapabilityError(
            f"The likelihood {type(model.likelihood).__name__} cannot be exported; Gaussian, HeteroscedasticGaussian, "
            f"HeteroscedasticStudentT, Categorical and Bernoulli can. Serve it: `ergonet serve`."
        )
    if preprocessing.target_transform is not None:
        raise CapabilityError(
            f"The target is transformed by {preprocessing.target_transform.name!r}, which the graph does not have. "
            f"Serve it: `ergonet serve`."
        )
    if preprocessing.encoded:
        raise CapabilityError(
            f"Columns that are not plain numbers cannot be exported: {', '.join(map(repr, preprocessing.encoded))}. "
            f"Serve the run: `ergonet serve`."
        )


@eqx.filter_jit
def _split(model: BayesianNetwork, positions: Array) -> tuple[Any, Any]:
    """Weights of the network and parameters of the likelihood of all draws, by name."""
    return jax.lax.map(model.split, positions)


class _Graph:
    """Nodes and constants of a graph that is being built; values are known by their names."""

    def __init__(self, onnx: Any):
        self._onnx, self._nodes, self._constants, self._outputs = onnx, list[Any](), list[Any](), list[Any]()
        self.shares = ""

    def constant(self, values: AnyArray) -> str:
        """A constant array."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def number(self, value: Any) -> str:
        """A constant of single precision."""
        return self.constant(np.array(value, np.float32))

    def add(self, operator: str, *inputs: str, attributes: dict[str, Any] | None = None) -> str:
        """The value of an operator."""
        name = f"value_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, list(inputs), [name], **(attributes or {})))
        return name

    def average(self, values: str) -> str:
        """The weighted mean over networks, which are the first axis."""
        weighted = self.add("Mul", values, self.shares)
        axes = self.constant(np.array([0], np.int64))
        return self.add("ReduceSum", weighted, axes, attributes={"keepdims": 0})

    def double(self, value: str) -> str:
        """The value in double precision."""
        return self.add("Cast", value, attributes={"to": self._onnx.TensorProto.DOUBLE})

    def single(self, value: str) -> str:
        """The value in single precision."""
        return self.add("Cast", value, attributes={"to": self._onnx.TensorProto.FLOAT})

    def output(self, name: str, value: str, dtype: type) -> None:
        """An output `[rows, columns]` from a value `[columns, rows]`."""
        self._nodes.append(self._onnx.helper.make_node("Transpose", [value], [name], perm=[1, 0]))
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, kind, ["rows", None]))

    def model(self, about: dict[str, str], *, features: int) -> Any:
        """The finished model, checked."""
        helper = self._onnx.helper
        x = helper.make_tensor_value_info("x", self._onnx.TensorProto.DOUBLE, ["rows", features])
        graph = helper.make_graph(self._nodes, "ensemble", [x], self._outputs, self._constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=FORMAT)
        made.producer_name, made.producer_version = "ergonet", __version__
        helper.set_model_props(made, about)
        self._onnx.checker.check_model(made)
        return made


def _scaled(graph: _Graph, preprocessing: Preprocessing) -> str:
    """Scaled inputs `[features, rows]`."""
    kept = [preprocessing.feature_names.index(name) for name in preprocessing.kept]
    used = graph.add("Gather", "x", graph.constant(np.array(kept, np.int64)), attributes={"axis": 1})
    centered = graph.add("Sub", used, graph.constant(preprocessing.feature_mean))
    scaled = graph.single(graph.add("Div", centered, graph.constant(preprocessing.feature_sd)))
    scaled = scaled if preprocessing.log_beyond is None else _damped(graph, scaled, preprocessing.log_beyond)
    return graph.add("Transpose", scaled, attributes={"perm": [1, 0]})


def _damped(graph: _Graph, scaled: str, beyond: float) -> str:
    """`datasets.tails.damped`: values clipped to `beyond`, and the logarithm of what is above it."""
    low, high, one = map(graph.number, (-beyond, beyond, 1.0))
    near = graph.add("Clip", scaled, low, high)
    above = graph.add("Sub", scaled, near)
    logs = graph.add("Log", graph.add("Add", graph.add("Abs", above), one))
    return graph.add("Add", near, graph.add("Mul", graph.add("Sign", above), logs))


def _forward(graph: _Graph, network: MLP, weights: dict[str, np.ndarray], inputs: str) -> str:
    """Outputs `[network, out, rows]`."""
    values = inputs
    for layer in range(len(network.sizes) - 1):
        values = _activated(graph, network.activation, values) if layer else values
        values = graph.add("MatMul", graph.constant(weights[f"layers.{layer}.weight"]), values)
        if network.bias:
            values = graph.add("Add", values, graph.constant(weights[f"layers.{layer}.bias"][:, :, None]))
    if network.direct:
        values = graph.add("Add", values, graph.add("MatMul", graph.constant(weights[DIRECT]), inputs))
    return values


def _activated(graph: _Graph, name: str, values: str) -> str:
    if name == "silu":
        return graph.add("Mul", values, graph.add("Sigmoid", values))
    if name == "gelu":
        return graph.add("Gelu", values, attributes={"approximate": "tanh"})
    return graph.add(_SIMPLE[name], values)


def _conditional(graph: _Graph, model: BayesianNetwork, outputs: str, own: Any) -> tuple[str, str]:
    """Mean and noise variance of each network, `[network, targets, rows]`; no variance for classes."""
    likelihood = model.likelihood
    if isinstance(likelihood, Categorical):
        return graph.add("Softmax", outputs, attributes={"axis": 1}), ""
    if isinstance(likelihood, Bernoulli):
        sides = [graph.add("Sigmoid", graph.add("Neg", outputs)), graph.add("Sigmoid", outputs)]
        return graph.add("Concat", *sides, attributes={"axis": 1}), ""
    if isinstance(likelihood, Gaussian):
        variance = np.asarray(likelihood.scale(own), np.float32).reshape(-1, 1, 1) ** 2
        return outputs, graph.constant(variance)  # one for all networks, or one for each
    assert isinstance(likelihood, AbstractHeteroscedastic)
    assert isinstance(model.network, MLP)  # as `_require_exportable` has checked
    targets = model.network.sizes[-1]
    mean, log_precision = (_part(graph, outputs, start, targets // 2) for start in (0, targets // 2))

    def of_targets(values: Any) -> str:
        return graph.constant(np.broadcast_to(np.asarray(values, np.float32), (targets // 2,))[:, None])

    precision = graph.add("Exp", log_precision)
    if likelihood.ceiling is not None:
        precision = graph.add("Add", precision, of_targets(likelihood.ceiling**-2.0))
    noise = graph.add("Reciprocal", precision)
    if likelihood.floor is not None:
        noise = graph.add("Add", noise, of_targets(likelihood.floor**2))
    if isinstance(likelihood, HeteroscedasticStudentT):
        noise = graph.add("Add", noise, noise)  # of the squared scale, the variance is twice as much
    if likelihood.reach is not None:
        reach = of_targets(likelihood.reach)
        near = graph.add("Max", graph.add("Min", mean, reach), of_targets(-likelihood.reach))
        share = graph.add("Div", reach, graph.add("Max", graph.add("Abs", mean), reach))
        mean = graph.add("Mul", near, graph.add("Sub", graph.number(2.0), share))
    return mean, noise


def _stated(graph: _Graph, model: BayesianNetwork, average: str) -> str:
    """Average probabilities `[classes, rows]` after the likelihood's temperature and label noise, if it has them."""
    if model.likelihood.calibration is None:
        return average
    assert isinstance(model.network, MLP)  # as `_require_exportable` has checked
    temperature, label_noise = map(float, model.likelihood.calibration)

    logs = graph.add("Log", graph.add("Max", average, graph.number(np.finfo(np.float32).tiny)))
    scaled = graph.add("Div", logs, graph.number(temperature))
    powers = graph.add("Softmax", scaled, attributes={"axis": 0})
    if label_noise == 0:
        return powers
    certain = graph.add("Mul", powers, graph.number(1 - label_noise))
    return graph.add("Add", certain, graph.number(label_noise / max(2, model.network.sizes[-1])))


def _part(graph: _Graph, values: str, start: int, count: int) -> str:
    """Some of the outputs of each network."""
    ends = [graph.constant(np.array([one], np.int64)) for one in (start, start + count, 1)]
    return graph.add("Slice", values, *ends)
