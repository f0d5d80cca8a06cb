"""The built-in data sets by name: one line each here, the arrays only when one is loaded."""

from os import PathLike
from typing import TYPE_CHECKING, Any

from ergonet._errors import SettingError
from ergonet._registry import Entry, Registry

if TYPE_CHECKING:
    from ergonet.datasets.dataset import Dataset
    from ergonet.datasets.transforms import AbstractTransform


NO_TRANSFORM = "none"
FILES, OWN_SPLIT, REGRESSION = "files", "own-split", "regression"

DATASETS: "Registry[Dataset]" = Registry(
    "dataset",
    {
        "breast-cancer": Entry(
            "ergonet.datasets.builtin:breast_cancer",
            about="569 tumors, 30 measurements, malignant or benign (classification; split by test_fraction and seed)",
        ),
        "cifar10": Entry(
            "ergonet.datasets.images:cifar10",
            tags=(FILES, OWN_SPLIT),
            about="60000 photographs of 32x32 pixels, 10 classes (classification; own split; files in --data DIR)",
        ),
        "cross-section": Entry(
            "ergonet.datasets.physics:built_in",
            tags=(OWN_SPLIT, REGRESSION),
            about="4000 points of a formula of physics, 5 masses and mixings, target in pb (regression; own split: "
            "first 80 %, last 15 %)",
        ),
        "diabetes": Entry(
            "ergonet.datasets.builtin:diabetes",
            tags=(REGRESSION,),
            about="442 patients, 10 measurements, progression in a year (regression; split by test_fraction and seed)",
        ),
        "digits": Entry(
            "ergonet.datasets.builtin:digits",
            tags=(OWN_SPLIT,),
            about="1000 handwritten digits of 8x8 pixels, 10 classes (classification; own split: first 500, last 500)",
        ),
        "fashion-mnist": Entry(
            "ergonet.datasets.images:fashion_mnist",
            tags=(FILES, OWN_SPLIT),
            about="70000 articles of clothing of 28x28 pixels, 10 classes (classification; own split; files in --data "
            "DIR)",
        ),
        "mnist": Entry(
            "ergonet.datasets.images:mnist",
            tags=(FILES, OWN_SPLIT),
            about="70000 handwritten digits of 28x28 pixels, 10 classes (classification; own split; files in --data "
            "DIR)",
        ),
        "two-moons": Entry(
            "ergonet.datasets.builtin:two_moons",
            tags=(OWN_SPLIT,),
            about="two interleaved half circles in the plane, noise 0.2 (classification; own split: 500 and 500)",
        ),
    },
)
"""``files``: the data come from a folder of the user's; ``own-split``: training and test rows are always the same;
``regression``: targets are numbers, which can be transformed.

Builders take ``test_fraction`` and ``seed``, those of regressions ``target_transform``, those that read files
``folder`` and ``fetch``.
"""

TARGET_TRANSFORMS: "Registry[AbstractTransform]" = Registry(
    "target_transform",
    {
        "log10": "ergonet.datasets.transforms:log10",
        "log": "ergonet.datasets.transforms:log",
        "log1p": "ergonet.datasets.transforms:Log1p",
        "arcsinh": "ergonet.datasets.transforms:Arcsinh",
        "logit": "ergonet.datasets.transforms:Logit",
    },
    of=("ergonet.datasets.transforms:AbstractTransform",),
)
"""Monotone transforms of targets."""


def transform_named(choice: Any) -> "AbstractTransform | None":
    """The transform of a choice: None for None and ``none``, a name, or an object.

    Raises:
        SettingError: the name is unknown, or it is none of these.
    """
    if choice is None or choice == NO_TRANSFORM:
        return None
    if isinstance(choice, str):
        return TARGET_TRANSFORMS.load(choice)()
    return TARGET_TRANSFORMS.resolve(choice)


def names() -> dict[str, str]:
    """The built-in data sets.

    Returns:
        Name to one-line description, sorted by name.
    """
    return dict(sorted(DATASETS.describe().items()))


def load(
    name: str,
    *,
    test_fraction: float = 0.2,
    seed: int = 0,
    data: str | PathLike[str] | None = None,
    fetch: bool = False,
    target_transform: Any = None,
) -> "Dataset":
    """Load a built-in data set; nothing is downloaded unless `fetch` is true.

    Args:
        name: One of ``names()``.
        test_fraction: Fraction of the rows to hold out, in [0, 1). Ignored by data sets with a fixed split, as their
            descriptions say.
        seed: Seed of the split, 0 or larger. Ignored in the same cases.
        data: For ``mnist``, ``fashion-mnist`` and ``cifar10``: the folder that contains their folders or files.
            None: the folder named by the environment variable ERGONET_DATA.
        fetch: For the same data sets: download from OpenML instead, through scikit-learn, which caches a copy.
        target_transform: For regressions: a monotone transform of the target, by name or as an object; None: none.

    Returns:
        The data set, scaled and split.

    Raises:
        DataError: Files are missing, or cannot be used; or the download failed.
        SettingError: The name is unknown, `test_fraction` or `seed` is out of range, `data` or `fetch` is given for a
            data set that is not read from files, or `target_transform` for a classification.
    """
    transform = transform_named(target_transform)
    of_task = {} if transform is None else {"target_transform": transform}
    if of_task and REGRESSION not in DATASETS.entry(name).tags:
        raise SettingError(
            f"`target_transform` (`--target-transform`) is for targets that are numbers, but {name!r} has classes."
        )
    if FILES in DATASETS.entry(name).tags:
        return DATASETS.make(name, {"folder": data, "fetch": fetch})
    given = {"data": data is not None, "fetch": fetch}
    for argument, is_given in given.items():
        if is_given:
            others = ", ".join(sorted(DATASETS.names(FILES)))
            raise SettingError(
                f"`{argument}` (`--{argument}`) is for data sets that are read from files ({others}), not for {name!r}."
            )
    return DATASETS.make(name, {"test_fraction": test_fraction, "seed": seed} | of_task)
