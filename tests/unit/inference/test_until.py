"""Runs that go on until their predictions are good enough, and stop at the same draw whatever happens to them."""

import pickle
import re
from concurrent.futures import Executor, Future

import numpy as np
import pytest

import ergonet
from ergonet import SGHMC, Until
from ergonet._errors import CapabilityError, SamplingWarning, SettingError
from ergonet.diagnostics import chains, mcse_score
from ergonet.draws import checkpoint
from ergonet.draws.contents import POSITIONS
from ergonet.draws.retention import Every, Last
from ergonet.draws.samples import Samples
from ergonet.draws.store import MemoryStore
from ergonet.inference.trajectory_jobs import TrajectoryJob
from ergonet.inference.until import Verdict, report
from tests.minibatches import linear_regression
from tests.sampling import draw, gaussian_target
from tests.unit.inference.test_resume import assert_resumes
from tests.unit.inference.test_stopping import Heard

RULE = Until(ess=60, rhat=1.2, minimum=20)
LOOKS = (20, 25, 32, 40, 50, 63, 79, 99)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "LARGEST_SHARE", 1e9)
    monkeypatch.setattr(TrajectoryJob, "_chunk_size", lambda self: 10)
    monkeypatch.setattr(TrajectoryJob, "_most_work", lambda self: 10**9)  # on a busy machine chunks would be smaller


@pytest.fixture(scope="module")
def whole():
    return draw(num_draws=100)


@pytest.fixture(scope="module")
def ruled():
    return draw(num_draws=1000, until=RULE)


def first_look(rule, positions):
    """Where a run with these draws should stop."""
    return next(look for look in LOOKS if rule.judge(positions[:, :look]).is_met)


def test_a_run_stops_at_the_first_look_at_which_its_rule_is_met(whole, ruled):
    stop = first_look(RULE, whole.positions)
    assert LOOKS[0] < stop < LOOKS[-1]
    np.testing.assert_array_equal(ruled.positions, whole.positions[:, :stop])
    assert ruled.about["stopped_by"] is None
    assert ruled.about["draws_by_chain"] == [stop, stop]
    found, judged = ruled.about["until"], ruled.diagnostics()
    assert found["met"]
    assert found["num_draws"] == stop
    assert found["rule"] == {"ess": 60.0, "rhat": 1.2, "mcse": None, "score_mcse": None, "minimum": 20}
    assert found["ess"] == pytest.approx(min(judged["min_ess_bulk_function"], judged["min_ess_tail_function"]))
    assert found["rhat"] == pytest.approx(judged["max_rhat_function"])


class Reads:
    """Positions, and how many coordinates were read at a time."""

    def __init__(self, values, widths):
        self.values, self.shape, self.widths = values, values.shape, widths

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        found = self.values[index]
        self.widths.append(found.shape[-1])
        return found


class CountingStore(MemoryStore):
    def __init__(self):
        super().__init__()
        self.widths = []

    def field(self, name):
        values = super().field(name)
        return Reads(values, self.widths) if name == POSITIONS else values


def test_looks_read_a_few_coordinates_at_a_time(ruled, monkeypatch):
    monkeypatch.setattr(chains, "_NUMBERS_IN_A_CHUNK", 1)
    store = CountingStore()
    np.testing.assert_array_equal(draw(num_draws=1000, until=RULE, store=store).positions, ruled.positions)
    assert store.widths.count(1) > 5
    assert store.widths.count(5) == 1  # at the end, for the samples


def test_a_run_says_why_it_stopped():
    heard = Heard()
    found = draw(num_draws=1000, until={"ess": 60, "rhat": 1.2, "minimum": 20}, progress=heard).about["until"]
    assert heard.lines[-1] == found["sentence"]
    assert found["sentence"].startswith(
        f"The stop rule is met after {found['num_draws']} of at most 1000 draws of each"
    )
    assert f"ESS {found['ess']:.0f} (at least 60), R-hat {found['rhat']:.3f} (at most 1.2)" in found["sentence"]


class Watched(Heard):
    """Keeps the progress of a run, too."""

    def __init__(self):
        super().__init__()
        self.ticks = []

    def tick(self, tick):
        self.ticks.append((tick.done, tick.total, tick.is_to_look))


def test_a_run_that_goes_on_says_why_and_shows_how_far():
    watched = Watched()
    with pytest.warns(SamplingWarning, match="not met after 30 draws"):
        samples = draw(num_draws=30, until=Until(ess=5000, minimum=20), progress=watched)
    warmup = samples.about["num_warmup"]
    told = [line for line in watched.lines if "goes on" in line]
    assert [line.split(":")[0] for line in told] == ["After 20 draws of each chain", "After 25 draws of each chain"]
    assert re.search(
        r": ESS \d+ \(at least 5000\) of the worst prediction\. The run goes on to 25 of at most 30\.$", told[0]
    )
    ends = {(total, is_to_look) for _, total, is_to_look in watched.ticks}
    assert ends == {(warmup + 20, True), (warmup + 25, True), (warmup + 30, False)}
    assert all(done <= total for done, total, _ in watched.ticks)


def test_a_run_that_does_not_meet_its_rule_warns_and_has_all_draws(whole):
    with pytest.warns(
        SamplingWarning, match=r"not met after 100 draws .* ESS \d+ \(at least 5000\).* about \d+ at this"
    ):
        samples = draw(num_draws=100, until=Until(ess=5000, minimum=20))
    np.testing.assert_array_equal(samples.positions, whole.positions)
    assert not samples.about["until"]["met"]
    with pytest.warns(SamplingWarning, match=r"R-hat .* \(at most 1\.00001\).* More draws help chains that are slow"):
        draw(num_draws=100, until=Until(rhat=1.00001, minimum=20))
    with pytest.warns(
        SamplingWarning, match=r"ESS \d+ \(at least 100\), MCSE 0\.\d+ \(at most 0\.001\) of the worst prediction\."
    ):
        draw(num_draws=100, until=Until(mcse=0.001, minimum=100))


def test_a_figure_that_is_unknown_is_no_disagreement_of_chains():
    rule = Until(ess=400, rhat=1.01, minimum=20)
    said = report(rule, rule.judge(np.zeros((2, 30, 1))), look=30, most=30, drawn=30)["sentence"]
    assert "What has no figure is constant or not finite" in said
    assert "modes" not in said


def test_a_run_that_was_killed_stops_at_the_same_draw(tmp_path, ruled):
    chunks = {"warm-up": 3, "sampling": 4}  # after the fourth, both chains are at the first look, and nobody has looked
    assert_resumes(tmp_path, lambda **settings: draw(num_draws=1000, until=RULE, **settings), phases=chunks)
    again = draw(num_draws=1000, until=RULE, store=tmp_path / "whole" / "run", resume=True)
    np.testing.assert_array_equal(again.positions[...], ruled.positions)
    assert again.about["until"] == ruled.about["until"]


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_with_another_rule_or_none(tmp_path, whole, ruled):
    draw(num_draws=1000, until=RULE, store=tmp_path / "run")
    stricter = draw(num_draws=1000, until=Until(ess=100, minimum=20), store=tmp_path / "run", resume=True)
    assert ruled.num_draws < stricter.num_draws < 1000
    longer = draw(num_draws=stricter.num_draws + 5, store=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(longer.positions[:, :100], whole.positions)
    assert longer.num_draws == stricter.num_draws + 5
    assert "until" not in longer.about


class Elsewhere(Executor):
    """Makes chunks of copies of the jobs, as other processes do."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.set_result(fn(*pickle.loads(pickle.dumps(args)), **kwargs))
        return future


def test_where_chunks_are_made_does_not_matter(ruled):
    samples = draw(num_draws=1000, until=RULE, executor=Elsewhere(), thin=1)
    np.testing.assert_array_equal(samples.positions, ruled.positions)


def test_looks_count_stored_draws():
    rule = Until(ess=30, minimum=20)
    samples = draw(num_draws=1000, until=rule, thin=2)
    np.testing.assert_array_equal(samples.positions, draw(num_draws=samples.num_draws, thin=2).positions)
    assert samples.num_draws in LOOKS
    again = draw(num_draws=2000, until=rule, retention=Every(2))
    np.testing.assert_array_equal(again.positions, samples.positions)


def test_a_look_at_quantities_without_figures_meets_nothing():
    verdict = Until(ess=1, rhat=2, mcse=9).judge(np.zeros((2, 100, 3)))
    assert isinstance(verdict, Verdict)
    assert not verdict.is_met


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ess": 0}, r"`Until\(ess=\.\.\.\)` must be a number above 0, got 0"),
        ({"ess": float("inf")}, "got inf"),
        ({"rhat": 1}, r"`Until\(rhat=\.\.\.\)` must be a number above 1, got 1"),
        ({"mcse": -0.1}, r"`Until\(mcse=\.\.\.\)` must be a number above 0"),
        ({"ess": "400"}, "must be a number above 0, got '400'"),
        ({"ess": 400, "minimum": 3}, r"`Until\(minimum=\.\.\.\)` must be an integer of at least 4, got 3"),
        ({"minimum": 100}, r"needs a bound: give `ess`, `rhat`, `mcse` or `score_mcse`.*`--until-ess 400`"),
        ({"score_mcse": 0}, r"`Until\(score_mcse=\.\.\.\)` must be a number above 0"),
        ({"score_mcse": 0.1, "held_out": 3}, r"`Until\(held_out=\.\.\.\)` must be a target such as .*, got 3"),
        ({"ess": 9, "held_out": gaussian_target()}, r"`Until\(held_out=\.\.\.\)` is for .*give `score_mcse`"),
        (400, r"`until` must be None or such as `ergonet\.Until\(ess=400\)`, got 400"),
        ({"es": 400}, "`until` has no setting 'es'.*ess"),
    ],
)
def test_rules_that_cannot_be_met_are_refused(settings, said):
    with pytest.raises(SettingError, match=said):
        Until.of(settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"until": Until(ess=400), "num_draws": 100},
            r"looks at 200 draws .* but `num_draws` \(`--draws`\) allows 100.* or leave out the rule \(`until=None`",
        ),
        (
            {"until": Until(rhat=1.01), "num_chains": 1, "num_draws": 500},
            r"`rhat` \(`--until-rhat`\) needs at least 2 chains, got 1.* or leave out the rule",
        ),
        ({"until": RULE, "num_draws": 100, "retention": Last(10)}, r"`retention=Last\(count=10\)` stores the last"),
    ],
)
def test_runs_that_a_rule_cannot_judge_are_refused(settings, said):
    with pytest.raises(SettingError, match=said):
        draw(**settings)


@pytest.fixture(scope="module")
def regression():
    """A model with its data and held-out rows, and a run of it without a rule."""
    random = np.random.default_rng(8)
    x = random.normal(size=(40, 2)).astype(np.float32)
    y = np.sin(x[:, 0]) + 0.3 * random.normal(size=40).astype(np.float32)
    model = ergonet.BayesianNetwork(ergonet.MLP([2, 3, 1]), ergonet.priors.Normal(), ergonet.likelihoods.Gaussian(0.3))
    target = model.condition(x[:30], y[:30])
    return model, target, (x[30:], y[30:]), draw(target=target, kernel=NUTS, num_draws=100)


NUTS = ergonet.NUTS(max_doublings=3)
OF_SCORE = {"ess": 4, "score_mcse": 0.015, "minimum": 20}


def run_with_held_out_rows(regression, score_mcse=OF_SCORE["score_mcse"], **settings):
    model, target, rows, _ = regression
    rule = Until(**{**OF_SCORE, "score_mcse": score_mcse}, held_out=model.condition(*rows))
    return draw(target=target, kernel=NUTS, num_draws=1000, until=rule, **settings)


def test_a_run_stops_once_the_score_of_held_out_rows_is_known(regression):
    model, _, rows, whole = regression
    density = Samples(**{**vars(whole), "target": model.condition(*rows)}).log_likelihood()
    errors = {look: mcse_score(density[:, :look]) for look in LOOKS}
    most = round(1.001 * min(errors.values()), 6)  # the sentence has as many digits
    first = next(look for look, error in errors.items() if error <= most)
    found = run_with_held_out_rows(regression, score_mcse=most)
    said = found.about["until"]
    assert found.num_draws == first
    np.testing.assert_array_equal(found.positions, whole.positions[:, :first])
    assert said["score_mcse"] == pytest.approx(errors[first], rel=1e-4)
    assert f"(at most {most:g}) of the mean log score of held-out rows" in said["sentence"]


@pytest.mark.slow
def test_a_run_that_was_killed_stops_at_the_same_score(tmp_path, regression):
    assert_resumes(
        tmp_path, lambda **settings: run_with_held_out_rows(regression, **settings), {"warm-up": 3, "sampling": 4}
    )
    again = run_with_held_out_rows(regression, store=tmp_path / "whole" / "run", resume=True)
    assert again.about["until"] == run_with_held_out_rows(regression).about["until"]


def test_without_held_out_rows_the_score_is_that_of_the_fit(regression):
    _, target, _, whole = regression
    said = draw(target=target, kernel=NUTS, num_draws=1000, until=OF_SCORE).about["until"]
    density = whole.log_likelihood()[:, : said["num_draws"]]
    assert said["score_mcse"] == pytest.approx(mcse_score(density), rel=1e-4)
    assert "of the mean log score of the rows of the fit" in said["sentence"]


def test_scores_need_rows_of_the_same_model(regression):
    model, _, rows, _ = regression
    with pytest.raises(CapabilityError, match=r"`Until\(score_mcse=\.\.\.\)` needs the log likelihood of each row"):
        draw(num_draws=1000, until=OF_SCORE)
    with pytest.raises(SettingError, match=r"has 13 coordinates, but the target has 5"):
        draw(num_draws=1000, until=Until(**OF_SCORE, held_out=model.condition(*rows)))


def test_errors_count_only_from_enough_effective_draws():
    values = np.random.default_rng(3).normal(size=(2, 30, 1))
    assert not Until(mcse=1).judge(values).is_met
    assert Until(mcse=1, ess=10).judge(values).is_met
    assert not Until(score_mcse=1).judge(values, values).is_met


def test_minibatch_kernels_have_no_such_rule():
    kernel = SGHMC(learning_rate=1e-4, batch_size=8)
    with pytest.raises(SettingError, match=r"`until`.* is for kernels of all rows: minibatches give `SGHMC` a bias"):
        ergonet.sample(linear_regression()[0], kernel, seed=1, until=RULE, progress=False)
