"""The measurement of reliability sees what it should see, and continues where it was interrupted."""

import json
import os
import random
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import reliability
from benchmarks.reliability import __main__ as command
from benchmarks.reliability import calibration, crashes, fits, known_models, mutations, posteriors
from benchmarks.reliability.section import Bench, Goal, Section
from ergonet import HMC
from tests.sampling import draw


def bench(folder: Path, size: int) -> Bench:
    """A bench whose counts are all the same."""

    class Small(Bench):
        def size(self, full: int, quick: int) -> int:
            return size

    return Small(folder, is_quick=True)


def section(found: int) -> Section:
    return Section("Kills", "About.", [Goal.none_of("draws lost", found)], ("a",), [["1 | 2"]], ["a note"])


def test_a_section_survives_its_file_and_says_what_is_not_met():
    text = section(3).markdown()
    assert "| draws lost | 3 | 0 | **not met** |" in text
    assert "1 \\| 2" in text
    assert "- a note" in text
    again = Section.from_table(json.loads(json.dumps(section(0).to_table())))
    assert again.markdown() == section(0).markdown()


def test_finished_sections_are_not_measured_again_and_unmet_goals_are_an_exit_code(tmp_path, monkeypatch):
    measured = []

    def measure(name, _):
        measured.append(name)
        return section(1 if name == "writers" else 0)

    monkeypatch.setattr(command, "measure", measure)
    arguments = ["--quick", "--kept", str(tmp_path / "kept"), "--out", str(tmp_path)]
    assert command.main([*arguments, "--only", "--section", "kills"]) == 0
    assert command.main(arguments) == 1
    assert measured == list(reliability.SECTIONS)
    page = (tmp_path / "reliability.md").read_text(encoding="utf-8")
    assert page.count("**not met**") == 1
    assert "A quick run" in page
    command.main([*arguments, "--section", "kills"])
    assert measured == [*reliability.SECTIONS, "kills"]


def test_the_published_page_is_that_of_its_record():
    results = Path(command.ROOT) / "docs" / "results"
    record = json.loads((results / "reliability.json").read_text(encoding="utf-8"))
    page = (results / "reliability.md").read_text(encoding="utf-8")
    for name, content in record["sections"].items():
        assert Section.from_table(content).markdown() in page, name


def test_lost_and_phantom_draws_are_seen(tmp_path):
    samples = draw()
    samples.save(tmp_path / "run")
    fields = {**samples.stats, "positions": samples.positions}
    reference = fits.Stored({name: np.asarray(values) for name, values in fields.items()}, {})
    counted = [samples.num_draws] * 2
    assert fits.examine(tmp_path / "run", reference, counted) == fits.Verdict(draws=samples.num_draws)
    assert fits.examine(tmp_path / "run", reference, [samples.num_draws + 3] * 2).lost == 6
    changed = np.array(reference.fields["positions"])
    changed[0, 5] += 1e-6
    other = fits.Stored({**reference.fields, "positions": changed}, {})
    assert fits.examine(tmp_path / "run", other, counted).phantom == "positions"
    assert reference.equals(other) == "positions"
    assert fits.examine(tmp_path / "none", reference, counted).unreadable


def test_files_that_were_not_synced_are_known(tmp_path):
    watch = crashes.Watch(tmp_path)
    seen = []

    def work():
        for name in ("synced", "torn"):
            with (tmp_path / name).open("w") as file:
                file.write("content")
                file.flush()
                if name == "synced":
                    os.fsync(file.fileno())
        (tmp_path / "torn").rename(tmp_path / "renamed")

    def look(number):
        seen.append((number, sorted(one.name for one in tmp_path.iterdir())))

    assert watch.during(work, look) == 4  # two are opened, one is synced, one is renamed
    assert seen == [(0, []), (1, ["synced"]), (2, ["synced"]), (3, ["synced", "torn"])]
    assert watch.is_synced(tmp_path / "synced")
    assert not watch.is_synced(tmp_path / "renamed")


@pytest.mark.parametrize(
    ("use", "outcome"),
    [
        (lambda folder: len(list(folder.iterdir())), "intact"),
        (lambda folder: (folder / "a.bin").read_bytes(), "silent"),
        (lambda folder: {b"content": 1}[(folder / "a.bin").read_bytes()], "uncaught"),
    ],
)
def test_alterations_are_judged(use, outcome, tmp_path):
    (tmp_path / "intact").mkdir()
    (tmp_path / "intact" / "a.bin").write_bytes(b"content")
    subject = mutations.Subject("folder", tmp_path / "intact", {"use": use})
    before = mutations._intact(subject)
    file, found, _ = mutations._try(subject, "flipped bit", before, random.Random(0), tmp_path / "altered")
    assert (file, found) == ("a.bin", outcome)


def test_known_moments_are_those_of_independent_draws():
    model = known_models.MODELS["correlated Gaussian"]()
    rng, precision = np.random.default_rng(0), np.asarray(model.log_density.precision, float)
    factor = np.linalg.cholesky(np.linalg.inv(precision))
    draws = model.moments.mean + rng.normal(size=(4, 500, 20)) @ factor.T
    means, squares, least = posteriors.compare(model, draws)
    assert max(np.abs(means).max(), np.abs(squares).max()) < 4
    assert least > 1000
    assert np.abs(posteriors.compare(model, draws + 0.2)[0]).max() > 4


@pytest.mark.slow
def test_simulated_crashes_of_a_small_fit(tmp_path, monkeypatch):
    case = crashes.Case("sghmc", fits.Fit("sghmc", num_draws=30, num_warmup=10))
    monkeypatch.setattr(crashes, "cases", lambda **_: [case])
    found = crashes.measure(bench(tmp_path, 25))
    assert all(goal.is_met for goal in found.goals), found.markdown()
    assert found.rows[-1][:2] == ["all", "25"]


class AlwaysAccepts(HMC):
    """The planted fault: no proposal is rejected."""

    def conclude(self, trajectory):
        return super().conclude(eqx.tree_at(lambda one: one.uniform, trajectory, jnp.zeros(())))


@pytest.mark.statistical
def test_calibration_sees_a_kernel_that_rejects_nothing():
    settings = {"num_steps": 5, "metric": "identity"}
    right, wrong = (
        calibration.both_tests("normal", "non-centered", kind(**settings), chains=512, steps=31)
        for kind in (HMC, AlwaysAccepts)
    )
    assert right is not None
    assert min(right.calibration, right.joint) > 1e-3
    assert wrong is not None
    assert wrong.calibration < 1e-6
