"""Settings that no computer can use: one error each."""

import pytest

from ergonet import MLP
from ergonet._checks import is_number
from ergonet._errors import SettingError
from ergonet.assembly import build
from ergonet.assembly.settings import Settings
from ergonet.assembly.settings_file import read_settings_file

HUGE = 10**400


@pytest.mark.parametrize("hidden", [10**26, [10**26], pytest.param(10**5000, id="5001 digits"), [1] * 1001])
def test_networks_of_absurd_sizes_are_rejected(hidden):
    with pytest.raises(SettingError, match=r"`--hidden` .* at most 1000000 \(1000 layers at most\)") as caught:
        Settings.from_table({"network": {"hidden": hidden}})
    assert len(str(caught.value)) < 400


def test_more_weights_than_can_be_counted_are_rejected():
    with pytest.raises(SettingError, match=r"`MLP\(sizes=...\)` would have \d+ weights, .* at most 2147483647"):
        MLP((1, 10**6, 10**6, 1))
    with pytest.raises(SettingError, match="would have"):
        MLP((1, 10**26, 1))


@pytest.mark.parametrize(
    "table",
    [
        {"kernel": {"name": "nuts", "step_size": HUGE}},
        {"likelihood": {"name": "gaussian", "noise": HUGE}},
        {"prior": {"name": "normal", "mean": HUGE}},
        {"prior": {"scale": 10**5000}},
        {"run": {"time_limit": HUGE}},
    ],
)
def test_integers_beyond_all_floats_are_rejected(table):
    with pytest.raises(SettingError, match=r"(too large|above 0), got (1000|a int)"):
        build.check(Settings.from_table(table))


@pytest.mark.parametrize("value", [10**400, -(10**400), True, "1", None])
def test_integers_beyond_all_floats_are_no_numbers(value):
    assert not is_number(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = " + "9" * 5000, "is not TOML: Exceeds the limit"),
        ("a = " + "[" * 5000, "is not TOML: maximum recursion"),
        ("a." * 3000 + "a = 1", "is not TOML|There is no table"),
        ("[run]\nthin = 0x" + "f" * 6000, "`--thin` .* at most 1073741824 and at least 1, got "),
        ("#" * 2**20 + "\n", "is larger than 1024 KiB: no settings"),
        ("x" * 5000 + " = {}", "There is no table .x{80}. of settings"),
        ("\ufeff[network]\nhidden = 3", None),
    ],
)
def test_odd_files_are_one_error(tmp_path, text, said):
    file = tmp_path / "settings.toml"
    file.write_text(text, encoding="utf-8")
    if said is None:
        assert read_settings_file(file) == {"network": {"hidden": 3}}
        return
    with pytest.raises(SettingError, match=said) as caught:
        Settings.from_table(read_settings_file(file))
    assert len(str(caught.value)) < 1000
