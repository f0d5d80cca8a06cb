"""Files that a command writes besides run directories."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergonet._errors import RunDirectoryError, SettingError

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet takes for a formula


def check_file(path: Path, *, overwrite: bool) -> None:
    """Check that a command can write a file.

    Raises:
        RunDirectoryError: the file exists and must not be replaced, or its folder is missing.
    """
    if path.exists() and not overwrite:
        raise RunDirectoryError(f"`--out`: {str(path)!r} exists already. Choose another name, or add `--overwrite`.")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise RunDirectoryError(f"`--out`: {str(path)!r} cannot be written: there is no folder {str(path.parent)!r}.")


def check_picture(out: str, *, overwrite: bool) -> Path:
    """Check that a command can write a picture, and return its path.

    Raises:
        SettingError: it has another suffix than those of pictures.
        RunDirectoryError: the file exists and must not be replaced, or its folder is missing.
    """
    path = Path(out)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise SettingError(f"`--out` must be a picture, .png, .svg or .pdf, got {out!r}.")
    check_file(path, overwrite=overwrite)
    return path


class TableFile:
    """A CSV or Parquet file that is written block by block."""

    def __init__(self, file: Path, *, is_text: bool):
        self._file, self._is_text = file, is_text
        self._writer: Any = None

    def append(self, table: "pd.DataFrame") -> None:
        """Append rows; every block has the same columns."""
        if self._is_text:
            is_first, self._writer = self._writer is None, True
            _without_formulas(table).to_csv(self._file, index=False, header=is_first, mode="w" if is_first else "a")
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._writer is None:
            found: Any = pa.Table.from_pandas(table, preserve_index=False)
            self._writer = pq.ParquetWriter(self._file, found.schema)
        self._writer.write_table(pa.Table.from_pandas(table, schema=self._writer.schema, preserve_index=False))

    def close(self) -> None:
        """Write what is still to be written."""
        if not self._is_text and self._writer is not None:
            self._writer.close()


@contextmanager
def table_file(path: Path) -> Generator[TableFile]:
    """Write a table, CSV or Parquet by the suffix; the file is replaced atomically once it is complete."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)  # a link there would be followed
    table = TableFile(unfinished, is_text=path.suffix.lower() == ".csv")
    try:
        yield table
        table.close()
        unfinished.replace(path)
    except BaseException:
        with suppress(Exception):
            table.close()
        unfinished.unlink(missing_ok=True)
        raise


def _without_formulas(table: "pd.DataFrame") -> "pd.DataFrame":
    """The table with an apostrophe before texts that a spreadsheet would execute; numbers stay numbers."""

    def plain(entry: Any) -> Any:
        return f"'{entry}" if isinstance(entry, str) and entry.startswith(_FORMULA) else entry

    texts = {name: column.map(plain) for name, column in table.items() if column.dtype.kind not in "biuf"}
    return table.assign(**{str(name): column for name, column in texts.items()}).rename(columns=plain)
