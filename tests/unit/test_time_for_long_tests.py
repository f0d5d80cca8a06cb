"""What the tests do when CI's time is over: long ones are left out, and counted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_long_tests_are_left_out_after_their_time_and_quick_ones_are_not():
    files = ["tests/unit/test_variational.py", "tests/unit/test_lint_tools.py"]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        env=os.environ | {"ERGONET_LONG_TESTS_END": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout
    assert "NO TIME LEFT" in found.stdout
    passed, skipped = found.stdout.splitlines()[-1].split(", ")[:2]
    assert "passed" in passed
    assert "skipped" in skipped
