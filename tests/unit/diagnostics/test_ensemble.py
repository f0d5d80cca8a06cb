"""Chains as members of an ensemble: false alarms at the stated rate, and every fault found.

Rows are standard normal; a draw predicts each with unit noise around a mean of its own, so its density is known.
"""

import numpy as np
import pytest

from ergonet._errors import SettingError
from ergonet.diagnostics import advise, compare_members, failed, find
from ergonet.diagnostics.ensemble import FALSE_ALARMS, between_share, ensemble_figures, ess_within
from ergonet.diagnostics.finding import MODES
from ergonet.report.ensemble import rows
from ergonet.runs.metrics import as_json

ROWS, DRAWS = 100, 40


def members(rng, *, chains=4, modes=0.0, drift=0.0, shifts=None, draws=DRAWS):
    """Log mean densities `[chain, 2, row]` of draws around the modes of their chains.

    Args:
        rng: the generator.
        chains: their number.
        modes: standard deviation of the means of the chains' modes.
        drift: how much the first halves are off, all in the same way.
        shifts: how much each chain is off.
    """
    truth = rng.normal(size=ROWS)
    centers = modes * rng.normal(size=(chains, 1, 1, ROWS))
    means = centers + 0.2 * rng.normal(size=(chains, 2, draws // 2, ROWS))
    means[:, 0] += drift
    if shifts is not None:
        means += np.asarray(shifts, float)[:, None, None, None]
    density = np.exp(-((truth - means) ** 2) / 2) / np.sqrt(2 * np.pi)
    return np.log(density.mean(axis=2))


def verdict(halves, **about):
    """Metrics of a run with chains that disagree."""
    rng = np.random.default_rng(0)
    chains = len(halves)
    functions = rng.normal(size=(chains, DRAWS, 3)) + 3 * np.arange(chains)[:, None, None]
    table = ensemble_figures(
        halves, None, log_posterior=about.pop("log_posterior", None), draws=(functions, np.ones((chains, DRAWS)))
    )
    diagnostics = {"max_rhat_function": 1.8, "min_ess_bulk_function": 6.0, "stuck_chains": [], **about}
    return as_json({"num_chains": chains, "num_draws": DRAWS, "diagnostics": diagnostics, "ensemble": table})


def has_alarm(found):
    changed = abs(found.change) > found.change_limit * found.change_error
    spoiled = found.gain_over_best < -found.gain_limit * found.gain_over_best_error
    return bool(changed or spoiled or found.worse or found.drifting)


@pytest.mark.parametrize(("chains", "modes"), [(4, 0.0), (10, 0.5)])
def test_equal_members_raise_no_more_false_alarms_than_stated(modes, chains):
    rng, runs = np.random.default_rng(1), 100
    alarms = 0
    for _ in range(runs):
        posterior = rng.normal(size=(chains, DRAWS)) + 5 * modes * rng.normal(size=(chains, 1))
        alarms += has_alarm(compare_members(members(rng, chains=chains, modes=modes), log_posterior=posterior))
    assert alarms <= FALSE_ALARMS * runs + 3 * np.sqrt(FALSE_ALARMS * (1 - FALSE_ALARMS) * runs)


def test_modes_of_equal_standing_are_a_note():
    metrics = verdict(members(np.random.default_rng(2), chains=6, modes=0.5))
    (finding,) = find(metrics)
    assert not finding.problem
    assert finding.subject == MODES
    assert "6 chains in different modes" in finding.sentence
    assert "not draws from one converged posterior" in finding.sentence
    assert metrics["ensemble"]["gain_over_best"] > 0
    assert metrics["ensemble"]["between_share"] > 0.5


def test_without_held_out_rows_chains_that_disagree_are_a_problem():
    metrics = verdict(members(np.random.default_rng(2), modes=0.5))
    assert failed({**metrics, "ensemble": {}})
    assert "The chains disagree about predictions" in advise({**metrics, "ensemble": {}})[0]


def test_chains_that_only_mix_slowly_are_not_said_to_be_in_modes():
    rng = np.random.default_rng(11)
    slow = rng.normal(size=(4, 200, 20))
    for draw in range(1, 200):
        slow[:, draw] = 0.9 * slow[:, draw - 1] + np.sqrt(1 - 0.9**2) * slow[:, draw]
    table = ensemble_figures(members(rng), None, log_posterior=None, draws=(slow, np.ones((4, 200))))
    metrics = {**verdict(members(rng, modes=0.5)), "ensemble": as_json(table)}
    assert not table["apart"]
    assert failed(metrics)
    assert "The chains disagree about predictions" in advise(metrics)[0]


def test_few_chains_cannot_be_compared():
    assert "The chains disagree" in advise(verdict(members(np.random.default_rng(3), chains=3, modes=0.5)))[0]


def test_members_that_still_improve_are_a_problem():
    metrics = verdict(members(np.random.default_rng(4), modes=0.5, drift=0.5, chains=6))
    assert failed(metrics)
    assert "still improve" in advise(metrics)[0]
    assert "a longer warm-up or a warm start" in advise(metrics)[0]
    assert "a longer warm-up, and" in advise({**metrics, "warm_start": True})[0]


def test_members_that_become_worse_are_a_problem():
    halves = members(np.random.default_rng(4), modes=0.5, drift=0.5, chains=6)[:, ::-1]
    assert "become worse" in advise(verdict(halves))[0]


def test_one_chain_that_drifts_is_named():
    rng = np.random.default_rng(5)
    halves, posterior = members(rng, chains=6, modes=0.3, draws=200), rng.normal(size=(6, 200))
    halves[2, 0] -= 0.2
    posterior[2, :100] -= 3
    found = compare_members(halves, log_posterior=posterior)
    assert found.drifting == (2,)
    assert not found.worse
    assert advise(verdict(halves, log_posterior=posterior))[0].startswith("Chain 2 (counted from 0) is not settled")


@pytest.mark.parametrize("bad", [(3,), (1, 4)])
def test_bad_chains_are_named(bad):
    shifts = [3.0 if chain in bad else 0.0 for chain in range(8)]
    metrics = verdict(members(np.random.default_rng(6), chains=8, modes=0.2, shifts=shifts))
    assert metrics["ensemble"]["worse"] == list(bad)
    assert failed(metrics)
    assert advise(metrics)[0].startswith(f"Chain {bad[0]} (counted from 0) predicts the held-out rows worse")


def test_an_average_that_loses_to_one_member_names_it():
    shifts = [0.0, 3.0, 4.0, 5.0]  # most are bad, so that none is an outlier
    metrics = verdict(members(np.random.default_rng(7), shifts=shifts))
    assert failed(metrics)
    assert advise(metrics)[0].startswith("Chain 0 (counted from 0) alone predicts")


def test_a_stuck_chain_stays_a_problem():
    metrics = verdict(members(np.random.default_rng(2), chains=6, modes=0.5), stuck_chains=[4])
    assert failed(metrics)
    assert "Chain 4 (counted from 0) never moved" in advise(metrics)[0]


def test_a_chain_without_density_is_named_and_left_out():
    halves = members(np.random.default_rng(8), chains=6)
    halves[5, 0, 3] = -np.inf
    metrics = verdict(halves)
    assert metrics["ensemble"]["chains"] == [0, 1, 2, 3, 4]
    assert failed(metrics)
    assert advise(metrics)[0].startswith("Chain 5 (counted from 0) gives the true values")


def test_scores_of_the_average_and_its_members():
    halves = np.log(np.array([[[0.2, 0.4], [0.4, 0.4]], [[0.1, 0.8], [0.1, 0.8]]]))
    found = compare_members(halves)
    assert found.scores == pytest.approx([np.log([0.3, 0.4]).mean(), np.log([0.1, 0.8]).mean()])
    assert found.whole == pytest.approx(np.log([0.2, 0.6]).mean())
    assert found.changes == pytest.approx([np.log(2) / 2, 0])
    assert found.gain_over_mean >= 0
    assert found.best == 0


def test_halves_of_no_weight_do_not_count():
    halves, weights = members(np.random.default_rng(9)), np.ones((4, 2))
    weights[1], weights[2, 0] = 0, 0
    halves[1], halves[2, 0] = -np.inf, -np.inf
    found = compare_members(halves, weights)
    assert found.chains == (0, 2, 3)
    assert not found.unusable
    assert np.isnan(found.change)
    assert found.scores[1] == pytest.approx(halves[2, 1].mean())


def test_spread_between_chains_and_precision_within():
    rng = np.random.default_rng(10)
    draws = rng.normal(size=(4, 250, 2)) + np.array([0, 10])[None, None] * np.arange(4)[:, None, None]
    assert between_share(draws)[0] < 0.02
    assert between_share(draws)[1] > 0.98
    within = ess_within(draws)
    assert 500 < within[0] < 2000
    assert within[1] == pytest.approx(within[0] * draws[:, :, 1].var() / draws[:, :, 0].var(), rel=0.5)


def test_wrong_shapes_are_refused():
    with pytest.raises(SettingError, match=r"\[chain, 2, row\]"):
        compare_members(np.zeros((4, 3, 5)))
    with pytest.raises(SettingError, match="`weights`"):
        compare_members(np.zeros((4, 2, 5)), np.ones(4))
    assert compare_members(np.zeros((1, 2, 5))) is None
    assert compare_members(np.zeros((4, 2, 1))) is None


def test_scores_of_chains_of_classes_are_said_to_be_before_the_temperature():
    metrics = verdict(members(np.random.default_rng(2), modes=0.5))
    for task in ("classification", "regression"):
        _, _, meaning = rows({**metrics, "task": task})[0]
        assert ("before temperature and label noise" in meaning) == (task == "classification")
