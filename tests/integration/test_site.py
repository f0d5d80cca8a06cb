"""The documentation site, as far as it can be checked without building it: `make docs` does the rest."""

import re
import types
from pathlib import Path

import pytest

import ergonet
from docs._ext import api_pages
from tools import draw_layers

ROOT = Path(__file__).resolve().parents[2]
ENTRY = re.compile(r"^@\w+\{(\w+),", re.MULTILINE)
CITED = re.compile(r"(?<![\w.])[A-Z][a-z]+(?:[A-Z][a-z]+)*(?:19|20)\d\d[a-z]?(?!\w)|\bChenReport\b")


def listed_names() -> list[str]:
    return [name for _, _, names in api_pages.pages() for name in names]


def test_every_public_name_is_on_exactly_one_page_of_the_reference() -> None:
    names = listed_names()
    assert len(names) == len(set(names))
    for name in ergonet.__all__:
        value = getattr(ergonet, name)
        if isinstance(value, types.ModuleType):
            assert any(listed.startswith(f"ergonet.{name}.") for listed in names), name
        else:
            assert f"ergonet.{name}" in names


@pytest.mark.parametrize("name", ["priors.Horseshoe", "likelihoods.Categorical", "plots.rank_plot", "datasets.load"])
def test_names_of_public_modules_are_listed(name: str) -> None:
    assert f"ergonet.{name}" in listed_names()


def test_a_name_that_no_page_takes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ergonet, "__all__", [*ergonet.__all__, "Stray"])
    monkeypatch.setattr(ergonet, "Stray", type("Stray", (), {"__module__": "ergonet.attic"}), raising=False)
    with pytest.raises(api_pages.UnplacedNameError, match=r"ergonet\.Stray lives in ergonet\.attic"):
        listed_names()


def test_the_picture_of_the_layers_is_that_of_the_imports() -> None:
    drawn = draw_layers.picture(draw_layers.folder_imports())
    assert draw_layers.TARGET.read_text(encoding="utf-8") == drawn, "run `python tools/draw_layers.py`"


def test_the_picture_leaves_out_arrows_that_follow_and_rejects_circles() -> None:
    edges = {"top": {"middle", "ground"}, "middle": {"ground"}, "ground": set()}
    assert draw_layers.reduced(edges) == {"top": {"middle"}, "middle": {"ground"}, "ground": set()}
    assert draw_layers.floors(edges) == {"ground": 0, "middle": 1, "top": 2}
    with pytest.raises(ValueError, match="circular"):
        draw_layers.floors(edges | {"ground": {"top"}})


def test_every_entry_of_the_references_is_closed_before_the_next() -> None:
    before, *entries = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8").split("\n@")
    opened = [one.partition("\n")[0] for one in (before, *entries) if one.count("{") != one.count("}")]
    assert not opened


def test_every_source_that_is_cited_by_key_is_in_the_references() -> None:
    keys = set(ENTRY.findall((ROOT / "docs" / "references.bib").read_text(encoding="utf-8")))
    files = [path for folder in ("src", "docs") for kind in ("py", "md") for path in (ROOT / folder).rglob(f"*.{kind}")]
    unknown = {
        f"{path.relative_to(ROOT)}: {key}"
        for path in (*files, ROOT / "README.md", ROOT / "CONTRIBUTING.md")
        for key in CITED.findall(path.read_text(encoding="utf-8"))
        if key not in keys
    }
    assert not unknown, sorted(unknown)
    assert {"Lau2018", "Choo2000", "ChenReport", "Ask2022", "Kim2018"} <= keys
