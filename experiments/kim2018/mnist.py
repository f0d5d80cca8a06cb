"""Section 4.3: MNIST by Adam, by full-batch HMC, and by HMC in a box."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import ergonet
from ergonet import HMC, MLP, BayesianNetwork, ConstrainedHMC, RowShards, Samples, datasets, likelihoods, priors
from ergonet.baselines import Adam, EarlyStoppingEnsemble
from ergonet.diagnostics.chains import ess_bulk
from experiments.pictures import new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

UNITS, CLASSES, STEPS, WALL = 20, 10, 10, 1.0
NUM_ROWS, NUM_TRAINED, QUICK_SHARE = 60_000, 55_000, 10
NUM_WARMUP = {"full": 1_000, "quick": 300, "smoke": 20}
NUM_DRAWS = {"full": 2_000, "quick": 600, "smoke": 20}
NUM_PARTS = {"full": 32, "quick": 8, "smoke": 8}  # of the rows: one part fits in the cache of a core
ADAM_EPOCHS = {"full": 18, "quick": 18, "smoke": 2}
NUM_BINS, NUM_POINTS, NUM_TRACED, NUM_SHOWN = 40, 50, 6, 5
LAYERS = ("first", "second")
PIXELS = "pixels of an image"
TRAINED, FREE, BOXED = "Adam", "HMC", "HMC in [-1, 1]^D"
ACCURACY = Quantity("accuracy of the posterior predictive, %", 2)
OF_MEANS = Quantity("accuracy of the mean weights, %", 2)
NLL = Quantity("nll, nats", 3)
SECONDS = Quantity("seconds of sampling", 0)
ACCEPTANCE = Quantity("acceptance rate", 2)
ESS = Quantity("median effective draws of a weight", 0)
NEAR_WALL = {layer: Quantity(f"weights of the {layer} layer with |w| > 0.9, %", 1) for layer in LAYERS}
SPREAD = {layer: Quantity(f"sd of the weights of the {layer} layer", 2) for layer in LAYERS}


def label(kernel: str, prior_mean: float) -> str:
    """The label of a row."""
    return f"{kernel}, prior mean {prior_mean:g}"


@cache
def _images(mode: str) -> Any:
    return datasets.load("digits" if mode == "smoke" else "mnist")


@cache
def model(mode: str, prior_mean: float) -> BayesianNetwork:
    """784-20-10 with sigmoid units; the document's weights have prior mean 1."""
    network = MLP((_images(mode).x_train.shape[1], UNITS, CLASSES), activation="sigmoid")
    assigned = {"*.weight": priors.Normal(1.0, prior_mean), "*.bias": priors.Normal(1.0)}
    return BayesianNetwork(network, assigned, likelihoods.Categorical())


def _posterior(mode: str, prior_mean: float, count: int | None) -> Any:
    data = _images(mode)
    return model(mode, prior_mean).condition(data.x_train[:count], data.y_train[:count])


def trained(size: Size, seed: int) -> Samples:
    """One network by Adam on the cross-entropy alone, from a draw of N(0, 1)."""
    adam = EarlyStoppingEnsemble(
        size=1,
        optimizer=Adam(learning_rate=0.01, batch_size=100),
        validation=1 - NUM_TRAINED / NUM_ROWS,
        patience=ADAM_EPOCHS[size.mode],
        most_epochs=ADAM_EPOCHS[size.mode],
    )
    return adam.fit(_posterior(size.mode, 0.0, _count(size.mode, NUM_ROWS)), seed=seed)


def sampled(kernel: Any, prior_mean: float, size: Size, seed: int) -> Samples:
    """One full-batch chain from small weights: from a prior of mean 1, all units are saturated and stay so."""
    target = _posterior(size.mode, prior_mean, _count(size.mode, NUM_TRAINED))
    return ergonet.sample(
        target,
        kernel,
        num_chains=1,
        num_warmup=NUM_WARMUP[size.mode],
        num_draws=NUM_DRAWS[size.mode],
        init=0.1 * np.random.default_rng(seed).standard_normal((1, target.dim)).astype(np.float32),
        seed=seed,
        devices=RowShards(num_parts=NUM_PARTS[size.mode]),
        progress=False,
    )


def _count(mode: str, full: int) -> int | None:
    return None if mode == "smoke" else full // (QUICK_SHARE if mode == "quick" else 1)


def _weights(samples: Samples) -> dict[str, np.ndarray]:
    """Draws of the weights of both layers, `[draw, weight]`."""
    found = samples.parameters()
    return {
        layer: np.asarray(found[f"layers.{number}.weight"], np.float64)[0].reshape(samples.num_draws, -1)
        for number, layer in enumerate(LAYERS)
    }


def _scores(samples: Samples, mode: str, prior_mean: float) -> dict[str, float]:
    data, network = _images(mode), model(mode, prior_mean)
    probabilities = ergonet.predict(samples, data.x_test, model=network).mean
    mean = np.asarray(samples.positions, np.float64).mean(axis=(0, 1))
    outputs = np.asarray(network.outputs(jnp.asarray(mean, jnp.float32), jnp.asarray(data.x_test.T)))
    wrong = np.flatnonzero(probabilities.argmax(axis=1) != data.y_test)
    told = probabilities[np.arange(len(data.y_test)), data.y_test]
    return {
        ACCURACY.name: 100 * (1 - wrong.size / len(data.y_test)),
        OF_MEANS.name: 100 * float(np.mean(outputs.argmax(axis=0) == data.y_test)),
        PIXELS: float(data.x_test.shape[1]),
        NLL.name: -float(np.mean(np.log(np.maximum(told, np.finfo(np.float32).tiny)))),
        **{f"misclassified {place}": float(row) for place, row in enumerate(wrong[:NUM_SHOWN])},
        **{f"taken for {place}": float(probabilities[row].argmax()) for place, row in enumerate(wrong[:NUM_SHOWN])},
    }


def _shapes(samples: Samples) -> dict[str, float]:
    """Histograms of the mean weights, their traces, and what the pictures show as numbers."""
    found = dict[str, float]()
    for layer, draws in _weights(samples).items():
        means = draws.mean(axis=0)
        found[NEAR_WALL[layer].name] = 100 * float(np.mean(np.abs(draws) > 0.9))
        found[SPREAD[layer].name] = float(draws.std())
        limit = float(np.abs(means).max())
        found[f"limit of {layer}"] = limit
        counts, _ = np.histogram(means, NUM_BINS, (-limit, limit))
        found |= {f"{layer} in bin {number}": float(value) for number, value in enumerate(counts)}
        places = np.linspace(0, len(draws) - 1, NUM_POINTS).astype(int)
        traced = np.linspace(0, draws.shape[1] - 1, NUM_TRACED).astype(int)
        found |= {
            f"{layer} {weight} at {number}": float(value)
            for weight, column in enumerate(draws[places][:, traced].T)
            for number, value in enumerate(column)
        }
    return found


def _by_adam(size: Size, seed: int) -> Mapping[str, float]:
    samples = trained(size, seed)
    return {
        **_scores(samples, size.mode, 0.0),
        **_shapes(samples),
        SECONDS.name: samples.seconds["sampling"],
    }


def _by(kernel: Any, prior_mean: float) -> Any:
    def run(size: Size, seed: int) -> Mapping[str, float]:
        samples = sampled(kernel(), prior_mean, size, seed)
        return {
            **_scores(samples, size.mode, prior_mean),
            **_shapes(samples),
            ESS.name: float(np.median(ess_bulk(np.asarray(samples.positions)))),
            ACCEPTANCE.name: float(np.mean(samples.stats["acceptance_rate"])),
            SECONDS.name: samples.seconds["warmup"] + samples.seconds["sampling"],
        }

    return run


def _free() -> Any:
    return HMC(num_steps=STEPS)


def _boxed() -> Any:
    return ConstrainedHMC(-WALL, WALL, update=_free())


def cases(size: Size) -> list[Case]:
    """The document's three rows with its prior mean 1; in a quick run, with 0 as well."""
    rows = [Case(TRAINED, _by_adam, {OF_MEANS.name: 87.5, SECONDS.name: 5})]
    for mean in (1.0, 0.0) if size.mode == "quick" else (1.0,):
        free = {OF_MEANS.name: 88.9, SECONDS.name: 304} if mean else {}
        boxed = {OF_MEANS.name: 89.62, SECONDS.name: 329} if mean else {}
        rows += [Case(label(FREE, mean), _by(_free, mean), free), Case(label(BOXED, mean), _by(_boxed, mean), boxed)]
    return rows


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.4."""
    free, boxed = label(FREE, 1.0), label(BOXED, 1.0)
    accuracy = {one: table.mean(one, ACCURACY.name) for one in table.labels}
    told = ", ".join(f"{one}: {value:.2f} %" for one, value in accuracy.items())
    near = {layer: table.mean(boxed, quantity.name) for layer, quantity in NEAR_WALL.items()}
    effective = {one: table.mean(one, ESS.name) for one in (free, boxed)}
    return [
        Claim("HMC in the box is about as accurate as HMC", abs(accuracy[free] - accuracy[boxed]) < 1, told),
        Claim("both are at least as accurate as Adam", min(accuracy[free], accuracy[boxed]) >= accuracy[TRAINED], told),
        Claim(
            "in the box, more weights of the second layer than of the first are next to a wall",
            near["second"] > near["first"],
            f"|w| > 0.9: first layer {near['first']:.1f} %, second layer {near['second']:.1f} %; a uniform "
            "distribution has 10 %",
        ),
        Claim(
            "the weights are still exploring in the box, and not outside of it",
            effective[boxed] > 2 * effective[free],
            f"median effective draws of a weight: HMC {effective[free]:.0f}, in the box {effective[boxed]:.0f}",
        ),
    ]


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Histograms of mean weights, traces, and misclassified digits."""
    shown = [TRAINED, label(FREE, 1.0), label(BOXED, 1.0)]
    _draw_histograms(table, shown, folder / "kim-mnist.png")
    _draw_traces(table, shown[1:], folder / "kim-mnist-traces.png")
    _draw_misclassified(table, shown[1:], folder / "kim-mnist-misclassified.png")
    return {
        "kim-mnist.png": "Mean weights of both layers, counts",
        "kim-mnist-traces.png": f"Traces of {NUM_TRACED} weights of each layer",
        "kim-mnist-misclassified.png": "Misclassified test digits; above each: its class, and the predicted one",
    }


def _draw_histograms(table: Table, shown: Sequence[str], path: Path) -> None:
    figure, axes = new_figure(12.0, 2.8, columns=6)
    panels = [(row, layer) for row in shown for layer in LAYERS]
    for panel, (row, layer) in zip(axes, panels, strict=True):
        limit = table.mean(row, f"limit of {layer}")
        counts = [table.mean(row, f"{layer} in bin {number}") for number in range(NUM_BINS)]
        edges = np.linspace(-limit, limit, NUM_BINS + 1)
        panel.stairs(counts, edges, fill=True)
        panel.set_title(f"{row.split(', prior')[0]}\n{layer} layer", fontsize=9)
    save(figure, path)


def _draw_traces(table: Table, shown: Sequence[str], path: Path) -> None:
    figure, axes = new_figure(12.0, 2.8, columns=4)
    panels = [(row, layer) for row in shown for layer in LAYERS]
    for panel, (row, layer) in zip(axes, panels, strict=True):
        for weight in range(NUM_TRACED):
            values = [table.mean(row, f"{layer} {weight} at {number}") for number in range(NUM_POINTS)]
            panel.plot(np.linspace(0, 1, NUM_POINTS), values, lw=0.8)
        panel.set_title(f"{row.split(', prior')[0]}, {layer} layer", fontsize=9)
        panel.set_xlabel("share of the draws")
    save(figure, path)


def _draw_misclassified(table: Table, shown: Sequence[str], path: Path) -> None:
    is_small = set(table.of(TRAINED, PIXELS)) == {_images("smoke").x_test.shape[1]}
    data = _images("smoke" if is_small else "full")
    figure, axes = new_figure(12.0, 1.7, columns=len(shown) * 5)
    for panel in axes:
        panel.set_axis_off()
    for first, row in zip((0, 5), shown, strict=True):
        for place in range(5):
            found = table.of(row, f"misclassified {place}")
            if not found:
                continue
            image = data.x_test[int(found[0])]
            side = round(image.size**0.5)
            panel = axes[first + place]
            panel.imshow(image.reshape(side, side), cmap="gray_r")
            taken = int(table.of(row, f"taken for {place}")[0])
            panel.set_title(f"{data.y_test[int(found[0])]} as {taken}", fontsize=9)
        axes[first].text(0, -0.25, row.split(", prior")[0], transform=axes[first].transAxes, fontsize=9)
    save(figure, path)


EXPERIMENT = Experiment(
    name="kim-mnist",
    title="MNIST by Adam, by HMC, and by HMC in a box (Kim2018, section 4.3)",
    setting=f"""
784-20-10, sigmoid, softmax, full-batch on 55000 of the 60000 training images; errors on the 10000 test images. Weights
have prior mean 1 and variance 1 in the document, biases N(0, 1). Adam minimizes the
cross-entropy alone, learning rate 0.01, batches of 100, for {ADAM_EPOCHS["full"]} epochs of 550 steps, and keeps
the epoch with the lowest loss on the other 5000 rows. HMC takes {STEPS} leapfrog steps, which the document does not
state, and learns its step size in a warm-up of 1000 transitions; 2000 draws follow. The document predicts with the mean
weights. Pixels are divided by 255.
""",
    cases=cases,
    groups={
        "Predictions": (ACCURACY, OF_MEANS, NLL),
        "Weights": (*SPREAD.values(), *NEAR_WALL.values(), ESS),
        "The run": (ACCEPTANCE, SECONDS),
    },
    judge=judge,
    draw=draw,
    notes=f"""
A quick run takes a {QUICK_SHARE}th of the rows and fewer draws, and has rows with prior mean 0, which are ours.
*Weights with |w| > 0.9* are of all draws; histograms show means over the draws, as in the document. Chains start from
weights and biases N(0, 0.01); the document does not say where. From a draw of the prior with mean 1, even a tenth of
it, all units are saturated: HMC had not left there after 300 transitions, nor after Adam on the posterior. Gradients
are summed over parts of the rows, over all devices that JAX shows: `JAX_NUM_CPU_DEVICES=2` takes two cores, with the
same draws.
""",
    in_words=lambda size: f"{size.num_seeds} seeds of {NUM_DRAWS[size.mode]} draws after {NUM_WARMUP[size.mode]}",
)
