"""Figures 7.2 and 7.4: seconds to predict, and to load."""

import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ergonet
from ergonet import Samples
from experiments.ask2022.surrogate import network, num_weights
from experiments.pictures import OURS, new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

NETWORKS = {"full": 1000, "quick": 1000, "smoke": 20}
INPUTS = {"full": (1, 16, 256, 4096), "quick": (1, 256, 4096), "smoke": (1, 16)}
DEPTHS = {"full": (1, 2, 3, 4, 5), "quick": (1, 3, 5), "smoke": (2,)}
UNITS = {"full": 50, "quick": 50, "smoke": 2}
REPEATS = {"full": 20, "quick": 5, "smoke": 3}
LOADING = Quantity("milliseconds to load all networks", 1)


def _inputs(count: int) -> Quantity:
    return Quantity(f"milliseconds for {count} inputs" if count > 1 else "milliseconds for 1 input", 2)


@cache
def _drawn(hidden: tuple[int, ...], count: int) -> Samples:
    """Networks from the prior, whose predictions take as long as those of any."""
    model = network(hidden)
    keys = jax.random.split(jax.random.key(0), count)
    positions = np.asarray(jax.jit(jax.vmap(model.sample_prior))(keys))[None]
    stats = {"lp": np.zeros((1, count), np.float32), "moved": np.ones((1, count), bool)}
    tuning = {"step_size": np.ones(1, np.float32)}
    return Samples(positions, stats, {}, {"total": 0.0}, {"sampling": 0}, tuning, {"kernel": "prior"})


def _fastest(call: Any, repeats: int) -> float:
    """Milliseconds of the fastest call, after one that compiles."""
    call()
    found: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        found.append(1e3 * (time.perf_counter() - began))
    return min(found)


def _measure(hidden: tuple[int, ...]) -> Any:
    def run(size: Size, seed: int) -> Mapping[str, float]:
        samples = _drawn(hidden, NETWORKS[size.mode])
        predictor = ergonet.Predictor(samples, network(hidden))
        rng, found = np.random.default_rng(seed), {}
        for count in INPUTS[size.mode]:
            x = rng.normal(size=(count, 5)).astype(np.float32)
            found[_inputs(count).name] = _fastest(lambda x=x: predictor.predict(x, levels=()), REPEATS[size.mode])
        with tempfile.TemporaryDirectory() as folder:
            samples.save(Path(folder) / "draws")
            found[LOADING.name] = _fastest(
                lambda: np.asarray(ergonet.load(Path(folder) / "draws").positions[...]), REPEATS[size.mode]
            )
        return found

    return run


def cases(size: Size) -> list[Case]:
    """The models of Table 7.1."""
    hidden = [(UNITS[size.mode],) * depth for depth in DEPTHS[size.mode]]
    return [
        Case(f"{num_weights(one)} weights", _measure(one), {_inputs(1).name: 1.0} if size.mode != "smoke" else {})
        for one in hidden
    ]


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of sections 7.3.1.2 and 7.3.1.3."""
    one = {label: table.mean(label, _inputs(1).name) for label in table.labels}
    loading = {label: table.mean(label, LOADING.name) for label in table.labels}
    told = ", ".join(f"{label}: {value:.1f} ms" for label, value in one.items())
    also = ", ".join(f"{label}: {value:.1f} ms" for label, value in loading.items())
    return [
        Claim("one prediction takes about a millisecond", all(value < 3 for value in one.values()), told),
        Claim(
            "loading takes about as long as a prediction",
            all(0.1 < loading[label] / one[label] < 10 for label in one),
            also,
        ),
    ]


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Milliseconds by inputs."""
    figure, (axes,) = new_figure(5.6, 3.4)
    for number, label in enumerate(table.labels):
        counts = [count for mode in ("full", "smoke") for count in INPUTS[mode] if table.of(label, _inputs(count).name)]
        counts = sorted(set(counts))
        shade = 0.3 + 0.7 * (number + 1) / len(table.labels)
        axes.loglog(counts, [table.mean(label, _inputs(one).name) for one in counts], "o-", color=OURS, alpha=shade,
                    label=label)  # fmt: skip
    axes.set_xlabel("inputs")
    axes.set_ylabel("milliseconds")
    axes.legend(frameon=False, fontsize=8)
    save(figure, folder / "ask-predict.png")
    return {"ask-predict.png": "Milliseconds of a prediction by the number of inputs"}


EXPERIMENT = Experiment(
    name="ask-predict",
    title="Time to predict and to load (Ask2022, Figures 7.2 and 7.4)",
    setting="""
Means and standard deviations of tanh networks with 5 inputs and layers of 50 units, by `ergonet.Predictor`, which
holds the draws, and loading of the draws. Networks are drawn from the prior, which changes no time. The fastest of
several calls is taken, once everything is compiled. The thesis measures on the processor of an M1 and prints curves:
about a millisecond for one input with 1000 networks.
""",
    cases=cases,
    groups={
        "Predictions": tuple(_inputs(one) for one in sorted({count for every in INPUTS.values() for count in every})),
        "Loading": (LOADING,),
    },
    judge=judge,
    draw=draw,
    in_words=lambda size: f"{size.num_seeds} seeds of the inputs, {NETWORKS[size.mode]} networks",
)
