"""Run the examples of a Markdown page in the current folder, in the order of the page.

* ``python`` blocks and the ``{code-cell}`` blocks of tutorials share one namespace.
* In ``console``, ``bash``, ``sh`` and ``shell`` blocks, lines that begin with ``$ ergonet`` are run (a trailing
  backslash continues a line); other lines are output or commands of other programs.
* A block right after a comment ``<!-- no-run: reason -->`` is skipped.

Usage::

    python tools/run_page.py PAGE

The first failing example ends the run, with a traceback that names the line of the page.
"""

import dataclasses
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

SHELL_LANGUAGES = frozenset({"console", "bash", "sh", "shell"})
FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,}|~{3,})\s*(?P<language>\{code-cell\}|[\w+-]*)")
CELL = "{code-cell}"
OPTION = re.compile(r"^:[\w-]+:.*$", re.MULTILINE)  # option of a cell; its line stays, which keeps line numbers
NO_RUN = re.compile(r"^<!--\s*no-run\b(?P<rest>.*)-->$")
PROMPT = "$ ergonet"


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        language: the word after the opening fence, in lower case.
        line: number of the first line of the text on the page, from 1.
        text: the lines between the fences, without common indentation.
        reason: why the block is skipped; empty if it is run.
    """

    language: str
    line: int
    text: str
    reason: str = ""


class PageError(ValueError):
    """The page breaks the rules of the module's docstring; the message names page and line."""


def blocks(page: str, name: str = "page") -> Iterator[Block]:
    """The fenced blocks of the Markdown text ``page``, in order.

    Raises:
        PageError: a fence is never closed, or a ``no-run`` has no reason.
    """
    lines = page.splitlines()
    number, reason = 0, ""
    while number < len(lines):
        line = lines[number]
        number += 1
        fence = FENCE.match(line)
        if fence is None:
            if line.strip():
                reason = _reason(line.strip(), f"{name}:{number}")
            continue
        end = _closing(lines, number, fence["ticks"], f"{name}:{number}")
        text = textwrap.dedent("\n".join(lines[number:end]))
        language = fence["language"].lower()
        if language == CELL:
            text, language = OPTION.sub("", text), "python"
        yield Block(language, number + 1, text, reason)
        number, reason = end + 1, ""


def _reason(line: str, place: str) -> str:
    match = NO_RUN.match(line)
    if match is None:
        return ""
    reason = match["rest"].strip().removeprefix(":").strip()
    if not reason:
        raise PageError(f"{place}: `no-run` needs a reason: <!-- no-run: takes an hour -->")
    return reason


def _closing(lines: list[str], start: int, ticks: str, place: str) -> int:
    for number in range(start, len(lines)):
        stripped = lines[number].strip()
        if stripped.startswith(ticks) and not stripped.strip(ticks[0]):
            return number
    raise PageError(f"{place}: this fence is never closed")


def commands(block: Block) -> list[tuple[int, list[str]]]:
    """The line number and the words of every ``$ ergonet`` command in a shell block."""
    found = []
    lines = block.text.splitlines()
    for offset, line in enumerate(lines):
        if not line.startswith(PROMPT):
            continue
        words, last = line.removeprefix("$ "), offset
        while words.endswith("\\") and last + 1 < len(lines):
            last += 1
            words = words.removesuffix("\\") + " " + lines[last].removeprefix("> ").strip()
        found.append((block.line + offset, shlex.split(words, comments=True)))
    return found


def run_commands(block: Block, name: str) -> None:
    """Run the commands of a shell block with the `ergonet` in the environment of this interpreter."""
    for line, words in commands(block):
        print(f"{name}:{line}: {shlex.join(words)}", flush=True)
        subprocess.run([Path(sys.executable).with_name(words[0]), *words[1:]], check=True)


def run_python(block: Block, name: str, namespace: dict[str, object]) -> None:
    """Run a Python block; tracebacks have the line numbers of the page."""
    print(f"{name}:{block.line}: python", flush=True)
    code = compile("\n" * (block.line - 1) + block.text, name, "exec")
    exec(code, namespace)  # noqa: S102  the page is part of the checkout


def run_page(path: Path) -> int:
    """Run all examples of the page at ``path``; returns the number of blocks that were run."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    num_run = 0
    for block in blocks(path.read_text(encoding="utf-8"), str(path)):
        if block.reason:
            print(f"{path}:{block.line}: not run: {block.reason}", flush=True)
        elif block.language == "python":
            run_python(block, str(path), namespace)
            num_run += 1
        elif block.language in SHELL_LANGUAGES and commands(block):
            run_commands(block, str(path))
            num_run += 1
    return num_run


if __name__ == "__main__":
    print(f"{run_page(Path(sys.argv[1]).resolve())} examples run")
