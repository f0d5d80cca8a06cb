"""Leave-one-out, WAIC and held-out densities, against closed forms of a linear network under Gaussian noise."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.model_selection import KFold, LeaveOneGroupOut

import ergonet
from ergonet import MLP, NUTS, BayesianNetwork, Samples, comparison, likelihoods, priors
from ergonet._errors import CapabilityError, DataError, EstimateError
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.draws import quantities

NOISE, SCALE, ROWS = 0.5, 1.3, 40
MODEL = BayesianNetwork(MLP((3, 1)), priors.Normal(SCALE), likelihoods.Gaussian(noise=NOISE))


def data():
    rng = np.random.default_rng(9)
    x = rng.normal(size=(ROWS, 3))
    y = x @ [1.0, -0.5, 0.2] + 0.3 + NOISE * rng.normal(size=ROWS)
    return x.astype(np.float32), y.astype(np.float32)


def posterior(x, y):
    """Mean and covariance of the weights and the bias."""
    columns = np.column_stack([x, np.ones(len(x))]).astype(np.float64)
    covariance = np.linalg.inv(columns.T @ columns / NOISE**2 + np.eye(4) / SCALE**2)
    return covariance @ columns.T @ y / NOISE**2, covariance


def exact(x, y, new, targets):
    """Log predictive densities of new rows."""
    mean, covariance = posterior(x, y)
    columns = np.column_stack([new, np.ones(len(new))]).astype(np.float64)
    variance = np.einsum("ij,jk,ik->i", columns, covariance, columns) + NOISE**2
    return stats.norm.logpdf(targets, columns @ mean, np.sqrt(variance))


def drawn(x, y, *, num_draws=1000, conditioned=True):
    """Independent draws of the posterior, as a run of four chains."""
    mean, covariance = posterior(x, y)
    positions = np.random.default_rng(2).multivariate_normal(mean, covariance, (4, num_draws)).astype(np.float32)
    target = MODEL.condition(x, y) if conditioned else None
    return Samples(positions, {}, {}, {}, {}, {}, {}, target)


@pytest.fixture(scope="module")
def run():
    return drawn(*data())


@pytest.fixture(scope="module")
def found(run):
    return comparison.loo(run)


def test_loo_is_that_of_exact_fits_without_each_row(found):
    x, y = data()
    truth = [exact(np.delete(x, row, 0), np.delete(y, row), x[[row]], y[[row]])[0] for row in range(ROWS)]
    scores = (found.pointwise - truth) / found.monte_carlo_error
    assert np.abs(scores).max() < 4, scores  # 40 rows
    assert np.abs(found.value - np.sum(truth)) < 4 * np.sqrt(np.sum(found.monte_carlo_error**2))
    assert found.monte_carlo_error.max() < 0.02
    assert not found.unreliable.any()
    assert 3 < found.num_parameters < 5  # four weights
    assert found.error == pytest.approx(np.sqrt(ROWS * np.var(found.pointwise, ddof=1)))


def test_chunks_of_rows_give_what_all_rows_give(run, found, monkeypatch):
    monkeypatch.setattr(quantities, "ROW_CHUNK", 16)
    again = comparison.loo(run)
    for name in ("pointwise", "pareto_k", "parameters", "observed"):
        np.testing.assert_allclose(getattr(again, name), getattr(found, name), rtol=1e-4, atol=1e-5)


def test_no_chunk_has_more_rows_than_its_limit(run, monkeypatch):
    monkeypatch.setattr(quantities, "ROW_CHUNK", 16)
    assert [one.shape for one in quantities.log_likelihoods(run)] == [(4, 1000, 16), (4, 1000, 16), (4, 1000, 8)]


def test_waic_is_computed_directly(run):
    x, y = data()
    found = comparison.waic(run)
    weights = run.positions.reshape(-1, 4).astype(np.float64)
    density = stats.norm.logpdf(y, weights @ np.column_stack([x, np.ones(ROWS)]).T, NOISE)
    direct = np.log(np.exp(density).mean(axis=0)) - density.var(axis=0, ddof=1)
    np.testing.assert_allclose(found.pointwise, direct, rtol=1e-4)
    assert found.num_parameters == pytest.approx(density.var(axis=0, ddof=1).sum(), rel=1e-4)


def test_densities_are_in_units_of_the_table(run, found):
    """A table with the target times 10 has densities that are smaller by the factor 10, and its own targets."""
    plain = {"feature_mean": np.zeros(3), "feature_sd": np.ones(3), "classes": (), "dropped": ()}
    scaling = Preprocessing(
        task="regression", feature_names=("a", "b", "c"), target_names=("y",), target_mean=np.zeros(1),
        target_sd=np.full(1, 10.0), **plain,
    )  # fmt: skip
    scaled = comparison.loo(SimpleNamespace(samples=run, model=MODEL, preprocessing=scaling))
    np.testing.assert_allclose(scaled.pointwise, found.pointwise - np.log(10), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(scaled.observed), 10 * np.asarray(found.observed))
    x, y = data()
    loaded = SimpleNamespace(samples=drawn(x, y, conditioned=False), model=MODEL, preprocessing=scaling)
    again = comparison.loo(loaded, x, 10 * y)
    np.testing.assert_allclose(again.pointwise, scaled.pointwise, rtol=1e-4, atol=1e-5)
    with pytest.raises(CapabilityError, match=r"comparison.loo\(estimator, x, y\)"):
        comparison.loo(loaded)
    with pytest.raises(DataError, match="or neither"):
        comparison.loo(loaded, x)


def test_held_out_rows_have_their_predictive_density(run):
    x, y = data()
    new, targets = x[::-1] + np.float32(0.1), y[::-1]
    found = comparison.held_out(run, new, targets)
    np.testing.assert_allclose(found.pointwise, exact(x, y, new, targets), atol=0.02)
    np.testing.assert_allclose(np.asarray(found.observed)[:, 0], targets)


def fit(x, y):
    return drawn(x, y, conditioned=True)


def test_cross_validation_is_exact(found):
    """Leaving out half of the rows."""
    x, y = data()
    folds = [np.arange(0, ROWS, 2), np.arange(1, ROWS, 2)]
    halves = comparison.cross_validate(fit, x, y, folds)
    for out in folds:
        truth = exact(np.delete(x, out, 0), np.delete(y, out, 0), x[out], y[out])
        np.testing.assert_allclose(halves.pointwise[out], truth, atol=0.03)
    np.testing.assert_allclose(np.asarray(halves.observed), found.observed, rtol=1e-6)


def test_folds_of_one_row_give_what_loo_estimates(found):
    folds = [out for _, out in KFold(ROWS).split(np.zeros(ROWS))]
    each = comparison.cross_validate(fit, *data(), folds)
    np.testing.assert_allclose(each.pointwise, found.pointwise, atol=0.03)
    assert each.value == pytest.approx(found.value, abs=0.2)


def test_groups_are_left_out_as_jobs_of_an_executor(found):
    """Rows of a group share a shift, so that LOO, which knows the others of the group, is too optimistic."""
    (x, y), groups = data(), np.arange(ROWS) // 10
    x = np.column_stack([x, np.eye(4, dtype=np.float32)[groups]])[:, 2:]
    y = (y + 4 * np.array([-1, 1, 2, -2])[groups]).astype(np.float32)
    folds = [out for _, out in LeaveOneGroupOut().split(x, y, groups)]
    run = {"kernel": NUTS(), "num_chains": 2, "num_warmup": 200, "num_draws": 300, "seed": 1, "progress": False}
    model = BayesianNetwork(MLP((5, 1)), priors.Normal(SCALE), likelihoods.Gaussian(noise=NOISE))

    def sampled(x, y):
        return ergonet.sample(model.condition(x, y), **run)

    with ThreadPoolExecutor(2) as pool:
        apart = comparison.cross_validate(sampled, x, y, folds, executor=pool)
    alone = comparison.cross_validate(sampled, x, y, folds)
    np.testing.assert_array_equal(apart.pointwise, alone.pointwise)
    assert apart.value < comparison.loo(sampled(x, y)).value - 10


def test_rows_that_are_not_reliable_are_fitted_again(found):
    x, y = data()
    doubtful = dataclasses.replace(found, pareto_k=np.where(np.arange(ROWS) == 7, 0.9, found.pareto_k))
    again = comparison.refit(doubtful, fit, x, y)
    assert again.pointwise[7] == pytest.approx(exact(np.delete(x, 7, 0), np.delete(y, 7), x[[7]], y[[7]])[0], abs=0.02)
    others = np.arange(ROWS) != 7
    np.testing.assert_array_equal(again.pointwise[others], found.pointwise[others])
    assert not again.unreliable.any()
    assert again.num_parameters == pytest.approx(found.num_parameters, abs=0.1)


def test_refitted_rows_are_before_temperature_and_label_noise_as_loo_is():
    """They are no part of the likelihood, and would give the density of rows that are added to those of `loo`."""
    x, labels = data()[0], (data()[1] > 0).astype(int)
    positions = np.random.default_rng(0).normal(size=(2, 50, 4)).astype(np.float32)

    def refitted(**calibration):
        model = BayesianNetwork(MLP((3, 1)), priors.Normal(1.0), likelihoods.Bernoulli(**calibration))

        def same(x, y):
            return Samples(positions, {}, {}, {}, {}, {}, {}, model.condition(x, y))

        all_rows = comparison.loo(same(x, labels))
        return comparison.refit(dataclasses.replace(all_rows, pareto_k=np.eye(ROWS)[3]), same, x, labels)

    plain, calibrated = refitted(), refitted(temperature=3.0, label_noise=0.2)
    np.testing.assert_array_equal(calibrated.pointwise, plain.pointwise)


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        ([[0, 1], [1, 2]], "row 1 is left out more than once"),
        ([[0, 1]], "2 of 40 rows"),
        ([[-1]], "from 0 to 39"),
        ([[0.5]], "from 0 to 39"),
    ],
)
def test_every_row_is_left_out_once(folds, message):
    with pytest.raises(DataError, match=message):
        comparison.cross_validate(fit, *data(), folds)


def test_an_outlier_has_a_large_k():
    """A row that the other rows do not predict: its likelihood decides where the draws are."""
    x, y = data()
    y[0] += 60 * NOISE
    found = comparison.loo(drawn(x, y, num_draws=250))
    assert found.pareto_k[0] > found.largest_k
    assert found.pareto_k.argmax() == 0
    assert f"{found.unreliable.sum()} of 40 rows not reliable" in str(found)


def test_a_row_of_one_likelihood_needs_no_importance_sampling(run):
    same = dataclasses.replace(run, positions=np.tile(run.positions[:1, :1], (4, 100, 1)))
    found = comparison.loo(same)
    np.testing.assert_allclose(found.pointwise, quantities.log_likelihood(same)[0, 0], rtol=1e-6)
    assert (found.pareto_k == -np.inf).all()
    assert not found.unreliable.any()
    assert found.monte_carlo_error is not None
    assert found.monte_carlo_error.max() < 1e-12


@pytest.mark.parametrize("case", ["few draws", "stuck chain"])
def test_weights_without_a_tail_are_not_reliable(run, case):
    """They are used as they are: the harmonic mean of the likelihoods."""
    positions = run.positions[:, :5].copy() if case == "few draws" else run.positions[:, :100].copy()
    if case == "stuck chain":
        positions[0] = 3.0
    samples = dataclasses.replace(run, positions=positions)
    found, rows = comparison.loo(samples), quantities.log_likelihood(samples).astype(np.float64).reshape(-1, ROWS)
    bad = np.isinf(found.pareto_k)
    assert bad.all() if case == "few draws" else bad.any()
    assert found.unreliable[bad].all()
    harmonic = np.log(len(rows)) - logsumexp(-rows, axis=0)
    np.testing.assert_allclose(found.pointwise[bad], harmonic[bad], rtol=1e-6)
    assert np.isfinite(found.monte_carlo_error).all()


def test_what_cannot_be_estimated_is_refused(run):
    x, y = data()
    with pytest.raises(CapabilityError, match="loaded without their target"):
        comparison.loo(drawn(x, y, conditioned=False))
    weighted = dataclasses.replace(run, target=MODEL.condition(x, y, weights=np.linspace(0, 2, ROWS)))
    with pytest.raises(CapabilityError, match="rows have weights"):
        comparison.loo(weighted)
    unequal = dataclasses.replace(run, stats={"weight": np.arange(4000.0).reshape(4, 1000)})
    with pytest.raises(CapabilityError, match="unequal weights"):
        comparison.waic(unequal)
    far = run.positions.copy()
    far[0, 0] = 1e30
    with pytest.raises(EstimateError, match=r"row 0 .* not finite"):
        comparison.loo(dataclasses.replace(run, positions=far))
    with pytest.raises(CapabilityError, match="fitted estimator"):
        comparison.loo(object())
