"""Parameters of the estimators: their defaults and descriptions in one place."""

import dataclasses
import inspect
import textwrap
from typing import Any, TypeVar

from ergonet.assembly.rules import settings_of

_WIDTH, _INDENT = 112, " " * 4
Class = TypeVar("Class", bound=type)


def parameter(default: Any, say: str) -> Any:
    """A field of an estimator with its description, a sentence."""
    return dataclasses.field(default=default, metadata={"say": say})


def parameter_of(record: type, name: str) -> Any:
    """A field with the default and the description of a setting of the command."""
    setting, default = settings_of(record)[name]
    return parameter(default, f"{setting.say}{'; None: chosen from the data' if default is None else ''}.")


def documented(estimator: Class) -> Class:
    """Replace `{parameters}` in the docstring of a class by the descriptions of its parameters."""
    entries = []
    for one in dataclasses.fields(estimator):
        text = textwrap.wrap(f"{one.name}: {one.metadata['say']}", _WIDTH, break_on_hyphens=False)
        entries.append(f"\n{2 * _INDENT}".join(text))
    template = inspect.cleandoc(estimator.__doc__ or "")
    estimator.__doc__ = template.replace("{parameters}", f"\n{_INDENT}".join(entries))
    return estimator
