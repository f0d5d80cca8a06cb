"""Numbers, durations and settings read as a person would write them."""

import pytest

from ergonet.report import wording

THIN = "\N{NARROW NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.02134, "0.0213"),
        (0.0, "0"),
        (640.2, "640"),
        (12400.0, f"12{THIN}400"),
        (-3.14159, "-3.14"),
        (2.5e7, "2.50e+07"),
        (3e-6, "3.00e-06"),
        (float("nan"), "unknown"),
        (None, "unknown"),
        (float("inf"), "infinite"),
    ],
)
def test_numbers(value, text):
    assert wording.number(value) == text


@pytest.mark.parametrize(
    ("value", "error", "percent", "expected"),
    [
        (0.042, 0.009, True, ("4.2 %", "± 0.9")),
        (0.2, None, True, ("20.0 %", "")),
        (0.02, 0.00044, True, ("2.000 %", "± 0.044")),
        (0.02, 0.00055, True, ("2.0 %", "± 0.1")),
        (0.47213, 0.0471, False, ("0.472", "± 0.047")),
        (4961.3, 67.2, False, (f"4{THIN}961", "± 67")),
        (53000.0, 900.0, False, (f"53{THIN}000", "± 900")),
        (1.5, float("nan"), False, ("1.50", "")),
        (None, 0.1, False, ("unknown", "")),
    ],
)
def test_values_with_errors(value, error, percent, expected):
    assert wording.with_error(value, error, percent=percent) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.42, "0.4 s"), (41.4, "41 s"), (725.0, "12 min 5 s"), (12000.0, "3 h 20 min"), (None, "unknown")],
)
def test_durations(seconds, text):
    assert wording.duration(seconds) == text


def test_settings_in_words():
    assert wording.in_words({"name": "Normal", "scale": 1.0}) == "Normal (scale 1.0)"
    assert wording.in_words({"layers.0": {"name": "Laplace"}, "layers.1": "Normal"}) == (
        "layers.0 Laplace, layers.1 Normal"
    )
    assert wording.in_words([64, 35]) == "64, 35"
    assert wording.in_words(True) == "yes"


def test_settings_are_found_at_any_depth_shallow_ones_first():
    settings = {"deep": {"deeper": {"prior": 1}}, "model": {"prior": 2}}
    assert wording.setting(settings, "prior") == 2
    assert wording.setting(settings, "missing", "deeper") == {"prior": 1}
    assert wording.setting(settings, "missing") is None
    assert list(wording.flat_settings(settings)) == [("deep.deeper.prior", "1"), ("model.prior", "2")]
