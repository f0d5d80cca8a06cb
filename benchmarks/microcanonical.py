"""The bias of `MCLMC` by its step size: `python -m benchmarks.microcanonical` writes docs/results/microcanonical.md.

`MCLMC` never rejects, so its draws are biased by the step size, which follows from the energy variance that is aimed
at. The bias is measured against closed forms on a Gaussian and a funnel, and against long runs of the exact `MAMS` on
P1. A run takes about ten minutes; `--quick` only shows that everything works.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks import options, page
from benchmarks.kernels import ARENAS, GAUSSIAN_SCALES, Arena, sampled
from benchmarks.rounds import effective_draws
from ergonet._arviz import array_stats

ENERGY_VARIANCES = (5e-3, 5e-4, 5e-5)
FULL: dict[str, Any] = {"num_warmup": 1000, "num_draws": 5000, "ess": 40_000, "most_runs": 20}
SMOKE: dict[str, Any] = {"num_warmup": 10, "num_draws": 20, "ess": 1, "most_runs": 1}
TRUTH = {"gaussian": GAUSSIAN_SCALES, "funnel": np.array([ARENAS["funnel"].truth])}  # sds; means are 0
EXACT, BIASED = "MAMS", "MCLMC"
KINDS = ("mean", "sd")


@dataclass(frozen=True)
class Moments:
    """Means and standard deviations of some quantities with their Monte Carlo standard errors, `[quantity]`."""

    mean: np.ndarray
    mean_error: np.ndarray
    sd: np.ndarray
    sd_error: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> "Moments":
        """Those of draws `[chain, draw, quantity]`."""
        columns, mcse = np.moveaxis(values, 2, 0), array_stats().mcse
        errors = {kind: np.asarray(mcse(columns, chain_axis=1, draw_axis=2, method=kind)) for kind in KINDS}
        return cls(values.mean(axis=(0, 1)), errors["mean"], values.std(axis=(0, 1)), errors["sd"])

    @classmethod
    def known(cls, sd: np.ndarray) -> "Moments":
        """Those of a closed form with mean 0."""
        zero = np.zeros_like(sd)
        return cls(zero, zero, sd, zero)


@dataclass(frozen=True)
class Bias:
    """Differences from a reference in its standard deviations, of the quantity where they are largest.

    Attributes:
        mean: of the means.
        sd: of the standard deviations.
        mean_error: Monte Carlo standard error of `mean`, of both sides together.
        sd_error: that of `sd`.
        average: of the standard deviations, signed, averaged over all quantities.
        beyond_error: the larger of both differences after their error is subtracted, over all quantities.
    """

    mean: float
    sd: float
    mean_error: float
    sd_error: float
    average: float
    beyond_error: float

    @classmethod
    def of(cls, found: Moments, reference: Moments) -> "Bias":
        """That of some draws."""
        largest: dict[str, tuple[float, float]] = {}
        beyond = 0.0
        for kind in KINDS:
            difference = np.abs(getattr(found, kind) - getattr(reference, kind)) / reference.sd
            error = np.hypot(getattr(found, f"{kind}_error"), getattr(reference, f"{kind}_error")) / reference.sd
            place = int(difference.argmax())
            largest[kind] = float(difference[place]), float(error[place])
            beyond = max(beyond, float(np.max(difference - error)))
        (mean, mean_error), (sd, sd_error) = largest["mean"], largest["sd"]
        average = float(np.mean(found.sd / reference.sd - 1))
        return cls(mean, sd, mean_error, sd_error, average, max(beyond, 0.0))


@dataclass(frozen=True)
class Row:
    """A kernel on a problem.

    Attributes:
        kernel: its title.
        effective: smallest ESS of a quantity, of all runs together.
        per_gradient: that ESS per 1000 gradients of sampling.
        step_size: mean over chains.
        energy_variance: of a step and dimension, mean over chains; NaN for an exact kernel.
        bias: None for the reference.
    """

    kernel: str
    effective: float
    per_gradient: float
    step_size: float
    energy_variance: float
    bias: Bias | None


def long_run(
    arena: Arena, title: str, kernel: Any, settings: Mapping[str, Any], reference: Moments | None
) -> tuple[Row, Moments]:
    """Run a kernel until its smallest ESS is large enough, or `most_runs` have been made."""
    values: list[np.ndarray] = []
    gradients, steps, errors, effective = 0, [], [], 0.0
    target = arena.target()
    for seed in range(settings["most_runs"]):
        samples = sampled(target, kernel, settings, seed)
        values.append(np.asarray(arena.quantities(samples), np.float64))
        gradients += samples.gradients["sampling"]
        steps.append(float(np.mean(samples.tuning["step_size"])))
        errors.append(float(np.mean(samples.stats["energy_variance"])) if title != EXACT else np.nan)
        effective, _ = effective_draws(np.concatenate(values))
        if effective >= settings["ess"]:
            break
    moments = Moments.of(np.concatenate(values))
    bias = None if reference is None else Bias.of(moments, reference)
    row = Row(title, effective, 1000 * effective / gradients, float(np.mean(steps)), float(np.mean(errors)), bias)
    print(f"{arena.title}: {row}", flush=True)
    return row, moments


def measure(settings: Mapping[str, Any], *, quick: bool) -> dict[str, list[Row]]:
    """Rows by problem, the exact kernel first."""
    from ergonet import MAMS, MCLMC

    found: dict[str, list[Row]] = {}
    for name in ("gaussian",) if quick else ("gaussian", "funnel", "digits"):
        arena = ARENAS[name]
        truth = Moments.known(TRUTH[name]) if name in TRUTH else None
        row, exact = long_run(arena, EXACT, MAMS(), settings, truth)
        found[name] = [row]
        for variance in ENERGY_VARIANCES:
            kernel = MCLMC(energy_variance=variance)
            found[name].append(long_run(arena, f"{BIASED}, {variance:g}", kernel, settings, truth or exact)[0])
    return found


PREFACE = """Every row is made of runs of 4 chains x ({num_warmup} + {num_draws}) with seeds of their own,
until the smallest ESS of a quantity is {ess} or {most_runs} runs are over. *Mean* and *sd*: the largest difference of a
quantity's mean or standard deviation from its reference, in standard deviations of the reference, with its Monte Carlo
standard error in parentheses. *Average*: the differences of all standard deviations, with their signs. *Beyond error*:
the largest of all differences after one standard error has been subtracted; of many quantities some exceed their
errors by chance. The number behind a kernel is the energy variance that it aims at; `MCLMC` aims at 5e-4 unless told
otherwise.

On a Gaussian of D dimensions that the metric has standardized, the standard deviations should be too large by the
factor 1 / sqrt(1 - e^2 / (12 (D - 1))) for steps of size e: *{theory}*.

"""


def _expected(rows: Sequence[Row]) -> str:
    """What theory says about the standard deviations of the Gaussian, at the step sizes of the rows."""
    steps = {row.kernel: row.step_size for row in rows if row.bias is not None and row.kernel != EXACT}
    found = {kernel: 1 / np.sqrt(1 - step**2 / (12 * (GAUSSIAN_SCALES.size - 1))) - 1 for kernel, step in steps.items()}
    return "; ".join(f"{kernel}: {value:+.4f}" for kernel, value in found.items())


def tables(found: Mapping[str, Sequence[Row]], settings: Mapping[str, Any]) -> str:
    """The tables in Markdown."""
    head = ("kernel", "ESS", "ESS per 1000 gradients", "step size", "energy variance")
    head += ("mean", "sd", "sd, average", "beyond error")
    parts = [PREFACE.format(theory=_expected(found["gaussian"]), **settings)]
    for name, rows in found.items():
        lines = []
        for row in rows:
            bias = row.bias
            shown = (
                ("reference", "reference", "", "")
                if bias is None
                else (
                    f"{bias.mean:.4f} ({bias.mean_error:.4f})",
                    f"{bias.sd:.4f} ({bias.sd_error:.4f})",
                    f"{bias.average:+.4f}",
                    f"{100 * bias.beyond_error:.1f} %",
                )
            )
            variance = "exact" if np.isnan(row.energy_variance) else f"{row.energy_variance:.1e}"
            lines.append(
                (
                    row.kernel,
                    f"{row.effective:.0f}",
                    f"{row.per_gradient:.2f}",
                    f"{row.step_size:.3g}",
                    variance,
                    *shown,
                )
            )
        reference = "the closed form" if name in TRUTH else "long runs of MAMS"
        arena = ARENAS[name]
        about = textwrap.fill(f"{arena.about} Differences are from {reference}.", 118)
        parts.append(f"### {arena.title}\n{about}\n\n{page.table(head, lines)}\n")
    return "".join(parts)


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and write the results."""
    parser = options.parser("The bias of MCLMC by its step size.", "microcanonical.md and .json")
    chosen = options.parsed(parser, arguments)
    settings = SMOKE if chosen.quick else FULL
    command = "python -m benchmarks.microcanonical" + (" --quick" if chosen.quick else "")
    about = page.describe(command, quick=chosen.quick, settings=settings)
    found = measure(settings, quick=chosen.quick)
    record = {"about": about, "rows": {name: [asdict(row) for row in rows] for name, rows in found.items()}}
    page.write_measured(chosen.out / "microcanonical", "Bias of MCLMC", record, tables(found, settings))
    print(f"Written: {chosen.out / 'microcanonical.md'}")


if __name__ == "__main__":
    main()
