"""Random access: the values that `examples` gives, in any order and process; what differs from what was written."""

import dataclasses
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shardmill
from shardmill.data.shard_index import INDEX_FOLDER
from shardmill.data.tfrecord import frame_record, record_header
from shardmill.errors import CorruptDataError, UserError
from shardmill.metadata.manifest import ShardEntry
from shardmill.reading import shard_ranges
from shardmill.reading.shard_ranges import Range, StoreRanges, fetch_ahead
from shardmill.reading.source import Source
from tests.support.command import Run, open_files, write_files
from tests.support.later import Later
from tests.support.masks import write_pairs
from tests.support.reading import FILLS, ROWS, CountedFiles, copy, flip, make, make_rows, shards

tf = Later("tensorflow")


@pytest.fixture(params=["rows_in_four_shards", "indexed_rows"], ids=["no index", "index"])
def rows(request: pytest.FixtureRequest) -> Path:
    directory = request.getfixturevalue(request.param)
    assert isinstance(directory, Path)
    return directory


def assert_same(found: Any, expected: Any) -> None:
    """Compare examples: names in order, types and values."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert list(one) == list(other)
        for name, value in one.items():
            assert type(value) is type(other[name])
            np.testing.assert_array_equal(value, other[name])


def test_values_are_those_of_examples(rows: Path) -> None:
    expected = list(shardmill.examples(rows))

    source = shardmill.source(rows)

    assert len(source) == ROWS
    assert_same([source[number] for number in range(ROWS)], expected)
    assert_same([source[number - ROWS] for number in range(ROWS)], expected)
    assert_same(list(source), expected)
    assert_same(source[10:90:7], expected[10:90:7])
    assert_same(source[::-1], expected[::-1])
    numbers = [5, 99, 5, 0, -1]
    assert_same(source.__getitems__(numbers), [expected[number] for number in numbers])
    assert_same([source[np.int64(7)]], [expected[7]])
    assert source[100:] == source.__getitems__([]) == []


@pytest.mark.parametrize("names", [["city", "n", "word", "x"], ["pair", "x"], ["age", "n", "note"]])
def test_values_of_any_columns(rows: Path, names: list[str], is_compiled: bool) -> None:
    expected = list(shardmill.examples(rows, features=names))

    source = shardmill.source(rows, features=names)

    assert_same([source[number] for number in range(ROWS)], expected)
    assert_same(list(source), expected)
    assert_same(source[::-3], expected[::-3])
    columns = source.read_columns([7, -1, 7])
    if is_compiled and "age" not in names and source._lookup is not None:
        assert columns is not None
        for name, values in columns.items():
            assert_same([{name: one} for one in values], [{name: expected[row][name]} for row in (7, -1, 7)])
    else:
        assert columns is None


def test_some_features_with_defaults(rows: Path) -> None:
    options: dict[str, Any] = {"features": ["n", "age", "note"], "defaults": FILLS}
    source = shardmill.source(rows, **options)
    assert_same(list(source), list(shardmill.examples(rows, **options)))
    assert_same([source[3]], [next(iter(shardmill.examples(rows, "train[3:]", **options)))])
    assert [feature.name for feature in source.features] == ["n", "age", "note"]
    assert source.defaults == FILLS
    assert (source.decode, source.image_size) == (False, None)


@pytest.mark.parametrize("split", ["train[10%:30%]", "train[-30:]", "train[60:]+train[:25]+train[61:62]"])
def test_slices_of_splits(rows: Path, split: str) -> None:
    expected = list(shardmill.examples(rows, split))
    source = shardmill.source(rows, split)
    assert_same([source[number] for number in range(len(source))], expected)
    assert_same(source[::-1], expected[::-1])


@given(st.lists(st.integers(-ROWS, ROWS - 1), max_size=50))
def test_any_numbers(indexed_rows: Path, numbers: list[int]) -> None:
    source = shardmill.source(indexed_rows, features=["n"])
    everything = [int(found["n"]) for found in shardmill.examples(indexed_rows)]
    assert [int(found["n"]) for found in source.__getitems__(numbers)] == [everything[number] for number in numbers]


@pytest.mark.parametrize("number", [ROWS, -ROWS - 1, 10**12])
def test_a_number_out_of_range(rows_in_four_shards: Path, number: int) -> None:
    source = shardmill.source(rows_in_four_shards)
    for read in (source.__getitem__, lambda number: source.__getitems__([0, number])):
        with pytest.raises(IndexError, match=f"^example {number:,} of train, which has 100$"):
            read(number)
    with pytest.raises(TypeError):
        source["n"]  # type: ignore[call-overload]


def test_a_copy_and_its_names(rows: Path) -> None:
    source = shardmill.source(rows, "train[5:50]")
    assert_same(source[3:5], source[3:5])
    again = pickle.loads(pickle.dumps(source))
    assert_same(again[:], source[:])
    assert repr(again) == repr(source)
    assert source.fingerprint in repr(source)
    others = [shardmill.source(rows), shardmill.source(rows, "train[5:51]")]
    assert len({one.fingerprint for one in (source, again, *others)}) == 3
    assert " n 1.0.0 train[5:50] manifest " in repr(source)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes(rows: Path, method: str) -> None:
    source = shardmill.source(rows)
    expected = source[:]  # the files are open when a process is forked
    orders = [np.random.default_rng(seed).permutation(ROWS).tolist() for seed in range(4)]
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        answers = [pool.submit(source.__getitems__, order) for order in orders]
        for order in orders:  # meanwhile
            assert_same([source[number] for number in order], [expected[number] for number in order])
        for order, answer in zip(orders, answers, strict=True):
            assert_same(answer.result(), [expected[number] for number in order])


def test_threads_that_open_and_close_files(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_ranges, "most_open_files", lambda: 1)
    source = shardmill.source(rows, features=["n"])
    expected = [int(found["n"]) for found in source]
    before = open_files(rows)

    def read(seed: int) -> bool:
        order = np.random.default_rng(seed).permutation(ROWS).tolist() * 5
        return [int(source[number]["n"]) for number in order] == [expected[number] for number in order]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(16)))
    assert open_files(rows) <= before + 1


_FOUR_SOURCES = """
import os, resource, sys
import shardmill
from shardmill.errors import UserError
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 200))
four = [shardmill.source(sys.argv[1], features=["n"]) for _ in range(4)]
before = len(os.listdir("/proc/self/fd"))
for numbers in (range(90), range(0, 90, 4)):  # more shards than may be open, and fewer
    for source in four:
        assert [int(source[n]["n"]) for n in numbers] == [int(one["n"]) for one in source[list(numbers)]]
assert len(os.listdir("/proc/self/fd")) - before == 15
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
list(four[0])
assert len(os.listdir("/proc/self/fd")) - before == 50
files = []
while len(files) < 200:
    try:
        files.append(open(os.devnull))
    except OSError:
        break
try:
    [source[number] for source in four for number in range(90)]
except UserError as error:
    print(error)
"""


@pytest.mark.parametrize("flags", [(), ("--index",)])
def test_all_sources_share_the_limit_of_open_files(tmp_path: Path, flags: tuple[str, ...]) -> None:
    rows = make_rows(tmp_path, "--num_shards", 90, *flags)
    command = [sys.executable, "-c", _FOUR_SOURCES, str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "cannot be read: Too many open files; `ulimit -n` raises the limit of open files" in done.stdout


def test_lists_arrays_and_masks_as_in_numpy(rows: Path) -> None:
    source = shardmill.source(rows, features=["n"])
    every = np.array([int(one["n"]) for one in source])
    mask = every % 3 == 0
    for index in (
        [1, 2, 3],
        [-1, 0],
        [],
        np.array([5, 5], np.uint8),
        mask,
        mask.tolist(),
        range(3),
        np.arange(4)[::-1],
    ):
        assert [int(one["n"]) for one in source[index]] == every[index].tolist()  # type: ignore[index]
    with pytest.raises(IndexError, match=f"example {ROWS} of train, which has {ROWS}"):
        source[[0, ROWS]]
    for wrong in ([0.5], [True, False], "n", (1, 2), [[1], [2]], None, 1.0):
        with pytest.raises(
            TypeError, match="is no index; expected an integer, a slice, a list of integers, or 100 bool"
        ):
            source[wrong]  # type: ignore[index]


def test_unparsed_records(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    records = [bytes([number]) * number for number in range(20)]
    (tmp_path / "in/x.tfrecord").write_bytes(b"".join(map(frame_record, records)))
    directory = make("reshard", tmp_path / "in", tmp_path / "out", "--record_type", "raw")
    source = shardmill.source(directory)
    assert sorted(found["record"] for found in source) == records
    assert source[4] == source[4:5][0]


# Images


def test_images(flowers_in_four_shards: Path) -> None:
    expected = list(shardmill.examples(flowers_in_four_shards, decode_images=True))
    source = shardmill.source(flowers_in_four_shards, decode=True)
    assert_same([source[number] for number in range(60)], expected)
    assert source[0]["image"].flags.writeable
    assert_same(shardmill.source(flowers_in_four_shards)[:], list(shardmill.examples(flowers_in_four_shards)))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(7, 5), (40, 64)])
def test_scaled_images_are_near_those_of_tensorflow(flowers_in_four_shards: Path, size: tuple[int, int]) -> None:
    source = shardmill.source(flowers_in_four_shards, image_size=size, features=["image"])
    assert source.decode
    for found, whole in zip(source[:10], shardmill.examples(flowers_in_four_shards, decode_images=True), strict=False):
        expected = tf.image.resize(whole["image"], size, antialias=True).numpy()
        assert (found["image"].dtype, found["image"].shape) == (np.uint8, (*size, 3))
        assert found["image"].flags.writeable
        assert np.abs(found["image"] - expected).max() < 2


@pytest.mark.slow
def test_scaled_masks_are_those_of_tensorflow(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    directory = make("images", tmp_path / "images", tmp_path / "out", "--masks", tmp_path / "masks")
    source = shardmill.source(directory, image_size=(9, 21))
    whole = list(shardmill.examples(directory, decode_images=True))
    assert len(source) == len(whole)
    (name,) = (feature.name for feature in source.features if feature.kind == "mask")
    for found, other in zip(source, whole, strict=True):
        expected = tf.image.resize(other[name], (9, 21), "nearest").numpy()
        np.testing.assert_array_equal(found[name], expected)
        assert found[name].dtype == other[name].dtype


# Faults


@pytest.fixture
def damaged(rows: Path, tmp_path: Path) -> Path:
    return copy(rows, tmp_path)


def assert_unreadable(source: Source, number: int, message: str) -> None:
    for read in (lambda: source[number], lambda: source[number - 1 : number + 1], lambda: list(source)):
        with pytest.raises(CorruptDataError, match=message):
            read()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (-5, "record 24 fails its checksum$"),
        (-1, "record 24 fails its checksum$"),
        ("length", "record 24 has another length than its index says, or one that fails its checksum$"),
        ("checksum of the length", "record 24 has another length than its index says, or one that fails its checksum$"),
    ],
)
def test_a_damaged_record_is_named(damaged: Path, place: int | str, message: str) -> None:
    source = shardmill.source(damaged)
    path = shards(damaged)[1]
    start = source._locate(49).start
    flip(path, place if isinstance(place, int) else start + {"length": 0, "checksum of the length": 8}[place])
    assert_unreadable(source, 49, f"^n-train.tfrecord-00001-of-00004: {message}")
    assert len(source[:49]) == 49


def test_a_record_that_is_no_example(damaged: Path) -> None:
    source = shardmill.source(damaged)
    path, place = shards(damaged)[1], source._locate(30)
    data = path.read_bytes()
    record = frame_record(b"\xff" * (place.stop - place.start - 16))
    path.write_bytes(data[: place.start] + record + data[place.stop :])
    assert_unreadable(source, 30, "^n-train.tfrecord-00001-of-00004: record 5: ")


def test_two_records_in_place_of_one(damaged: Path) -> None:
    source = shardmill.source(damaged)
    path, place = shards(damaged)[0], source._locate(3)
    data, size = path.read_bytes(), place.stop - place.start - 32
    path.write_bytes(data[: place.start] + frame_record(b"") + frame_record(bytes(size)) + data[place.stop :])
    assert_unreadable(source, 3, "record 3 has another length than its index says")


def test_a_shard_that_is_cut_short_or_gone(damaged: Path) -> None:
    source = shardmill.source(damaged)
    path = shards(damaged)[2]
    size = path.stat().st_size
    source[60]
    os.truncate(path, size - 7)
    with pytest.raises(CorruptDataError, match=r"00002-of-00004 was cut short while it was read: it has \d+ of \d+"):
        source[74]
    again = pickle.loads(pickle.dumps(source))  # opens its own files
    with pytest.raises(CorruptDataError, match=f"00002-of-00004 has {size - 7:,} bytes; the manifest says {size:,}"):
        again[60]
    path.unlink()
    with pytest.raises(CorruptDataError, match=r"00002-of-00004 is missing; the manifest lists it$"):
        again[60]
    assert len(again[:50]) == 50


def test_a_shard_that_is_replaced_while_it_is_read(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = shardmill.source(damaged)
    expected = source[30:33]
    path = shards(damaged)[1]
    shutil.copy(path, path.with_name("other"))
    os.replace(path.with_name("other"), path)
    assert_same(source[30:33], expected)  # the file that was open
    monkeypatch.setattr(shard_ranges, "most_open_files", lambda: 1)
    source[0]
    for one in (source, pickle.loads(pickle.dumps(source))):
        with pytest.raises(CorruptDataError, match="00001-of-00004 was replaced or changed while it was read;"):
            one[30]


def test_a_shard_that_may_not_be_read(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = shardmill.source(damaged)

    def refuse(*_: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UserError, match=r"00000-of-00004 cannot be read: Permission denied$"):
        source[0]


def test_damage_is_found_as_an_index_is_made(rows_in_four_shards: Path, tmp_path: Path) -> None:
    directory = copy(rows_in_four_shards, tmp_path)
    flip(shards(directory)[1], -5)
    with pytest.raises(CorruptDataError, match=r"00001-of-00004: record 24 at byte \d+ fails its checksum$"):
        shardmill.source(directory)
    assert len(shardmill.source(directory, "train[:25]")[:]) == 25


def test_an_index_that_does_not_fit(indexed_rows: Path, tmp_path: Path) -> None:
    other = make_rows(tmp_path / "other", "--num_shards", 3, "--index")
    directory = copy(indexed_rows, tmp_path)
    bounds = directory / INDEX_FOLDER / "train.npy"

    flip(bounds, 128 + 8 * 30 + 1)
    source = shardmill.source(directory)
    source[0]
    with pytest.raises(CorruptDataError, match=r"index/train\.npy: the index of n-train\.tfrecord-00001-of-00004"):
        source[30]
    with pytest.raises(CorruptDataError, match=r"index/train\.npy: the index of n-train\.tfrecord-00001-of-00004"):
        source[20:40]

    bounds.write_bytes(bounds.read_bytes()[:-8])
    with pytest.raises(CorruptDataError, match=r"train\.npy is not the index that index\.json describes"):
        shardmill.source(directory)

    shutil.rmtree(directory / INDEX_FOLDER)
    shutil.copytree(other / INDEX_FOLDER, directory / INDEX_FOLDER)
    with pytest.raises(CorruptDataError, match=r"index/index\.json is not the file that was written"):
        shardmill.source(directory)

    shutil.rmtree(directory / INDEX_FOLDER)
    assert_same(shardmill.source(directory)[:], list(shardmill.examples(directory)))


def test_an_index_whose_sizes_wrap(run: Run, rows_in_four_shards: Path, tmp_path: Path) -> None:
    directory = copy(rows_in_four_shards, tmp_path)
    assert run("index", directory)[0] == 0
    path, listed = directory / INDEX_FOLDER / "train.npy", directory / INDEX_FOLDER / "index.json"
    bounds = np.load(path)
    bounds[3:5] = int(bounds[2]) + 2**40, int(bounds[2]) + 2**40 - 2**63 - 1
    np.save(path, bounds)
    content = json.loads(listed.read_text())
    shard = content["splits"]["train"][0]
    shard[4] = f"{google_crc32c.value(bounds[: shard[1] + 1].tobytes()):08x}"
    listed.write_text(json.dumps(content))

    source = shardmill.source(directory)

    for numbers in ([0, 2, 99], [0, 3, 99], [2, 3, 4], [3, 4, 5], [4, 99, 0]):
        with pytest.raises(CorruptDataError, match=r"the index of n-train\.tfrecord-00000-of-00004 is out of order"):
            source.__getitems__(numbers)
        with pytest.raises(CorruptDataError, match="is out of order"):
            source[2]


def test_an_index_of_another_build(rows_in_four_shards: Path, indexed_rows: Path, tmp_path: Path) -> None:
    directory = copy(rows_in_four_shards, tmp_path)
    other = make_rows(tmp_path / "other", "--num_shards", 4, "--index", rows=ROWS + 1)
    shutil.copytree(other / INDEX_FOLDER, directory / INDEX_FOLDER)
    with pytest.raises(
        CorruptDataError,
        match=r"index/index\.json does not list n-train\.tfrecord-0000\d-of-00004 as the manifest does: it is of",
    ):
        shardmill.source(directory)


def test_shards_that_are_interchanged(tmp_path: Path) -> None:
    lines = "".join(f'{{"x": {number}.5}}\n' for number in range(20))
    path = write_files(tmp_path, {"x.jsonl": lines.encode()}) / "x.jsonl"
    directory = make("jsonl", path, tmp_path / "out", "--num_shards", 2, "--index")
    first, second = shards(directory)
    assert len(shardmill.source(directory, verify=True)) == 20
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    assert len(shardmill.source(directory)[:]) == 20  # as docs/random-access.md says
    with pytest.raises(CorruptDataError, match=r"00000-of-00002 is not the file that was written: its crc32c is"):
        shardmill.source(directory, verify=True)
    shutil.rmtree(directory / INDEX_FOLDER)
    with pytest.raises(CorruptDataError, match=r"00000-of-00002 is not the file that was written: its crc32c is"):
        shardmill.source(directory)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "train[:101]"}, "reaches beyond the 100 examples"),
        ({"split": "dev"}, "has no split 'dev'; it has train$"),
        ({"features": ["m"]}, "n has no feature 'm'; it has "),
        ({"defaults": {"n": "x"}}, "the default 'x' of feature 'n' is no int64"),
        ({"decode": True}, "^decode is for features of kind audio or image or mask; those of n that are read are"),
        ({"image_size": (3, 4)}, "^image_size is for features of kind image or mask; those of n that"),
        ({"image_size": (0, 4)}, r"^image_size is \(0, 4\); expected \(height, width\), both at least 1$"),
        ({"image_size": (3,)}, r"^image_size is \(3,\); expected \(height, width\), both at least 1$"),
    ],
    ids=str,
)
def test_mistakes(rows_in_four_shards: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        shardmill.source(rows_in_four_shards, **options)


def test_a_fingerprint_tells_data_and_slices_apart(rows: Path, tmp_path: Path) -> None:
    make_rows(tmp_path, "--num_shards", 4, "--version", "2.0.0")
    make_rows(tmp_path / "changed", "--num_shards", 3)
    found = [
        shardmill.source(directory, split).fingerprint
        for directory in (rows, tmp_path / "out/n/2.0.0", tmp_path / "changed/out/n/1.0.0")
        for split in ("train", "train[:50]")
    ]
    assert len(set(found)) == 6
    assert shardmill.source(rows).fingerprint == found[0]


def test_gzip_shards_are_refused(rows_compressed: Path) -> None:
    with pytest.raises(
        UserError, match=r"^n 1\.0\.0 has gzip shards, and random access needs uncompressed ones; write some with `sh"
    ):
        shardmill.source(rows_compressed)


# Stores


class ObjectFiles:
    """Files of a store without ranges of their own."""

    def open(self, path: str) -> BinaryIO:
        return open(path, "rb")

    def exists(self, path: str) -> bool:
        return os.path.exists(path)


def as_store(source: Source, files: Any) -> Source:
    """The same source, whose shards are read through `files`."""
    source._dataset = dataclasses.replace(source._dataset, files=files)
    source._ranges = StoreRanges(source._dataset)
    return source


def test_neighbours_are_read_in_one_request(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = CountedFiles()
    source = as_store(shardmill.source(rows), files)
    expected = list(shardmill.examples(rows))

    assert_same(source[20:30], expected[20:30])
    assert len(files.ranges) == 2  # of two shards
    files.ranges.clear()
    assert_same(source.__getitems__([3, 99, 0, 3, 24]), [expected[number] for number in (3, 99, 0, 3, 24)])
    assert sorted(name[-14:] for name, *_ in files.ranges) == ["00000-of-00004", "00003-of-00004"]

    monkeypatch.setattr(shard_ranges, "GAP_BYTES", 0)
    files.ranges.clear()
    assert_same(source.__getitems__([3, 0, 4, 24]), [expected[number] for number in (3, 0, 4, 24)])
    assert len(files.ranges) == 3
    monkeypatch.setattr(shard_ranges, "REQUEST_BYTES", 1)
    files.ranges.clear()
    assert_same(source[:10], expected[:10])
    assert len(files.ranges) == 10


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 500), st.integers(0, 100)), max_size=20))
def test_merged_ranges_hold_what_is_wanted(wanted: list[tuple[str, int, int]]) -> None:
    entries = {name: ShardEntry(name, 1, 600, "") for name in "ab"}
    ranges = [Range(entries[name], start, start + size) for name, start, size in wanted]

    class Numbers(StoreRanges):
        def _read(self, shard: ShardEntry, start: int, size: int) -> bytes:
            return bytes((ord(shard.file) + place) % 251 for place in range(start, start + size))

    reader = Numbers(None)  # type: ignore[arg-type]
    assert reader.read_all(ranges) == [reader.read(*one[:3]) for one in ranges]


def batches_of(count: int) -> list[list[int]]:
    chance = np.random.default_rng(count)
    return [chance.integers(0, ROWS, int(size)).tolist() for size in chance.integers(0, 20, count)]


def test_batches_are_read_ahead(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = list(shardmill.examples(rows))
    stored = as_store(shardmill.source(rows), files := CountedFiles())
    sources = {"local": shardmill.source(rows), "store": stored, "cache": shardmill.source(rows, cache_dir=tmp_path)}
    for group_bytes in (1, 2_000, 1 << 20):
        monkeypatch.setattr(shard_ranges, "GROUP_BYTES", group_bytes)
        monkeypatch.setattr(shard_ranges, "AHEAD_BYTES", 2 * group_bytes)
        for source in sources.values():
            cases: list[list[Any]] = [
                [],
                [[]],
                batches_of(15),
                [range(ROWS)],
                [range(7), range(7, 40), [3], range(40, 41)],
            ]
            for batches in cases:
                for found, numbers in zip(source.read_batches(batches), batches, strict=True):
                    assert_same(found, [expected[number] for number in numbers])
            assert_same(list(source), expected)
    monkeypatch.setattr(shard_ranges, "GROUP_BYTES", 1_000)
    monkeypatch.setattr(shard_ranges, "AHEAD_BYTES", 2_000)
    files.ranges.clear()
    single = stored.read_batches([n] for n in range(ROWS))
    next(single)
    assert (
        sum(size for _, _, size in files.ranges) < 2_000 + 2 * 1_500 < sum(one.stat().st_size for one in shards(rows))
    )
    with pytest.raises(IndexError, match="example 100 of train, which has 100"):
        list(stored.read_batches([[1], [100]]))


def test_the_next_batches_are_fetched_meanwhile() -> None:
    second = threading.Event()

    class Recorded(StoreRanges):
        def read_all(self, wanted: Sequence[Range]) -> list[bytes]:
            if wanted[0].start:
                second.set()
            return [b"x"] * len(wanted)

    shard = ShardEntry("a", 1, 600, "")
    batches = fetch_ahead(Recorded(None), ([Range(shard, n, n + 1)] for n in range(5)))  # type: ignore[arg-type]
    assert next(batches) == ([Range(shard, 0, 1)], [b"x"])
    assert second.wait(60)
    assert [len(found) for _, found in batches] == [1] * 4


def test_successive_calls_read_a_stream(rows: Path) -> None:
    expected = list(shardmill.examples(rows))
    files = CountedFiles()
    source = as_store(shardmill.source(rows), files)

    for start in range(0, ROWS, 10):
        assert_same(source[start : start + 10], expected[start : start + 10])
    in_order = len(files.ranges)
    assert in_order < 12  # of ten calls, three of which are in two shards
    files.ranges.clear()
    orders: list[Any] = [
        range(30, 40),
        range(40, 50),
        [7, 8],
        [3, 99, -1],
        range(50, 61),
        range(61, 64),
        range(10, 0, -1),
    ]
    orders += [np.arange(64, 80), range(80, 80), np.arange(80, 100), [0], [1], [2, 3, 4]]
    for order in orders:
        assert_same(source.__getitems__(order), [expected[number] for number in order])
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: [source[start : start + 5] for start in range(0, ROWS, 5)], range(8)):
            assert_same([example for part in found for example in part], expected)


def test_a_stream_is_not_read_in_other_processes(rows: Path) -> None:
    source = as_store(shardmill.source(rows), ObjectFiles())
    expected = list(shardmill.examples(rows))
    read = source[:10] + source[10:20] + source[20:30]
    for _ in range(3):
        with ProcessPoolExecutor(1, multiprocessing.get_context("fork"), initializer=hold, initargs=(source,)) as pool:
            assert_same(pool.submit(read_next).result(), expected[30:50])
    assert_same(read + source[30:], expected)
    assert_same(pickle.loads(pickle.dumps(source))[30:40], expected[30:40])


_held: list[Source] = []


def hold(source: Source) -> None:
    _held[:] = [source]


def read_next() -> list[Any]:
    return _held[0][30:40] + _held[0][40:50]


def test_damage_behind_what_is_read(damaged: Path) -> None:
    source = as_store(shardmill.source(damaged), ObjectFiles())
    path = shards(damaged)[1]
    flip(path, -5)
    for start in range(0, 40, 10):
        assert len(source[start : start + 10]) == 10
    for _ in range(2):
        with pytest.raises(CorruptDataError, match="00001-of-00004: record 24 fails its checksum"):
            source[40:50]
        assert len(source[50:60]) == 10
    path.unlink()
    for start in range(0, 20, 10):
        assert len(source[start : start + 10]) == 10
    with pytest.raises(CorruptDataError, match=r"00001-of-00004 is missing; the manifest lists it$"):
        source[20:30]
    with pytest.raises(CorruptDataError, match=r"00001-of-00004 is missing; the manifest lists it$"):
        list(source)


def test_any_files(rows: Path, tmp_path: Path) -> None:
    directory = copy(rows, tmp_path)
    source = shardmill.source(directory, files=ObjectFiles())
    expected = list(shardmill.examples(rows))
    assert_same(source[:], expected)
    assert_same([pickle.loads(pickle.dumps(source))[-1]], expected[-1:])
    path = shards(directory)[2]
    os.truncate(path, path.stat().st_size - 7)
    with pytest.raises(CorruptDataError, match="00002-of-00004 was cut short while it was read"):
        source[74]
    path.unlink()
    with pytest.raises(CorruptDataError, match=r"00002-of-00004 is missing; the manifest lists it$"):
        source[74]


def test_length_of_a_record_is_checked_before_its_checksum(damaged: Path) -> None:
    source = shardmill.source(damaged)
    path, place = shards(damaged)[0], source._locate(0)
    data = bytearray(path.read_bytes())
    data[:12] = record_header(place.stop - 17)
    path.write_bytes(data)
    with pytest.raises(CorruptDataError, match="record 0 has another length than its index says"):
        source[0]
