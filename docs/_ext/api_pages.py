"""The pages of the API reference, written from the public names before Sphinx reads its sources.

`ergonet.__all__` names classes, functions and modules. Classes and functions are grouped by the folder that they live
in; every module has a page of its own with its public names. So a new name needs no line in the documentation, and
one that no group takes is an error, here and in the tests.
"""

import dataclasses
import importlib
import inspect
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = "api"
WARNING = "<!-- Written by _ext/api_pages.py at every build; edit the docstrings instead. -->"


@dataclasses.dataclass(frozen=True)
class Group:
    """Public names that live in the same part of the library, for one page.

    Attributes:
        slug: file name of the page.
        title: its heading.
        text: one or two sentences below that.
        homes: the modules whose classes and functions belong here, with all modules below them.
    """

    slug: str
    title: str
    text: str
    homes: tuple[str, ...]


GROUPS = (
    Group(
        "estimators",
        "Estimators",
        "Classes in the shape of scikit-learn: give them a table and they do the rest.",
        ("ergonet.estimators",),
    ),
    Group(
        "networks",
        "Networks and targets",
        "What is sampled: a network with priors and a likelihood, or any density.",
        ("ergonet.target", "ergonet.models"),
    ),
    Group(
        "sampling",
        "Sampling and draws",
        "Running chains, and the record of what they drew.",
        ("ergonet.inference", "ergonet.draws", "ergonet.execution"),
    ),
    Group(
        "minibatch-kernels",
        "Kernels on minibatches",
        "Transitions whose gradients are those of a minibatch. All have a bias that shrinks with the step size.",
        ("ergonet.samplers.stochastic",),
    ),
    Group(
        "kernels",
        "Kernels on full data",
        "Transitions that leave the target invariant.",
        ("ergonet.samplers",),
    ),
    Group(
        "prediction",
        "Prediction",
        "From draws to predictions, in bounded memory.",
        ("ergonet.prediction",),
    ),
    Group(
        "parts",
        "Parts and evidence",
        "Parts of the space, joined by their masses, and the evidence of a model.",
        ("ergonet.partition",),
    ),
)
ORDER = ("estimators", "networks", "sampling", "kernels", "minibatch-kernels", "prediction", "parts")


class UnplacedNameError(LookupError):
    """A public name that no page of the reference would show."""


def public_objects() -> dict[str, Any]:
    """Every name of `ergonet.__all__` with what it stands for."""
    package = importlib.import_module("ergonet")
    return {name: getattr(package, name) for name in package.__all__}


def module_names(module: types.ModuleType) -> list[str]:
    """The public names of a module: its `__all__`, or else the classes and functions that it defines."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    found = [name for name, value in vars(module).items() if _is_defined_in(module, name, value)]
    return sorted(found)


def _is_defined_in(module: types.ModuleType, name: str, value: object) -> bool:
    if name.startswith("_") or not (inspect.isclass(value) or inspect.isfunction(value)):
        return False
    return getattr(value, "__module__", None) == module.__name__


def group_of(name: str, value: object) -> Group:
    """The group of a class or function.

    Raises:
        UnplacedNameError: it lives where no group looks.
    """
    home = getattr(value, "__module__", "")
    for group in GROUPS:
        if any(home == one or home.startswith(f"{one}.") for one in group.homes):
            return group
    raise UnplacedNameError(f"ergonet.{name} lives in {home}, which no group of docs/_ext/api_pages.py takes")


def pages() -> Iterator[tuple[str, str, list[str]]]:
    """Slug, heading with text, and full public names of every page, in the order of the reference."""
    objects = public_objects()
    plain = {name: value for name, value in objects.items() if not inspect.ismodule(value)}
    members: dict[str, list[str]] = {group.slug: [] for group in GROUPS}
    for name, value in plain.items():
        members[group_of(name, value).slug].append(f"ergonet.{name}")
    groups = {group.slug: group for group in GROUPS}
    for slug in ORDER:
        yield slug, f"# {groups[slug].title}\n\n{groups[slug].text}", sorted(members[slug])
    for name, module in sorted(objects.items()):
        if inspect.ismodule(module):
            text = f"# ergonet.{name}\n\n```{{eval-rst}}\n{_first_paragraph(module)}\n```"
            yield name, text, [f"ergonet.{name}.{member}" for member in module_names(module)]


def _first_paragraph(module: types.ModuleType) -> str:
    return inspect.getdoc(module).partition("\n\n")[0] if module.__doc__ else ""


def page_text(text: str, names: list[str]) -> str:
    """A page: its heading, and a table of names that lead to a page for each."""
    rows = "\n".join(names)
    table = f"```{{eval-rst}}\n.. autosummary::\n   :toctree: names\n   :nosignatures:\n\n{_indented(rows)}\n```"
    return f"{WARNING}\n{text}\n\n{table}\n"


def _indented(text: str) -> str:
    return "\n".join(f"   {line}" for line in text.splitlines())


def index_text(slugs: list[str]) -> str:
    """The first page: what is public, and the list of pages."""
    names = "\n".join(slugs)
    return f"""{WARNING}
# API reference

Everything on these pages is public: before version 1.0 it may be renamed, with an error that gives the new name, and
never silently. What is not listed here may change at any time.

```{{toctree}}
:maxdepth: 1

{names}
```
"""


def write_pages(app: Any, config: Any) -> None:
    """Write what has changed, so that Sphinx reads again only that."""
    del config
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(exist_ok=True)
    listed = list(pages())
    texts = {slug: page_text(text, names) for slug, text, names in listed}
    for name, value in public_objects().items():
        if inspect.ismodule(value):  # Sphinx imports `ergonet.priors` as such, though it lives elsewhere
            sys.modules.setdefault(f"ergonet.{name}", value)
    texts["index"] = index_text(list(texts))
    for slug, text in texts.items():
        path = folder / f"{slug}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    shown = {name for _, _, names in listed for name in names}
    for path in (*folder.glob("*.md"), *folder.glob("names/*.rst")):
        if path.stem not in texts and path.stem not in shown:
            path.unlink()


def check_shown(app: Any, error: Exception | None) -> None:
    """Every public name must have come out on a page, as something that can be linked to.

    Raises:
        UnplacedNameError: a name that Sphinx did not document.
    """
    if error is not None:
        return
    documented = {name for name, *_ in app.env.get_domain("py").get_objects()}
    missing = sorted({name for _, _, names in pages() for name in names} - documented)
    if missing:
        raise UnplacedNameError(f"public names that are on no page: {', '.join(missing)}")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("config-inited", write_pages)
    app.connect("build-finished", check_shown)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
