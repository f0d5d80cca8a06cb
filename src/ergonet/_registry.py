"""Registries of everything that can be chosen by name: kernels, priors, likelihoods, data sets and more.

A registry maps names to the places where they are defined, written `module:attribute`. Nothing is imported before a
name is used, so that help texts can list all names without importing JAX.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ergonet._checks import is_integer, is_number
from ergonet._errors import SettingError, shown, suggest

T = TypeVar("T")
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Entry:
    """Where a named object is defined.

    Attributes:
        home: ``module:attribute``, imported on first use.
        tags: tags by which `Registry.names` selects, such as a task.
        about: one line of description; if empty, the first line of the docstring is used.
    """

    home: str
    tags: tuple[str, ...] = ()
    about: str = ""

    @property
    def module(self) -> str:
        """The module's name."""
        return self.home.partition(":")[0]

    @property
    def attribute(self) -> str:
        """What it is called there, such as the name of a class, by which readers know it."""
        return self.home.partition(":")[2]

    def load(self) -> Any:
        """The object, imported."""
        return getattr(importlib.import_module(self.module), self.attribute)


class Registry(Generic[T]):
    """Objects of one kind by name, with their settings, for choices given as text in files, commands and estimators.

    Args:
        kind: name of the choice in messages, such as ``prior``; also the name of a kernel's argument that takes one.
        entries: entries by name; a plain string is the home of an entry without tags.
        of: homes of the classes, one of which an object given instead of a name must have.
        parts: registries of the settings that are themselves chosen by name, such as the criterion of a kernel.
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, Entry | str],
        *,
        of: tuple[str, ...] = (),
        parts: Callable[[], Mapping[str, "Registry[Any]"]] = dict,
    ):
        self.kind = kind
        self.entries = {name: Entry(one) if isinstance(one, str) else one for name, one in entries.items()}
        self.homes, self._parts = of, parts

    def names(self, tag: str | None = None) -> tuple[str, ...]:
        """All names, or the names with a tag, in the order of the table."""
        return tuple(name for name, entry in self.entries.items() if tag is None or tag in entry.tags)

    def listed(self, tag: str | None = None) -> str:
        """The names as part of a sentence: `tanh, relu or gelu`."""
        *most, last = self.names(tag)
        return f"{', '.join(most)} or {last}" if most else last

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def entry(self, name: Any, *, owner: str = "") -> Entry:
        """Look up where a name is defined; `owner` is the class whose argument it is, for messages.

        Raises:
            SettingError: the name is unknown.
        """
        if not isinstance(name, str) or name not in self.entries:
            raise SettingError(f"{self._called(name, owner)} is not known. {suggest(name, self.entries)}")
        return self.entries[name]

    def load(self, name: Any, *, owner: str = "") -> Any:
        """Import the object that a name stands for, such as a class; raises `SettingError` if the name is unknown."""
        return self.entry(name, owner=owner).load()

    def describe(self, tag: str | None = None) -> dict[str, str]:
        """One line about every name; imports the objects whose entry has none."""
        return {name: self.entries[name].about or _first_line(self.load(name)) for name in self.names(tag)}

    def settings(self, name: str) -> dict[str, Any]:
        """Settings of a name with their defaults; `REQUIRED` if there is no default.

        Raises:
            SettingError: the name is not known.
        """
        # Classes without arguments may still have the signature of `object`.
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        parameters = inspect.signature(self.load(name)).parameters.values()
        return {one.name: one.default for one in parameters if one.kind in named}

    def make(self, name: str, settings: Mapping[str, Any] | None = None, *, owner: str = "") -> T:
        """Make the object described by a name and a table of settings.

        Args:
            name: one of `names()`.
            settings: arguments by name, such as ``{"scale": 1.0}``; the others keep their defaults.
            owner: the class whose argument this is, for messages.

        Raises:
            SettingError: the name or a setting is unknown, a setting is missing, or a value is out of range.
        """
        factory, known, given = self.load(name, owner=owner), self.settings(name), dict(settings or {})
        parts = self._parts()
        for key, value in given.items():
            if key not in known:
                hint = suggest(key, known) if known else "It takes none."
                raise SettingError(f"`{self.kind}` {name!r} has no setting {shown(key)}. {hint}")
            if key in parts and isinstance(value, Mapping) and "name" in value:
                given[key] = parts[key].resolve(value)
            else:
                _check_sort(f"`{self.kind}` {name!r}: `{key}`", value, known[key])
        missing = [key for key, default in known.items() if default is REQUIRED and key not in given]
        if missing:
            raise SettingError(f"`{self.kind}` {name!r} needs a setting {missing[0]!r}.")
        return factory(**given)

    def resolve(self, choice: Any, *, owner: str = "") -> T:
        """Resolve a choice: a name, a table with a `name` and settings, or an object, which is returned unchanged.

        Raises:
            SettingError: the choice is none of these, or is unknown.
        """
        if isinstance(choice, str):
            return self.make(choice, owner=owner)
        if isinstance(choice, Mapping) and isinstance(choice.get("name"), str):
            return self.make(choice["name"], {key: one for key, one in choice.items() if key != "name"}, owner=owner)
        given: Any = choice
        if isinstance(given, tuple(Entry(home).load() for home in self.homes)):
            return given
        raise SettingError(
            f"{self._called(choice, owner)} is not known: give a name such as {next(iter(self.entries))!r}, a table of "
            f"a `name` and settings, or an object. {suggest('', self.entries)}"
        )

    def _called(self, choice: Any, owner: str) -> str:
        return f"`{owner}({self.kind}={shown(choice)})`" if owner else f"`{self.kind}={shown(choice)}`"


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _check_sort(what: str, value: Any, default: Any) -> None:
    """Reject a number or a list for a name, anything but a list for a list, and integers beyond all floats."""
    if is_integer(value) and not is_number(value):
        raise SettingError(f"{what} is too large, got {shown(value)}.")
    if isinstance(default, str) and isinstance(value, int | float | list | tuple | Mapping):
        raise SettingError(f"{what} must be a name in quotes, such as {default!r}, got {shown(value)}.")
    if isinstance(default, tuple) and not isinstance(value, list | tuple):
        raise SettingError(f"{what} must be a list, got {shown(value)}.")
