"""The cache of compiled programs of the command is bounded."""

import os

from ergonet.cli import compiled


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
