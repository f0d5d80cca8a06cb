"""The table and the sentences at the end of a fit."""

import numpy as np
import pytest

from ergonet.cli import summary
from ergonet.prediction.trust import trust_figures
from ergonet.report import opening
from tests.report_records import regression_record

GOOD = {
    "num_chains": 4,
    "num_draws": 500,
    "num_test": 500,
    "seconds": {"setup": 2.0, "compile": 3.5, "warmup": 12.0, "sampling": 61.0, "total": 80.0},
    "gradients": {"warmup": 276187, "sampling": 254000},
    "test": {"error": 0.088, "error_standard_error": 0.0127, "nll": 0.399, "nll_standard_error": 0.028},
    "diagnostics": {"divergences": 0, "max_rhat_function": 1.005, "min_ess_bulk_function": 1310.2, "min_ebfmi": 0.92},
}


def values(metrics):
    return {name: value for name, value, _ in summary.rows(metrics)}


def test_the_table_has_scores_diagnostics_and_cost():
    found = values(GOOD)
    assert found["Test error"] == "8.8 % ± 1.3"
    assert found["Test NLL"] == "0.399 ± 0.028"
    assert found["R-hat of predictions"] == "1.005"
    assert found["ESS of predictions"] == "1310"
    assert (found["Divergences"], found["E-BFMI"]) == ("0", "0.92")
    assert (found["Compilation"], found["Sampling"]) == ("3.5 s", "1 min 1 s")


def test_learned_scales_have_rows_where_there_are_some():
    found = values(
        {**GOOD, "diagnostics": {**GOOD["diagnostics"], "max_rhat_scales": 1.02, "min_ess_bulk_scales": 77.0}}
    )
    assert (found["R-hat of scales"], found["ESS of scales"]) == ("1.020", "77")
    assert "R-hat of scales" not in values(GOOD)


def test_regression_has_its_own_scores():
    test = {"rmse": 58.3, "rmse_standard_error": 4.8, "coverage_90": 0.888}
    found = values({**GOOD, "test": test})
    assert (found["Test RMSE"], found["90 % intervals"]) == ("58.3 ± 4.8", "88.8 %")
    assert "Test error" not in found


def test_several_targets_have_an_error_each_in_its_own_unit():
    metrics = regression_record(targets=2).metrics
    mean, truth = np.array([[1.0, 200.0], [3.0, 200.0]]), np.array([[1.0, 180.0], [4.0, 220.0]])
    arrays = {"mean": mean, "truth": truth, "sd": np.ones((2, 2)), "quantiles": np.stack([mean - 1, mean + 1])}
    trust = trust_figures({**arrays, "levels": (0.05, 0.95)})
    found = summary.rows({**metrics, "trust": trust})
    assert [(name.strip(), value) for name, value, _ in found[1:3]] == [("progression", "0.707"), ("weight", "20.0")]
    assert found[0][2].endswith("all targets together; of each:")
    assert "(root mean square, over all targets)" in opening.paragraph({**metrics, "trust": trust})[1]
    of_one = {name: array[..., :1] for name, array in arrays.items()}
    assert "target_rmse" not in trust_figures({**of_one, "levels": (0.05, 0.95)})


def test_without_test_rows_it_says_so():
    assert summary.rows({**GOOD, "test": {}, "num_test": 0})[0][1:] == (
        "none",
        "no rows were held out (--test-fraction, --test-file)",
    )


def test_what_is_not_known_is_not_a_number():
    found = values({**GOOD, "diagnostics": {"max_rhat_function": None}, "seconds": {}, "gradients": {}})
    assert found["R-hat of predictions"] == found["ESS of predictions"] == found["Sampling"] == "unknown"


@pytest.mark.parametrize("stopped", [None, "Ctrl-C"])
def test_sentences_say_what_is_off_and_what_was_cut_short(stopped):
    metrics = {**GOOD, "stopped_by": stopped}
    assert summary.sentences(metrics)[-1] == "Every check of the draws passed."
    assert any("Ctrl-C" in one for one in summary.sentences(metrics)) == bool(stopped)
    off = summary.sentences({**metrics, "diagnostics": {**GOOD["diagnostics"], "divergences": 7}})
    assert off[-1].startswith("! 7 of 2000 transitions")


def test_plain_text_has_plain_spaces(capsys):
    summary.show(GOOD, report=None)
    shown = capsys.readouterr().out
    assert "276 187 gradients" in shown
    assert "Report" not in shown
