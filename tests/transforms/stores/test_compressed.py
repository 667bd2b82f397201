"""Compressed files: whole, of several members, cut short and damaged."""

import bz2
import gzip
import io
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from shardmill.transforms.stores.streams import TruncatedError, is_compressed, open_decompressed

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
def test_lines(tmp_path: Path, suffix: str) -> None:
    with open_decompressed(*write(tmp_path, f"a{suffix}", COMPRESS[suffix](TEXT))) as stream:
        assert list(stream) == TEXT.splitlines(keepends=True)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_members_and_padding(tmp_path: Path, suffix: str) -> None:
    members = [TEXT[:100_000], b"", TEXT[100_000:100_001], TEXT[100_001:]]

    with open_decompressed(
        *write(tmp_path, f"a{suffix}", b"".join(map(COMPRESS[suffix], members)) + bytes(1000))
    ) as stream:
        assert stream.read() == TEXT


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_compresses_a_thousandfold(tmp_path: Path, suffix: str) -> None:
    with open_decompressed(*write(tmp_path, f"a{suffix}", COMPRESS[suffix](bytes(50 << 20)))) as stream:
        assert stream.read(10) == bytes(10)
        assert sum(len(part) for part in iter(lambda: stream.read(1 << 20), b"")) == (50 << 20) - 10


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nothing_in_it(tmp_path: Path, suffix: str) -> None:
    with open_decompressed(*write(tmp_path, f"a{suffix}", COMPRESS[suffix](b""))) as stream:
        assert stream.read() == b""


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_bytes(tmp_path: Path, suffix: str) -> None:
    stream = open_decompressed(*write(tmp_path, f"a{suffix}", b""))

    with stream, pytest.raises(TruncatedError, match="the file is empty"):
        stream.read()


def survivors(stream: io.BufferedIOBase, size: int) -> tuple[bytes, str]:
    """What can be read, and then the error."""
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
    path, name = write(tmp_path, f"a{suffix}", part)

    text, error = survivors(open_decompressed(path, name), size)  # type: ignore[arg-type]

    assert TEXT.startswith(text)
    assert len(text) >= 300_000
    assert (
        f"ends too early, at byte {len(part):,} of the compressed file, after {len(text):,} bytes of contents" in error
    )


def test_all_of_a_gzip_file_that_was_cut_short_survives(tmp_path: Path) -> None:
    part = gzip.compress(TEXT)[:-9]
    path, name = write(tmp_path, "a.gz", part)

    text, _ = survivors(open_decompressed(path, name), 4096)  # type: ignore[arg-type]

    assert text == zlib.decompressobj(31).decompress(part)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged(tmp_path: Path, suffix: str) -> None:
    first, second = COMPRESS[suffix](TEXT[:300_000]), COMPRESS[suffix](TEXT[300_000:])
    path, name = write(tmp_path, f"a{suffix}", first + b"garbage!" + second)

    text, error = survivors(open_decompressed(path, name), 1 << 16)  # type: ignore[arg-type]

    assert text == TEXT[:300_000]
    assert " data is damaged (" in error
    assert "after 300,000 bytes of contents" in error


def test_a_checksum_that_is_wrong(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(b"a,b\n" * 10))
    data[-6] ^= 1
    path, name = write(tmp_path, "a.gz", bytes(data))

    _, error = survivors(open_decompressed(path, name), 1 << 16)  # type: ignore[arg-type]

    assert "damaged" in error


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_decompressed(str(tmp_path / "a.gz"), "a.gz")
