"""Warm starts: an optimizer, and then perhaps a kernel, finds the start of every chain."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import HMC, MLP, SGHMC, BayesianNetwork, WarmStart, likelihoods, priors
from ergonet._errors import CapabilityError, DivergedError, SettingError, TimeLimitError
from ergonet._keys import derived_seed
from ergonet.baselines import SGD, Adam
from ergonet.inference.progress import WARM_START, Lines, Silent, Tick
from ergonet.inference.training import Split
from ergonet.inference.training_jobs import TrainingJob
from ergonet.inference.warm_start import PURPOSE, Found, _origins
from tests.minibatches import linear_regression, network
from tests.minibatches import run as run_minibatches
from tests.sampling import SCALES, draw, gaussian_target, place_in_one_batch, trajectory_kernel

ADAM = Adam(learning_rate=0.05, batch_size=8)
HMC_THERE = HMC(step_size=0.1, num_steps=4, length_jitter=0.0)


def of_network(**settings: Any):
    return WarmStart(ADAM, **({"most_epochs": 40, "patience": 10, "validation": 0.2} | settings))


def starts(warm_start, target=None, **settings: Any):
    return warm_start.run(target or network(), **({"num_chains": 2, "seed": 5, "devices": 2} | settings))


def held_out_loss(target, position, seed, chain, num_validation):
    """Mean negative log likelihood of the rows that a chain holds out."""
    rows, _ = Split(target.num_rows, num_validation / target.num_rows, 1).order(derived_seed(seed, PURPOSE), chain)
    return -float(np.mean(target.log_likelihood(jnp.asarray(position), jnp.asarray(rows[:num_validation]))))


def test_starts_do_not_depend_on_workers_chains_and_chunks(monkeypatch):
    found = starts(of_network())
    np.testing.assert_array_equal(starts(of_network(), devices=1, num_chains=3)[:2], found)
    assert not np.any(found[0] == found[1])  # each chain has its own
    monkeypatch.setattr("ergonet.inference.training_jobs.CHUNK_SECONDS", 1e-9)  # a step at a time
    np.testing.assert_array_equal(starts(of_network(most_epochs=3)), starts(of_network(most_epochs=3), devices=1))
    monkeypatch.undo()
    np.testing.assert_array_equal(starts(of_network(), seed=5)[0], found[0])
    assert np.any(starts(of_network(), seed=6)[0] != found[0])


def test_the_weights_of_the_best_epoch_are_kept():
    """Of every epoch, the loss on the rows that the chain holds out is at least that of the result."""
    target, losses, epoch = network(), [], np.zeros(2)
    for epochs in range(1, 6):
        samples = draw(HMC_THERE, target=target, warm_start=of_network(most_epochs=epochs), num_warmup=0, num_draws=1)
        losses.append(samples.tuning["warm_start_loss"])
        epoch = samples.tuning["warm_start_epoch"]
    best = np.minimum.accumulate(losses)
    np.testing.assert_array_equal(losses, best)
    assert np.any(best[-1] < best[0])
    positions = starts(of_network(most_epochs=5), target)
    for chain in range(2):
        loss = held_out_loss(target, positions[chain], seed=5, chain=chain, num_validation=8)
        np.testing.assert_allclose(loss, best[-1][chain], rtol=1e-5)
        first = next(number for number, row in enumerate(losses, 1) if row[chain] == best[-1][chain])
        assert epoch[chain] == first or (first, epoch[chain]) == (1, 0)  # 0: no epoch improved on the initial values


def test_an_optimizer_that_no_longer_improves_stops():
    samples = draw(HMC_THERE, target=network(), warm_start=of_network(most_epochs=10_000), num_warmup=0, num_draws=1)
    steps = (samples.tuning["warm_start_epoch"] + 10) * (32 // 8)
    assert samples.gradients["warm_start"] == steps.sum()
    assert samples.seconds["warm_start"] > 0
    assert samples.seconds["total"] >= sum(one for name, one in samples.seconds.items() if name != "total")
    assert samples.about["warm_start"]["most_epochs"] == 10_000


def test_without_rows_the_density_itself_is_judged():
    target = gaussian_target(mean=3.0)
    found = starts(WarmStart(Adam(learning_rate=0.05), most_epochs=100), target)
    np.testing.assert_allclose(found, 3.0, atol=0.05)
    given = starts(WarmStart(SGD(learning_rate=1e-9), most_epochs=1), target, init=np.full((2, 5), [[7.0], [8.0]]))
    np.testing.assert_allclose(given, np.full((2, 5), [[7.0], [8.0]]), rtol=1e-5)


def test_the_optimizer_starts_from_a_share_of_a_draw_far_away():
    nowhere = WarmStart(SGD(learning_rate=1e-9), most_epochs=1)
    cold = draw(HMC(step_size=1e-7, num_steps=1), num_warmup=0, num_draws=1).positions[:, 0]
    for share, scale, mean in ((1 / 8, 0.03, 0.0), (1 / 2, 0.03, cold[0] / 2), (1.0, 30.0, 0.0)):
        found = starts(nowhere, gaussian_target(SCALES * scale, mean=mean))
        np.testing.assert_allclose(found[0], share * cold[0], rtol=1e-3)


def test_the_mode_of_a_posterior_with_rows_is_found_if_none_are_held_out():
    target, mean, _ = linear_regression()
    found = starts(WarmStart(Adam(learning_rate=0.02, batch_size=24), most_epochs=2000, validation=0.0), target)
    np.testing.assert_allclose(found, np.tile(mean, (2, 1)), atol=1e-3)


def test_a_kernel_goes_on_from_there():
    target, warm = gaussian_target(mean=3.0), {"most_epochs": 20, "then": HMC_THERE, "num_transitions": 20}
    adam = starts(WarmStart(Adam(learning_rate=0.05), most_epochs=20), target)
    found = starts(WarmStart(Adam(learning_rate=0.05), **warm), target)
    assert np.all(found != adam)
    np.testing.assert_array_equal(
        starts(WarmStart(Adam(learning_rate=0.05), **warm), target, devices=1, num_chains=3)[:2], found
    )
    samples = draw(HMC_THERE, target=target, warm_start=WarmStart(Adam(learning_rate=0.05), **warm))
    assert samples.gradients["warm_start"] == 2 * (200 + 20 * 4)


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")  # so few draws
def test_chains_of_every_kind_begin_at_the_starts():
    target, frozen = network(), HMC(step_size=1e-7, num_steps=1)
    samples = draw(frozen, target=target, warm_start=of_network(), num_warmup=0, num_draws=1)
    np.testing.assert_allclose(samples.positions[:, 0], starts(of_network(), target), atol=1e-5)
    frozen = SGHMC(learning_rate=1e-14, batch_size=8)
    started = starts(of_network(), target)
    samples = run_minibatches(target, frozen, warm_start=of_network(), init=started, num_draws=1, num_chains=2, seed=5)
    again = starts(of_network(), target, init=started)
    np.testing.assert_allclose(samples.positions[:, 0], again, atol=1e-5)


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "parametrization"), [("gibbs", "centered"), ("dynamical-b", "non-centered")])
@pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")  # so few draws
def test_hyperparameters_are_optimized_with_the_weights(name, parametrization):
    x = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
    prior = priors.NormalGamma(parametrization=parametrization)
    target = BayesianNetwork(MLP((2, 3, 1)), prior, likelihoods.Gaussian(0.5)).condition(x, np.sin(x[:, 0]))
    warm, settings = WarmStart(SGD(learning_rate=1e-9), most_epochs=1), {"num_warmup": 5, "num_draws": 2}
    assert np.isfinite(
        draw(trajectory_kernel(name), target=target, warm_start=of_network(), **settings).positions
    ).all()
    assert np.all(
        starts(of_network(), target, init=np.ones(target.dim)) != starts(warm, target, init=np.ones(target.dim))
    )


@pytest.mark.statistical
def test_chains_of_an_accelerator_begin_together(monkeypatch):
    alone = draw(HMC_THERE, target=network(), warm_start=of_network())
    place_in_one_batch(monkeypatch)
    together = draw(HMC_THERE, target=network(), warm_start=of_network())
    np.testing.assert_array_equal(together.tuning["warm_start_epoch"], alone.tuning["warm_start_epoch"])
    np.testing.assert_allclose(together.tuning["warm_start_loss"], alone.tuning["warm_start_loss"], rtol=1e-3)
    assert together.gradients["warm_start"] == alone.gradients["warm_start"]


def test_a_loss_that_is_not_finite_is_one_error_that_names_the_learning_rate():
    wild = WarmStart(SGD(learning_rate=1e38, batch_size=8))
    message = r"Chain \d diverged after .* not finite. Lower the learning rate of the optimizer of `warm_start`, 1e\+38"
    with pytest.raises(DivergedError, match=message):
        starts(wild)
    with pytest.raises(DivergedError, match=message):
        draw(HMC_THERE, target=network(), warm_start=wild)


class Stops(Silent):
    """Ctrl-C in the warm start."""

    seen: tuple[Tick, ...] = ()

    def tick(self, tick):
        self.seen = (*self.seen, tick)
        raise KeyboardInterrupt


def test_it_is_stopped_and_shown_as_the_chains_are(monkeypatch, capsys):
    stops = Stops()
    with pytest.raises(KeyboardInterrupt):
        draw(HMC_THERE, target=network(), warm_start=of_network(), progress=stops)
    assert stops.seen[0].phase == WARM_START
    reached = r"`time_limit` was reached in the warm start.*lower `most_epochs`|before the first transition"
    with pytest.raises(TimeLimitError, match=reached):  # the latter on a busy machine
        draw(HMC_THERE, target=network(), warm_start=of_network(most_epochs=10**6, patience=10**6), time_limit=0.3)
    monkeypatch.setattr("ergonet.inference.progress.SECONDS_BETWEEN_LINES", 0.0)
    draw(HMC_THERE, target=network(), warm_start=of_network(), progress=Lines())
    shown = capsys.readouterr().err
    assert "warm start: chain 1, epoch " in shown
    assert "sampling: 100 % of 140 transitions" in shown


def test_what_cannot_be_started_is_said():
    model = network().model
    x = np.zeros((20, 3), np.float32)
    with pytest.raises(CapabilityError, match="`warm_start` keeps all rows on the device"):
        run_minibatches(ergonet.stream(model, x, np.zeros(20, int)), SGHMC(batch_size=8), warm_start="adam")
    with pytest.raises(SettingError, match="`warm_start='adma'` is not known"):
        draw(warm_start="adma")
    others: dict[str, Any] = {"optimizer": "adam", "then": SGHMC(), "most_epochs": 0, "validation": 1.0}
    for name, value in others.items():
        with pytest.raises(SettingError, match=rf"`WarmStart\({name}="):
            WarmStart(**{name: value})


def test_small_tables_are_optimized_in_one_batch():
    target, _, _ = linear_regression(rows=3)
    assert np.isfinite(starts(WarmStart(Adam(), most_epochs=2, validation=0.9), target)).all()


def test_what_is_remembered_is_that_of_the_chains_of_a_job_however_they_were_trained():
    """Two groups of vmapped chains, 0 and 2, 1 and 3, and then jobs of one chain each."""

    class Trained(TrainingJob):
        def __init__(self, *chains):
            self.chains = chains

        def tuning(self):
            return {"loss": np.array(self.chains) + 0.5}

    jobs = [Trained(0, 2), Trained(1, 3)]
    found = Found(np.zeros((4, 1)), _origins(jobs, [20, 40]), seconds=3.0, compile_seconds=1.0)
    assert [found.origin((chain,))["loss"] for chain in range(4)] == [[0.5], [1.5], [2.5], [3.5]]
    assert found.origin((1, 2)) == {"loss": [1.5, 2.5], "gradients": 30, "seconds": 2.0}
