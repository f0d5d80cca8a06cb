"""A run in which no chain samples any more stops early with advice; any other run goes on."""

import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import HMC, Target
from ergonet._errors import SamplingWarning
from ergonet.diagnostics.advice import advise
from ergonet.draws.recorder import Chunk, Recorder
from ergonet.draws.retention import Every
from ergonet.draws.store import MemoryStore
from ergonet.inference.progress import Silent
from ergonet.inference.stopping import FEWEST_DRAWS, NoLongerSampling, divergent_share
from ergonet.inference.trajectory_jobs import TrajectoryJob
from tests.sampling import draw

FROZEN = HMC(num_steps=3, step_size=4.5, metric="identity")  # unstable wherever the standard deviation is below 2.25
SETTINGS = {"kernel": FROZEN, "num_warmup": 0, "num_draws": 1500}


class Said:
    """What a rule told the user."""

    def __init__(self):
        self.lines = []

    def __call__(self, line):
        self.lines.append(line)


def reason(rule, *chains):
    """The rule's reason in a run of these chains, each a job of its own."""
    jobs = [object.__new__(TrajectoryJob) for _ in chains]
    for job, chain in zip(jobs, chains, strict=True):
        job.chains = (chain,)
    return rule.reason(jobs, Recorder(MemoryStore(), Every(1), has_curve=False))


def chunk(chain, moved, diverging, start=0):
    moved, diverging = np.atleast_2d(np.asarray(moved, bool)), np.atleast_2d(np.asarray(diverging, bool))
    fields = {"moved": moved, "diverging": diverging, "lp": np.zeros(moved.shape)}
    return Chunk(chains=(chain,), is_warmup=False, start=start, fields=fields)


def judged(*histories, thin=1):
    """The rule's reason after these `(moved, diverging)` of each chain, and what it said."""
    said = Said()
    rule = NoLongerSampling(said, thin=thin)
    for chain, (moved, diverging) in enumerate(histories):
        for start in range(0, len(moved), 70):
            part = slice(start, start + 70)
            rule.watch(chunk(chain, moved[part], diverging[part], start))
    return reason(rule, *range(len(histories))), said.lines


STUCK = np.zeros(300, bool), np.zeros(300, bool)
STORM = np.tile([True, False, False], 100), np.tile([False, True, True], 100)
FINE = np.ones(300, bool), np.zeros(300, bool)


class Heard(Silent):
    """Keeps what a run says."""

    def __init__(self):
        self.lines = []

    def say(self, message):
        self.lines.append(message)


def test_a_run_of_which_every_proposal_diverges_stops_and_says_what_to_do(tmp_path):
    heard = Heard()
    with pytest.warns(SamplingWarning, match="stopped by a standstill in every chain .*more draws would not help"):
        samples = draw(**SETTINGS, progress=heard, store=tmp_path / "run")
    assert heard.lines[-1].startswith("Stopped by a standstill")
    assert "continues it" not in heard.lines[-1]  # it would end in the same way
    assert FEWEST_DRAWS <= samples.num_draws < 1500
    assert samples.about["stopped_by"].startswith("a standstill in every chain (chain 0: it has not moved in its last")
    assert samples.about["num_draws"] == samples.num_draws
    assert samples.alarms()[0].endswith("check the scale of the inputs and the prior.")


def test_a_run_goes_on_while_one_chain_samples():
    """One chain starts where the density is wide and accepts everything; the other is frozen from the start."""

    def logdensity(q):
        return -0.5 * jnp.sum(q**2) * jnp.where(q[0] > 50, 1e-8, 1.0)

    init = np.array([[60.0, 0.0], [1.0, 1.0]], np.float32)
    target = Target.from_logdensity(logdensity, jnp.zeros(2))
    settings = {"num_chains": 2, "num_warmup": 0, "num_draws": 400, "init": init, "seed": 1, "progress": False}
    with pytest.warns(SamplingWarning, match=r"Chain 1 \(counted from 0\) never moved"):
        samples = ergonet.sample(target, FROZEN, **settings)
    assert samples.about["stopped_by"] is None
    assert samples.num_draws == 400


def test_a_run_may_be_told_to_go_on():
    with pytest.warns(SamplingWarning, match="never moved"):
        samples = draw(**{**SETTINGS, "num_draws": 400}, stop_when_stuck=False)
    assert samples.num_draws == 400


@pytest.mark.parametrize(
    ("histories", "expected"),
    [
        ([STUCK], "a standstill in chain 0 (chain 0: it has not moved in its last 200 draws)"),
        (
            [STORM],
            "a storm of divergences in chain 0 (chain 0: 67 % of the transitions of its last 200 draws diverged)",
        ),
        ([STUCK, STORM], "a storm of divergences in every chain (chain 1: 67 % of"),
        ([STUCK, FINE], ""),
        ([STORM, STORM, FINE, STORM], ""),
        ([FINE], ""),
        ([(STUCK[0][:199], STUCK[1][:199])], ""),  # too early to tell
    ],
)
def test_every_chain_must_be_in_trouble(histories, expected):
    found, said = judged(*histories)
    assert found.startswith(expected)
    assert bool(found) == bool(expected)
    in_trouble = [one for one in histories if one[0] is not FINE[0] and len(one[0]) == 300]
    assert len(said) == len(in_trouble)  # once for each chain


def test_a_chain_is_judged_by_its_latest_draws_and_at_least_half_of_them():
    def late(good, bad):
        return np.repeat([True, False], [good, bad]), np.zeros(good + bad, bool)

    assert judged(late(200, 200))[0]
    assert not judged(late(1000, 900))[0]
    assert judged(late(1000, 1100))[0]


def test_a_warning_names_the_chain_before_the_run_ends():
    _, said = judged(STUCK, FINE)
    expected = "Chain 0 (counted from 0) no longer samples: it has not moved in its last 200 draws. The run goes on"
    assert [line[: len(expected)] for line in said] == [expected]


def test_difficult_chains_are_not_stopped():
    """Independent divergences in 30 % of transitions, or an acceptance of 5 %: at most 4e-5 for each of 20 chains."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert not judged((np.ones(2000, bool), rng.random(2000) < 0.3))[0]
        assert not judged((rng.random(2000) < 0.05, np.zeros(2000, bool)))[0]


def test_thinned_draws_tell_the_share_of_transitions():
    rng = np.random.default_rng(1)
    flags = (rng.random((4000, 5)) < 0.2).any(axis=1)
    assert divergent_share(flags, 5) == pytest.approx(0.2, abs=0.02)
    assert divergent_share(np.ones(200, bool), 1) == 1
    assert divergent_share(np.ones(200, bool), 1000) < 0.01  # one in each draw is no storm
    assert not judged((np.ones(300, bool), np.ones(300, bool)), thin=100)[0]


def test_warm_up_and_minibatch_kernels_are_not_judged():
    said = Said()
    rule = NoLongerSampling(said, thin=1)
    fields = {"moved": np.zeros((1, 500), bool), "diverging": np.zeros((1, 500), bool), "lp": np.zeros((1, 500))}
    rule.watch(Chunk(chains=(0,), is_warmup=True, start=0, fields=fields))
    rule.watch(Chunk(chains=(0,), is_warmup=False, start=0, fields={"lp": np.zeros((1, 500))}))
    assert reason(rule, 0) == ""
    assert said.lines == []


def test_advice_about_a_storm_names_what_to_change():
    sentences = advise({"stopped_by": "a storm of divergences in every chain (chain 1: ...)", "diagnostics": {}})
    assert "target acceptance of 0.95" in sentences[0]
    assert advise({"stopped_by": "the time limit", "diagnostics": {}}) == []


def test_a_run_that_samples_is_not_stopped():
    assert draw(num_draws=300).about["stopped_by"] is None
