"""Convolutional networks: against loops over pixels, for every layout, and honest about which rows an output sees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits

import ergonet
from ergonet import likelihoods, priors
from ergonet._errors import CapabilityError, SettingError
from ergonet.models import convnet

pytestmark = pytest.mark.slow  # the whole file


def images(rows=5, shape=(6, 7, 3), seed=0):
    return np.random.default_rng(seed).normal(size=(rows, *shape)).astype(np.float32)


def weights_of(network, seed=1):
    random = np.random.default_rng(seed)
    return {path: jnp.asarray(random.normal(size=leaf.shape), jnp.float32) for path, leaf in network.leaves().items()}


def looped_convolution(values, weight):
    """Zeros around the image; with an even window the extra row and column of zeros come last."""
    rows, height, width, _ = values.shape
    out, _, tall, wide = weight.shape
    above, left = (tall - 1) // 2, (wide - 1) // 2
    found = np.zeros((rows, height, width, out))
    for row, y, x, channel in np.ndindex(found.shape):
        for dy, dx in np.ndindex(tall, wide):
            one, other = y + dy - above, x + dx - left
            if 0 <= one < height and 0 <= other < width:
                found[row, y, x, channel] += weight[channel, :, dy, dx] @ values[row, one, other]
    return found


def looped_group_norm(values, num_groups):
    found = np.zeros(values.shape)
    size = values.shape[3] // num_groups
    for row, group in np.ndindex(values.shape[0], num_groups):
        part = values[row, :, :, group * size : (group + 1) * size].astype(np.float64)
        centered = part - part.mean()
        found[row, :, :, group * size : (group + 1) * size] = centered / np.sqrt(np.mean(centered**2) + 1e-5)
    return found


def looped_pool(values, function):
    rows, height, width, depth = values.shape
    found = np.zeros((rows, height // 2, width // 2, depth))
    for row, y, x, channel in np.ndindex(found.shape):
        found[row, y, x, channel] = function(values[row, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2, channel])
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_convolution_is_the_loop_over_its_window(size):
    weight = np.random.default_rng(2).normal(size=(4, 3, size, size)).astype(np.float32)
    found = convnet._convolve(jnp.asarray(images()), jnp.asarray(weight))
    np.testing.assert_allclose(found, looped_convolution(images(), weight), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("pooling", "function"), [("max", np.max), ("mean", np.mean)])
def test_pooling_is_the_loop_over_windows_and_drops_the_odd_column(pooling, function):
    found = convnet._pool(jnp.asarray(images()), pooling)
    assert found.shape == (5, 3, 3, 3)
    np.testing.assert_allclose(found, looped_pool(images(), function), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("num_groups", [1, 2, 4])
def test_group_normalization_is_the_loop_over_rows_and_groups(num_groups):
    values = images(shape=(3, 4, 4)) + 2
    found = convnet._group_normalized(jnp.asarray(values), num_groups)
    np.testing.assert_allclose(found, looped_group_norm(values, num_groups), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("normalization", ["group", "batch", "none"])
def test_a_whole_network_is_its_parts_in_order(normalization):
    network = ergonet.ConvNet(
        (6, 7, 3), channels=(4, 6), hidden=(5,), num_outputs=2, normalization=normalization, num_groups=2
    )
    weights = {path: np.asarray(one) for path, one in weights_of(network).items()}
    values = images()
    for layer in range(2):
        values = looped_convolution(values, weights[f"layers.{layer}.weight"])
        if normalization == "none":
            values = values + weights[f"layers.{layer}.bias"]
        else:
            if normalization == "group":
                values = looped_group_norm(values, 2)
            else:
                values = (values - values.mean((0, 1, 2))) / np.sqrt(values.var((0, 1, 2)) + 1e-5)
            values = values * weights[f"layers.{layer}.scale"] + weights[f"layers.{layer}.shift"]
        values = looped_pool(np.tanh(values), np.max)
    flat = values.reshape(5, -1)
    hidden = np.tanh(flat @ weights["layers.2.weight"].T + weights["layers.2.bias"])
    expected = hidden @ weights["layers.3.weight"].T + weights["layers.3.bias"]
    found = network.apply(weights_of(network), jnp.asarray(network.prepare(images())))
    assert found.shape == (2, 5)
    np.testing.assert_allclose(found.T, expected, rtol=1e-3, atol=1e-3)


def test_leaves_have_shapes_and_fan_ins_in_order():
    leaves = ergonet.ConvNet((9, 8, 3), channels=(4, 8), kernel_size=5, hidden=(7,), num_outputs=10).leaves()
    assert {path: (leaf.shape, leaf.fan_in) for path, leaf in leaves.items()} == {
        "layers.0.weight": ((4, 3, 5, 5), 75),
        "layers.0.scale": ((4,), 1),
        "layers.0.shift": ((4,), 1),
        "layers.1.weight": ((8, 4, 5, 5), 100),
        "layers.1.scale": ((8,), 1),
        "layers.1.shift": ((8,), 1),
        "layers.2.weight": ((7, 32), 32),
        "layers.2.bias": ((7,), 1),
        "layers.3.weight": ((10, 7), 7),
        "layers.3.bias": ((10,), 1),
    }
    assert list(leaves)[:3] == ["layers.0.weight", "layers.0.scale", "layers.0.shift"]
    plain = ergonet.ConvNet((9, 8), channels=(2,), hidden=(), num_outputs=1, normalization="none", pooling="none")
    assert {path: leaf.shape for path, leaf in plain.leaves().items()} == {
        "layers.0.weight": (2, 1, 3, 3),
        "layers.0.bias": (2,),
        "layers.1.weight": (1, 144),
        "layers.1.bias": (1,),
    }


@pytest.mark.parametrize("normalization", ["group", "batch", "none"])
def test_layouts_and_flat_rows_agree(normalization):
    settings = {"num_outputs": 3, "channels": (4,), "hidden": (6,), "normalization": normalization}
    last, first = (ergonet.ConvNet((6, 7, 3), layout=layout, **settings) for layout in ("NHWC", "NCHW"))
    weights, x = weights_of(last), images()
    moved = x.transpose(0, 3, 1, 2)
    expected = last.apply(weights, jnp.asarray(last.prepare(x)))
    for network, given in (
        (last, x.reshape(5, -1)),
        (first, moved),
        (first, moved.reshape(5, -1)),
        (first, first.rows_first(jnp.asarray(first.prepare(moved)))),
        (last, last.rows_first(jnp.asarray(last.prepare(x)))),
    ):
        np.testing.assert_allclose(network.apply(weights, jnp.asarray(network.prepare(given))), expected, rtol=1e-6)
    gray = ergonet.ConvNet((6, 7), **settings)
    np.testing.assert_array_equal(gray.prepare(x[..., 0]), x[..., :1])


def outputs(network, x):
    return np.asarray(network.apply(weights_of(network), jnp.asarray(network.prepare(x))))


@pytest.mark.parametrize("normalization", ["group", "none", "reference"])
def test_a_row_is_a_function_of_the_weights_and_itself(normalization):
    kind = "batch" if normalization == "reference" else normalization
    network = ergonet.ConvNet((6, 7, 3), channels=(4, 4), num_outputs=3, normalization=kind)
    if normalization == "reference":
        network = network.with_reference(images(9, seed=4))
    assert not network.rows_interact
    whole = outputs(network, images())
    np.testing.assert_allclose(outputs(network, images()[2:3])[:, 0], whole[:, 2], rtol=1e-4, atol=1e-4)


def test_batch_statistics_make_rows_depend_on_each_other():
    network = ergonet.ConvNet((6, 7, 3), channels=(4, 4), num_outputs=3, normalization="batch")
    assert network.rows_interact
    assert np.abs(outputs(network, images()[:2])[:, 0] - outputs(network, images())[:, 0]).max() > 0.01
    same = network.with_reference(images())  # statistics of the very rows
    np.testing.assert_allclose(outputs(same, images()), outputs(network, images()), rtol=1e-4, atol=1e-4)
    assert same.leaves() == network.leaves()


@pytest.mark.parametrize("normalization", ["group", "batch", "none"])
@pytest.mark.parametrize("pooling", ["max", "mean", "none"])
def test_gradients_are_finite_and_right(normalization, pooling):
    network = ergonet.ConvNet(
        (4, 4), channels=(2,), hidden=(3,), num_outputs=2, normalization=normalization, num_groups=2, pooling=pooling
    )
    inputs, weights = jnp.asarray(network.prepare(images(3, (4, 4)))), weights_of(network)

    def loss(weights):
        return jnp.sum(jnp.sin(network.apply(weights, inputs)))

    with jax.enable_x64(True):
        exact = jax.tree.map(lambda one: jnp.asarray(one, jnp.float64), weights)
        gradient = jax.grad(loss)(exact)
        direction = weights_of(network, seed=9)
        step = 1e-5
        ends = [loss(jax.tree.map(lambda a, b, s=s: a + s * b, exact, direction)) for s in (step, -step)]
        slope = sum(jnp.vdot(gradient[path], direction[path].astype(float)) for path in gradient)
        assert all(bool(jnp.isfinite(one).all()) for one in gradient.values())
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"image_shape": (28,)}, "image_shape"),
        ({"image_shape": (28, 28, 0)}, r"image_shape=.*at least 1, got 0"),
        ({"channels": ()}, "channels"),
        ({"channels": (4, 0)}, r"channels=.*at least 1, got 0"),
        ({"channels": (4, 6)}, r"num_groups=4.*must divide every entry of `channels`, got 6"),
        ({"channels": (4, 4, 4, 4)}, r"channels=.*halves 8 x 8 pixels 4 times"),
        ({"kernel_size": 0}, "kernel_size"),
        ({"kernel_size": True}, "kernel_size"),
        ({"hidden": (5, 0)}, "hidden"),
        ({"num_outputs": -1}, "num_outputs"),
        ({"activation": "tahn"}, "Did you mean 'tanh'"),
        ({"normalization": "groups"}, r"normalization='groups'.*Did you mean 'group'"),
        ({"num_groups": 0}, "num_groups"),
        ({"pooling": "min"}, "pooling"),
        ({"layout": "NWHC"}, "layout"),
    ],
)
def test_settings_out_of_range_name_the_argument(settings, said):
    with pytest.raises(SettingError, match=said):
        ergonet.ConvNet(**({"image_shape": (8, 8), "num_outputs": 2} | settings))


def test_inputs_and_references_that_do_not_fit_are_refused():
    network = ergonet.ConvNet((6, 7, 3), num_outputs=2, layout="NCHW")
    with pytest.raises(SettingError, match=r"\[rows, 126\] or \[rows, 3, 6, 7\], got \[5, 6, 7, 3\]"):
        network.prepare(images())
    with pytest.raises(SettingError, match='is for `normalization="batch"`'):
        network.with_reference(images())
    with pytest.raises(SettingError, match="at least 2 rows, got 1"):
        ergonet.ConvNet((6, 7, 3), num_outputs=2, normalization="batch").with_reference(images(1))


def digits(rows):
    pixels, labels = load_digits(return_X_y=True)
    return (np.asarray(pixels)[:rows] / 16).astype(np.float32), np.asarray(labels)[:rows]


def small(normalization="group"):
    return ergonet.ConvNet(
        (8, 8), channels=(4, 4), hidden=(8,), num_outputs=10, normalization=normalization, num_groups=2
    )


def drawn(model, x, y, **settings):
    return ergonet.sample(
        model.condition(x, y),
        ergonet.HMC(num_steps=3),
        num_chains=1,
        num_warmup=5,
        num_draws=4,
        seed=0,
        progress=False,
        **settings,
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")
def test_digits_can_be_sampled_and_predicted():
    x, y = digits(60)
    model = ergonet.BayesianNetwork(small(), priors.FanInNormal(1.0), likelihoods.Categorical())
    samples = drawn(model, x, y)
    assert samples.parameters()["layers.1.weight"].shape == (1, 4, 4, 4, 3, 3)
    assert np.isfinite(samples.stats["lp"]).all()
    as_images = ergonet.predict(samples, x[:7].reshape(7, 8, 8))
    np.testing.assert_allclose(as_images.mean.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(ergonet.predict(samples, x).mean[:7], as_images.mean, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")
def test_batch_normalization_predicts_with_reference_rows_only():
    x, y = digits(60)
    network, rest = small("batch"), (priors.FanInNormal(1.0), likelihoods.Categorical())
    samples = drawn(ergonet.BayesianNetwork(network, *rest), x, y)
    with pytest.raises(CapabilityError, match="with_reference"):
        ergonet.predict(samples, x)
    fixed = ergonet.BayesianNetwork(network.with_reference(x[:30]), *rest)
    whole = ergonet.predict(samples, x, model=fixed).mean
    np.testing.assert_allclose(ergonet.predict(samples, x[40:41], model=fixed).mean[0], whole[40], rtol=1e-4, atol=1e-6)
    proper = drawn(fixed, x, y)  # a posterior in its own right
    assert np.isfinite(ergonet.predict(proper, x).mean).all()


def test_minibatches_of_a_convolutional_posterior_add_up():
    x, y = digits(60)
    model = ergonet.BayesianNetwork(small(), priors.FanInNormal(1.0), likelihoods.Categorical())
    target = model.condition(x, y)
    position = model.sample_prior(jax.random.key(0))
    inputs, targets = target.rows()
    parts = [target.minibatch_potential(position, (inputs[i : i + 20], targets[i : i + 20])) for i in (0, 20, 40)]
    np.testing.assert_allclose(np.mean(parts), target.potential(position), rtol=1e-5)


def test_patterns_reach_every_kind_of_leaf():
    patterns = {
        "layers.[01].weight": priors.FanInNormal(1.0),
        "*.scale": priors.Normal(0.3, mean=1.0),
        "*.shift": priors.Normal(0.1),
        "*": priors.FanInNormal(2.0),
    }
    model = ergonet.BayesianNetwork(small(), patterns, likelihoods.Categorical())
    weights, _ = model.split(model.sample_prior(jax.random.key(1)))
    assert {path: one.shape for path, one in weights.items()} == {p: leaf.shape for p, leaf in small().leaves().items()}
    assert abs(float(jnp.mean(weights["layers.0.scale"])) - 1) < 0.9
    with pytest.raises(SettingError, match=r"scale.*(matches no leaf|matches none)"):
        ergonet.BayesianNetwork(small("none"), patterns, likelihoods.Categorical())


def test_precisions_by_unit_are_those_of_output_channels():
    model = ergonet.BayesianNetwork(
        small(), {"*.weight": priors.NormalGamma(group="incoming"), "*": priors.Normal()}, likelihoods.Categorical()
    )
    shapes = {name: one.shape for name, one in model.scales(model.sample_prior(jax.random.key(0))).items()}
    assert shapes["layers.1.weight by incoming"] == (4,)
