"""Scores over temperatures: against closed forms of a linear network, and what is called noise."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

from ergonet import MLP, BayesianNetwork, Samples, comparison, likelihoods, priors, tempered
from ergonet._errors import EstimateError, SettingError
from ergonet.comparison.scored import Figure, HeldOutScores, score_rows
from ergonet.comparison.sources import Known
from ergonet.comparison.temperatures import FALSE_ALARM, TemperatureSweep, sweep_of
from ergonet.prediction.calibration import reliability_curve
from ergonet.prediction.predictive import predict

NOISE, SCALE, ROWS, NEW = 0.5, 1.3, 30, 400
TEMPERATURES = (0.01, 0.3, 3.0)


def data(noise):
    rng = np.random.default_rng(7)
    x = rng.normal(size=(ROWS + NEW, 3)).astype(np.float32)
    y = (x @ [1.0, -0.5, 0.2] + 0.3 + noise * rng.normal(size=len(x))).astype(np.float32)
    return (x[:ROWS], y[:ROWS]), (x[ROWS:], y[ROWS:])


def columns(x):
    return np.column_stack([x, np.ones(len(x))]).astype(np.float64)


def posterior(x, y, temperature):
    """Mean and covariance of the weights and the bias, with all of the posterior tempered."""
    covariance = np.linalg.inv(columns(x).T @ columns(x) / NOISE**2 + np.eye(4) / SCALE**2)
    return covariance @ columns(x).T @ y / NOISE**2, temperature * covariance


def sweep(noise, *, num_chains=8, temperatures=TEMPERATURES, executor=None):
    """Of independent draws of the closed form; the model states noise of 0.5, whatever the data have."""
    fitted, new = data(noise)
    model = BayesianNetwork(MLP((3, 1)), priors.Normal(SCALE), likelihoods.Gaussian(noise=NOISE))
    target = model.condition(*fitted)

    def fit(temperature):
        mean, covariance = posterior(*fitted, temperature)
        rng = np.random.default_rng(round(1000 * temperature))
        drawn = rng.multivariate_normal(mean, covariance, (num_chains, 500)).astype(np.float32)
        return Samples(drawn, {}, {}, {}, {}, {}, {}, tempered(target, temperature))

    return comparison.temperature_sweep(fit, *new, temperatures=temperatures, executor=executor)


@pytest.fixture(scope="module")
def right():
    return sweep(NOISE)


def test_scores_are_those_of_the_closed_form(right):
    fitted, (x, y) = data(NOISE)
    assert right.temperatures == (0.01, 0.3, 1.0, 3.0)
    for number, temperature in enumerate(right.temperatures):
        mean, covariance = posterior(*fitted, temperature)
        variance = np.einsum("ij,jk,ik->i", columns(x), covariance, columns(x)) + NOISE**2
        center, figures = columns(x) @ mean, right.scores[number].figures
        density = stats.norm.logpdf(y, center, np.sqrt(variance))
        score = figures["log_score"]
        assert score.value == pytest.approx(density.mean(), abs=4.5 * score.chance + 1e-6)
        np.testing.assert_allclose(score.rows, density, atol=0.05)
        assert score.error == pytest.approx(density.std(ddof=1) / math.sqrt(NEW), rel=0.05)
        assert figures["error"].value == pytest.approx(np.sqrt(np.mean((y - center) ** 2)), abs=0.01)
        transform = stats.norm.cdf(y, center, np.sqrt(variance))
        nominal = np.arange(1, 10) / 10
        gaps = [np.mean(2 * np.abs(transform - 0.5) <= one) - one for one in nominal]
        assert figures["calibration"].value == pytest.approx(np.mean(np.abs(gaps)), abs=0.01)
        parts = figures["calibration"].rows
        assert parts.mean() == pytest.approx(figures["calibration"].value, abs=1e-9)


def test_differences_are_paired_over_rows(right):
    rows = [one.figures["log_score"].rows for one in right.scores]
    apart = rows[0] - rows[2]
    chance = [right.scores[number].figures["log_score"].chance for number in (0, 2)]
    error = math.sqrt(apart.var(ddof=1) / NEW + chance[0] ** 2 + chance[1] ** 2)
    assert right.difference_errors("log_score")[0] == pytest.approx(error)
    assert right.differences("log_score")[0] == pytest.approx(apart.mean(), abs=1e-9)
    assert right.difference_errors("log_score")[2] == 0
    assert right.difference_errors("log_score")[0] < 0.3 * right.errors("log_score")[0]


@pytest.mark.slow
def test_the_monte_carlo_error_is_that_of_other_draws(right):
    """The sd of the score over 40 runs of other draws is within a factor of 2 of what one run states."""
    fitted, (x, y) = data(NOISE)
    mean, covariance = posterior(*fitted, 3.0)
    scores = []
    for seed in range(40):
        weights = np.random.default_rng(100 + seed).multivariate_normal(mean, covariance, 4000)
        density = stats.norm.pdf(y[:, None], columns(x) @ weights.T, NOISE)
        scores.append(np.log(density.mean(axis=1)).mean())
    assert 0.5 < right.scores[3].figures["log_score"].chance / np.std(scores) < 2


def test_a_colder_posterior_is_not_better_where_the_model_is_right(right):
    real = {name: ~right.is_noise(name) & (right.temperatures < np.float64(1)) for name in ("log_score", "error")}
    gains = right.differences("log_score")
    assert not (real["log_score"] & (gains > 0)).any()
    assert not real["error"].any()
    text = str(right)
    assert "Bayes" in text
    assert "RMSE: no temperature differs from T = 1 by more than the noise" in text


def test_wrong_noise_is_found():
    """The data have less noise than the model says, so that any spread between draws makes predictions too wide."""
    found = sweep(0.1)
    gains, real = found.differences("log_score"), ~found.is_noise("log_score")
    assert real.tolist() == [True, True, False, True]
    assert gains[0] > gains[1] > 0 > gains[3]
    assert "Log score: better at T = 0.01, 0.3 and worse at T = 3 than at T = 1 by more than the noise" in str(found)
    assert found.frame().loc[0.01, "log_score_difference"] == pytest.approx(gains[0])
    assert not found.frame().loc[0.01, "log_score_is_noise"]


def made_up(rows, *, chance=0.0):
    """A sweep of given parts of rows, `[temperature, row]`, at 1, 2, ..., for all scores."""
    figures = [Figure(float(one.mean()), one, chance) for one in rows]
    scores = [
        HeldOutScores({"log_score": one, "error": one, "calibration": one}, "RMSE", 0.01, rows.shape[1], 4, math.nan, 0)
        for one in figures
    ]
    return TemperatureSweep(tuple(float(one) for one in range(1, 1 + len(rows))), tuple(scores))


def test_one_in_twenty_sweeps_without_an_effect_shows_one():
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(1000):
        alarms += not made_up(rng.normal(size=(6, 200))).is_noise("error").all()
    assert 1000 * FALSE_ALARM / 3 < alarms <= 1000 * FALSE_ALARM + 4 * math.sqrt(1000 * FALSE_ALARM)


def test_a_log_score_of_less_than_four_nats_and_a_large_monte_carlo_error_are_noise():
    rows = np.zeros((2, 100))
    rows[1] = 0.03
    assert made_up(rows).is_noise("log_score").tolist() == [True, True]
    assert made_up(rows).is_noise("error").tolist() == [True, False]
    rows[1] = 0.05
    assert made_up(rows).is_noise("log_score").tolist() == [True, False]
    assert made_up(rows, chance=0.05).is_noise("log_score").tolist() == [True, True]


def test_classes_are_scored_by_their_probabilities():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 2)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    model = BayesianNetwork(MLP((2, 2)), priors.Normal(1.0), likelihoods.Categorical())
    drawn = np.zeros((2, 3, model.dim), np.float32)
    drawn[0, :, 2], drawn[1, :, 2] = 4.0, -1.0  # weight of the first input in the second class
    samples = Samples(drawn, {}, {}, {}, {}, {}, {}, model.condition(x, y))
    found = comparison.temperature_sweep(lambda _: samples, x, y, temperatures=[1])
    probability = np.mean([1 / (1 + np.exp(-weight * x[:, 0])) for weight in (4.0, -1.0)], axis=0)
    figures = found.scores[0].figures
    stated = np.where(y, probability, 1 - probability)
    np.testing.assert_allclose(figures["log_score"].rows, np.log(stated), atol=1e-5)
    assert figures["error"].value == np.mean(stated < 0.5)
    assert figures["calibration"].value == pytest.approx(figures["calibration"].rows.mean())
    assert figures["log_score"].chance > 0.1  # the chains disagree
    assert "there is no other temperature" in str(found)
    assert "fewer than 4 chains" in str(found)


def test_jobs_run_in_an_executor(right):
    with ThreadPoolExecutor(2) as pool:
        found = sweep(NOISE, executor=pool)
    np.testing.assert_array_equal(found.values("log_score"), right.values("log_score"))


@pytest.mark.parametrize(("given", "message"), [([], "empty"), ([0.1, -1], "number above 0"), (["a"], "above 0")])
def test_temperatures_are_checked(given, message):
    with pytest.raises(SettingError, match=message):
        sweep(NOISE, temperatures=given)


def test_a_row_without_a_density_is_named():
    jobs = {1.0: lambda: made_up(np.full((1, 5), -np.inf)).scores[0]}
    with pytest.raises(EstimateError, match="At T = 1 a held-out row"):
        sweep_of(jobs)


def test_class_probabilities_are_averaged_over_chains_before_temperature_and_label_noise():
    """As predictions are; and a chain of weight 0 has no part in them."""
    rng = np.random.default_rng(1)
    x, labels = rng.normal(size=(50, 3)).astype(np.float32), rng.integers(0, 3, 50)
    model = BayesianNetwork(MLP((3, 3)), priors.Normal(1.0), likelihoods.Categorical(temperature=2.0, label_noise=0.1))
    weight = np.array([[1.0], [3.0], [0.0]]) * np.ones((1, 20))
    positions = 2 * rng.normal(size=(3, 1, model.dim)) + 0.1 * rng.normal(size=(3, 20, model.dim))
    target = model.condition(x, labels)
    samples = Samples(positions.astype(np.float32), {"weight": weight}, {}, {}, {}, {}, {}, target)
    found, direct = score_rows(Known(samples, model, None), x, labels), predict(samples, x, y=labels)
    np.testing.assert_allclose(found.figures["log_score"].rows, np.asarray(direct.log_density), rtol=1e-5)
    curve = reliability_curve(direct.mean, labels)
    assert found.figures["calibration"].value == pytest.approx(curve.expected_calibration_error, abs=1e-5)
    alone = Samples(samples.positions[:2], {"weight": weight[:2]}, {}, {}, {}, {}, {}, target)
    assert score_rows(Known(alone, model, None), x, labels).figures["log_score"].chance == pytest.approx(
        found.figures["log_score"].chance
    )
