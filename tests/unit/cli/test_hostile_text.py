"""Text from data executes nothing: no formulas in tables, no commands to terminals, no programs of other users."""

import io
import sys
import warnings

import jax
import numpy as np
import pandas as pd
import pytest
import typer

from ergonet._errors import DataError, RunDirectoryError, SettingError, visible
from ergonet.cli import fitting, summary
from ergonet.cli.errors import errors_in_one_line
from ergonet.cli.outputs import table_file
from ergonet.cli.predicting import classes, numbers
from ergonet.datasets import from_table
from ergonet.inference import compiled
from ergonet.prediction.predictive import Prediction

ESCAPE = "\x1b[2J\x1b]0;owned\x07"
FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-1+1", "@SUM(1)", "\tx", "\rx"]


def learned(labels, target="kind"):
    frame = pd.DataFrame({"size": np.arange(len(labels) * 4.0), target: labels * 4})
    return from_table(frame, target, test_fraction=0.0).preprocessing


def write(table, path):
    with table_file(path) as file:
        file.append(table)


def probabilities(values):
    nothing = np.zeros(len(values))
    none = dict.fromkeys(("sd", "noise_sd", "quantiles", "log_density"))
    return Prediction(values, function_sd=values, levels=(), entropy=nothing, expected_entropy=nothing, **none)


def test_formulas_in_cells_and_names_are_text(tmp_path):
    preprocessing = learned([*FORMULAS, "plain", "it's"])
    table = classes(probabilities(np.eye(8)), preprocessing)
    write(table, tmp_path / "new.csv")
    found = pd.read_csv(tmp_path / "new.csv")
    assert [one[:2] for one in sorted(found["predicted"])][:6] == sorted("'" + one[0] for one in FORMULAS)
    assert {"plain", "it's"} < set(found["predicted"])
    np.testing.assert_array_equal(found.filter(regex="probability_"), np.eye(8))
    write(table, tmp_path / "new.parquet")
    assert sorted(pd.read_parquet(tmp_path / "new.parquet")["predicted"]) == sorted([*FORMULAS, "plain", "it's"])


def test_names_of_targets_are_no_formulas_and_numbers_staynumbers(tmp_path):
    z = np.random.default_rng(0).normal(size=30)
    frame = pd.DataFrame({"size": z, "=1+1": -z, "b": z**2})
    preprocessing = from_table(frame, ["=1+1", "b"], test_fraction=0.0).preprocessing
    values = np.full((3, 2), -1.0, np.float32)
    none = dict.fromkeys(("log_density", "entropy", "expected_entropy"))
    quantiles = np.stack([values, values])
    prediction = Prediction(values, -values, -values, -values, levels=(0.05, 0.95), quantiles=quantiles, **none)
    table = numbers(prediction, preprocessing)
    write(table, tmp_path / "new.csv")
    found = pd.read_csv(tmp_path / "new.csv")
    assert list(found.columns)[:2] == ["'=1+1_mean", "'=1+1_sd"]
    np.testing.assert_allclose(found, table)
    assert found["b_mean"].to_numpy().max() < 0


def test_labels_that_are_numbers_staynumbers(tmp_path):
    write(classes(probabilities(np.eye(2)), learned([-1, 1])), tmp_path / "new.csv")
    assert pd.read_csv(tmp_path / "new.csv")["predicted"].tolist() == [-1, 1]


@pytest.mark.parametrize("kind", [DataError, SettingError, RunDirectoryError])
def test_errors_show_what_would_command_a_terminal(kind):
    text = str(kind(f"column {ESCAPE} of\tthe file\n\u202etxt.exe"))
    assert text == "column \\x1b[2J\\x1b]0;owned\\x07 of\tthe file\n\\u202etxt.exe"


def test_text_that_commands_nothing_stays():
    text = "Größe\tµ \u202f90 % \N{GRINNING FACE}\n'a\\x1b'"
    assert visible(text) == text


def test_the_command_writes_nothing_that_commands_a_terminal(monkeypatch):
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)

    def fail():
        with errors_in_one_line():
            warnings.warn(f"Dropped {ESCAPE}", UserWarning, stacklevel=1)
            summary.write(f"Report: {ESCAPE}")
            raise FileNotFoundError(f"no {ESCAPE}")

    with pytest.raises(typer.Exit):
        fail()
    for text in (out.getvalue(), err.getvalue()):
        assert "\\x1b[2J" in text
        assert not {"\x1b", "\x07"} & set(text)


MINIMUM = "jax_persistent_cache_min_compile_time_secs"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The command's cache folder, in a process in which no cache is chosen."""
    before = {name: getattr(jax.config, name) for name in ("jax_compilation_cache_dir", MINIMUM)}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", None)
    yield tmp_path / "ergonet" / "compiled"
    for name, value in before.items():
        jax.config.update(name, value)


def test_a_cache_of_ones_own_is_used(cache):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitting.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir == str(cache)


@pytest.mark.parametrize("switch", ["off", "0"])
def test_a_cache_that_is_switched_off_is_not_used(cache, monkeypatch, switch):
    monkeypatch.setenv("ERGONET_COMPILATION_CACHE", switch)
    assert compiled.keep_compiled_programs() == ""
    assert jax.config.jax_compilation_cache_dir is None
    assert not cache.exists()


def test_the_cache_is_shrunk_when_it_is_chosen(cache, monkeypatch):
    cache.mkdir(parents=True)
    (cache / "jit_old-cache").write_bytes(bytes(100))
    monkeypatch.setattr(compiled, "MOST_BYTES", 50)
    compiled.keep_compiled_programs()
    assert not list(cache.iterdir())


@pytest.mark.parametrize("inner", [True, False])
def test_a_cache_that_everybody_may_write_is_not_used(cache, inner):
    cache.mkdir(parents=True)
    (cache if inner else cache.parent).chmod(0o777)
    with pytest.warns(UserWarning, match=r"programs are not cached: everybody may write to the folder .*chmod"):
        fitting.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir is None


def test_a_cache_of_another_user_is_not_used(cache, monkeypatch):
    own = compiled.os.getuid()
    monkeypatch.setattr(compiled.os, "getuid", lambda: own + 1)
    with pytest.warns(UserWarning, match="belongs to another user. Set XDG_CACHE_HOME"):
        fitting.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir is None
