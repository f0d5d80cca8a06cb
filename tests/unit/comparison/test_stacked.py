"""Stacked predictors: averages of predictive distributions, saved and loaded; and the command that makes them."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

from ergonet import Samples, load
from ergonet._errors import RunDirectoryError, SettingError
from ergonet.assembly import build
from ergonet.assembly.settings import resolve
from ergonet.cli import loading
from ergonet.cli.main import app
from ergonet.comparison import Stacked
from ergonet.partition import LogMass
from ergonet.runs.directory import RunDirectory

pytestmark = pytest.mark.slow

ROWS, NOISE = 60, 0.8
WEIGHTS = {"near": 0.6, "far": 0.4}


def write(folder, name, offset, *, target="z", drop=(), transform=None, weights=None):
    """A run of a linear network whose draws are around the truth plus an offset of the bias."""
    given = {
        "data": {"target": (target,), "drop": drop, "target_transform": transform, "weights": weights},
        "network": {"hidden": ()},
        "kernel": {"name": "nuts"},
    }
    given |= {"likelihood": {"name": "gaussian", "noise": NOISE}, "prior": {"name": "normal"}}
    settings = resolve(str(folder / "table.csv"), {}, given)
    dataset = loading.load_data(settings.data, seed=0)
    settings = build.complete(settings, dataset.preprocessing)
    model = build.model(settings, build.Task.of(dataset.preprocessing))
    columns = np.column_stack([dataset.x_train, np.ones(len(dataset.x_train))])
    truth = np.linalg.lstsq(columns, dataset.y_train[:, 0], rcond=None)[0]
    truth[-1] += offset / dataset.preprocessing.target_sd[0]
    positions = truth + 0.1 * np.random.default_rng(3).normal(size=(1, 64, model.dim))
    directory = RunDirectory(folder / name)
    directory.write_settings(settings, dataset.preprocessing)
    Samples(positions.astype(np.float32), {}, {}, {}, {}, {}, {}).save(directory.draws)
    directory.write_manifest()
    return directory


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stacked")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=ROWS), "y": rng.normal(size=ROWS)})
    table = table.assign(z=3 * table["x"] - table["y"] + 20 + NOISE * rng.normal(size=ROWS))
    table.to_csv(folder / "table.csv", index=False)
    write(folder, "near", 0.0)
    write(folder, "far", 3.0)
    return folder


@pytest.fixture(scope="module")
def stacked(folder):
    return Stacked.of({folder / name: weight for name, weight in WEIGHTS.items()})


def normals(stacked, x):
    """Mean of each draw's normal distribution, `[member, draw, row]`, in units of the table."""
    found = []
    for one in stacked.members:
        inputs = np.column_stack([one.preprocessing.transform(x), np.ones(len(x))])
        weights = np.asarray(one.samples.positions[...]).reshape(-1, 3)
        found.append(one.preprocessing.inverse_mean((weights @ inputs.T)[..., None])[..., 0])
    return np.stack(found)


def test_the_average_has_the_moments_and_quantiles_of_the_mixture(stacked):
    x = pd.DataFrame({"x": [0.0, 1.0], "y": [0.5, -2.0]})
    y = np.array([21.0, 24.0])
    found = stacked.predict(x, levels=(0.05, 0.5, 0.95), y=y)
    means, weights = normals(stacked, x), np.array(list(WEIGHTS.values()))
    each = np.repeat(weights[:, None] / means.shape[1], means.shape[1], 1).reshape(-1)
    flat = means.reshape(-1, 2)
    mean = each @ flat
    np.testing.assert_allclose(found.mean[:, 0], mean, rtol=1e-5)
    spread = np.sqrt(each @ (flat - mean) ** 2)
    np.testing.assert_allclose(found.function_sd[:, 0], spread, rtol=1e-4)
    np.testing.assert_allclose(found.sd[:, 0], np.hypot(spread, NOISE), rtol=1e-4)
    np.testing.assert_allclose(np.exp(found.log_density), each @ stats.norm.pdf(y, flat, NOISE), rtol=1e-4)
    reached = [each @ stats.norm.cdf(one[:, 0], flat, NOISE) for one in found.quantiles]
    np.testing.assert_allclose(np.stack(reached), np.repeat([[0.05], [0.5], [0.95]], 2, 1), atol=1e-4)


def test_quantiles_where_one_member_holds_no_target_possible(folder):
    """The plain member is around -3.5 in the first row, where the logarithm has no argument."""
    write(folder, "logarithm", 0.0, transform="log")
    both = Stacked.of({folder / "near": 0.6, folder / "logarithm": 0.4})
    x, levels = pd.DataFrame({"x": [-8.0, 0.0], "y": [-0.5, 0.5]}), (0.05, 0.3, 0.7, 0.95)
    found = both.predict(x, levels=levels).quantiles[..., 0]
    drawn = both.sample(x, num_samples=4000, seed=0)[..., 0]
    shares = np.stack([np.mean(drawn <= one, axis=0) for one in found])
    assert found[0, 0] < 0
    np.testing.assert_allclose(shares, np.repeat(np.array(levels)[:, None], 2, axis=1), atol=0.04)


def test_simulated_targets_are_of_the_mixture(stacked):
    x = pd.DataFrame({"x": [0.0], "y": [0.5]})
    drawn = stacked.sample(x, num_samples=2000, seed=1)
    assert drawn.shape == (2000, 1, 1)
    found = stacked.predict(x, levels=())
    assert abs(drawn.mean() - found.mean[0, 0]) < 4 * found.sd[0, 0] / np.sqrt(2000)
    assert np.mean(drawn > 21) == pytest.approx(0.4, abs=0.08)  # the members are at 19.5 and 22.5


def test_what_is_saved_predicts_the_same_without_other_files(stacked, tmp_path):
    x = pd.DataFrame({"x": [0.0, 1.0], "y": [0.5, -2.0]})
    again = Stacked.load(stacked.save(tmp_path / "stack"))
    np.testing.assert_array_equal(again.predict(x, levels=()).sd, stacked.predict(x, levels=()).sd)
    with pytest.raises(RunDirectoryError, match="overwrite=True"):
        stacked.save(tmp_path / "stack")
    stacked.save(tmp_path / "stack", overwrite=True)
    (tmp_path / "stack" / "notes.txt").write_text("mine")
    with pytest.raises(RunDirectoryError, match=r"notes\.txt"):
        stacked.save(tmp_path / "stack", overwrite=True)


@pytest.mark.parametrize("text", ["{}", '{"format_version": 1}', '{"format_version": 1, "weights": ["x"]}', "no"])
def test_a_damaged_folder_is_an_error(text, tmp_path):
    (tmp_path / "stack.json").write_text(text)
    with pytest.raises(RunDirectoryError, match=r"stack\.json"):
        Stacked.load(tmp_path)


def test_runs_must_predict_the_same(folder):
    write(folder, "other", 0.0, target="y")
    with pytest.raises(SettingError, match="`target_names` of"):
        Stacked.of({folder / "near": 0.5, folder / "other": 0.5})
    with pytest.raises(SettingError, match="weights of at least 0"):
        Stacked.of({folder / "near": -1.0})
    assert len(Stacked.of({folder / "near": 1.0, folder / "far": 0.0}).members) == 1


def test_the_command_compares_and_stacks(folder, tmp_path, monkeypatch):
    near, far = str(folder / "near"), str(folder / "far")
    arguments = ["compare", near, far, "--waic", "--evidence", "--stack", str(tmp_path / "stack")]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 0, answer.output
    assert f"{near}  `evidence` needs draws of a kernel of all rows" in answer.output
    assert f"{near} predicts better than {far}, by more than the noise." in answer.output
    assert answer.output.startswith("LOO, 48 rows, nats; larger is better\n")
    assert "WAIC, 48 rows" in answer.output
    stacked = Stacked.load(tmp_path / "stack")
    answer = CliRunner().invoke(
        app, ["predict", str(tmp_path / "stack"), str(folder / "table.csv"), "--out", str(tmp_path / "new.csv")]
    )
    assert answer.output == f"Predicted {ROWS} rows: {tmp_path / 'new.csv'}\n"
    written, expected = (
        pd.read_csv(tmp_path / "new.csv"),
        stacked.predict(pd.read_csv(folder / "table.csv")[["x", "y"]]),
    )
    np.testing.assert_allclose(written["mean"], expected.mean[:, 0], rtol=1e-5)
    np.testing.assert_allclose(written["q95"], expected.quantiles[1, :, 0], rtol=1e-5)
    assert load(folder / "near" / "draws.zarr").num_draws == 64
    with monkeypatch.context() as patch:
        patch.setattr("ergonet.cli.comparing._compared", None)  # it is not even begun
        answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 1
    assert "stack' exists. Choose another folder for `--stack`" in answer.output


def test_a_value_that_cannot_be_predicted_from_is_named_with_its_file(stacked, tmp_path, monkeypatch):
    monkeypatch.setattr("ergonet.cli.predicting.BLOCK_ROWS", 2)
    stacked.save(tmp_path / "stack")
    pd.DataFrame({"x": [0.0, 1.0, 2.0, np.inf], "y": 0.0}).to_csv(tmp_path / "bad.csv", index=False)
    arguments = ["predict", str(tmp_path / "stack"), str(tmp_path / "bad.csv"), "--out", str(tmp_path / "new.csv")]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 1
    assert f"Column 'x' of the block of data rows 3 to 4 of the file {tmp_path / 'bad.csv'} has an infinite" in (
        answer.output
    )


def test_the_command_refuses_other_rows_and_one_run(folder, tmp_path):
    near = str(folder / "near")
    answer = CliRunner().invoke(app, ["compare", near, near])
    assert answer.exit_code == 1
    assert "two or more different run directories" in answer.output
    (tmp_path / "sub").mkdir()
    pd.read_csv(folder / "table.csv").iloc[:40].to_csv(tmp_path / "sub" / "table.csv", index=False)
    write(tmp_path / "sub", "short", 0.0)
    answer = CliRunner().invoke(app, ["compare", near, str(tmp_path / "sub" / "short")])
    assert answer.exit_code == 1
    assert "were not fitted to the same rows (48 and 32" in answer.output


def test_runs_of_weighted_rows_are_compared_by_held_out_rows(tmp_path, monkeypatch):
    rows = np.arange(20.0)
    pd.DataFrame({"x": rows, "z": rows % 5 / 2, "w": 1 + rows % 2}).to_csv(tmp_path / "table.csv", index=False)
    runs = [write(tmp_path, name, 0.0, weights="w") for name in WEIGHTS]
    names = [str(one.path) for one in runs]
    answer = CliRunner().invoke(app, ["compare", *names])
    said = f"LOO is left out, for {names[0]!r}: The rows have weights, so a row cannot be left out as one observation."
    assert answer.exit_code == 1
    assert said in answer.output
    assert answer.output.endswith("Fit the runs with a `--test-fraction` above 0.\n")
    for one, score in zip(runs, (-1.0, -2.0), strict=True):
        truth = np.arange(4.0)
        held = {"truth": truth, "test_rows": truth, "log_density": score + truth / 10}
        one.write_results({}, held, load(one.draws))
        one.write_manifest()
    monkeypatch.setattr("ergonet.partition.evidence.evidence", lambda *_: LogMass(0.0, 0.1, 9.0, 0.5, (0.0, 0.0)))
    answer = CliRunner().invoke(app, ["compare", *names, "--evidence", "--stack", str(tmp_path / "stack")])
    assert answer.exit_code == 0, answer.output
    assert answer.output.startswith(said)
    settings, preprocessing = runs[0].read_settings()
    weights = loading.load_data(settings.data, seed=0).weights
    assert (
        f"\n{names[0]}  {-np.log(preprocessing.target_sd[0]) * weights.sum():.2f} \N{PLUS-MINUS SIGN} 0.10\n"
        in answer.output
    )  # a row counts by its weight
    assert "\n\nheld-out rows, 4 rows, nats; larger is better\nmodel" in answer.output
    assert "bad k" not in answer.output
    assert answer.output.endswith(f"Stacked predictor of 1 run, weighted by held-out rows: {tmp_path / 'stack'}\n")
