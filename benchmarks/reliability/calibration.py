"""Simulation-based calibration and Geweke's joint test, for every prior with every kernel that takes it.

The engine is that of `ergonet check` (`ergonet/checking/replicas.py`).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks.reliability.section import Bench, Goal, Section
from ergonet import (
    HMC,
    MALA,
    MAMS,
    MLP,
    NUTS,
    XHMC,
    BayesianNetwork,
    DynamicalA,
    DynamicalB,
    GibbsHMC,
    RandomWalk,
    WindowedHMC,
    likelihoods,
    priors,
)
from ergonet._errors import CapabilityError
from ergonet.checking import check, p_values
from tests.statistical import geweke

ABOUT = """A 1-2-1 network with four rows and learned noise; rows named after a likelihood have that one. Each cell has
two p-values: of calibration (ranks of a position from the prior within a chain through it, {chains} data sets x {steps}
transitions) and of Geweke's joint test ({chains} chains x {steps} transitions, with new data before each). Each is the
smallest p-value over all quantities (weights, residuals, hyperparameters, the log density, sums of squares) times their
number. A cell with a p-value below {suspicious} is measured once more, with another seed and {more} times as many
replicas, which would make a fault plain: the figures in brackets, which are the ones that are judged. Step sizes are
those with an acceptance of about 0.7. '-': the kernel does not take the prior or the likelihood."""
FALSE_ALARM = 0.01
SUSPICIOUS, MORE = 0.01, 4


def _plain(prior: priors.AbstractPrior) -> Callable[[str], BayesianNetwork]:
    return lambda _: BayesianNetwork(geweke.NETWORK, prior, likelihoods.Gaussian(geweke.NOISE))


LIKELIHOODS: dict[str, likelihoods.AbstractLikelihood] = {
    "Poisson": likelihoods.Poisson(),
    "negative binomial": likelihoods.NegativeBinomial(),
    "zero-inflated Poisson": likelihoods.ZeroInflatedPoisson(),
    "zero-inflated negative binomial": likelihoods.ZeroInflatedNegativeBinomial(),
    "t errors": likelihoods.StudentT(),
    # With learned parameters, 1 of 200 draws of the log-normal overflows, and of the Beta 1 of 250 is rounded to 1.
    "log-normal": likelihoods.LogNormal(scale=0.5),
    "beta": likelihoods.Beta(concentration=10.0),
    "ordinal": likelihoods.Ordinal(3),
}


def _with_likelihood(likelihood: likelihoods.AbstractLikelihood) -> Callable[[str], BayesianNetwork]:
    network = MLP((1, 2, likelihood.num_outputs(1)))
    return lambda _: BayesianNetwork(network, priors.Normal(0.7), likelihood)


MODELS: dict[str, Callable[[str], BayesianNetwork]] = {
    **{name: _with_likelihood(one) for name, one in LIKELIHOODS.items()},
    "normal": _plain(priors.Normal(1.0)),
    "fan-in normal": _plain(priors.FanInNormal(1.5)),
    "Laplace": _plain(priors.Laplace(0.7)),
    "Student-t": _plain(priors.StudentT(4.0, 0.7)),
    **geweke.MODELS,
}
PLAIN = ("normal", "fan-in normal", "Laplace", "Student-t", "box")
ONE_WAY = (*PLAIN, *LIKELIHOODS)
ROWS = [
    *((name, "non-centered") for name in ONE_WAY),
    *((name, way) for name in MODELS if name not in ONE_WAY for way in ("centered", "non-centered")),
]
_FIXED: dict[str, Any] = {"metric": "identity"}  # step sizes are searched for
KERNELS: dict[str, Any] = {
    "NUTS": NUTS(max_doublings=4, **_FIXED),
    "HMC": HMC(num_steps=5, **_FIXED),
    "MAMS": MAMS(num_steps=5, **_FIXED),
    "windowed": WindowedHMC(2, num_steps=5, **_FIXED),
    "XHMC": XHMC(max_doublings=4, **_FIXED),
    "MALA": MALA(**_FIXED),
    "random walk": RandomWalk(**_FIXED),
    "Gibbs, HMC": GibbsHMC(HMC(num_steps=5, **_FIXED)),
    "A": DynamicalA(5),
    "B": DynamicalB(5),
}


@dataclass(frozen=True)
class Cell:
    """A prior with a kernel: p-values of both tests, the step size, and the mean acceptance there.

    Attributes:
        calibration: p-value of the ranks.
        joint: p-value of Geweke's test.
        step_size: of the kernel.
        acceptance: its mean.
        again: the cell measured again, if a p-value was suspicious.
    """

    calibration: float
    joint: float
    step_size: float
    acceptance: float
    again: "Cell | None" = None

    @property
    def judged(self) -> tuple[float, float]:
        """The p-values that count."""
        return (self.calibration, self.joint) if self.again is None else self.again.judged


def measure(bench: Bench) -> Section:
    """Both tests of every cell."""
    chains, steps = bench.size(1024, 256), bench.size(63, 31)
    rows = ROWS if not bench.is_quick else [("normal", "non-centered"), ("leaf", "centered")]
    kernels = KERNELS if not bench.is_quick else {name: KERNELS[name] for name in ("NUTS", "Gibbs, HMC")}
    cells = [(row, kernel) for row in rows for kernel in kernels]

    def one(cell: tuple[tuple[str, str], str]) -> Cell | None:
        (name, way), kernel = cell
        seed = cells.index(cell)  # of its own: with one seed for all, cells would share their chance
        found = both_tests(name, way, KERNELS[kernel], chains=chains, steps=steps, seed=seed)
        if found is not None and min(found.judged) < SUSPICIOUS:
            seed += len(cells)
            again = both_tests(name, way, KERNELS[kernel], chains=MORE * chains, steps=steps, seed=seed)
            found = replace(found, again=again)
        bench.say(f"    {name}, {way}, {kernel}: {found}")
        return found

    with ThreadPoolExecutor(bench.workers) as pool:
        found = dict(zip(cells, pool.map(one, cells), strict=True))
    measured = [cell for cell in found.values() if cell is not None]
    values = [p for cell in measured for p in cell.judged]
    smallest, bound = min(values), FALSE_ALARM / len(values)
    low = sum(p < 0.05 for p in values)
    goals = [
        Goal(f"smallest of {len(values)} p-values", f"{smallest:.2g}", f"> {bound:.2g}", smallest > bound),
        Goal("p-values below 0.05", str(low), "0.05 of all, or fewer", low <= _most_low(len(values))),
    ]
    table = [
        [f"{name}, {way}" if name not in ONE_WAY else name, *(_shown(found[(name, way), kernel]) for kernel in kernels)]
        for name, way in rows
    ]
    accepted = [cell.acceptance for cell in measured]
    notes = [f"Mean acceptances were {min(accepted):.2f} to {max(accepted):.2f}."]
    about = ABOUT.format(chains=chains, steps=steps, suspicious=SUSPICIOUS, more=MORE)
    return Section("Calibration", about, goals, ("prior", *kernels), table, notes)


def _most_low(count: int) -> int:
    """The number below 0.05 that one run in a hundred exceeds, if all p-values are uniform and independent."""
    return int(np.ceil(0.05 * count + norm.isf(FALSE_ALARM) * np.sqrt(0.05 * 0.95 * count)))


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    again = "" if cell.again is None else f" [{_shown(cell.again)}]"
    return f"{cell.calibration:.2g} / {cell.joint:.2g}{again}"


def both_tests(name: str, way: str, kernel: Any, *, chains: int, steps: int, seed: int = 0) -> Cell | None:
    """Both tests of a kernel with a prior; None if the kernel does not take it."""
    model = MODELS[name](way)
    posterior = model.condition(geweke.INPUTS, _possible(model.likelihood))
    try:
        found = check(posterior, kernel, num_replicas=chains, num_steps=steps, seed=seed)
    except CapabilityError:
        return None
    return Cell(
        calibration=p_values.smallest(found.calibration),
        joint=p_values.smallest(found.joint),
        step_size=found.about["step_size"],
        acceptance=found.about["acceptance"],
    )


def _possible(likelihood: likelihoods.AbstractLikelihood) -> np.ndarray:
    """Targets of the right shape, which are replaced before they matter."""
    needs_size = isinstance(likelihood, likelihoods.LogNormal | likelihoods.Beta)
    value = np.full((len(geweke.INPUTS), 1), 0.5 if needs_size else 0.0, np.float32)
    return value.astype(int) if likelihood.is_classification else value
