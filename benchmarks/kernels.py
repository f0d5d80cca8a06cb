"""Every kernel on three problems: `python -m benchmarks.kernels` writes docs/results/kernels.md and .json.

The same table goes into docs/guides/choosing-a-sampler.md, between two markers. Takes about ten minutes; `--quick`
only shows that everything works. Kernels are told nothing about a problem but their own settings, the same on all.
"""

import argparse
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import page
from benchmarks.problems import digits, ergonet_target
from benchmarks.rounds import ROOT, effective_draws
from benchmarks.timing import Spread

GUIDE = ROOT / "docs" / "guides" / "choosing-a-sampler.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
FUNNEL_DIM, GAUSSIAN_DIM = 10, 50
FULL = {"rounds": 3, "num_warmup": 500, "num_draws": 500}
SMOKE = {"rounds": 1, "num_warmup": 10, "num_draws": 10}
DENSE_LIMIT = 100  # dimensions up to which a dense metric is run here


@dataclass(frozen=True)
class Arena:
    """A problem for kernels.

    Attributes:
        title: of its table.
        about: what it is and what effective draws are counted in, a sentence.
        target: makes the density.
        quantities: from samples, `[chain, draw, quantity]`.
        truth: standard deviation of the first quantity, whose mean is 0; None: not known.
    """

    title: str
    about: str
    target: Callable[[], Any]
    quantities: Callable[[Any], np.ndarray]
    truth: float | None


def funnel() -> Any:
    """Neal's funnel: v ~ N(0, 3), the others N(0, e^{v / 2}), centred."""
    import jax.numpy as jnp

    from ergonet import Target

    def log_density(q: Any) -> Any:
        v, rest = q[0], q[1:]
        return -0.5 * (v / 3) ** 2 - 0.5 * jnp.sum(rest**2) * jnp.exp(-v) - 0.5 * rest.size * v

    return Target.from_logdensity(log_density, jnp.zeros(FUNNEL_DIM))


def scaled_gaussian() -> Any:
    """Independent coordinates with standard deviations from 0.01 to 100."""
    import jax.numpy as jnp

    from ergonet import Target

    scales = jnp.logspace(2, -2, GAUSSIAN_DIM)
    return Target.from_logdensity(lambda q: -0.5 * jnp.sum((q / scales) ** 2), jnp.zeros(GAUSSIAN_DIM))


ARENAS = {
    "digits": Arena(
        "P1: a network on the digits",
        "64-35-10 tanh, 2590 weights N(0, 1), 500 images. Effective draws: the least of 10 log probabilities at 20 "
        "reference rows.",
        lambda: ergonet_target(digits()),
        lambda samples: samples.monitor(),
        None,
    ),
    "funnel": Arena(
        "A funnel",
        f"{FUNNEL_DIM} dimensions, centred: v ~ N(0, 3), the others N(0, e^(v/2)). Effective draws of v. A small sd of "
        "v (truth 3) says that the neck was not entered, whatever the other columns say.",
        funnel,
        lambda samples: np.asarray(samples.positions)[:, :, :1],
        3.0,
    ),
    "gaussian": Arena(
        "A badly scaled Gaussian",
        f"{GAUSSIAN_DIM} independent coordinates, standard deviations 0.01 to 100. Effective draws: the least of all "
        "coordinates; sd is that of the widest (truth 100).",
        scaled_gaussian,
        lambda samples: np.asarray(samples.positions),
        100.0,
    ),
}


def kernels() -> dict[str, Callable[[], Any]]:
    """What is compared, by title."""
    from ergonet import HMC, MALA, NUTS, XHMC, RandomWalk, WindowedHMC

    return {
        "NUTS": NUTS,
        "NUTS, slice": lambda: NUTS(selection="slice"),
        "NUTS, original criterion": lambda: NUTS(criterion="original"),
        "NUTS, dense metric": lambda: NUTS(metric="dense"),
        "NUTS, identity metric": lambda: NUTS(metric="identity"),
        "NUTS, diagonal-gradient metric": lambda: NUTS(metric="diagonal-gradient"),
        "NUTS, target acceptance 0.95": lambda: NUTS(target_acceptance=0.95),
        "XHMC, delta 0.1": XHMC,
        "HMC, own length": HMC,
        "HMC, 32 steps": lambda: HMC(num_steps=32),
        "windowed HMC, 4 of 32": lambda: WindowedHMC(4, num_steps=32),
        "MALA": MALA,
        "random walk": RandomWalk,
    }


def run_once(arena: Arena, kernel: Any, settings: Mapping[str, int], seed: int) -> dict[str, float]:
    """One run and its figures; seconds are those of warm-up and sampling, gradients those of sampling."""
    import ergonet
    from ergonet._errors import SamplingWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)  # divergences are a column of the table
        samples = ergonet.sample(
            arena.target(),
            kernel,
            num_warmup=settings["num_warmup"],
            num_draws=settings["num_draws"],
            seed=seed,
            progress=False,
        )
    values = arena.quantities(samples)
    least, _ = effective_draws(values)
    least = least if np.isfinite(least) else 0.0
    seconds = samples.seconds["warmup"] + samples.seconds["sampling"]
    gradients = samples.gradients["sampling"]
    return {
        "effective": least,
        "per_gradient": 1000 * least / gradients if gradients else 0.0,
        "per_second": least / seconds,
        "gradients": gradients / values.shape[0] / values.shape[1],
        "acceptance": float(samples.stats["acceptance_rate"].mean()),
        "divergences": float(samples.stats["diverging"].sum()),
        "deviation": float(values[:, :, 0].std()),
    }


def measure(settings: Mapping[str, int]) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Every kernel on every problem, turn by turn."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name, arena in ARENAS.items():
        dim = arena.target().dim
        chosen = {title: make for title, make in kernels().items() if "dense" not in title or dim <= DENSE_LIMIT}
        found[name] = {title: [] for title in chosen}
        for seed in range(settings["rounds"]):
            for title, make in chosen.items():
                found[name][title].append(run_once(arena, make(), settings, seed))
                print(f"{name}, round {seed + 1}: {title}: {found[name][title][-1]['per_second']:.1f} / s", flush=True)
    return found


def tables(found: Mapping[str, Mapping[str, list[dict[str, float]]]], settings: Mapping[str, int]) -> str:
    """The measured part of both pages."""
    head = ["kernel", "effective draws", "per 1000 gradients", "per second", "gradients a draw"]
    head += ["acceptance", "diverged"]
    preface = (
        f"4 chains x ({settings['num_warmup']} + {settings['num_draws']}), float32, other seeds in every round "
        f"({settings['rounds']} here): medians, and the range of effective draws. Per gradient: of sampling. Per "
        f"second: warm-up and sampling, without compilation.\n"
    )
    parts = [preface]
    for name, arena in ARENAS.items():
        rows = []
        for title, runs in found[name].items():
            spread = {key: Spread.of([run[key] for run in runs]) for key in runs[0]}
            has_gradients = spread["gradients"].median > 0
            row = [title, spread["effective"].text("{:.0f}")]
            row += [f"{spread['per_gradient'].median:.2f}" if has_gradients else "no gradients"]
            row += [f"{spread['per_second'].median:.0f}", f"{spread['gradients'].median:.0f}"]
            row += [f"{spread['acceptance'].median:.2f}", f"{spread['divergences'].median:.0f}"]
            rows.append(row if arena.truth is None else [*row, f"{spread['deviation'].median:.2f}"])
        columns = head if arena.truth is None else [*head, "sd"]
        parts.append(f"### {arena.title}\n{arena.about}\n\n{page.table(columns, rows)}")
    return "\n".join(parts)


def write(folder: Path, record: dict[str, Any], guide: Path | None) -> None:
    """The page, its record, and the table of the guide."""
    text = tables(record["kernels"], record["about"]["settings"])
    page.write_measured(folder / "kernels", "Kernels", record, text)
    if guide:
        before, _, rest = guide.read_text(encoding="utf-8").partition(BEGIN)
        guide.write_text(before + BEGIN + text + END + rest.partition(END)[2], encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description="Every kernel on a network, a funnel and a badly scaled Gaussian.")
    parser.add_argument("--quick", action="store_true", help="a smoke run; its figures mean nothing")
    parser.add_argument("--rounds", type=int, help=f"of all kernels, default {FULL['rounds']}")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results", help="folder of kernels.md and .json")
    options = parser.parse_args(arguments)
    is_default = options.out == ROOT / "docs" / "results"
    if options.quick and is_default:
        parser.error("`--quick` must not replace the results in docs/: give another folder with `--out`.")
    settings = dict(SMOKE if options.quick else FULL)
    settings |= {} if options.rounds is None else {"rounds": options.rounds}
    words = ["python -m benchmarks.kernels", *(["--quick"] if options.quick else [])]
    words += [f"--rounds {options.rounds}"] if options.rounds is not None else []
    about = page.describe(" ".join(words), quick=options.quick, settings=settings)
    write(options.out, {"about": about, "kernels": measure(settings)}, GUIDE if is_default else None)
    print(f"Written: {options.out / 'kernels.md'}")


if __name__ == "__main__":
    main()
