"""Sources are cited by their key: `Lau2018` in a docstring or on a page becomes a link to the list of references.

Besides, docstrings are brought into the form of a page: bars stay bars (|w| is an absolute value here, not a
substitution of reStructuredText), and a class that sends its reader to the module's docstring gets that text itself.
"""

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from pybtex.plugin import register_plugin
from pybtex.style.formatting.plain import Style
from pybtex.style.labels import BaseLabelStyle

BIBLIOGRAPHY = Path(__file__).resolve().parent.parent / "references.bib"
ENTRY = re.compile(r"^@\w+\{(\w+),", re.MULTILINE)


def keys() -> list[str]:
    """The keys of the list of references."""
    return ENTRY.findall(BIBLIOGRAPHY.read_text(encoding="utf-8"))


CITED = re.compile(rf"(?<![\w`:@{{/])({'|'.join(keys())})(?!\w)")


POINTER = re.compile(r"[;,] see the module's docstring[^.]*\.")
INITIALIZER = "Check and keep the settings."  # a docstring of `__init__`, whose arguments follow
LITERAL = re.compile(r"(``.+?``|`[^`]+`)")


class KeyLabels(BaseLabelStyle):
    """The label of a source is its key."""

    def format_labels(self, sorted_entries: Any) -> Any:
        """One label for each entry."""
        return (entry.key for entry in sorted_entries)


class KeyStyle(Style):
    """Plain entries, labeled by their keys."""

    default_label_style = KeyLabels


def link_docstring(*event: Any) -> None:
    """Bring a docstring into the form of a page; the event is (app, what, name, thing, options, lines)."""
    thing, lines = event[3], event[-1]
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    found: list[str] = []
    for line in lines:
        if line.strip() == INITIALIZER:
            continue
        found.append(POINTER.sub(".", line))
        if POINTER.search(line) and module is not None and module.__doc__:
            found += ["", *inspect.cleandoc(module.__doc__).splitlines()[1:]]
    lines[:] = [_linked(line) for line in found]


def _linked(line: str) -> str:
    parts = LITERAL.split(line)
    parts[::2] = [CITED.sub(r":cite:p:`\1`", part).replace("|", r"\|") for part in parts[::2]]
    return "".join(parts)


def link_page(app: Any, name: str, source: list[str]) -> None:
    """Turn the keys in the prose of a page into citations; code stays as it is."""
    if name == "references" or app.env.doc2path(name).suffix != ".md":
        return
    parts = re.split(r"(^(?:`{3,}|~{3,}).*?^(?:`{3,}|~{3,})\s*$|`[^`\n]+`)", source[0], flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [CITED.sub(r"{cite:p}`\1`", part) for part in parts[::2]]
    source[0] = "".join(parts)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx and pybtex."""
    register_plugin("pybtex.style.formatting", "keys", KeyStyle)
    app.connect("autodoc-process-docstring", link_docstring)
    app.connect("source-read", link_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
