"""Exported graphs, read back by onnxruntime, against the predictions of the library."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from ergonet import MLP, BayesianNetwork, Samples, likelihoods, priors
from ergonet._errors import CapabilityError
from ergonet.datasets.learning import learn
from ergonet.prediction import onnx_graph
from ergonet.prediction.onnx_graph import onnx_model
from ergonet.prediction.predictive import predict
from tests.stages import cases

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:Dropped 1 constant column")
RNG = np.random.default_rng(0)
X = RNG.normal(3.0, 10.0, size=(40, 4))
X[:, 2] = 5.0  # left out
KINDS = {
    "known noise": (likelihoods.Gaussian(noise=0.2), "tanh", 2),
    "learned noise": (likelihoods.Gaussian(), "relu", 2),
    "noise by row": (likelihoods.HeteroscedasticGaussian(floor=[0.1, 0.3]), "silu", 4),
    "heavy tails": (likelihoods.HeteroscedasticStudentT(floor=0.1, ceiling=[0.5, 2.0], reach=[0.2, 1.0]), "silu", 4),
    "noise by row without a floor": (likelihoods.HeteroscedasticGaussian(), "sigmoid", 4),
    "classes": (likelihoods.Categorical(), "gelu", 3),
    "two classes": (likelihoods.Bernoulli(), "softplus", 1),
    "classes with a temperature": (likelihoods.Categorical(temperature=0.4), "silu", 3),
    "two classes with label noise": (likelihoods.Bernoulli(temperature=0.4, label_noise=0.1), "silu", 1),
}


@functools.cache
def problem(kind):
    likelihood, activation, outputs = KINDS[kind]
    network = MLP((3, 6, 5, outputs), activation=activation, direct=kind == "noise by row")
    model = BayesianNetwork(network, priors.Normal(0.7), likelihood)
    positions = np.asarray(jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(0), 24))).reshape(2, 12, -1)
    weights = RNG.uniform(size=(2, 12)).astype(np.float32)
    weights[0, 3] = 0.0
    samples = Samples(positions, {"weight": weights}, {}, {}, {}, {}, {})
    is_classes = likelihood.is_classification
    target = np.arange(40) % max(outputs, 2) if is_classes else RNG.normal(50.0, 7.0, size=(40, 2))
    names = ("y",) if is_classes else ("y", "z")
    columns = {f"x{index}": X[:, index] for index in range(4)}
    task = "classification" if is_classes else "regression"
    learned = learn(columns, target, task=task, target_names=names)
    return model, samples, dataclasses.replace(learned, log_beyond=1.0 if kind.startswith("classes") else None)


def run(made, x):
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, {"x": x}), strict=True))


@pytest.mark.parametrize("kind", cases(KINDS, quick=["noise by row"]))
def test_a_graph_agrees_within_rounding(kind):
    model, samples, preprocessing = problem(kind)
    new = RNG.normal(3.0, 10.0, size=(7, 4))
    found = run(onnx_model(model, samples, preprocessing), new)
    prediction = predict(samples, preprocessing.transform(new), model=model, levels=())
    if model.likelihood.is_classification:
        np.testing.assert_allclose(found["probabilities"], prediction.mean, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(found["sd"], prediction.function_sd, rtol=2e-4, atol=2e-6)
    else:
        sd = preprocessing.inverse_sd(prediction.sd)
        np.testing.assert_allclose(found["mean"], preprocessing.inverse_mean(prediction.mean), atol=1e-5 * sd.max())
        np.testing.assert_allclose(found["sd"], sd, rtol=2e-5)
    assert onnx_graph.OPSET == 20


def test_a_graph_says_what_it_is():
    made = onnx_model(*problem("noise by row"))
    about = {one.key: one.value for one in made.metadata_props}
    assert about["networks"] == "23"  # those of weight 0 are left out
    assert about["features"] == "x0, x1, x2, x3"
    assert about["targets"] == "y, z"


def test_what_has_no_counterpart_is_refused():
    model, samples, preprocessing = problem("noise by row")
    counts = BayesianNetwork(model.network, priors.Normal(0.7), likelihoods.Poisson())
    with pytest.raises(CapabilityError, match="The likelihood Poisson cannot be exported"):
        onnx_model(counts, samples, preprocessing)


def test_without_the_package_it_is_named(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(onnx_graph.importlib, "import_module", absent)
    with pytest.raises(CapabilityError, match=r"pip install onnx"):
        onnx_model(*problem("noise by row"))
