"""Files of a run directory and of a saved estimator with any damage: the same predictions, or one error."""

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ergonet import BayesianRegressor
from ergonet._errors import SamplingWarning
from ergonet.cli.main import app
from tests.fuzz import strategies
from tests.fuzz.outcomes import check_message, check_output, outcome

pytestmark = pytest.mark.slow

HOSTILE = ["a\x1b[2J\u202e", "=$^$<b>\x07", "y\x1b]0;owned\x07<script>"]  # names of columns
TINY = ("--kernel", "nuts", "--chains", "2", "--warmup", "20", "--draws", "10", "--hidden", "2")
X = np.random.default_rng(0).normal(size=(20, 2))
NEW = X[:3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    """A run directory `run` and an estimator `saved`, and what they predict for `new.csv`."""
    place = tmp_path_factory.mktemp("runs")
    table = pd.DataFrame(X, columns=HOSTILE[:2])
    table.assign(**{HOSTILE[2]: X.sum(axis=1)}).to_csv(place / "table.csv", index=False)
    pd.DataFrame(NEW, columns=HOSTILE[:2]).to_csv(place / "new.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        result = call("fit", "table.csv", "--target", HOSTILE[2], *TINY, "--out", "run")
        assert result.exit_code == 0, result.output
        check_output(result.output)
        assert call("predict", "run", "new.csv", "--out", "expected.csv").exit_code == 0
        estimator = BayesianRegressor(
            hidden=2, kernel="nuts", num_chains=2, num_warmup=20, num_draws=10, random_state=0
        )
        with pytest.warns(SamplingWarning):
            estimator.fit(X, X.sum(axis=1)).save("saved")
        np.save("expected.npy", estimator.predict(NEW))
        yield place


def test_no_name_commands_a_terminal_or_a_browser(folder: Path):
    for command in ("diagnose", "report", "verify"):
        check_output(call(command, "run").output)
    report = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert not {"\x1b", "\x07"} & set(report)
    assert "owned" in report
    assert not {"<b>", "<script>"} & set(re.findall("<b>|<script>", report.partition("owned")[2][:1]))


def call(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


@st.composite
def damage(draw: st.DrawFn, whole: Path) -> tuple[Path, bytes | None]:
    """A file of a folder, relative to it, and its new content; None: deleted."""
    file = draw(st.sampled_from(sorted(one for one in whole.rglob("*") if one.is_file())))
    how = draw(st.sampled_from(["deleted", "altered", "altered", "value", "value"]))
    content = file.read_bytes()
    if how == "deleted":
        return file.relative_to(whole), None
    if how == "value" and file.suffix in (".json", ".toml"):
        tree = json.loads(content) if file.suffix == ".json" else tomllib.loads(content.decode())
        tree = replaced(draw, tree)
        is_json = file.suffix == ".json" or not isinstance(tree, dict)
        return file.relative_to(whole), (json.dumps(tree) if is_json else strategies.as_toml(tree)).encode()
    return file.relative_to(whole), draw(strategies.altered(content))


def replaced(draw: st.DrawFn, tree: Any) -> Any:
    """The tree with one part at any depth replaced or left out."""
    if isinstance(tree, dict) and tree and draw(st.integers(0, 9)):
        key = draw(st.sampled_from(sorted(tree)))
        if draw(st.integers(0, 5)) == 0:
            return {name: one for name, one in tree.items() if name != key}
        return {**tree, key: replaced(draw, tree[key])}
    if isinstance(tree, list) and tree and draw(st.booleans()):
        index = draw(st.integers(0, len(tree) - 1))
        return [*tree[:index], replaced(draw, tree[index]), *tree[index + 1 :]]
    return draw(strategies.setting_values)


def copy(whole: Path, to: Path, file: Path, content: bytes | None) -> None:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(whole, to)
    if content is None:
        (to / file).unlink()
    else:
        (to / file).write_bytes(content)


@given(data=st.data())
def test_run_directories(folder: Path, data: st.DataObject):
    file, content = data.draw(damage(folder / "run"))
    copy(folder / "run", folder / "tried", file, content)
    command = data.draw(st.sampled_from(["predict", "predict", "diagnose", "report", "verify"]))
    rest = ("new.csv", "--out", "found.csv", "--overwrite") if command == "predict" else ()
    result = outcome(lambda: call(command, "tried", *rest))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (0, 1), result.output
    if result.exit_code == 1:
        check_message(result.output)
        return
    if command == "predict":
        found, expected = (pd.read_csv(folder / name).to_numpy() for name in ("found.csv", "expected.csv"))
        np.testing.assert_array_equal(found, expected)


@given(data=st.data())
def test_estimator_folders(folder: Path, data: st.DataObject):
    file, content = data.draw(damage(folder / "saved"))
    copy(folder / "saved", folder / "tried", file, content)
    found = outcome(lambda: BayesianRegressor.load(folder / "tried").predict(NEW))
    if found is not None:
        np.testing.assert_array_equal(found, np.load(folder / "expected.npy"))


@given(x=strategies.arrays)
def test_new_rows(folder: Path, x: Any):
    estimator = outcome(lambda: BayesianRegressor.load(folder / "saved"))
    found = outcome(lambda: estimator.predict(x), also=(ValueError, TypeError))
    if found is not None:
        assert np.isfinite(found).all()
        assert len(found) == len(x)
