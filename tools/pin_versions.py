"""Write constraints.txt: exact versions of everything that Ergonet and its extras install.

Usage::

    python tools/pin_versions.py python3.11 python3.13

takes an interpreter below Python 3.12 and one of Python 3.12 or later, asks the pip of each what it would install, and
writes the union. If the two differ, or only one needs a package, the line has an environment marker. Nothing is
installed. Packages keep their pinned version unless ``--upgrade`` is given.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "constraints.txt"
EXTRAS = "test,lint,bench,plots,docs,dask"
HEADER = """\
# Exact versions of everything that `make setup` and the extras install, as name==version.
# Written by tools/pin_versions.py; JAX, NumPy, SciPy, Zarr and ArviZ left Python 3.11 behind.
"""


def resolve(interpreter: str, *, upgrade: bool) -> dict[str, str]:
    """Names and versions that the pip of ``interpreter`` would install for Ergonet with all extras."""
    with tempfile.TemporaryDirectory() as folder:
        environment, report = Path(folder) / "venv", Path(folder) / "report.json"
        subprocess.run([interpreter, "-m", "venv", environment], check=True)
        pins = [] if upgrade or not TARGET.exists() else ["-c", TARGET]
        subprocess.run(
            [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--dry-run",
             "--ignore-installed", "--report", report, *pins, f"{ROOT}[{EXTRAS}]"],
            check=True,
        )  # fmt: skip
        packages = json.loads(report.read_text(encoding="utf-8"))["install"]
    found = {normalize(package["metadata"]["name"]): package["metadata"]["version"] for package in packages}
    found.pop("ergonet")
    return found


def normalize(name: str) -> str:
    """The normalized form of a project name, in which the package index compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def constraint_lines(older: dict[str, str], newer: dict[str, str]) -> list[str]:
    """One line per package and version, with a marker if the versions below and from Python 3.12 on differ."""
    lines = []
    for name in sorted({*older, *newer}):
        if older.get(name) == newer.get(name):
            lines.append(f"{name}=={older[name]}")
            continue
        if name in older:
            lines.append(f'{name}=={older[name]}; python_version < "3.12"')
        if name in newer:
            lines.append(f'{name}=={newer[name]}; python_version >= "3.12"')
    return lines


def main() -> int:
    """Parse the command line, resolve for both interpreters, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("older", help="an interpreter below Python 3.12")
    parser.add_argument("newer", help="an interpreter of Python 3.12 or later")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions instead of the pinned ones")
    arguments = parser.parse_args()
    older = resolve(arguments.older, upgrade=arguments.upgrade)
    newer = resolve(arguments.newer, upgrade=arguments.upgrade)
    lines = constraint_lines(older, newer)
    TARGET.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{TARGET.name}: {len(lines)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
