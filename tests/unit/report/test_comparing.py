"""The page of several runs says which predicts best, and in what they differ."""

import re
from dataclasses import replace

import numpy as np
import pytest

from ergonet.comparison import Elpd, compare
from ergonet.report.comparing import differing, strips, write_comparison
from tests.report_records import regression_record

NAMES = ("first", "<b>second")


def compared(apart, method="held-out rows"):
    random = np.random.default_rng(0)
    one = random.normal(size=200)
    other = one - apart + 0.1 * random.normal(size=200)
    return compare({name: Elpd(method, density, None) for name, density in zip(NAMES, (one, other), strict=True)})


@pytest.fixture(scope="module")
def records():
    record = regression_record(chains=1, draws=1)
    settings = {**record.settings, "network": {"hidden": [20], "activation": "tanh", "bias": True}}
    return dict(zip(NAMES, (record, replace(record, settings=settings)), strict=True))


def test_strips_are_on_one_scale():
    found = compared(0.5)
    best, worse = strips(found)
    assert (best.name, best.middle, best.zero, best.text) == ("first", 292.0, 292.0, "best")
    assert worse.low == 8.0
    lowest = found.differences[1] - 2 * found.errors[1]
    assert worse.middle == pytest.approx(292 - 284 * found.differences[1] / lowest, abs=0.1)
    assert worse.high < worse.zero
    assert "-" in worse.text
    assert "±" in worse.text


def test_only_settings_that_differ_are_listed(records):
    assert differing(records) == [("network.hidden", ["50", "20"])]
    assert differing({"first": records["first"], "again": records["first"]}) == []


def test_the_page_says_it(tmp_path, records):
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "report.html").touch()
    named = {str(tmp_path / "first"): records["first"], "<b>second": records["<b>second"]}
    found = [compared(0.5), compared(0.0, "LOO"), "Log evidence is not compared."]
    page = write_comparison(found, named, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<strong>first predicts better than &lt;b&gt;second, by more than the noise.</strong>" in page
    assert "Which run predicts best, by LOO?" in page
    assert "bad k" not in page  # there are none to show
    assert "is noise" in page
    assert "Log evidence is not compared." in page
    assert '<a href="first/report.html">' in page
    assert '<th scope="row">network.hidden</th><td>50</td><td>20</td>' in page
    assert "Root mean square error" in page
    assert "<b>second" not in page
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!data:|first/report)', page)
