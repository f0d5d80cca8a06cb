"""Translation of names that older versions wrote to settings files, run directories and saved estimators."""

from collections.abc import Mapping
from typing import Any

KEYS = {"parametrisation": "parametrization"}
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
    return {KEYS.get(key, key): _value(key, value) for key, value in settings.items()}


def _value(key: str, value: Any) -> Any:
    known = VALUES.get(key, {})
    if isinstance(value, Mapping) and value.get("name") in known:  # a component with its settings
        return translate({**value, "name": known[value["name"]]})
    return known.get(value, value) if isinstance(value, str) else translate(value)
