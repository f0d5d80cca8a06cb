"""P-values, verdicts and pictures of `ergonet.checking`, from made-up ranks; and what is refused before any work."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from ergonet import (
    HMC,
    MCLMC,
    MLP,
    NUTS,
    BayesianNetwork,
    ConstrainedHMC,
    DelayedRejectionHMC,
    GibbsHMC,
    Target,
    WindowedHMC,
    checking,
    likelihoods,
    plots,
    priors,
)
from ergonet._errors import CapabilityError, SettingError, StartError
from ergonet.assembly.settings import resolve
from ergonet.checking import p_values
from ergonet.checking.check import SHORT, _finite, _share_not_finite, _steps
from ergonet.cli import checking as command
from ergonet.cli.main import app
from ergonet.plots import canvas

X = np.linspace(-1, 1, 3, dtype=np.float32)[:, None]
SIZES = {"layers.0.weight": 4, "likelihood.log_precision": 1}


def posterior(**settings):
    model = BayesianNetwork(MLP((1, 1)), priors.Normal(1.0), likelihoods.Gaussian(0.5))
    return model.condition(X, X, **settings)


def made_up(*, shift=0.0, sizes=SIZES):
    """Uniform ranks, with those of the last quantity moved."""
    rng, count = np.random.default_rng(0), sum(sizes.values())
    shares = rng.uniform(size=(512, count))
    shares[:, -1] = np.clip(shares[:, -1] + shift, 0, 0.999)
    scores = np.zeros((2, count))
    scores[:, -1] = 40 * shift
    return checking.Check(sizes, (32 * shares).astype(int), 32, scores, {"kernel": "HMC"})


def test_ranks_count_smaller_places_and_break_ties_at_random():
    values = np.zeros((4, 400, 2))
    values[0, :, 0] = 2.5
    values[1:, :, 0] = np.arange(1, 4)[:, None]
    ranks = p_values.ranks_of(values, np.random.default_rng(0))
    assert np.all(ranks[:, 0] == 2)
    assert np.bincount(ranks[:, 1], minlength=4).min() > 60


def test_scores_are_standard_normal_where_nothing_is_wrong_and_see_a_shift():
    rng = np.random.default_rng(0)
    scores = p_values.joint_scores(rng.normal(size=(1, 500, 400)), rng.normal(size=(5000, 400)))
    assert abs(scores[0].std() - 1) < 4 * np.sqrt(0.5 / 400)
    heavy = p_values.joint_scores(rng.standard_cauchy((8, 500, 1)) + 0.5, rng.standard_cauchy((5000, 1)))
    assert heavy[0] > 8
    assert p_values.joint_p_values(np.array([[3.0], [-1.0]]))[0] == pytest.approx(4 * norm.sf(3))
    assert not p_values.joint_scores(np.zeros((2, 9, 1)), np.zeros((99, 1))).any()


def test_the_verdict_names_what_fails_and_what_that_means():
    assert made_up().passes
    found = made_up(shift=0.3)
    assert found.sentences()[0].startswith("Fails at likelihood.log_precision: p = ")
    assert "the Jacobian" in str(found)
    assert list(found.frame()["fails"]) == [False, True]
    assert len(found.lines()) == 3
    weights = made_up(shift=0.3, sizes={"residuals": 1, "layers.0.bias": 1})
    assert "Usually the log density of layers.0.bias" in str(weights)
    data = made_up(shift=0.3, sizes={"layers.0.bias": 1, "log likelihood": 1})
    assert "Usually `sample` and `log_prob`" in str(data)


def test_pictures_mark_what_leaves_the_bands():
    for shift, count in ((0.0, 0), (0.3, 1)):
        found = made_up(shift=shift)
        ranks, scores = plots.check_ranks(found), plots.check_scores(found)
        red = [[one for one in axes.get_lines() if one.get_color() == canvas.BAD] for axes in (ranks, scores)]
        assert len(red[0]) == count
        assert sum(np.size(one.get_xdata()) for one in red[1]) == 2 * count
        assert [one.get_text() for one in scores.get_yticklabels()] == list(SIZES)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_replicas": 10}, SettingError, "`num_replicas` must be an integer of at least 128, got 10"),
        ({"num_steps": 30}, SettingError, "`num_steps` must be 1 less than a multiple of 16, such as 31, got 30"),
        ({"seed": -1}, SettingError, "`seed` must be an integer from 0 to"),
        ({"kernel": MCLMC()}, CapabilityError, "MCLMC does so only up to the error of its steps"),
        ({"kernel": ConstrainedHMC(-1.0, 1.0)}, CapabilityError, "leaves out a part of the posterior"),
        ({"target": Target.from_logdensity(lambda q: -(q**2).sum(), np.zeros(2))}, CapabilityError, "BayesianNetwork"),
        ({"target": "weighted"}, CapabilityError, "rows with weights"),
    ],
    ids=["replicas", "steps", "seed", "uncorrected", "confined", "density", "weights"],
)
def test_what_cannot_be_checked_is_refused(arguments, error, message):
    given = {"target": posterior(), "kernel": HMC(num_steps=2)} | arguments
    if given["target"] == "weighted":
        given["target"] = posterior(weights=np.ones(3))
    with pytest.raises(error, match=message):
        checking.check(given.pop("target"), given.pop("kernel"), **given)


def refused(tmp_path, source="diabetes", rows=None, out="check.png", **tables):
    settings = resolve(source, {}, tables)
    command.run(settings, rows=rows, long=False, out=str(tmp_path / out), overwrite=False)


def test_the_command_refuses_in_one_sentence(tmp_path, monkeypatch):
    with pytest.raises(SettingError, match="`--out` must be a picture"):
        refused(tmp_path, out="check.txt")
    with pytest.raises(SettingError, match="`--rows` must be at least 1, got 0"):
        refused(tmp_path, rows=0)
    monkeypatch.setattr(checking, "estimate", lambda *_: 725.0)
    with pytest.raises(SettingError, match=r"^110 coordinates and 50 rows take about 12 min 5 s\. Use fewer"):
        refused(tmp_path, rows=50, network={"hidden": [9]}, likelihood={"name": "gaussian"})
    with pytest.raises(CapabilityError, match="SGHMC"):
        refused(tmp_path, rows=50, network={"hidden": [2]}, kernel={"name": "sghmc"})


@pytest.mark.parametrize(("passes", "code"), [(True, 0), (False, 1)], ids=["passes", "fails"])
def test_the_exit_code_is_the_verdict(passes, code, monkeypatch):
    seen: list[Any] = []
    monkeypatch.setattr(command, "run", lambda settings, **options: seen.append((settings, options)) or passes)
    answer = CliRunner().invoke(app, ["check", "two-moons", "--hidden", "3", "--rows", "9", "--long", "--seed", "4"])
    assert answer.exit_code == code
    ((settings, options),) = seen
    assert (settings.data.source, settings.network.hidden, settings.run.seed) == ("two-moons", (3,), 4)
    assert options == {"rows": 9, "long": True, "out": "check.png", "overwrite": False}


@pytest.mark.slow
def test_the_command_prints_a_verdict_and_draws_it(tmp_path, capsys):
    settings = resolve("two-moons", {}, {"network": {"hidden": [2]}, "kernel": {"name": "mala"}})
    assert command.run(settings, rows=20, long=False, out=str(tmp_path / "check.png"), overwrite=False)
    assert "Passes: p = " in capsys.readouterr().out
    assert (tmp_path / "check.png").stat().st_size > 5000


def test_the_time_of_a_transition_is_that_of_its_steps():
    of_nine: dict[str, Any] = {"num_steps": 9}
    kernels = HMC(**of_nine), WindowedHMC(2, **of_nine), DelayedRejectionHMC(**of_nine), GibbsHMC(HMC(**of_nine))
    assert [_steps(kernel) for kernel in kernels] == [9] * 4
    assert [_steps(kernel) for kernel in (HMC(), WindowedHMC(2), NUTS(max_doublings=3))] == [SHORT, SHORT, 7]


def test_trees_are_cut_wherever_they_are():
    shorter = command._shorter
    assert shorter({"name": "nuts"}) == {"name": "nuts", "max_doublings": 4}
    assert shorter({"name": "xhmc", "max_doublings": 3}) == {"name": "xhmc", "max_doublings": 3}
    assert shorter({"name": "gibbs"})["update"] == {"name": "nuts", "max_doublings": 4}
    assert shorter({"name": "hmc", "num_steps": 7}) == {"name": "hmc", "num_steps": 7}


def test_a_few_draws_beyond_floating_point_numbers_are_the_largest_and_many_are_an_error():
    drawn = np.zeros((2, 400, 5), np.float32)
    drawn[0, :3, 4] = np.inf, -np.inf, np.nan
    assert _share_not_finite(drawn, SIZES) == 3 / 800
    found = _finite(drawn)
    assert np.all(np.isfinite(found))
    assert found[0, 0, 4] > 1e38 > -1e38 > found[0, 1, 4]
    assert np.isfinite(p_values.joint_scores(found, found[0])).all()
    drawn[:, :100, 4] = np.nan
    with pytest.raises(StartError, match=r"In 25 % of the draws .* likelihood\.log_precision is not finite"):
        _share_not_finite(drawn, SIZES)


def test_lost_draws_are_told():
    found = made_up()
    assert "beyond" not in str(found)
    lost = checking.Check(
        found.sizes, found.ranks, found.num_places, found.scores, {**found.about, "not_finite": 0.004}
    )
    assert "0.4 % of the draws were beyond floating-point numbers." in str(lost)
