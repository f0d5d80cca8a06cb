"""Entropies by group: against counts of pairs and known shares, and a picture whose bars are the rows."""

# Matplotlib types what its artists hold as anything that might become an array.
# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false

import io
from itertools import product

import numpy as np
import pytest
from scipy.special import xlogy
from sklearn.metrics import roc_auc_score

from ergonet import plots
from ergonet._errors import CapabilityError, DataError, SettingError
from ergonet.prediction.predictive import Prediction
from ergonet.prediction.uncertainty import auroc, uncertainty_table


def predicted(draws):
    """The prediction of class probabilities `[draw, rows, classes]`."""
    mean = draws.mean(axis=0)
    return Prediction(
        mean=mean,
        sd=None,
        noise_sd=None,
        function_sd=draws.std(axis=0),
        levels=(),
        quantiles=None,
        log_density=None,
        entropy=-np.sum(xlogy(mean, mean), axis=1),
        expected_entropy=-np.sum(xlogy(draws, draws), axis=2).mean(axis=0),
    )


def group(concentration, rows=40, classes=5, seed=0):
    random = np.random.default_rng(seed)
    return predicted(random.dirichlet(np.full(classes, concentration), size=(16, rows)))


@pytest.fixture
def groups():
    agreeing = np.random.default_rng(3).dirichlet(np.ones(5), size=25)
    return {"test rows": group(0.05, seed=1), "noise": group(8.0), "unclear": predicted(np.stack([agreeing] * 4))}


def test_auroc_counts_pairs_and_ties_half():
    random = np.random.default_rng(0)
    inside, outside = random.integers(0, 6, 30).astype(float), random.integers(2, 9, 20).astype(float)
    pairs = [(b > a) + 0.5 * (b == a) for a, b in product(inside, outside)]
    found, error = auroc(inside, outside)
    assert found == pytest.approx(np.mean(pairs))
    assert found == pytest.approx(roc_auc_score([0] * 30 + [1] * 20, np.concatenate([inside, outside])))
    assert auroc(outside, inside)[0] == pytest.approx(1 - found)
    table = np.reshape(pairs, (30, 20))
    expected = np.var(table.mean(0), ddof=1) / 20 + np.var(table.mean(1), ddof=1) / 30
    assert error == pytest.approx(np.sqrt(expected))
    assert auroc(np.zeros(4), np.ones(3)) == (1.0, 0.0)
    assert np.isnan(auroc(np.zeros(1), np.ones(3))[1])


def test_the_standard_error_of_auroc_is_its_spread_over_samples():
    random = np.random.default_rng(1)
    found = [auroc(random.normal(0, 1, 60), random.normal(1, 1, 40)) for _ in range(400)]
    values, errors = np.transpose(found)
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(values.std(), rel=4 / np.sqrt(2 * 400))


def test_the_table_has_means_quantiles_and_parts_that_add_up(groups):
    table = uncertainty_table(groups, inside="test rows", levels=(0.25, 0.5))
    assert [(one.group, one.score) for one in table.rows[:4]] == [
        ("test rows", "entropy"),
        ("test rows", "expected_entropy"),
        ("test rows", "mutual_information"),
        ("noise", "entropy"),
    ]
    noise = groups["noise"]
    row = table.row("noise")
    assert (row.count, row.mean) == (40, pytest.approx(noise.entropy.mean()))
    assert row.standard_error == pytest.approx(noise.entropy.std(ddof=1) / np.sqrt(40))
    np.testing.assert_allclose(row.quantiles, np.quantile(noise.entropy, [0.25, 0.5]))
    for name in groups:
        parts = [table.row(name, score).mean for score in ("expected_entropy", "mutual_information")]
        assert sum(parts) == pytest.approx(table.row(name).mean)
    assert np.isnan(table.row("test rows").auroc)
    expected = auroc(groups["test rows"].mutual_information, noise.mutual_information)
    assert (table.row("noise", "mutual_information").auroc) == expected[0]
    assert table.row("unclear", "mutual_information").mean == pytest.approx(0, abs=1e-12)


def test_the_table_of_a_page_has_a_line_for_each_row(groups):
    lines = uncertainty_table(groups, inside="test rows").to_markdown().splitlines()
    assert lines[0] == "| group | rows | score | mean | 5 % | 50 % | 95 % | AUROC against test rows |"
    assert len(lines) == 2 + 9
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2].endswith("|  |")
    assert lines[7].startswith("| noise | 40 | epistemic | 0.")


def test_what_cannot_be_is_refused(groups):
    with pytest.raises(SettingError, match=r"inside='noises'.*Did you mean 'noise'"):
        uncertainty_table(groups, inside="noises")
    with pytest.raises(SettingError, match="`levels`"):
        uncertainty_table(groups, inside="noise", levels=(0.5, 1.2))
    with pytest.raises(SettingError, match="Did you mean 'entropy'"):
        uncertainty_table(groups, inside="noise").row("noise", "entropie")
    real = Prediction(np.zeros((3, 1)), *[None] * 2, np.zeros((3, 1)), (), *[None] * 4)  # type: ignore[arg-type]
    with pytest.raises(CapabilityError, match="'prices' has no `entropy`"):
        uncertainty_table({"prices": real}, inside="prices")
    with pytest.raises(DataError, match=r"'none'.*is empty"):
        uncertainty_table({"none": predicted(np.ones((2, 0, 3)))}, inside="none")


def test_the_bars_of_a_strip_are_all_rows(groups):
    axes = plots.uncertainty_by_group(groups)
    assert len(axes) == 6
    for strip, name in zip(axes[::2], groups, strict=True):
        assert sum(bar.get_height() for bar in strip.patches) == pytest.approx(1.0)
        assert strip.get_xlim() == (0.0, pytest.approx(np.log(5)))
        assert strip.lines[0].get_xdata()[0] == pytest.approx(np.median(groups[name].entropy))
        assert name in strip.get_ylabel()
    assert axes[1].get_xlim() == axes[3].get_xlim() == axes[5].get_xlim()


def test_the_margin_shows_the_least_median_and_most_unsure(groups):
    pictures = {
        "test rows": np.arange(40.0)[:, None, None] * np.ones((40, 4, 4)),
        "noise": np.arange(40, dtype=np.uint8)[:, None, None, None] * np.ones((40, 4, 4, 3), np.uint8),
    }
    axes = plots.uncertainty_by_group(groups, images=pictures, class_names=["a", "b", "$c", "d", "e"])
    assert len(axes) == 5 + 5 + 2
    order = np.argsort(groups["test rows"].entropy)
    shown = [float(np.asarray(cell.images[0].get_array())[0, 0]) for cell in axes[2:5]]
    assert shown == [order[0], order[19], order[-1]]
    assert [cell.get_title().split("\n")[0] for cell in axes[2:5]] == ["least", "median", "most"]
    assert axes[2].get_xlabel().split(":")[0] in ("a", "b", "$c", "d", "e")
    axes[0].figure.savefig(io.BytesIO(), format="svg")
    with pytest.raises(ValueError, match="has 39 images for 40 rows"):
        plots.uncertainty_by_group(groups, images={"noise": pictures["noise"][:39]})


def test_one_certain_row_is_a_picture_too():
    sure = predicted(np.broadcast_to(np.asarray([1 - 2e-9, 1e-9, 1e-9]), (3, 1, 3)))
    axes = plots.uncertainty_by_group({"one": sure}, images={"one": np.zeros((1, 3, 3))})
    axes[0].figure.savefig(io.BytesIO(), format="png")
    assert sum(bar.get_height() for bar in axes[1].patches) == pytest.approx(1.0)
