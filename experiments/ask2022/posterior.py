"""Figure 7.5: projections of the posterior onto pairs of weights."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import maximum_filter
from scipy.stats import gaussian_kde

from ergonet.diagnostics.chains import ess_bulk, rhat
from experiments.ask2022.surrogate import SETTING, Plan, fixed, sampled
from experiments.pictures import new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

LENGTH = {"full": 256, "quick": 64, "smoke": 4}
PAIRS, GRID = 20, 24
LEAST = 0.05  # height of a mode, as a share of the highest one
SEVERAL = Quantity("pairs of weights with several modes, of one chain, %", 0)
OF_ALL = Quantity("pairs of weights with several modes, of all chains, %", 0)
BY_CHANCE = Quantity("the same of as many effective normal draws, %", 0)
WEIGHTS = Quantity("median R-hat of the weights", 2)
PREDICTIONS = Quantity("median R-hat of the predictions", 2)
ROW = "5-20-20-1"


def plan(mode: str) -> Plan:
    """A run of 5-20-20-1; the thesis shows model 3."""
    chosen = fixed(LENGTH[mode])
    if mode == "full":
        return Plan(2_000, (20, 20), chosen, epochs=1000, num_warmup=500, num_draws=500, thin=2)
    if mode == "quick":
        return Plan(600, (20, 20), chosen, epochs=100, num_warmup=100, num_draws=200)
    return Plan(100, (2, 2), chosen, epochs=4, num_warmup=10, num_draws=20)


def density(points: Any) -> np.ndarray:
    """The kernel density of points `[draw, 2]` on a grid around them."""
    points = np.asarray(points, np.float64)
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.1 * (high - low) + 1e-9
    lines = [np.linspace(a, b, GRID) for a, b in zip(low - margin, high + margin, strict=True)]
    grid = np.stack([one.ravel() for one in np.meshgrid(*lines)])
    jitter = 1e-6 * (high - low + 1) * np.random.default_rng(0).normal(size=points.shape)  # chains that stand still
    return gaussian_kde((points + jitter).T)(grid).reshape(GRID, GRID)


def num_modes(values: np.ndarray) -> int:
    """Local maxima of a density on a grid that are at least a twentieth as high as the highest."""
    is_peak = (values == maximum_filter(values, size=3, mode="nearest")) & (values > LEAST * values.max())
    return int(is_peak.sum())


def _normal(points: np.ndarray, seed: int) -> np.ndarray:
    """As many normal draws as `[chain, draw, 2]` are worth, with their mean and covariance, `[draw, 2]`."""
    flat = points.reshape(-1, 2)
    worth = np.nan_to_num(ess_bulk(points), nan=5.0).min()
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal(flat.mean(axis=0), np.cov(flat.T), size=max(5, int(worth)))


def _measure(size: Size, seed: int) -> Mapping[str, float]:
    chosen = plan(size.mode)
    samples = sampled(chosen, seed, num_chains=2)
    positions = np.asarray(samples.positions, np.float64)
    first = 5 * chosen.hidden[0]
    rng = np.random.default_rng(0)
    pairs = [rng.choice(first, 2, replace=False) for _ in range(PAIRS)]
    alone = [num_modes(density(positions[0][:, pair])) for pair in pairs]
    together = [num_modes(density(positions[:, :, pair].reshape(-1, 2))) for pair in pairs]
    normal = [num_modes(density(_normal(positions[:, :, pair], number))) for number, pair in enumerate(pairs)]
    shown = density(positions[:, :, pairs[0]].reshape(-1, 2)), density(positions[:, :, pairs[1]].reshape(-1, 2))
    return {
        SEVERAL.name: 100 * float(np.mean(np.array(alone) > 1)),
        OF_ALL.name: 100 * float(np.mean(np.array(together) > 1)),
        BY_CHANCE.name: 100 * float(np.mean(np.array(normal) > 1)),
        WEIGHTS.name: float(np.nanmedian(rhat(positions[:, :, :first]))),
        PREDICTIONS.name: float(np.nanmedian(rhat(samples.monitor()))),
        **{
            f"density {panel} at {number}": float(value)
            for panel, values in enumerate(shown)
            for number, value in enumerate(values.ravel())
        },
    }


def cases(_: Size) -> list[Case]:
    """One network."""
    return [Case(ROW, _measure)]


def judge(table: Table) -> Sequence[Claim]:
    """The conclusion of section 7.3.2."""
    share, of_all, chance = (table.mean(ROW, one.name) for one in (SEVERAL, OF_ALL, BY_CHANCE))
    r_weights, r_predictions = table.mean(ROW, WEIGHTS.name), table.mean(ROW, PREDICTIONS.name)
    return [
        Claim(
            "projections of the posterior onto pairs of weights have several modes",
            of_all > chance + 25,
            f"{share:.0f} % of the pairs in one chain and {of_all:.0f} % in two chains together, where {chance:.0f} % "
            f"of normal densities seem to have, from as few effective draws; median R-hat of the weights "
            f"{r_weights:.2f}, of the predictions {r_predictions:.2f}",
        )
    ]


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Two projections."""
    figure, axes = new_figure(6.8, 3.2, columns=2)
    for number, panel in enumerate(axes):
        values = [table.values[ROW][f"density {number} at {point}"][0] for point in range(GRID**2)]
        panel.contourf(np.array(values).reshape(GRID, GRID), levels=12, cmap="Blues")
        panel.set_xticks([])
        panel.set_yticks([])
        panel.set_xlabel("a weight of the first layer")
        panel.set_ylabel("another one")
    save(figure, folder / "ask-posterior.png")
    return {"ask-posterior.png": "Kernel densities of two pairs of weights of the first layer, two chains, first seed"}


EXPERIMENT = Experiment(
    name="ask-posterior",
    title="Projections of the posterior onto pairs of weights (Ask2022, Figure 7.5)",
    setting=SETTING
    + """A 5-20-20-1 network by HMC with a fixed length, two chains. Twenty random pairs of weights of the first layer
are judged by a kernel density with the usual bandwidth; a mode is a local maximum of at least a twentieth of the
highest one. Few draws have such maxima by chance: pairs with several modes count if they are more than among normal
densities of as many effective draws by a quarter of all pairs.""",
    cases=cases,
    groups={"Modes": (SEVERAL, OF_ALL, BY_CHANCE), "Agreement of the chains": (WEIGHTS, PREDICTIONS)},
    judge=judge,
    draw=draw,
    in_words=lambda size: f"{size.num_seeds} seeds of two chains; L = {LENGTH[size.mode]}; {plan(size.mode).in_words}",
)
