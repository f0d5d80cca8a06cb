"""Parts are sampled on their own: inside their walls, from starts inside, and the same wherever they run."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import HMC, ConstrainedHMC, RandomWalk, Target, partition
from ergonet._errors import PartError, SamplingWarning, SettingError, StartError
from ergonet.partition.run import PartJob, rooms
from tests.ledger import Ledger
from tests.sampling import SCALES, draw, gaussian_target
from tests.unit.execution.test_executors import Pickling

PARTS = partition.split(gaussian_target(), {1: 0.3, 4: 0.0})
KERNEL = HMC(num_steps=3)
SETTINGS: dict[str, Any] = {"num_chains": 2, "num_warmup": 40, "num_draws": 30, "seed": 5}


def pilot(count=200, seed=0):
    return np.random.default_rng(seed).normal(size=(2, count, 5)) * SCALES


class Counted(eqx.Module):
    """Independent normals, which count how often they are traced."""

    traces: Ledger = eqx.field(static=True)

    def __call__(self, q):
        self.traces.append(1)
        return -0.5 * jnp.sum((q / SCALES) ** 2)


def test_parts_are_inside_their_walls_and_do_not_depend_on_who_runs_them():
    target = Target.from_logdensity(Counted(traces := Ledger()), jnp.zeros(5))
    found = partition.sample(target, PARTS, KERNEL, pilot=pilot(), **SETTINGS)
    traced = len(traces)
    for number, samples in enumerate(found):
        assert samples.positions.shape == (2, 30, 5)
        assert np.all(PARTS.part_of(samples.positions) == number)
    assert not np.array_equal(found[0].positions[..., 0], found[1].positions[..., 0])
    with ThreadPoolExecutor(2) as pool:
        again = partition.sample(target, PARTS, KERNEL, pilot=pilot(), executor=pool, **SETTINGS)
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one.positions, other.positions)
    partition.sample(target, partition.split(target, {0: [-0.5, 0.2]}), KERNEL, pilot=pilot(), **SETTINGS)
    assert len(traces) == traced  # parts of all partitions share their programs


def test_parts_fill_the_devices_and_draw_the_same():
    assert rooms(4, 1) == [1, 1, 1, 1]
    assert rooms(5, 2) == [2, 2]
    assert rooms(2, 4) == [2]
    device = jax.devices()[0]
    assert rooms([device] * 5, 2) == [[device] * 2] * 2
    with pytest.raises(SettingError, match="`devices` must be None, an integer of at least 1"):
        rooms(0, 2)
    runs = [partition.sample(gaussian_target(), PARTS, KERNEL, devices=count, **SETTINGS) for count in (2, 6)]
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one.positions, other.positions)
        assert other.target is not None


@pytest.mark.slow
def test_parts_are_sampled_in_the_callers_precision_wherever_they_are():
    with jax.enable_x64(True), ThreadPoolExecutor(1) as pool:
        target = Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2), jnp.zeros(2))
        (part,) = partition.sample(target, partition.split(target, {}), KERNEL, executor=pool, **SETTINGS)
    assert part.positions.dtype == np.float64


def test_the_first_part_is_not_alone_once_it_has_compiled(monkeypatch):
    """With three rooms, the first part waits at its end until two others have begun."""
    begun, waited, together = [], [], threading.Event()
    run = PartJob.run

    def watched(job, progress: Any = False):
        begun.append(job)
        if len(begun) == 3:
            together.set()
        if not progress:
            return run(job)
        progress.end = lambda: waited.append(together.wait(60))
        return run(job, progress)

    monkeypatch.setattr(PartJob, "run", watched)
    partition.sample(gaussian_target(), PARTS, KERNEL, devices=6, **SETTINGS)
    assert waited
    assert all(waited)
    assert len(begun) == 4


def number_of(job):
    return next(at for at, box in enumerate(PARTS.boxes) if np.array_equal(box.lower, job.kernel.box.lower))


def replace_runs(monkeypatch, instead):
    """Let what stands for a part, by number, run in its place."""
    run = PartJob.run

    def chosen(job, *more):
        found = instead.get(number_of(job))
        return found(job) if found else run(job, *more)

    monkeypatch.setattr(PartJob, "run", chosen)
    return run


def raising(error):
    def run(_):
        raise error

    return run


@pytest.mark.parametrize(("devices", "error"), [(2, StartError("No start.")), (6, MemoryError("It is full"))])
def test_a_part_that_fails_costs_no_other_one(monkeypatch, devices, error):
    replace_runs(monkeypatch, {1: raising(error)})
    first = r"1 of 4 parts .* part 1 \(q\[1\] < 0\.3, q\[4\] >= 0\) first: "
    with pytest.raises(PartError, match=first + str(error).rstrip(".")) as caught:
        partition.sample(gaussian_target(), PARTS, KERNEL, devices=devices, **SETTINGS)
    assert caught.value.__cause__ is error
    assert list(caught.value.finished) == [0, 2, 3]
    for number, samples in caught.value.finished.items():
        assert np.all(PARTS.part_of(samples.positions) == number)
        assert samples.target is not None


def test_ctrl_c_ends_the_parts_that_run_and_keeps_those_that_are_finished(monkeypatch):
    """With three rooms: part 0 finishes, then the main thread is interrupted, and the others run in theirs."""
    finished, run = threading.Event(), PartJob.run

    def watched(job, progress: Any = False):
        found = run(replace(job, num_warmup=20 if number_of(job) == 0 else 10**5), progress)
        finished.set()
        return found

    def interrupted(futures):
        finished.wait(120)
        raise KeyboardInterrupt

    monkeypatch.setattr(PartJob, "run", watched)
    monkeypatch.setattr("ergonet.partition.run.wait", interrupted)
    with pytest.raises(PartError, match=r"3 of 4 parts could not be sampled, part 1 .* first: interrupted") as caught:
        partition.sample(gaussian_target(), PARTS, KERNEL, devices=6, **SETTINGS)
    assert list(caught.value.finished) == [0]


def test_what_no_part_survives_is_its_own_error(monkeypatch, tmp_path):
    replace_runs(monkeypatch, {number: raising(StartError(f"in {number}")) for number in range(4)})
    with pytest.raises(StartError, match="in 0"):
        partition.sample(gaussian_target(), PARTS, KERNEL, **SETTINGS)
    replace_runs(monkeypatch, {0: raising(KeyboardInterrupt)})
    with pytest.raises(KeyboardInterrupt, match="the same call again makes what is missing"):
        partition.sample(gaussian_target(), PARTS, KERNEL, store=tmp_path, **SETTINGS)


@pytest.mark.parametrize("executor", [None, pytest.param(Pickling(), marks=pytest.mark.slow)])
def test_parts_in_a_store_go_on_where_they_ended_with_the_same_draws(monkeypatch, tmp_path, executor):
    """Part 0 is complete, part 1 fails, part 2 is interrupted halfway, and part 3 never begins."""
    settings: dict[str, Any] = {"store": tmp_path / "new" / "parts", **SETTINGS}

    def halfway(job):
        run(replace(job, num_draws=10))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        run = replace_runs(patch, {1: raising(StartError("no start")), 2: halfway})
        told = r"3 of 4 parts .* part 1 .* no start.* kept in .*parts`; the same"
        with pytest.raises(PartError, match=told) as caught:
            partition.sample(gaussian_target(), PARTS, KERNEL, **settings)
    assert list(caught.value.finished) == [0]
    stored = tmp_path / "new" / "parts" / "part-0.zarr" / "positions"
    before = {path: path.stat().st_mtime_ns for path in stored.iterdir()}
    found = partition.sample(gaussian_target(), PARTS, KERNEL, executor=executor, **settings)
    assert {path: path.stat().st_mtime_ns for path in stored.iterdir()} == before
    for one, other in zip(found, partition.sample(gaussian_target(), PARTS, KERNEL, **SETTINGS), strict=True):
        np.testing.assert_array_equal(one.positions, other.positions)
        assert one.about["num_draws"] == 30
    other = partition.split(gaussian_target(), {1: 0.4, 4: 0.0})
    with pytest.raises(SettingError, match=r"stored run cannot be continued.*kernel\.box"):
        partition.sample(gaussian_target(), other, KERNEL, executor=executor, **settings)


def test_starts_are_pilot_draws_inside_and_parts_without_any_are_told():
    draws = pilot()
    starts = partition.find_starts(gaussian_target(), PARTS, draws, num_chains=3, seed=1)
    assert starts.shape == (4, 3, 5)
    known = {tuple(one) for one in draws.astype(np.float32).reshape(-1, 5)}
    for number, some in enumerate(starts):
        assert np.all(PARTS.part_of(some) == number)
        assert {tuple(one) for one in some} <= known
    far = partition.split(gaussian_target(), {0: 4.0})
    with pytest.warns(SamplingWarning, match=r"1 of 2 parts .* part 1 \(q\[0\] >= 4\)"):
        _, some = partition.find_starts(gaussian_target(), far, draws, num_chains=2, seed=1)
    assert np.all(far.part_of(some) == 1)
    assert np.all(some[:, 0] < 4.01)  # downhill, to the wall
    assert np.all(np.abs(some[:, 1:]) < 0.1 * SCALES[1:])


def test_a_part_without_density_is_an_error_that_names_it():
    edge = Target.from_logdensity(lambda q: jnp.where(q[0] > 2, -jnp.inf, -jnp.sum(q**2)), jnp.zeros(2))
    draws = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    with pytest.raises(StartError, match=r"Part 1 \(q\[0\] >= 3\)"):
        partition.find_starts(edge, partition.split(edge, {0: 3.0}), draws, seed=1)


def test_a_partition_of_other_dimensions_is_refused():
    other = partition.split(Target.from_logdensity(lambda q: -jnp.sum(q**2), jnp.zeros(2)), [0])
    with pytest.raises(SettingError, match="of 2 coordinates, but the target has 5"):
        partition.sample(gaussian_target(), other, **SETTINGS)


@pytest.mark.filterwarnings("ignore:Chain:ergonet._errors.SamplingWarning")
def test_drawn_starts_are_mirrored_into_the_box():
    kernel = ConstrainedHMC([5.0, -np.inf, 1.0, -np.inf, -np.inf], [np.inf, -3.0, 1.1, np.inf, np.inf], update=KERNEL)
    samples = draw(kernel, num_warmup=0, num_draws=5)
    assert np.all(kernel.box.contains(samples.positions))


@pytest.mark.parametrize(
    ("walls", "init", "message"),
    [
        ((-1.0, 1.0), np.array([0, 0, 1.5, 0, 0]), "coordinate 2 is 1.5, and its walls are -1 and 1"),
        ((-1.0, 1.0), np.array([0, 0, 1.0, 0, 0]), "chain 0 is outside"),
        ((-1.0, [1.0, 1.0]), None, "walls for 2 coordinates does not fit a target of 5"),
        ((1.0, 1.0 + 1e-12), None, "coordinate 0 are both 1 in float32"),
    ],
)
def test_boxes_that_do_not_fit_are_one_clear_error(walls, init, message):
    with pytest.raises(SettingError, match=message):
        draw(ConstrainedHMC(*walls, update=KERNEL), init=init)


@pytest.mark.parametrize("update", [RandomWalk(), "gibbs"])
def test_kernels_without_trajectories_are_refused(update):
    with pytest.raises(SettingError, match="no trajectories that walls can reflect"):
        ConstrainedHMC(0.0, 1.0, update=update)
    assert ergonet.ConstrainedHMC(update="nuts").max_doublings == 10
