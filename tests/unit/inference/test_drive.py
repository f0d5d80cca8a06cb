"""The loop that drives jobs: any jobs, any executor, any stop rule."""

import pickle
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import NUTS, SGLD, Target, retention
from ergonet._errors import DivergedError, SettingError, TimeLimitError
from ergonet.draws.callback import AbstractCallback, NoCallback
from ergonet.draws.contents import POSITIONS
from ergonet.draws.recorder import Chunk, Recorder
from ergonet.draws.retention import Every, Last
from ergonet.draws.store import MemoryStore
from ergonet.execution.threads import worker_pool
from ergonet.inference import drive as drive_module
from ergonet.inference.devices import DevicePlace, Placement
from ergonet.inference.drive import AbstractStopRule, Diverged, TimeLimit, drive
from ergonet.inference.jobs import AbstractJob, RunPlan
from ergonet.inference.progress import Silent
from ergonet.inference.trajectory_jobs import TrajectoryJob, TrajectoryPlan, trajectory_jobs
from ergonet.inference.validation import validate_plugins
from tests.minibatches import network
from tests.sampling import Gaussian, draw, gaussian_target, place_in_one_batch

FIELDS = {"lp": ((), np.dtype(np.float64)), "gradients": ((), np.dtype(np.int32)), POSITIONS: ((1,), np.dtype(float))}


class Counting(AbstractJob):
    """Draws 0, 1, 2, ... from the mean of its target, in chunks of three within each phase."""

    def __init__(self, chains, offset, *, num_warmup=4, num_draws=10, faulty_at=None):
        super().__init__(chains, gaussian_target(np.ones(1), mean=offset))
        self.offset = offset
        self.num_warmup, self.num_draws, self.faulty_at = num_warmup, num_draws, faulty_at

    @property
    def total(self):
        return self.num_warmup + self.num_draws

    @property
    def is_warmup(self):
        return self.done < self.num_warmup

    @property
    def step_size(self):
        return 0.5

    @property
    def positions(self):
        return np.full((len(self.chains), 1), self.offset)

    @property
    def program(self):
        return None

    def start(self):
        return None

    def compile(self):
        return None

    def search(self, say):
        return None

    def fields(self):
        return FIELDS

    def advance(self):
        is_warmup = self.is_warmup
        start = self.done if is_warmup else self.done - self.num_warmup
        count = min(3, (self.num_warmup if is_warmup else self.num_draws) - start)
        self.counters["transitions"] += count
        values = self.offset + np.tile(np.arange(start, start + count, dtype=float), (len(self.chains), 1))
        fields = {"lp": values, "gradients": np.ones_like(values, np.int32), POSITIONS: values[..., None]}
        fault = "it is hot" if self.faulty_at is not None and self.done >= self.faulty_at else ""
        return Chunk(chains=self.chains, is_warmup=is_warmup, start=start, fields=fields, fault=fault)

    def tuning(self):
        return {}

    def summaries(self):
        return [None for _ in self.chains]

    def about(self):
        return {}


class Pickling(Executor):
    """Moves everything through a pickle, as an executor of processes does."""

    submitted = 0

    def submit(self, fn, /, *args, **kwargs):
        self.submitted += 1
        done: Future = Future()
        done.set_result(pickle.loads(pickle.dumps(fn(*pickle.loads(pickle.dumps(args)), **kwargs))))
        return done


def driven(jobs, *, rules=(), kept=Every(1), has_curve=False, executor=None, num_draws=10):  # noqa: B008  immutable
    recorder = Recorder(MemoryStore(), kept, has_curve=has_curve)
    recorder.allocate(sum(len(job.chains) for job in jobs), num_draws, FIELDS)
    ending = drive(jobs, recorder, executor or Pickling(), rules, Silent(), num_workers=2)
    recorder.finish()
    return ending, recorder


def test_jobs_with_targets_of_their_own_fill_their_chains():
    ending, recorder = driven([Counting((2, 0), 100.0), Counting((1,), 200.0)])
    assert ending.stopped_by is None
    expected = np.arange(10) + np.array([[100.0], [200.0], [100.0]])
    np.testing.assert_array_equal(recorder.positions()[..., 0], expected)
    np.testing.assert_array_equal(recorder.stats()["lp"], expected)
    np.testing.assert_array_equal(recorder.warmup_stats()["lp"], expected[:, :4])
    assert recorder.curve() is None
    fields, field = [], recorder.store.field
    recorder.store.field = lambda name: fields.append(name) or field(name)
    assert recorder.gradients() == {"warmup": 12, "sampling": 30}
    assert fields == ["gradients"]  # reading all statistics takes seconds on disk
    assert [job.done for job in ending.jobs] == [14, 14]
    assert ending.jobs[0].counters["gradients"] == 28


def test_jobs_come_back_from_where_they_were_moved():
    jobs = [Counting((0,), 0.0)]
    ending, _ = driven(jobs)
    assert jobs[0].done == 0
    assert ending.jobs[0].done == 14


@pytest.mark.parametrize(
    ("kept", "chosen"), [(Every(1), range(10)), (Every(4), [3, 7]), (Last(4), [6, 7, 8, 9]), (Last(99), range(10))]
)
def test_retention_chooses_and_the_curve_has_them_all(kept, chosen):
    _, recorder = driven([Counting((0, 1), 0.0)], kept=kept, has_curve=True)
    assert recorder.drawn == len(chosen)
    np.testing.assert_array_equal(recorder.positions()[..., 0], [list(chosen)] * 2)
    curve = recorder.curve()
    assert curve is not None
    np.testing.assert_array_equal(curve["lp"], [[*range(4), *range(10)]] * 2)
    assert set(curve) == {"lp", "gradients"}
    assert recorder.gradients()["sampling"] == 20


def test_a_chunk_that_is_kept_twice_counts_once():
    for kept in (Every(2), Last(5)):
        recorder = Recorder(MemoryStore(), kept, has_curve=True)
        recorder.allocate(1, 10, FIELDS)
        job = Counting((0,), 0.0)
        while not job.is_finished:
            chunk = job.step()
            recorder.keep(chunk)
            recorder.keep(chunk)
        recorder.finish()
        assert recorder.drawn == 5
        np.testing.assert_array_equal(recorder.stats()["lp"][0], [1, 3, 5, 7, 9] if kept == Every(2) else range(5, 10))
        assert recorder.gradients() == {"warmup": 4, "sampling": 10}


class Enough(AbstractStopRule):
    """Stops at so many draws of every chain."""

    def __init__(self, count):
        self.count = count

    def reason(self, jobs, recorder):
        return "enough draws" if recorder.drawn >= self.count else ""

    def error(self, jobs):
        return AssertionError()


def test_a_rule_of_ones_own_stops_a_run():
    ending, recorder = driven([Counting((0,), 0.0), Counting((1,), 0.0)], rules=[Diverged(), Enough(4)])
    assert ending.stopped_by == "enough draws"
    assert recorder.drawn == 6
    ending, recorder = driven([Counting((0,), 0.0)], rules=[Enough(10)])
    assert ending.stopped_by is None  # it was all there was to do


def test_a_faulty_job_stops_the_others_and_its_last_chunk_is_not_stored():
    jobs = [Counting((0,), 0.0, faulty_at=12), Counting((1,), 0.0)]
    ending, recorder = driven(jobs, rules=[Diverged()], has_curve=True)
    assert ending.stopped_by == "a chain that diverged (chain 0: it is hot)"
    np.testing.assert_array_equal(recorder.positions()[..., 0], [range(6)] * 2)
    with pytest.raises(DivergedError, match=r"^Chain 0 diverged after 3 steps: it is hot\.$"):
        driven([Counting((0,), 0.0, faulty_at=1)], rules=[Diverged()])


def test_a_time_limit_before_the_first_draw_is_an_error(monkeypatch):
    now = iter(range(10**6))
    monkeypatch.setattr(drive_module, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    jobs = [Counting((2, 0), 7.0, num_warmup=100), Counting((1,), 8.0, num_warmup=100)]
    said = r"was reached before every chain had a draw\..*lower `num_warmup`"
    with pytest.raises(TimeLimitError, match=said) as reached:
        driven(jobs, rules=[TimeLimit(30.0, began=0.0)])
    np.testing.assert_array_equal(reached.value.states, [[7.0], [8.0], [7.0]])  # in the order of the chains
    assert reached.value.during == "in the warm-up"


def test_a_time_limit_that_the_preparation_overran_is_an_error_at_once():
    jobs = [Counting((0,), 0.0)]
    with pytest.raises(TimeLimitError, match=r"before the first transition, in the preparation.*compilation") as at:
        driven(jobs, rules=[TimeLimit(1e-9, began=0.0)])
    assert jobs[0].done == 0
    assert at.value.states is None
    assert at.value.during == "in the preparation, most of which is compilation"


# Real jobs


def plan_of(**settings):
    chosen = {"num_chains": 2, "num_warmup": 40, "num_draws": 20, "seed": 5, "init": None, "callback": NoCallback()}
    return RunPlan(**(chosen | settings))


def trajectory_plan():
    kernel = NUTS(max_doublings=5)
    return TrajectoryPlan(kernel, ergonet.recipes.recipe_of(None, kernel.warmup(), 40), 1, plan_of())


def trajectory_job(chain, scale):
    target = gaussian_target(np.full(5, scale))
    return TrajectoryJob(trajectory_plan(), target, chains=(chain,), device=jax.devices()[0], is_batched=False)


@pytest.mark.parametrize(
    ("groups", "devices", "count"),
    [(((0,), (1,)), (0, 0), 1), (((0,), (1,)), (0, 1), 2), (((0, 2), (1, 3)), (0, 0), 1), (((0, 2), (1,)), (0, 0), 2)],
)
def test_jobs_of_one_device_and_as_many_chains_share_their_programs(groups, devices, count):
    placement = Placement(2, groups, tuple(DevicePlace("cpu", index) for index in devices))
    jobs = trajectory_jobs(trajectory_plan(), gaussian_target(), placement)
    assert len({job.program for job in jobs}) == count


def test_two_chains_of_different_targets_draw_what_each_draws_alone():
    jobs = [trajectory_job(0, 0.1), trajectory_job(1, 10.0)]
    for job in jobs:
        job.start()
        job.search(lambda said: None)
    recorder = Recorder(MemoryStore(), Every(1), has_curve=False)
    recorder.allocate(2, 20, jobs[0].fields())
    with worker_pool(2) as pool:
        ending = drive(jobs, recorder, pool, [], Silent(), num_workers=2)
    assert {type(value) for job in ending.jobs for value in job.counters.values()} == {int}
    for chain, scale in ((0, 0.1), (1, 10.0)):
        alone = draw(target=gaussian_target(np.full(5, scale)), num_warmup=40, num_draws=20)
        np.testing.assert_array_equal(recorder.positions()[chain], alone.positions[chain])
        np.testing.assert_array_equal(recorder.stats()["lp"][chain], alone.stats["lp"][chain])


class Threads(ThreadPoolExecutor):
    """Counts what it is given."""

    submitted = 0

    def submit(self, *args, **kwargs):
        self.submitted += 1
        return super().submit(*args, **kwargs)


@pytest.mark.parametrize("is_double", [False, True])
def test_an_executor_of_ones_own_moves_the_chains_and_stays_open(is_double):
    with jax.enable_x64(is_double), Threads(2) as mine:
        target = Target.from_logdensity(Gaussian(jnp.zeros(5), jnp.ones(5)), jnp.zeros(5))
        ours = draw(target=target, executor=mine)
        assert mine.submitted > 0
        assert mine.submit(int).result() == 0
        assert ours.positions.dtype == (np.float64 if is_double else np.float32)
        np.testing.assert_array_equal(ours.positions, draw(target=target).positions)


@pytest.mark.parametrize(("name", "value"), [("executor", 4), ("retention", 3), ("callback", print)])
def test_what_is_no_executor_retention_or_callback_is_rejected(name, value):
    with pytest.raises(SettingError, match=f"`{name}` must be None or such as"):
        validate_plugins(**({"retention": None, "callback": None, "executor": None} | {name: value}))


# What every kernel has


class Mean(AbstractCallback):
    """The weighted mean of positions, and the first coordinate of each."""

    def blank(self):
        return jnp.zeros(5), jnp.zeros(())

    def update(self, summary, position, weight):
        return (summary[0] + weight * position, summary[1] + weight), {"first": position[0]}

    def join(self, summaries):
        return sum(np.asarray(one[0]) for one in summaries) / sum(float(one[1]) for one in summaries)


@pytest.mark.parametrize("is_batched", [False, True])
def test_a_callback_sees_every_draw_of_a_trajectory_kernel(monkeypatch, is_batched):
    if is_batched:
        place_in_one_batch(monkeypatch)
    every = draw()
    shown = draw(callback=Mean(), retention=retention.Last(7))
    np.testing.assert_array_equal(shown.positions, every.positions[:, -7:])
    np.testing.assert_allclose(shown.running_summary, every.positions.mean(axis=(0, 1)), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(shown.curve["first"][:, 40:], every.positions[:, :, 0])
    np.testing.assert_array_equal(shown.curve["lp"], np.hstack([every.warmup_stats["lp"], every.stats["lp"]]))
    assert shown.gradients == every.gradients
    assert (every.curve, every.running_summary) == (None, None)


def test_retention_of_every_third_draw_is_thinning():
    thinned, chosen = draw(num_draws=10, thin=3), draw(num_draws=30, retention=retention.Every(3))
    np.testing.assert_array_equal(chosen.positions, thinned.positions)
    np.testing.assert_array_equal(chosen.stats["gradients"], thinned.stats["gradients"])
    with pytest.raises(SettingError, match="stores none of 5 draws"):
        draw(num_draws=5, retention=retention.Every(6))
    with pytest.raises(SettingError, match="Give `thin` or `retention`"):
        draw(SGLD(learning_rate=0.1, batch_size=4), target=network(), thin=2, retention=retention.Last(1))
