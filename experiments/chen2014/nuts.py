"""Section 5.3: SG-NUTS and SGHMC by number of warm-up epochs, and SGHMC after SG-NUTS."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ergonet
from ergonet import SGHMC, SGNUTS, SequentialKernel, retention
from experiments.chen2014.images import ERROR, LAST, SECONDS, SETTING, Epochs, Problem, learn, problem, quietly
from experiments.comparison import differences, every, significant
from experiments.pictures import OTHER, OURS, THESIS, new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import SIZES, Size

RATE, TREE_RATE, DECAY, SMALL = 2e-6, 2e-7, 0.01, 0.02
DOUBLINGS = {"full": 5, "quick": 4, "smoke": 2}
LONG = Epochs(20, 70)
THIN = 4  # thinning of the networks of the last epoch that are averaged
ACCURACY, LAST_ACCURACY = Quantity("accuracy of the average", 4), Quantity("accuracy of the last network", 4)
TIME, GRADIENTS = Quantity("seconds", 1), Quantity("minibatch gradients")
CHAIN, TREES, SMALL_CHAIN, SMALL_TREES, BOTH, LONG_TREES = (
    "SGHMC",
    "SG-NUTS",
    "SGHMC, small start",
    "SG-NUTS, small start",
    "SG-NUTS for 1 epoch, then SGHMC",
    "SG-NUTS, small start, 20 + 50 epochs",
)
WARMUPS = {
    CHAIN: (0, 1, 2, 5, 10, 25),
    TREES: (0, 1, 2),
    SMALL_CHAIN: (0, 1, 2, 5, 10, 25),
    SMALL_TREES: (0, 1, 2),
    BOTH: (1, 2, 5),
}
THEIRS = {
    CHAIN: ((0.7747, 3.2), (0.5764, 4.5), (0.4141, 6.2), (0.6471, 11.4), (0.7100, 20.3), (0.8866, 50.2)),
    TREES: ((0.8715, 28.3), (0.9296, 127.2), (0.9231, 453.3)),
}
DATA = {"MNIST": ("mnist", 0.94), "Fashion-MNIST": ("fashion-mnist", 0.85)}


@dataclass(frozen=True)
class Plan:
    """A row.

    Attributes:
        method: one of `WARMUPS`.
        warmup: number of epochs before the epoch that is averaged.
    """

    method: str
    warmup: int

    @property
    def label(self) -> str:
        """The label of the row."""
        return f"{self.method}, {self.warmup} warm-up"

    @property
    def source(self) -> dict[str, float]:
        """The report's figures."""
        known = dict(zip(WARMUPS[self.method], THEIRS.get(self.method, ()), strict=False)).get(self.warmup)
        return {} if known is None else {ACCURACY.name: known[0], TIME.name: known[1]}

    def kernel(self, mode: str, batch_size: int, batches: int) -> Any:
        """The kernel; one draw is a step of SGHMC or a tree of SG-NUTS."""
        chain = SGHMC(learning_rate=RATE, momentum_decay=DECAY, batch_size=batch_size, steps_per_draw=1)
        rate = RATE if self.method == TREES else TREE_RATE
        doublings = DOUBLINGS[mode]
        trees = SGNUTS(
            learning_rate=rate,
            momentum_decay=DECAY,
            max_doublings=doublings,
            batch_size=batch_size,
            steps_per_draw=1,
        )
        if self.method == BOTH:
            return SequentialKernel(trees, chain, after=batches)
        return chain if self.method in (CHAIN, SMALL_CHAIN) else trees

    def start(self, of: Problem, seed: int) -> Any:
        """Initial values: a draw from the prior, or the same draw scaled down."""
        found = of.target.initial_position(jax.random.key(seed))
        return found if self.method in (CHAIN, TREES) else SMALL * found


PLANS = [Plan(method, warmup) for method, warmups in WARMUPS.items() for warmup in warmups]


def _run(plan: Plan, mode: str, seed: int, *, num_warmup: int, num_draws: int) -> ergonet.Samples:
    of = problem("mnist", mode)
    batch_size = _batch_size(mode)
    with quietly():
        return ergonet.sample(
            of.target,
            plan.kernel(mode, batch_size, of.target.num_rows // batch_size),
            num_chains=1,
            num_warmup=num_warmup,
            num_draws=num_draws,
            seed=seed,
            retention=retention.Every(THIN),
            init=plan.start(of, seed),
            progress=False,
        )


@cache
def _compile(method: str, mode: str) -> None:
    """Run a few steps of the method, so that the seconds of a row do not include compilation."""
    _run(Plan(method, 0), mode, 0, num_warmup=0, num_draws=THIN)


def _batch_size(mode: str) -> int:
    return LONG.of(SIZES[mode]).batch_size


def _measure(plan: Plan, size: Size, seed: int) -> Mapping[str, float]:
    of = problem("mnist", size.mode)
    batches = of.target.num_rows // _batch_size(size.mode)
    _compile(plan.method, size.mode)
    result = _run(plan, size.mode, seed, num_warmup=plan.warmup * batches, num_draws=batches)
    return {
        ACCURACY.name: _accuracy(result, of),
        LAST_ACCURACY.name: _accuracy(_last(result), of),
        TIME.name: sum(result.seconds[phase] for phase in ("warmup", "sampling")),
        GRADIENTS.name: float((result.curve or {})["gradients"].sum()),
    }


def _last(samples: ergonet.Samples) -> ergonet.Samples:
    """The last draw of every chain, as samples."""
    stats = {name: values[:, -1:] for name, values in samples.stats.items()}
    return replace(samples, positions=np.asarray(samples.positions[:, -1:]), stats=stats)


def _accuracy(samples: ergonet.Samples, of: Problem) -> float:
    return float(np.mean(ergonet.predict(samples, of.x_test).mean.argmax(axis=1) == of.y_test))


def _measure_long(name: str, size: Size, seed: int) -> Mapping[str, float]:
    epochs, of = LONG.of(size), problem(DATA[name][0], size.mode)
    kernel = SGNUTS(
        learning_rate=TREE_RATE,
        momentum_decay=DECAY,
        max_doublings=DOUBLINGS[size.mode],
        batch_size=epochs.batch_size,
    )
    start = SMALL * of.target.initial_position(jax.random.key(seed))
    found, result = learn(kernel, of, epochs, seed, init=start)
    return {
        ACCURACY.name: 1 - found[ERROR.name] / 100,
        LAST_ACCURACY.name: 1 - found[LAST.name] / 100,
        TIME.name: found[SECONDS.name],
        GRADIENTS.name: float((result.curve or {})["gradients"].sum()),
    }


def long_label(name: str) -> str:
    """The label of a row, with its data set."""
    return f"{LONG_TREES}, {name}"


def cases(size: Size) -> list[Case]:
    """Both samplers by number of warm-up epochs; a quick run leaves out the long ones."""
    found = [Case(plan.label, partial(_measure, plan), plan.source) for plan in PLANS]
    if size.mode == "quick":
        return found
    longer = [
        Case(long_label(name), partial(_measure_long, name), {ACCURACY.name: accuracy})
        for name, (_, accuracy) in DATA.items()
    ]
    return [*found, *longer]


def _at(table: Table, plan: Plan, *quantities: Quantity) -> tuple[float, ...]:
    return tuple(table.mean(plan.label, one.name) for one in quantities)


def beaten(table: Table, method: str, *, by: str) -> list[Plan]:
    """Rows of a method whose accuracy another method reaches with at most as many gradients."""
    rivals = [_at(table, Plan(by, warmup), ACCURACY, GRADIENTS) for warmup in WARMUPS[by]]
    found = []
    for warmup in WARMUPS[method]:
        accuracy, gradients = _at(table, Plan(method, warmup), ACCURACY, GRADIENTS)
        if any(one >= accuracy and cost <= gradients for one, cost in rivals):
            found.append(Plan(method, warmup))
    return found


def _more_accurate(table: Table, trees: str, chain: str, start: str) -> Claim:
    first, second = Plan(trees, 0), Plan(chain, 0)
    real = significant(differences(table, [(first.label, second.label)], ACCURACY))
    figures = [table.mean(one.label, ACCURACY.name) for one in (first, second)]
    return Claim(
        f"after one epoch from {start} SG-NUTS is more accurate than SGHMC",
        None if real is None else bool(real) and real[0].value > 0,
        f"{figures[0]:.4f} against {figures[1]:.4f}",
    )


def _quick_start(table: Table, chain: str, start: str) -> Claim:
    """Whether SGHMC needs more epochs to reach the accuracy of SG-NUTS after one epoch, from small initial values."""
    goal, cost, seconds = _at(table, Plan(SMALL_TREES, 0), ACCURACY, GRADIENTS, TIME)
    rows = [_at(table, Plan(chain, warmup), ACCURACY, GRADIENTS, TIME) for warmup in WARMUPS[chain]]
    there = next((row for row in rows if row[0] >= goal), None)
    best = there or max(rows)
    return Claim(
        f"SG-NUTS from small initial values reaches its accuracy after one epoch sooner than SGHMC from {start}",
        there is None or every((there[1] > cost, there[2] > seconds)),
        f"SG-NUTS: {goal:.4f} in {cost:.0f} gradients and {seconds:.1f} s; SGHMC: {'' if there else 'at most '}"
        f"{best[0]:.4f} in {best[1]:.0f} gradients and {best[2]:.1f} s",
    )


def judge(table: Table) -> Sequence[Claim]:
    """The report's conclusions, from initial values that the report may have used and from small ones."""
    lost = beaten(table, BOTH, by=SMALL_CHAIN)
    rows = "; ".join(
        f"{plan.label}: {accuracy:.4f} in {gradients:.0f} gradients and {seconds:.1f} s"
        for plan in (*(Plan(BOTH, warmup) for warmup in WARMUPS[BOTH]), Plan(SMALL_CHAIN, 5), Plan(SMALL_CHAIN, 25))
        for accuracy, gradients, seconds in [_at(table, plan, ACCURACY, GRADIENTS, TIME)]
    )
    found = [
        _more_accurate(table, TREES, CHAIN, "a draw of the prior at learning rate 2e-6"),
        _more_accurate(table, SMALL_TREES, SMALL_CHAIN, "a small start, SG-NUTS at learning rate 2e-7,"),
        _quick_start(table, CHAIN, "a draw of the prior"),
        _quick_start(table, SMALL_CHAIN, "the same start"),
        Claim(
            "an epoch of SG-NUTS and then SGHMC is ahead of SGHMC alone from the same initial values at equal "
            "gradients",
            len(lost) < len(WARMUPS[BOTH]) / 2,
            f"SGHMC alone is as accurate with no more gradients in {len(lost)} of {len(WARMUPS[BOTH])} rows; {rows}",
        ),
    ]
    for name, (_, accuracy) in DATA.items():
        label = long_label(name)
        if label in table.labels:
            value = table.mean(label, ACCURACY.name)
            found.append(
                Claim(
                    f"SG-NUTS of 20 + 50 epochs has an accuracy of {accuracy:g} on {name}",
                    value >= accuracy - 0.005,
                    f"{value:.4f}",
                )
            )
    return found


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Draw the accuracy against the number of gradients."""
    figure, (axes,) = new_figure(7.2, 4.2)
    colors = (OURS, OTHER, OURS, OTHER, "#3f7d3a")
    for method, color in zip(WARMUPS, colors, strict=True):
        points = [_at(table, Plan(method, warmup), GRADIENTS, ACCURACY) for warmup in WARMUPS[method]]
        line = "o--" if method in (CHAIN, TREES) else "o-"
        label = f"{method}, from the prior" if method in (CHAIN, TREES) else method
        axes.plot(*np.transpose(points), line, color=color, label=label, ms=4)
    axes.axhline(0.1, color=THESIS, lw=0.8, ls=":")
    axes.set(xscale="log", xlabel="minibatch gradients", ylabel="accuracy of the average over an epoch", ylim=(0, 1))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    save(figure, folder / "sghmc-nuts.png")
    return {"sghmc-nuts.png": "Accuracy after one more epoch against minibatch gradients, means over seeds"}


EXPERIMENT = Experiment(
    name="sghmc-nuts",
    title="SG-NUTS, SGHMC, and one after the other (ChenReport, section 5.3)",
    setting=SETTING
    + "An epoch is 120 minibatches: steps of SGHMC, trees of SG-NUTS. Accuracies are those of the average over every "
    "fourth "
    "of the 120 networks of the epoch after the warm-up. SGHMC: learning rate 2e-6, momentum decay 0.01. SG-NUTS: "
    "momentum decay 0.01, learning rate 2e-6. The report states neither its initial values nor the learning rate of "
    "its "
    f"SG-NUTS. Here rows start from a whole prior draw; *small start* is {SMALL:g} times a prior draw, with learning "
    "rate 2e-7 for SG-NUTS, and is also used for the row that continues with SGHMC (at 2e-6) after an epoch of "
    "trees. A tree has at most 31 steps (15 in a quick run), which bounds the cost of an epoch; Pyro, which the "
    "report uses, allows 1023. The runs of 20 + 50 epochs average the network at the end of each epoch.",
    cases=cases,
    groups={"One epoch after the warm-up": (ACCURACY, LAST_ACCURACY, TIME, GRADIENTS)},
    judge=judge,
    draw=draw,
    notes="""
The report's seconds are from another machine and another program. Ours exclude compilation and the test rows, except
for the runs of 20 + 50 epochs, which include a pass over the test rows in each epoch.
""",
    in_words=lambda size: (
        f"{size.num_seeds} seeds, trees of at most {2 ** DOUBLINGS[size.mode] - 1} steps"
        + ("; runs of 20 + 50 epochs are left out" if size.mode == "quick" else "")
    ),
)
