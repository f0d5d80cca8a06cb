"""The page of joined parts says how much of the mass each has, and which weights are not to be trusted."""

import html
from dataclasses import replace

import numpy as np
import pytest

from ergonet.partition import Joined, LogMass
from ergonet.report import write_parts
from ergonet.report.parts import _named, sentences
from tests.unit.partition.test_joined import samples

PLACES = "q[0] < 0.3", "0.3 <= q[0] < 2", "q[0] >= 2"
MASSES = (
    LogMass(0.0, 0.02, 400.0, 0.8, (0.0, 0.0)),
    LogMass(np.log(3.0), 0.01, 500.0, 0.9, (1.1, 1.1)),
    LogMass(-9.0, 0.4, 60.0, 0.01, (-9.2, -8.8), "the halves differ by 5.0 standard errors"),
)


@pytest.fixture(scope="module")
def joined():
    """Three parts, of which the last one cannot be told and hardly counts."""
    rng = np.random.default_rng(0)
    return Joined(tuple(samples(None, rng.normal(size=(4, 500, 2))) for _ in range(3)), MASSES, PLACES)


def page_of(joined, folder):
    return html.unescape(write_parts(joined, folder / "parts.html").read_text(encoding="utf-8"))


def test_every_part_is_in_the_table(tmp_path, joined):
    page = page_of(joined, tmp_path)
    assert '<section class="verdict note"' in page
    assert "<strong>Part 1 has the largest weight, 75.0\N{NO-BREAK SPACE}% ± 0.4.</strong>" in page
    for number, (place, mass) in enumerate(zip(PLACES, MASSES, strict=True)):
        row = page[page.index(f'<th scope="row">part {number} ({place})</th>') :].split("</tr>")[0]
        assert f"<td>{joined.weights[number]:.4f} ± {joined.weight_errors[number]:.4f}</td><td>{mass}</td>" in row
        rhat = joined.parts[number].convergence().max_rhat
        assert f"<td>2\N{NARROW NO-BREAK SPACE}000</td><td>{mass.ess:.0f}</td><td>{rhat:.3f}</td>" in row
        assert (">no</span>" in row) == bool(mass.problem)
    assert f"<dt>Part 2</dt><dd>{MASSES[2].problem}</dd>" in page
    assert "The log of the mass of all parts together is 1.3863 ± 0.0090" in page


def test_what_counts_comes_first(tmp_path, joined):
    unsure = replace(joined, masses=(*MASSES[:2], replace(MASSES[2], value=-3.0)))
    assert '<section class="verdict bad"' in page_of(unsure, tmp_path)
    assert sentences(unsure, [1.0] * 3)[0] == "The weights are not to be trusted: the mass of part 2 cannot be told."
    assert sentences(joined, [1.2, 1.0, 1.0])[-1].startswith("R-hat is above 1.01 in part 0: ")
    assert '<section class="verdict good"' in page_of(Joined(joined.parts[:2], MASSES[:2]), tmp_path)


def test_weights_that_are_known_have_no_errors(tmp_path, joined):
    known = LogMass(np.log(0.5), 0.0, 400.0, 1.0, (0.0, 0.0))
    page = page_of(Joined(joined.parts[:2], (known, known)), tmp_path)
    assert "The weights are known exactly" in page
    assert "<td>known</td><td></td><td>2\N{NARROW NO-BREAK SPACE}000</td><td></td>" in page
    assert "log of the mass of all parts" not in page


def test_parts_are_named_in_words():
    assert [_named(range(count)) for count in (1, 2, 5)] == ["part 0", "parts 0 and 1", "parts 0, 1, 2, 3 and 4"]
    assert _named(range(9)) == "parts 0, 1, 2, 3 and 5 more"
