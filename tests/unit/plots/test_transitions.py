"""Pictures of energies, acceptance and steps hold what they are drawn from."""

# Matplotlib types what its artists hold as anything that might become an array.
# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false

import numpy as np
import pytest

from ergonet import plots


def texts(axes):
    return " | ".join(text.get_text() for text in axes.figure.findobj(lambda artist: hasattr(artist, "get_text")))


def width(patch):
    """Standard deviation of a histogram that is one polygon."""
    x, y = patch.get_xy().T
    inside = (y[:-1] > 0) & (np.diff(x) > 0)
    middle, weight = ((x[:-1] + x[1:]) / 2)[inside], (y[:-1] * np.diff(x))[inside]
    mean = np.average(middle, weights=weight)
    return np.sqrt(np.average((middle - mean) ** 2, weights=weight))


def test_steps_between_energies_of_a_slow_chain_are_drawn_narrower():
    random = np.random.default_rng(0)
    for energy, expected in (
        (random.normal(size=(2, 5000)), np.sqrt(2)),
        (np.cumsum(random.normal(size=(2, 5000)), axis=1), 0.0),
    ):
        axes = plots.energy_plot(energy)
        *bars, steps = axes.patches
        middle = np.asarray([bar.get_x() + bar.get_width() / 2 for bar in bars])
        weight = np.asarray([bar.get_height() for bar in bars])
        spread = np.sqrt(np.average((middle - np.average(middle, weights=weight)) ** 2, weights=weight))
        assert width(steps) / spread == pytest.approx(expected, abs=0.15)


@pytest.mark.parametrize("energy", [np.ones((4, 50)), np.ones((4, 1)), np.full((2, 9), np.nan), np.ones((1, 0))])
def test_constant_or_missing_energies_are_said(energy):
    assert "Too few" in texts(plots.energy_plot(energy))


def test_transitions_count_all_and_mark_mean_and_aim():
    accepted = np.asarray([[0.5, 0.9, 1.0], [0.7, 0.8, 0.9]])
    steps = np.asarray([[7, 7, 15], [3, 7, 7]])
    upper, lower = plots.transitions_plot(accepted, steps, target_acceptance=0.8)
    assert sum(bar.get_height() for bar in upper.patches) == 6
    assert [line.get_xdata()[0] for line in upper.get_lines()] == [pytest.approx(0.8), 0.8]
    assert [bar.get_height() for bar in lower.patches] == [1, 4, 1]
    assert [label.get_text() for label in lower.get_xticklabels()] == ["3", "7", "15"]


def test_steps_of_thinned_draws_are_per_draw():
    upper, lower = plots.transitions_plot(np.full((2, 9), 0.8), np.full((2, 9), 28), thin=4)
    assert lower.get_xlabel() == "leapfrog steps per draw"
    assert upper.get_ylabel() == lower.get_ylabel() == "draws"


def test_many_different_lengths_become_a_histogram():
    steps = np.arange(400).reshape(4, 100)
    _, lower = plots.transitions_plot(np.full((4, 100), 0.8), steps)
    assert sum(bar.get_height() for bar in lower.patches) == 400
    assert len(lower.patches) == 30


def test_what_was_not_recorded_is_said():
    upper, _ = plots.transitions_plot(np.empty((2, 0)), np.empty((2, 0)))
    assert "No acceptance" in texts(upper)
    assert "No number of steps" in texts(upper)
