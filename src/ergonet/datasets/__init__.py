"""Data: built-in data sets, readers for tables, and preprocessing that is reused for prediction.

Names are imported on first use, so that listing the built-in data sets imports neither pandas nor scikit-learn.
"""

import importlib
from typing import TYPE_CHECKING

from ergonet.datasets.registry import load, names

if TYPE_CHECKING:
    from ergonet.datasets.choosing import Choices
    from ergonet.datasets.dataset import Dataset
    from ergonet.datasets.overview import ColumnRow, column_rows
    from ergonet.datasets.physics import CrossSections, cross_section
    from ergonet.datasets.preprocessing import Preprocessing
    from ergonet.datasets.readers import TableFile, blocks, read_file, read_table
    from ergonet.datasets.tables import from_table, infer_task

__all__ = [
    "Choices",
    "ColumnRow",
    "CrossSections",
    "Dataset",
    "Preprocessing",
    "TableFile",
    "blocks",
    "column_rows",
    "cross_section",
    "from_table",
    "infer_task",
    "load",
    "names",
    "read_file",
    "read_table",
]

_HOMES = {
    "Choices": "ergonet.datasets.choosing",
    "ColumnRow": "ergonet.datasets.overview",
    "CrossSections": "ergonet.datasets.physics",
    "Dataset": "ergonet.datasets.dataset",
    "Preprocessing": "ergonet.datasets.preprocessing",
    "cross_section": "ergonet.datasets.physics",
    "column_rows": "ergonet.datasets.overview",
    "from_table": "ergonet.datasets.tables",
    "infer_task": "ergonet.datasets.tables",
    "TableFile": "ergonet.datasets.readers",
    "blocks": "ergonet.datasets.readers",
    "read_file": "ergonet.datasets.readers",
    "read_table": "ergonet.datasets.readers",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
