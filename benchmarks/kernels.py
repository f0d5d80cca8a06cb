"""Every kernel on six problems: `python -m benchmarks.kernels` writes docs/results/kernels.md and .json.

The same table goes into docs/guides/choosing-a-sampler.md, between two markers. A run takes about half an hour;
`--quick` only shows that everything works. Every kernel has the same settings on all problems.
"""

import textwrap
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import options, page
from benchmarks.problems import digits, ergonet_target, regression
from benchmarks.rounds import ROOT, effective_draws
from benchmarks.timing import Spread
from benchmarks.uci.tables import load

GUIDE = ROOT / "docs" / "guides" / "choosing-a-sampler.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
FUNNEL_DIM = 10
GAUSSIAN_SCALES = np.logspace(2, -2, 50)
HIERARCHICAL_ROWS, HIERARCHICAL_UNITS, UCI_UNITS = 300, 16, 20
FULL = {"rounds": 3, "num_warmup": 500, "num_draws": 500}
SMOKE = {"rounds": 1, "num_warmup": 10, "num_draws": 10}
SMOKE_ARENA = "funnel"  # where a smoke run has every kernel; elsewhere it has the first one, which saves compilations
DENSE_LIMIT = 100  # dimensions up to which a dense metric is run here


@dataclass(frozen=True)
class Arena:
    """A problem on which kernels are compared.

    Attributes:
        title: title of its table.
        about: a description of the problem and of the quantities whose ESS is reported.
        deviation: what the column of the standard deviation shows; empty if there is none.
        target: makes the target.
        quantities: extracts these quantities from samples, `[chain, draw, quantity]`.
        truth: standard deviation of the first quantity, whose mean is 0; None: unknown.
    """

    title: str
    about: str
    target: Callable[[], Any]
    quantities: Callable[[Any], np.ndarray]
    truth: float | None
    deviation: str = ""


def funnel() -> Any:
    """Neal's funnel (Neal2003), centered: v has standard deviation 3, the other coordinates e^(v / 2)."""
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

    scales = jnp.asarray(GAUSSIAN_SCALES)
    return Target.from_logdensity(lambda q: -0.5 * jnp.sum((q / scales) ** 2), jnp.zeros(scales.size))


def hierarchical() -> Any:
    """Rows of P2 under a network whose layers have log precisions, centered: they and the weights form funnels."""
    from ergonet import MLP, BayesianNetwork, likelihoods, priors

    problem, rows = regression(), slice(HIERARCHICAL_ROWS)
    network = MLP((problem.sizes[0], HIERARCHICAL_UNITS, 1), activation="tanh")
    model = BayesianNetwork(network, priors.NormalGamma(parametrization="centered"), likelihoods.Gaussian())
    return model.condition(problem.x[rows], problem.y[rows], reference=problem.x_test)


def scales_and_predictions(samples: Any) -> np.ndarray:
    """Log precisions of the noise and of the weights of every layer, and the predictions."""
    found = [values for name, values in samples.parameters().items() if name.endswith(".log_precision")]
    return np.concatenate([np.stack(found, axis=-1), samples.monitor()], axis=-1)


def uci(name: str) -> Any:
    """The posterior of a network of one layer on split 0 of a table of classes."""
    from ergonet import MLP, BayesianNetwork, likelihoods, priors

    split = load(name, 0, data=None)
    center, spread = split.x_train.mean(axis=0), split.x_train.std(axis=0)
    x, reference = ((rows - center) / spread for rows in (split.x_train, split.x_test[:20]))
    network = MLP((x.shape[1], UCI_UNITS, int(split.y_train.max()) + 1), activation="tanh")
    model = BayesianNetwork(network, priors.Normal(1.0), likelihoods.Categorical())
    return model.condition(x.astype(np.float32), split.y_train, reference=reference.astype(np.float32))


ARENAS = {
    "digits": Arena(
        "P1: a network on the digits",
        "64-35-10 tanh, 2590 weights with prior N(0, 1), 500 images. ESS: smallest over 10 log probabilities at 20 "
        "reference rows.",
        lambda: ergonet_target(digits()),
        lambda samples: samples.monitor(),
        None,
    ),
    "funnel": Arena(
        "A funnel",
        f"{FUNNEL_DIM} dimensions, centered: v has sd 3, the others have sd e^(v/2). ESS: that of v.",
        funnel,
        lambda samples: np.asarray(samples.positions)[:, :, :1],
        3.0,
        "The sd is that of v. One well below the true 3 means that chains did not enter the neck, whatever the other "
        "columns say.",
    ),
    "gaussian": Arena(
        "A badly scaled Gaussian",
        f"{GAUSSIAN_SCALES.size} independent coordinates with sds from 0.01 to 100. ESS: smallest over all of them.",
        scaled_gaussian,
        lambda samples: np.asarray(samples.positions),
        float(GAUSSIAN_SCALES[0]),
        "The sd is that of the widest coordinate (truth 100).",
    ),
    "hierarchical": Arena(
        "A stiff hierarchical network",
        f"5-{HIERARCHICAL_UNITS}-1 tanh on {HIERARCHICAL_ROWS} rows of P2, a Gamma prior on the precision of each "
        "array of weights, centered, and learned noise. ESS: smallest over the log precisions and 20 predictions.",
        hierarchical,
        scales_and_predictions,
        None,
    ),
    "breast-cancer": Arena(
        "UCI breast cancer",
        f"455 rows of 30 inputs, 2 classes; 30-{UCI_UNITS}-2 tanh, N(0, 1). ESS: smallest over the log probabilities "
        "of 20 test rows.",
        lambda: uci("breast-cancer"),
        lambda samples: samples.monitor(),
        None,
    ),
    "wine": Arena(
        "UCI wine",
        f"142 rows of 13 inputs, 3 classes; 13-{UCI_UNITS}-3 tanh, N(0, 1). ESS: as for breast cancer.",
        lambda: uci("wine"),
        lambda samples: samples.monitor(),
        None,
    ),
}


def kernels() -> dict[str, Callable[[], Any]]:
    """The compared kernels, by title."""
    from ergonet import HMC, MALA, MAMS, MCLMC, NUTS, XHMC, DelayedRejectionHMC, RandomWalk, WindowedHMC

    return {
        "NUTS": NUTS,
        "NUTS, slice": lambda: NUTS(selection="slice"),
        "NUTS, original criterion": lambda: NUTS(criterion="original"),
        "NUTS, dense metric": lambda: NUTS(metric="dense"),
        "NUTS, identity metric": lambda: NUTS(metric="identity"),
        "NUTS, diagonal-gradient metric": lambda: NUTS(metric="diagonal-gradient"),
        "NUTS, target acceptance 0.95": lambda: NUTS(target_acceptance=0.95),
        "XHMC, delta 0.1": XHMC,
        "HMC, learned length": HMC,
        "HMC, 32 steps": lambda: HMC(num_steps=32),
        "windowed HMC, 4 of 32": lambda: WindowedHMC(4, num_steps=32),
        "delayed-rejection HMC, learned length": DelayedRejectionHMC,
        "MAMS, learned length": MAMS,
        "MAMS, learned length, memory 1.25": lambda: MAMS(memory=1.25),
        "MCLMC (biased)": MCLMC,
        "MALA": MALA,
        "random walk": RandomWalk,
    }


def sampled(target: Any, kernel: Any, settings: Mapping[str, Any], seed: int) -> Any:
    """A silent run of 4 chains; divergences and bias are columns of the tables, not warnings."""
    import ergonet
    from ergonet._errors import SamplingWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        return ergonet.sample(
            target,
            kernel,
            num_warmup=settings["num_warmup"],
            num_draws=settings["num_draws"],
            seed=seed,
            progress=False,
        )


def run_once(arena: Arena, kernel: Any, settings: Mapping[str, int], seed: int) -> dict[str, float]:
    """Run a kernel once and return its figures; times include the warm-up, gradients are those of sampling only."""
    samples = sampled(arena.target(), kernel, settings, seed)
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
        "acceptance": float(np.mean(samples.stats.get("acceptance_rate", np.nan))),  # MCLMC has none
        "divergences": float(samples.stats["diverging"].sum()),
        "deviation": float(values[:, :, 0].std()),
    }


def measure(settings: Mapping[str, int], *, quick: bool) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Run every kernel on every problem, interleaved; a quick run has all of them on one problem."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name, arena in ARENAS.items():
        dim = arena.target().dim
        chosen = {title: make for title, make in kernels().items() if "dense" not in title or dim <= DENSE_LIMIT}
        if quick and name != SMOKE_ARENA:
            chosen = dict([next(iter(chosen.items()))])
        found[name] = {title: [] for title in chosen}
        for seed in range(settings["rounds"]):
            for title, make in chosen.items():
                found[name][title].append(run_once(arena, make(), settings, seed))
                print(f"{name}, round {seed + 1}: {title}: {found[name][title][-1]['per_second']:.1f} / s", flush=True)
    return found


def tables(found: Mapping[str, Mapping[str, list[dict[str, float]]]], settings: Mapping[str, int]) -> str:
    """The tables for both pages, in Markdown."""
    head = ["kernel", "ESS", "ESS per 1000 gradients", "ESS per second", "gradients per draw"]
    head += ["acceptance", "divergences"]
    preface = (
        f"4 chains x ({settings['num_warmup']} + {settings['num_draws']}), float32. Figures are medians over "
        f"{settings['rounds']} seeds, with the range in parentheses. ESS is the bulk effective sample size. Gradients "
        f"are those of sampling; seconds include the warm-up, but not compilation."
    )
    parts = [textwrap.fill(preface, 118) + "\n"]
    for name, arena in ARENAS.items():
        rows = []
        for title, runs in found[name].items():
            spread = {key: Spread.of([run[key] for run in runs]) for key in runs[0]}
            has_gradients = spread["gradients"].median > 0
            row = [title, spread["effective"].text("{:.0f}")]
            row += [f"{spread['per_gradient'].median:.2f}" if has_gradients else "no gradients"]
            row += [f"{spread['per_second'].median:.0f}", f"{spread['gradients'].median:.0f}"]
            accepted = spread["acceptance"].median
            row += ["none" if np.isnan(accepted) else f"{accepted:.2f}", f"{spread['divergences'].median:.0f}"]
            rows.append(row if arena.truth is None else [*row, f"{spread['deviation'].median:.2f}"])
        columns = head if arena.truth is None else [*head, "sd"]
        about = textwrap.fill(f"{arena.about} {arena.deviation}".strip(), 118)
        parts.append(f"### {arena.title}\n{about}\n\n{page.table(columns, rows)}")
    return "\n".join(parts)


def write(folder: Path, record: dict[str, Any], guide: Path | None) -> None:
    """Write the page, its record, and the table of the guide."""
    text = tables(record["kernels"], record["about"]["settings"])
    page.write_measured(folder / "kernels", "Kernels", record, text)
    if guide:
        before, _, rest = guide.read_text(encoding="utf-8").partition(BEGIN)
        guide.write_text(before + BEGIN + text + END + rest.partition(END)[2], encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and write the results."""
    parser = options.parser(
        "Every kernel on four networks, a funnel and a badly scaled Gaussian.", "kernels.md and .json"
    )
    parser.add_argument("--rounds", type=int, help=f"of all kernels, default {FULL['rounds']}")
    chosen = options.parsed(parser, arguments)
    settings = dict(SMOKE if chosen.quick else FULL)
    settings |= {} if chosen.rounds is None else {"rounds": chosen.rounds}
    words = ["python -m benchmarks.kernels", *(["--quick"] if chosen.quick else [])]
    words += [f"--rounds {chosen.rounds}"] if chosen.rounds is not None else []
    about = page.describe(" ".join(words), quick=chosen.quick, settings=settings)
    found = measure(settings, quick=chosen.quick)
    write(chosen.out, {"about": about, "kernels": found}, GUIDE if chosen.out == options.RESULTS else None)
    print(f"Written: {chosen.out / 'kernels.md'}")


if __name__ == "__main__":
    main()
