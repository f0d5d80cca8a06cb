"""Translation of names that older versions wrote to settings files, run directories and saved estimators."""

from collections.abc import Mapping
from typing import Any

KEYS = {"parametrisation": "parametrization"}
# `one_hot = true` gave every category a column; without it, categories were an error.
REPLACED = {"one_hot": {True: {"one_hot_limit": 2**16}, False: {}}}
VALUES = {"criterion": {"generalised": "generalized"}}


def translate(settings: Any) -> Any:
    """Translate old names in tables at any depth to the current names.

    Args:
        settings: a table as written by an older version; anything but tables and lists is returned unchanged.
    """
    if isinstance(settings, list | tuple):
        return type(settings)(translate(one) for one in settings)
    if not isinstance(settings, Mapping):
        return settings
    found: dict[Any, Any] = {}
    for key, value in settings.items():
        is_replaced = key in REPLACED and isinstance(value, bool)
        found |= REPLACED[key][value] if is_replaced else {KEYS.get(key, key): _value(key, value)}
    return found


def _value(key: str, value: Any) -> Any:
    known = VALUES.get(key, {})
    if isinstance(value, Mapping) and value.get("name") in known:  # a component with its settings
        return translate({**value, "name": known[value["name"]]})
    return known.get(value, value) if isinstance(value, str) else translate(value)
