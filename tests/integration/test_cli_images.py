"""The command on image data sets: tiny files of the official formats, fitted, reported and predicted."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from ergonet.report import RunRecord

pytestmark = pytest.mark.slow  # the whole file
COMMAND = str(Path(sys.executable).with_name("ergonet"))
TINY = ("--chains", "2", "--warmup", "20", "--draws", "10", "--hidden", "4", "--no-baselines", "--quiet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("images")


@pytest.fixture(scope="module")
def ergonet(folder):
    def run(*arguments, code=0, **variables):
        environment = {name: value for name, value in os.environ.items() if name != "ERGONET_DATA"}
        environment |= variables
        answer = subprocess.run(
            [COMMAND, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert answer.returncode == code, f"{arguments}: {answer.returncode}\n{answer.stdout}\n{answer.stderr}"
        assert "Traceback" not in answer.stderr
        return answer

    return run


@pytest.fixture(scope="module")
def gray(folder):
    """Ten bright bars, one for each class, as idx files."""
    random = np.random.default_rng(0)
    place = folder / "data" / "fashion_mnist"
    place.mkdir(parents=True)
    arrays = {}
    for part, rows in (("train", 60), ("t10k", 30)):
        labels = (np.arange(rows) % 10).astype(np.uint8)
        pixels = random.integers(0, 60, (rows, 28, 28)).astype(np.uint8)
        for row, label in enumerate(labels):
            pixels[row, :, 2 * label : 2 * label + 4] = 250
        arrays[part] = pixels, labels
        for kind, array in (("images-idx3", pixels), ("labels-idx1", labels)):
            header = bytes((0, 0, 8, array.ndim)) + b"".join(one.to_bytes(4, "big") for one in array.shape)
            (place / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + array.tobytes()))
    return arrays


def test_gray_images_from_fit_to_prediction(ergonet, gray, folder):
    ergonet("fit", "fashion-mnist", "--data", "data", *TINY, "--kernel", "nuts")
    record = RunRecord.load(folder / "fashion-mnist-run")
    assert (record.metrics["num_train"], record.metrics["num_test"]) == (60, 30)
    assert record.metrics["dim"] == 784 * 4 + 4 + 4 * 10 + 10
    assert record.metrics["data"]["classes"][9] == "ankle boot"
    assert record.settings["data"]["folder"] == "data"
    assert record.settings["network"] == {"hidden": [4], "activation": "relu", "bias": True, "direct": False}
    pixels, labels = gray["t10k"]
    np.testing.assert_array_equal(record.evaluation["images"], pixels)
    assert "data:image/png;base64," in (folder / "fashion-mnist-run" / "report.html").read_text()

    flat = pixels.reshape(30, 784)
    np.savez(folder / "new.npz", x=flat)
    names = [f"pixel_{row}_{column}" for row in range(28) for column in range(28)]
    pd.DataFrame(flat, columns=names).to_csv(folder / "new.csv", index=False)
    tables = []
    for file in ("new.npz", "new.csv"):
        ergonet("predict", "fashion-mnist-run", file, "--out", "p.csv", "--overwrite")
        tables.append(pd.read_csv(folder / "p.csv"))
    pd.testing.assert_frame_equal(*tables)
    classes = record.metrics["data"]["classes"]
    error = np.mean(tables[0]["predicted"] != np.asarray(classes)[labels])
    assert error == pytest.approx(record.metrics["test"]["error"])
    found = tables[0].filter(like="probability_")
    np.testing.assert_allclose(found, record.evaluation["probabilities"], rtol=1e-4, atol=1e-6)


def test_saved_settings_and_the_environment_find_the_files_again(ergonet, gray, folder):
    ergonet("fit", "fashion-mnist", *TINY, "--kernel", "mala", "--out", "first", ERGONET_DATA="data")
    assert "folder" not in RunRecord.load(folder / "first").settings["data"]
    ergonet("fit", "--settings", "first/settings.toml", "--data", "data", "--quiet", "--out", "again")
    first, again = (RunRecord.load(folder / name).evaluation["probabilities"] for name in ("first", "again"))
    np.testing.assert_array_equal(first, again)


def test_color_pictures_from_fit_to_prediction(ergonet, folder):
    random = np.random.default_rng(3)
    for part, rows in (("train", 4), ("test", 2)):
        for name in ("cat", "ship"):
            place = folder / "pictures" / "cifar10" / part / name
            place.mkdir(parents=True)
            for row in range(rows):
                pixels = random.integers(0, 256, (32, 32, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(place / f"{row:04d}.png")
    ergonet("fit", "cifar10", "--data", "pictures", *TINY, "--kernel", "mala")
    record = RunRecord.load(folder / "cifar10-run")
    assert record.evaluation["images"].shape == (4, 32, 32, 3)
    assert record.evaluation["images"].dtype == np.uint8
    np.savez(folder / "color.npz", x=record.evaluation["images"].reshape(4, -1))
    ergonet("predict", "cifar10-run", "color.npz", "--out", "c.csv")
    found = pd.read_csv(folder / "c.csv").filter(like="probability_")
    np.testing.assert_allclose(found, record.evaluation["probabilities"], rtol=1e-4, atol=1e-6)


def test_what_cannot_be_is_one_line(ergonet, gray, folder):
    cases = [
        (("fit", "mnist"), "no folder was given"),
        (("fit", "mnist", "--data", "nowhere"), "there is no folder 'nowhere'"),
        (("fit", "mnist", "--data", "data"), "'mnist' was not found in data"),
        (("fit", "digits", "--data", "data"), "not for 'digits'"),
        (("fit", "digits", "--fetch"), "not for 'digits'"),
        (("fit", "new.csv", "--data", "data", "--target", "y"), "is for built-in data sets of images"),
        (("fit", "fashion-mnist", "--data", "data", "--test-fraction", "0.5"), "`--test-fraction` is for tables"),
        (("fit", "fashion-mnist", "--data", "data", "--fetch"), "give only one"),
    ]
    for arguments, message in cases:
        answer = ergonet(*arguments, code=1)
        assert message in answer.stderr, (arguments, answer.stderr)
        assert len(answer.stderr.strip().splitlines()) == 1
        assert answer.stdout == ""


def test_fetch_asks_openml(folder):
    program = (
        "import sys, sklearn.datasets\n"
        "def offline(name, **settings):\n    raise OSError(f'no way to {name}')\n"
        "sklearn.datasets.fetch_openml = offline\n"
        "from ergonet.cli.main import main\n"
        "sys.argv = ['ergonet', 'fit', 'mnist', '--fetch']\n"
        "main()\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "could not be downloaded from OpenML (mnist_784): no way to mnist_784" in answer.stderr
