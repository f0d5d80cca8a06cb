"""Minibatch runs that are stopped, stored and read again, and rows that lie on the host."""

import json
import time

import jax
import numpy as np
import pytest

import ergonet
from ergonet import NaiveSGHMC, RunningPrediction, retention
from ergonet.draws.store import MemoryStore
from ergonet.inference import minibatch_jobs
from ergonet.inference.feeds import DeviceFeed, HostFeed
from tests.minibatches import classification, linear_regression, network, run
from tests.unit.inference.test_minibatch_runs import KERNELS
from tests.unit.inference.test_stops import Watcher, interrupt, press_ctrl_c

pytestmark = pytest.mark.slow  # the whole file


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(minibatch_jobs, "FIRST_CHUNK", 10)
    monkeypatch.setattr(minibatch_jobs, "CHUNK_SECONDS", 1e-3)


def sghmc():
    return KERNELS["sghmc"](steps_per_draw=4)


@pytest.mark.parametrize("action", [interrupt, press_ctrl_c])
def test_ctrl_c_keeps_the_draws(small_chunks, action):
    model, x, y = classification()
    watcher = Watcher(400, action)
    target = model.condition(x, y)
    settings = {"num_chains": 3, "num_warmup": 10}
    stopped = run(
        target, sghmc(), num_draws=10**5, progress=watcher, callback=RunningPrediction(model, x, y), **settings
    )
    count = stopped.num_draws
    assert 50 <= count < 10**5
    whole = run(target, sghmc(), num_draws=count, **settings)
    np.testing.assert_array_equal(stopped.positions, whole.positions)
    for name in whole.curve:
        np.testing.assert_array_equal(stopped.curve[name][:, : 10 + count], whole.curve[name])
    assert stopped.about["stopped_by"] == "Ctrl-C"
    assert any("Stopped by Ctrl-C" in line for line in watcher.said)
    assert watcher.ended == 1
    assert np.isfinite(stopped.running_summary.mean).all()


def test_ctrl_c_while_a_chunk_is_kept_counts_it_once(small_chunks):
    class Interrupted(MemoryStore):
        writes = 0

        def write(self, chain, start, rows):
            super().write(chain, start, rows)
            self.writes += 1
            if self.writes == 20:
                raise KeyboardInterrupt

    stopped = run(network(), sghmc(), num_draws=10**5, store=Interrupted())
    whole = run(network(), sghmc(), num_draws=stopped.num_draws)
    np.testing.assert_array_equal(stopped.positions, whole.positions)
    assert stopped.gradients["sampling"] == 4 * stopped.num_draws


def test_ctrl_c_before_the_first_draw_is_ctrl_c(small_chunks):
    watcher = Watcher(1, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(network(), sghmc(), num_warmup=10**6, progress=watcher)
    assert watcher.ended == 1


def test_a_time_limit_counts_from_the_call(small_chunks, monkeypatch):
    start = minibatch_jobs.MinibatchJob.start

    def slow(self):
        start(self)
        time.sleep(1.0)

    monkeypatch.setattr(minibatch_jobs.MinibatchJob, "start", slow)
    with pytest.raises(ergonet._errors.TimeLimitError, match="before the first transition, in the preparation"):
        run(network(), sghmc(), num_draws=10**6, time_limit=1.0)


def test_a_time_limit_keeps_the_draws(small_chunks):
    target = network()
    run(target, sghmc(), num_chains=2)
    with pytest.warns(ergonet._errors.SamplingWarning, match="stopped by the time limit"):
        stopped = run(target, sghmc(), num_chains=2, num_draws=10**6, time_limit=2.0)
    assert 10 <= stopped.num_draws < 10**6
    assert np.all(np.asarray(stopped.positions[:, -1]) != 0)
    assert stopped.about["stopped_by"] == "the time limit"


def test_thinned_draws_of_a_stopped_run(small_chunks):
    stopped = run(network(), sghmc(), num_draws=10**5, retention=retention.Every(7), progress=Watcher(400, interrupt))
    whole = run(network(), sghmc(), num_draws=7 * stopped.num_draws, retention=retention.Every(7))
    np.testing.assert_array_equal(stopped.positions, whole.positions)


def test_the_last_draws_of_a_stopped_run_are_those_before_the_stop(small_chunks, tmp_path):
    stopped = run(
        network(),
        sghmc(),
        num_draws=10**5,
        retention=retention.Last(5),
        progress=Watcher(400, interrupt),
        store=tmp_path / "draws.zarr",
    )
    assert stopped.num_draws == 5
    drawn = stopped.curve["lp"].shape[1]
    whole = run(network(), sghmc(), num_draws=drawn - stopped.about["num_warmup"])
    np.testing.assert_array_equal(stopped.positions, whole.positions[:, -5:])
    np.testing.assert_array_equal(ergonet.load(tmp_path / "draws.zarr").stats["lp"], whole.stats["lp"][:, -5:])


def test_ticks_count_up_to_the_whole_run(small_chunks):
    watcher = Watcher()
    run(network(), sghmc(), num_chains=2, num_warmup=20, num_draws=30, progress=watcher)
    for job in (0, 1):
        ticks = [tick for tick in watcher.ticks if tick.job == job]
        assert [tick.done for tick in ticks] == sorted(tick.done for tick in ticks)
        assert ticks[-1].done == ticks[-1].total == 200
        assert {tick.phase for tick in ticks} == {"warm-up", "sampling"}


@pytest.mark.slow
def test_a_corrected_chain_may_be_hot_on_its_way_from_remote_initial_values(monkeypatch):
    """A divergent trajectory would be rejected, so the temperature says nothing about the step size."""
    monkeypatch.setattr(minibatch_jobs, "CHUNK_SECONDS", 1e-9)  # the temperature is checked after each step
    target, mean, _ = linear_regression(rows=200)
    kernel = NaiveSGHMC(learning_rate=1e-4, num_steps=10, metropolis=True, batch_size=20, steps_per_draw=10)
    found = run(target, kernel, num_draws=40, init=np.asarray(mean)[None] + 1000)
    temperature = found.stats["kinetic_temperature"][0]
    assert temperature[10:20].mean() > minibatch_jobs.HOTTEST  # later than when chains without a correction may be hot
    assert temperature[-1] < 0.1 * temperature[0]


# On disk


def test_a_stored_run_is_the_run_in_memory(small_chunks, tmp_path):
    target = network()
    for name in ("sghmc", "naive"):
        kernel = KERNELS[name](steps_per_draw=10)
        settings = {"num_chains": 2, "num_warmup": 4, "num_draws": 30, "retention": retention.Every(2)}
        inside = run(target, kernel, **settings)
        stored = run(target, kernel, store=tmp_path / name, **settings)
        assert not isinstance(stored.positions, np.ndarray)  # read when it is used
        inside.save(tmp_path / f"{name}-saved")
        for loaded in (
            stored,
            ergonet.load(tmp_path / name, target=target),
            ergonet.load(tmp_path / f"{name}-saved", target=target),
        ):
            np.testing.assert_array_equal(loaded.positions[...], inside.positions)
            assert set(loaded.stats) == set(inside.stats)
            for field, values in inside.stats.items():
                np.testing.assert_array_equal(loaded.stats[field], values)
            assert loaded.gradients == inside.gradients
            assert loaded.is_of_minibatches
            assert loaded.diagnostics().keys() == inside.diagnostics().keys()
        manifest = json.loads((tmp_path / name / "manifest.json").read_text())
        assert manifest["complete"] is True
        assert manifest["draws_by_chain"] == [15, 15]
        json.dumps(dict(inside.about))


def test_a_stopped_stored_run_is_readable(small_chunks, tmp_path):
    stopped = run(network(), sghmc(), num_draws=10**4, store=tmp_path / "run", progress=Watcher(400, interrupt))
    loaded = ergonet.load(tmp_path / "run")
    assert loaded.num_draws == stopped.num_draws < 10**4
    np.testing.assert_array_equal(loaded.positions[...], stopped.positions[...])


# Rows on the host


def layouts_of(feed, count):
    """Rows of so many minibatches, `[batch, row]`."""
    seen = []
    for number in range(-(-count // feed.layout_size)):
        rows, order = feed.layout(number)
        assert order.shape[0] == feed.layout_size
        seen.extend(np.asarray(rows["number"])[np.asarray(order)])
    return np.stack(seen[:count])


def host_feed(rows, batch_size, chunk_bytes, seed=(1, 0), numbers=None):
    data = {"x": np.zeros((rows, 3), np.float32), "number": np.arange(rows) if numbers is None else numbers}
    return HostFeed(data, seed, jax.devices()[0], batch_size, chunk_bytes=chunk_bytes)


PER_ROW = 3 * 4 + 8


@pytest.mark.parametrize("batches", [1, 3, 4, 7, 1000])
@pytest.mark.parametrize(("rows", "batch_size"), [(28, 4), (30, 4), (5, 5), (7, 1)])
def test_rows_on_the_host_are_seen_once_in_an_epoch(rows, batch_size, batches):
    """Whatever the size of a layout."""
    per_epoch = rows // batch_size
    feed = host_feed(rows, batch_size, batches * batch_size * PER_ROW)
    assert feed.layout_size == min(batches, per_epoch)
    epochs = layouts_of(feed, 10 * per_epoch).reshape(10, -1)
    assert all(len(np.unique(epoch)) == per_epoch * batch_size for epoch in epochs)
    assert len(np.unique(np.sort(epochs, axis=1), axis=0)) == (1 if rows % batch_size == 0 else 10) or rows < 10
    assert rows < 7 or len(np.unique(epochs, axis=0)) == 10
    whole = layouts_of(host_feed(rows, batch_size, 10**9), 10 * per_epoch).reshape(10, -1)
    sorted_ = np.sort(epochs.reshape(10, per_epoch, -1), axis=2)
    np.testing.assert_array_equal(sorted_, np.sort(whole.reshape(10, per_epoch, -1), axis=2))


def test_layouts_come_in_any_order_and_depend_on_the_seed():
    feed = host_feed(40, 4, 3 * 4 * PER_ROW)

    def rows_of(feed, number):
        rows, order = feed.layout(number)
        return np.asarray(rows["number"])[np.asarray(order)]

    first = [rows_of(feed, number) for number in range(8)]
    for number in (5, 0, 7, 7, 3):
        np.testing.assert_array_equal(rows_of(feed, number), first[number])
    other = host_feed(40, 4, 3 * 4 * PER_ROW, seed=(1, 1))
    assert not np.array_equal(rows_of(other, 0), first[0])


def test_a_mapped_file_will_do(tmp_path):
    np.save(tmp_path / "numbers.npy", np.arange(50))
    mapped = np.load(tmp_path / "numbers.npy", mmap_mode="r")
    epoch = layouts_of(host_feed(50, 5, 2 * 5 * PER_ROW, numbers=mapped), 10)
    np.testing.assert_array_equal(np.sort(epoch.ravel()), np.arange(50))


def test_the_device_s_feed_has_each_row_once_too():
    feed = DeviceFeed({"number": np.arange(30)}, jax.random.key(0), 4)
    epochs = layouts_of(feed, 70).reshape(10, 28)
    assert all(len(np.unique(epoch)) == 28 for epoch in epochs)
