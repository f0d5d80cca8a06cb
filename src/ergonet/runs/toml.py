"""Writing TOML; reading is the standard library's `tomllib`."""

import math
import re
from collections.abc import Iterator, Mapping
from datetime import date, time
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def to_toml(content: Mapping[str, Any]) -> str:
    """Format a table as TOML text, which `tomllib.loads` reads back unchanged.

    Args:
        content: keys are strings; values are strings, booleans, integers, floats, dates and times, lists and tuples of
            these (a tuple is read back as a list), and tables. None is omitted.

    Raises:
        TypeError: a value has another type, or a list contains None.
    """
    return "\n".join(_lines(content, ())).lstrip("\n") + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    for key, value in table.items():
        if value is not None and key not in tables:
            yield f"{_key(key)} = {value_text(value)}"
    for key, value in tables.items():
        here = (*path, key)
        if not value or any(not isinstance(one, Mapping) for one in value.values()):
            yield f"\n[{'.'.join(map(_key, here))}]"
        yield from _lines(value, here)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"TOML keys are strings, got {key!r}.")
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    return f'"{"".join(_character(one) for one in text)}"'


def _character(one: str) -> str:
    if one in _ESCAPES:
        return _ESCAPES[one]
    return f"\\u{ord(one):04x}" if ord(one) < 0x20 or ord(one) == 0x7F else one


def value_text(value: Any) -> str:
    """Format a single value, as `to_toml` does."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else str(float(value))
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(value_text(one) for one in value)}]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {value_text(one)}" for key, one in value.items() if one is not None)
        return f"{{{inside}}}"
    raise TypeError(f"TOML has no value of type {type(value).__name__}: {value!r}.")
