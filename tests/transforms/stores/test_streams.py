"""Tests of transforms/stores/streams.py."""

import bz2
import gzip
import random
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from shardmill import _native
from shardmill.transforms.stores.streams import (
    Decompressed,
    TruncatedError,
    file_identity,
    is_compressed,
    open_decompressed,
    read_ranges,
)

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor(level=1).compress,
}
SUFFIXES = sorted(COMPRESS)
TEXT = b"".join(b"%d,%d\n" % (row, random.Random(row).getrandbits(40)) for row in range(40_000))


def write(folder: Path, name: str, data: bytes) -> tuple[str, str]:
    (folder / name).write_bytes(data)
    return str(folder / name), name


@pytest.mark.parametrize(
    ("name", "compressed"),
    [("a.csv", False), ("a.csv.gz", True), ("A.GZ", True), ("a.bz2", True), ("a.zst", True), ("gz", False)],
)
def test_names(name: str, compressed: bool) -> None:
    assert is_compressed(name) is compressed


def test_what_is_not_compressed_is_read_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_decompressed(str(tmp_path / "a.gz"), "a.gz")
    with open_decompressed(*write(tmp_path, "a.csv", gzip.compress(TEXT))) as stream:
        assert gzip.decompress(stream.read()) == TEXT


@pytest.mark.parametrize("size", [1, 1000, 70_000, 1 << 20, -1])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_read(tmp_path: Path, suffix: str, size: int) -> None:
    text = TEXT[:3000] if size == 1 else TEXT

    with open_decompressed(*write(tmp_path, f"a{suffix.upper()}", COMPRESS[suffix](text))) as stream:
        parts = list(iter(lambda: stream.read(size), b""))

    assert b"".join(parts) == text
    assert all(len(part) == size for part in parts[:-1])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_lines_of_members_and_padding(tmp_path: Path, suffix: str) -> None:
    members = [TEXT[:100_000], b"", TEXT[100_000:100_001], TEXT[100_001:]]
    packed = b"".join(map(COMPRESS[suffix], members)) + bytes(1000)

    with open_decompressed(*write(tmp_path, f"a{suffix}", packed)) as stream:
        assert list(stream) == TEXT.splitlines(keepends=True)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_compresses_a_thousandfold(tmp_path: Path, suffix: str) -> None:
    with open_decompressed(*write(tmp_path, f"a{suffix}", COMPRESS[suffix](bytes(50 << 20)))) as stream:
        assert stream.read(10) == bytes(10)
        assert sum(len(part) for part in iter(lambda: stream.read(1 << 20), b"")) == (50 << 20) - 10


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nothing_in_it(tmp_path: Path, suffix: str) -> None:
    with open_decompressed(*write(tmp_path, f"a{suffix}", COMPRESS[suffix](b""))) as stream:
        assert stream.read() == b""
    assert "the file is empty" in survivors(tmp_path, f"a{suffix}", b"")[1]


def survivors(folder: Path, name: str, data: bytes, size: int = 1 << 16) -> tuple[bytes, str]:
    """What can be read of a file, and then the error."""
    stream = open_decompressed(*write(folder, name, data))
    parts: list[bytes] = []

    def read_on() -> None:
        while part := stream.read(size):
            parts.append(part)

    with stream:
        with pytest.raises(TruncatedError) as first:
            read_on()
        with pytest.raises(TruncatedError) as second:
            read_on()
    assert str(first.value) == str(second.value)
    return b"".join(parts), str(first.value)


@pytest.mark.parametrize("size", [1000, 1 << 20, -1])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_cut_short(tmp_path: Path, suffix: str, size: int) -> None:
    whole = COMPRESS[suffix](TEXT[:300_000]) + COMPRESS[suffix](TEXT[300_000:])
    part = whole[: len(whole) * 3 // 4]

    text, error = survivors(tmp_path, f"a{suffix}", part, size)

    assert TEXT.startswith(text)
    assert len(text) >= 300_000
    assert (
        f"ends too early, at byte {len(part):,} of the compressed file, after {len(text):,} bytes of contents" in error
    )


def test_all_of_a_gzip_file_that_was_cut_short_survives(tmp_path: Path) -> None:
    part = gzip.compress(TEXT)[:-9]

    assert survivors(tmp_path, "a.gz", part, 4096)[0] == zlib.decompressobj(31).decompress(part)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged(tmp_path: Path, suffix: str) -> None:
    first, second = COMPRESS[suffix](TEXT[:300_000]), COMPRESS[suffix](TEXT[300_000:])

    text, error = survivors(tmp_path, f"a{suffix}", first + b"garbage!" + second)

    assert text == TEXT[:300_000]
    assert error.startswith("what follows the ")
    assert "after 300,000 bytes of contents" in error


def test_a_checksum_that_is_wrong(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(b"a,b\n" * 10))
    data[-6] ^= 1

    assert "damaged" in survivors(tmp_path, "a.gz", bytes(data))[1]


NOW = 1e9


def test_size_and_stamp_make_an_identity() -> None:
    found = {
        (size, stamp): file_identity(size, stamp, NOW, NOW) for size in (5, 51) for stamp in ("crc32c:a", "b", "1b")
    }

    assert len(set(found.values())) == 6
    assert None not in found.values()
    assert file_identity(5, "b", 0, NOW) == found[5, "b"], "a checksum or an ETag holds, whenever the file was written"


@pytest.mark.parametrize(
    ("modified", "known"),
    [(NOW - 3, True), (NOW - 1, False), (NOW, False), (NOW + 9, False), (0.0, False)],
    ids=["long ago", "a moment ago", "now", "in the future", "nobody knows when"],
)
def test_a_time_counts_once_the_file_cannot_change_again_within_it(modified: float, known: bool) -> None:
    assert (file_identity(5, f"time:{modified}", modified, NOW) is not None) == known


def read(parts: list[tuple[str, int, int]]) -> list[bytes]:
    places = np.cumsum([0, *(size for _, _, size in parts)])
    target = np.zeros(places[-1], np.uint8)
    offsets = np.array([offset for _, offset, _ in parts], np.int64)
    read_ranges([path for path, _, _ in parts], offsets, target, places)
    return [target[start:stop].tobytes() for start, stop in pairwise(places)]


@pytest.mark.usefixtures("is_compiled")
def test_parts_are_those_of_the_files(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    files = [tmp_path / f"{n} é" for n in range(5)]
    for file in files:
        file.write_bytes(random.bytes(10_000))
    parts = [
        (str(files[n % 5]), int(offset), int(size))
        for n, (offset, size) in enumerate(zip(random.integers(0, 5_000, 50), random.integers(0, 5_000, 50)))
    ]

    assert read(parts) == [Path(path).read_bytes()[offset : offset + size] for path, offset, size in parts]
    assert read([]) == []


@pytest.mark.usefixtures("is_compiled")
def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    whole, short, missing = (str(tmp_path / name) for name in ("whole", "short", "missing"))
    Path(whole).write_bytes(bytes(100))
    Path(short).write_bytes(bytes(60))

    with pytest.raises(EOFError, match=r"short: 10 bytes are missing at byte 60"):
        read([(whole, 0, 100), (short, 50, 20)])
    with pytest.raises(FileNotFoundError, match="missing"):
        read([(whole, 0, 100), (missing, 0, 1), (short, 0, 60)])


def test_places_outside_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    target = np.zeros(10, np.uint8)

    for places in ((0, 11), (-1, 5), (5, 4), (0, 1, 2)):
        with pytest.raises(ValueError, match="outside its buffer"):
            read_ranges([str(path)], np.zeros(1, np.int64), target, np.array(places, np.int64))


@given(st.lists(st.lists(st.integers(-3, 12) | st.integers(-(2**63), 2**63 - 1), max_size=4), min_size=4, max_size=4))
def test_compiled_spans_are_within_their_buffers(columns: list[list[int]]) -> None:
    files, offsets, sizes, places = (np.array(column, np.int64) for column in columns)
    target = np.zeros(10, np.uint8)
    try:
        done = _native.read_spans([__file__, "/none"], files, offsets, sizes, target, places)
    except ValueError:  # as for all compiled functions
        return
    data = Path(__file__).read_bytes()
    assert 0 <= done <= len(files)
    assert (sizes <= 10 - places).all()
    assert (places >= 0).all()
    if len(set(places.tolist())) == len(places) == done == 1:
        offset, size, place = int(offsets[0]), int(sizes[0]), int(places[0])
        assert target[place : place + size].tobytes() == data[offset : offset + size]
    if done < len(files):
        assert files[done] == 1 or offsets[done] + sizes[done] > len(data)


@pytest.mark.parametrize(("suffix", "mebibytes"), [(".gz", 16), (".bz2", 16), (".zst", 256)])
def test_a_compression_bomb_is_read_in_small_pieces(tmp_path: Path, suffix: str, mebibytes: int) -> None:
    """256 MiB of zstd in 8 KiB, after data that grows the input which is taken at once: that piece alone is large."""
    data = random.Random(0).randbytes(1 << 18) + bytes(mebibytes << 20)
    path, name = write(tmp_path, f"bomb{suffix}", COMPRESS[suffix](data) + COMPRESS[suffix](b"more"))  # two members

    with open_decompressed(path, name) as stream:
        assert isinstance(stream, Decompressed)
        *others, second, largest = sorted(len(piece) for piece in iter(stream._read_more, b""))
    assert sum(others) + second + largest == len(data) + len(b"more")
    assert second <= 8 << 20
    assert largest <= 65 << 20
