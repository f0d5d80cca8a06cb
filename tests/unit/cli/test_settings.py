"""Defaults, file and options are put together; what cannot be is refused with the nearest names."""

import dataclasses
import re
import tomllib

import pytest

from ergonet._errors import SettingError
from ergonet.assembly.builtin import BUILT_IN
from ergonet.assembly.settings import DataSettings, Settings, in_words, merge, resolve
from ergonet.assembly.settings_file import read_settings_file
from ergonet.datasets.registry import names
from ergonet.runs.toml import to_toml
from ergonet.samplers.registry import KERNELS


@pytest.mark.parametrize("source", ["digits", "table.csv"])
def test_what_depends_on_the_table_is_left_open(source):
    settings = resolve(source, {}, {})
    assert (settings.network.hidden, settings.network.activation, settings.network.bias) == (None, None, True)
    assert settings.prior == settings.likelihood == settings.kernel == {}
    run = settings.run
    assert (run.num_chains, run.num_warmup, run.num_draws, run.warm_start) == (None, None, None, None)
    assert (run.thin, run.seed) == (1, 0)


def test_options_override_the_file_and_the_file_overrides_defaults():
    file = {"run": {"num_chains": 3, "num_draws": 70}, "network": {"hidden": [7]}}
    settings = resolve("digits", file, {"run": {"num_draws": 80}})
    assert (settings.run.num_chains, settings.run.num_warmup, settings.run.num_draws) == (3, None, 80)
    assert settings.network.hidden == (7,)


def test_the_source_may_stand_in_the_file():
    assert resolve(None, {"data": {"source": "digits"}}, {}).data.source == "digits"
    assert resolve("a.csv", {"data": {"source": "digits"}}, {}).data.source == "a.csv"
    with pytest.raises(SettingError, match="give DATA"):
        resolve(None, {}, {})


def test_another_name_drops_the_settings_of_the_one_below():
    below = {"kernel": {"name": "nuts", "max_doublings": 8}, "prior": {"name": "normal", "mean": 1.0}}
    assert merge(below, {"kernel": {"name": "hmc"}})["kernel"] == {"name": "hmc"}
    assert merge(below, {"kernel": {"metric": "dense"}})["kernel"]["max_doublings"] == 8
    assert merge(below, {"prior": {"name": "normal", "scale": 2.0}})["prior"]["mean"] == 1.0


def test_a_nameless_table_of_the_file_says_more_of_what_an_option_names():
    for kind, settings, name in (("kernel", {"target_acceptance": 0.9}, "hmc"), ("prior", {"scale": 2.0}, "laplace")):
        found = getattr(resolve("digits", {kind: settings}, {kind: {"name": name}}), kind)
        assert found == {"name": name, **settings}
    named = {"kernel": {"name": "nuts", "target_acceptance": 0.9}}
    assert resolve("digits", named, {"kernel": {"name": "hmc"}}).kernel == {"name": "hmc"}


def test_patterns_replace_one_prior_for_all():
    patterns = {"layers.0.*": {"name": "normal"}, "*": {"name": "laplace"}}
    assert resolve("a.csv", {"prior": patterns}, {}).prior == patterns
    assert resolve("a.csv", {"prior": patterns}, {"prior": {"name": "student-t"}}).prior == {"name": "student-t"}


def test_settings_survive_a_file():
    options = {
        "data": {"target": ["price", 'odd "name"'], "types": {"a b": "date"}, "drop": ["c"], "folder": "d"},
        "prior": {"name": "student-t", "degrees": 3.0},
        "run": {"time_limit": 12.5, "devices": 2},
    }
    settings = resolve("table.csv", {}, options)
    again = Settings.from_table(tomllib.loads(to_toml(settings.to_table())))
    assert again == settings


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"run": {"num_draws": -5}}, "`--draws` .* at least 1, got -5"),
        ({"run": {"num_chains": 0}}, "`--chains` .* at least 1, got 0"),
        ({"run": {"num_chains": True}}, "`--chains`"),
        ({"run": {"num_warmup": -1}}, "`--warmup` .* at least 0"),
        ({"run": {"thin": 0}}, "`--thin`"),
        ({"run": {"thin": 1.5}}, "`--thin` .* whole number"),
        ({"run": {"seed": -1}}, "`--seed`"),
        ({"run": {"seed": 2**32}}, "`--seed` .* at most 4294967295"),
        ({"run": {"devices": 0}}, "`--devices`"),
        ({"run": {"time_limit": 0}}, "`--time-limit` .* above 0"),
        ({"run": {"time_limit": float("nan")}}, "`--time-limit`"),
        ({"data": {"test_fraction": 1.0}}, "`--test-fraction` .* below 1"),
        ({"data": {"target": 3}}, "`--target`"),
        ({"data": {"one_hot": True}}, r"\[data\] has no setting `one_hot`. Did you mean 'one_hot_limit'"),
        ({"data": {"one_hot_limit": 0}}, "`--one-hot-limit` .* at least 1, got 0"),
        ({"data": {"missing": "mean"}}, "`--missing` .* must be indicator or refuse, got 'mean'"),
        ({"data": {"types": ["a=date"]}}, "`--types` .* must be a table of columns and their kinds"),
        ({"data": {"fetch": 1}}, "`--fetch` .* true or false"),
        ({"data": {"folder": 3}}, r"`--data` \(`folder` in \[data\].* must be text"),
        ({"network": {"hidden": [0]}}, "`--hidden` .* at least 1"),
        ({"network": {"hidden": "35"}}, "`--hidden`"),
        ({"network": {"bias": 1}}, "`--bias` .* true or false"),
        ({"network": {"activation": 3}}, "`--activation` .* text"),
        ({"network": {"hiden": [3]}}, r"\[network\] has no setting `hiden`. Did you mean 'hidden'"),
        ({"netwrk": {}}, r"no table \[netwrk\] .* Did you mean 'network'"),
        ({"prior": "normal"}, "`prior` must be a table"),
    ],
)
def test_impossible_settings_are_named(table, message):
    with pytest.raises(SettingError, match=message):
        resolve("a.csv", table, {})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[network\n", "is not TOML: .*line 1"),
        ("[netwrk]\n", "settings.toml: There is no table"),
        ("seed = 3\n", "settings.toml: There is no table"),
    ],
)
def test_settings_files_are_checked(tmp_path, content, message):
    file = tmp_path / "settings.toml"
    file.write_text(content)
    with pytest.raises(SettingError, match=message):
        read_settings_file(file)


def test_a_missing_settings_file_is_named(tmp_path):
    with pytest.raises(SettingError, match=re.escape("there is no file")):
        read_settings_file(tmp_path / "none.toml")


def test_defaults_are_settings_and_have_words():
    assert set(BUILT_IN) <= set(names())
    for name in names():
        own = BUILT_IN.get(name, {})
        if "network" in own:
            assert "-".join(map(str, own["network"]["hidden"])) in in_words(name)
        if "run" in own:
            assert f"({own['run']['num_warmup']} + {own['run']['num_draws']})" in in_words(name)
            assert f"{KERNELS.load(own['kernel']['name']).__name__}, " in in_words(name)
    assert in_words("digits") == "the default"
    assert {table for one in BUILT_IN.values() for table in one} <= {one.name for one in dataclasses.fields(Settings)}
    assert DataSettings().target == ()


def test_a_scale_does_not_reach_priors_by_pattern():
    file = {"prior": {"*.weight": {"name": "normal-gamma"}, "*.bias": {"name": "normal"}}}
    with pytest.raises(SettingError, match=r"`--prior-scale` cannot change the priors of '\*.weight', '\*.bias'"):
        resolve("digits", file, {"prior": {"scale": 2.0}})
    assert resolve("digits", file, {"prior": {"name": "normal", "scale": 2.0}}).prior == {
        "name": "normal",
        "scale": 2.0,
    }
    assert resolve("digits", file, {}).prior == file["prior"]
