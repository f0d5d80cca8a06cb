"""Check limits of size, and that no file refers to a particular machine; part of `make lint`.

* A Python file has at most 400 lines.
* The body of a function has at most 60 lines, without its docstring.
* A function has at most 5 positional parameters, without ``self`` and ``cls``; keyword-only parameters do not count.
* No text file contains an absolute path of a particular machine or the address of a package registry.

Usage::

    python tools/check_limits.py [ROOT]

prints one line ``path:line: what, and what to do`` per violation, and exits with 1 if there are any.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_FILE_LINES = 400
MAX_BODY_LINES = 60
MAX_POSITIONAL = 5
CODE_FOLDERS = ("src", "tests", "benchmarks", "experiments", "tools")

MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:(?:work|root|tmp)(?=/)|(?:home|Users)/(?=[\w<.-]))[^\s\"'`,;)]*")
REGISTRY = re.compile(
    r"\b(?:pypi\.org/simple|files\.pythonhosted\.org|registry\.npmjs\.org|registry\.yarnpkg\.com|deb\.debian\.org"
    r"|conda\.anaconda\.org)|https?://[^\s/]+(?:/[^\s/]+)*/simple\b|\b(?:extra-)?index[-]url\b"
)
# The test of this script contains such texts on purpose.
ALLOWED = ("tests/unit/test_lint_tools.py",)
# Folders that are ignored outside a git repository.
UNTRACKED_FOLDERS = {".git", ".venv", "__pycache__", "build", "dist", "runs", "demo-run"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def repository_files(root: Path) -> list[Path]:
    """Tracked and untracked files of the repository, without ignored ones, relative to ``root``."""
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        names = {Path(name) for name in listing.stdout.decode().split("\0") if name}
        return sorted(name for name in names if (root / name).is_file())
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(path for path in found if not _is_ignored(path))


def _is_ignored(path: Path) -> bool:
    return any(part in UNTRACKED_FOLDERS or part.endswith((".egg-info", "_cache")) for part in path.parts)


def file_violations(path: Path, text: str) -> Iterator[str]:
    """Violations of the limits on length and parameters in a Python file."""
    num_lines = len(text.splitlines())
    if num_lines > MAX_FILE_LINES:
        yield f"{path}:{num_lines}: file of {num_lines} lines, at most {MAX_FILE_LINES}: split it by subject"
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield f"{path}:{error.lineno or 1}: not valid Python: {error.msg}"
        return
    for node, is_method in _functions(tree):
        yield from function_violations(path, node, is_method=is_method)


def _functions(tree: ast.AST) -> Iterator[tuple[FunctionNode, bool]]:
    """Every function of a module, and whether it is a method with ``self`` or ``cls``."""
    for parent in ast.walk(tree):
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, FunctionNode):
                decorators = {name.id for name in node.decorator_list if isinstance(name, ast.Name)}
                yield node, isinstance(parent, ast.ClassDef) and "staticmethod" not in decorators


def function_violations(path: Path, node: FunctionNode, *, is_method: bool) -> Iterator[str]:
    """Violations of the limits on the body and the positional parameters of a function."""
    place = f"{path}:{node.lineno}: function {node.name}"
    num_lines = body_lines(node)
    if num_lines > MAX_BODY_LINES:
        yield f"{place} has a body of {num_lines} lines, at most {MAX_BODY_LINES}: split it"
    positional = [*node.args.posonlyargs, *node.args.args][1 if is_method else 0 :]
    if len(positional) > MAX_POSITIONAL:
        yield (
            f"{place} has {len(positional)} positional parameters, at most {MAX_POSITIONAL}: "
            "put `*` before the rest, or pass a record"
        )


def body_lines(node: FunctionNode) -> int:
    """Number of lines from the first statement after the docstring to the last, blank lines included."""
    statements = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    if not statements:
        return 0
    first = statements[0]
    decorators = getattr(first, "decorator_list", [])
    start = min([first.lineno, *(decorator.lineno for decorator in decorators)])
    return (node.end_lineno or start) - start + 1


def text_violations(path: Path, text: str) -> Iterator[str]:
    """Absolute paths of a particular machine and registry addresses in a text file."""
    for number, line in enumerate(text.splitlines(), start=1):
        for match in MACHINE_PATH.finditer(line):
            yield f"{path}:{number}: path of one machine {match.group()!r}: make it relative or a setting"
        for match in REGISTRY.finditer(line):
            yield f"{path}:{number}: registry address {match.group()!r}: leave it to the user's configuration"


def violations(root: Path) -> list[str]:
    """All violations in the repository at ``root``, sorted by file."""
    found: list[str] = []
    for path in repository_files(root):
        try:
            text = (root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if "\0" in text:
            continue
        if path.suffix == ".py" and path.parts[0] in CODE_FOLDERS:
            found.extend(file_violations(path, text))
        if path.as_posix() not in ALLOWED:
            found.extend(text_violations(path, text))
    return found


def main(arguments: list[str]) -> int:
    """Check the repository at the first argument, by default the repository of this script."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    found = violations(root)
    print(*found, sep="\n") if found else print("limits: all files within their limits")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
