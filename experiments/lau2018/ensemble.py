"""Table 4.1: early-stopping ensembles of 2 to 1000 nets against a Bayesian network."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet import XHMC
from ergonet.baselines import SGD, Adam, EarlyStoppingEnsemble
from experiments.comparison import Difference, against, every, significant
from experiments.lau2018 import digits
from experiments.lau2018.claims import ONE_DRAW_SDS, SMALLEST_SD
from experiments.lau2018.digits import (
    PREDICTIVE,
    SECONDS,
    SETTING,
    SINGLE,
    SINGLE_SD,
    TARGET_ACCEPTANCE,
    UNITS,
    Run,
    figures,
)
from experiments.pictures import OTHER, OURS, THESIS, new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

THESIS_ERRORS = {2: 91.2, 5: 88.6, 10: 47.0, 100: 51.6, 1000: 19.2}
SIZES = (1, *THESIS_ERRORS)
VALIDATION, PATIENCE, MOST_EPOCHS, SMOKE_EPOCHS = 0.2, 20, 1000, 20
SMOKE_MEMBERS = 10
REFERENCE = "BNN (XHMC delta 0.1)"
REFERENCE_RUN = Run(REFERENCE, XHMC(0.1, target_acceptance=TARGET_ACCEPTANCE), source=figures(23.4))

ENSEMBLE = Quantity("error of the ensemble, %", 2)
BETWEEN = Quantity("sd between ensembles, %", 2)
EPOCHS = Quantity("epoch of the lowest validation loss")
VALIDATION_NLL = Quantity("lowest validation loss, nats per row", 3)


@dataclass(frozen=True)
class Kind:
    """How members are trained.

    Attributes:
        name: name in labels.
        optimizer: optimizer of each member.
        epochs: maximum number of epochs; None: early stopping alone ends the training.
    """

    name: str
    optimizer: Any
    epochs: int | None = None

    def ensemble(self, size: Size) -> EarlyStoppingEnsemble:
        """The largest ensemble of this kind, for a run of this size."""
        is_smoke, most = size.mode == "smoke", self.epochs or MOST_EPOCHS
        return EarlyStoppingEnsemble(
            size=self.members(size),
            optimizer=self.optimizer,
            validation=VALIDATION,
            patience=PATIENCE,
            most_epochs=min(most, SMOKE_EPOCHS) if is_smoke else most,
        )

    def members(self, size: Size) -> int:
        """Number of members of the largest ensemble."""
        return SMOKE_MEMBERS if size.mode == "smoke" else max(SIZES)

    def sizes(self, size: Size) -> tuple[int, ...]:
        """Sizes of the measured ensembles; the last one has all members."""
        most = self.members(size)
        return (*(one for one in SIZES if one < most), most)


TUNED = Kind("early stopping", Adam(learning_rate=0.1))
HARDLY = tuple(Kind(f"{epochs} epochs of SGD", SGD(learning_rate=0.1), epochs) for epochs in (5, 2))
KINDS = (TUNED, *HARDLY)


def label(kind: Kind, count: int) -> str:
    """The label of the row for ensembles of `count` members."""
    return f"{kind.name}, {count} net{'s' if count > 1 else ''}"


def cases(size: Size) -> list[Case]:
    """The Bayesian network, then ensembles of every kind and size."""

    def reference(size: Size, seed: int) -> dict[str, float]:
        found = REFERENCE_RUN.measure(size, seed)
        return {one.name: found[one.name] for one in (SINGLE, SINGLE_SD, PREDICTIVE, SECONDS)}

    def row(kind: Kind, count: int) -> Case:
        theirs = {ENSEMBLE.name: THESIS_ERRORS[count]} if count in THESIS_ERRORS else {}
        return Case(label(kind, count), partial(measure, kind, count), theirs)

    return [
        Case(REFERENCE, reference, REFERENCE_RUN.source),
        *(row(kind, count) for kind in KINDS for count in kind.sizes(size)),
    ]


def measure(kind: Kind, count: int, size: Size, seed: int) -> dict[str, float]:
    """Mean test error of the disjoint ensembles of `count` members, and their standard deviation."""
    outcome = trained(kind, size, seed)
    errors = ensemble_errors(outcome.probabilities, np.asarray(digits.data().y_test), count)
    found = {ENSEMBLE.name: float(errors.mean())}
    if len(errors) > 1:
        found[BETWEEN.name] = float(errors.std(ddof=1))
    return found | (dict(outcome.about) if count == 1 else {})


def ensemble_errors(probabilities: np.ndarray, truth: np.ndarray, count: int) -> np.ndarray:
    """Test error in % of each disjoint ensemble of `count` members, from `[member, class, row]`."""
    number = len(probabilities) // count
    groups = probabilities[: number * count].reshape(number, count, *probabilities.shape[1:])
    return 100 * np.mean(groups.mean(axis=1).argmax(axis=1) != truth, axis=1)


@dataclass(frozen=True)
class Outcome:
    """Trained members.

    Attributes:
        probabilities: class probabilities of the test rows `[member, class, row]`.
        about: figures of the training, by quantity name.
    """

    probabilities: np.ndarray
    about: Mapping[str, float]


@cache
def trained(kind: Kind, size: Size, seed: int) -> Outcome:
    """Train all members of a kind."""
    target = digits.target((size.units(UNITS),), 1.0, is_double=False)
    samples = kind.ensemble(size).fit(target, seed=seed)
    inputs = jnp.asarray(target.model.network.prepare(digits.data().x_test))
    about = {
        EPOCHS.name: float(samples.best_epoch.mean()),
        VALIDATION_NLL.name: float(samples.validation_nll.mean()),
        SECONDS.name: samples.seconds["total"],
    }
    return Outcome(np.asarray(_probabilities(target.model, jnp.asarray(samples.positions[0]), inputs)), about)


@eqx.filter_jit
def _probabilities(model: Any, positions: jax.Array, inputs: jax.Array) -> jax.Array:
    return jax.lax.map(lambda position: jax.nn.softmax(model.outputs(position, inputs), axis=0), positions)


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.2."""
    return [
        _small(table),
        _large(table),
        _one_net(table),
        _guessing(table),
        _hardly_trained(table),
    ]


def rows_of(table: Table, kind: Kind) -> dict[int, str]:
    """The labels of a kind's rows, by number of members."""
    counts = sorted({int(row.split()[-2]) for row in table.labels if row.startswith(f"{kind.name}, ")})
    return {count: label(kind, count) for count in counts}


def _against(table: Table, rows: Sequence[str], quantity: Quantity) -> list[Difference]:
    """Errors of ensembles minus an error of the Bayesian network."""
    values = {row: {quantity.name: table.of(row, ENSEMBLE.name)} for row in rows}
    values[REFERENCE] = {quantity.name: table.of(REFERENCE, quantity.name)}
    return against(Table(values, {}), rows, REFERENCE, quantity)


def _told(table: Table, rows: Sequence[str]) -> str:
    return "; ".join(
        f"against the {'predictive' if quantity is PREDICTIVE else 'single draws'} "
        + ", ".join(one.show(quantity).replace(f" minus {REFERENCE}", "") for one in _against(table, rows, quantity))
        for quantity in (PREDICTIVE, SINGLE)
    )


def _small(table: Table) -> Claim:
    rows = [row for count, row in rows_of(table, TUNED).items() if 1 < count <= 10]
    real = significant(_against(table, rows, PREDICTIVE))
    worse = None if real is None else len(real) == len(rows) and all(one.value > 0 for one in real)
    return Claim("ensembles of 2 to 10 nets have larger errors than the Bayesian network", worse, _told(table, rows))


def _large(table: Table) -> Claim:
    row = list(rows_of(table, TUNED).values())[-1]
    real = significant(_against(table, [row], PREDICTIVE))
    matches = None if real is None else not any(one.value > 0 for one in real)
    return Claim("large ensembles match the Bayesian network", matches, _told(table, [row]))


def _one_net(table: Table) -> Claim:
    row = label(TUNED, 1)
    answers = []
    for quantity in (PREDICTIVE, SINGLE):
        real = significant(_against(table, [row], quantity))
        answers.append(None if real is None else not any(one.value > 0 for one in real))
    return Claim("a single net, stopped early, can match the Bayesian network", every(answers), _told(table, [row]))


def _guessing(table: Table) -> Claim:
    rows = [label(kind, count) for kind in KINDS for count in (2, 5)]
    return Claim(
        "ensembles of 2 and of 5 nets are about as wrong as guessing",
        all(table.mean(row, ENSEMBLE.name) > 80 for row in rows[:2]),
        ", ".join(f"{row} {table.mean(row, ENSEMBLE.name):.1f} %" for row in rows),
    )


def _hardly_trained(table: Table) -> Claim:
    """A claim of ours, not of the thesis."""
    found, told = [], []
    for kind in KINDS:
        scores = []
        for row in rows_of(table, kind).values():
            theirs, spread = table.source(row, ENSEMBLE.name), table.mean(row, BETWEEN.name)
            if theirs is not None:
                over_seeds = table.error(row, ENSEMBLE.name) * math.sqrt(len(table.of(row, ENSEMBLE.name)))
                sd = max([SMALLEST_SD, *(one for one in (spread, over_seeds) if not math.isnan(one))])
                scores.append((theirs - table.mean(row, ENSEMBLE.name)) / sd)
        found.append(bool(scores) and all(abs(one) <= ONE_DRAW_SDS for one in scores))
        told.append(f"{kind.name} {', '.join(f'{one:+.1f}' for one in scores)}")
    return Claim(
        "(our claim, not the thesis's) the figures of the thesis are those of members that were hardly trained",
        any(found[1:]),
        f"figures of the thesis minus ours, in sds between ensembles (between seeds for the largest), by size: "
        f"{'; '.join(told)}",
    )


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Draw the test error against the size of the ensemble."""
    file = "lau-ensemble.png"
    figure, (axes,) = new_figure(6.8, 3.8)
    for kind, color, style in zip(KINDS, (OURS, OTHER, OTHER), ("o-", "s-", "^--"), strict=True):
        rows = rows_of(table, kind)
        means = [table.mean(row, ENSEMBLE.name) for row in rows.values()]
        sds = np.nan_to_num([table.mean(row, BETWEEN.name) for row in rows.values()])
        axes.errorbar(list(rows), means, yerr=sds, fmt=style, color=color, capsize=3, label=kind.name)
    for quantity, dashes in ((PREDICTIVE, "--"), (SINGLE, ":")):
        axes.axhline(
            table.mean(REFERENCE, quantity.name), color="black", ls=dashes, lw=1, label=f"BNN: {quantity.name}"
        )
    axes.plot(
        *zip(*THESIS_ERRORS.items(), strict=True), "x", color=THESIS, ms=8, mew=1.8, label="thesis, ensemble", zorder=5
    )
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("nets")
    axes.set_ylabel("test error, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    save(figure, folder / file)
    return {file: "Test error against the size of the ensemble; bars: sd between ensembles; crosses: the thesis"}


EXPERIMENT = Experiment(
    name="lau-ensemble",
    title="Early-stopping ensembles against a Bayesian network (Lau2018, Table 4.1)",
    setting=SETTING
    + "An ensemble (the thesis calls it a committee) averages the class probabilities of nets that start from N(0, 1) "
    "weights and are trained on the likelihood alone. The thesis states neither the optimizer nor the learning rate, "
    f"validation fraction or patience. *Early stopping*: each member holds out its own {VALIDATION:.0%} of the "
    f"training rows and stops {PATIENCE} epochs after its lowest validation loss; Adam with learning rate 0.1 and "
    "batches of 100, which reached the lowest validation loss of 40 nets (0.30 nats; 0.34 at 0.03; 0.42 at 0.01, which "
    "stops at 1000 epochs; SGD with learning rate 1 and batches of 20: 0.33), and was chosen by this loss alone. *5* "
    "and *2 epochs of SGD*: the same nets after 20 and 8 steps of gradient descent with learning rate 0.1, chosen to "
    "show the errors of hardly trained members. One ensemble of 1000 is trained for each kind and seed, and is split "
    "into disjoint smaller ensembles; each figure is the mean over these.",
    cases=cases,
    groups={
        "Test error": (ENSEMBLE, BETWEEN, SINGLE, SINGLE_SD, PREDICTIVE),
        "Training": (EPOCHS, VALIDATION_NLL, SECONDS),
    },
    judge=judge,
    draw=draw,
    notes="The two errors of the Bayesian network answer different questions: an ensemble averages its predictions, as "
    "the posterior predictive does; the thesis's 23.4 % is an error of single draws. Seconds are for all nets of a "
    "kind together, or for the run of the Bayesian network without compilation.",
)
