"""The section of the report on what the predictions depend on."""

from dataclasses import replace

import numpy as np
import pytest

from ergonet.report import explanation, write_report
from tests.report_records import classification_record, regression_record

ARRAYS = {
    "importance_names": np.asarray(["bmi", "age", "<b>sex"]),
    "importance": np.asarray([[0.2, 0.01, np.nan], [0.03, 0.005, np.nan], [3, 3, 0]]),
    "dependence_names": np.asarray(["bmi", "<b>sex"]),
    "dependence_0_values": np.linspace(18, 42, 21),
    "dependence_0": np.stack([np.linspace(100, 200, 21) + one for one in (0, -20, 20)])[:, :, None],
    "dependence_1_values": np.asarray(["female", "male"]),
    "dependence_1": np.asarray([[150.0, 140.0], [120, 130], [170, 160]])[:, :, None],
}


def with_explanation(record, **changed):
    return replace(record, evaluation=record.evaluation | ARRAYS | changed)


def test_importance_and_dependence_have_pictures_with_words(tmp_path):
    record = with_explanation(regression_record())
    importance, first, second = explanation.pictures(record)
    assert importance.alternative.endswith("most important first: bmi 0.200 ± 0.030, age 0.0100 ± 0.0050.")
    assert "There was no time for 1 column." in importance.caption
    assert first.alternative == "Average prediction of progression as a function of bmi, from 100 to 200."
    assert second.title == "How does progression change with <b>sex?"
    page = write_report(record, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "What the predictions depend on" in page
    assert "&lt;b&gt;sex" in page
    assert "<b>sex" not in page


@pytest.mark.parametrize(("classes", "shown"), [(2, 1), (10, 4)])
def test_of_classes_the_one_that_changes_most_is_shown(classes, shown):
    mean = np.full((21, classes), 0.1)
    mean[:, 4 if classes > 2 else 0] = np.linspace(0.1, 0.9, 21)
    record = with_explanation(classification_record(), dependence_0=np.stack([mean, mean - 0.05, mean + 0.05]))
    names = ["cheap", "dear"] if classes == 2 else [str(one) for one in range(10)]
    data = dict(record.metrics["data"]) | {"classes": names}
    record = replace(record, metrics=dict(record.metrics) | {"data": data})
    record = replace(record, evaluation={**record.evaluation, "dependence_names": np.asarray(["bmi"])})
    assert explanation.pictures(record)[1].title == f"How does P({names[shown]}) change with bmi?"


def test_runs_without_these_arrays_have_no_such_section(tmp_path):
    assert explanation.pictures(regression_record()) == []
    page = write_report(regression_record(), tmp_path / "report.html").read_text(encoding="utf-8")
    assert "What the predictions depend on" not in page


def test_print_shows_what_is_collapsed_and_cuts_nothing(tmp_path):
    page = write_report(regression_record(), tmp_path / "report.html").read_text(encoding="utf-8")
    style = page[page.index("@media print") : page.index("</style>")]
    assert "details::details-content { display: block; content-visibility: visible;" in style
    assert "break-inside: avoid" in style
    assert ".scroll { overflow: visible; background: none; }" in style
