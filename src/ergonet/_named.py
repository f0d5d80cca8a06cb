"""Objects by name with a table of settings, for what comes as text: files, the command line, estimators."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ergonet._errors import SettingError, suggest

Factories = Mapping[str, Callable[..., Any]]


def defaults(kind: str, name: str, factories: Factories) -> dict[str, Any]:
    """Settings of what a name stands for with their defaults; `inspect.Parameter.empty` where one must be given.

    Raises:
        SettingError: the name is not known.
    """
    if name not in factories:
        raise SettingError(f"`{kind}={name!r}` is not known. {suggest(str(name), factories)}")
    # Classes without arguments may still have the signature of `object`.
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(factories[name]).parameters.values()
    return {one.name: one.default for one in parameters if one.kind in named}


def make(kind: str, name: str, settings: Mapping[str, Any] | None, factories: Factories) -> Any:
    """What a name and a table of settings stand for.

    Args:
        kind: what messages call it, such as ``prior``.
        name: one of the factories'.
        settings: arguments by name; the rest keep their defaults.
        factories: what can be had.

    Raises:
        SettingError: the name or a setting is not known, or one is missing.
    """
    known, given = defaults(kind, name, factories), dict(settings or {})
    for key in given:
        if key not in known:
            hint = suggest(str(key), known) if known else "It takes none."
            raise SettingError(f"`{kind}` {name!r} has no setting {key!r}. {hint}")
    for key, default in known.items():
        if key not in given and default is inspect.Parameter.empty:
            raise SettingError(f"`{kind}` {name!r} needs a setting {key!r}.")
        if key in given:
            _check_sort(f"`{kind}` {name!r}: `{key}`", given[key], default)
    return factories[name](**given)


def from_choice(choice: Any, by_name: Callable[[str, dict[str, Any]], Any]) -> Any:
    """What a name, or a table of `name` and settings, stands for; anything else as it is."""
    if isinstance(choice, str):
        return by_name(choice, {})
    if isinstance(choice, Mapping) and isinstance(choice.get("name"), str):
        return by_name(choice["name"], {key: value for key, value in choice.items() if key != "name"})
    return choice


def _check_sort(what: str, value: Any, default: Any) -> None:
    """Refuse what no text file could mean: a number or a list for a text, anything else for a list."""
    if isinstance(default, str) and isinstance(value, int | float | list | tuple | Mapping):
        raise SettingError(f"{what} must be text, such as {default!r}, got {value!r}.")
    if isinstance(default, tuple) and not isinstance(value, list | tuple):
        raise SettingError(f"{what} must be a list, got {value!r}.")
