"""Figure 6b: SGHMC and mean-field variational inference on MNIST."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import ergonet
from ergonet import SGHMC
from ergonet.baselines import MeanFieldVariational
from experiments.chen2014.curves import points
from experiments.chen2014.images import ERROR, NLL, SECONDS, SETTING, Epochs, Problem, average_after, learn, problem
from experiments.comparison import differences, significant
from experiments.pictures import OTHER, OURS, new_figure, percent_axis, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

EPOCHS = Epochs(50, 400)
NUM_DRAWS = {"full": 200, "quick": 50, "smoke": 20}
HMC, VARIATIONAL = "SGHMC", "variational"
NEAR = 1.1
SETTLED = Quantity("epochs until the error stays within a tenth of its last", 1)
SETTLED_SECONDS = Quantity("seconds until then", 1)
FIT = MeanFieldVariational(alpha=0.01, num_particles=2)


def settled(curve: Mapping[int, float]) -> float:
    """The first epoch from which on the error is at most 1.1 times that of the last; NaN for an empty curve."""
    found = float("nan")
    if not curve:
        return found
    last = curve[max(curve)]
    for epoch in sorted(curve, reverse=True):
        if not curve[epoch] <= NEAR * last:
            break
        found = float(epoch)
    return found


def with_speed(found: Mapping[str, float], epochs: Epochs) -> dict[str, float]:
    """Add the time that the error takes to settle to the scores of a run of `epochs.total` epochs and `SECONDS`."""
    curve = {epoch: found[average_after(epoch)] for epoch in epochs.points}
    epoch = settled({epoch: error for epoch, error in curve.items() if np.isfinite(error)})
    return {
        **found,
        SETTLED.name: epoch,
        SETTLED_SECONDS.name: epoch * found[SECONDS.name] / epochs.total,
    }


def _by_sampling(size: Size, seed: int) -> Mapping[str, float]:
    epochs = EPOCHS.of(size)
    kernel = SGHMC(learning_rate=2e-6, momentum_decay=0.01, batch_size=epochs.batch_size)
    return with_speed(learn(kernel, problem("mnist", size.mode), epochs, seed)[0], epochs)


def _by_fitting(size: Size, seed: int) -> Mapping[str, float]:
    epochs, of = EPOCHS.of(size), problem("mnist", size.mode)
    fitted = FIT.fit(
        of.target,
        num_epochs=epochs.total,
        batch_size=epochs.batch_size,
        seed=seed,
        num_draws=NUM_DRAWS[size.mode],
        keep_every=1,
    )
    found = {SECONDS.name: float(fitted.seconds["warmup"])}
    for epoch in epochs.points:
        found[average_after(epoch)], nll = _scores(fitted.at(epoch), of)
        found |= {ERROR.name: found[average_after(epoch)], NLL.name: nll}  # those of the last epoch stay
    return with_speed(found, epochs)


def _scores(draws: ergonet.Samples, of: Problem) -> tuple[float, float]:
    """Test error in percent, and nll."""
    predicted = ergonet.predict(draws, of.x_test, y=of.y_test)
    assert predicted.log_density is not None  # as y is given
    error = float(np.mean(predicted.mean.argmax(axis=1) != of.y_test))
    return 100 * error, -float(np.mean(predicted.log_density))


def judge(table: Table) -> Sequence[Claim]:
    """The report's conclusions."""
    better = significant(differences(table, [(HMC, VARIATIONAL)], ERROR))
    each = {
        one: [table.mean(label, one.name) for label in (VARIATIONAL, HMC)]
        for one in (ERROR, SETTLED, SETTLED_SECONDS, NLL)
    }
    return [
        Claim(
            "SGHMC ends with a smaller test error than variational inference",
            None if better is None else bool(better) and better[0].value < 0,
            f"{each[ERROR][1]:.2f} against {each[ERROR][0]:.2f} %; nll {each[NLL][1]:.3f} against "
            f"{each[NLL][0]:.3f} nats; the average of SGHMC is {_ahead(table)}",
        ),
        *(
            Claim(
                f"variational inference converges in fewer {unit}",
                each[one][0] < each[one][1],
                f"within a tenth of its own last error after {each[one][0]:.0f} against {each[one][1]:.0f} {unit}",
            )
            for one, unit in ((SETTLED, "epochs"), (SETTLED_SECONDS, "seconds"))
        ),
    ]


def _ahead(table: Table) -> str:
    """The epoch from which on SGHMC has the smaller error."""
    curves = [dict(zip(*points(table, label, average_after), strict=True)) for label in (HMC, VARIATIONAL)]
    both = sorted(set(curves[0]) & set(curves[1]))
    behind = [epoch for epoch in both if curves[0][epoch] >= curves[1][epoch]]
    later = [epoch for epoch in both if epoch > max(behind, default=0)]
    if not later:
        return "not ahead at the end"
    return f"ahead from epoch {later[0]} on, of those of the curve"


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Draw the error against epochs and against seconds."""
    figure, axes = new_figure(9.0, 3.8, columns=2)
    for label, color in zip((HMC, VARIATIONAL), (OURS, OTHER), strict=True):
        epochs, errors = points(table, label, average_after)
        per_epoch = table.mean(label, SECONDS.name) / max(epochs, default=1)
        for panel, scale in zip(axes, (1.0, per_epoch), strict=True):
            panel.plot(epochs * scale, errors, "o-", ms=3, color=color, label=label)
    for panel, name in zip(axes, ("epochs", "seconds"), strict=True):
        panel.set(xscale="log", xlabel=name)
        percent_axis(panel)
    axes[0].set_ylabel("test error of the average")
    axes[0].legend(frameon=False)
    save(figure, folder / "sghmc-vi.png")
    return {"sghmc-vi.png": "Test error of the average of the draws so far, by epoch and by seconds, means over seeds"}


EXPERIMENT = Experiment(
    name="sghmc-vi",
    title="SGHMC and variational inference on MNIST (ChenReport, Figure 6b)",
    setting=SETTING
    + "SGHMC: learning rate 2e-6, momentum decay 0.01, 400 epochs of which 50 are warm-up. Variational inference: an "
    "independent normal for each weight, Renyi's bound of order 0.01 with 2 particles, 400 epochs of the same batches, "
    "Adam at 0.01 falling to 0 by half a cosine; predictions from 200 draws of it (50 in a quick run).",
    cases=lambda _: [Case(HMC, _by_sampling), Case(VARIATIONAL, _by_fitting)],
    groups={"Test rows": (ERROR, NLL), "Speed": (SETTLED, SETTLED_SECONDS, SECONDS)},
    judge=judge,
    draw=draw,
    notes="""
The report prints only curves, and makes 80000 draws from its fit; it states neither the optimizer nor the number of
epochs. The average of SGHMC begins after the warm-up, whose epochs and seconds are counted. Seconds of SGHMC include a
pass over the test rows in each epoch; seconds of the fit do not.
""",
    in_words=lambda size: f"{EPOCHS.in_words(size)} of SGHMC",
)
