"""Image data sets: read from small files of the same formats, scaled as documented, refused with one clear error."""

import dataclasses
import gzip
import io
import tarfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets
from PIL import Image

from ergonet import datasets
from ergonet._errors import DataError, SettingError
from ergonet.datasets import cifar, images
from ergonet.datasets.preprocessing import Preprocessing

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@pytest.fixture(autouse=True)
def _no_folder_of_the_machine(monkeypatch):
    monkeypatch.delenv("ERGONET_DATA", raising=False)


def idx_bytes(array):
    header = bytes((0, 0, 8, array.ndim)) + b"".join(int(one).to_bytes(4, "big") for one in array.shape)
    return header + array.astype(np.uint8).tobytes()


def gray(seed=0, train=12, test=5):
    random = np.random.default_rng(seed)
    arrays = []
    for rows in (train, test):
        arrays += [random.integers(0, 256, (rows, 28, 28)), np.arange(rows) % 10]
    return arrays


def write_idx(folder, arrays, *, compressed=False, names=NAMES):
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(names, arrays, strict=True):
        content = idx_bytes(array)
        path = folder / (name + ".gz" if compressed else name)
        path.write_bytes(gzip.compress(content) if compressed else content)
    return folder


def photos(count=12, seed=1):
    """Images [rows, 32, 32, 3] and their classes."""
    return np.random.default_rng(seed).integers(0, 256, (count, 32, 32, 3)).astype(np.uint8), np.arange(count) % 10


def batch_bytes(pixels, classes):
    rows = [bytes([label]) + one.transpose(2, 0, 1).tobytes() for one, label in zip(pixels, classes, strict=True)]
    return b"".join(rows)


def write_batches(folder, *, skip=()):
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for number, name in enumerate([f"data_batch_{one}.bin" for one in range(1, 6)] + ["test_batch.bin"]):
        parts.append(photos(4, seed=number))
        if name not in skip:
            (folder / name).write_bytes(batch_bytes(*parts[-1]))
    return parts


def write_tree(folder, *, suffix="png", parts=("train", "test")):
    for part in parts:
        pixels, _ = photos(20, seed=len(part))
        for row in range(20):
            place = folder / part / CLASSES[row % 10]
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels[row]).save(place / f"{row // 10:04d}.{suffix}")


def pack(folder, archive):
    with tarfile.open(archive, "w:gz" if archive.suffix == ".gz" else "w") as packed:
        for one in sorted(folder.iterdir()):
            packed.add(one, arcname=one.name)


@pytest.mark.parametrize(
    ("name", "place", "compressed"),
    [
        ("mnist", "mnist", False),
        ("mnist", "mnist", True),
        ("mnist", "MNIST/raw", True),
        ("mnist", ".", False),
        ("fashion-mnist", "fashion_mnist", True),
        ("fashion-mnist", "FashionMNIST/raw", False),
    ],
)
def test_gray_images_are_bytes_over_255_in_the_order_of_the_file(tmp_path, name, place, compressed):
    arrays = gray()
    write_idx(tmp_path / place, arrays, compressed=compressed)
    data = datasets.load(name, data=tmp_path)
    assert (data.name, data.task, data.image_shape) == (name, "classification", (28, 28))
    assert data.x_train.dtype == np.float32
    np.testing.assert_array_equal(data.x_train, (arrays[0].reshape(12, 784) / 255).astype(np.float32))
    np.testing.assert_array_equal(data.x_test, (arrays[2].reshape(5, 784) / 255).astype(np.float32))
    np.testing.assert_array_equal(data.y_train, arrays[1])
    np.testing.assert_array_equal(data.y_test, arrays[3])
    assert data.y_train.dtype == np.int32
    assert data.raw_test.dtype == np.uint8
    np.testing.assert_array_equal(data.preprocessing.transform(data.raw_test), data.x_test)


def test_names_with_a_dot_are_known_too(tmp_path):
    write_idx(tmp_path / "mnist", gray(), names=[name.replace("-idx", ".idx") for name in NAMES])
    assert len(datasets.load("mnist", data=tmp_path).x_train) == 12


def test_the_environment_names_the_folder_unless_another_is_given(tmp_path, monkeypatch):
    write_idx(tmp_path / "one" / "mnist", gray())
    write_idx(tmp_path / "other" / "mnist", gray(train=7))
    monkeypatch.setenv("ERGONET_DATA", str(tmp_path / "one"))
    assert len(datasets.load("mnist").x_train) == 12
    assert len(datasets.load("mnist", data=tmp_path / "other").x_train) == 7


def test_classes_have_their_names(tmp_path):
    write_idx(tmp_path / "fashion-mnist", gray())
    preprocessing = datasets.load("fashion-mnist", data=tmp_path).preprocessing
    assert preprocessing.labels([0, 9]).tolist() == ["T-shirt/top", "ankle boot"]
    again = Preprocessing.from_dict(preprocessing.to_dict())
    assert again.classes == preprocessing.classes
    assert again.feature_names[28] == "pixel_1_0"


def test_files_of_the_other_set_are_not_taken(tmp_path):
    write_idx(tmp_path / "mnist" / "raw", gray())
    for folder in (tmp_path / "mnist", tmp_path / "mnist" / "raw"):
        with pytest.raises(DataError, match="'fashion-mnist' was not found"):
            datasets.load("fashion-mnist", data=folder)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_missing_files_say_what_is_expected_where(tmp_path, name):
    wanted = "data_batch_5.bin" if name == "cifar10" else "t10k-labels-idx1-ubyte"
    for folder, problem in ((None, "no folder was given"), (tmp_path, "not found in"), (tmp_path / "no", "no folder")):
        with pytest.raises(DataError, match=problem) as error:
            datasets.load(name, data=folder)
        for word in (wanted, name.partition("-")[0], "--data", "ERGONET_DATA", "--fetch", ".gz"):
            assert word in str(error.value)


def test_an_incomplete_folder_names_what_is_missing(tmp_path):
    write_idx(tmp_path / "mnist", gray())
    (tmp_path / "mnist" / NAMES[1]).unlink()
    with pytest.raises(DataError, match=f"not complete in .*mnist: {NAMES[1]} is not there"):
        datasets.load("mnist", data=tmp_path)


def damaged_idx():
    images, labels, *_ = gray()
    yield "another magic number", 0, b"\x89PNG" + idx_bytes(images)[4:], "starts with the bytes 89504e47"
    yield "empty", 0, b"", "starts with the bytes .none."
    yield "labels for images", 0, idx_bytes(labels), "starts with the bytes 00000801, not 00000803"
    yield "short header", 1, idx_bytes(labels)[:6], "ends within its header"
    yield "cut off", 0, idx_bytes(images)[:-9], "holds only 9399"
    yield "too long", 1, idx_bytes(labels) + b"\0", "holds more"
    yield "another size", 0, idx_bytes(images[:, :27]), "27 x 28 pixels; expected 28 x 28"
    yield "fewer labels", 1, idx_bytes(labels[:-1]), "holds 12 images, but .* holds 11 labels"
    yield "no images", 0, idx_bytes(images[:0]), "holds no images"
    yield "a class too many", 1, idx_bytes(labels + 1), r"the class 10 for image 9 \(counted from 0\)"


@pytest.mark.parametrize(("case", "number", "content", "said"), damaged_idx(), ids=lambda one: str(one)[:20])
def test_damaged_idx_files_are_named(tmp_path, case, number, content, said):
    write_idx(tmp_path / "mnist", gray())
    (tmp_path / "mnist" / NAMES[number]).write_bytes(content)
    with pytest.raises(DataError, match=said) as error:
        datasets.load("mnist", data=tmp_path)
    assert NAMES[number] in str(error.value)


@pytest.mark.parametrize("keep", [slice(40), slice(-20), slice(0, 0)])
def test_damaged_gzip_is_named(tmp_path, keep):
    write_idx(tmp_path / "mnist", gray(), compressed=True)
    file = tmp_path / "mnist" / f"{NAMES[0]}.gz"
    file.write_bytes(file.read_bytes()[keep])
    with pytest.raises(DataError, match=NAMES[0]):
        datasets.load("mnist", data=tmp_path)
    file.write_bytes(b"no gzip at all")
    with pytest.raises(DataError, match=f"{NAMES[0]}.gz cannot be read"):
        datasets.load("mnist", data=tmp_path)


@pytest.mark.parametrize("place", ["cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin", "."])
def test_binary_batches_are_read_in_order(tmp_path, place):
    parts = write_batches(tmp_path / place)
    data = datasets.load("cifar10", data=tmp_path)
    assert (data.name, data.image_shape, data.preprocessing.classes) == ("cifar10", (32, 32, 3), CLASSES)
    pixels = np.concatenate([one for one, _ in parts[:5]])
    mean, sd = pixels.mean(axis=(0, 1, 2)), pixels.std(axis=(0, 1, 2))
    expected = ((pixels - mean) / sd).reshape(20, 3072)
    np.testing.assert_allclose(data.x_train, expected, atol=1e-6)
    np.testing.assert_array_equal(data.y_train, np.concatenate([classes for _, classes in parts[:5]]))
    np.testing.assert_array_equal(data.raw_test.reshape(-1, 32, 32, 3), parts[5][0])
    np.testing.assert_array_equal(data.preprocessing.transform(data.raw_test), data.x_test)
    np.testing.assert_allclose(data.x_train.reshape(-1, 3).mean(axis=0), 0.0, atol=1e-5)
    assert data.preprocessing.feature_names[:4] == (
        "pixel_0_0_red",
        "pixel_0_0_green",
        "pixel_0_0_blue",
        "pixel_0_1_red",
    )


def test_an_archive_gives_what_its_folder_gives(tmp_path):
    write_batches(tmp_path / "plain" / "cifar10")
    (tmp_path / "packed" / "cifar10").mkdir(parents=True)
    pack(tmp_path / "plain", tmp_path / "packed" / "cifar10" / "cifar-10-binary.tar.gz")
    first, second = (
        datasets.load("cifar10", data=tmp_path / "plain"),
        datasets.load("cifar10", data=tmp_path / "packed"),
    )
    np.testing.assert_array_equal(first.x_train, second.x_train)
    np.testing.assert_array_equal(first.y_test, second.y_test)


@pytest.mark.parametrize("archive", ["", "images.tar.gz", "images.tar"])
def test_a_tree_of_pictures_interleaves_its_classes(tmp_path, archive):
    folder = tmp_path / "tree"
    write_tree(folder)
    if archive:
        (tmp_path / "data" / "cifar10_subset").mkdir(parents=True)
        pack(folder, tmp_path / "data" / "cifar10_subset" / archive)
        folder = tmp_path / "data"
    data = datasets.load("cifar10", data=folder)
    np.testing.assert_array_equal(data.y_train, np.arange(20) % 10)
    np.testing.assert_array_equal(data.raw_test.reshape(20, 32, 32, 3), photos(20, seed=4)[0])


def test_jpeg_files_are_decoded_and_hidden_ones_left_out(tmp_path):
    for part in ("train", "test"):
        (tmp_path / part / "cat").mkdir(parents=True)
        Image.fromarray(np.full((32, 32, 3), (200, 100, 50), np.uint8)).save(
            tmp_path / part / "cat" / "a.jpg", quality=95
        )
        Image.fromarray(np.arange(1024, dtype=np.uint8).reshape(32, 32)).save(tmp_path / part / "cat" / "b.png")
        (tmp_path / part / "cat" / "._a.jpg").write_bytes(b"beside")
    data = datasets.load("cifar10", data=tmp_path)
    assert data.y_train.tolist() == [3, 3]
    assert np.abs(data.raw_test[0].reshape(-1, 3).astype(int) - (200, 100, 50)).max() <= 2
    np.testing.assert_array_equal(data.raw_test[1].reshape(-1, 3).T, np.tile(np.arange(1024, dtype=np.uint8), (3, 1)))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda place: place.joinpath("0000.png").write_bytes(b"no picture"), "0000.png is not a readable JPEG or PNG"),
        (lambda place: Image.new("RGB", (31, 32)).save(place / "x.png"), "x.png has 31 x 32 pixels; expected 32 x 32"),
        (lambda place: place.rename(place.parent / "bee"), "there is no class 'bee'"),
        (lambda place: cut(place / "0000.png"), "0000.png is not a readable JPEG or PNG"),
    ],
)
def test_damaged_pictures_are_named(tmp_path, damage, said):
    write_tree(tmp_path / "cifar10")
    damage(tmp_path / "cifar10" / "train" / "bird")
    with pytest.raises(DataError, match=said):
        datasets.load("cifar10", data=tmp_path)


def cut(file):
    file.write_bytes(file.read_bytes()[:-900])


def test_incomplete_or_damaged_batches_are_named(tmp_path):
    write_batches(tmp_path / "cifar10", skip=("data_batch_3.bin", "test_batch.bin"))
    with pytest.raises(DataError, match=r"cifar10 lacks data_batch_3.bin, test_batch.bin"):
        datasets.load("cifar10", data=tmp_path)
    write_batches(tmp_path / "cifar10")
    cut(tmp_path / "cifar10" / "data_batch_2.bin")
    with pytest.raises(DataError, match=r"data_batch_2.bin has 11392 bytes, not a multiple of 3073"):
        datasets.load("cifar10", data=tmp_path)
    (tmp_path / "cifar10" / "data_batch_2.bin").write_bytes(batch_bytes(photos(1)[0], [10]))
    with pytest.raises(DataError, match=r"data_batch_2.bin has the class 10"):
        datasets.load("cifar10", data=tmp_path)


def test_a_tree_without_test_pictures_and_a_cut_archive_are_refused(tmp_path):
    write_tree(tmp_path / "tree", parts=("train",))
    with pytest.raises(DataError, match="lacks test/<class>"):
        datasets.load("cifar10", data=tmp_path / "tree")
    write_tree(tmp_path / "tree")
    (tmp_path / "cifar10").mkdir()
    pack(tmp_path / "tree", tmp_path / "cifar10" / "images.tar.gz")
    cut(tmp_path / "cifar10" / "images.tar.gz")
    with pytest.raises(DataError, match=r"images.tar.gz cannot be read"):
        datasets.load("cifar10", data=tmp_path)


def test_without_pillow_the_error_says_what_to_install(tmp_path, monkeypatch):
    write_tree(tmp_path / "cifar10")
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(DataError, match="pip install pillow"):
        datasets.load("cifar10", data=tmp_path)


def fake_openml(monkeypatch, rows, features, classes):
    asked = []
    random = np.random.default_rng(5)
    values, labels = random.integers(0, 256, (rows, features)), random.integers(0, classes, rows)

    def fetch(name, **settings):
        asked.append((name, settings))
        return SimpleNamespace(data=values.astype(np.float64), target=labels.astype(str).astype(object))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    return asked, values, labels


def test_a_download_happens_only_when_asked_for(tmp_path, monkeypatch):
    asked, values, labels = fake_openml(monkeypatch, 9, 784, 10)
    monkeypatch.setattr(images, "_MNIST", dataclasses.replace(images._MNIST, open_train=6))
    with pytest.raises(DataError, match="no folder was given"):
        datasets.load("mnist")
    assert not asked
    data = datasets.load("mnist", fetch=True)
    assert [(name, settings["version"]) for name, settings in asked] == [("mnist_784", 1)]
    np.testing.assert_array_equal(data.x_train, (values[:6] / 255).astype(np.float32))
    np.testing.assert_array_equal(data.y_test, labels[6:])
    with pytest.raises(SettingError, match="give only one"):
        datasets.load("mnist", fetch=True, data=tmp_path)


def test_colors_from_openml_are_put_last(monkeypatch):
    _, values, _ = fake_openml(monkeypatch, 5, 3072, 10)
    monkeypatch.setattr(images, "_CIFAR", dataclasses.replace(images._CIFAR, open_train=3))
    data = datasets.load("cifar10", fetch=True)
    np.testing.assert_array_equal(data.raw_test.reshape(2, 32, 32, 3)[1, :, :, 2], values[4].reshape(3, 32, 32)[2])


def test_a_download_that_fails_or_gives_something_else_is_one_error(monkeypatch):
    fake_openml(monkeypatch, 9, 784, 10)
    with pytest.raises(DataError, match=r"shape \(9, 784\); expected more than 60000"):
        datasets.load("mnist", fetch=True)

    def offline(*_arguments, **_settings):
        raise OSError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", offline)
    with pytest.raises(DataError, match=r"could not be downloaded .*Fashion-MNIST.*no route to host"):
        datasets.load("fashion-mnist", fetch=True)


@pytest.mark.parametrize("given", [{"data": "here"}, {"fetch": True}])
def test_other_sets_take_no_folder(given):
    with pytest.raises(SettingError, match=r"`(data|fetch)` .*cifar10, fashion-mnist, mnist.* not for 'digits'"):
        datasets.load("digits", **given)


def test_a_folder_and_an_archive_are_named_in_messages(tmp_path):
    stream = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stream, "PNG")
    archive = tmp_path / "cifar.tar"
    with tarfile.open(archive, "w") as packed:
        member = tarfile.TarInfo("images/train/dog/1.png")
        member.size = len(stream.getvalue())
        packed.addfile(member, io.BytesIO(stream.getvalue()))
    with pytest.raises(DataError, match=r"images/train/dog/1.png in .*cifar.tar has 8 x 8"):
        datasets.load("cifar10", data=tmp_path)
    assert cifar.source_in(Path(tmp_path / "none"), archives=True) is None
