"""What is documented is executed: every example of README, CONTRIBUTING and the pages below docs/."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = ROOT / "docs" / "api"  # by the build of the site, from docstrings
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if WRITTEN not in page.parents]
LEVEL = "--xla_backend_optimization_level=1"  # a tenth cheaper than 3: most of a page is compiling
PAGE_TIMEOUT = 900  # seconds; a page that takes longer is no example but an experiment

LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<link>[^)\s]+)\)|!\[[^\]]*\]\((?P<image>[^)\s]+)\)")
CODE = re.compile(r"^(`{3,}|~{3,}).*?^\1\s*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_example_of_the_page_runs(page: Path, tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, ROOT / "tools" / "run_page.py", page],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg", "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {LEVEL}".strip()},
        capture_output=True,
        text=True,
        timeout=PAGE_TIMEOUT,
        check=False,
    )
    assert answer.returncode == 0, f"{page_name(page)} fails:\n{answer.stdout}\n{answer.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_relative_link_of_the_page_leads_to_a_file(page: Path) -> None:
    prose = CODE.sub("", page.read_text(encoding="utf-8"))
    links = [match["link"] or match["image"] for match in LINK.finditer(prose)]
    relative = [link for link in links if not re.match(r"[a-z]+:|#", link)]
    missing = [link for link in relative if not (page.parent / link.partition("#")[0]).exists()]
    assert not missing, f"{page_name(page)} links to files that are not there: {missing}"
