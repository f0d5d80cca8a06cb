"""Fixtures that several folders of tests share."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

os.environ.setdefault("MPLBACKEND", "Agg")

# Examples are the same on every run and every machine; a slow first example is a compilation, not a defect.
hypothesis.settings.register_profile("ergonet", derandomize=True, deadline=None, max_examples=30)
hypothesis.settings.load_profile("ergonet")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


LONG_TESTS_END = "ERGONET_LONG_TESTS_END"


def on_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"true", "1"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu` where JAX sees no accelerator."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import jax

    if jax.default_backend() == "cpu":
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs an accelerator; JAX sees only the CPU"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is marked `statistical` or `slow` after a time in seconds since 1970, where the environment has one.

    CI has to end in time, on a slow machine too; the summary counts what was left out.
    """
    end = os.environ.get(LONG_TESTS_END)
    is_long = item.get_closest_marker("statistical") or item.get_closest_marker("slow")
    if end and is_long and time.time() > float(end):
        pytest.skip("NO TIME LEFT: run `make test-statistical` without a limit")


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(request: pytest.FixtureRequest) -> None:
    """Keep compiled programs between test runs, in pytest's cache (`--cache-clear` empties it).

    A second run of tests that mostly compile takes about a sixth of the time. Each worker of pytest-xdist has
    a folder of its own, because JAX does not write entries atomically. CI starts cold, so it goes without.
    """
    if on_ci() or not hasattr(request.config, "cache"):
        return
    import jax

    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    jax.config.update("jax_compilation_cache_dir", str(request.config.cache.mkdir(f"jax-{worker}")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium browser. Without one the test is skipped, but on CI (`CI=true`) it fails."""
    found = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if found is not None:
        return found
    message = f"needs a headless browser, one of {', '.join(BROWSERS)} (Debian: apt-get install chromium)"
    if on_ci():
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture
def run_ergonet(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The installed command as a user starts it: ``run_ergonet("fit", "digits")`` in an empty folder.

    Returns the completed process with exit code and captured text; ``timeout`` is in seconds.
    """
    command = Path(sys.executable).with_name("ergonet")

    def run(*arguments: str, timeout: float = 600.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=timeout, check=False
        )

    return run
