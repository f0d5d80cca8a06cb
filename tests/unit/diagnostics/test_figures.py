"""Figures never contradict their sentence: they lie on the same side of each limit as the value."""

import math

import hypothesis
import pytest
from hypothesis import strategies as st

from ergonet.cli import summary
from ergonet.diagnostics import advice
from ergonet.diagnostics.finding import beside, shown_rhat
from ergonet.report import RunRecord, overview


@pytest.mark.parametrize(
    ("value", "limit", "decimals", "shown"),
    [
        (1.0102, 1.01, 3, "1.0102"),
        (1.01, 1.01, 3, "1.010"),
        (1.00999, 1.01, 3, "1.00999"),
        (399.7, 400.0, 0, "399.7"),
        (398.7, 400.0, 0, "399"),
        (0.2999, 0.3, 2, "0.2999"),
        (math.inf, 1.01, 3, "infinite"),
        (math.nan, 1.01, 3, "unknown"),
    ],
)
def test_figures_beside_a_limit(value, limit, decimals, shown):
    assert beside(value, limit, decimals=decimals) == shown


@hypothesis.given(st.floats(0.5, 2.0), st.floats(0.5, 2.0), st.integers(0, 4))
def test_figures_lie_on_the_side_of_the_value(value, limit, decimals):
    shown = float(beside(value, limit, decimals=decimals))
    if abs(value - limit) > 1e-14:
        assert (shown > limit, shown < limit) == (value > limit, value < limit)


def test_the_advice_the_summary_and_the_report_agree():
    found = {"max_rhat_function": 1.0102, "min_ess_bulk_function": 399.7, "min_ebfmi": 0.29999, "divergences": 0}
    found |= {"max_rhat_scales": 1.0103, "min_ess_bulk_scales": 399.8}
    metrics = {"num_chains": 4, "num_draws": 500, "diagnostics": found}
    sentences = " ".join(advice.advise(metrics))
    rows = [value for _, value, _ in summary.rows(metrics)]
    cards = {card.name: (card.value, card.mark) for card in overview.trust_cards(RunRecord({}, metrics))}
    for figure in ("1.0102", "399.7", "0.29999", "1.0103", "399.8"):
        assert figure in sentences
        assert figure in rows
        assert (figure, "bad") in cards.values()
    assert shown_rhat(1.0102) == "1.010"


@pytest.mark.parametrize(("rhat", "ess", "mark"), [(1.024, 212.0, "good"), (1.0503, 99.7, "bad")])
def test_they_agree_about_scales_while_predictions_mix(rhat, ess, mark):
    found = {"max_rhat_function": 1.004, "min_ess_bulk_function": 851.0, "min_ebfmi": 0.94, "divergences": 0}
    metrics = {
        "num_chains": 4,
        "num_draws": 500,
        "diagnostics": found | {"max_rhat_scales": rhat, "min_ess_bulk_scales": ess},
    }
    limits = {name: meaning for name, _, meaning in summary.rows(metrics) if name.endswith("of scales")}
    assert limits["R-hat of scales"].endswith("at most 1.05")
    assert limits["ESS of scales"].endswith("at least 100")
    cards = {card.name: card.mark for card in overview.trust_cards(RunRecord({}, metrics))}
    assert {cards["R-hat of learned scales"], cards["Effective draws of scales"]} == {mark}
    assert (advice.advise(metrics) == []) is (mark == "good")
