"""A report is one file that opens anywhere, says what is off, and fails on no run however small."""

import dataclasses
import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from ergonet._errors import RunDirectoryError
from ergonet.comparison import Elpd, TemperatureSweep, compare
from ergonet.comparison.scored import QUANTITIES, Figure, HeldOutScores
from ergonet.draws.recorder import Chunk
from ergonet.inference.progress import Silent, Tick
from ergonet.partition import Joined, LogMass
from ergonet.report import RunRecord, write_parts, write_report
from ergonet.report.comparing import write_comparison
from ergonet.report.live import LivePage
from ergonet.report.temperatures import write_sweep
from tests.report_records import classification_record, regression_record, save_record
from tests.sampling import gaussian_target
from tests.stages import cases
from tests.unit.partition.test_joined import samples

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def page_of(record, folder):
    return write_report(record, folder / "report.html").read_text(encoding="utf-8")


def without(record, *, evaluation=(), stats=None, metrics=None):
    kept = {name: values for name, values in record.evaluation.items() if name not in evaluation}
    return dataclasses.replace(
        record,
        evaluation=kept,
        stats=record.stats if stats is None else stats,
        warmup_stats=record.warmup_stats if stats is None else {},
        metrics=record.metrics if metrics is None else metrics,
    )


def browse(page, folder, *more):
    """Run headless Chromium on a page: what it wrote to standard output and to its log."""
    profile = folder / "profile"
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--enable-logging=stderr", "--v=0", f"--user-data-dir={profile}", *more, page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    shutil.rmtree(profile, ignore_errors=True)
    return done.stdout, done.stderr


PROBE = """<script>
addEventListener("load", () => {
  const images = [...document.images], drawings = [...document.querySelectorAll("svg")];
  parent.document.getElementById("probe").textContent = JSON.stringify({
    width: innerWidth,
    images: images.length,
    broken: images.filter(each => !(each.complete && each.naturalWidth > 0)).length,
    drawings: drawings.length,
    empty: drawings.filter(
      each => !(each.getBoundingClientRect().height > 50 && each.getBBox().width > 50)).length,
    cut: [...document.querySelectorAll(".card, .panel, .picture, .verdict, .image")].filter(
      each => each.scrollWidth > each.clientWidth + 1 && !each.classList.contains("scroll")).length,
    closed: [...document.querySelectorAll("details")].filter(each =>
      !each.lastElementChild.checkVisibility({contentVisibilityAuto: true}) ).length,
    sideways: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    repeated: [...document.querySelectorAll("[id]")].length
      - new Set([...document.querySelectorAll("[id]")].map(each => each.id)).size,
    dangling: [...document.querySelectorAll("svg use")]
      .filter(each => !document.getElementById(each.href.baseVal.slice(1))).length,
  });
});
</script>"""


def seen(page, folder, size):
    """What a browser makes of a page in a frame of this width, or in print on A4; windows are 500 pixels at least."""
    probed = folder / "probed.html"
    text = page.read_text(encoding="utf-8")
    if size == PRINTED:  # as wide as a sheet between its margins, in the style of the print
        size, text = 688, text.replace("@media print", "@media all").replace("@page { margin: 14mm; }", "")
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', text)
    assert policy is not None  # the page forbids scripts, so a copy that allows one is asked
    framed = html.escape(text.replace(policy[0], "").replace("</body>", PROBE + "</body>"))
    style = f"border: 0; width: {size}px; height: 900px"
    probed.write_text(f'<iframe style="{style}" srcdoc="{framed}"></iframe><pre id="probe"></pre>', encoding="utf-8")
    dom, log = browse(probed, folder, "--dump-dom", "--window-size=1400,1000")
    assert "CONSOLE" not in log, log
    probe = re.search(r'<pre id="probe">(.*?)</pre>', dom)
    assert probe is not None
    found = json.loads(html.unescape(probe[1]))
    assert found.pop("width") == size
    return found


PRINTED = "print"
SOUND = {"broken": 0, "empty": 0, "sideways": 0, "cut": 0, "repeated": 0, "dangling": 0}


@pytest.mark.browser
@pytest.mark.usefixtures("chromium")  # on CI a missing browser is a failure, not a skip
@pytest.mark.parametrize(("record", "images", "drawings"), [(classification_record, 12, 9), (regression_record, 0, 12)])
def test_browser_opens_it_without_an_error_and_loads_every_picture(tmp_path, record, images, drawings):
    report = write_report(record(), tmp_path / "report.html")
    _, log = browse(report, tmp_path, "--dump-dom")
    assert "CONSOLE" not in log, log
    for size, closed in ((1280, 4), (400, 4), (PRINTED, 0)):
        found = seen(report, tmp_path, size)
        assert found == SOUND | {"images": images, "drawings": drawings, "closed": closed}, size


def a_comparison(folder):
    random = np.random.default_rng(0)
    names = "runs/a-run-with-a-long-name-of-one-word-in-a-folder", "other", "third"
    densities = {name: Elpd("LOO", random.normal(size=80)) for name in names}
    records: dict[str, RunRecord] = dict.fromkeys(names, regression_record(chains=1, draws=1))
    return write_comparison([compare(densities)], records, folder / "page.html")


def a_sweep(folder):
    random = np.random.default_rng(0)
    figures = [{name: Figure(0.5, random.normal(size=80), 0.01) for name in QUANTITIES} for _ in range(3)]
    scores = tuple(HeldOutScores(one, "RMSE", 0.02, 80, 4, 1.2, 7) for one in figures)
    found, settings = TemperatureSweep((0.1, 1.0, 3.0), scores), {"network": {"hidden": (20, 20)}}
    return write_sweep(found, folder / "page.html", name="a-table-with-a-long-name", about="All.", settings=settings)


def a_live_view(folder):
    page = LivePage(folder / "a-run-with-a-long-name-of-one-word-in-a-folder", print)
    progress = page.following(Silent(), gaussian_target())
    progress.begin(2, 1)
    for chain in range(2):
        levels = np.linspace(-90, -80, 40, dtype=np.float32)[None]
        progress.watch(Chunk((chain,), False, 0, {"lp": levels, "positions": levels[..., None] * np.ones(2)}))
    for chain in (1, 0):  # the last one is shown at the end
        progress.tick(Tick(chain, "sampling", 40, 100, step_size=0.1, acceptance=0.8, gradients=400, divergences=3))
    progress.end()
    return page.path


def joined_parts(folder):
    draws = samples(None, np.random.default_rng(0).normal(size=(4, 100, 2)))
    mass = LogMass(-1000.0, 0.1, 400.0, 0.8, (0.0, 0.0), "the halves differ by 5.0 standard errors")
    places = [f"q[{number}] < 0, -0.123457 <= q[100] < 12345.6, q[1234] >= 0" for number in range(12)]
    return write_parts(Joined((draws,) * 12, (mass,) * 12, tuple(places)), folder / "page.html")


@pytest.mark.browser
@pytest.mark.usefixtures("chromium")
@pytest.mark.parametrize("write", [a_comparison, a_sweep, a_live_view, joined_parts])
def test_browser_opens_other_pages(tmp_path, write):
    page, expected = write(tmp_path), {name: 0 for name in SOUND if name != "empty"}  # lines and strips are low
    for size in (1000, 400, PRINTED):
        found = seen(page, tmp_path, size)
        assert {name: found[name] for name in expected} == expected, size


@pytest.mark.browser
@pytest.mark.usefixtures("chromium")
def test_browser_prints_it(tmp_path):
    report = write_report(regression_record(), tmp_path / "report.html")
    browse(report, tmp_path, f"--print-to-pdf={tmp_path / 'report.pdf'}")
    sheets = re.findall(rb"/Type\s*/Page\b", (tmp_path / "report.pdf").read_bytes())
    assert 5 <= len(sheets) <= 15


@pytest.mark.parametrize("record", [classification_record, regression_record])
def test_it_is_one_small_file_that_fetches_nothing(tmp_path, record):
    page = page_of(record(), tmp_path)
    assert len(page) < 2e6
    assert "<script" not in page
    addresses = re.findall(r'(?:src|href|xlink:href)="([^"]*)"', page)
    assert addresses
    assert all(address.startswith(("data:", "#")) for address in addresses)
    assert not re.search(r"@import|url\((?!#)", page)
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_pictures_take_the_colors_of_the_page(tmp_path):
    page = page_of(regression_record(), tmp_path)
    drawings = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL))
    assert "var(--series-1)" in drawings
    assert not re.search(r"(?:fill|stroke): #(?!000000|ffffff)", drawings)
    for name in set(re.findall(r"var\(--([\w-]+)\)", page)) - {"tone", "tone-page", "shade"}:
        assert f"--{name}:" in page, name


def test_classification_says_what_was_found(tmp_path):
    record = classification_record()
    page = page_of(record, tmp_path)
    test = record.metrics["test"]
    for said in (
        "Bayesian neural network for digits", "4 chains of 500 draws after 500 of warm-up",
        "1 hidden layer of 35 units; tanh; without biases", f"{100 * test['error']:.1f}\N{NO-BREAK SPACE}%",
        "Every check of the draws passed", "Are the stated probabilities right?", "Which classes are confused?",
        "Images with the most uncertain predictions",
        "20\N{NO-BREAK SPACE}% of the uncertainty in these predictions is epistemic",
        "1 min 55 s", "Ranks of the log posterior", "Chain by chain", "jax",
    ):  # fmt: skip
        assert said in page, said
    assert page.count("data:image/png;base64,") == 12


@pytest.mark.slow
def test_rows_that_are_no_images_become_a_table(tmp_path):
    page = page_of(without(classification_record(), evaluation=["images", "aleatoric"]), tmp_path)
    assert "Rows with the most uncertain predictions" in page
    assert "<img" not in page


def test_regression_says_what_was_found(tmp_path):
    record = regression_record()
    page = page_of(record, tmp_path)
    inside = record.metrics["test"]["coverage_90"]
    for said in (
        "Root mean square error", "90\N{NO-BREAK SPACE}% intervals", f"{100 * inside:.1f}\N{NO-BREAK SPACE}%",
        "How close are the predictions of progression?", "Do the intervals have the stated coverage?",
        "Errors in units of the stated uncertainty", "Rows with the most uncertain predictions",
        "Gaussian (noise learned)",
    ):  # fmt: skip
        assert said in page, said


@pytest.mark.parametrize(("shift", "found"), [(0.0, "stays in"), (0.3, "leaves")])
def test_the_distributions_of_one_target_are_judged_at_once(tmp_path, shift, found):
    record, rng = regression_record(), np.random.default_rng(0)
    uniform = np.minimum(rng.uniform(size=(len(record.evaluation["truth"]), 1)) + shift, 1.0)
    page = page_of(dataclasses.replace(record, evaluation={**record.evaluation, "transform": uniform}), tmp_path)
    assert f"The line {found} the band" in page


@pytest.mark.slow
def test_several_targets_are_shown_by_name(tmp_path):
    page = page_of(regression_record(targets=3), tmp_path)
    for name in ("progression", "weight", "age"):
        assert f"How close are the predictions of {name}?" in page


@pytest.mark.slow
def test_each_problem_is_at_the_top_with_advice(tmp_path):
    record = classification_record()
    off = record.metrics["diagnostics"] | {"divergences": 7, "max_rhat_function": 1.2}
    page = page_of(dataclasses.replace(record, metrics={**record.metrics, "diagnostics": off}), tmp_path)
    assert "Do not rely on these results yet: there are 2 problems." in page
    assert page.index("7 of 2000 transitions") < page.index("What was fitted")
    assert "R-hat is 1.20" in page
    assert "<code>" not in page
    waste = record.metrics["diagnostics"] | {"max_tree_depth_fraction": 0.4}
    page = page_of(dataclasses.replace(record, metrics={**record.metrics, "diagnostics": waste}), tmp_path)
    assert "The results can be used, but the run cost more" in page
    assert "<code>max_doublings</code>" in page


@pytest.mark.parametrize("make", [classification_record, regression_record])
@pytest.mark.parametrize(("chains", "draws"), cases([(1, 1), (1, 100), (2, 1), (2, 3)], quick=[(1, 1)]))
def test_the_smallest_runs_have_a_report(tmp_path, make, chains, draws):
    page = page_of(make(chains=chains, draws=draws, rows=3), tmp_path)
    assert "Do not rely on these results yet" in page
    assert ("there is only one" in page) == (chains == 1)


@pytest.mark.slow
def test_constant_predictions_and_energies_are_said_and_not_drawn(tmp_path):
    record = regression_record()
    evaluation = {**record.evaluation, "function_draws": np.ones((4, 50, 3))}
    stats = {name: np.ones((4, 50)) for name in record.stats}
    page = page_of(dataclasses.replace(record, evaluation=evaluation, stats=stats, warmup_stats={}), tmp_path)
    assert "3 predictions left out (constant or not finite)" in page
    assert "Too few distinct energies" in page


@pytest.mark.slow
@pytest.mark.parametrize("truth", [None, np.empty(0, dtype=np.int64)])
def test_without_test_rows_it_says_so(tmp_path, truth):
    record = classification_record()
    metrics = {name: value for name, value in record.metrics.items() if name != "test"} | {"num_test": 0}
    evaluation = {"function_draws": record.evaluation["function_draws"]}
    if truth is not None:
        evaluation |= {"truth": truth, "probabilities": np.empty((0, 10))}
    page = page_of(dataclasses.replace(record, metrics=metrics, evaluation=evaluation), tmp_path)
    assert "No rows were held out for testing" in page
    assert "no test rows" in page
    assert "Test error" not in page


def test_an_empty_record_has_a_report(tmp_path):
    page = page_of(RunRecord(settings={}, metrics={}), tmp_path)
    assert "could not be checked" in page
    assert "The run recorded no draws to show" in page


def test_predictions_that_are_no_distributions_are_said(tmp_path):
    record = classification_record()
    broken = np.where(np.arange(10) == 3, np.nan, record.evaluation["probabilities"])
    evaluation = {**record.evaluation, "probabilities": broken}
    page = page_of(dataclasses.replace(record, evaluation=evaluation), tmp_path)
    assert "The predictions cannot be shown" in page


@pytest.mark.slow
def test_text_of_users_is_shown_as_text(tmp_path):
    attack = "<script>alert('x')</script> & \"$x_$\""
    record = regression_record()
    data = {"name": attack, "target": attack}
    page = page_of(
        dataclasses.replace(
            record,
            metrics={**record.metrics, "data": data, "kernel": attack, "versions": {attack: attack}},
            settings={attack: {"path": attack}, "prior": attack},
        ),
        tmp_path,
    )
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 5
    record = classification_record()
    data = {"name": "a", "classes": [f"{attack}{index}" for index in range(10)]}
    page = page_of(dataclasses.replace(record, metrics={**record.metrics, "data": data}), tmp_path)
    assert "<script" not in page


def test_a_run_directory_is_read_back(tmp_path):
    record = classification_record()
    save_record(record, tmp_path / "run")
    read = RunRecord.load(tmp_path / "run")
    assert read.metrics == record.metrics
    assert read.settings["network"] == {"hidden": [35]}
    assert set(read.stats) == set(record.stats)
    assert set(read.warmup_stats) == set(record.warmup_stats)
    np.testing.assert_array_equal(read.warmup_stats["lp"], record.warmup_stats["lp"])
    np.testing.assert_array_equal(read.evaluation["images"], record.evaluation["images"])


def test_what_is_missing_or_damaged_in_a_run_directory_is_named(tmp_path):
    with pytest.raises(RunDirectoryError, match=r"no run directory .*nowhere"):
        RunRecord.load(tmp_path / "nowhere")
    run = tmp_path / "run"
    save_record(regression_record(), run)
    (run / "metrics.json").unlink()
    (run / "stats.npz").rename(tmp_path / "stats.npz")
    with pytest.raises(RunDirectoryError, match=r"has no metrics.json and no stats.npz"):
        RunRecord.load(run)
    (run / "metrics.json").write_text("[1]", encoding="utf-8")
    (tmp_path / "stats.npz").rename(run / "stats.npz")
    with pytest.raises(RunDirectoryError, match=r"metrics.json' cannot be read"):
        RunRecord.load(run)
    (run / "metrics.json").write_text("{}", encoding="utf-8")
    (run / "stats.npz").write_bytes((run / "stats.npz").read_bytes()[:100])
    with pytest.raises(RunDirectoryError, match=r"stats.npz' cannot be read"):
        RunRecord.load(run)


def test_objects_in_arrays_are_refused(tmp_path):
    run = tmp_path / "run"
    save_record(regression_record(), run)
    np.savez(run / "evaluation.npz", truth=np.asarray([{"code": 1}], dtype=object))
    with pytest.raises(RunDirectoryError, match=r"evaluation.npz' cannot be read"):
        RunRecord.load(run)


def test_a_failed_write_leaves_the_old_report(tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    target.write_text("old", encoding="utf-8")

    def fails(*_):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", fails)
    with pytest.raises(OSError, match="disk full"):
        write_report(RunRecord(settings={}, metrics={}), target)
    assert target.read_text(encoding="utf-8") == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
