"""Chains, warm-up and draws that fit in a time limit, for a fit whose user gives the limit and no counts.

A few transitions of the warm-up show how long one takes on this machine, with these data; they are thrown away. They
compile the programs of the run, and a warm start that is as short as can be compiles its own, so that nothing is
compiled twice, and the time that is planned is time to sample.
"""

import dataclasses
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ergonet._errors import ErgonetError, TimeLimitError
from ergonet.assembly.settings import CHAINS, RunSettings, Settings
from ergonet.diagnostics.held_out import FEWEST_MEMBERS
from ergonet.inference.devices import place
from ergonet.inference.progress import Silent, Tick
from ergonet.inference.registry import WARM_STARTS

if TYPE_CHECKING:
    from ergonet.inference.warm_start import WarmStart
    from ergonet.samplers.base import AbstractKernel
    from ergonet.target.contract import AbstractTarget

COUNTS = ("num_chains", "num_warmup", "num_draws", "thin")
PROBED = 60  # transitions of the warm-up, of each chain: the first trajectories are shorter than most
PROBE_SHARE = 0.15  # of the time left
USED_SHARE = 0.7  # of the time left after the probe: later transitions may take longer
WARMUP_SHARE = 0.4  # of the transitions
MOST_WARMUP, MOST_DRAWS = 1000, 1000
FEWEST_WARMUP, FEWEST_DRAWS = 10, 10
ENOUGH_WARMUP, FEWEST_CHAINS = 100, 2  # below, two chains that have warmed up are better than four that have not
ENSEMBLE_SHARE = 0.5  # of the time left after the probe: the optimizer of a warm start needs some of it, too
FEWEST_TRANSITIONS = 20  # of each stage of an ensemble
STAGES = 2  # of a warm start, each of which takes about as long to compile as the probe


@dataclass(frozen=True)
class Plan:
    """How a time limit is used.

    Attributes:
        num_chains: independent chains.
        num_warmup: transitions of the warm-up of each.
        num_draws: draws of each.
        seconds: how long that takes, estimated; the optimizer of a warm start not included.
        num_started: transitions of the second stage of the warm start of each; None: there is no such stage.
    """

    num_chains: int
    num_warmup: int
    num_draws: int
    seconds: float
    num_started: int | None = None

    def __str__(self) -> str:
        started = "" if self.num_started is None else f"{self.num_started} of the warm start + "
        return f"{self.num_chains} chains x ({started}{self.num_warmup} warm-up + {self.num_draws} draws)"

    def change(self, run: RunSettings) -> RunSettings:
        """The settings of the run with these counts."""
        counts: dict[str, Any] = {
            "num_chains": self.num_chains,
            "num_warmup": self.num_warmup,
            "num_draws": self.num_draws,
        }
        if run.until_minimum is not None and self.num_draws < run.until_minimum:  # too few to look at
            counts |= dict.fromkeys((f"until_{name}" for name in run.until or ()), None)
        if self.num_started is None or not isinstance(run.warm_start, Mapping):
            return dataclasses.replace(run, **counts)
        return dataclasses.replace(run, **counts, warm_start={**run.warm_start, "num_transitions": self.num_started})


@dataclass(frozen=True)
class Speed:
    """How fast chains are together.

    Attributes:
        rate: transitions per second of all chains together.
        num_chains: number of these chains.
        slots: how many chains run at a time.
    """

    rate: float
    num_chains: int
    slots: int

    def of(self, num_chains: int) -> float:
        """Transitions per second of so many chains together: fewer than slots leave some of the machine idle."""
        return self.rate * min(num_chains, self.slots) / min(self.num_chains, self.slots)


def plan(speed: Speed, seconds: float, *, most_draws: int = MOST_DRAWS) -> Plan:
    """The counts that fit in a time, for at most the chains of `speed`.

    Args:
        speed: of the chains.
        seconds: the time.
        most_draws: of each chain.
    """

    def possible(num_chains: int) -> float:
        return USED_SHARE * speed.of(num_chains) * seconds / num_chains

    num_chains = speed.num_chains
    while num_chains > max(FEWEST_CHAINS, speed.slots) and WARMUP_SHARE * possible(num_chains) < ENOUGH_WARMUP:
        num_chains -= 1
    each = possible(num_chains)
    num_warmup = min(MOST_WARMUP, max(FEWEST_WARMUP, int(WARMUP_SHARE * each)))
    num_draws = min(most_draws, max(FEWEST_DRAWS, int(each - num_warmup)))
    return Plan(num_chains, num_warmup, num_draws, num_chains * (num_warmup + num_draws) / speed.of(num_chains))


def plan_ensemble(speed: Speed, seconds: float, run: RunSettings, *, steps: float) -> Plan:
    """The default ensemble, as much of it as fits in a time: fewer chains, and if need be shorter ones.

    It never has fewer chains than run at a time, since that would save nothing.

    Args:
        speed: of the chains and their kernel.
        seconds: the time.
        run: counts of the default, and its warm start as a table.
        steps: gradients of a transition of the warm start's second stage over those of a transition of the kernel.
    """
    assert isinstance(run.warm_start, Mapping)
    stages = (run.num_warmup or 0, run.num_draws or 0, run.warm_start["num_transitions"])
    cost = stages[0] + stages[1] + steps * stages[2]

    def share(num_chains: int) -> float:
        return ENSEMBLE_SHARE * speed.of(num_chains) * seconds / (num_chains * cost)

    num_chains = run.num_chains or FEWEST_MEMBERS
    while num_chains > max(FEWEST_MEMBERS, speed.slots) and share(num_chains) < 1:
        num_chains -= 1
    warmup, draws, started = (max(FEWEST_TRANSITIONS, int(min(1.0, share(num_chains)) * count)) for count in stages)
    work = num_chains * (warmup + draws + steps * started)
    return Plan(num_chains, warmup, draws, work / speed.of(num_chains), started)


def counts(owner: Any) -> dict[str, Any]:
    """The `COUNTS` of a run's settings, or of an estimator, by name."""
    return {name: getattr(owner, name) for name in COUNTS}


def is_open(given: Mapping[str, Any]) -> bool:
    """Whether tables of settings, as a user has given them, have a time limit and leave the counts to the library.

    With a stop rule, it is the rule or the limit that says how many draws there are.
    """
    run = given.get("run", {})
    is_ruled = any(name.startswith("until_") for name in run)
    return (
        run.get("time_limit") is not None and run.get("warm_start") is None and not (is_ruled or set(COUNTS) & set(run))
    )


def planned(
    settings: Settings, target: "AbstractTarget", kernel: "AbstractKernel", *, until: float
) -> tuple[Settings, str]:
    """Settings with the counts that fit in the time, and a sentence about them.

    Args:
        settings: their time limit is set.
        target: the posterior.
        kernel: a kernel of all rows.
        until: when sampling has to end, by `time.perf_counter`.
    """
    began, run = time.perf_counter(), settings.run
    rate = measured_rate(target, kernel, run, until=until)
    if rate is None:
        return settings, "The time limit was too short to plan the run."
    if until - time.perf_counter() > STAGES * (time.perf_counter() - began):
        _compile_warm_start(target, run, until=until)
    left = max(until - time.perf_counter(), 0.0)
    found = _plan(Speed(rate, run.num_chains or FEWEST_MEMBERS, _slots(run)), left, run, kernel)
    changed = found.change(run)
    if found.seconds <= left:
        most = "" if changed.until is None else "at most "
        said = f"Planned: {found}, {most}about {found.seconds:.0f} s of the time limit of {run.time_limit:g} s."
    else:
        instead = (
            "a linear model"
            if run.warm_start is None
            else "the networks that the warm start finds by then, or else a linear model"
        )
        said = (
            f"Planned: {found}, the shortest run there is, but it would take about {found.seconds:.0f} s, and "
            f"{left:.0f} s of the time limit of {run.time_limit:g} s are left. Without draws, predictions are those of "
            f"{instead}."
        )
    return dataclasses.replace(settings, run=changed), said


def _slots(run: RunSettings) -> int:
    """How many chains run at a time: one on each worker thread, or all of an accelerator; one if rows are divided."""
    if run.divide != CHAINS:
        return 1
    placed = place(run.devices, run.num_chains or FEWEST_MEMBERS)
    return placed.num_workers * len(placed.groups[0])


def _plan(speed: Speed, seconds: float, run: RunSettings, kernel: "AbstractKernel") -> Plan:
    """A plan for an ensemble with a warm start of two stages, or for plain chains."""
    then = None if run.warm_start is None else WARM_STARTS.resolve(run.warm_start).then
    first, second = (getattr(one, "num_steps", None) for one in (then, kernel))
    is_counted = isinstance(run.warm_start, Mapping) and "num_transitions" in run.warm_start
    if first is None or second is None or not is_counted:
        return plan(speed, seconds, most_draws=MOST_DRAWS if run.until is None else run.num_draws)
    return plan_ensemble(speed, seconds, run, steps=float(first / second))


def measured_rate(
    target: "AbstractTarget", kernel: "AbstractKernel", run: RunSettings, *, until: float
) -> float | None:
    """Transitions per second of all chains together in the warm-up; None if not one fits in the time."""
    import warnings

    import ergonet

    left = until - time.perf_counter()
    watch = _Watch(seconds=PROBE_SHARE * left)
    with warnings.catch_warnings(), suppress(TimeLimitError, _EnoughError):
        warnings.simplefilter("ignore")
        ergonet.sample(
            target,
            kernel,
            num_chains=_probed(run),
            num_warmup=PROBED,
            num_draws=1,
            seed=run.seed,
            devices=run.devices if run.divide == CHAINS else None,
            progress=watch,
            time_limit=max(left, 1e-3),
        )
    return watch.rate


def chain_rate(target: "AbstractTarget", kernel: "AbstractKernel", run: RunSettings, *, until: float) -> float | None:
    """Transitions per second of one of as many chains as run at a time; None if not one fits in the time."""
    rate = measured_rate(target, kernel, run, until=until)
    return None if rate is None else rate / _probed(run)


def _probed(run: RunSettings) -> int:
    """Chains of a probe: those that run at a time, since others would only wait for them."""
    count = run.num_chains or FEWEST_MEMBERS
    return min(count, _slots(run)) if run.divide == CHAINS else count


def shortest_warm_start(run: RunSettings) -> "WarmStart | None":
    """A warm start that runs the same programs as that of a run, as briefly as it can; None: the run has none."""
    if run.warm_start is None:
        return None
    return dataclasses.replace(WARM_STARTS.resolve(run.warm_start), most_epochs=1, num_transitions=1)


def _compile_warm_start(target: "AbstractTarget", run: RunSettings, *, until: float) -> None:
    """Compile the programs of the warm start of a run; what goes wrong, the run says."""
    start = shortest_warm_start(run)
    if start is None:
        return
    with suppress(ErgonetError):
        start.run(
            target,
            num_chains=_probed(run),
            seed=run.seed,
            devices=run.devices if run.divide == CHAINS else None,
            time_limit=max(until - time.perf_counter(), 1e-3),
        )


class _EnoughError(Exception):
    """The probe has run for long enough."""


class _Watch(Silent):
    """Notes how many transitions were made in how many seconds, from the end of the first chunk of each chain."""

    def __init__(self, *, seconds: float):
        self._seconds = seconds
        self._first: dict[int, tuple[float, int]] = {}
        self._last: dict[int, tuple[float, int]] = {}

    def tick(self, tick: Tick) -> None:
        now = time.perf_counter()
        self._first.setdefault(tick.job, (now, tick.done))
        self._last[tick.job] = now, tick.done
        if self.rate is not None and now - min(when for when, _ in self._first.values()) > self._seconds:
            raise _EnoughError

    @property
    def rate(self) -> float | None:
        if not self._first:
            return None
        seconds = max(now for now, _ in self._last.values()) - min(now for now, _ in self._first.values())
        done = sum(self._last[job][1] - self._first[job][1] for job in self._first)
        return done / seconds if seconds > 0 and done else None
