"""Scripts about runs: precision, weights, noise, clocks, sizes, step sizes, lengths, scaling."""

import importlib
import math
import multiprocessing
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability import fits
from benchmarks.reliability.promises import Check, Outcome, all_of


def _watched(call: Callable[[], Any]) -> tuple[Any, str]:
    """The result of a call, or None, and its warnings and its error."""
    from ergonet._errors import ErgonetError

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except ErgonetError as error:
            return None, f"{type(error).__name__}: {error}"
    return result, " ".join(str(one.message) for one in caught if issubclass(one.category, UserWarning))


def _quietly(call: Callable[[], Any]) -> Any:
    """The result of a call whose warnings do not matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def _sample(target: Any, kernel: Any = None, **settings: Any) -> Any:
    import ergonet

    chosen: dict[str, Any] = {"num_chains": 2, "num_warmup": 300, "num_draws": 500, "seed": 1, "progress": False}
    return ergonet.sample(target, kernel, **(chosen | settings))


def _normal(dim: int) -> Any:
    import jax.numpy as jnp

    import ergonet

    return ergonet.Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2), jnp.zeros(dim))


def _cancellation(_folder: Path) -> Outcome:
    import jax.numpy as jnp

    import ergonet

    target = ergonet.Target.from_logdensity(lambda q: 1e8 - 0.5 * jnp.sum(q**2), jnp.zeros(5))
    samples, said = _watched(lambda: _sample(target))
    width = "" if samples is None else f"; sd {np.asarray(samples.positions).std():.2f}, truth 1"
    return Outcome(f"{said or 'nothing is said'}{width}", "float64" in said or "double precision" in said)


def _weighted_summary(_folder: Path) -> Outcome:
    import jax.numpy as jnp

    import ergonet
    from ergonet import SGLD, schedules

    def row(q: Any, rows: Any) -> Any:
        return -0.5 * (rows["y"] - q[0]) ** 2 / 0.5

    data = {"y": np.random.default_rng(0).normal(size=100).astype(np.float32)}
    target = ergonet.Target.from_terms(lambda q: -0.5 * jnp.sum(q**2), row, data, jnp.zeros(1))
    kernel = SGLD(learning_rate=2e-3, schedule=schedules.Cyclical(period=50, exploration=0.5), batch_size=50)
    samples = _quietly(lambda: _sample(target, kernel, num_warmup=0, num_draws=1000))
    draws, weights = np.asarray(samples.positions)[..., 0], np.asarray(samples.weights())
    mean = np.average(draws, weights=weights)
    truth = float(np.sqrt(np.average((draws - mean) ** 2, weights=weights)))
    seen = float(samples.summary()["sd"].iloc[0])
    return Outcome(
        f"sd in `summary` {seen:.4f}, weighted {truth:.4f}, of all draws {draws.std():.4f}", _near(seen, truth)
    )


def _near(value: float, truth: float, share: float = 0.02) -> bool:
    return abs(value - truth) < share * abs(truth)


def _estimated_noise(_folder: Path) -> Outcome:
    """Epochs are shuffled, so the noise of a step is not that of independent rows."""
    import jax.numpy as jnp

    import ergonet
    from ergonet import SGHMC, noise_models

    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).astype(np.float32)
    y = (x @ [1.0, -1.0, 0.5] + 0.5 * rng.normal(size=200)).astype(np.float32)
    precision = x.T.astype(float) @ x / 0.25 + np.eye(3)
    truth = np.diag(np.linalg.inv(precision))

    def row(q: Any, rows: Any) -> Any:
        return -0.5 * (rows["y"] - rows["x"] @ q) ** 2 / 0.25

    target = ergonet.Target.from_terms(lambda q: -0.5 * jnp.sum(q**2), row, {"x": x, "y": y}, jnp.zeros(3))
    outcomes = list[tuple[str, Outcome]]()
    for name, noise in (("none", "none"), ("estimated", noise_models.EstimatedNoise())):
        kernel = SGHMC(learning_rate=1e-5, momentum_decay=0.1, batch_size=20, noise=noise)
        samples = _quietly(lambda kernel=kernel: _sample(target, kernel, num_warmup=500, num_draws=8000))
        ratio = float(np.mean(np.asarray(samples.positions).reshape(-1, 3).var(axis=0) / truth))
        outcomes.append((f"noise {name}", Outcome(f"variance / truth {ratio:.2f}", 0.8 < ratio < 1.25)))
    found = all_of(outcomes)
    return Outcome("; ".join(f"{name}: {one.seen}" for name, one in outcomes), found.is_kept)


def _time_limits(folder: Path) -> Outcome:
    long = ("--hidden", "50", "--draws", "1000000", "--quiet", "--devices", "1", "--chains", "2")
    began = time.perf_counter()
    answer = fits.run(["fit", "digits", *long, "--warmup", "1000000", "--time-limit", "10", "--out", "run"], folder)
    seconds = time.perf_counter() - began
    said = answer.stdout.strip().splitlines()
    in_warmup = Outcome(f"{seconds:.1f} s, {said[-1] if said else ''}", seconds < 10 * 1.1 + 5)
    began = time.perf_counter()
    _, words = _watched(lambda: _sample(_normal(5), thin=2**30, time_limit=3))
    seconds = time.perf_counter() - began
    thinned = Outcome(f"{seconds:.1f} s, {words}", seconds < 3 * 1.1 + 5)
    found = all_of([("10 s in the warm-up", in_warmup), ("3 s with thin=2**30", thinned)])
    return Outcome(f"10 s in the warm-up: {in_warmup.seen}; 3 s with thin=2**30: {thinned.seen}", found.is_kept)


def _sizes(_folder: Path) -> Outcome:
    from ergonet import NUTS
    from ergonet.draws.memory import free_memory

    large = math.isqrt((free_memory() or 2**34) // 4)  # one matrix of this size takes all memory that is free
    cases: dict[str, Callable[[], Any]] = {
        "10**9 chains": lambda: _sample(_normal(2), num_chains=10**9),
        f"dense metric of {large} coordinates": lambda: _sample(_normal(large), NUTS(metric="dense"), num_draws=2),
        "2 * 10**8 coordinates": lambda: _sample(_normal(2 * 10**8), num_draws=1000),
    }
    outcomes = list[tuple[str, Outcome]]()
    for name, case in cases.items():
        began = time.perf_counter()
        result, said = _watched(case)
        seconds = time.perf_counter() - began
        outcomes.append((name, Outcome(f"{said} ({seconds:.1f} s)", result is None and seconds < 60)))
    return all_of(outcomes)


def _in_a_fork(queue: Any) -> None:
    result, said = _watched(lambda: _sample(_normal(2), num_warmup=10, num_draws=10))
    queue.put(said if result is None else "sampled")


def _fork(_folder: Path) -> Outcome:
    _watched(lambda: _sample(_normal(2), num_warmup=10, num_draws=10))
    context: Any = multiprocessing.get_context("fork")
    queue = context.Queue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = context.Process(target=_in_a_fork, args=(queue,))
        child.start()
    child.join(60)
    if child.is_alive():
        child.kill()
        return Outcome("hung for a minute", is_kept=False)
    said = queue.get(timeout=5) if child.exitcode == 0 else f"exit code {child.exitcode}"
    return Outcome(said, child.exitcode == 0)


def _stiff_network(_folder: Path) -> Outcome:
    import ergonet
    from ergonet import MLP, BayesianNetwork, likelihoods, priors

    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 4))
    y = np.sin(2 * x[:, 0]) + 0.05 * rng.normal(size=50)
    prior = priors.NormalGamma(1.0, 0.5, "incoming")
    noise = likelihoods.GammaPrecision(0.05, 0.5)
    posterior = BayesianNetwork(MLP((4, 8, 1)), prior, likelihoods.Gaussian(noise)).condition(x, y)
    samples, said = _watched(lambda: _sample(posterior, ergonet.NUTS(), num_chains=4, num_warmup=500, num_draws=500))
    if samples is None:
        return Outcome(said, is_kept=False)
    diverging = int(samples.stats["diverging"].sum())
    moved = np.asarray(samples.stats["moved"]).mean(axis=1)
    stuck = int((moved < 0.5).sum())
    return Outcome(
        f"{diverging} of 2000 transitions diverge, {stuck} of 4 chains are stuck", diverging < 200 and not stuck
    )


def _squares(_folder: Path) -> Outcome:
    """The effective sample sizes of squares, of HMC with its own length and of NUTS."""
    import jax.numpy as jnp

    import ergonet
    from benchmarks.reliability.known_models import MODELS

    statistics: Any = importlib.import_module("arviz_stats.base").array_stats
    model = MODELS["arK"]()
    target = ergonet.Target.from_logdensity(model.log_density, jnp.zeros(model.dim))
    found: dict[str, tuple[float, float]] = {}
    for name, kernel in (("HMC", ergonet.HMC()), ("NUTS", ergonet.NUTS())):
        samples = _quietly(lambda kernel=kernel: _sample(target, kernel, num_chains=4, num_warmup=1000, num_draws=1000))
        draws = np.moveaxis(np.asarray(samples.positions, np.float64), -1, 0)
        centered = draws - draws.mean(axis=(1, 2), keepdims=True)
        sizes = [statistics.ess(one, chain_axis=1, draw_axis=2, method="bulk").min() for one in (draws, centered**2)]
        found[name] = (float(sizes[0]), float(sizes[1]))
    seen = "; ".join(f"{name}: {ess:.0f} of means, {square:.0f} of squares" for name, (ess, square) in found.items())
    return Outcome(f"smallest ESS on arK, 4 x 1000 draws: {seen}", found["HMC"][1] >= 0.4 * found["NUTS"][1])


def _stochastic_kernels(_folder: Path) -> Outcome:
    import jax.numpy as jnp

    import ergonet
    from ergonet import SGNUTS, NaiveSGHMC

    rng = np.random.default_rng(0)
    data = rng.normal(size=(200, 2)).astype(np.float32)

    def row(q: Any, rows: Any) -> Any:
        return -0.5 * jnp.sum((rows["y"] - q) ** 2, axis=-1)

    target = ergonet.Target.from_terms(lambda q: -0.5 * jnp.sum(q**2), row, {"y": data}, jnp.zeros(2))
    naive = NaiveSGHMC(learning_rate=1e-4, num_steps=10, metropolis=True, batch_size=100)
    start = np.full((2, 2), 30.0, np.float32)
    _, said = _watched(lambda: _sample(target, naive, num_warmup=200, num_draws=200, init=start))
    is_honest = "were rejected" in said and "Lower the learning rate" in said
    trees = SGNUTS(learning_rate=1e-3, batch_size=20)
    _, advice = _watched(lambda: _sample(target, trees, num_warmup=100, num_draws=300))
    return all_of(
        [
            ("NaiveSGHMC with its test from afar", Outcome(said or "no warning", is_honest)),
            ("SG-NUTS", Outcome(advice or "no warning", "estimate the noise" not in advice and bool(advice))),
        ]
    )


def _scaled_estimators(_folder: Path) -> Outcome:
    import ergonet

    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = x[:, 0] - 0.5 * x[:, 1] + 0.1 * rng.normal(size=60)

    def agreement(x_scale: float, y_scale: float) -> Callable[[], float]:
        def fit() -> float:
            settings = {"hidden": (3,), "num_chains": 2, "num_warmup": 200, "num_draws": 100, "random_state": 0}
            model = ergonet.BayesianRegressor(**settings).fit(x * x_scale, y * y_scale)
            return float(np.corrcoef(model.predict(x * x_scale) / y_scale, y)[0, 1])

        return fit

    outcomes = list[tuple[str, Outcome]]()
    for name, scales in {"X * 1e-11": (1e-11, 1.0), "X * 1e200": (1e200, 1.0), "y * 1e200": (1.0, 1e200)}.items():
        value, said = _watched(agreement(*scales))
        seen = said if value is None else f"correlation {value:.3f} with the truth"
        outcomes.append((name, Outcome(seen, value is None or value > 0.9)))
    found = all_of(outcomes)
    return Outcome("; ".join(f"{name}: {one.seen}" for name, one in outcomes), found.is_kept)


def _named_parameters(_folder: Path) -> Outcome:
    import jax

    from ergonet import MLP, BayesianNetwork, likelihoods, priors

    rng = np.random.default_rng(0)
    network = BayesianNetwork(MLP((2, 3, 1)), priors.Normal(1.0), likelihoods.Gaussian(0.5))
    posterior = network.condition(rng.normal(size=(20, 2)), rng.normal(size=20))
    samples = _quietly(lambda: _sample(posterior, num_warmup=20, num_draws=20))
    samples.parameters()
    compiled = [0]

    def count(event: str, _: float, **__: Any) -> None:
        compiled[0] += event.endswith("backend_compile_duration")

    monitoring: Any = jax.monitoring
    monitoring.register_event_duration_secs_listener(count)
    samples.parameters()
    return Outcome(f"the second call of `Samples.parameters` compiles {compiled[0]} programs", compiled[0] == 0)


_LONG = [
    Check("SGHMC with estimated noise", _estimated_noise),
    Check("time limits", _time_limits),
    Check("a stiff hierarchical network", _stiff_network),
    Check("the length of `HMC()`, squares", _squares),
]
SLOW = tuple(_LONG)
CHECKS = [
    Check("estimators: scales of 1e-11 and 1e200", _scaled_estimators),
    Check("single precision, a density near 1e8", _cancellation),
    Check("`summary` of weighted draws", _weighted_summary),
    Check("chains, coordinates and metrics that do not fit", _sizes),
    Check("a fork after a run", _fork),
    Check("`NaiveSGHMC` from afar; the advice of SG-NUTS", _stochastic_kernels),
    Check("`Samples.parameters` compiles once", _named_parameters),
    *_LONG,
]
