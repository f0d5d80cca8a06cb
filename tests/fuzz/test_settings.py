"""Settings files, options and arguments of any content: a model that can be counted, or one error."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ergonet import BayesianClassifier, BayesianRegressor, Target
from ergonet.assembly import build
from ergonet.assembly.settings import ModelSettings, Settings, resolve
from ergonet.assembly.settings_file import read_settings_file
from ergonet.cli import fitting
from ergonet.cli.main import app
from ergonet.estimators import base
from tests.fuzz import strategies
from tests.fuzz.outcomes import check_message, outcome

TASKS = [
    build.Task("regression", 2, 1, (1.0,)),
    build.Task("regression", 2, 2, (1.0, 2.0)),
    build.Task("classification", 2, 3),
]


class ReachedError(Exception):
    """Everything before sampling succeeded."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("settings")


@given(content=strategies.tables().map(strategies.as_toml).map(str.encode).flatmap(strategies.altered))
def test_settings_files(content: bytes, folder: Path):
    file = folder / "settings.toml"
    file.write_bytes(content)
    settings = outcome(lambda: resolve("two-moons", read_settings_file(file), {}))
    if settings is not None:
        check_settings(settings)


@given(table=strategies.tables())
def test_tables_of_settings(table: dict[str, Any]):
    settings = outcome(lambda: Settings.from_table(table))
    if settings is not None:
        check_settings(settings)


def check_settings(settings: ModelSettings) -> None:
    if isinstance(settings, Settings):
        outcome(lambda: build.check(settings))
    for task in TASKS:
        model = outcome(lambda task=task: build.model(settings, task))
        assert model is None or 0 < model.dim < 2**33
    outcome(lambda: build.kernel(settings))


@given(given_options=strategies.options())
def test_options(given_options: list[str], folder: Path):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(fitting, "run", lambda *_, **__: 0)
        result = outcome(lambda: CliRunner().invoke(app, ["fit", "two-moons", *given_options]))
    assert result.exit_code in (0, 1, 2), result.exception
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    if result.exit_code == 1:
        check_message(result.stderr)
        assert result.stderr.count("\n") == 1


@given(data=st.data())
def test_estimators(data: st.DataObject):
    kind = data.draw(st.sampled_from([BayesianClassifier, BayesianRegressor]))
    names = ["hidden", "activation", "bias", "standardize", "random_state", *strategies.CHOICES]
    chosen = data.draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    x, y = data.draw(strategies.arrays), data.draw(strategies.arrays)
    if data.draw(st.booleans()) and isinstance(x, np.ndarray) and x.ndim:
        y = data.draw(st.one_of(st.just(np.arange(len(x)) * 1.0), st.just(np.arange(len(x)) % 2)))
    settings = {
        name: data.draw(strategies.choices(name) if name in strategies.CHOICES else strategies.setting_values)
        for name in chosen
    }
    # scikit-learn lets the overflow of integers beyond all floats pass.
    refusals = (ValueError, TypeError, OverflowError)
    reached = outcome(lambda: posterior_of(kind(**settings), x, y), also=refusals)
    assert reached is None or 0 < reached.dim < 2**33


def posterior_of(estimator: Any, x: Any, y: Any) -> Any:
    """The target that `fit` would sample."""
    found: list[Any] = []

    def catch(target: Any, *_: Any, **__: Any) -> Any:
        found.append(target)
        raise ReachedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "sample", catch)
        with pytest.raises(ReachedError):
            estimator.fit(x, y)
    return found[0]


def rowwise(q: Any, rows: Any) -> Any:
    return -0.5 * rows**2


FUNCTIONS = [None, 3, "x", lambda: 0.0, lambda q: 0.0, lambda q: q, lambda q: None, lambda q: 1j, rowwise, dict, print]


@given(
    functions=st.tuples(st.sampled_from(FUNCTIONS), st.sampled_from(FUNCTIONS)),
    data=strategies.arrays,
    example=strategies.arrays,
)
def test_targets(functions: tuple[Any, Any], data: Any, example: Any):
    first, second = functions
    makers = (
        lambda: Target.from_logdensity(first, example),
        lambda: Target.from_terms(first, second, data, example),
    )
    for make in makers:
        target = outcome(make)
        if target is not None:
            assert target.dim > 0
            position = np.zeros(target.dim, np.float32)
            outcome(lambda target=target, at=position: target.potential(at), also=(TypeError, ValueError))
