"""The grid of Tables 4.5 to 4.8: the runs at each point, and their quantities."""

import itertools
import math
import re
import time
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

import ergonet
from ergonet import NUTS, SGHMC
from ergonet._errors import DivergedError
from ergonet.draws.retention import Last
from ergonet.prediction.running import RunningPrediction
from experiments.lau2018 import digits
from experiments.lau2018.digits import PREDICTIVE, SECONDS, SINGLE, SINGLE_SD, TARGET_ACCEPTANCE, UNITS, Run
from experiments.lau2018.printed_sghmc import PrintedSGHMC
from experiments.record import Case, Quantity
from experiments.sizes import Size

LENGTHS, RATES, SCALES = (10, 50, 100, 200), (0.1, 0.01, 0.001, 0.0001), (0.1, 0.01, 0.001, 0.0001)
SMOKE_LENGTHS, SMOKE_RATES = LENGTHS[:1], RATES[2:]
MOMENTUM_DECAY, BATCH = 0.01, 100
CHAINS, FULL_SHARE, QUICK_SHARE, REFERENCE_SHARE = 2, 0.2, 0.1, 0.5
HOTTEST = 20.0  # kinetic temperature from which a run counts as diverged, as in `ergonet.sample`
REFERENCE = "full HMC (NUTS)"
BEST = (50, 0.1)
THESIS: dict[float, tuple[tuple[float | None, ...], ...]] = {  # by e; rows L, columns eta; None: NA
    0.1: (
        (None, None, 72.2, 84.4),
        (14.8, 96.6, 97.6, 93.4),
        (34.2, 20.4, 47.7, 89.2),
        (46.8, 37.2, 92.4, 87.0),
    ),
    0.01: (
        (None, None, 68.8, 84.2),
        (14.8, 93.8, 97.2, 91.4),
        (37.2, 20.0, 44.4, 89.2),
        (45.6, 35.6, 94.0, 85.6),
    ),
    0.001: (
        (None, None, 68.8, 89.8),
        (15.4, 95.4, 97.8, 95.0),
        (34.2, 25.0, 46.8, 91.0),
        (54.6, 46.2, 97.0, 88.0),
    ),
    0.0001: (
        (None, None, 71.6, 88.0),
        (15.4, 93.4, 96.8, 88.2),
        (32.0, 21.8, 45.0, 88.8),
        (53.0, 39.4, 95.4, 78.4),
    ),
}


@dataclass(frozen=True)
class Variant:
    """An algorithm, with the settings that are constant over the grid.

    Attributes:
        name: name in columns.
        batch_size: rows of a minibatch.
        scale: the thesis's e of the printed algorithm; None: SGHMC, which has none.
    """

    name: str
    batch_size: int
    scale: float | None = None

    def kernel(self, length: int, rate: float) -> Any:
        """The kernel at a point of the grid."""
        if self.scale is not None:
            return PrintedSGHMC(
                learning_rate=rate,
                velocity_scale=self.scale,
                length=length,
                momentum_decay=MOMENTUM_DECAY,
                batch_size=self.batch_size,
            )
        return SGHMC(
            learning_rate=rate,
            momentum_decay=MOMENTUM_DECAY,
            resample_every=length,
            steps_per_draw=length,
            batch_size=self.batch_size,
        )

    @property
    def single(self) -> Quantity:
        """Error of single draws."""
        return Quantity(f"error of single draws, %: {self.name}", 1)

    @property
    def sd(self) -> Quantity:
        """Standard deviation of the single-draw error between draws."""
        return Quantity(f"sd between draws, %: {self.name}", 1)

    @property
    def predictive(self) -> Quantity:
        """Error of the averaged probabilities."""
        return Quantity(f"error of the predictive, %: {self.name}", 1)

    @property
    def temperature(self) -> Quantity:
        """Mean kinetic temperature, or the one that a run was stopped at."""
        return Quantity(f"kinetic temperature: {self.name}", 2)

    @property
    def square(self) -> Quantity:
        """Mean square of the weights at the end."""
        return Quantity(f"mean square of the weights: {self.name}", 1)


ROWS = 500
MEANT = Variant(f"SGHMC, batch {BATCH}", BATCH)
MEANT_ALL = Variant("SGHMC, all rows", ROWS)
PRINTED = tuple(Variant(f"printed, e = {scale:g}", BATCH, scale) for scale in SCALES)
PRINTED_ALL = Variant(f"printed, all rows, e = {SCALES[0]:g}", ROWS, SCALES[0])
VARIANTS = (MEANT, MEANT_ALL, *PRINTED, PRINTED_ALL)
REFERENCE_RUN = Run(
    REFERENCE, NUTS(target_acceptance=TARGET_ACCEPTANCE), share=REFERENCE_SHARE, source={SINGLE.name: 23.4}
)


def label(length: int, rate: float) -> str:
    """The label of a row."""
    return f"L = {length}, eta = {rate:g}"


def grid(size: Size) -> list[tuple[int, float]]:
    """The points of the grid for a run of this size, as (L, eta)."""
    if size.mode == "smoke":
        return list(itertools.product(SMOKE_LENGTHS, SMOKE_RATES))
    return list(itertools.product(LENGTHS, RATES))


def printed_figures(length: int, rate: float) -> dict[str, float]:
    """The thesis's figures at a point, by quantity name."""
    found = {one.single.name: THESIS[one.scale][LENGTHS.index(length)][RATES.index(rate)] for one in PRINTED}  # type: ignore[index]
    return {name: value for name, value in found.items() if value is not None}


def cases(size: Size) -> list[Case]:
    """Full HMC, then a row for each point of the grid."""

    def reference(size: Size, seed: int) -> dict[str, float]:
        found = REFERENCE_RUN.measure(size, seed)
        return {one.name: found[one.name] for one in (SINGLE, SINGLE_SD, PREDICTIVE, SECONDS)}

    return [
        Case(REFERENCE, reference, REFERENCE_RUN.source),
        *(
            Case(label(length, rate), partial(measure, length, rate), printed_figures(length, rate))
            for length, rate in grid(size)
        ),
    ]


def measure(length: int, rate: float, size: Size, seed: int) -> dict[str, float]:
    """Measure every variant at a point of the grid."""
    began, found = time.perf_counter(), {}
    for variant in VARIANTS:
        found |= measure_variant(variant, length, rate, (size, seed))
    return found | {SECONDS.name: time.perf_counter() - began}


def measure_variant(variant: Variant, length: int, rate: float, job: tuple[Size, int]) -> dict[str, float]:
    """Errors, temperature and mean square of a variant; errors are NaN if the run diverges."""
    size, seed = job
    part = size.part(QUICK_SHARE if size.mode == "quick" else FULL_SHARE, CHAINS)
    target = digits.target((size.units(UNITS),), 1.0, is_double=False)
    callback = RunningPrediction(target.model, digits.data().x_test, digits.data().y_test)
    nothing = {one.name: math.nan for one in (variant.single, variant.sd, variant.predictive, variant.square)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # temperatures are in the table
            result = ergonet.sample(
                target,
                variant.kernel(length, rate),
                num_chains=part.num_chains,
                num_warmup=part.num_warmup,
                num_draws=part.num_draws,
                seed=seed,
                init=starts(target, part.num_chains, seed),
                retention=Last(1),
                callback=callback,
                progress=False,
            )
    except DivergedError as error:
        return nothing | {variant.temperature.name: stopped_at(str(error))}
    curve = {name: values[:, part.num_warmup :] for name, values in (result.curve or {}).items()}
    temperature = float(curve["kinetic_temperature"].mean()) if "kinetic_temperature" in curve else math.nan
    found = {} if variant.scale is not None else {variant.temperature.name: temperature}
    if temperature > HOTTEST:
        return nothing | found
    single = 100 * curve["error of the draw"]
    wrong = result.running_summary.mean.argmax(axis=1) != np.asarray(digits.data().y_test)
    return found | {
        variant.single.name: float(single.mean()),
        variant.sd.name: float(single.std()),
        variant.predictive.name: 100 * float(np.mean(wrong)),
        variant.square.name: float(np.mean(np.asarray(result.positions)[:, -1] ** 2)),
    }


def starts(target: Any, num_chains: int, seed: int) -> np.ndarray:
    """Draws from the prior, `[chain, dim]`, as every other table of the thesis starts from."""
    root = jax.random.key(seed)
    return np.stack([target.initial_position(jax.random.fold_in(root, chain)) for chain in range(num_chains)])


def stopped_at(message: str) -> float:
    """The temperature in the message about a divergent chain; infinite if a value was not finite."""
    match = re.search(r"kinetic temperature is (\d+)", message)
    return float(match[1]) if match else math.inf
