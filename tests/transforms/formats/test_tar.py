"""Tar files as rows: samples, blocks, and what is wrong with them."""

import gzip
import tarfile
import tracemalloc
from functools import reduce
from pathlib import Path

import pytest

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import ColumnType, Inferred, ValuesOf
from shardmill.transforms.formats import tar_samples
from shardmill.transforms.formats.format import BlockRef, SkippedItems
from shardmill.transforms.formats.tar import TarFormat
from tests.support.archives import Member, file_ref, link, read, tar

BYTES, INTEGER = ColumnType("bytes", None, 1), ColumnType("int64", None, 1)
TYPES = {"filename": BYTES, "image": BYTES, "label": INTEGER, "text": BYTES, "width": INTEGER}


def sample(number: int, image_bytes: int = 700) -> list[Member]:
    key = f"a.b/{number:04}"
    return [
        (f"{key}.cls", b"%d\n" % (number % 3)),
        (f"{key}.jpg", bytes([number % 256]) * image_bytes),
        (f"{key}.json", b'{"width": %d}' % number),
        (f"{key}.txt", f"text {number} é".encode()),
    ]


SAMPLES = [member for number in range(50) for member in sample(number)]


def expected(number: int) -> dict[str, object]:
    return {
        **{"number": number + 1, "filename": b"a.b/%04d" % number, "image": bytes([number % 256]) * 700},
        **{"label": number % 3, "text": f"text {number} é".encode(), "width": number},
    }


@pytest.mark.parametrize("block_size", [1, 5000, 60_000, 1 << 24])
@pytest.mark.parametrize(("kind", "mtime"), [(0, 0), (1, 0), (2, 1.5)])
def test_any_block_size_gives_every_sample(tmp_path: Path, block_size: int, kind: int, mtime: float) -> None:
    file = file_ref(tmp_path, tar(SAMPLES, kind, mtime))
    rows, rejects = read(file, TYPES, block_size)
    assert rows == [expected(number) for number in range(50)]
    assert rejects == []
    blocks = [block for block in TarFormat(block_size).index(file) if isinstance(block, BlockRef)]
    assert [block.offset for block in blocks] == [0, *(block.end for block in blocks[:-1])]
    assert blocks[-1].end == file.size_bytes
    assert sum(block.records or 0 for block in blocks) == 50
    assert all(block_size <= block.length < block_size + 10_000 for block in blocks[:-1])


@pytest.mark.parametrize("suffix", [".gz", ".tgz"])
def test_a_compressed_file_is_one_block(tmp_path: Path, suffix: str) -> None:
    file = file_ref(tmp_path, gzip.compress(tar(SAMPLES)), f"x.tar{suffix}" if suffix == ".gz" else f"x{suffix}")
    assert [block.records for block in TarFormat(1000).index(file) if isinstance(block, BlockRef)] == [50]
    assert read(file, TYPES, 1000) == ([expected(number) for number in range(50)], [])


def test_what_columns_are(tmp_path: Path) -> None:
    members = [
        *(("0.left.JPG", b"l"), ("0.right.png", b"r"), ("0.seg.cls", b"7"), ("0.caption.txt", b"c")),
        *(("0.json", b'{"left": 3, "x": [1, 2], "seg": 7}'), ("0.npy", b""), ("0.x.json", b"{}")),
        *(("README", b""), (".hidden.jpg", b""), ("d/.x", b"")),
    ]
    file = file_ref(tmp_path, tar(members))
    (block, *_) = [item for item in TarFormat(1000).index(file) if isinstance(item, BlockRef)]
    (found,) = TarFormat(1000).infer(block, None, ())
    assert {name: kind.dtype for name, kind in found.types.items()} == {
        **{"filename": "bytes", "caption": "bytes", "seg": "int64", "json.left": "int64", "x": "int64"},
        **{"left": "bytes", "right": "bytes"},
    }
    assert {name: (told.kind, told.num_classes) for name, told in found.declared.items()} == {
        **{"left": ("image", 0), "right": ("image", 0), "seg": ("class_label", 8), "json.left": ("text", 0)}
    }
    passed = {
        item.kind: (item.count, item.first_item) for item in TarFormat(9).index(file) if isinstance(item, SkippedItems)
    }
    assert passed == {
        ".npy member": (1, "file.tar: 0.npy"),
        ".json member": (1, "file.tar: 0.x.json"),
        "member whose name has no key and suffix": (3, "file.tar: .hidden.jpg"),
    }


@pytest.mark.parametrize("block_size", [1, 5000, 1 << 24])
@pytest.mark.parametrize("cut", [0, 1000, 20_000])
@pytest.mark.parametrize("columns", [None, ["image", "width"]])
def test_types_are_found_with_the_index(tmp_path: Path, block_size: int, cut: int, columns: list[str] | None) -> None:
    content = tar([*SAMPLES, ("x.cls", b"no"), ("y.json", b'{"width": 0.5}')])
    file = file_ref(tmp_path, content[: len(content) - cut])
    format_, values_of = TarFormat(block_size, drop=("text",)), [ValuesOf("label")]
    *items, found = format_.index_and_infer(file, columns, values_of)

    assert items == list(format_.index(file))
    blocks = [item for item in items if isinstance(item, BlockRef)]
    apart = [part for block in blocks for part in format_.infer(block, columns, values_of)]
    assert found == reduce(Inferred.merge, apart, Inferred())
    assert isinstance(found, Inferred)
    assert found.types["width"].dtype == ("int64" if cut else "float32")


LINK, SPARSE = link("0.jpg"), tarfile.TarInfo("0.jpg")
SPARSE.pax_headers = {"GNU.sparse.major": "1"}


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([("0.jpg", b"1"), ("0.jpg", b"2")], "0: a second member becomes 'image': '0.jpg'"),
        ([("0.jpg", b"1"), ("0.png", b"2")], "0: a second member becomes 'image': '0.png'"),
        ([("0.json", b"{}"), ("0.JSON", b"{}")], "0: a second member is its .json: '0.JSON'"),
        ([LINK, ("0.cls", b"1")], "0: '0.jpg' is a link; expected a file with its bytes"),
        ([SPARSE], "0: '0.jpg' is a sparse file; expected a file with its bytes"),
        ([("0.json", b"[1]")], "0: its .json is no object, but [1]"),
        ([("0.json", b"{,}")], "0: its .json is no JSON: "),
        ([("0.cls", b"cat")], "0: its .cls is 'cat'; expected the id of a class, an integer from 0"),
        ([("0.cls", b"-1")], "0: its .cls is '-1'; expected the id of a class, an integer from 0"),
        ([("0.cls", b"")], "0: its .cls is ''; expected the id of a class, an integer from 0"),
        ([("0.txt", b"\xff")], "0: its text is not UTF-8, at byte 0"),
    ],
)
def test_a_bad_sample_is_a_reject(tmp_path: Path, members: list[Member | tarfile.TarInfo], reason: str) -> None:
    file = file_ref(tmp_path, tar([*members, *sample(1)], tarfile.PAX_FORMAT))
    rows, rejects = read(file, TYPES)
    assert [row["number"] for row in rows] == [2]
    (reject,) = rejects
    assert reject.reason.startswith(reason)
    assert (reject.source, reject.line, reject.counted_records) == ("file.tar", 1, 1)


@pytest.mark.parametrize("packed", [False, True])
def test_members_that_are_too_large_are_never_held(
    tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tar_samples, "MAX_MEMBER_BYTES", 1 << 20)
    data = tar([*sample(0), ("1.jpg", bytes(30 << 20)), ("1.cls", b"2"), *sample(2)])
    file = file_ref(tmp_path, gzip.compress(data, 1) if packed else data, "x.tar.gz" if packed else "x.tar")
    del data
    tracemalloc.start()
    rows, rejects = read(file, TYPES, 1 << 16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [row["number"] for row in rows] == [1, 3]
    assert [reject.reason for reject in rejects] == ["1: '1.jpg' has 31,457,280 bytes; an example holds 2 GB at most"]
    assert peak < 8 << 20


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and so on", b"x" * 2000])
def test_what_is_no_tar_is_one_reject(tmp_path: Path, content: bytes) -> None:
    (reject,) = TarFormat(1000).index(file_ref(tmp_path, content))
    assert isinstance(reject, Reject)
    assert reject.reason.startswith("not a tar file: ")
    assert (reject.records, reject.count) == (None, "estimated")


def test_an_empty_tar_is_passed_over(tmp_path: Path) -> None:
    (passed,) = TarFormat(1000).index(file_ref(tmp_path, tar([])))
    assert passed == SkippedItems("tar file without a sample", "file.tar")


def test_joined_tars_are_read_to_the_end(tmp_path: Path) -> None:
    file = file_ref(tmp_path, tar(sample(0)) + tar(sample(1)))
    assert read(file, TYPES) == ([expected(0), expected(1)], [])


WHOLE = tar(sample(0) + sample(1))
LAST = WHOLE.index(b"text 1")  # in the data of the last member
HEADER = LAST - 512


@pytest.mark.parametrize(
    ("cut", "rows", "line", "reason"),
    [
        (LAST + 3, 1, 2, "cut short: 'a.b/0001.txt' has 3 of its 9 bytes; what follows is lost"),
        (HEADER + 9, 1, 2, "cut short in the header of a member; what follows is lost"),
        (LAST + 512, 2, 3, "cut short: the zeros that end a tar file are missing; what follows is lost"),
        (LAST + 100, 2, 3, "cut short: the zeros that end a tar file are missing; what follows is lost"),
    ],
)
@pytest.mark.parametrize("block_size", [1, 1 << 20])
def test_a_tar_that_is_cut_loses_its_end(
    tmp_path: Path, cut: int, rows: int, line: int, reason: str, block_size: int
) -> None:
    found, (reject,) = read(file_ref(tmp_path, WHOLE[:cut]), TYPES, block_size)
    assert found[:rows] == [expected(number) for number in range(rows)]
    assert (reject.reason, reject.line, reject.records, reject.count) == (reason, line, 1, "at least")


def test_damage_in_the_midst_loses_what_follows(tmp_path: Path) -> None:
    data = bytearray(tar(SAMPLES))
    start = data.index(b"a.b/0040.cls")
    data[start : start + 512] = b"x" * 512
    rows, (reject,) = read(file_ref(tmp_path, bytes(data)), TYPES, 1000)
    assert [row["number"] for row in rows] == list(range(1, 40))  # whether the 40th would have gone on, nobody knows
    assert f"no header of a member at byte {start:,}" in reject.reason
    assert reject.count == "estimated"
    assert 5 <= reject.counted_records <= 15


def test_a_cut_gzip_says_so(tmp_path: Path) -> None:
    packed = gzip.compress(tar(SAMPLES))
    rows, (reject,) = read(file_ref(tmp_path, packed[: len(packed) // 2], "x.tar.gz"), TYPES)
    assert rows == [expected(number) for number in range(len(rows))]
    assert "the gzip data ends too early" in reject.reason
