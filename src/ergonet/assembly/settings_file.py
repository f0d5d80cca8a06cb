"""Settings files: TOML with the tables of `Settings`."""

from os import PathLike
from pathlib import Path
from typing import Any

from ergonet._errors import SettingError
from ergonet.assembly.renamed import translate
from ergonet.assembly.settings import check_names

_LARGEST_FILE = 2**20  # bytes


def read_settings_file(path: str | PathLike[str]) -> dict[str, Any]:
    """Read the tables of a settings file, translating names of older versions.

    Raises:
        SettingError: the file does not exist, is not TOML, or contains an unknown table or setting.
    """
    import tomllib

    file = Path(path)
    try:
        with file.open("rb") as stream:
            content = stream.read(_LARGEST_FILE + 1)
        if len(content) > _LARGEST_FILE:
            raise SettingError(f"`--settings`: {str(file)!r} is larger than {_LARGEST_FILE // 1024} KiB: no settings.")
        table = translate(tomllib.loads(content.decode("utf-8-sig")))
    except FileNotFoundError as error:
        raise SettingError(f"`--settings`: there is no file {str(file)!r}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"`--settings`: {str(file)!r} cannot be read: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise SettingError(f"`--settings`: {str(file)!r} is not TOML: {str(error).rstrip('.')}.") from error
    try:
        check_names(table)
    except SettingError as error:
        raise SettingError(f"{file}: {error}") from error
    return table
