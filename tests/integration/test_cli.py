"""The command as a newcomer starts it: in an empty folder, with tiny settings, nearly always as a subprocess."""

import json
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ergonet.cli.main import app
from ergonet.report import RunRecord

pytestmark = pytest.mark.slow  # the whole file
COMMAND = str(Path(sys.executable).with_name("ergonet"))
TINY = ("--kernel", "nuts", "--chains", "2", "--warmup", "20", "--draws", "20", "--hidden", "4", "--no-baselines")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("newcomer")


@pytest.fixture(scope="module")
def ergonet(folder):
    def run(*arguments, code=0):
        answer = subprocess.run(
            [COMMAND, *arguments], cwd=folder, capture_output=True, text=True, timeout=600, check=False
        )
        assert answer.returncode == code, f"{arguments}: {answer.returncode}\n{answer.stdout}\n{answer.stderr}"
        assert "Traceback" not in answer.stderr
        return answer

    return run


@pytest.fixture(scope="module")
def houses(folder):
    random = np.random.default_rng(0)
    table = pd.DataFrame({"size": random.normal(80, 20, 60), "age": random.uniform(0, 90, 60)})
    table["price"] = 2000 * table["size"] - 500 * table["age"] + random.normal(0, 9000, 60)
    table["kind"] = np.where(table["price"] > table["price"].median(), "dear", "cheap")
    table.drop(columns="kind").to_csv(folder / "houses.csv", index=False)
    table.drop(columns="price").to_parquet(folder / "kinds.parquet")
    table[["age", "size"]].head(5).to_csv(folder / "new.csv", index=False)
    return table


@pytest.fixture(scope="module")
def regression(ergonet, houses):
    return ergonet(
        "fit", "houses.csv", "--target", "price", *TINY, "--baselines", "--out", "houses-run", "--strict", code=3
    )


@pytest.fixture(scope="module")
def digits(ergonet):
    network, short = ("--hidden", "35", "--no-bias"), ("--chains", "2", "--warmup", "20", "--draws", "10")
    return ergonet("fit", "digits", *network, "--prior", "normal", "--kernel", "nuts", *short, "--no-baselines")


def test_a_fit_leaves_a_whole_run_directory(regression, folder):
    run = folder / "houses-run"
    manifest = json.loads((run / "manifest.json").read_text())
    assert set(manifest["files"]) == {entry.name for entry in run.iterdir()} - {"manifest.json"}
    assert "report.html" in manifest["files"]
    metrics = json.loads((run / "metrics.json").read_text())
    assert (metrics["task"], metrics["num_train"], metrics["num_test"], metrics["dim"]) == ("regression", 48, 12, 22)
    assert {"setup", "compile", "warmup", "sampling", "total"} <= metrics["seconds"].keys()
    assert metrics["gradients"]["sampling"] > 0
    assert {"rmse", "nll", "calibration"} <= metrics["test"].keys()
    wanted = {"divergences", "max_rhat_function", "min_ess_bulk_function", "min_ess_bulk_weights", "min_ebfmi"}
    assert wanted <= metrics["diagnostics"].keys()
    assert [one["name"] for one in metrics["baselines"]["methods"]] == ["ridge regression", "gradient boosting"]
    assert {"rmse", "nll", "calibration"} <= metrics["baselines"]["methods"][0]["test"].keys()
    assert "Does the network earn its place?" in (run / "report.html").read_text(encoding="utf-8")
    record = RunRecord.load(run)
    assert record.stats["lp"].shape == record.warmup_stats["lp"].shape == (2, 20)
    assert record.evaluation["quantiles"].shape == (len(record.evaluation["levels"]), 12, 1)
    assert record.evaluation["function_draws"].shape[:2] == (2, 20)
    assert sorted(record.evaluation["importance_names"]) == ["age", "size"]
    assert "What the predictions depend on" in (run / "report.html").read_text(encoding="utf-8")


def test_a_fit_says_what_it_does_and_what_is_off(regression):
    for words in ("48 training rows, 12 held out", "2-4-2", "GiB", "Test RMSE", "R-hat", "Divergences", "E-BFMI"):
        assert words in regression.stdout
    assert "GiB" in regression.stderr
    assert "Ridge regression" in regression.stdout
    assert "Gradient boosting" in regression.stdout
    assert "log score" in regression.stdout  # whether the network earns its place
    assert "! " in regression.stdout  # 20 draws are not enough, and it says so
    assert regression.stdout.rstrip().endswith("Report: houses-run/report.html")


def test_test_scores_are_in_the_unit_of_the_target(regression, folder, houses):
    record = RunRecord.load(folder / "houses-run")
    truth = houses["price"].to_numpy()[record.evaluation["test_rows"]]
    np.testing.assert_allclose(record.evaluation["truth"][:, 0], truth, rtol=1e-5)
    rmse = np.sqrt(np.mean((record.evaluation["mean"][:, 0] - truth) ** 2))
    assert record.metrics["test"]["rmse"] == pytest.approx(rmse, rel=1e-4)
    # The density of a standardized target would be lower by the log of its standard deviation, about 10.7 nats.
    assert record.metrics["test"]["nll"] > np.log(truth.std())


def test_settings_are_saved_and_give_the_same_run_again(regression, ergonet, folder):
    settings = tomllib.loads((folder / "houses-run" / "settings.toml").read_text())
    assert settings["likelihood"]["name"] == "heteroscedastic-student-t"
    assert settings["likelihood"]["floor"] > 0
    assert settings["kernel"]["max_doublings"] == 10
    ergonet("fit", "--settings", "houses-run/settings.toml", "--out", "again", "--quiet")
    first, second = (RunRecord.load(folder / name) for name in ("houses-run", "again"))
    for name in ("mean", "sd", "quantiles", "function_draws"):
        np.testing.assert_array_equal(first.evaluation[name], second.evaluation[name])


def test_predictions_of_a_regression(regression, ergonet, folder):
    ergonet("predict", "houses-run", "new.csv", "--out", "p.csv")
    table = pd.read_csv(folder / "p.csv")
    assert list(table.columns) == ["mean", "sd", "sd_aleatoric", "sd_epistemic", "q05", "q95", "outside"]
    assert len(table) == 5
    assert np.all(np.diff(table[["q05", "mean", "q95"]].to_numpy(), axis=1) > 0)
    assert np.all(np.abs(table["mean"].to_numpy() - 160_000) < 240_000)
    ergonet("predict", "houses-run", "new.csv", "--out", "p.parquet")
    stored = pd.read_parquet(folder / "p.parquet")
    assert stored.pop("outside").tolist() == table.pop("outside").fillna("").tolist()
    pd.testing.assert_frame_equal(stored, table, rtol=1e-9)
    assert "exists already" in ergonet("predict", "houses-run", "new.csv", "--out", "p.csv", code=1).stderr
    ergonet("predict", "houses-run", "new.csv", "--out", "p.csv", "--overwrite")


def test_predicted_test_rows_are_those_of_the_fit(regression, ergonet, folder, houses):
    record = RunRecord.load(folder / "houses-run")
    houses[["size", "age"]].iloc[record.evaluation["test_rows"]].to_csv(folder / "held.csv", index=False)
    ergonet("predict", "houses-run", "held.csv", "--out", "held-p.csv")
    table = pd.read_csv(folder / "held-p.csv")
    for name, values in (("mean", record.evaluation["mean"]), ("sd", record.evaluation["sd"])):
        np.testing.assert_allclose(table[name], values[:, 0], rtol=1e-4)


def test_report_and_diagnose_read_the_run(regression, ergonet, folder):
    report = folder / "houses-run" / "report.html"
    report.unlink()
    assert "report.html" in ergonet("report", "houses-run").stdout
    assert "houses" in report.read_text(encoding="utf-8")
    shown = ergonet("diagnose", "houses-run").stdout
    assert shown == regression.stdout[regression.stdout.index("Test RMSE") :]
    ergonet("diagnose", "houses-run", "--strict", code=3)


def test_digits_have_their_own_split(digits, folder):
    record = RunRecord.load(folder / "digits-run")
    assert (record.metrics["num_train"], record.metrics["num_test"], record.metrics["dim"]) == (500, 500, 2590)
    assert record.settings["network"] == {"hidden": [35], "activation": "tanh", "bias": False, "direct": False}
    assert record.evaluation["images"].shape == (500, 8, 8)
    assert record.metrics["test"]["error"] < 0.5
    assert (record.evaluation["epistemic"] >= 0).all()


def test_digits_take_a_matrix_of_pixels(digits, ergonet, folder):
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    np.savez(folder / "pixels.npz", x=pixels[-500:])
    ergonet("predict", "digits-run", "pixels.npz", "--out", "d.csv")
    table = pd.read_csv(folder / "d.csv")
    assert list(table.columns)[:11] == ["predicted", *(f"probability_{digit}" for digit in range(10))]
    np.testing.assert_allclose(table.iloc[:, 1:11].sum(axis=1), 1, rtol=1e-5)
    error = np.mean(table["predicted"] != np.asarray(labels)[-500:])
    assert error == pytest.approx(RunRecord.load(folder / "digits-run").metrics["test"]["error"])


def test_string_labels_without_test_rows(ergonet, houses, folder):
    answer = ergonet("fit", "kinds.parquet", "--target", "kind", "--test-fraction", "0", *TINY)
    assert "no rows were held out" in answer.stdout
    assert json.loads((folder / "kinds-run" / "metrics.json").read_text())["test"] == {}
    ergonet("predict", "kinds-run", "new.csv", "--out", "k.csv")
    table = pd.read_csv(folder / "k.csv")
    assert list(table.columns)[:3] == ["predicted", "probability_cheap", "probability_dear"]
    parts = table["entropy_aleatoric"] + table["entropy_epistemic"]
    np.testing.assert_allclose(parts, table["entropy"], atol=1e-5)
    likeliest = np.where(table["probability_dear"] > table["probability_cheap"], "dear", "cheap")
    assert list(table["predicted"]) == list(likeliest)


def test_several_targets_have_columns_of_their_own(ergonet, houses, folder):
    houses.drop(columns="kind").assign(rent=houses["price"] / 300).to_csv(folder / "two.csv", index=False)
    ergonet("fit", "two.csv", "--target", "price", "--target", "rent", *TINY, "--quiet")
    ergonet("predict", "two-run", "new.csv", "--out", "two-p.csv")
    table = pd.read_csv(folder / "two-p.csv")
    of_target = ("mean", "sd", "sd_aleatoric", "sd_epistemic", "q05", "q95")
    assert list(table.columns) == [*(f"{name}_{one}" for name in ("price", "rent") for one in of_target), "outside"]
    assert 50 < np.median(table["price_sd"].to_numpy() / table["rent_sd"].to_numpy()) < 1800


def bad_tables(folder, houses):
    good = houses.drop(columns="kind")
    good.assign(rooms=np.arange(60) % 5).to_csv(folder / "rooms.csv", index=False)
    good.assign(age=good["age"].where(good.index != 4)).to_csv(folder / "nan.csv", index=False)
    good.head(1).to_csv(folder / "one.csv", index=False)
    good.drop(columns="age").to_csv(folder / "other.csv", index=False)
    houses.assign(kind="same").to_csv(folder / "same.csv", index=False)
    (folder / "picture.csv").write_bytes(bytes(range(256)))
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.txt").write_text("hours of work")
    (folder / "bad.toml").write_text('[kernel]\nname = "nuts"\nmax_doubling = 3\n')


def test_bad_input_gets_one_line_and_leaves_nothing(houses, folder, monkeypatch, capsys):
    bad_tables(folder, houses)
    monkeypatch.chdir(folder)  # all in this process, since starting so many takes a minute
    fit = ("fit", "houses.csv", "--target", "price")
    cases = [
        (("fit", "houses.csv"), "Its columns are: size, age, price"),
        (("fit", "houses.csv", "--target", "prise"), "Did you mean 'price'"),
        (("fit", "hoses.csv", "--target", "price"), "Did you mean 'houses.csv'"),
        ((*fit, "--drop", "sise"), "Did you mean 'size'"),
        ((*fit, "--types", "size=date"), "does not hold dates of one known form"),
        (("fit", "nan.csv", "--target", "price", "--missing", "refuse"), "data row 5"),
        (("fit", "rooms.csv", "--target", "rooms"), "Set `--task`"),
        (("fit", "one.csv", "--target", "price"), "only 1 data row"),
        (("fit", "same.csv", "--target", "kind"), "only one class"),
        (("fit", "picture.csv", "--target", "price"), "not a text table"),
        ((*fit, "--out", "mine"), "exists already"),
        ((*fit, "--out", "mine", "--overwrite"), "mine/thesis.txt` was not written by Ergonet"),
        ((*fit, "--draws", "-5"), "`--draws`"),
        ((*fit, "--chains", "0"), "`--chains`"),
        ((*fit, "--activation", "tahn"), "Did you mean 'tanh'"),
        ((*fit, "--kernel", "nut"), "Did you mean 'nuts'"),
        ((*fit, "--settings", "bad.toml"), "Did you mean 'max_doublings'"),
        ((*fit, "--test-file", "other.csv"), "'age'"),
        ((*fit, "--draws", "1000000000"), "GiB"),
        (("predict", "nowhere", "new.csv", "--out", "x.csv"), "no run directory"),
        (("report", "mine"), "has no settings.toml"),
        (("diagnose", "nowhere"), "no run directory"),
    ]
    before = {entry.name for entry in folder.iterdir()}
    for arguments, message in cases:
        with pytest.raises(SystemExit) as end:
            app(arguments)
        said, error = capsys.readouterr()
        assert (end.value.code, said) == (1, ""), arguments
        assert message in error, (arguments, error)
        assert len(error.strip().splitlines()) == 1, error
    assert {entry.name for entry in folder.iterdir()} == before
    assert (folder / "mine" / "thesis.txt").read_text() == "hours of work"


def test_usage_errors_have_their_own_code(ergonet):
    for arguments in (("fit", "--bogus"), ("fti",), ("fit", "digits", "--draws", "x"), ("predict", "run")):
        assert "Error" in ergonet(*arguments, code=2).stderr


def test_help_and_lists_import_nothing_heavy(folder):
    program = (
        "import sys\nfrom ergonet.cli.main import main\n"
        "sys.argv = ['ergonet', *sys.argv[1:]]\n"
        "try:\n    main()\nexcept SystemExit as leave:\n    assert not leave.code, leave.code\n"
        "heavy = {'jax', 'numpy', 'pandas', 'sklearn', 'matplotlib', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    names = ("fit", "prior-check", "check", "predict", "report", "diagnose", "verify", "datasets")
    commands = [(), *((name,) for name in names)]
    for arguments in [*((*command, "--help") for command in commands), ("--version",), ("datasets",)]:
        answer = subprocess.run(
            [sys.executable, "-c", program, *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout


HELP = "import sys\nfrom ergonet.cli.main import main\nsys.argv = ['ergonet', 'fit', '--help']\nmain()\n"
BARE = """import sys, typer
app = typer.Typer()
@app.command()
def fit(count: int = 3): ...
sys.argv = ['bare', '--help']
app()
"""


def test_help_costs_little_more_than_that_of_a_command_with_one_option():
    """Modules that are imported, because seconds vary: JAX alone imports some 600."""
    ending = "import atexit, sys\natexit.register(lambda: print(len(sys.modules), file=sys.stderr))\n"

    def modules(program):
        answer = subprocess.run([sys.executable, "-c", ending + program], capture_output=True, text=True, check=True)
        return int(answer.stderr.split()[-1])

    assert modules(HELP) < 1.2 * modules(BARE)


def interrupted(folder, arguments, *, ready, by=signal.SIGINT):
    """The command, sent a signal as soon as `ready` says so."""
    process = subprocess.Popen(
        [COMMAND, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 300
    while not ready() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(by)
    output, errors = process.communicate(timeout=300)
    assert "Traceback" not in errors
    return process.returncode, output, errors


def draws_by_chain(run):
    try:
        return min(json.loads((run / "draws.zarr" / "manifest.json").read_text())["draws_by_chain"])
    except (OSError, ValueError):
        return 0


def test_ctrl_c_keeps_the_draws(ergonet, houses, folder):
    run = folder / "cut"
    arguments = ("fit", "houses.csv", "--target", "price", *TINY, "--draws", "100000", "--out", "cut")
    code, output, errors = interrupted(folder, arguments, ready=lambda: draws_by_chain(run) > 0)
    assert code == 130
    assert "Stopped by Ctrl-C" in output
    assert re.search(r"\d+ draws? of each chain (is|are) kept in cut\. `ergonet resume cut` goes on", errors)
    metrics = json.loads((run / "metrics.json").read_text())
    assert 0 < metrics["num_draws"] < 100_000
    assert (run / "report.html").exists()
    ergonet("predict", "cut", "new.csv", "--out", "cut.csv")


def test_sigterm_keeps_the_draws_and_waits_for_no_report(ergonet, houses, folder):
    run = folder / "ended"
    arguments = ("fit", "houses.csv", "--target", "price", *TINY, "--draws", "100000", "--out", "ended")
    ready = lambda: draws_by_chain(run) > 0  # noqa: E731
    code, _, errors = interrupted(folder, arguments, ready=ready, by=signal.SIGTERM)
    assert code == 143
    assert re.search(r"\d+ draws? of each chain (is|are) kept in ended\. `ergonet resume ended` goes on", errors)
    assert draws_by_chain(run) > 0
    assert not (run / "report.html").exists()


def test_ctrl_c_with_nothing_to_keep_restores_what_was_there(regression, ergonet, folder):
    kept = (folder / "houses-run" / "metrics.json").read_bytes()
    arguments = ("fit", "houses.csv", "--target", "price", *TINY, "--warmup", "1000000", "--out", "houses-run")
    beside = folder / ".houses-run.ergonet"
    store = beside / "new" / "draws.zarr" / "manifest.json"
    code, _, errors = interrupted(folder, (*arguments, "--overwrite"), ready=store.exists)
    assert code == 130
    assert "Interrupted before there were any draws." in errors
    assert (folder / "houses-run" / "metrics.json").read_bytes() == kept
    assert not beside.exists()


LEARNED = """
[prior."layers.0.weight"]
name = "normal-gamma"
group = "input"
parametrization = "centered"
[prior."*"]
name = "normal-gamma"
parametrization = "centered"
[kernel]
name = "gibbs"
"""


def test_priors_that_learn_their_scales_come_with_names_and_diagnostics(ergonet, houses, folder):
    (folder / "learned.toml").write_text(LEARNED)
    fit = "fit", "houses.csv", "--target", "price", "--settings", "learned.toml", "--likelihood", "gaussian", *TINY
    answer = ergonet(*fit, "--out", "learned")
    assert "R-hat of scales" in answer.stdout
    record = RunRecord.load(folder / "learned")
    assert {"max_rhat_scales", "min_ess_bulk_scales"} <= record.metrics["diagnostics"].keys()
    assert list(record.evaluation["input_names"]) == ["size", "age"]
    assert "layers.0.weight by input" in record.evaluation["scale_names"]
    assert "noise" in record.evaluation["scale_names"]
    page = (folder / "learned" / "report.html").read_text()
    assert "Which inputs matter" in page
    assert "What did the data say about the scales?" in page
