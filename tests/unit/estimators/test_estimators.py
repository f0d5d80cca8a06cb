"""The scikit-learn faces, used as a user would use them."""

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_moons
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from ergonet import HMC, NUTS, BayesianClassifier, BayesianRegressor, Until, priors
from ergonet._errors import CapabilityError, DataError, RunDirectoryError, SamplingWarning, SettingError, TimeLimitError
from ergonet.assembly import build, temperature
from ergonet.assembly.settings import ModelSettings
from ergonet.inference import drive, trajectory_jobs

pytestmark = pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")
SHORT: dict[str, Any] = {
    "hidden": (6,),
    "kernel": HMC(num_steps=12),
    "num_chains": 2,
    "num_warmup": 80,
    "num_draws": 80,
}


def settings(**changed: Any) -> Any:
    """Settings of a short run, some of them changed."""
    return SHORT | changed


def kernel_of(choice: Any) -> Any:
    """The kernel of an estimator's parameter."""
    return build.kernel(ModelSettings(kernel=choice))


def copy_of(estimator: Any) -> Any:
    """An unfitted estimator with the same parameters."""
    return clone(estimator)


@pytest.fixture(scope="module")
def moons():
    x, y = make_moons(120, noise=0.15, random_state=0)
    return x, np.array(["left", "right"])[y]


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(80, 2))
    return x, 100 + 30 * np.tanh(x[:, 0]) + 3 * rng.normal(size=80)


@pytest.fixture(scope="module")
def classifier(moons):
    return BayesianClassifier(**SHORT, random_state=0).fit(*moons)


@pytest.fixture(scope="module")
def regressor(line):
    return BayesianRegressor(**SHORT, random_state=0).fit(*line)


def test_classifier_keeps_labels_and_tells_moons_apart(classifier, moons):
    x, y = moons
    assert list(classifier.classes_) == ["left", "right"]
    assert classifier.score(x, y) > 0.85
    probabilities = classifier.predict_proba(x)
    assert probabilities.shape == (120, 2)
    assert np.allclose(probabilities.sum(1), 1, atol=1e-5)
    assert np.allclose(np.exp(classifier.predict_log_proba(x)), probabilities)
    assert set(np.unique(classifier.sample_y(x, n_samples=5, random_state=1))) == {"left", "right"}


def test_regressor_predicts_in_the_units_of_y(regressor, line):
    x, y = line
    mean, sd = regressor.predict(x, return_std=True)
    interval = regressor.predict_interval(x, level=0.9)
    assert regressor.score(x, y) > 0.9
    assert mean.shape == sd.shape == (80,)
    assert interval.shape == (80, 2)
    assert 0.8 < np.mean((interval[:, 0] < y) & (y < interval[:, 1])) <= 1
    assert 2 < np.median(sd) < 6
    draws = regressor.sample_y(x, n_samples=200, random_state=0)
    assert draws.shape == (80, 200)
    assert np.abs(draws.mean(1) - mean).max() < 5 * sd.max() / np.sqrt(200)


@pytest.mark.parametrize("level", [0.5, 0.99])
def test_both_tails_of_an_interval_hold_their_share_of_the_mixture(regressor, line, level):
    """What lies beyond each end, by the mixture's own distribution function: exact, not sampled."""
    x, model = line[0][:10], regressor.model_
    positions = regressor.samples_.positions.reshape(-1, regressor.samples_.positions.shape[-1])
    weights, own = jax.vmap(model.split)(positions)
    outputs = jax.vmap(model.network.apply, (0, None))(
        weights, model.network.prepare(jnp.asarray(regressor.scaled_inputs(x)))
    )
    scales = np.sqrt(np.asarray(jax.vmap(model.likelihood.variance)(own, outputs)) / 2)[:, 0]  # of Student-t noise
    scaling = regressor.preprocessing_
    ends = (regressor.predict_interval(x, level=level) - scaling.target_mean) / scaling.target_sd
    below = [stats.t.cdf(end, 4, outputs[:, 0], scales).mean(axis=0) for end in ends.T]
    np.testing.assert_allclose(below, np.broadcast_to([[0.5 - level / 2], [0.5 + level / 2]], (2, 10)), atol=2e-5)


def test_kernels_by_name_with_their_settings():
    chosen = {"name": "hmc", "num_steps": 9}
    assert kernel_of("hmc") == kernel_of({"name": "hmc"}) == HMC()
    assert kernel_of(chosen) == HMC(num_steps=9) != HMC()


@pytest.mark.parametrize("bad", [3, {"name": 3}, ["hmc"], NUTS])
def test_a_kernel_of_another_kind_is_refused(bad):
    with pytest.raises(SettingError, match=r"`kernel=.*` is not known: give a name such as 'nuts'"):
        kernel_of(bad)


@pytest.mark.slow
def test_several_targets_and_a_column_of_targets(line):
    x, y = line
    both = BayesianRegressor(**SHORT, random_state=0).fit(x, np.column_stack([y, -y]))
    assert both.predict(x).shape == (80, 2)
    assert both.predict_interval(x).shape == (80, 2, 2)
    assert both.sample_y(x, n_samples=3).shape == (80, 2, 3)
    column = BayesianRegressor(**SHORT, random_state=0).fit(x, y[:, None])
    assert column.predict(x).shape == (80, 1)


@pytest.mark.slow
def test_known_noise_is_in_the_units_of_y(line):
    x, y = line
    fitted = BayesianRegressor(**SHORT, noise=3.0, random_state=0).fit(x, y)
    _, sd = fitted.predict(x, return_std=True)
    assert sd.min() >= 3.0 - 1e-3


def test_the_same_seed_gives_the_same_draws(classifier, moons):
    again = copy_of(classifier).fit(*moons)
    assert np.array_equal(again.samples_.positions, classifier.samples_.positions)
    other = copy_of(classifier).set_params(random_state=1).fit(*moons)
    assert not np.array_equal(other.samples_.positions, classifier.samples_.positions)


def test_joblib_and_pickle_keep_predictions(classifier, moons, tmp_path):
    joblib.dump(classifier, tmp_path / "model.joblib")
    copies: list[Any] = [joblib.load(tmp_path / "model.joblib"), pickle.loads(pickle.dumps(classifier))]
    for copy in copies:
        assert np.array_equal(copy.predict_proba(moons[0]), classifier.predict_proba(moons[0]))


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_saved_without_pickle_and_loaded(kind, request, moons, line, tmp_path):
    data = moons if kind == "classifier" else line
    fitted = (
        copy_of(request.getfixturevalue(kind))
        .set_params(kernel={"name": "hmc", "num_steps": 9}, num_warmup=20, num_draws=20)
        .fit(*data)
    )
    fitted.save(tmp_path / "model")
    loaded = type(fitted).load(tmp_path / "model")
    assert np.array_equal(loaded.predict(data[0]), fitted.predict(data[0]))
    assert loaded.get_params() == fitted.get_params()
    with pytest.raises(RunDirectoryError, match="exists"):
        fitted.save(tmp_path / "model")
    with pytest.raises(CapabilityError, match="prior"):
        fitted.set_params(prior=priors.Normal(1.0)).save(tmp_path / "other")
    with pytest.raises(RunDirectoryError, match=r"has no settings\.toml"):
        type(fitted).load(tmp_path)


@pytest.mark.slow
def test_pipeline_grid_search_and_cross_validation(moons):
    x, y = moons
    pipeline = make_pipeline(MinMaxScaler(), BayesianClassifier(**SHORT, random_state=0))
    assert cross_val_score(pipeline, x, y, cv=2).mean() > 0.75
    search = GridSearchCV(BayesianClassifier(**SHORT, random_state=0), {"prior": ["normal", "fan-in-normal"]}, cv=2)
    assert search.fit(x, y).best_score_ > 0.75


def test_a_time_limit_keeps_the_draws_and_says_so(line, monkeypatch):
    """On a clock that passes the limit once every chain has a draw, whatever the speed of the machine."""

    def reason(self, jobs, recorder):
        return drive.TIME_LIMIT if recorder.drawn else ""

    monkeypatch.setattr(drive.TimeLimit, "reason", reason)
    monkeypatch.setattr(trajectory_jobs, "CHUNK_SECONDS", 1e-6)  # chunks of one transition
    limited = BayesianRegressor(**settings(num_draws=400), time_limit=3600.0, random_state=0)
    said = r"^Stopped by the time limit: \d+ of 400 draws of each chain\."
    with pytest.warns(SamplingWarning, match=said):
        limited.fit(*line)
    assert 1 <= limited.samples_.num_draws < 400
    assert np.isfinite(limited.predict(line[0])).all()


def test_a_fit_goes_on_until_its_predictions_are_good_enough(line):
    ruled = BayesianRegressor(**settings(num_draws=2000), until={"mcse": 1.0, "ess": 1, "minimum": 40}, random_state=0)
    found = copy_of(ruled).fit(*line).samples_
    assert found.num_draws == 40
    assert found.about["until"]["met"]
    with pytest.raises(SettingError, match=r"`until` must be None or such as `ergonet\.Until\(ess=400\)`, got 40"):
        copy_of(ruled).set_params(until=40).fit(*line)


@pytest.mark.parametrize(
    ("changed", "is_planned"),
    [({}, True), ({"num_draws": 20}, False), ({"start": "adam"}, False), ({"until": {"ess": 40}}, False)],
)
def test_a_time_limit_without_counts_plans_the_run(line, monkeypatch, capsys, changed, is_planned):
    class BegunError(Exception):
        pass

    def begin(target, kernel, *, num_chains, num_warmup, num_draws, time_limit, **_):
        raise BegunError(num_chains, num_warmup, num_draws, time_limit)

    monkeypatch.setattr("ergonet.assembly.planning.measured_rate", lambda *_, **__: 1e3)
    monkeypatch.setattr("ergonet.estimators.base.sample", begin)
    with pytest.raises(BegunError) as begun:
        BayesianRegressor(kernel="hmc", time_limit=3600.0, progress=True, **changed).fit(*line)
    counts = begun.value.args[:3]
    assert (counts == (4, 1000, 1000)) == is_planned
    assert begun.value.args[3] <= 3600.0
    assert ("Planned: 4 chains x (1000 warm-up + 1000 draws), about 8 s" in capsys.readouterr().err) == is_planned


def test_a_classification_goes_on_until_its_predictions_have_converged(monkeypatch):
    class BegunError(Exception):
        pass

    def begin(target, kernel, *, num_draws, until, **_):
        raise BegunError(num_draws, until)

    monkeypatch.setattr("ergonet.estimators.base.sample", begin)
    plain = {"likelihood": {"name": "bernoulli", "temperature": 1.0}, "progress": False}
    for changed, expected in (
        ({}, (2000, Until(ess=400, rhat=1.01, minimum=1000))),
        ({"num_draws": 20}, (20, None)),
        ({"until": {"ess": 40}}, (10_000, Until(ess=40))),
    ):
        with pytest.raises(BegunError) as begun:
            BayesianClassifier(**plain, **changed).fit(*make_moons(60, random_state=0))
        assert begun.value.args == expected


@pytest.mark.parametrize("is_warm_started", [True, False])
def test_a_time_limit_without_draws_leaves_predictions_and_says_whose(line, monkeypatch, tmp_path, is_warm_started):
    def stop(target, kernel, *, num_chains, **_):
        error = TimeLimitError("too slow. Allow more time.")
        error.during = "in the warm-up"
        error.states, error.is_warm_started = 0.1 * np.ones((num_chains, target.dim)), is_warm_started
        raise error

    monkeypatch.setattr("ergonet.estimators.base.sample", stop)
    limited, (x, y) = BayesianRegressor(**settings(kernel="hmc"), time_limit=3600.0, random_state=0), line
    who = "2 networks that the warm start found" if is_warm_started else "ridge regression"
    with pytest.warns(SamplingWarning, match=f"These are predictions of .*{who}, not of draws.*too slow") as warned:
        limited.fit(x, y)
    assert [str(one.message).count("Allow more time") for one in warned] == [1]
    assert "before every chain had a draw, in the warm-up. Allow" in limited.samples_.about["fallback"]["sentence"]
    assert limited.samples_.num_draws == 1
    assert who in limited.samples_.about["fallback"]["sentence"]
    if not is_warm_started:
        ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 6, 19))).fit(x, y)
        np.testing.assert_allclose(limited.predict(x), ridge.predict(x), rtol=1e-4)
        assert limited.sample_y(x, n_samples=3, random_state=0).shape == (80, 3)
        with pytest.raises(CapabilityError, match=r"goes on from networks, .* ridge regression, .* Fit again"):
            limited.update(x[:5], y[:5])  # which would sample the weights of a line, and no longer say so
    limited.save(tmp_path / "rounded", precision="float16")  # measured on the training rows
    limited.save(tmp_path / "saved")
    again = BayesianRegressor.load(tmp_path / "saved")
    np.testing.assert_allclose(again.predict(x), limited.predict(x), rtol=1e-6)
    assert again.samples_.about["fallback"] == limited.samples_.about["fallback"]


def test_feature_names_are_checked(line):
    x, y = line
    frame = pd.DataFrame(x, columns=["a", "b"])
    fitted = BayesianRegressor(**SHORT, random_state=0).fit(frame, y)
    assert list(fitted.feature_names_in_) == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame.rename(columns={"b": "c"}))
    with pytest.raises(ValueError, match="2 features"):
        fitted.predict(x[:, :1])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"num_draws": -5}, "`num_draws` must be an integer of at least 1, got -5"),
        ({"num_chains": 0}, "`num_chains` must be an integer of at least 1, got 0"),
        ({"activation": "tanhh"}, "Did you mean 'tanh'"),
        ({"kernel": "nutss"}, "Did you mean 'nuts'"),
        ({"prior": "norml"}, "Did you mean 'normal'"),
        ({"hidden": (0,)}, r"`hidden` must be whole numbers of at least 1 .* got \(0,\)"),
        ({"likelihood": "gaussian"}, "is not for classification"),
        ({"bias": "x"}, "`bias` must be true or false, got 'x'"),
        ({"direct": "x"}, "`direct` must be true or false, got 'x'"),
    ],
)
def test_impossible_settings_are_refused(moons, setting, message):
    with pytest.raises(SettingError, match=message):
        BayesianClassifier(**settings(**setting)).fit(*moons)


@pytest.mark.parametrize("count", [0, -2, "four", [4]])
def test_impossible_numbers_of_chains_are_refused_before_any_chain_runs(moons, count, monkeypatch):
    monkeypatch.setattr(temperature, "settled", lambda *_, **__: pytest.fail("chains run"))
    with pytest.raises(SettingError, match=r"`num_chains` must be an integer of at least 1, got "):
        BayesianClassifier(num_chains=count).fit(*moons)


def test_whole_numbers_beyond_double_precision_are_named(line):
    x, y = (np.asarray(one).tolist() for one in line)
    model = BayesianRegressor()
    wide = [[10**400, 0.0], *x[1:]]
    with pytest.raises(DataError, match=r"`X` has 1000.* in row 0 .*beyond the largest number"):
        model.fit(wide, y)
    with pytest.raises(DataError, match=r"`y` has -1000.* in row 2 "):
        model.fit(x, [*y[:2], -(10**400), *y[3:]])
    with pytest.raises(DataError, match=r"`sample_weight` has 1000.* in row 1 "):
        model.fit(x, y, sample_weight=[1, 10**400, *([1] * (len(y) - 2))])


def test_bad_data_are_refused(moons, line):
    x, y = moons
    with pytest.raises(DataError, match="only one class"):
        BayesianClassifier(**SHORT).fit(x, np.zeros(120, int))
    broken = x.copy()
    broken[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        BayesianClassifier(**SHORT).fit(broken, y)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        BayesianRegressor(**SHORT).fit(line[0], line[1][:-1])
    with pytest.warns(DataConversionWarning):
        BayesianClassifier(**settings(num_warmup=5, num_draws=5)).fit(x, y[:, None])


@pytest.mark.slow
def test_chains_that_disagree_are_warned_about(moons):
    with pytest.warns(SamplingWarning, match="R-hat"):
        BayesianClassifier(**settings(num_warmup=2, num_draws=10), random_state=0).fit(*moons)


@pytest.mark.slow
def test_out_of_the_box_on_real_data():
    x, y = load_diabetes(return_X_y=True)
    fitted = BayesianRegressor(
        hidden=(10,), kernel="nuts", num_chains=2, num_warmup=200, num_draws=200, random_state=0
    ).fit(x[:300], y[:300])
    low, high = fitted.predict_interval(x[300:]).T
    assert fitted.score(x[300:], y[300:]) > 0.4
    assert 0.84 < np.mean((low < y[300:]) & (y[300:] < high)) < 0.97


def test_a_model_of_one_coordinate_starts_without_a_direction():
    x, y = np.arange(12.0)[:, None], np.arange(12.0)
    given = settings(hidden=(), kernel=None, num_warmup=5, num_draws=5, num_chains=1)
    fitted = BayesianRegressor(**given, bias=False, noise=1.0, start="adam+mclmc", random_state=0).fit(x, y)
    assert fitted.samples_.positions.shape[2] == 1
