"""Ctrl-C, time limits, stores and progress: nothing that was drawn is lost."""

import json
import re
import signal
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import arviz_base
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import MLP, NUTS, BayesianNetwork, ConstrainedHMC, GibbsHMC, Target, WindowedHMC, likelihoods, priors
from ergonet._errors import CapabilityError, MemoryPlanError, RunDirectoryError, StartError, TimeLimitError
from ergonet.draws import memory
from ergonet.draws.store import AbstractStore, MemoryStore, ZarrStore
from ergonet.inference.progress import AbstractProgress, Lines, Tick, choose_progress
from ergonet.inference.trajectory_jobs import TrajectoryJob
from ergonet.inference.validation import validate_size
from tests.sampling import draw, gaussian_target


class Watcher(AbstractProgress):
    """Calls `action` once, as soon as every chain has done so many transitions."""

    def __init__(self, done=0, action=lambda: None):
        self.done, self.action = done, action
        self.ticks, self.said, self.ended, self.reached = [], [], 0, {}

    def begin(self, num_jobs, chains_per_job):
        self.jobs = (num_jobs, chains_per_job)

    def say(self, message):
        self.said.append(message)

    def tick(self, tick):
        self.ticks.append(tick)
        self.reached[tick.job] = tick.done
        if len(self.reached) == self.jobs[0] and min(self.reached.values()) >= self.done:
            self.done = np.inf
            self.action()

    def end(self):
        self.ended += 1


def interrupt():
    raise KeyboardInterrupt


def press_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may ignore it
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(TrajectoryJob, "_chunk_size", lambda self: 10)


@pytest.mark.parametrize("action", [interrupt, press_ctrl_c])
def test_ctrl_c_keeps_the_draws(small_chunks, action):
    watcher = Watcher(90, action)
    stopped = draw(num_chains=3, num_draws=2000, progress=watcher)
    whole = draw(num_chains=3, num_draws=200)
    assert 10 <= stopped.num_draws < 200
    np.testing.assert_array_equal(stopped.positions, whole.positions[:, : stopped.num_draws])
    assert stopped.stats["lp"].shape == (3, stopped.num_draws)
    assert stopped.about["stopped_by"] == "Ctrl-C"
    assert stopped.about["num_draws"] == stopped.num_draws
    assert any("Stopped by Ctrl-C" in line for line in watcher.said)
    assert watcher.ended == 1


def test_ctrl_c_while_a_chunk_is_recorded_loses_nothing(small_chunks):
    class Interrupted(MemoryStore):
        def allocate(self, *arguments):
            super().allocate(*arguments)
            self.seen = {0: 0, 1: 0}

        def write(self, chain, start, rows):
            if min(self.seen.values()) >= 20:  # every chain has draws, and this chunk comes on top
                self.seen = {0: -1000, 1: -1000}
                raise KeyboardInterrupt
            super().write(chain, start, rows)
            self.seen[chain] = start + len(rows["lp"])

    stopped = draw(num_draws=500, store=Interrupted())
    whole = draw(num_draws=100)
    assert stopped.num_draws >= 20
    np.testing.assert_array_equal(stopped.positions, whole.positions[:, : stopped.num_draws])


def test_ctrl_c_in_the_warmup_is_ctrl_c(small_chunks):
    watcher = Watcher(1, interrupt)
    with pytest.raises(KeyboardInterrupt):
        draw(num_warmup=200, progress=watcher)
    assert watcher.ended == 1


def test_a_time_limit_keeps_the_draws(small_chunks):
    watcher = Watcher()
    draw()  # compile before the clock runs
    stopped = draw(num_draws=10**6, time_limit=3.0, progress=watcher)
    assert 10 <= stopped.num_draws < 10**6
    assert stopped.about["stopped_by"] == "the time limit"
    assert np.all(np.isfinite(stopped.positions))
    assert np.all(np.asarray(stopped.positions[:, -1]) != 0)
    assert stopped.seconds["total"] < 60


def test_a_time_limit_in_the_warmup_is_an_error(small_chunks):
    with pytest.raises(TimeLimitError, match=r"`time_limit` was reached before") as reached:
        draw(num_warmup=10**6, time_limit=0.5)
    states = reached.value.states  # None on a machine that was too busy for one transition
    assert states is None or (states.shape == (2, 5) and np.all(np.isfinite(states)))


def test_an_error_in_a_chain_reaches_the_caller(monkeypatch):
    def fail(self):
        raise RuntimeError("broken device")

    watcher = Watcher()
    monkeypatch.setattr(TrajectoryJob, "step", fail)
    with pytest.raises(RuntimeError, match="broken device"):
        draw(progress=watcher)
    assert watcher.ended == 1
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ergonet")]


def test_draws_that_cannot_fit_are_refused_before_the_run(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 2**20)
    with pytest.raises(MemoryPlanError, match=r"Store at most \d+ draws per chain .* or give `store` a folder"):
        draw(num_draws=10**6)
    plan = memory.plan_memory(2, 100, bytes_per_draw=64, folder=None)
    assert plan.draws == 2 * 100 * 64
    assert str(plan) == "Draws take 0.000 GiB of 0.0 GiB free in memory."


def test_draws_that_cannot_fit_on_a_disk_are_refused(monkeypatch, tmp_path):
    usage = SimpleNamespace(free=1000)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(MemoryPlanError, match="larger disk"):
        draw(store=tmp_path / "run")


def test_a_plan_counts_files(monkeypatch, tmp_path):
    plan = memory.plan_memory(2, 250, bytes_per_draw=10, folder=tmp_path / "run", num_fields=12)
    assert plan.files == 2 * 12 * 3
    assert plan.draws == 2 * 250 * 10 + plan.files * 4096
    assert "in 72 files of" in str(plan)
    monkeypatch.setattr(
        "os.statvfs",
        lambda _: SimpleNamespace(f_files=9, f_favail=70, f_blocks=9, f_bfree=9, f_bavail=2**30, f_frsize=1),
    )
    with pytest.raises(MemoryPlanError, match=r"take 72 files, but only 70 more fit"):
        memory.plan_memory(2, 250, bytes_per_draw=10, folder=tmp_path / "run", num_fields=12)


@pytest.mark.parametrize(
    ("dim", "settings", "said"),
    [
        (5, {"num_chains": 10**9}, r"1000000000 chains of dimension 5 take at least .* GiB .* Use fewer chains"),
        (2 * 10**8, {}, r"2 chains of dimension 200000000 take at least 14\.9 GiB"),
        *[
            (20_000, {"kernel": kernel}, r"13\.4 GiB of it for dense metrics of 20000 x 20000 .*diagonal")
            for kernel in (NUTS(metric="dense"), ConstrainedHMC(update=WindowedHMC(metric="dense")))
        ],
    ],
)
def test_chains_that_cannot_fit_are_refused_before_anything_is_allocated(monkeypatch, dim, settings, said):
    monkeypatch.setattr(memory, "free_memory", lambda: 8 * 2**30)
    target = gaussian_target()
    object.__setattr__(target, "dim", dim)
    with pytest.raises(MemoryPlanError, match=said):
        draw(target=target, **settings)


@pytest.mark.parametrize(("step_sizes", "is_refused"), [("adapted", True), ("curvature", False)])
def test_a_gibbs_update_takes_the_memory_of_its_metric_if_it_learns_one(monkeypatch, step_sizes, is_refused):
    prior = priors.NormalGamma(parametrization="centered")
    model = BayesianNetwork(MLP((60, 60, 1)), prior, likelihoods.Gaussian())
    target = model.condition(np.ones((3, 60)), np.zeros(3))
    kernel = GibbsHMC(NUTS(metric="dense", step_size=0.1), step_sizes=step_sizes)
    monkeypatch.setattr(memory, "free_memory", lambda: 2**27)
    with pytest.raises(MemoryPlanError, match="dense metrics") if is_refused else nullcontext():
        validate_size(target, kernel, 2)


def test_a_stored_run_is_the_run_in_memory(small_chunks, tmp_path):
    inside, target = draw(), gaussian_target()
    stored = draw(store=tmp_path / "run", target=target)
    assert not isinstance(stored.positions, np.ndarray)  # read when it is used
    for loaded in (stored, ergonet.load(tmp_path / "run", target=target)):
        np.testing.assert_array_equal(loaded.positions[...], inside.positions)
        for name in inside.stats:
            np.testing.assert_array_equal(loaded.stats[name], inside.stats[name])
            np.testing.assert_array_equal(loaded.warmup_stats[name], inside.warmup_stats[name])
        for name, values in inside.tuning.items():
            np.testing.assert_array_equal(loaded.tuning[name], values)
        np.testing.assert_array_equal(loaded.parameters()["x"], inside.positions)
        assert loaded.about["seed"] == 5
        assert loaded.gradients == inside.gradients
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["complete"] is True
    assert manifest["draws_by_chain"] == [30, 30]


def test_saving_and_loading(tmp_path):
    samples, path = draw(), tmp_path / "saved"
    assert samples.save(path) == path
    with pytest.raises(RunDirectoryError, match="exists"):
        samples.save(path)
    loaded = ergonet.load(path, target=gaussian_target())
    loaded.save(path, overwrite=True)  # onto the folder that its positions are read from
    again = ergonet.load(path)
    np.testing.assert_array_equal(again.positions[...], samples.positions)
    with pytest.raises(CapabilityError, match="without their target"):
        again.parameters()
    with pytest.raises(RunDirectoryError, match="dimension 5, but `target` has dimension 2"):
        ergonet.load(path, target=gaussian_target([1.0, 1.0]))


def test_a_stopped_stored_run_is_readable(small_chunks, tmp_path):
    stopped = draw(num_draws=2000, store=tmp_path / "run", progress=Watcher(90, interrupt))
    loaded = ergonet.load(tmp_path / "run")
    assert loaded.num_draws == stopped.num_draws < 2000
    np.testing.assert_array_equal(loaded.positions[...], stopped.positions[...])


def test_a_run_that_fails_gives_its_folder_back(tmp_path):
    nowhere = Target.from_logdensity(lambda q: jnp.nan * jnp.sum(q), jnp.zeros(2))
    with pytest.raises(StartError) as failed:  # its traceback keeps the store alive
        draw(target=nowhere, store=tmp_path / "run")
    assert failed.tb is not None
    assert list(tmp_path.iterdir()) == []
    draw(store=tmp_path / "run")
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


def test_folders_that_hold_no_run(tmp_path):
    with pytest.raises(RunDirectoryError, match=r"has no `manifest\.json`"):
        ergonet.load(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format_version": 99}')
    with pytest.raises(RunDirectoryError, match="format version 99"):
        ergonet.load(tmp_path)
    with pytest.raises(RunDirectoryError, match="exists"):
        draw(store=tmp_path)


def test_a_run_without_a_draw_of_every_chain_is_not_in_its_place(tmp_path):
    store = ZarrStore(tmp_path / "run")
    store.allocate(2, 5, {"positions": ((3,), np.dtype(np.float32))})
    store.write(0, 0, {"positions": np.zeros((2, 3))})
    with pytest.raises(RunDirectoryError, match=r"has no draws yet.*is in `.*\.run\.ergonet/new`"):
        ergonet.load(tmp_path / "run")
    with pytest.raises(RunDirectoryError, match="no draw of every chain"):
        ergonet.load(store.path)


@pytest.mark.parametrize("draws_per_chunk", [1, 4, 100])
def test_stores_agree_whatever_the_size_of_chunks(tmp_path, draws_per_chunk):
    fields = {"positions": ((3,), np.dtype(np.float32)), "lp": ((), np.dtype(np.float32))}
    stores: list[AbstractStore] = [MemoryStore(), ZarrStore(tmp_path / "run", draws_per_chunk=draws_per_chunk)]
    rng = np.random.default_rng(0)
    values = {"positions": rng.normal(size=(2, 11, 3)).astype(np.float32), "lp": rng.normal(size=(2, 11))}
    for store in stores:
        store.allocate(2, 11, fields)
        for chain, start, stop in [(0, 0, 3), (1, 0, 5), (0, 3, 11), (1, 5, 11)]:
            store.write(chain, start, {name: array[chain, start:stop] for name, array in values.items()})
    assert set(stores[0].names()) == set(stores[1].names()) == set(fields)
    for name in fields:
        np.testing.assert_array_equal(stores[0].field(name), stores[1].field(name)[...])


def test_a_store_of_ones_own_is_told_of_the_end():
    class Mine(MemoryStore):
        about = None

        def finish(self, about):
            self.about = about

    store = Mine()
    draw(store=store)
    assert store.about is not None
    assert store.about["num_draws"] == 30


def test_a_datatree_has_arviz_names():
    model = BayesianNetwork(MLP((2, 3, 1)), priors.Normal(), likelihoods.Gaussian(noise=0.3))
    rng = np.random.default_rng(0)
    target = model.condition(rng.normal(size=(9, 2)), rng.normal(size=9))
    samples = draw(NUTS(max_doublings=3), target=target, num_warmup=20, num_draws=10)
    tree = samples.to_datatree()
    assert {"posterior", "sample_stats", "warmup_sample_stats"} <= set(tree.children)
    assert set(tree["posterior"].data_vars) == {f"layers.{i}.{kind}" for i in (0, 1) for kind in ("weight", "bias")}
    assert tree["posterior"]["layers.0.weight"].shape == (2, 10, 3, 2)
    assert tree["posterior"]["layers.0.weight"].dims[:2] == ("chain", "draw")
    assert {"lp", "energy", "diverging", "tree_depth", "n_steps", "acceptance_rate"} <= set(
        tree["sample_stats"].data_vars
    )
    assert tree["warmup_sample_stats"]["lp"].shape == (2, 20)
    assert arviz_base.extract(tree, var_names="layers.1.bias").shape == (1, 20)
    table = samples.summary()
    assert list(table.index[:2]) == ["prediction[0]", "prediction[1]"]
    assert {"mean", "sd", "ess_bulk", "r_hat"} <= set(table.columns)


def test_parameters_have_the_names_and_shapes_of_the_example():
    example = {"a": jnp.zeros((2, 3)), "b": {"c": jnp.zeros(())}}
    target = Target.from_logdensity(lambda q: -0.5 * (jnp.sum(q["a"] ** 2) + q["b"]["c"] ** 2), example)
    samples = draw(NUTS(max_doublings=3), target=target, num_warmup=10, num_draws=6)
    shapes = {name: values.shape for name, values in samples.parameters().items()}
    assert shapes == {"a": (2, 6, 2, 3), "b.c": (2, 6)}
    assert "a[1, 2]" in samples.summary().index


def test_lines_are_time_stamped_and_end_with_the_whole_run(tmp_path):
    with (tmp_path / "lines").open("w") as stream:
        draw(progress=Lines(stream), num_draws=30)
    text = (tmp_path / "lines").read_text()
    lines = text.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S", line) for line in lines)
    assert "GiB" in lines[0]
    assert "sampling: 100 % of 140 transitions" in lines[-1]
    assert "\x1b" not in text
    draw(progress=Lines(path=tmp_path / "log"))
    assert "100 %" in (tmp_path / "log").read_text()


def test_progress_is_chosen_for_who_reads_it(capsys):
    mine = Watcher()
    assert choose_progress(mine) is mine
    draw(progress=False)
    assert capsys.readouterr() == ("", "")
    draw(progress=True)  # no terminal here
    out, err = capsys.readouterr()
    assert out == ""
    assert "100 %" in err


def test_ticks_count_up_to_the_whole_run(small_chunks):
    watcher = Watcher()
    samples = draw(progress=watcher, num_chains=2, thin=2)
    for job in (0, 1):
        ticks: list[Tick] = [tick for tick in watcher.ticks if tick.job == job]
        assert [tick.done for tick in ticks] == sorted(tick.done for tick in ticks)
        assert ticks[-1].done == ticks[-1].total == 40 + 60
        assert {tick.phase for tick in ticks} == {"warm-up", "sampling"}
    total = sum(max(t.gradients for t in watcher.ticks if t.job == job) for job in (0, 1))
    assert total == samples.gradients["warmup"] + samples.gradients["sampling"]
