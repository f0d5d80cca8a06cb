"""`ergonet fit --live` and `ergonet resume --live`."""

import re

import numpy as np
import pytest

import ergonet
from ergonet.inference.trajectory_jobs import TrajectoryJob
from ergonet.report import live
from tests.unit.cli.test_resuming import FIT, call


@pytest.mark.slow
def test_a_fit_with_a_live_view_makes_the_same_draws_and_goes_on_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(live, "SECONDS_BETWEEN_PAGES", 0.0)
    monkeypatch.setattr(live, "LARGEST_SHARE", 1e9)
    pages = []
    write = live.replace_page
    monkeypatch.setattr(live, "replace_page", lambda path, page: pages.append(page) or write(path, page))
    call(*FIT, "--out", "plain")
    assert pages == []
    found = call(*FIT, "--out", "run", "--live")
    assert "Live view: run-live.html" in found.output
    assert "The fit begins." in pages[0]
    assert any("The fit is going on: " in one for one in pages)
    assert "Sampling has ended" in pages[-2]
    assert "<h3>Prediction 1 of " in pages[-2]
    assert 'url=run/report.html">' in (tmp_path / "run-live.html").read_text(encoding="utf-8")
    plain, seen = (ergonet.load(tmp_path / name / "draws.zarr") for name in ("plain", "run"))
    np.testing.assert_array_equal(plain.positions, seen.positions)
    call("verify", "run")

    pages.clear()
    call("extend", "run", "--draws", "20", "--live", "--quiet")
    assert re.search(r"Draws (1|2)\d to \d+, values", pages[-2])
    assert "The fit is complete." in pages[-1]


@pytest.mark.slow
def test_a_fit_that_fails_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def step(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(TrajectoryJob, "step", step)
    call(*FIT, "--out", "run", "--live", code=130)
    assert "The fit ended before it had a report" in (tmp_path / "run-live.html").read_text(encoding="utf-8")
