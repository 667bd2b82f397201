"""Indexes of shards: text as DALI writes it, arrays that are mapped, and what is wrong with damaged ones."""

import io
import pickle
import random
from pathlib import Path

import numpy as np
import pytest

from shardmill.data import shard_index
from shardmill.data.tfrecord import frame_record
from shardmill.errors import CorruptDataError
from shardmill.filesystem import LocalFiles
from tests.support.framed_records import tfrecord2idx
from tests.support.reading import read_index

SIZES = [0, 1, 5, 100, 84, 9_984, 12, 0, 3]
RECORDS = [bytes([size % 251]) * size for size in SIZES]
FRAMED = b"".join(map(frame_record, RECORDS))


def index_of(sizes: list[int]) -> shard_index.ShardIndex:
    return shard_index.ShardIndex(np.cumsum([0, *(size + 16 for size in sizes)]))


@pytest.mark.parametrize("sizes", [[], [0], SIZES, [7] * 20_000, [size % 3_000 for size in range(20_000)]])
def test_the_text_is_that_of_dalis_tfrecord2idx(sizes: list[int]) -> None:
    shard = b"".join(frame_record(bytes(size)) for size in sizes)
    index = shard_index.build_index(shard, "shard")
    assert index.to_text() == tfrecord2idx(shard)
    parsed = shard_index.parse_index(index.to_text(), "shard.idx", len(shard), len(sizes))
    assert parsed.bounds.tolist() == index.bounds.tolist() == index_of(sizes).bounds.tolist()
    assert len(index) == len(sizes)
    assert index.shard_size == len(shard)
    assert index.lengths.tolist() == [size + 16 for size in sizes]
    assert index.offsets.tolist() == index.bounds.tolist()[:-1]


def test_offsets_of_each_number_of_digits() -> None:
    index = shard_index.ShardIndex(np.array([0, 100, *(10**digits for digits in range(3, 19))], np.int64))
    expected = "".join(f"{a} {b - a}\n" for a, b in zip(index.bounds.tolist(), index.bounds.tolist()[1:], strict=False))
    assert index.to_text() == expected.encode()
    assert shard_index.parse_index(index.to_text(), "shard.idx", 10**18).bounds.tolist() == index.bounds.tolist()


@pytest.mark.usefixtures("is_compiled")
def test_an_index_is_built_of_the_chunks_that_are_written() -> None:
    builder, start = shard_index.IndexBuilder(), 0
    for cut in (100, 117, len(RECORDS)):
        chunk = b"".join(map(frame_record, RECORDS[start : min(cut, start + 4)]))
        builder.add(memoryview(chunk))
        start = min(start + 4, len(RECORDS))
    builder.add(b"".join(map(frame_record, RECORDS[start:])))
    builder.add(b"")
    assert builder.build().bounds.tolist() == shard_index.build_index(FRAMED, "shard").bounds.tolist()
    assert shard_index.IndexBuilder().build().bounds.tolist() == [0]
    with pytest.raises(ValueError, match="span"):
        builder.add(FRAMED[:-1])


@pytest.mark.parametrize(
    ("text", "size", "message"),
    [
        (b"0 20\n20 20", 40, "shard.idx is cut short or not an index"),
        (b"0 20\n20 2\n", 40, "is out of order: record 1 begins at byte 20 and ends at byte 22"),
        (b"0 20\n20 20\n", 60, "its last record ends at byte 40, the shard has 60 bytes; the index is cut short"),
        (b"0 20\n20 20\n40 20\n", 40, "ends at byte 60, the shard has 40 bytes; the index is of another build"),
        (b"20 20\n0 20\n", 40, "is out of order: record 0 ends at byte 40, and the next begins at byte 0"),
        (b"0 20\n30 20\n", 50, "is out of order: record 0 ends at byte 20, and the next begins at byte 30"),
        (b"20 20\n", 40, "its first record does not begin at byte 0"),
        (b"0 20\n20\n", 40, "expected an offset and a length on each line"),
        (b"0 20\n20 20\n\n", 40, "expected an offset and a length on each line"),
        (b"0 20\n20 0x14\n", 40, "not an index"),
        (b"0 20\n20 -20\n", 0, "not an index"),
        (b"", 40, "the shard has 40 bytes; the index is cut short"),
        (b"0 99999999999999999999999\n", 40, "shard.idx"),
        (b"\x93NUMPY", 40, "not an index"),
    ],
)
def test_a_text_that_is_no_index_of_its_shard(text: bytes, size: int, message: str) -> None:
    with pytest.raises(CorruptDataError) as error:
        shard_index.parse_index(text, "shard.idx", size)
    assert message in str(error.value)
    assert "`shardmill index FOLDER` writes a new index" in str(error.value)


def test_an_index_of_another_number_of_records() -> None:
    text = b"0 20\n20 20\n"
    assert len(shard_index.parse_index(text, "a.idx", 40, 2)) == 2
    with pytest.raises(CorruptDataError, match=r"a\.idx does not fit its shard: it lists 2 records, the shard has 3"):
        shard_index.parse_index(text, "a.idx", 40, 3)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], "record 8 at byte 10314 is cut short"),
        (lambda data: b"\x01" + data[1:], "record 0 at byte 0 has a length that fails its checksum"),
        (lambda data: data[:33] + b"\xff" + data[34:], "shard: record"),
    ],
)
def test_a_damaged_shard_is_not_indexed(damage: object, message: str) -> None:
    assert callable(damage)
    with pytest.raises(CorruptDataError, match=message):
        shard_index.build_index(io.BytesIO(damage(FRAMED)), "shard")


def write_split(
    folder: Path, shards: list[list[int]], split: str = "train"
) -> dict[str, list[shard_index.IndexedShard]]:
    """Write the array of a split and index.json; each shard is the sizes of its records."""
    indexes = [index_of(sizes) for sizes in shards]
    listed = [
        shard_index.IndexedShard(f"x-{split}-{number}", len(index), index.shard_size, "", f"{index.crc32c:08x}")
        for number, index in enumerate(indexes)
    ]
    (folder / "index").mkdir(exist_ok=True)
    (folder / "index" / f"{split}.npy").write_bytes(
        b"".join(shard_index.bounds_bytes(indexes, shard_index.bounds_count(listed)))
    )
    (folder / "index" / "index.json").write_bytes(shard_index.index_json({split: listed}))
    return {split: listed}


def open_split(folder: Path) -> shard_index.SplitIndex:
    found = read_index(folder)
    assert found is not None
    return found["train"]


def test_every_shard_of_a_split_is_found(tmp_path: Path) -> None:
    chosen = random.Random(5)
    shards = [[chosen.randrange(500) for _ in range(count)] for count in (3, 0, 10, 1, 0, 0, 7, 0)]
    listed = write_split(tmp_path, shards)["train"]
    split = open_split(tmp_path)
    assert (len(split), split.firsts.tolist()) == (21, [0, 3, 3, 13, 14, 14, 14, 21, 21])
    copied = pickle.loads(pickle.dumps(split))
    for number, sizes in enumerate(shards):
        alone = shard_index.read_shard_index(str(tmp_path / "index/train.npy"), listed, number, LocalFiles())
        for found in (split.shard(number), copied.shard(number), alone):
            assert found.bounds.tolist() == index_of(sizes).bounds.tolist()
    assert len(pickle.dumps(split)) < 2_000  # without the positions


def test_numpy_reads_the_array(tmp_path: Path) -> None:
    write_split(tmp_path, [[1, 2], [3]])
    mapped = np.load(tmp_path / "index/train.npy", mmap_mode="r")
    assert mapped.tolist() == [0, 17, 35, 0, 19]
    assert mapped.dtype == np.int64


def test_the_header_has_room_for_every_length() -> None:
    assert len(shard_index.bounds_header(2**62)) == 128


@pytest.mark.parametrize("damage", ["cut", "missing", "longer", "header", "empty"])
def test_an_array_that_is_not_the_one_that_is_listed(tmp_path: Path, damage: str) -> None:
    listed = write_split(tmp_path, [[1, 2], [3]])["train"]
    path = tmp_path / "index/train.npy"
    data = path.read_bytes()
    changed = {"cut": data[:-8], "longer": data + bytes(8), "header": data[:20] + b"X" + data[21:], "empty": b""}
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(changed[damage])
    with pytest.raises(CorruptDataError, match=r"train\.npy is (missing|not the index that index\.json describes)"):
        open_split(tmp_path)
    if damage not in ("longer", "header"):  # which nothing shows where one shard is read
        with pytest.raises(CorruptDataError, match=r"train\.npy(:| is missing| is cut short)"):
            shard_index.read_shard_index(str(path), listed, 1, LocalFiles())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ([0, 18, 35], "fails its checksum"),  # of another build with equal sizes
        ([0, 35, 17], "is out of order"),
        ([0, 17, 36], "does not fit its shard"),
        ([1, 17, 35], "does not begin at byte 0"),
        ([0, 1 << 40, 35], "is out of order"),
        ([0, -(1 << 63), 35], "is out of order"),
        ([0, (1 << 63) - 1, 35], "is out of order"),
        ([0, 17, (1 << 63) - 1], "does not fit its shard"),
    ],
)
def test_numbers_of_a_shard_that_are_damaged(tmp_path: Path, damage: list[int], message: str) -> None:
    listed = write_split(tmp_path, [[1, 2], [3]])["train"]
    path = tmp_path / "index/train.npy"
    path.write_bytes(path.read_bytes()[:128] + np.array([*damage, 0, 19], np.int64).tobytes())
    split = open_split(tmp_path)
    assert split.shard(1).bounds.tolist() == [0, 19]  # of the sound shard
    assert shard_index.read_shard_index(str(path), listed, 1, LocalFiles()).bounds.tolist() == [0, 19]
    for read in (split.shard, lambda number: shard_index.read_shard_index(str(path), listed, number, LocalFiles())):
        with pytest.raises(CorruptDataError, match=rf"index of x-train-0.*{message}"):
            read(0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not the list of an index"),
        ('{"format": 2}', "was written by a newer shardmill"),
        ('{"format": 1, "splits": {"train": [["a", 1]]}}', "is not the list of an index"),
        ('{"format": 1, "splits": []}', "is not the list of an index"),
        ('{"format": 1, "splits": {"train": [["a", -1, 16, "", ""]]}}', "is not the list of an index"),
        ('{"format": 1, "splits": {"train": [["a", 1e999, 16, "", ""]]}}', "is not the list of an index"),
        (f'{{"format": 1, "splits": {{"train": [["a", {2**70}, 16, "", ""]]}}}}', "is not the list of an index"),
        ("[" * 100_000, "is not the list of an index"),
    ],
)
def test_a_list_that_is_none(tmp_path: Path, text: str, message: str) -> None:
    write_split(tmp_path, [[1, 2], [3]])
    (tmp_path / "index/index.json").write_text(text)
    with pytest.raises(CorruptDataError, match=message):
        open_split(tmp_path)
