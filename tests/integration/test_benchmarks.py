"""The benchmark command works from end to end; its figures are not judged here."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from benchmarks import gradients, kernels, microcanonical, page, problems, rounds, targets, warmups
from benchmarks.timing import Spread

ROOT = Path(__file__).resolve().parents[2]


def run_quickly(module: str, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, "--quick", "--out", out],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def quick_page(name: str, out: Path) -> str:
    """The page that a quick run of a benchmark writes."""
    answer = run_quickly(f"benchmarks.{name}", out)
    assert answer.returncode == 0, answer.stderr
    text = (out / f"{name}.md").read_text(encoding="utf-8")
    assert "A quick run" in text
    return text


@pytest.fixture(scope="module", params=sorted(problems.PROBLEMS))
def problem(request: pytest.FixtureRequest) -> problems.Problem:
    return problems.PROBLEMS[request.param]()


@pytest.mark.slow
def test_a_quick_run_writes_its_page_with_a_row_for_every_sampler(tmp_path: Path) -> None:
    answer = run_quickly("benchmarks.run", tmp_path)
    assert answer.returncode == 0, answer.stderr
    text = (tmp_path / "speed.md").read_text(encoding="utf-8")
    record = json.loads((tmp_path / "speed.json").read_text(encoding="utf-8"))
    assert "A quick run" in text
    for contestant in rounds.CONTESTANTS:
        is_installed = importlib.util.find_spec(contestant.requires) is not None
        assert (contestant.module in record["samplers"]) == is_installed
        row = next(line for line in text.splitlines() if line.startswith(f"| {contestant.title} |"))
        assert ("is not installed" in row) != is_installed
    for runs in record["samplers"].values():
        assert all(run["run_seconds"] > 0 and run["gradients"] > 0 for run in runs)
    assert set(record["longer"]) == set(targets.COMPILED_TOO)
    assert set(record["gradients"]) == set(problems.PROBLEMS)
    for measured in record["gradients"].values():
        assert set(gradients.kernels(4, 4)) < set(measured["microseconds"])
        assert all(min(times) > 0 for times in measured["microseconds"].values())


def test_a_quick_run_does_not_replace_the_published_results() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.run", "--quick"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert answer.returncode == 2
    assert "--out" in answer.stderr


def test_an_absent_peer_has_a_row_that_says_so() -> None:
    absent = page.sampler_table({})
    assert absent.count("is not installed") == len(rounds.CONTESTANTS)


def test_every_sampler_has_the_same_density_up_to_a_constant(problem: problems.Problem) -> None:
    target = problems.ergonet_target(problem)
    density = problems.log_density(problem)
    ours = np.array(
        [target.potential(jnp.asarray(q)) for q in problems.to_ergonet(problem, problem.starts)], np.float64
    )
    theirs = np.array([-density(jnp.asarray(q)) for q in problem.starts], np.float64)
    difference = ours - theirs
    np.testing.assert_allclose(difference, difference[0], atol=1e-5 * np.abs(ours).max())
    assert np.ptp(ours) > 100 * np.ptp(difference)


def test_positions_of_the_library_and_of_the_peers_translate_both_ways(problem: problems.Problem) -> None:
    there = problems.to_ergonet(problem, problem.starts)
    assert not np.array_equal(there, problem.starts)
    np.testing.assert_array_equal(problems.from_ergonet(problem, there), problem.starts)


def test_predictions_are_those_of_the_library(problem: problems.Problem) -> None:
    target = problems.ergonet_target(problem)
    positions = problem.starts[:2, None, :]
    ours = problems.predictions(problem, positions)[:, 0]
    parts = [
        target.model.outputs(jnp.asarray(q), jnp.asarray(problem.x_test.T))
        for q in problems.to_ergonet(problem, positions[:, 0])
    ]
    expected = np.stack([np.asarray(target.model.likelihood.monitor({}, outputs)).T.reshape(-1) for outputs in parts])
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-3)


def test_a_problem_survives_its_file(problem: problems.Problem, tmp_path: Path) -> None:
    problem.save(tmp_path / "problem.npz")
    again = problems.load(tmp_path / "problem.npz")
    assert (again.name, again.sizes, again.has_bias, again.noise) == (
        problem.name,
        problem.sizes,
        problem.has_bias,
        problem.noise,
    )
    np.testing.assert_array_equal(again.starts, problem.starts)
    assert problem.starts.shape[1] == problem.dim


def test_effective_draws_of_independent_draws_are_their_number() -> None:
    values = np.random.default_rng(0).standard_normal((4, 500, 30))
    least, median = rounds.effective_draws(values)
    assert 0.7 * 2000 < least <= median < 1.3 * 2000


def test_steps_are_compared_with_gradients_with_other_steps_and_with_products() -> None:
    names = ("products, NumPy", "products, XLA", *gradients.kernels(4, 4))
    times = {name: [10.0, 20.0] for name in names} | {
        "gradient": [10.0, 10.0],
        "gradient, learned precisions": [10.0, 12.0],
        "doubling step": [11.0, 12.0],
        "doubling step, exhaustive": [11.0, 12.0],
        "windowed step": [22.0, 24.0],
        "static step, dense metric": [70.0, 50.0],
        "matrix-vector product": [40.0, 40.0],
    }
    goals = targets.gradient_goals({name: {"microseconds": times} for name in problems.PROBLEMS})
    found = {goal.what: goal for goal in goals}
    assert found["P1: static step / gradient"].measured == Spread(1.5, 1.0, 2.0)
    assert found["P2: no-U-turn step / gradient"].measured.median == pytest.approx(1.15)
    assert found["P1: gradient with learned precisions / gradient"].measured == Spread(1.1, 1.0, 1.2)
    assert found["P1: exhaustive step / no-U-turn step"].measured == Spread(1.0, 1.0, 1.0)
    assert found["P2: windowed step / no-U-turn step"].measured == Spread(2.0, 2.0, 2.0)
    dense = found["P1: (static step with a dense metric - gradient) / matrix-vector product"]
    assert dense.measured == Spread(1.25, 1.0, 1.5)
    assert dense.is_met


@pytest.mark.parametrize(
    ("measured", "at_most", "met"), [(1.04, True, True), (1.06, True, False), (0.96, False, True), (0.94, False, False)]
)
def test_what_noise_is_allowed_is_printed_beside_the_bound(measured: float, at_most: bool, met: bool) -> None:
    goal = targets.Goal("a", Spread(measured, measured, measured), 1.0, at_most=at_most, allowance=0.05)
    assert goal.is_met == met
    row = page.goal_table([goal]).splitlines()[-1]
    assert f"{'at most' if at_most else 'at least'} 1, 0.05 allowed for noise" in row
    assert ("not met" in row) != met


def test_a_spread_is_a_median_with_its_range() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)


@pytest.mark.slow
def test_a_quick_run_of_the_kernels_writes_a_row_for_each(tmp_path: Path) -> None:
    text = quick_page("kernels", tmp_path)
    for index, title in enumerate(kernels.kernels()):
        rows = [line for line in text.splitlines() if line.startswith(f"| {title} |")]
        assert len(rows) == (1 if index else len(kernels.ARENAS))


@pytest.mark.slow
def test_a_quick_run_of_the_microcanonical_bias_has_a_row_for_each_energy_variance(tmp_path: Path) -> None:
    text = quick_page("microcanonical", tmp_path)
    assert text.count("| MAMS |") == 1
    for variance in microcanonical.ENERGY_VARIANCES:
        assert text.count(f"| MCLMC, {variance:g} |") == 1


def test_the_bias_is_that_of_the_worst_quantity_beside_its_error() -> None:
    draws = np.random.default_rng(0).normal(size=(4, 2500, 3)) * [1.0, 2.0, 1.1] + [0.0, 1.0, 0.0]
    found = microcanonical.Moments.of(draws)
    np.testing.assert_allclose(found.mean_error, found.sd / 100, rtol=0.2)
    np.testing.assert_allclose(found.sd_error, found.sd / np.sqrt(2 * 10_000), rtol=0.2)
    bias = microcanonical.Bias.of(found, microcanonical.Moments.known(np.array([1.0, 2.0, 1.0])))
    assert bias.mean == pytest.approx(0.5, abs=0.04)
    assert bias.mean_error == pytest.approx(0.01, rel=0.2)
    assert bias.sd == pytest.approx(0.1, abs=0.04)
    assert bias.average == pytest.approx(0.1 / 3, abs=0.02)
    assert bias.beyond_error == pytest.approx(0.49, abs=0.04)
    exact = microcanonical.Bias.of(found, found)
    assert (exact.mean, exact.sd, exact.beyond_error) == (0.0, 0.0, 0.0)


@pytest.mark.slow
def test_a_quick_run_of_the_warmups_writes_a_row_for_each(tmp_path: Path) -> None:
    text = quick_page("warmups", tmp_path)
    for title in ("Stan's windows, 12", "step size only, 10", "pooled directions, step size only, 10"):
        assert text.count(f"| {title} |") == 2


def test_a_preconditioned_density_goes_to_positions_and_back() -> None:
    draws = np.random.default_rng(0).normal(size=(400, 6)) @ np.diag([1.0, 2, 3, 4, 5, 6])
    draws[:, 1] += 3 * draws[:, 0]
    target = ergonet.Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2), jnp.zeros(6))
    density = warmups.preconditioned(target, draws, most=2)
    assert density.factor.size == 2  # along and across the one correlation
    z = jnp.arange(6.0)
    np.testing.assert_allclose(density.inverse(density.position(z)), z, atol=1e-5)
    np.testing.assert_allclose(density(z), -target.potential(density.position(z)), rtol=1e-6)
    factor = np.asarray(jax.vmap(density.position)(jnp.eye(6))).T
    np.testing.assert_allclose((factor @ factor.T)[:2, :2], np.cov(draws[:, :2].T), rtol=0.15)
    np.testing.assert_array_equal(warmups.unchanged(target).position(z), z)


@pytest.mark.slow
def test_a_quick_run_of_the_minibatch_steps_judges_its_targets(tmp_path: Path) -> None:
    pytest.importorskip("blackjax")
    text = quick_page("minibatches", tmp_path)
    assert "| posteriors SGHMC | not measured" in text
    record = json.loads((tmp_path / "minibatches.json").read_text(encoding="utf-8"))
    assert all(min(times) > 0 for times in record["microseconds"].values())
    assert "BlackJAX SGLD" in record["microseconds"]
    assert "| SGHMC step / SGD step of the same stack |" in text


def test_the_guide_shows_the_table_of_the_last_measured_run() -> None:
    record = json.loads((ROOT / "docs" / "results" / "kernels.json").read_text(encoding="utf-8"))
    shown = kernels.GUIDE.read_text(encoding="utf-8").partition(kernels.BEGIN)[2].partition(kernels.END)[0]
    made = kernels.tables(record["kernels"], record["about"]["settings"])
    assert shown.split() == made.split()  # the guide may break its lines elsewhere


@pytest.mark.slow
def test_the_page_of_predictions_has_every_contestant_and_target(tmp_path: Path) -> None:
    text = quick_page("prediction", tmp_path)
    for name in ("loop over networks, NumPy", "floor: products and activations", "Ergonet, mean and sd", "load"):
        assert f"| {name} |" in text
    for target in ("4096 rows: ours / floor", "10551 weights: load, seconds"):
        assert f"| {target} |" in text


@pytest.mark.slow
def test_the_page_of_trajectories_has_every_length_and_target(tmp_path: Path) -> None:
    text = quick_page("trajectories", tmp_path)
    for name in ("L = 4", "L = 8", "power of the number of steps: at most"):
        assert f"| {name} |" in text
