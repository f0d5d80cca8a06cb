"""Time limits bound what nothing interrupts, such as compilation, and errors say where the chains are."""

import math
import threading
import time

import jax
import numpy as np
import pytest

from ergonet._errors import StartError, TimeLimitError
from ergonet.inference import drive, run
from ergonet.inference.trajectory_jobs import TrajectoryJob
from ergonet.inference.waiting import LateError, finish_by, is_working
from tests.minibatches import network
from tests.sampling import draw
from tests.unit.inference.test_warm_start import HMC_THERE, of_network

FOREVER = 3600.0


def test_work_is_done_in_the_callers_precision_and_raises_what_it_raises():
    def fail(error):
        raise error

    end = time.perf_counter() + FOREVER
    with jax.enable_x64(True):
        assert finish_by(end, lambda: bool(jax.config.jax_enable_x64))
    assert not finish_by(end, lambda: bool(jax.config.jax_enable_x64))
    for error in (StartError("a start"), TimeoutError("of its own"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as raised:
            finish_by(end, lambda error=error: fail(error))
        assert raised.value is error
    with pytest.raises(LateError):
        finish_by(time.perf_counter() - 1.0, lambda: pytest.fail("it is too late to begin"))


def test_a_time_limit_ends_a_run_whose_programs_still_compile(monkeypatch):
    begun = []

    def late(deadline, work):
        begun.append(deadline)
        if len(begun) > 1:  # after the starts of the chains
            raise LateError
        return work()

    monkeypatch.setattr(drive, "finish_by", late)
    monkeypatch.setattr(TrajectoryJob, "compile", lambda self: pytest.fail("nobody waits"))
    with pytest.raises(TimeLimitError, match="before the first transition, in the preparation") as reached:
        draw(time_limit=FOREVER)
    assert reached.value.states is None
    assert len(begun) == 2


def test_work_that_is_late_goes_on_alone():
    released = threading.Event()
    with pytest.raises(LateError):
        finish_by(time.perf_counter() + 0.05, released.wait)
    assert is_working()
    released.set()
    for thread in threading.enumerate():
        if thread.name.startswith("preparation"):
            thread.join()
    assert not is_working()


@pytest.mark.parametrize("stage", ["compilation", "warm-up"])  # as the error names them
def test_an_error_after_a_warm_start_has_its_chains(monkeypatch, stage):
    """Late as soon as the chains of the run, which the optimizer has placed, compile; or in their warm-up."""
    found = of_network().run(network(), num_chains=2, seed=3)
    limits_of_run = run.bounded

    def late(limits, jobs, work):
        if stage == "compilation" and jobs and jobs[0].origin:
            raise limits[0].error(jobs)
        return limits_of_run(limits, jobs, work)

    def reason(self, jobs, recorder):
        return "the time limit" if jobs[0].origin and all(job.done for job in jobs) else ""

    monkeypatch.setattr(run, "bounded", late)
    monkeypatch.setattr(run.TimeLimit, "reason", reason)
    with pytest.raises(TimeLimitError) as reached:
        draw(HMC_THERE, target=network(), warm_start=of_network(), num_warmup=100, time_limit=FOREVER)
    assert reached.value.is_warm_started
    assert stage in reached.value.during
    assert reached.value.states.shape == found.shape
    assert np.isfinite(reached.value.states).all()


def test_a_limit_within_the_optimizer_leaves_its_best_weights(monkeypatch):
    reached_by_clock = run.TimeLimit.reason

    def reason(self, jobs, recorder):
        is_trained = all(job.is_warm_started for job in jobs)
        return "the time limit" if is_trained else reached_by_clock(self, jobs, recorder)

    endless = of_network(most_epochs=10**6, patience=10**6)
    monkeypatch.setattr(run.TimeLimit, "reason", reason)
    with pytest.raises(TimeLimitError, match="in the warm start") as reached:
        draw(HMC_THERE, target=network(), warm_start=endless, num_warmup=100, time_limit=60.0)
    assert reached.value.is_warm_started
    assert reached.value.during == "in the warm start"
    assert reached.value.states.shape == (2, network().dim)
    assert np.isfinite(reached.value.states).all()


def test_a_deadline_beyond_all_timeouts_is_none():
    assert finish_by(math.inf, lambda: 3) == 3
