"""Fixtures that several folders of tests share."""

import functools
import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

os.environ.setdefault("MPLBACKEND", "Agg")

# Examples are the same on every run and every machine; a slow first example is a compilation, not a defect.
hypothesis.settings.register_profile("ergonet", derandomize=True, deadline=None, max_examples=30)
# `make fuzz`: other examples in every run.
EXAMPLES = os.environ.get("ERGONET_FUZZ_EXAMPLES")
hypothesis.settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=int(EXAMPLES or 30),
    suppress_health_check=list(hypothesis.HealthCheck),
    print_blob=True,
)
hypothesis.settings.load_profile("fuzz" if EXAMPLES else "ergonet")

CPU_KEY = "ergonet-cpu"
CPU_SECONDS: dict[str, float] = {}
MOST_MAPPINGS = 20_000  # a third of what Linux allows a process
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


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


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note the processor time of every test, its fixtures and its subprocesses, where no other test runs beside it."""
    before = os.times()
    yield
    after = os.times()
    CPU_SECONDS[item.location[0]] = CPU_SECONDS.get(item.location[0], 0.0) + sum(after[:4]) - sum(before[:4])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Let the test run with room for JAX's tracing, which makes the tests a tenth cheaper."""
    from ergonet._frames import call_with_room  # now, so that the checks of annotations see the import

    test = pyfuncitem.obj
    pyfuncitem.obj = functools.wraps(test)(lambda **given: call_with_room(lambda: test(**given)))


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[CPU_KEY] = CPU_SECONDS


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_testnodedown(node: Any, error: object) -> None:
    for file, seconds in getattr(node, "workeroutput", {}).get(CPU_KEY, {}).items():
        CPU_SECONDS[file] = CPU_SECONDS.get(file, 0.0) + seconds


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the files that cost most, in seconds of processor time, which other work on the machine does not change."""
    costs = sorted(CPU_SECONDS.items(), key=lambda pair: -pair[1])
    terminalreporter.section(f"{sum(CPU_SECONDS.values()):.0f} s of processor time, by file")
    count = len(costs) if os.environ.get("ERGONET_TEST_COSTS") else 15
    for file, seconds in costs[:count]:
        terminalreporter.write_line(f"{seconds:8.1f}  {file}")


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(request: pytest.FixtureRequest) -> None:
    """Keep compiled programs in pytest's cache (`--cache-clear` empties it), for all workers, stages and processes.

    The same program is compiled once, whichever worker meets it first; a second run of tests that mostly compile takes
    about a sixth of the time. JAX writes an entry in place, so that another process could read half of it: here an
    entry is written beside its name and renamed. Processes that tests start do write in place; a reader of half an
    entry gets a warning of JAX and compiles.
    """
    if not hasattr(request.config, "cache"):
        return
    import jax
    from jax._src import lru_cache

    def put(self: Any, key: str, value: bytes) -> None:
        entry = Path(self.path) / f"{key}-cache"
        if not entry.exists():
            beside = entry.with_name(f"{key}-{os.getpid()}")
            beside.write_bytes(value)
            beside.replace(entry)

    assert lru_cache._CACHE_SUFFIX == "-cache", "JAX names its entries differently now"
    lru_cache.LRUCache.put = put
    settings = {
        "jax_compilation_cache_dir": str(request.config.cache.mkdir("jax")),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)  # for the processes that tests start


@pytest.fixture(scope="module")
def optimized() -> Iterator[None]:
    """Compile with optimization, which `make test` turns off, here and in processes that tests start."""
    import jax

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JAX_DISABLE_MOST_OPTIMIZATIONS", raising=False)
        before = jax.config.read("jax_disable_most_optimizations")
        jax.config.update("jax_disable_most_optimizations", False)
        yield
        jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(autouse=True)
def few_mappings() -> Iterator[None]:
    """Drop compiled programs before the process has as many memory mappings as Linux allows it.

    A program on the CPU takes some ten mappings. A process of many hundred tests reaches the limit, 65530 by default,
    and crashes in whichever test runs then. Programs needed again come from the compilation cache.
    """
    yield
    if len(_mappings()) > MOST_MAPPINGS:
        import jax

        jax.clear_caches()
        gc.collect()


def _mappings() -> list[str]:
    """The memory mappings of this process; none where the system does not tell."""
    try:
        return Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


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
