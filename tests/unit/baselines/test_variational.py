"""Mean-field fits against optima in closed form, on all rows and on minibatches."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest

import ergonet
from ergonet import MLP, BayesianNetwork, Target, likelihoods, priors
from ergonet._errors import CapabilityError, DivergedError, SettingError
from ergonet.baselines import MeanFieldVariational
from tests.sampling import SCALES, gaussian_target

pytestmark = pytest.mark.slow  # the whole file

MEAN = np.array([1.0, -2.0, 0.5])
PRECISION = np.array([[2.0, 0.9, 0.0], [0.9, 1.0, -0.3], [0.0, -0.3, 0.5]])
X = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32) @ np.array([[1.0, 0.6], [0.0, 0.8]], np.float32)
Y = (X @ np.array([1.0, -0.5])).astype(np.float32)


class Correlated(eqx.Module):
    precision: jnp.ndarray

    def __call__(self, q):
        return -0.5 * (q - MEAN) @ self.precision @ (q - MEAN)


def correlated():
    return Target.from_logdensity(Correlated(jnp.asarray(PRECISION, jnp.float32)), jnp.zeros(3))


def regression():
    """Noise 0.5 and prior N(0, 1); the posterior's precision is I + X'X / 0.25."""
    return Target.from_terms(
        lambda w: -0.5 * jnp.sum(w**2),
        lambda w, rows: -0.5 * ((rows[1] - rows[0] @ w) / 0.5) ** 2,
        (X, Y),
        jnp.zeros(2),
    )


def program(x, y, batch):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", x.shape[0], subsample_size=batch) as i:
        numpyro.sample("y", dist.Normal(x[i] @ w, 0.5), obs=y[i])


def network(**settings):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 2)).astype(np.float32)
    model = BayesianNetwork(MLP((2, 4, 1)), priors.Normal(), likelihoods.Gaussian(noise=0.3))
    target = model.condition(x, np.sin(x[:, 0]))
    settings = {"num_epochs": 30, "batch_size": 8, "seed": 0, "num_draws": 20} | settings
    return target, MeanFieldVariational().fit(target, **settings)


@pytest.mark.parametrize("alpha", [1.0, 0.999])
def test_variances_at_the_optimum_are_inverse_diagonal_precisions(alpha):
    """Bishop 2006, section 10.1.2: the mean is right, variances are 1 / precision_ii; alpha near 1 is the ELBO."""
    fitted = MeanFieldVariational(alpha=alpha, num_particles=16).fit(correlated(), num_epochs=4000, seed=0)
    sd = np.diag(PRECISION) ** -0.5
    np.testing.assert_allclose(fitted.sds[-1], sd, rtol=0.02)
    np.testing.assert_allclose(fitted.means[-1] - MEAN, 0, atol=0.05)
    assert np.all(fitted.sds[-1] < 0.95 * np.sqrt(np.diag(np.linalg.inv(PRECISION))))  # not the true ones


def test_a_renyi_bound_of_small_order_is_wider_than_the_elbo():
    elbo, renyi = (
        MeanFieldVariational(alpha=alpha, num_particles=16).fit(correlated(), num_epochs=3000, seed=1)
        for alpha in (1.0, 0.01)
    )
    assert np.all(renyi.sds[-1] > 1.05 * elbo.sds[-1])


@pytest.mark.parametrize("alpha", [1.0, 0.5, 2.0])
def test_every_bound_is_tight_if_q_can_be_exact(alpha):
    fitted = MeanFieldVariational(alpha=alpha, num_particles=8).fit(
        gaussian_target(mean=1.0), num_epochs=3000, seed=2, num_draws=4000
    )
    np.testing.assert_allclose(fitted.sds[-1], SCALES, rtol=0.02)
    log_evidence = np.sum(np.log(SCALES)) + 0.5 * SCALES.size * np.log(2 * np.pi)
    np.testing.assert_allclose(fitted.loss[-1], -log_evidence, atol=0.05)
    draws = fitted.positions[0]
    assert np.all(np.abs(draws.mean(0) - 1) < 4 * SCALES / np.sqrt(4000) + 0.05 * SCALES)
    assert np.all(np.abs(draws.std(0) / SCALES - 1) < 4 / np.sqrt(8000) + 0.02)


@pytest.mark.parametrize(
    ("target", "batch"),
    [
        (regression, None),
        (regression, 20),
        (lambda: Target.from_numpyro(program, (X, Y, 20)), 20),
        (lambda: Target.from_numpyro(program, (X, Y, 20)), None),
    ],
)
def test_minibatches_give_the_same_q(target, batch):
    epochs = 4000 if batch is None else 1500
    fitted = MeanFieldVariational(num_particles=16, optimizer=0.02).fit(
        target(), num_epochs=epochs, batch_size=batch, seed=3
    )
    precision = np.eye(2) + X.T @ X / 0.25
    sd = np.diag(precision) ** -0.5
    np.testing.assert_allclose(fitted.sds[-1], sd, rtol=0.03)
    mean = np.linalg.solve(precision, X.T @ Y / 0.25)
    np.testing.assert_allclose((fitted.means[-1] - mean) / sd, 0, atol=0.1)
    assert fitted.gradients["warmup"] == 16 * epochs * (1 if batch is None else 3)


def test_an_optax_transformation_keeps_its_learning_rate():
    """Adam at a rate that falls by half a cosine, written with Optax, is the default."""
    given = MeanFieldVariational(optimizer=optax.adam(optax.cosine_decay_schedule(0.01, 500)))
    own = MeanFieldVariational(optimizer=0.01)
    fits = [one.fit(gaussian_target(), num_epochs=500, seed=4) for one in (given, own)]
    np.testing.assert_allclose(fits[0].means, fits[1].means, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fits[0].loss, fits[1].loss, rtol=1e-3, atol=1e-3)
    assert "Optax transformation" in fits[0].about["kernel_settings"]


def test_draws_give_predictions_and_scores_and_can_be_saved(tmp_path):
    target, fitted = network()
    x = np.linspace(-2, 2, 5)[:, None] * np.ones(2)
    prediction = ergonet.predict(fitted, x, y=np.sin(x[:, 0]), levels=())
    assert prediction.mean.shape == (5, 1)
    assert prediction.log_density is not None
    assert np.all(np.isfinite(prediction.log_density))
    assert fitted.positions.shape == (1, 20, target.dim)
    figures = fitted.diagnostics()
    assert not {"divergences", "mean_acceptance"} & set(figures)
    assert fitted.alarms() == []
    fitted.save(tmp_path / "draws")
    again = ergonet.load(tmp_path / "draws", target=target)
    np.testing.assert_array_equal(again.positions[...], fitted.positions)


def test_q_is_kept_every_few_epochs():
    _, whole = network(keep_every=12)
    assert whole.epochs.tolist() == [12, 24, 30]
    assert whole.loss.shape == (30,)
    np.testing.assert_array_equal(whole.at(30).positions, whole.positions)
    early = whole.at(12)
    assert early.loss.shape == (12,)
    assert not np.allclose(early.positions, whole.positions)
    np.testing.assert_array_equal(early.means[-1], whole.means[0])
    _, same = network()
    np.testing.assert_array_equal(same.positions, whole.positions)
    with pytest.raises(SettingError, match=r"only after \[12, 24, 30\]"):
        whole.at(5)


def test_other_data_and_learning_rates_do_not_recompile():
    traces = []

    def likelihood(w, rows):
        traces.append(1)
        return -0.5 * (rows - w[0]) ** 2

    def prior(w):
        return -0.5 * jnp.sum(w**2)

    def target(shift):
        return Target.from_terms(prior, likelihood, jnp.arange(12.0) + shift, jnp.zeros(1))

    first = MeanFieldVariational(optimizer=0.1).fit(target(0), num_epochs=500, batch_size=4, seed=0)
    before = len(traces)
    second = MeanFieldVariational(optimizer=0.2).fit(target(9), num_epochs=500, batch_size=4, seed=1)
    assert len(traces) == before
    assert second.means[-1] - first.means[-1] > 5


def test_a_diverging_fit_raises_an_error_that_says_what_to_do():
    with pytest.raises(DivergedError, match=r"not finite within \d+ epochs. Lower the learning rate"):
        MeanFieldVariational(optimizer=optax.sgd(100.0)).fit(correlated(), num_epochs=10**6, seed=0)
    nowhere = Target.from_logdensity(lambda q: jnp.sum(q) * jnp.nan, jnp.zeros(2))
    with pytest.raises(DivergedError, match=r"not finite at the start .*: the log density itself is nan"):
        MeanFieldVariational().fit(nowhere, num_epochs=10, seed=0)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"alpha": -0.1}, "`alpha` must be a finite number of at least 0"),
        ({"alpha": 0.5, "num_particles": 1}, "at least 2 for alpha 0.5"),
        ({"num_particles": 0}, "at least 1 for alpha 1"),
        ({"optimizer": 0.0}, "learning rate above 0"),
        ({"initial_sd": 0.0}, "`initial_sd` must be"),
    ],
)
def test_settings_out_of_range_are_rejected(settings, complaint):
    with pytest.raises(SettingError, match=complaint):
        MeanFieldVariational(**settings)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"num_epochs": 0}, "`num_epochs` must be an integer of at least 1"),
        ({"batch_size": 61}, "`batch_size` must be an integer of 1 to 60"),
        ({"batch_size": 0}, "`batch_size`"),
        ({"seed": 2**63}, "`seed`"),
        ({"num_draws": 0}, "`num_draws`"),
        ({"keep_every": 0}, "`keep_every`"),
        ({"init": np.zeros(3)}, r"`init` must have shape \[2\], got \[3\]"),
    ],
)
def test_arguments_out_of_range_are_rejected(settings, complaint):
    with pytest.raises(SettingError, match=complaint):
        MeanFieldVariational().fit(regression(), **({"num_epochs": 1, "seed": 0} | settings))


def test_minibatches_need_a_target_with_rows():
    with pytest.raises(CapabilityError, match="needs minibatches of rows: LogDensity offers no rows of data"):
        MeanFieldVariational().fit(gaussian_target(), num_epochs=1, batch_size=4, seed=0)
