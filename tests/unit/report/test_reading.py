"""Text of the report can be read: by its contrast, and by what each picture says of itself."""

import re
from dataclasses import replace
from importlib import resources

import pytest

from ergonet.report import explanation, hyperparameters, mixing, predictions
from ergonet.report.pictures import Picture
from tests.report_records import classification_record, regression_record

LEAST_CONTRAST, MOST_BYTES = 4.5, 5_000_000
GROUNDS = ("page", "card", "good-page", "bad-page", "note-page")
PAIRS = (
    *((text, ground) for text in ("ink", "muted") for ground in GROUNDS),
    *((text, ground) for text in ("good", "bad") for ground in ("page", "card")),
    *((tone, f"{tone}-page") for tone in ("good", "bad", "note")),
)
STYLE = resources.files("ergonet.report").joinpath("templates/style.css").read_text(encoding="utf-8")


def schemes():
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6})", one)) for one in re.findall(r":root \{([^}]*)", STYLE))
    return {"light": light, "dark": light | dark}


def contrast(text, ground):
    """The contrast ratio of WCAG 2.2."""
    low, high = sorted((luminance(text), luminance(ground)))
    return (high + 0.05) / (low + 0.05)


def luminance(color):
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def mixed(color, ground, share):
    pairs = ((int(one[at : at + 2], 16) for one in (color, ground)) for at in (1, 3, 5))
    return "#" + "".join(f"{round(share * top + (1 - share) * below):02x}" for top, below in pairs)


def test_the_contrast_is_that_of_the_guideline():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(scheme):
    colors = schemes()[scheme]
    found = {pair: contrast(*(colors[one] for one in pair)) for pair in PAIRS}
    assert {pair: ratio for pair, ratio in found.items() if ratio < LEAST_CONTRAST} == {}
    assert "opacity" not in STYLE  # which would lower it


def test_counts_in_the_darkest_cell_can_be_read():
    record = classification_record(chains=1, draws=1)
    table = predictions.section(record)["confusions"]["table"]
    darkest = max(cell["shade"] for row in table for cell in row["cells"] if not cell["right"])
    for colors in schemes().values():
        assert contrast(colors["ink"], mixed(colors["bad"], colors["card"], darkest)) >= LEAST_CONTRAST


def pictures_of(record):
    section = predictions.section(record)
    targets = [one for target in section.get("targets", ()) for one in target["pictures"]]
    return [*section["pictures"], *targets, *mixing.pictures(record), *hyperparameters.pictures(record),
            *explanation.pictures(record)]  # fmt: skip


@pytest.mark.parametrize("make", [pytest.param(classification_record, marks=pytest.mark.slow), regression_record])
def test_every_picture_asks_a_question_and_says_how_to_read_the_answer(make):
    made = pictures_of(make(chains=2, draws=40))
    assert len(made) >= 7
    for one in made:
        assert isinstance(one, Picture)
        assert "?" in one.title, one.title
        assert 20 < len(one.caption) < 400, one.caption
        assert one.caption.endswith("."), one.caption
        assert len(one.alternative) > 20, one.title
        assert one.alternative != one.caption


@pytest.mark.slow
def test_the_report_of_many_rows_and_targets_is_small(tmp_path):
    from ergonet.report import write_report

    record = regression_record(rows=20_000, targets=3)
    assert write_report(record, tmp_path / "report.html").stat().st_size < MOST_BYTES


def test_statistics_of_thinned_draws_are_not_those_of_transitions():
    """E-BFMI is about changes between transitions; a draw diverges if one of its transitions does."""
    record = regression_record()
    thinned = replace(record, metrics={**record.metrics, "thin": 4})
    names = {name: mixing.by_chain(one)["names"] for name, one in (("all", record), ("thinned", thinned))}
    assert {"E-BFMI", "divergences"} <= set(names["all"])
    assert {"E-BFMI", "divergences"}.isdisjoint(names["thinned"])
    assert "draws with divergences" in names["thinned"]
    titles = [one.title for one in mixing.pictures(thinned)]
    assert "Can every transition reach every energy?" not in titles
    assert mixing.pictures(thinned)[-1].alternative.endswith("leapfrog steps per draw.")
