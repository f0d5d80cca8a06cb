"""Stored draws: what is damaged, missing or foreign is found when it is read, and what was counted is on disk."""

import json
import shutil
import warnings
from typing import Literal

import numpy as np
import pytest
import zarr
from zarr.codecs import Crc32cCodec, GzipCodec, ZstdCodec
from zarr.registry import register_codec

import ergonet
from ergonet._errors import RunDirectoryError, SamplingWarning
from ergonet.draws import durable
from ergonet.draws.manifest import read_manifest
from ergonet.draws.store import ZarrStore
from ergonet.draws.stored import StoredArray, _touched

CHAINS, DRAWS, DIM = 2, 25, 3
RNG = np.random.default_rng(0)
VALUES = {
    "positions": RNG.normal(size=(CHAINS, DRAWS, DIM)).astype(np.float32),
    "lp": RNG.normal(size=(CHAINS, DRAWS)),
    "diverging": np.zeros((CHAINS, DRAWS), bool),
}


def begin(path):
    store = ZarrStore(path, draws_per_chunk=10)
    store.allocate(CHAINS, DRAWS, {name: (values.shape[2:], values.dtype) for name, values in VALUES.items()})
    return store


def write(store, start, stop):
    for chain in range(CHAINS):
        store.write(chain, start, {name: values[chain, start:stop] for name, values in VALUES.items()})


@pytest.fixture
def run(tmp_path):
    store = begin(tmp_path / "run")
    write(store, 0, DRAWS)
    store.write_extra("tuning", {"step_size": np.array([0.1, 0.2]), "scalar": np.array(3), "none": np.zeros((2, 0))})
    store.finish({"draws": DRAWS})
    return tmp_path / "run"


@pytest.fixture
def killed(tmp_path):
    """A run that was killed after 25 draws of each chain, in two writes."""
    store = begin(tmp_path / "run")
    write(store, 0, 20)
    write(store, 20, DRAWS)
    return tmp_path / "run"


def flip(path, at=-9):
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


DAMAGE = {
    "flipped": flip,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "emptied": lambda path: path.write_bytes(b""),
    "deleted": lambda path: path.unlink(),
}


def read_everything(path):
    samples = ergonet.load(path)
    for arrays in (samples.stats, samples.warmup_stats, samples.tuning):
        dict(arrays)
    return samples, np.asarray(samples.positions)


def test_a_damaged_statistic_is_no_obstacle_to_the_rest(run):
    DAMAGE["flipped"](run / "diverging/c.0.2")
    samples = ergonet.load(run)
    assert np.asarray(samples.positions).shape[:2] == samples.stats["lp"].shape
    with pytest.raises(RunDirectoryError, match=r"diverging/c\.0\.2` .* is damaged"):
        samples.stats["diverging"]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(
    ("file", "held"),
    [
        ("positions/c.1.1.0", r"positions of draws 10 to 19 of chain 1 .*"),
        ("diverging/c.0.2", r"diverging of draws 20 to 24 of chain 0 .*"),
        ("tuning/step_size/c.0", ""),
    ],
)
def test_a_damaged_file_is_named_with_its_draws(run, damage, file, held):
    read_everything(run)
    DAMAGE[damage](run / file)
    with pytest.raises(RunDirectoryError, match=rf"{file}`.*{held}(damaged|missing)\. Restore"):
        read_everything(run)


def test_every_flipped_bit_is_found_and_other_chunks_stay_readable(run):
    file, array = run / "positions" / "c.1.1.0", StoredArray(run, "positions")
    whole = file.read_bytes()
    for at in range(len(whole)):
        flip(file, at)
        assert array.fault((1, 1, 0)), f"byte {at}"
        file.write_bytes(whole)
    assert array.fault((1, 1, 0)) is None
    flip(file)
    np.testing.assert_array_equal(array[:, :10], VALUES["positions"][:, :10])
    np.testing.assert_array_equal(array[0], VALUES["positions"][0])
    np.testing.assert_array_equal(array[-1, 20:, [0, 2]], VALUES["positions"][-1, 20:, [0, 2]].T)
    for part in ((..., 0), (1, 10), -1, (slice(None), slice(5, 11))):
        with pytest.raises(RunDirectoryError, match=r"c\.1\.1\.0"):
            array[part]


@pytest.mark.parametrize("other", ["positions/c.0.1.0", "positions/c.1.0.0"])
def test_an_intact_chunk_of_another_place_is_refused(run, other):
    shutil.copyfile(run / other, run / "positions" / "c.1.1.0")
    samples = ergonet.load(run)
    np.testing.assert_array_equal(samples.positions[0], VALUES["positions"][0])
    with pytest.raises(
        RunDirectoryError, match=r"c\.1\.1\.0` with positions of draws 10 to 19 .* not the one that was"
    ):
        samples.positions[1]


def test_a_missing_folder_of_an_array_is_named(run):
    shutil.rmtree(run / "lp")
    with pytest.raises(RunDirectoryError, match=r"lp/zarr\.json` is missing"):
        ergonet.load(run)


def test_a_file_torn_when_the_run_was_killed_costs_only_its_draws(killed):
    assert ergonet.load(killed).num_draws == DRAWS
    DAMAGE["truncated"](killed / "lp" / "c.1.2")
    with pytest.warns(SamplingWarning, match=r"c\.1\.2` with lp of draws 20 to 24 .* the 20 draws of each chain"):
        samples = ergonet.load(killed)
    np.testing.assert_array_equal(samples.positions, VALUES["positions"][:, :20])
    DAMAGE["deleted"](killed / "positions" / "c.0.0.0")
    with pytest.warns(SamplingWarning), pytest.raises(RunDirectoryError, match="draws 0 to 9 of chain 0"):
        ergonet.load(killed)


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_manifest_before_a_torn_one_is_used(killed, damage):
    DAMAGE[damage](killed / "manifest.json")
    with pytest.warns(SamplingWarning, match=r"manifest\.json` is (damaged|missing).*the manifest written before"):
        assert read_manifest(killed)["draws_by_chain"] == [DRAWS, 20]
    with pytest.warns(SamplingWarning):
        assert ergonet.load(killed).num_draws == 20
    DAMAGE["truncated"](killed / "manifest.previous.json")
    with pytest.raises(RunDirectoryError, match="Restore one of them"):
        ergonet.load(killed)


def test_a_changed_count_is_no_valid_manifest(killed):
    text = (killed / "manifest.json").read_text()
    (killed / "manifest.json").write_text(text.replace(" 25", " 29"))
    with pytest.warns(SamplingWarning, match="checksum"):
        assert ergonet.load(killed).num_draws == 20


def test_what_the_manifest_counts_survives_a_power_failure(tmp_path, monkeypatch):
    on_disk, sync_one = set(), durable._sync_one

    def note(path):
        beside = tmp_path / ".run.ergonet" / "new"  # until every chain has a draw
        on_disk.add(tmp_path / "run" / path.relative_to(beside) if path.is_relative_to(beside) else path)
        sync_one(path)

    monkeypatch.setattr(durable, "_sync_one", note)
    store = begin(tmp_path / "run")
    write(store, 0, DRAWS)
    store.write_extra("tuning", {"step_size": np.array([0.1, 0.2])})
    store.finish({"draws": DRAWS})
    everything = [tmp_path, tmp_path / "run", *(tmp_path / "run").rglob("*")]
    lost = [path for path in everything if path not in on_disk and not path.match("manifest*")]
    assert lost == []


def test_data_are_on_disk_before_the_manifest_counts_them(tmp_path, monkeypatch):
    steps, sync_one, store = [], durable._sync_one, begin(tmp_path / "run")
    monkeypatch.setattr(durable, "_sync_one", lambda path: (sync_one(path), steps.append(path.name)))
    monkeypatch.setattr("ergonet.draws.store.write_manifest", lambda *_: steps.append("manifest"))
    store.write(1, 5, {name: values[1, 5:12] for name, values in VALUES.items()})
    chunks = {"c.1.0.0", "c.1.1.0", "c.1.0", "c.1.1"}
    assert set(steps[:-1]) == chunks | set(VALUES)
    assert steps[-1] == "manifest"


def test_opening_a_run_warns_of_nothing(run):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        samples, _ = read_everything(run)
    assert set(samples.stats) == {"lp", "diverging"}
    assert samples.tuning["scalar"] == 3
    assert samples.tuning["none"].shape == (2, 0)


def older(path, zarr_format: Literal[2, 3] = 3):
    """A run as version 1 of the format had it: no checksums, no files for chunks of zeros."""
    group = zarr.open_group(str(path), mode="w-", zarr_format=zarr_format)
    for name, values in VALUES.items():
        group.create_array(name, data=values, chunks=(1, 10, *values.shape[2:]))
    tuning = group.require_group("tuning")
    tuning.create_array("step_size", data=np.array([0.1, 0.2]))
    content = {"format_version": 1, "draws_by_chain": [DRAWS] * CHAINS, "complete": True, "draws": DRAWS, "about": {}}
    (path / "manifest.json").write_text(json.dumps(content))
    return path


def test_runs_of_the_first_version_are_readable(tmp_path):
    path = older(tmp_path / "old")
    samples, positions = read_everything(path)
    np.testing.assert_array_equal(positions, VALUES["positions"])
    np.testing.assert_array_equal(samples.stats["diverging"], VALUES["diverging"])
    assert list(samples.tuning["step_size"]) == [0.1, 0.2]
    (path / "positions" / "c" / "1" / "1" / "0").unlink()
    with pytest.raises(RunDirectoryError, match="draws 10 to 19 of chain 1"):
        read_everything(path)


def test_the_second_format_of_zarr_is_not_opened(tmp_path):
    with pytest.raises(RunDirectoryError, match="has no positions"):
        ergonet.load(older(tmp_path / "old", zarr_format=2))


@pytest.mark.parametrize(
    "change",
    [
        {"codecs": [{"name": "bytes"}, {"name": "numcodecs.lzma", "configuration": {}}]},
        {"codecs": [{"name": "sharding_indexed", "configuration": {"codecs": [{"name": "pickle"}]}}]},
        {"codecs": None},
        {"codecs": ["bytes"]},
        {"data_type": "string"},
        {"data_type": {"name": "struct"}},
        {"zarr_format": 2},
        {"node_type": "group"},
        {"storage_transformers": [{"name": "mine"}]},
        {"shape": [CHAINS, 7, DIM]},
        {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "/../"}}},
    ],
)
def test_metadata_that_ergonet_does_not_write_are_refused(run, change):
    file = run / "positions" / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(RunDirectoryError, match="Restore"):
        ergonet.load(run)


class ExecutedError(Exception):
    """Raised by a codec that must not be asked."""


class Foreign(Crc32cCodec):
    @classmethod
    def from_dict(cls, data):
        raise ExecutedError


@pytest.mark.parametrize(
    ("dtype", "codec"), [("float32", GzipCodec()), ("complex64", ZstdCodec()), ("float32", "foreign")]
)
def test_arrays_that_zarr_can_read_are_refused_before_it_does(run, dtype, codec):
    register_codec("foreign", Foreign)
    zarr.create_array(
        str(run / "positions"),
        data=VALUES["positions"].astype(dtype),
        compressors=[ZstdCodec() if codec == "foreign" else codec],
        overwrite=True,
    )
    if codec == "foreign":
        file = run / "positions" / "zarr.json"
        file.write_text(file.read_text().replace('"zstd"', '"foreign"'))
        with pytest.raises(ExecutedError):
            zarr.open_array(str(run / "positions"), mode="r")
    with pytest.raises(RunDirectoryError, match=r"positions/zarr\.json` is damaged or was written by another program"):
        ergonet.load(run)


def test_checksums_of_a_long_plan_open_only_what_is_there(tmp_path, monkeypatch):
    store = ZarrStore(tmp_path / "run", draws_per_chunk=10)
    store.allocate(CHAINS, 10_000, {"lp": ((), np.dtype(np.float64))})
    for chain in range(CHAINS):
        store.write(chain, 0, {"lp": VALUES["lp"][chain]})
    opened, original = [], StoredArray._checksum
    monkeypatch.setattr(StoredArray, "_checksum", lambda self, block: opened.append(block) or original(self, block))
    found = StoredArray(tmp_path / "run", "lp").checksums()
    assert len(found) == 2 * 1000
    assert len(opened) == sum(one is not None for one in found) == 2 * 3


def test_only_what_is_there_of_a_long_plan_is_looked_at_when_it_goes_on(tmp_path, monkeypatch):
    store = ZarrStore(tmp_path / "run", draws_per_chunk=10)
    store.allocate(CHAINS, 50_000, {"lp": ((), np.dtype(float))})
    for chain in range(CHAINS):
        store.write(chain, 0, {"lp": VALUES["lp"][chain]})
    looked, is_there = [], StoredArray._is_there
    monkeypatch.setattr(StoredArray, "_is_there", lambda self, block: looked.append(block) or is_there(self, block))
    listed, existing = [], StoredArray._existing
    monkeypatch.setattr(StoredArray, "_existing", lambda self: listed.append(self) or existing(self))
    flip(tmp_path / "run" / "lp" / "c.1.2")
    store.require_intact([10, 20])
    assert len(looked) < 20
    assert len(listed) == 1
    assert sorted(one.name for one in (tmp_path / "run" / "lp").glob("c*")) == [
        "c.0.0",
        "c.0.1",
        "c.0.2",
        "c.1.0",
        "c.1.1",
    ]


@pytest.mark.parametrize(
    "part", [slice(None), slice(3, 17), slice(9, 10), slice(4, 4), slice(None, None, -7), 12, [3, 19]]
)
def test_the_chunks_that_an_index_touches(part):
    assert _touched(part, 25, 4) == sorted({int(one) // 4 for one in np.atleast_1d(np.arange(25)[part])})
