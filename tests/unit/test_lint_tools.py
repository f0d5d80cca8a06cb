"""The scripts below tools/ that guard the checkout, each against planted violations."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import check_limits, pin_versions, run_page

ROOT = Path(__file__).resolve().parents[2]


def function(num_lines: int, *, docstring: str = "") -> str:
    body = [f"    x = {number}" for number in range(num_lines)]
    return "\n".join(["def long():", *([f'    """{docstring}"""'] if docstring else []), *body]) + "\n"


def slashes(text: str) -> str:
    """`@` stands for a slash, so that this file names no path of a machine."""
    return text.replace("@", "/")


def plant(root: Path, name: str, text: str) -> list[str]:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return check_limits.violations(root)


@pytest.mark.parametrize("folder", check_limits.CODE_FOLDERS)
def test_file_over_400_lines_is_found_in_every_code_folder(tmp_path: Path, folder: str) -> None:
    assert plant(tmp_path, f"{folder}/at_limit.py", "x = 1\n" * 400) == []
    found = plant(tmp_path, f"{folder}/over.py", "x = 1\n" * 401)
    assert len(found) == 1
    assert found[0].startswith(f"{folder}/over.py:401: file of 401 lines")


def test_python_outside_the_code_folders_and_other_text_may_be_long(tmp_path: Path) -> None:
    assert plant(tmp_path, "docs/example.py", "x = 1\n" * 500) == []
    assert plant(tmp_path, "src/table.csv", "1,2\n" * 500) == []


def test_body_over_60_lines_is_found_and_docstring_not_counted(tmp_path: Path) -> None:
    assert plant(tmp_path, "src/a.py", function(60, docstring="One.\n\n" + "    more\n" * 30)) == []
    found = plant(tmp_path, "src/b.py", function(61))
    assert len(found) == 1
    assert found[0].startswith("src/b.py:1: function long has a body of 61 lines")


def test_body_begins_at_the_decorator_of_its_first_statement() -> None:
    source = "def outer():\n    @wrap\n    @again\n    def inner():\n        pass\n    return inner\n"
    node = next(check_limits._functions(check_limits.ast.parse(source)))[0]
    assert check_limits.body_lines(node) == 5


@pytest.mark.parametrize(
    ("source", "num_violations"),
    [
        ("def f(a, b, c, d, e): pass\n", 0),
        ("def f(a, b, c, d, e, f): pass\n", 1),
        ("def f(a, b, c, /, d, e, f): pass\n", 1),
        ("def f(a, b, c, d, e, *, f, g, h): pass\n", 0),
        ("async def f(a, b, c, d, e, f=1): pass\n", 1),
        ("class A:\n    def f(self, a, b, c, d, e): pass\n", 0),
        ("class A:\n    def f(self, a, b, c, d, e, f): pass\n", 1),
        ("class A:\n    @staticmethod\n    def f(a, b, c, d, e, f): pass\n", 1),
        ("class A:\n    @classmethod\n    def f(cls, a, b, c, d, e): pass\n", 0),
        ("def g():\n    def f(a, b, c, d, e, f): pass\n", 1),
    ],
)
def test_more_than_5_positional_parameters_are_found(tmp_path: Path, source: str, num_violations: int) -> None:
    found = plant(tmp_path, "src/a.py", source)
    assert len(found) == num_violations
    assert all("6 positional parameters" in line for line in found)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("cd @work@place", "path of one machine '@work@place'"),
        ('path = "@root@.cache@x"', "path of one machine '@root@.cache@x'"),
        ("see file:///home/anna/run.html", "path of one machine '/home/anna/run.html'"),
        ("OUT=@tmp@run", "path of one machine '@tmp@run'"),
        ("in /Users/anna/data.", "path of one machine '/Users/anna/data.'"),
        ("--extra-index-url x", "registry address 'extra-index-url'"),
        ("https://pypi.org/simple/jax", "registry address 'https://pypi.org/simple'"),
        ("https://mirror.example/api/pypi/simple/", "registry address"),
        ("deb https://deb.debian.org/debian x", "registry address 'deb.debian.org'"),
    ],
)
@pytest.mark.parametrize("name", ["docs/page.md", ".ci/run", "src/a.toml"])
def test_traces_of_one_machine_are_found(tmp_path: Path, name: str, line: str, what: str) -> None:
    found = plant(tmp_path, name, slashes(f"first\n{line}\n"))
    assert len(found) == 1
    assert found[0].startswith(f"{name}:2: {slashes(what)}")


@pytest.mark.parametrize(
    "line",
    [
        "docs@work@notes.md",
        "https://example.org/home/page",
        "the folder tmp@ or .@tmp@x",
        "/usr/bin/env bash",
        "~@work@x",
        "a simple/plain rule",
        "https://pypi.org/project/ergonet",
        "work@root@tmp",
    ],
)
def test_relative_paths_and_pages_are_no_traces(tmp_path: Path, line: str) -> None:
    assert plant(tmp_path, "docs/page.md", slashes(line) + "\n") == []


def test_binary_and_ignored_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "picture.png").write_bytes(b"\x89PNG\xff " + slashes("@work@x").encode())
    assert plant(tmp_path, ".venv/pip.conf", slashes("@work@x\n")) == []


def test_new_files_count_and_ignored_ones_do_not_where_git_answers(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    plant(tmp_path, ".gitignore", "scratch/\n")
    assert plant(tmp_path, "scratch/a.md", slashes("@work@x\n")) == []
    assert len(plant(tmp_path, "notes.md", slashes("@work@x\n"))) == 1


def test_command_reports_and_fails_then_passes(tmp_path: Path) -> None:
    script = [sys.executable, ROOT / "tools" / "check_limits.py", tmp_path]
    plant(tmp_path, "src/a.py", "def f(:\n")
    failed = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stdout.startswith("src/a.py:1: not valid Python")) == (1, True)
    plant(tmp_path, "src/a.py", "x = 1\n")
    passed = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (passed.returncode, passed.stdout) == (0, "limits: all files within their limits\n")


PAGE = """# Title

```python
number = 20
```

<!-- no-run: needs a cluster -->

```python
raise RuntimeError
```

1. In a list:

   ```python
   assert number + 1 == 21
   open("written.txt", "w").write("x")
   ```

```console
$ make setup
$ ergonet fit digits \\
>     --out run   # a comment
some output
$ ergonet report "my run"
```
"""


def test_blocks_of_a_page_with_language_line_and_reason() -> None:
    found = list(run_page.blocks(PAGE))
    assert [(block.language, block.line, block.reason) for block in found] == [
        ("python", 4, ""),
        ("python", 10, "needs a cluster"),
        ("python", 16, ""),
        ("console", 21, ""),
    ]
    assert found[2].text.startswith("assert number")
    assert run_page.commands(found[3]) == [
        (22, ["ergonet", "fit", "digits", "--out", "run"]),
        (25, ["ergonet", "report", "my run"]),
    ]


def test_page_runs_its_python_in_one_namespace_and_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(PAGE.partition("```console")[0], encoding="utf-8")
    assert run_page.run_page(page) == 2
    assert (tmp_path / "written.txt").read_text() == "x"


def test_failing_example_fails_the_page_and_names_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n\n```python\nx = 1\nassert x == 2\n```\n", encoding="utf-8")
    script = [sys.executable, ROOT / "tools" / "run_page.py", page]
    answer = subprocess.run(script, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert f'"{page}", line 5' in answer.stderr


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("<!-- no-run -->\n```python\n```\n", "page:1: `no-run` needs a reason"),
        ("text\n```python\nx = 1\n", "page:2: this fence is never closed"),
    ],
)
def test_page_against_the_rules_is_refused(page: str, message: str) -> None:
    with pytest.raises(run_page.PageError, match=message):
        list(run_page.blocks(page))


def test_constraints_carry_a_marker_only_where_the_two_sides_differ() -> None:
    lines = pin_versions.constraint_lines({"jax": "0.10", "rich": "15", "old": "1"}, {"jax": "0.12", "rich": "15"})
    assert lines == [
        'jax==0.10; python_version < "3.12"',
        'jax==0.12; python_version >= "3.12"',
        'old==1; python_version < "3.12"',
        "rich==15",
    ]
