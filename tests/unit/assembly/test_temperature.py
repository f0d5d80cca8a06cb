"""Temperature and label noise of class probabilities: found by cross-validation, recorded, and applied to them all."""

import dataclasses
from collections import defaultdict
from types import SimpleNamespace

import equinox as eqx
import jax
import numpy as np
import pytest

from ergonet import (
    HMC,
    MLP,
    NUTS,
    BayesianClassifier,
    BayesianNetwork,
    DelayedRejectionHMC,
    WindowedHMC,
    likelihoods,
    predict,
    priors,
    sample,
)
from ergonet._errors import SamplingWarning, SettingError, Terminated
from ergonet.assembly import build, temperature
from ergonet.assembly.default import CROSS_VALIDATION
from ergonet.assembly.settings import RunSettings, resolve
from ergonet.prediction.probabilities import entropy_of, log_with_label_noise, power, with_label_noise
from ergonet.prediction.recalibration import ClassCalibration

RNG = np.random.default_rng(0)
ROWS = 150
X = RNG.normal(size=(ROWS, 2)).astype(np.float32)
CLEAN = (X[:, 0] > 0).astype(np.int32)
KERNEL = HMC(num_steps=8, metric="identity")
RUN = RunSettings(num_chains=2, num_warmup=40, num_draws=30, seed=3)


def network(scale, classes=2, likelihood=likelihoods.Categorical):
    return BayesianNetwork(MLP((2, 4, classes)), priors.Normal(scale), likelihood(temperature=1.0))


def found(model, y, run=RUN, **more):
    return temperature.cross_validated(model.condition(X, y), y, KERNEL, run, **more)


def test_probabilities_that_stay_are_not_said_to_be_better(monkeypatch):
    stays = ClassCalibration(1.0, 0.0, ROWS, 0.0)
    monkeypatch.setattr(temperature, "recalibrate_classes", lambda *_: stays)
    assert found(network(0.15), CLEAN).sentence.endswith("rows, probabilities stay as they are.")


@pytest.mark.slow
def test_clean_labels_under_a_narrow_prior_are_stated_surer_and_noisy_ones_under_a_wide_prior_less_sure():
    narrow = found(network(0.15), CLEAN)
    assert narrow.calibration is not None
    assert narrow.calibration.temperature < 0.5
    assert narrow.calibration.gain > 0.1
    assert f"1/{narrow.calibration.temperature:.3g}" in narrow.sentence
    noisy = (np.arange(ROWS) % 2).astype(np.int32)
    stated = []
    for num_chains in (1, 2):
        wide = found(network(20.0), noisy, run=dataclasses.replace(RUN, num_chains=num_chains))
        assert wide.calibration is not None
        stated.append(wide.calibration(np.array([[0.99, 0.01]])).max())
    assert stated[0] < 0.8
    assert stated[1] > 0.8  # an average of chains is less sure already


def test_every_row_is_left_out_once_and_every_class_is_in_every_fold():
    labels = np.repeat([0, 1, 2], [90, 50, 10])
    for order in (np.arange(150), RNG.permutation(150)):
        folds = temperature._folds(X, labels[order])
        assert len(folds) == temperature.NUM_FOLDS
        np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(150))
        for one in folds:
            assert np.abs(np.bincount(labels[order][one]) - np.array([90, 50, 10]) / len(folds)).max() < 1


def test_neighbors_that_are_alike_get_longer_folds():
    """A slow drift within one of two classes, in the order of the table and in random ones, of which 1 % are alike."""
    random = np.random.default_rng(1)
    found = []
    for _ in range(60):
        labels = random.integers(0, 2, 100)
        drift = np.where(labels == 1, np.linspace(0, 8, 100), 0.0)
        inputs = np.stack([drift + random.normal(size=100), random.normal(size=100)], axis=1)
        orders = np.arange(100), random.permutation(100)
        found.append([len(temperature._folds(inputs[order], labels[order])) for order in orders])
    in_order, mixed = np.mean(np.array(found) == temperature.NUM_LONG_FOLDS, axis=0)
    assert in_order == 1
    assert mixed <= 0.07
    labels = np.arange(100) % 2
    assert not temperature.are_neighbors_alike(np.full((100, 1), 3.0), labels)
    assert not temperature.are_neighbors_alike(labels[:, None].astype(float), labels)  # by class, not by order


def test_of_many_rows_one_long_fold_is_enough():
    count = temperature.ONE_FOLD_ABOVE + 1
    (fold,) = temperature._folds(RNG.normal(size=(count, 1)), np.arange(count) % 2)
    assert len(fold) == pytest.approx(count / 3, abs=2)


@pytest.mark.slow
def test_copies_of_a_row_that_follow_each_other_do_not_vouch_for_each_other():
    """Labels that nothing predicts, each of them ten times: a row is known from its copies only.

    So few labels follow the inputs by chance now and then, which is why there are five tables.
    """
    few, random = ROWS // 10, np.random.default_rng(5)
    rows = np.repeat(np.arange(few), 10)

    def sure(inputs, labels, order):
        """What becomes of a probability of 0.99."""
        model = network(20.0).condition(inputs[order], labels[order])
        calibration = temperature.cross_validated(model, labels[order], KERNEL, RUN).calibration
        return 0.99 if calibration is None else calibration(np.array([[0.99, 0.01]])).max()

    stated = []
    for _ in range(5):
        labels = random.integers(0, 2, few).astype(np.int32)[rows]
        inputs = random.normal(size=(few, X.shape[1]))[rows].astype(np.float32)
        stated.append([sure(inputs, labels, order) for order in (np.arange(len(rows)), random.permutation(len(rows)))])
    in_order, mixed = np.median(stated, axis=0)
    assert in_order < 0.8
    assert mixed > 0.95


@pytest.mark.parametrize(
    ("count", "weights", "says"), [(40, None, "at least 50 rows"), (ROWS, np.ones(ROWS), "rows have weights")]
)
def test_where_it_cannot_be_found_probabilities_stay_as_they_are(count, weights, says):
    y = CLEAN[:count]
    posterior = network(1.0).condition(X[:count], y, weights=None if weights is None else weights[:count])
    settings = dataclasses.replace(
        resolve("t.csv", {}, {"likelihood": {"temperature": CROSS_VALIDATION, "name": "categorical"}}), run=RUN
    )
    changed, said = temperature.settled(settings, posterior, y, KERNEL)
    assert says in said
    assert changed.likelihood == {"name": "categorical", "temperature": 1.0}


def test_trajectories_that_cannot_be_shorter_are_of_one_whole_chain_in_each_fold(monkeypatch):
    chains = []
    monkeypatch.setattr(temperature, "_sampled", lambda _, chain, **__: chains.append(chain))
    monkeypatch.setattr(
        temperature, "predict", lambda _, inputs, **__: SimpleNamespace(mean=np.full((len(inputs), 2), 0.5))
    )
    posterior, run = network(1.0).condition(X, CLEAN), RunSettings(4, num_warmup=300, num_draws=1000)
    temperature.cross_validated(posterior, CLEAN, HMC(), run)
    assert [one.lengths["num_draws"] for one in chains] == [1, *[100] * temperature.NUM_FOLDS]


def test_a_time_limit_ends_it_without_an_error():
    result = found(network(1.0), CLEAN, run=dataclasses.replace(RUN, num_warmup=10**6), seconds=1e-3)
    assert result.calibration is None
    assert result.sentence.endswith("the time limit leaves no time for cross-validation.")


def test_draws_do_not_depend_on_it():
    draws = [
        sample(
            BayesianNetwork(MLP((2, 4, 2)), priors.Normal(1.0), likelihoods.Categorical(*one)).condition(X, CLEAN),
            KERNEL,
            num_chains=1,
            num_warmup=10,
            num_draws=10,
            seed=0,
            progress=False,
        ).positions
        for one in ((1.0, 0.0), (0.3, 0.2))
    ]
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize("likelihood", [likelihoods.Categorical, likelihoods.Bernoulli])
@pytest.mark.parametrize("label_noise", [None, 0.1])
def test_predictions_are_powers_of_the_average_with_label_noise(likelihood, label_noise):
    outputs = 1 if likelihood is likelihoods.Bernoulli else 2
    plain, cold = (
        BayesianNetwork(MLP((2, 4, outputs)), priors.Normal(1.0), likelihood(*one))
        for one in ((None, None), (0.5, label_noise))
    )
    samples = sample(
        plain.condition(X, CLEAN), KERNEL, num_chains=2, num_warmup=10, num_draws=20, seed=0, progress=False
    )
    before, after = (predict(samples, X, model=model, y=CLEAN) for model in (plain, cold))
    noise = label_noise or 0.0
    expected = (1 - noise) * before.mean**2 / (before.mean**2).sum(axis=1, keepdims=True) + noise / 2
    np.testing.assert_allclose(after.mean, expected, rtol=1e-5)
    assert after.log_density is not None
    np.testing.assert_allclose(after.log_density, np.log(expected[np.arange(ROWS), CLEAN]), rtol=1e-4, atol=1e-5)
    assert after.entropy is not None
    np.testing.assert_allclose(after.entropy, entropy_of(expected), rtol=1e-4, atol=1e-6)
    assert after.expected_entropy is not None
    assert (after.expected_entropy <= after.entropy + 1e-6).all()
    np.testing.assert_array_equal(after.function_sd, before.function_sd)


def test_powers_of_probabilities_of_zero():
    stated, log_sum = power(np.array([[1.0, 0.0], [0.5, 0.5]]), 0.5)
    np.testing.assert_allclose(stated.sum(axis=1), 1)
    assert stated[0, 0] == pytest.approx(1)
    assert log_sum[1] == pytest.approx(np.log(2 * 0.5**0.5))


def test_log_probabilities_far_below_the_range_of_numbers_have_label_noise():
    logs = np.array([-2000.0, 0.0])
    np.testing.assert_allclose(log_with_label_noise(logs, 0.1, 5), np.log([0.02, 0.92]))
    np.testing.assert_array_equal(log_with_label_noise(logs, 0.0, 5), logs)


@pytest.mark.parametrize("value", [-0.1, 1.0, float("nan"), "some"])
def test_label_noise_out_of_range_is_one_error(value):
    with pytest.raises(SettingError, match=r"`Bernoulli\(label_noise=...\)` must be a number of at least 0"):
        likelihoods.Bernoulli(label_noise=value)


def test_label_noise_of_ones_own_is_not_searched_for():
    both = {"name": "categorical", "temperature": CROSS_VALIDATION, "label_noise": 0.1}
    with pytest.raises(SettingError, match="finds the label noise, too"):
        build.check(resolve("t.csv", {}, {"likelihood": both}))


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), "hot"])
def test_a_temperature_out_of_range_is_one_error(value):
    with pytest.raises(SettingError, match=r"`Categorical\(temperature=...\)` must be a number above 0, got"):
        likelihoods.Categorical(temperature=value)


@pytest.mark.slow
def test_an_estimator_finds_states_and_keeps_it(tmp_path):
    model = BayesianClassifier(num_chains=2, num_warmup=20, num_draws=20, kernel={"num_steps": 8}, random_state=0)
    with pytest.warns(SamplingWarning):
        model.fit(X, CLEAN)
    value, noise = (model._fitted_settings.likelihood[name] for name in ("temperature", "label_noise"))
    assert isinstance(value, float)
    assert f"temperature={value}" in str(model)
    plain = eqx.tree_at(lambda one: one.likelihood, model.model_, likelihoods.Bernoulli())
    average = predict(model.samples_, model.scaled_inputs(X), model=plain).mean
    expected = with_label_noise(power(average, 1 / value)[0], noise)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-5)
    model.save(tmp_path / "model")
    loaded = BayesianClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    own = BayesianClassifier(kernel="hmc", num_chains=1, num_warmup=5, num_draws=5, random_state=0)
    with pytest.warns(SamplingWarning):
        own.fit(X, CLEAN)
    assert own.model_.likelihood.calibration is None


@pytest.mark.parametrize(("stopped_by", "error"), [("Ctrl-C", KeyboardInterrupt), ("SIGTERM", Terminated)])
def test_an_interrupt_ends_more_than_its_chain(monkeypatch, stopped_by, error):
    stopped = SimpleNamespace(about={"stopped_by": stopped_by})
    monkeypatch.setattr("ergonet.inference.run.sample", lambda *_, **__: stopped)
    with pytest.raises(error):
        found(network(1.0), CLEAN)


@pytest.mark.parametrize("num_chains", [None, 1, 2, 6])
def test_each_fold_is_predicted_by_the_average_of_as_many_chains_as_the_fit_has(monkeypatch, num_chains):
    """Up to four, for the time of one: their trajectories are shorter by the number of chains."""
    stated, judged = defaultdict(list), []

    def begun(_, chain, *, seed, **__):
        return SimpleNamespace(chain=chain, seed=seed)

    def predicted(samples, inputs, **__):
        sure = np.random.default_rng(samples.seed).uniform(size=len(inputs))
        if samples.chain.lengths["num_draws"] > 1:  # not that which compiles
            stated[inputs.tobytes()].append((sure, samples.chain.kernel.num_steps))
        return SimpleNamespace(mean=np.stack([sure, 1 - sure], axis=1))

    def recalibrated(probabilities, labels):
        judged.append(probabilities)
        return ClassCalibration(1.0, 0.0, len(labels), 0.0)

    monkeypatch.setattr(temperature, "_sampled", begun)
    monkeypatch.setattr(temperature, "predict", predicted)
    monkeypatch.setattr(temperature, "recalibrate_classes", recalibrated)
    posterior, run = network(1.0).condition(X, CLEAN), RunSettings(num_chains, num_warmup=300, num_draws=1000)
    temperature.cross_validated(posterior, CLEAN, HMC(num_steps=252), run)
    used = min(num_chains or 4, 4)
    inputs = np.asarray(posterior.rows()[0])
    averages = []
    for fold in temperature._folds(inputs, CLEAN):
        sure, steps = zip(*stated[inputs[fold].tobytes()], strict=True)
        assert len(sure) == used
        assert {int(one) for one in steps} == {int(250 // used / 250 * 252)}
        averages.append(np.mean(sure, axis=0))
    np.testing.assert_allclose(judged[0][:, 0], np.concatenate(averages))
    assert len(stated) == len(averages)


@pytest.mark.parametrize(("cores", "share"), [(1, 1 / 10), (2, 1 / 5), (4, 1 / 3), (16, 1)])
def test_all_chains_take_a_quarter_of_the_time_left_once_the_programs_are_compiled(monkeypatch, cores, share):
    clock, limits = [0.0], []

    def begun(*_, time_limit, **__):
        limits.append(time_limit)
        clock[0] += 40.0  # of the first chain, which compiles
        if len(limits) > 1:
            raise SettingError("Enough.")

    monkeypatch.setattr(temperature, "_sampled", begun)
    monkeypatch.setattr(temperature, "predict", lambda *_, **__: SimpleNamespace(mean=np.zeros((30, 2))))
    monkeypatch.setattr(temperature, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(temperature, "num_cores", lambda: cores)
    monkeypatch.setattr(temperature, "chain_rate", lambda *_, **__: None)
    assert "Enough." in found(network(1.0), CLEAN, seconds=120.0).sentence
    assert limits[0] == 120.0
    np.testing.assert_allclose(limits[1:], 20.0 * share)


@pytest.mark.parametrize(
    ("make", "rate", "steps", "counts"),
    [
        (DelayedRejectionHMC, None, 63, (150, 100)),  # too slow to tell
        (DelayedRejectionHMC, 25.0, 63, (150, 100)),  # six tenths of twenty seconds: 300 transitions
        (DelayedRejectionHMC, 5.0, 61, (150, 100)),
        (HMC, 2.0, 24, (150, 100)),
        (HMC, 1.0, 16, (115, 76)),
        (HMC, 0.01, 16, (20, 10)),
        (NUTS, 25.0, None, (150, 100)),
        (NUTS, 5.0, None, (36, 24)),
        (WindowedHMC, 25.0, 256, (150, 100)),  # its window may not fit into a shorter trajectory
        (WindowedHMC, 5.0, 256, (36, 24)),
    ],
)
def test_chains_without_enough_time_have_shorter_trajectories_then_fewer(monkeypatch, make, rate, steps, counts):
    chains = []

    def begun(_, chain, **__):
        chains.append(chain)
        if len(chains) > 1:
            raise SettingError("Enough.")

    monkeypatch.setattr(temperature, "_sampled", begun)
    monkeypatch.setattr(temperature, "predict", lambda *_, **__: SimpleNamespace(mean=np.zeros((30, 2))))
    monkeypatch.setattr(temperature, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    monkeypatch.setattr(temperature, "num_cores", lambda: 20)
    monkeypatch.setattr(temperature, "chain_rate", lambda *_, **__: rate)
    kernel = make() if make is NUTS else make(num_steps=256)
    posterior, run = network(1.0).condition(X, CLEAN), RunSettings(num_warmup=300, num_draws=1000)
    temperature.cross_validated(posterior, CLEAN, kernel, run, seconds=80.0)
    first, *others = chains
    assert first.kernel is kernel
    for one in others:
        assert (one.lengths["num_warmup"], one.lengths["num_draws"]) == counts
        static = getattr(one.kernel, "static", one.kernel)
        assert getattr(static, "num_steps", None) == steps
        assert jax.tree.structure(one.kernel) == jax.tree.structure(kernel)  # the programs of the fit
