"""One kernel after another, and rows that stay on the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import MLP, NUTS, SGHMC, SGLD, SGNUTS, BayesianNetwork, SequentialKernel, likelihoods, priors
from ergonet._errors import CapabilityError, DataError, DivergedError, SettingError
from ergonet.baselines import MeanFieldVariational
from ergonet.samplers.stochastic.base import Pace

pytestmark = pytest.mark.slow  # the whole file


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    return x, (x[:, 0] * x[:, 1] + 0.1 * rng.normal(size=60)).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    return BayesianNetwork(MLP((3, 4, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=0.3))


def run(target, kernel, **settings):
    chosen = {"num_chains": 2, "num_warmup": 5, "num_draws": 20, "seed": 4, "progress": False} | settings
    return ergonet.sample(target, kernel, **chosen)


def test_a_sequential_kernel_is_the_first_kernel_and_then_the_second(rows, model):
    target = model.condition(*rows)
    first, second = SGLD(learning_rate=1e-4, batch_size=20), SGHMC(learning_rate=3e-4, batch_size=20)
    kernel = SequentialKernel(first, second, after=2)
    key, position, rate = jax.random.key(0), target.initial_position(jax.random.key(1)), jnp.asarray(1e-4)
    batch = jax.tree.map(lambda leaf: leaf[:20], target.rows())
    state, alone = kernel.init(key, target, position, rate), first.init(key, target, position, rate)
    for number in range(2):
        pace = Pace(rate, jnp.asarray(number))
        state, _ = kernel.step(jax.random.fold_in(key, number), target, state, batch, pace)
        alone, _ = first.step(jax.random.fold_in(key, number), target, alone, batch, pace)
        np.testing.assert_allclose(state.position, alone.position, rtol=1e-5, atol=1e-7)
    reached = state.position
    state, info = kernel.step(jax.random.fold_in(key, 2), target, state, batch, Pace(rate, jnp.asarray(2)))
    assert np.isfinite(info.values()["kinetic_temperature"])  # the second has a momentum, the first has none
    moved = np.asarray(state.position - reached)
    assert 0 < np.abs(moved).max() < 1  # from where the first had come to, not from the start
    assert np.abs(np.asarray(reached - position)).max() > 0
    gradient = jax.grad(target.minibatch_potential)(reached, batch)
    later = Pace(jnp.asarray(3e-4), jnp.asarray(0))  # with its own learning rate, and its own count of steps
    begun = second.init(jax.random.fold_in(jax.random.fold_in(key, 2), 0x5BE0CD19), target, reached, later.step_size)
    other, _ = second.step(jax.random.fold_in(key, 2), target, begun, batch, later)
    np.testing.assert_allclose(state.position, other.position, rtol=1e-5, atol=1e-7)
    assert np.all(np.isfinite(gradient))


def test_a_sequential_kernel_runs_and_counts_what_each_kernel_costs(rows, model):
    tree = SGNUTS(learning_rate=1e-4, batch_size=20, max_doublings=3)
    found = run(model.condition(*rows), SequentialKernel(tree, SGHMC(learning_rate=1e-4, batch_size=20), after=9))
    gradients = found.curve["gradients"]
    assert np.all(gradients[:, :3] > 3)
    assert np.all(gradients[:, 3:] == 3)


def test_kernels_of_a_sequential_kernel_must_go_together():
    with pytest.raises(SettingError, match="same `batch_size`, got 100 and 50"):
        SequentialKernel(SGLD(), SGHMC(batch_size=50), after=3)
    with pytest.raises(SettingError, match=r"`SequentialKernel\(after=...\)` must be an integer of at least 1, got 0"):
        SequentialKernel(SGLD(), SGHMC(), after=0)
    with pytest.raises(SettingError, match=r"the second kernel has a learning rate, 0\.1, but the first has none"):
        SequentialKernel(SGLD(), SGHMC(learning_rate=0.1), after=3)


def test_a_sequential_kernel_that_runs_away_names_the_rate_that_is_set(rows, model):
    wild = SequentialKernel(SGLD(learning_rate=1e3, batch_size=20), SGHMC(learning_rate=1e3, batch_size=20), after=900)
    with pytest.raises(DivergedError, match=r"`SequentialKernel\(SGLD\(learning_rate=1e\+03\), \.\.\.\)` is too large"):
        run(model.condition(*rows), wild)


def test_streamed_rows_give_the_same_posterior(rows, model, tmp_path):
    x, y = rows
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    streamed, whole = ergonet.stream(model, mapped, y), model.condition(x, y)
    position = whole.initial_position(jax.random.key(2))
    batch = jax.tree.map(lambda leaf: leaf[10:20], whole.rows())
    np.testing.assert_array_equal(
        streamed.minibatch_potential(position, batch), whole.minibatch_potential(position, batch)
    )
    for one, other in zip(streamed.rows(), whole.rows(), strict=True):
        np.testing.assert_array_equal(one, other)
    calm = SGHMC(learning_rate=1e-4, momentum_decay=0.5, batch_size=20)
    found = run(streamed, calm, num_draws=400)
    same = run(whole, calm, num_draws=400)
    one, other = (each.monitor().mean(axis=(0, 1)) for each in (found, same))
    assert np.abs(one - other).mean() < 0.2 * np.std(one)
    assert ergonet.predict(found, x).mean.shape == (60, 1)


def test_streamed_rows_are_refused_where_all_of_them_are_needed(rows, model):
    streamed = ergonet.stream(model, *rows)
    with pytest.raises(CapabilityError, match="Use a minibatch kernel such as"):
        ergonet.sample(streamed, NUTS(), num_chains=1, num_warmup=2, num_draws=2, seed=0, progress=False)
    with pytest.raises(CapabilityError, match="must not be streamed"):
        MeanFieldVariational().fit(streamed, num_epochs=1, batch_size=10, seed=0)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x, y: (x.tolist(), y), "`x` must be a floating-point NumPy array"),
        (lambda x, y: (x, np.where(y > 0, "high", "low")), "`y` must have numbers"),
        (lambda x, y: (x, y[:-1]), r"`x` has 60 rows, but `y` has shape \[59\]"),
        (lambda x, y: (np.where(np.arange(60)[:, None] == 7, np.nan, x), y), "`x` contains NaN .* first at row 7"),
        (lambda x, y: (x, np.where(np.arange(60) == 9, np.inf, y)), "`y` contains NaN .* first at row 9"),
    ],
)
def test_bad_rows_are_named(rows, model, spoil, message):
    with pytest.raises(DataError, match=message):
        ergonet.stream(model, *spoil(*rows))
