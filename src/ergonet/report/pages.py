"""Pages from templates, each one file that needs no network, no scripts and no other files."""

import functools
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from ergonet._errors import visible


def fill(template: str, content: dict[str, Any], *, refresh: str = "") -> str:
    """A page from its template.

    Args:
        template: name of the template, which includes `head.html`.
        content: its variables, among them `title`.
        refresh: seconds after which a browser loads the page again, or another: ``3`` or ``3; url=report.html``.
    """
    page = _environment().get_template(template).render(content, refresh=refresh)
    return visible(page.replace(" %", "\N{NO-BREAK SPACE}%").lstrip())


def replace_page(target: Path, page: str) -> Path:
    """Write a page under another name, and then in place of an older one; returns its path."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(page)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target


@functools.cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("ergonet.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = _code
    return environment


def _code(sentence: str) -> Markup:
    """The sentence as HTML, with text between backquotes as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(sentence))))  # noqa: S704 - already escaped
