"""What SECURITY.md promises, where no other test shows it."""

import ast
import dataclasses
import io
import re
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr

from ergonet._errors import DataError, RunDirectoryError, SettingError
from ergonet.assembly import build
from ergonet.assembly.settings import Settings
from ergonet.cli.outputs import table_file
from ergonet.datasets import read_table
from ergonet.datasets.cifar import read, source_in
from ergonet.draws import memory
from ergonet.draws.durable import write_json
from ergonet.draws.stored import StoredArray
from ergonet.report import write
from tests.report_records import regression_record

ROOT = Path(__file__).parents[2]
OUTWARD = ["../../escaped.npy", "/escaped.npy", "a/../../escaped.npy"]


def test_every_test_of_the_table_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(named) > 20
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}, f"{file}::{name}"


@pytest.mark.parametrize("name", ["os:system", "os.system", "ergonet.samplers.hmc:HMC", "__import__('os')"])
def test_names_in_settings_import_nothing(name):
    for table in ("kernel", "prior", "likelihood"):
        with pytest.raises(SettingError, match="is not known"):
            build.check(Settings.from_table({table: {"name": name}}))
    with pytest.raises(SettingError, match="is not known"):
        build.check(Settings.from_table({"network": {"activation": name}}))


def files(folder):
    return sorted(str(one) for one in folder.rglob("*"))


def test_archives_write_nothing_wherever_their_names_lead(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    with zipfile.ZipFile(inner / "table.npz", "w") as archive:
        for name in OUTWARD:
            content = io.BytesIO()
            np.save(content, np.arange(3.0))
            archive.writestr(name, content.getvalue())
    with tarfile.open(inner / "cifar.tar", "w") as archive:
        for kind, name in [(tarfile.SYMTYPE, "train/cat/1.png"), (tarfile.REGTYPE, "../../train/cat/2.png")]:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member, io.BytesIO())
    before = files(tmp_path)
    assert len(read_table(inner / "table.npz").columns) == len(OUTWARD)
    source = source_in(inner, archives=True)
    assert source is not None
    with pytest.raises(DataError, match="not a readable JPEG or PNG"):
        read(source)
    assert files(tmp_path) == before


def test_a_chunk_that_would_fill_the_memory_is_rejected_unread(tmp_path, monkeypatch):
    shape = (1, 2**20)
    zarr.create_array(tmp_path / "positions", shape=shape, chunks=shape, dtype="float32", zarr_format=3)[:] = 1.0
    assert StoredArray(tmp_path, "positions").shape == shape
    monkeypatch.setattr(memory, "free_memory", lambda: 2**20)
    with pytest.raises(RunDirectoryError, match=r"A chunk of `.*positions` would take 0\.0 GiB of memory when"):
        StoredArray(tmp_path, "positions")


@pytest.mark.parametrize("name", [".new.csv.unfinished", "new.csv", "metrics.tmp", "metrics.json"])
def test_a_link_in_place_of_a_file_is_not_followed(tmp_path, name):
    mine = tmp_path / "mine.txt"
    mine.write_text("hours of work")
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / name).symlink_to(mine)
    with table_file(folder / "new.csv") as file:
        file.append(pd.DataFrame({"mean": [1.0]}))
    write_json(folder / "metrics.json", {})
    assert mine.read_text() == "hours of work"
    assert not any(one.is_symlink() for one in folder.iterdir())


def test_a_report_commands_no_terminal(tmp_path):
    settings = {"data": {"source": "\x1b[2J\u202etable.csv"}}
    record = dataclasses.replace(regression_record(), settings=settings)
    page = write.write_report(record, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "\\x1b[2J\\u202etable.csv" in page
    assert not {"\x1b", "\u202e"} & set(page)
