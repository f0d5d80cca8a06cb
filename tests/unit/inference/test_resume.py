"""A run that was killed or stopped goes on as if nothing had happened, bit for bit."""

import pickle
import shutil
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import MLP, NUTS, SGHMC, BayesianNetwork, Target, WarmStart, likelihoods, priors
from ergonet._errors import CapabilityError, RunDirectoryError, SamplingWarning, SettingError
from ergonet.baselines import Adam
from ergonet.draws import checkpoint
from ergonet.draws.checkpoint import CHECKPOINT, FINGERPRINT, OLDER
from ergonet.draws.replacement import is_unfinished, whereabouts
from ergonet.draws.retention import Last
from ergonet.draws.store import ZarrStore
from ergonet.draws.versions import versions
from ergonet.inference import fingerprint
from ergonet.inference.minibatch_jobs import MinibatchJob
from ergonet.inference.progress import Lines, Silent
from ergonet.inference.trajectory_jobs import TrajectoryJob
from ergonet.samplers.registry import KERNELS
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel
from tests.minibatches import linear_regression
from tests.sampling import draw, gaussian_target, place_in_one_batch

NAME = "run"
PHASES = {"warm-up": 3, "sampling": 3}  # chunks of a phase after which a run is killed


@pytest.fixture(autouse=True)
def checkpoints_after_every_chunk(monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "LARGEST_SHARE", 1e9)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(TrajectoryJob, "_chunk_size", lambda self: 10)
    monkeypatch.setattr(TrajectoryJob, "_most_work", lambda self: 10**9)  # on a busy machine chunks would be smaller


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored") / NAME
    draw(store=folder)
    return folder


@pytest.fixture(scope="module")
def whole(stored):
    """The run of `draw`."""
    return ergonet.load(stored)


class Kills(Silent):
    """After so many chunks of a phase, copies everything on the disk, as a kill at that moment would leave it."""

    def __init__(self, folder: Path, copies: Path, after: dict[str, int]):
        self.folder, self.copies, self.after = folder, copies, dict(after)

    def tick(self, tick):
        self.after[tick.phase] -= 1
        if self.after[tick.phase] == 0:
            shutil.copytree(self.folder, self.copies / tick.phase)


def killed_runs(tmp_path, run, phases=PHASES):
    """The uninterrupted run, and folders with what a kill in the warm-up and in sampling would have left."""
    (tmp_path / "whole").mkdir()
    kills = Kills(tmp_path / "whole", tmp_path / "killed", phases)
    whole = run(store=tmp_path / "whole" / NAME, progress=kills)
    return whole, [tmp_path / "killed" / phase for phase in phases]


def draw_in_turn(**settings):
    """A run whose chains take turns: at the third chunk of draws each has some, so that its folder is in its place."""
    return draw(devices=1, **settings)


def assert_same_run(one, other):
    np.testing.assert_array_equal(one.positions[...], other.positions[...])
    for group in ("stats", "warmup_stats", "tuning", "curve"):
        mine, theirs = getattr(one, group) or {}, getattr(other, group) or {}
        assert mine.keys() == theirs.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name], err_msg=f"{group} {name}")
    assert one.gradients == other.gradients
    assert one.about == other.about


def assert_resumes(tmp_path, run, phases=PHASES):
    """Resumed in the warm-up or in sampling, the run and what is stored of it are the uninterrupted ones."""
    whole, folders = killed_runs(tmp_path, run, phases)
    for folder in folders:
        assert_same_run(run(store=folder / NAME, resume=True), whole)
        stored = ergonet.load(folder / NAME)
        np.testing.assert_array_equal(stored.positions[...], whole.positions[...])
        np.testing.assert_array_equal(stored.stats["lp"], whole.stats["lp"])
        assert [one.name for one in folder.iterdir()] == [NAME]


MINIBATCH: dict[str, Any] = {"num_chains": 2, "num_warmup": 20, "num_draws": 30, "seed": 3, "progress": False}


def minibatch_run(**settings: Any):
    kernel = SGHMC(learning_rate=1e-4, batch_size=8)
    return ergonet.sample(linear_regression()[0], kernel, **(MINIBATCH | settings))


def test_a_killed_run_goes_on_bit_for_bit(tmp_path):
    assert_resumes(tmp_path, draw)


def test_a_run_killed_before_its_first_checkpoint_is_begun_again(tmp_path, stored):
    beside = tmp_path / f".{NAME}.ergonet" / "new"
    shutil.copytree(stored, beside, ignore=shutil.ignore_patterns("checkpoint*", "c.*"))
    assert is_unfinished(tmp_path / NAME)
    (beside / FINGERPRINT).unlink()
    assert not is_unfinished(tmp_path / NAME)
    assert "it has nothing that could be resumed" in whereabouts(tmp_path / NAME)


@pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")  # so few draws are far from any posterior
def test_a_killed_minibatch_run_goes_on_bit_for_bit(tmp_path, monkeypatch):
    size = MinibatchJob._chunk_size
    monkeypatch.setattr(MinibatchJob, "_chunk_size", lambda self: min(25, size(self)))
    assert_resumes(tmp_path, minibatch_run)


def warm_run(**settings):
    start = WarmStart(Adam(learning_rate=0.05), most_epochs=20)
    return draw(**({"warm_start": start} | settings))


@pytest.mark.statistical
def test_a_run_killed_in_its_warm_start_or_later_goes_on_bit_for_bit(tmp_path, monkeypatch):
    def run(**settings):
        samples = warm_run(**settings)
        assert samples.seconds["warm_start"] > 0
        return samples

    assert_resumes(tmp_path, run, phases={"warm start": 3, "warm-up": 1, "sampling": 3})
    with pytest.raises(SettingError, match=r"`warm_start\.optimizer\.learning_rate` was .* 0\.05, and is"):
        warm_run(warm_start=WarmStart(most_epochs=21), store=tmp_path / "whole" / NAME, resume=True)
    with pytest.raises(SettingError, match=r"`warm_start` was .*and is absent"):
        draw(store=tmp_path / "whole" / NAME, resume=True)
    monkeypatch.setattr(WarmStart, "find", None)  # a run that was killed later needs no other start
    copies = tmp_path / "again"
    shutil.copytree(tmp_path / "whole", copies)
    assert run(store=copies / NAME, num_draws=35, resume=True).num_draws == 35


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")
@pytest.mark.parametrize(("number", "name"), enumerate(KERNELS.names()))
def test_a_killed_run_of_any_kernel_goes_on_bit_for_bit(tmp_path, monkeypatch, number, name):
    kernel, size = KERNELS.make(name, {}), MinibatchJob._chunk_size
    monkeypatch.setattr(MinibatchJob, "_chunk_size", lambda self: min(25, size(self)))
    devices = 1 + number % 2

    def run(**settings):
        if isinstance(kernel, AbstractMinibatchKernel):
            small = KERNELS.make(name, {"batch_size": 8})
            return ergonet.sample(linear_regression()[0], small, **(MINIBATCH | {"devices": devices} | settings))
        target = gaussian_target()
        if name in KERNELS.names("hyperparameters"):
            target = network_with_scales("non-centered" if name == "dynamical-b" else "centered")
        return draw(kernel, target=target, devices=devices, **settings)

    assert_resumes(tmp_path, run)


def network_with_scales(parametrization):
    x = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
    prior = priors.NormalGamma(parametrization=parametrization)
    return BayesianNetwork(MLP((2, 3, 1)), prior, likelihoods.Gaussian(0.5)).condition(x, np.sin(x[:, 0]))


@pytest.mark.statistical
def test_vmapped_chains_go_on_bit_for_bit(tmp_path, monkeypatch):
    place_in_one_batch(monkeypatch)
    assert_resumes(tmp_path, draw)


@pytest.mark.statistical
def test_a_run_that_keeps_its_last_draws_goes_on(tmp_path):
    def run(**settings):
        return draw(retention=Last(9), **settings)

    whole, folders = killed_runs(tmp_path, run)
    for folder in folders:
        assert_same_run(run(store=folder / NAME, resume=True), whole)
    longer = run(num_draws=44, store=tmp_path / "whole" / NAME, resume=True)
    assert_same_run(longer, run(num_draws=44))


@pytest.mark.slow
def test_more_draws_are_added_to_a_complete_run(whole, tmp_path):
    store = tmp_path / NAME
    draw(store=store, num_draws=9)
    longer = draw(store=store, resume=True)
    assert_same_run(longer, whole)
    assert_same_run(draw(store=store, resume=True), whole)  # there is nothing to do
    with pytest.raises(SettingError, match="`num_draws`: the stored run has 30 draws of a chain already, more than 9"):
        draw(store=store, num_draws=9, resume=True)


def test_a_run_that_keeps_its_last_draws_is_not_shortened(tmp_path):
    draw(store=tmp_path / NAME, retention=Last(5))
    with pytest.raises(SettingError, match="`num_draws`: the stored run has 30 draws of a chain already, more than 9"):
        draw(store=tmp_path / NAME, retention=Last(5), num_draws=9, resume=True)


def test_a_time_limit_that_is_too_short_for_more_draws_keeps_those_that_there_are(stored, whole, tmp_path):
    shutil.copytree(stored, tmp_path / NAME)
    progress = Lines(path=tmp_path / "log")
    again = draw(store=tmp_path / NAME, resume=True, num_draws=60, time_limit=1e-9, progress=progress)
    _, share, ending = (tmp_path / "log").read_text().splitlines()
    assert "sampling: 70 % of 200 transitions" in share
    assert "Stopped by the time limit: 30 of 60 draws of each chain are stored. `resume=True`" in ending
    np.testing.assert_array_equal(again.positions[...], whole.positions[...])
    assert (again.num_draws, again.about["stopped_by"]) == (30, "the time limit")
    for name, values in whole.tuning.items():
        np.testing.assert_array_equal(again.tuning[name], values)
    assert ergonet.load(tmp_path / NAME).warmup_stats.keys() == whole.warmup_stats.keys()


class Presses(Silent):
    """Ctrl-C after the first chunk."""

    is_pressed = False

    def tick(self, tick):
        if not self.is_pressed:
            self.is_pressed = True
            raise KeyboardInterrupt


def test_a_stop_in_the_warmup_is_continued(whole, tmp_path):
    with pytest.raises(KeyboardInterrupt, match="`resume=True` with the same arguments continues it"):
        draw(store=tmp_path / NAME, progress=Presses())
    assert [one.name for one in tmp_path.iterdir()] == [f".{NAME}.ergonet"]
    shutil.copytree(tmp_path / f".{NAME}.ergonet", tmp_path / "again" / f".{NAME}.ergonet")
    assert_same_run(draw(store=tmp_path / NAME, resume=True), whole)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["again", NAME]
    with pytest.warns(SamplingWarning, match="An unfinished run of `.*run` is discarded.*`resume=True`"):
        ZarrStore(tmp_path / "again" / NAME).close()
    assert list((tmp_path / "again").iterdir()) == []


@pytest.mark.statistical
def test_draws_that_only_some_chains_have_are_counted(tmp_path):
    class Stops(Silent):
        said, is_pressed = "", False

        def tick(self, tick):
            if tick.phase == "sampling" and tick.done == 40 + 20 and not self.is_pressed:
                self.is_pressed = True
                raise KeyboardInterrupt

        def say(self, message):
            self.said += message

    reporter = Stops()
    stopped = draw(store=tmp_path / NAME, devices=1, progress=reporter)
    assert sorted(stopped.about["draws_by_chain"]) == [10, 20]
    assert "10 of 30 draws of each chain are stored (" in reporter.said
    assert "`resume=True`" in reporter.said
    assert ergonet.load(tmp_path / NAME).about["draws_by_chain"] == stopped.about["draws_by_chain"]
    assert_same_run(draw(store=tmp_path / NAME, resume=True), draw())


def code(power):
    return Target.from_logdensity(lambda q: -0.5 * jnp.sum(jnp.abs(q) ** power), jnp.zeros(5))


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "seed": ({"seed": 6}, "`seed` was 5, and is 6"),
    "chains": ({"num_chains": 3}, "`num_chains` was 2, and is 3"),
    "warm-up": ({"num_warmup": 41}, "`num_warmup` was 40, and is 41"),
    "thin": ({"thin": 2}, "`thin` was 1, and is 2"),
    "kernel": ({"kernel": NUTS(max_doublings=5, target_acceptance=0.9)}, "`kernel` was .*0.8.* and is .*0.9"),
    "start": ({"init": np.zeros(5)}, "`init` was None, and is "),
    "retention": ({"retention": Last(5)}, "`retention` was Every.* and is Last"),
    "data": ({"target": gaussian_target(mean=1.0)}, r"`target\.logdensity_fn\.mean` was .*0\.0.* and is .*1\.0"),
    "code": ({"target": code(3)}, "target"),
}


@pytest.mark.parametrize("name", KERNELS.names())
def test_a_copy_of_a_kernel_is_no_other_kernel(name):
    kernel = KERNELS.make(name, {})
    words, of_copy = (fingerprint._parts("kernel", one) for one in (kernel, pickle.loads(pickle.dumps(kernel))))
    fingerprint.require_equal(words, of_copy)


@pytest.mark.parametrize("what", OTHERS)
def test_another_run_is_not_continued(stored, what):
    changed, found = OTHERS[what]
    with pytest.raises(SettingError, match=f"cannot be continued, because.*{found}"):
        draw(store=stored, resume=True, **changed)
    assert ergonet.load(stored).num_draws == 30


def test_other_software_is_named(stored, monkeypatch):
    monkeypatch.setattr(fingerprint, "versions", lambda: versions() | {"jax": "0.0.1"})
    with pytest.raises(SettingError, match=r"`jax` was .*, and is 0\.0\.1\. Use the same"):
        draw(store=stored, resume=True)


@pytest.mark.statistical
def test_code_that_changes_between_two_calls_is_noticed(tmp_path):
    draw(target=code(2.0), store=tmp_path / NAME)
    with pytest.raises(SettingError, match=r"initial values are not those of the stored run.*code of the target"):
        draw(target=code(2.5), store=tmp_path / NAME, resume=True)


@pytest.mark.statistical
def test_a_torn_checkpoint_costs_only_what_came_after_the_one_before(tmp_path):
    whole, folders = killed_runs(tmp_path, draw_in_turn)
    folder = folders[-1]
    shutil.copytree(folder, tmp_path / "both")
    torn = folder / NAME / CHECKPOINT
    torn.write_bytes(torn.read_bytes()[:-30])
    with pytest.warns(SamplingWarning, match="is damaged.*the checkpoint before it is used"):
        assert_same_run(draw_in_turn(store=folder / NAME, resume=True), whole)
    for name in (CHECKPOINT, OLDER):
        path = tmp_path / "both" / NAME / name
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
    with pytest.warns(SamplingWarning, match="starts again from its first draw"):
        assert_same_run(draw_in_turn(store=tmp_path / "both" / NAME, resume=True), whole)


@pytest.mark.statistical
def test_a_damaged_file_of_draws_is_named(tmp_path):
    _, folders = killed_runs(tmp_path, draw_in_turn)
    for chunk in (folders[-1] / NAME / "positions").glob("c.*"):
        chunk.write_bytes(chunk.read_bytes()[:-3])
    with pytest.raises(RunDirectoryError, match=r"is damaged\. The run cannot be continued without it"):
        draw_in_turn(store=folders[-1] / NAME, resume=True)


def test_what_cannot_be_continued_is_said(stored, tmp_path):
    with pytest.raises(SettingError, match="`resume=True` needs `store=` with the path"):
        draw(resume=True)
    with pytest.raises(SettingError, match="not both"):
        ZarrStore(tmp_path / NAME, overwrite=True, resume=True)
    ergonet.load(stored).save(tmp_path / NAME)
    with pytest.raises(RunDirectoryError, match=r"cannot be continued: it has no `fingerprint\.json`"):
        draw(store=tmp_path / NAME, resume=True)


@pytest.mark.parametrize("changed", ["x", "y"])
def test_other_streamed_rows_are_not_the_stored_ones(tmp_path, changed):
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=(40, 2)).astype(np.float32), "y": rng.normal(size=(40, 1)).astype(np.float32)}
    model = BayesianNetwork(MLP((2, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=1.0))
    given: Any = {"num_chains": 1, "num_warmup": 2, "seed": 1, "store": tmp_path / NAME, "progress": False}
    kernel = SGHMC(batch_size=8, learning_rate=1e-4)
    ergonet.sample(ergonet.stream(model, *rows.values()), kernel, num_draws=2, **given)
    rows[changed] = rows[changed] + 1
    with pytest.raises(SettingError, match=r"`rows\[[01]\]` was float32.* and is float32"):
        ergonet.sample(ergonet.stream(model, *rows.values()), kernel, num_draws=4, resume=True, **given)


def test_a_store_is_free_after_a_target_that_the_kernel_cannot_take(tmp_path):
    model = BayesianNetwork(MLP((2, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=1.0))
    streamed = ergonet.stream(model, np.zeros((40, 2), np.float32), np.zeros((40, 1), np.float32))
    with pytest.raises(CapabilityError, match="`NUTS` needs all rows at once, and those of `target` are streamed"):
        ergonet.sample(streamed, NUTS(), seed=1, store=tmp_path / NAME, progress=False)
    assert not (tmp_path / NAME).exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_chunk_that_was_torn_beyond_the_checkpoint_is_written_again(tmp_path):
    """As a power failure leaves it: its draws are of no checkpoint."""

    def run(store, *, resume=False, **settings):
        stored = ZarrStore(store, draws_per_chunk=20, resume=resume)
        return draw_in_turn(store=stored, resume=resume, num_draws=50, **settings)

    uninterrupted, folders = killed_runs(tmp_path, run)
    draws = folders[-1] / NAME
    for field in ("positions", "lp"):
        chunks = {int(one.name.split(".")[2]): one for one in (draws / field).glob("c.0.*")}
        kind, chain, _, *rest = chunks[0].name.split(".")
        torn = ".".join([kind, chain, str(max(chunks) + 1), *rest])
        (draws / field / torn).write_bytes(chunks[0].read_bytes()[:-3])
    assert_same_run(run(draws, resume=True), uninterrupted)
