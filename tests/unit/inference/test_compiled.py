"""The cache of compiled programs is bounded, used by every process, and forgotten in memory when there are too many."""

import os
import subprocess
import sys

import jax
import pytest

from ergonet.inference import compiled


def test_programs_that_were_not_used_for_longest_are_removed_first(tmp_path):
    for age, name in enumerate(["newest", "used", "older", "oldest"]):
        file = tmp_path / f"jit_{name}-cache"
        file.write_bytes(bytes(100))
        os.utime(file, (1e9 - age, 1e9 - age))
    os.utime(tmp_path / "jit_oldest-cache", (1e9 + 9, 1e9 - 9))  # read since, though written first
    (tmp_path / "a file of the user").write_bytes(bytes(1000))
    compiled.discard_unused(tmp_path, 400)
    assert len(list(tmp_path.iterdir())) == 5
    compiled.discard_unused(tmp_path, 250)
    assert {file.name for file in tmp_path.iterdir()} == {
        "a file of the user",
        "jit_newest-cache",
        "jit_oldest-cache",
    }


PROGRAM = """
import jax, jax.numpy as jnp, ergonet
jax.jit(lambda x: x * {number})(jnp.ones(3))  # before, so that JAX has decided that there is no cache
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
target = ergonet.Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2), jnp.zeros(2))
kernel = ergonet.HMC(num_steps=2, step_size=0.5)
ergonet.sample(target, kernel, num_chains=1, num_warmup=4, num_draws=4, seed=0, progress=False)
print(jax.config.jax_compilation_cache_dir, events.count("/jax/compilation_cache/cache_misses"),
      events.count("/jax/compilation_cache/cache_hits"))
"""


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path):
    """That calls `sample` from Python."""
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("JAX_COMPILATION_CACHE_DIR")
    found = []
    for number in (2, 3):
        script = [sys.executable, "-c", PROGRAM.format(number=number)]
        done = subprocess.run(script, env=environment, capture_output=True, text=True, check=True)
        found.append(done.stdout.split())
    (folder, first, _), (_, second, hits) = found
    assert folder == str(tmp_path / "ergonet" / "compiled")
    assert int(first) > 0
    assert (int(second), int(hits)) == (0, int(first))


@pytest.mark.parametrize(("used", "is_forgotten"), [(10, False), (80, True)])
def test_programs_are_forgotten_when_a_process_has_too_many(tmp_path, monkeypatch, used, is_forgotten):
    said, cleared = [], []
    for name, text in (("_MAPPINGS", "one\n" * used), ("_MOST_MAPPINGS", "100\n")):
        monkeypatch.setattr(compiled, name, tmp_path / name)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(True))
    compiled.make_room_for_programs(said.append)
    assert bool(cleared) == is_forgotten
    assert ["80 of 100 memory mappings" in one for one in said] == [True] * is_forgotten
    monkeypatch.setattr(compiled, "_MAPPINGS", tmp_path / "nowhere")
    compiled.make_room_for_programs(said.append)  # not Linux
    assert len(said) == is_forgotten
