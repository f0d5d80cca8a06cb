"""Files that a command writes besides run directories."""

from pathlib import Path

from ergonet._errors import RunDirectoryError


def check_file(path: Path, *, overwrite: bool) -> None:
    """Check that a command can write a file.

    Raises:
        RunDirectoryError: the file exists and must not be replaced, or its folder is missing.
    """
    if path.exists() and not overwrite:
        raise RunDirectoryError(f"`--out`: {str(path)!r} exists already. Choose another name, or add `--overwrite`.")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise RunDirectoryError(f"`--out`: {str(path)!r} cannot be written: there is no folder {str(path.parent)!r}.")
