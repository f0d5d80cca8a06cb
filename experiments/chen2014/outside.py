"""Figure 6a: predictions of a network trained on digits for other kinds of images."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ergonet
from ergonet import SGHMC, RunningPrediction, retention
from ergonet.baselines import SGD
from ergonet.plots.uncertainty import uncertainty_by_group
from ergonet.prediction.predictive import Prediction
from ergonet.prediction.uncertainty import uncertainty_table
from experiments.chen2014.images import SETTING, Epochs, problem, quietly
from experiments.comparison import every
from experiments.pictures import OTHER, OURS, new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

EPOCHS = Epochs(50, 200)
HMC, FAR, POINT = "SGHMC", "SGHMC from a draw of the prior", "last network of SGD with momentum"
INSIDE, OTHERS, NOISE = "digits", "clothing", "noise"
GROUPS = (INSIDE, OTHERS, NOISE)
CONFIDENT, APART, RARE = 0.9, 0.9, 0.1
ENTROPY, ALEATORIC, EPISTEMIC = (
    Quantity(name, 3) for name in ("entropy, nats", "aleatoric part, nats", "epistemic part, nats")
)
AUROC = Quantity("AUROC of the entropy against digits", 3)
AUROC_EPISTEMIC = Quantity("AUROC of the epistemic part against digits", 3)
SURE = Quantity(f"rows whose class has probability above {CONFIDENT:g}, %", 2)
MEAN_TOP = Quantity("mean probability of the likeliest class", 3)
ERROR = Quantity("test error, %", 2)
NUM_LEVELS = 21  # probabilities at which the curves of the picture are drawn
KERNELS: dict[str, Any] = {
    HMC: lambda batch_size: SGHMC(learning_rate=2e-6, momentum_decay=0.01, batch_size=batch_size),
    FAR: lambda batch_size: SGHMC(learning_rate=2e-6, momentum_decay=0.01, batch_size=batch_size),
    POINT: lambda batch_size: SGD(learning_rate=1e-6, momentum_decay=0.01, nesterov=True, batch_size=batch_size),
}
# Predictions of the run in this process, for the picture.
_seen: dict[str, tuple[dict[str, Prediction], dict[str, np.ndarray]]] = {}


@cache
def images(mode: str) -> dict[str, np.ndarray]:
    """Flat images by group, with pixels from 0 to 1: equally many per group, and the same images in every run."""
    inside = problem("mnist", mode).x_test
    random = np.random.default_rng(0)
    noise = random.uniform(inside.min(), inside.max(), inside.shape).astype(inside.dtype)
    if mode == "smoke":  # there is no clothing of this size; digits with permuted pixels instead
        return {INSIDE: inside, OTHERS: inside[:, random.permutation(inside.shape[1])], NOISE: noise}
    return {INSIDE: inside, OTHERS: ergonet.datasets.load("fashion-mnist").x_test, NOISE: noise}


def rows_of(prediction: Prediction, rows: slice) -> Prediction:
    """The predictions at some rows."""
    parts = ("mean", "sd", "noise_sd", "function_sd", "log_density", "entropy", "expected_entropy")
    found = {name: getattr(prediction, name) for name in parts}
    return replace(prediction, **{name: None if value is None else value[rows] for name, value in found.items()})


@cache
def predictions(method: str, mode: str, size: Epochs, seed: int) -> dict[str, Prediction]:
    """Predictions for all groups, by the average of SGHMC or by the last network of an optimizer."""
    of, groups = problem("mnist", mode), images(mode)
    stacked = np.concatenate(list(groups.values()))
    classes = np.concatenate([of.y_test, np.zeros(len(stacked) - len(of.y_test), of.y_test.dtype)])  # outside: unused
    with quietly():
        result = ergonet.sample(
            of.target,
            KERNELS[method](size.batch_size),
            num_chains=1,
            num_warmup=size.warmup,
            num_draws=size.total - size.warmup,
            seed=seed,
            retention=retention.Last(1),
            callback=None if method == POINT else RunningPrediction(of.model, stacked, classes),
            init=of.target.initial_position(jax.random.key(seed)) if method == FAR else None,
            progress=False,
        )
    found = ergonet.predict(result, stacked, y=classes) if method == POINT else result.running_summary
    ends = np.cumsum([0, *(len(one) for one in groups.values())])
    return {name: rows_of(found, slice(*ends[place : place + 2])) for place, name in enumerate(groups)}


def scores(found: Mapping[str, Prediction], group: str, y_test: np.ndarray) -> dict[str, float]:
    """The figures of a row of the table, and the points of its curve in the picture."""
    table = uncertainty_table(found, inside=INSIDE)
    top = found[group].mean.max(axis=1)
    values = {
        quantity.name: table.row(group, score).mean
        for quantity, score in (
            (ENTROPY, "entropy"),
            (ALEATORIC, "expected_entropy"),
            (EPISTEMIC, "mutual_information"),
        )
    }
    values |= {SURE.name: 100 * float(np.mean(top > CONFIDENT)), MEAN_TOP.name: float(top.mean())}
    values |= {above(level): 100 * float(np.mean(top > level)) for level in levels()}
    if group == INSIDE:
        return values | {ERROR.name: 100 * float(np.mean(found[group].mean.argmax(axis=1) != y_test))}
    return values | {
        AUROC.name: table.row(group, "entropy").auroc,
        AUROC_EPISTEMIC.name: table.row(group, "mutual_information").auroc,
    }


def levels() -> np.ndarray:
    """Probabilities at which the curves of the picture are drawn."""
    return np.linspace(0.0, 1.0, NUM_LEVELS)


def above(level: float) -> str:
    """The quantity of one point of a curve."""
    return f"rows whose class has probability above {level:.2f} of the curve, %"


def label(method: str, group: str) -> str:
    """The label of a row."""
    return f"{method}: {group}"


def _case(method: str, group: str) -> Case:
    def measure(size: Size, seed: int) -> Mapping[str, float]:
        found = predictions(method, size.mode, EPOCHS.of(size), seed)
        if method == HMC and seed == 0:
            _seen["first"] = found, images(size.mode)
        values = scores(found, group, problem("mnist", size.mode).y_test)
        if method == POINT:
            del values[EPISTEMIC.name]  # a single network has none
            values.pop(AUROC_EPISTEMIC.name, None)
        return values

    return Case(label(method, group), measure)


def judge(table: Table) -> Sequence[Claim]:
    """The report's conclusion, judged at fixed levels: confident on digits and less confident on other images."""
    outside = GROUPS[1:]

    def mean(method: str, group: str, quantity: Quantity) -> float:
        return table.mean(label(method, group), quantity.name)

    def told(quantity: Quantity, groups: Sequence[str], *methods: str) -> str:
        return "; ".join(
            f"{method}: " + ", ".join(f"{group} {quantity.show(mean(method, group, quantity))}" for group in groups)
            for method in methods
        )

    return [
        Claim(
            f"the average is less confident on other images than on digits: the entropy separates both from digits "
            f"with an AUROC above {APART:g}",
            every(mean(HMC, group, AUROC) > APART for group in outside),
            told(AUROC, outside, *KERNELS),
        ),
        Claim(
            f"the average is not overconfident outside: a class has probability above {CONFIDENT:g} in at most "
            f"{100 * RARE:.0f} % of the other images of either kind",
            every(mean(HMC, group, SURE) <= 100 * RARE for group in outside),
            f"%: {told(SURE, outside, *KERNELS)}",
        ),
        Claim(
            "the average is overconfident on fewer images outside than a single network",
            every(mean(HMC, group, SURE) < mean(POINT, group, SURE) for group in outside),
            f"%: {told(SURE, outside, *KERNELS)}",
        ),
        Claim(
            f"the average is confident on digits: a class has probability above {CONFIDENT:g} in more than half "
            f"of the digits",
            mean(HMC, INSIDE, SURE) > 50,
            f"%: {told(SURE, (INSIDE,), *KERNELS)}",
        ),
    ]


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Draw entropies by group for the first seed, and how confident each row is."""
    figure, axes = new_figure(9.0, 3.4, columns=len(GROUPS))
    for panel, group in zip(axes, GROUPS, strict=True):
        for method, color in zip(KERNELS, (OURS, "#3f7d3a", OTHER), strict=True):
            shares = [table.mean(label(method, group), above(level)) for level in levels()]
            panel.plot(levels(), shares, color=color, label=method)
        panel.set(title=group, xlabel="probability", xlim=(0, 1), ylim=(0, 102))
        panel.grid(alpha=0.3)
    axes[0].set_ylabel("rows above, %")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    save(figure, folder / "sghmc-ood-sure.png")
    shown = {"sghmc-ood-sure.png": "Share of the rows whose likeliest class has more than the probability below"}
    return _by_group(folder / "sghmc-ood.png") | shown


def _by_group(path: Path) -> dict[str, str]:
    """The library's own picture; it needs every row, so only the process that ran the experiment can draw it anew."""
    if "first" in _seen:
        found, flat = _seen["first"]
        side = round(flat[INSIDE].shape[1] ** 0.5)
        shaped = {name: rows.reshape(-1, side, side) for name, rows in flat.items()}
        figure: Any = uncertainty_by_group(found, images=shaped)[0].figure
        save(figure, path)
    if not path.is_file():
        return {}
    return {path.name: "Entropy and mutual information of SGHMC by group, first seed"}


EXPERIMENT = Experiment(
    name="sghmc-ood",
    title="How sure SGHMC is of images of another kind (ChenReport, Figure 6a)",
    setting=SETTING
    + "200 epochs of MNIST, of which 50 are warm-up; SGHMC: learning rate 2e-6, momentum decay 0.01, predictions "
    "averaged over the network at the end of each epoch; once more from a whole prior draw, where the first "
    "gradients deactivate most hidden units; SGD with Nesterov's momentum: 1e-6, decay 0.01, its last network. "
    "Predictions on the 10000 test rows of MNIST, as many of Fashion-MNIST, and as many images of independent uniform "
    "pixels.",
    cases=lambda _: [_case(method, group) for method in KERNELS for group in GROUPS],
    groups={
        "Predictions": (ERROR, MEAN_TOP, SURE, AUROC, AUROC_EPISTEMIC),
        "Entropies": (ENTROPY, ALEATORIC, EPISTEMIC),
    },
    judge=judge,
    draw=draw,
    notes="""
The report shows a picture and no figures. The entropy is that of the predictive class distribution; the aleatoric part
is the mean entropy of the networks, and the epistemic part is the rest, which is zero for a single network. AUROC: the
probability that a random image of the group has a higher score than a random digit; 0.5 is chance. The levels of the
verdict (0.9 and 10 %) were chosen before the run.
""",
    in_words=EPOCHS.in_words,
)
