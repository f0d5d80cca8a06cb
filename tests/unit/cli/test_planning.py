"""Counts that fit in a time limit: what is planned, from which speed, and when."""

import itertools
import time
import tomllib
from types import SimpleNamespace

import pytest

from ergonet import HMC, NUTS, SGHMC
from ergonet.assembly import planning
from ergonet.assembly.planning import Speed
from ergonet.assembly.settings import RunSettings, resolve
from ergonet.cli import fitting, main
from ergonet.cli.deadline import Deadline
from ergonet.inference.progress import Tick
from ergonet.inference.warm_start import WarmStart
from tests.sampling import gaussian_target


@pytest.mark.parametrize("rate", [0.1, 3.0, 40.0, 5e3])
@pytest.mark.parametrize("seconds", [0.0, 20.0, 600.0])
def test_a_plan_fits_in_the_time_or_is_the_smallest(rate, seconds):
    found = planning.plan(Speed(rate, 4, 1), seconds)
    assert 2 <= found.num_chains <= 4
    assert found.num_warmup >= 10
    assert found.num_draws >= 10
    total = found.num_chains * (found.num_warmup + found.num_draws)
    assert found.seconds == pytest.approx(total / rate)
    assert found.seconds <= 0.7 * seconds or (found.num_chains, found.num_warmup, found.num_draws)[:2] == (2, 10)


def test_more_time_gives_more_of_everything_up_to_what_is_enough():
    plans = [planning.plan(Speed(10.0, 4, 1), seconds) for seconds in (20.0, 100.0, 300.0, 1e5)]
    assert [one.num_chains for one in plans] == [2, 2, 4, 4]
    for before, after in itertools.pairwise(plans):
        assert (before.num_warmup, before.num_draws) < (after.num_warmup, after.num_draws)
    assert (plans[-1].num_warmup, plans[-1].num_draws) == (1000, 1000)
    assert planning.plan(Speed(10.0, 1, 1), 20.0).num_chains == 1
    assert planning.plan(Speed(10.0, 4, 1), 1e5, most_draws=4000).num_draws == 4000


@pytest.mark.parametrize(("num_draws", "minimum"), [(999, None), (1000, 1000)])
def test_a_plan_with_too_few_draws_for_a_stop_rule_has_none(num_draws, minimum):
    ruled = RunSettings(num_chains=4, num_draws=4000, until_ess=400.0, until_rhat=1.01, until_minimum=1000)
    run = planning.Plan(2, 100, num_draws, 1.0).change(ruled)
    assert (run.num_chains, run.num_draws, run.until_minimum) == (2, num_draws, minimum)
    assert (run.until is None) == (minimum is None)


def test_chains_that_go_on_until_they_have_converged_may_use_all_of_the_time(monkeypatch):
    monkeypatch.setattr(planning, "measured_rate", lambda *_, **__: 1e4)
    usual = {"num_chains": 4, "num_warmup": 300, "num_draws": 1000, "time_limit": 3600.0}
    rule = {"num_draws": 4000, "until_ess": 400.0, "until_rhat": 1.01, "until_minimum": 1000}
    for run, num_draws, most in ((usual, 1000, ""), (usual | rule, 4000, "at most ")):
        settings = resolve("t.csv", {}, {"kernel": {"name": "nuts"}, "run": run})
        found, said = planning.planned(settings, gaussian_target(), NUTS(), until=time.perf_counter() + 3600.0)
        assert found.run.num_draws == num_draws
        assert f"warm-up + {num_draws} draws), {most}about " in said


def test_fewer_chains_than_run_at_a_time_would_save_nothing():
    assert [Speed(40.0, 4, slots).of(2) for slots in (1, 2, 3, 4, 16)] == [40.0, 40.0, 80 / 3, 20.0, 20.0]
    few, many = (planning.plan(Speed(40.0, 4, slots), 1.0) for slots in (1, 4))
    assert (few.num_chains, many.num_chains) == (2, 4)
    assert many.seconds == pytest.approx(4 * 20 / 40.0)
    plans = [planning.plan_ensemble(Speed(10.0, 10, slots), 100.0, ENSEMBLE, steps=0.25) for slots in (2, 8, 10)]
    assert [one.num_chains for one in plans] == [4, 8, 10]
    assert [one.num_started for one in plans] == [277, 138, 111]


ENSEMBLE = RunSettings(
    num_chains=10, num_warmup=100, num_draws=100, warm_start={"name": "adam+mclmc", "num_transitions": 1000}
)


def test_an_ensemble_loses_chains_before_it_loses_transitions():
    plans = [
        planning.plan_ensemble(Speed(10.0, 10, 1), seconds, ENSEMBLE, steps=0.25)
        for seconds in (0.0, 100.0, 600.0, 1e5)
    ]
    counts = [(one.num_chains, one.num_started, one.num_warmup, one.num_draws) for one in plans]
    assert counts == [(4, 20, 20, 20), (4, 277, 27, 27), (6, 1000, 100, 100), (10, 1000, 100, 100)]
    for one, seconds in zip(plans[1:], (100.0, 600.0, 1e5), strict=True):
        assert one.seconds <= 0.5 * seconds
    changed = plans[1].change(ENSEMBLE)
    assert changed.warm_start == {"name": "adam+mclmc", "num_transitions": 277}
    assert (changed.num_chains, changed.num_warmup, changed.num_draws) == (4, 27, 27)


def test_a_run_with_a_warm_start_of_two_stages_is_planned_as_an_ensemble():
    found = planning._plan(Speed(10.0, 10, 1), 600.0, ENSEMBLE, HMC(num_steps=64))
    assert found == planning.plan_ensemble(Speed(10.0, 10, 1), 600.0, ENSEMBLE, steps=0.25)
    assert planning._plan(Speed(10.0, 10, 1), 600.0, ENSEMBLE, NUTS()).num_started is None


@pytest.mark.parametrize(
    ("run", "is_open"),
    [
        ({"time_limit": 60.0}, True),
        ({"time_limit": 60.0, "seed": 3}, True),
        ({}, False),
        ({"num_draws": 100}, False),
        ({"time_limit": 60.0, "num_draws": 100}, False),
        ({"time_limit": 60.0, "num_chains": 2}, False),
        ({"time_limit": 60.0, "warm_start": "adam"}, False),
    ],
)
def test_counts_are_chosen_only_if_none_is_given(run, is_open, tmp_path):
    assert planning.is_open({"run": run}) == is_open
    (tmp_path / "settings.toml").write_text("[run]\nnum_warmup = 70\n")
    assert not main._is_to_be_planned({"run": run}, str(tmp_path / "settings.toml"))


def test_the_speed_is_that_of_all_chains_after_their_first_chunks(monkeypatch):
    now = iter([10.0, 10.5, 11.0, 12.0, 12.5])
    monkeypatch.setattr(planning, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    watch = planning._Watch(seconds=2.0)

    def tick(job, done):
        watch.tick(Tick(job, "warm-up", done, 61, 0.1, 0.8, 7 * done, 0))

    assert watch.rate is None
    tick(0, 1)
    tick(1, 1)
    assert watch.rate is None  # there is no time between the first chunks
    tick(0, 11)
    assert watch.rate == pytest.approx(10 / 1.0)
    tick(1, 31)
    assert watch.rate == pytest.approx(40 / 2.0)
    with pytest.raises(planning._EnoughError):
        tick(0, 31)


def test_the_probe_measures_what_it_can():
    run = RunSettings(num_chains=2, seed=5)
    target, kernel = gaussian_target(), NUTS(max_doublings=5)
    rate = planning.measured_rate(target, kernel, run, until=time.perf_counter() + 3600.0)
    assert rate is not None
    assert rate > 0
    assert planning.measured_rate(target, kernel, run, until=time.perf_counter() - 1.0) is None


@pytest.mark.parametrize(("divide", "probed"), [("chains", 1), ("rows", 10)])
def test_the_probe_has_no_chains_that_wait_for_others(divide, probed, monkeypatch):
    """Ten slow transitions of ten chains on one core, before any chain has a second one, left no time to sample."""
    found = []
    monkeypatch.setattr("ergonet.sample", lambda *_, num_chains, **__: found.append(num_chains), raising=False)
    run = RunSettings(num_chains=10, devices=1, divide=divide)
    planning.measured_rate(gaussian_target(), NUTS(), run, until=time.perf_counter() + 3600.0)
    assert found == [probed]


def test_what_is_planned_is_said_and_becomes_the_settings(monkeypatch):
    monkeypatch.setattr(planning, "time", SimpleNamespace(perf_counter=lambda: 40.0))
    settings = resolve("two-moons", {}, {"run": {"time_limit": 100.0, "num_chains": 4, "devices": 1}})
    for rate, said in (
        (20.0, "Planned: 2 chains x ("),
        (0.1, "Without draws, predictions are those of"),
        (None, "too short to plan the run"),
    ):
        monkeypatch.setattr(planning, "measured_rate", lambda *_, rate=rate, **__: rate)
        found, sentence = planning.planned(settings, gaussian_target(), NUTS(), until=60.0)
        assert said in sentence
        expected = settings.run if rate is None else planning.plan(Speed(rate, 4, 1), 20.0)
        assert (found.run.num_warmup, found.run.num_draws) == (expected.num_warmup, expected.num_draws)


@pytest.mark.parametrize(("probe", "left"), [(1.0, 11.0), (8.0, 12.0)])
def test_a_warm_start_is_compiled_before_the_time_is_planned_if_that_leaves_some(probe, left, monkeypatch):
    now = [40.0]

    def take(seconds, found=None):
        now[0] += seconds
        return found

    monkeypatch.setattr(planning, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(planning, "measured_rate", lambda *_, **__: take(probe, 20.0))
    monkeypatch.setattr(WarmStart, "run", lambda *_, **__: take(8.0))
    settings = resolve("two-moons", {}, {"run": {"time_limit": 100.0, "warm_start": "adam", "devices": 1}})
    found, _ = planning.planned(settings, gaussian_target(), NUTS(), until=60.0)
    expected = planning.plan(Speed(20.0, found.run.num_chains, 1), left)
    assert (found.run.num_warmup, found.run.num_draws) == (expected.num_warmup, expected.num_draws)


def test_nothing_is_planned_for_a_minibatch_kernel_which_is_said(capsys):
    settings = resolve("two-moons", {}, {"run": {"time_limit": 100.0, "num_warmup": 70}})
    deadline = Deadline(100.0, time.perf_counter(), 10)
    found = fitting._planned(settings, gaussian_target(), SGHMC(batch_size=10), quiet=False, deadline=deadline)
    assert found is settings
    assert "the draws that the time limit leaves come after 70 epochs of warm-up" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tables", "counts", "said"),
    [
        (
            {"kernel": {"name": "nuts"}, "run": {"time_limit": 3600.0}},
            (4, 1000, 1000),
            "Planned: 4 chains x (1000 warm-up + 1000 draws), about 267 s of the time limit",
        ),
        (
            {"likelihood": {"temperature": 1.0}, "run": {"time_limit": 3600.0}},
            (4, 1000, 2000),
            "Planned: 4 chains x (1000 warm-up + 2000 draws), at most about 400 s of the time limit",
        ),
        ({"likelihood": {"temperature": 1.0}}, (4, 300, 2000), "4 chains x (300 warm-up + 1000 to 2000 draws)."),
    ],
)
def test_a_fit_samples_what_was_planned_or_what_the_default_says(
    *, tables, counts, said, tmp_path, monkeypatch, capsys
):
    """Up to the call of `sample`, which ends it."""
    import ergonet

    class BegunError(Exception):
        pass

    def begin(target, kernel, *, num_chains, num_warmup, num_draws, store, **_):
        store.allocate(num_chains, num_draws, {})
        text = (tmp_path / ".run.ergonet" / "new" / "settings.toml").read_text()
        raise BegunError(num_chains, num_warmup, num_draws, tomllib.loads(text)["run"])

    monkeypatch.setattr(planning, "measured_rate", lambda *_, **__: 30.0)
    monkeypatch.setattr(ergonet, "sample", begin)
    with pytest.raises(BegunError) as begun:
        fitting.run(
            resolve("two-moons", {}, tables),
            out=str(tmp_path / "run"),
            overwrite=False,
            strict=False,
            quiet=False,
            began=time.perf_counter(),
            plans="run" in tables,
        )
    *found, saved = begun.value.args
    assert tuple(found) == counts
    assert (saved["num_chains"], saved["num_warmup"], saved["num_draws"]) == counts
    assert saved.get("until_rhat") == (None if "kernel" in tables else 1.01)
    assert said in capsys.readouterr().out
