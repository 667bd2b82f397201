"""Checksums, hashes and copies of spans: those of the libraries, compiled or not."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import google_crc32c
import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from shardmill import __version__, _native
from shardmill.data import spans, tfrecord
from shardmill.pipelines import cli
from tests.support.command import REPOSITORY, tree_bytes, write_files

BOTH = pytest.mark.parametrize("module", [_native, tfrecord], ids=["compiled", "python"])
SIZES = [
    *range(300),
    *range(500, 530),
    *range(1000, 1100),
    *range(1530, 1550),
    2047,
    2048,
    2049,
    3071,
    3072,
    3073,
    4096,
    70_000,
]
SEEDS = st.integers(0, (1 << 64) - 1)


def some_spans(sizes: np.ndarray, gap: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Random bytes, and where spans of `sizes` with gaps between them start and end."""
    rng = np.random.default_rng(gap)
    ends = np.cumsum(sizes + rng.integers(0, gap, len(sizes), endpoint=True))
    return rng.bytes(int(ends[-1]) + 3 if len(ends) else 0), ends - sizes, ends


def cut(data: bytes, starts: np.ndarray, ends: np.ndarray) -> list[bytes]:
    return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def test_gathered() -> None:
    assert spans.COMPILED
    data, starts, ends = some_spans(np.array(SIZES), 9)
    order = np.random.default_rng(1).permutation(len(starts))
    gathered, offsets = spans.gather(data, starts[order], (ends - starts)[order])

    assert cut(gathered.tobytes(), offsets[:-1], offsets[1:]) == cut(data, starts[order], ends[order])


@BOTH
@pytest.mark.parametrize("shuffled", [False, True])
def test_every_length(module: ModuleType, shuffled: bool) -> None:
    data, starts, ends = some_spans(np.array(SIZES), 9)
    if shuffled:  # spans in any order, of which some overlap
        order = np.random.default_rng(1).permutation(len(starts))
        starts, ends = starts[order], np.minimum(ends[order] + 5, len(data))
    crcs, hashes = np.empty(len(starts), np.uint32), np.empty((4, len(starts)), np.uint64)
    module.checksums(data, starts, ends, crcs)
    assert crcs.tolist() == [google_crc32c.value(piece) for piece in cut(data, starts, ends)]
    seeds = np.array([0, 1, 0xDEADBEEF, (1 << 64) - 1], np.uint64)
    module.hashes_by_seed(data, starts, ends, seeds, hashes)
    for seed, found in zip(seeds.tolist(), hashes.tolist(), strict=True):
        assert found == [xxhash.xxh3_64_intdigest(piece, seed) for piece in cut(data, starts, ends)]


@BOTH
@given(pieces=st.lists(st.binary(max_size=300), max_size=20), seed=SEEDS)
def test_any_bytes(module: ModuleType, pieces: list[bytes], seed: int) -> None:
    ends = np.cumsum(list(map(len, pieces)), dtype=np.int64)
    starts = ends - np.array(list(map(len, pieces)), np.int64)
    crcs, hashes = np.empty(len(pieces), np.uint32), np.empty((1, len(pieces)), np.uint64)
    module.checksums(b"".join(pieces), starts, ends, crcs)
    module.hashes_by_seed(b"".join(pieces), starts, ends, np.array([seed], np.uint64), hashes)

    assert crcs.tolist() == list(map(google_crc32c.value, pieces))
    assert hashes[0].tolist() == [xxhash.xxh3_64_intdigest(piece, seed) for piece in pieces]


@BOTH
@given(
    records=st.lists(
        st.one_of(st.binary(max_size=40), st.sampled_from([0, 255, 256, 4095, 4096, 70_000]).map(lambda n: b"r" * n)),
        max_size=20,
    ),
    gap=st.integers(0, 9),
)
def test_frames_around_payloads_in_place(module: ModuleType, records: list[bytes], gap: int) -> None:
    data = bytearray(gap) + bytearray(b"".join(b"?" * 12 + record + b"?" * 4 for record in records)) + bytearray(gap)
    offsets = gap + np.cumsum([0, *(len(record) + 16 for record in records)], dtype=np.int64)
    module.frame(data, offsets)

    assert bytes(data) == bytes(gap) + b"".join(map(tfrecord.frame_record, records)) + bytes(gap)


@BOTH
@pytest.mark.parametrize("size", [(1 << 8) - 1, 1 << 8, (1 << 16) - 1, 1 << 16, (1 << 24) - 1, 1 << 24])
def test_checksums_of_lengths(module: ModuleType, size: int) -> None:
    data = bytearray(size + 16)
    module.frame(data, np.array([0, size + 16]))

    assert data == tfrecord.frame_record(bytes(size))


@BOTH
@pytest.mark.parametrize("offsets", [[0, 15], [-1, 16], [0, 41], [16, 0], [0, 16, 31], [1 << 62, -(1 << 62)]], ids=str)
def test_frames_outside(module: ModuleType, offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="outside its buffer"):
        module.frame(bytearray(40), np.array(offsets))


@BOTH
@pytest.mark.parametrize("sizes", [[0, 0], [5] * 100, [3, 4, 5, 6] * 50, SIZES, [2048, 9000, 1]], ids=str)
def test_copies(module: ModuleType, sizes: list[int]) -> None:
    data, starts, ends = some_spans(np.array(sizes), 4)
    order = np.random.default_rng(2).permutation(len(sizes))
    copied = np.array(sizes)[order]
    places = np.cumsum(copied + 1) - copied
    target = bytearray(b"?" * (int(copied.sum()) + len(sizes) + 1))
    module.copy(data, starts[order], copied, target, places)

    assert bytes(target) == b"?" + b"".join(piece + b"?" for piece in cut(data, starts[order], ends[order]))


@BOTH
@given(data=st.binary(max_size=200) | st.lists(st.sampled_from([b"a", b"\n"]), max_size=200).map(b"".join))
def test_bytes_found(module: ModuleType, data: bytes) -> None:
    found = np.empty(data.count(b"\n"), np.int64)
    module.find(data, 10, found)

    assert module.count(data, 10) == len(found)
    assert found.tolist() == [place for place, byte in enumerate(data) if byte == 10]


@BOTH
@given(
    data=st.lists(st.sampled_from([b"a", b"b", b"\xff"]), max_size=60).map(b"".join),
    bounds=st.tuples(*[st.integers(0, 60)] * 2),
)
def test_bytes_found_before_others(module: ModuleType, data: bytes, bounds: tuple[int, int]) -> None:
    first, last = sorted(min(bound, len(data)) for bound in bounds)
    behind = [*data[1:], 0xFF]
    for after in (b"b", b"\xff", b"ab"):
        table = bytes(byte in after for byte in range(256))
        wanted = [place for place in range(first, last) if data[place] == 0xFF and behind[place] in after]
        assert module.find_before(data, first, last, 0xFF, table) == wanted


@BOTH
@pytest.mark.parametrize(("first", "last", "table"), [(-1, 2, 256), (2, 1, 256), (0, 4, 256), (0, 3, 255)])
def test_bytes_found_outside(module: ModuleType, first: int, last: int, table: int) -> None:
    with pytest.raises(ValueError, match="outside its buffer"):
        module.find_before(b"abc", first, last, 0xFF, bytes(table))


@BOTH
@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 254, 255, 256, 8159, 8160, 8161, 8192, 20_000])
def test_counts(module: ModuleType, size: int) -> None:
    some = np.random.default_rng(size).integers(0, 3, size, np.uint8).tobytes()

    assert module.count(b"\n" * size, 10) == size
    assert [module.count(some, byte) for byte in range(4)] == [some.count(byte) for byte in range(4)]


@BOTH
def test_bytes_found_where_another_number_is_expected(module: ModuleType) -> None:
    for number in (1, 3):
        with pytest.raises(ValueError, match="a buffer is not as long"):
            module.find(b"a\nb\nc", 10, np.empty(number, np.int64))


@BOTH
@given(st.lists(st.integers(0, 300)), st.integers(4, 20), st.data())
def test_chains(module: ModuleType, sizes: list[int], head: int, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, head - 4))
    heads = [bytes(at) + size.to_bytes(4, "little") + bytes(head - 4 - at) for size in sizes]
    data = b"".join(first + b"\xff" * size for first, size in zip(heads, sizes, strict=True))
    places = np.empty(len(sizes) + 1, np.int64)
    assert module.chain(data, head, at, places) == len(sizes)
    assert places[:-1].tolist() == [sum(sizes[:n]) + n * head for n in range(len(sizes))]
    for wrong in (data + b"x", data[:-1]) if data else (b"x",):
        with pytest.raises(ValueError, match="outside"):
            module.chain(wrong, head, at, places)
    if sizes:
        with pytest.raises(ValueError, match="outside"):
            module.chain(data, head, at, places[: len(sizes) - 1])


@BOTH
@pytest.mark.parametrize(("head", "at"), [(20, -1), (20, 17), (3, 0), (0, 0), (-5, -9)])
def test_chains_of_what_is_no_head(module: ModuleType, head: int, at: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        module.chain(bytes(100), head, at, np.empty(100, np.int64))


PROGRAM = """\
import sys; sys.modules["shardmill._native"] = None
import shardmill.pipelines.cli, shardmill.data.spans, shardmill
shardmill.pipelines.cli.main(["--version"])
status = shardmill.pipelines.cli.main(sys.argv[2:])
assert sum(1 for _ in shardmill.examples(sys.argv[1])) > 2000
sys.exit(status)
"""


def test_a_job_without_the_compiled_module(tmp_path: Path) -> None:
    """The same files, byte for byte, and as good a reader."""
    rows = "".join(f"{n},{'long ' * (n % 90)},{n / 7}\n" for n in range(3000))
    source = write_files(tmp_path / "in", {"a.csv": rows.encode()})
    options = ("--columns", "n,text,share", "--name", "data", "--num_shards", "3", "--splits", "train=0.8,test=0.2")
    flags, slow = ("csv", "--input", str(source), *options, "--output"), str(tmp_path / "slow")
    command = [sys.executable, "-c", PROGRAM, f"{slow}/data", *flags, slow]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"shardmill {__version__}, without its compiled module: slower\n")
    assert cli.main([*flags, str(tmp_path / "fast")]) == 0
    assert tree_bytes(tmp_path / "slow") == tree_bytes(tmp_path / "fast")


OUTSIDE = {"before": ([-1], [3]), "after": ([0, 5], [3, 11]), "backwards": ([4], [3]), "far": ([2**63 - 1], [-(2**63)])}


@BOTH
@pytest.mark.parametrize("case", OUTSIDE)
def test_spans_outside(module: ModuleType, case: str) -> None:
    starts, ends = (np.array(values, np.int64) for values in OUTSIDE[case])
    sizes = ends - starts
    inside = np.zeros(len(starts), np.int64)
    calls: list[tuple[Any, ...]] = [
        (module.checksums, bytes(10), starts, ends, np.empty(len(starts), np.uint32)),
        (module.hashes_by_seed, bytes(10), starts, ends, np.zeros(2, np.uint64), np.empty((2, len(starts)), np.uint64)),
        (module.copy, bytes(10), starts, sizes, bytearray(20), inside),
        (module.copy, bytes(20), inside, sizes, bytearray(10), starts),
    ]
    for function, *arguments in calls:
        with pytest.raises(ValueError, match="a span lies outside its buffer"):
            function(*arguments)


def test_places_of_any_type_and_stride() -> None:
    data = bytes(range(100))
    starts = np.arange(0, 20, 2)
    expected = [google_crc32c.value(data[start : start + 3]) for start in starts.tolist()]
    target = bytearray(10)
    spans.copy(data, np.arange(20)[::2], np.broadcast_to(1, 10), target, np.arange(10))

    assert spans.checksums(data, starts.astype(np.int32), starts + 3).tolist() == expected
    assert bytes(target) == data[:20:2]


def test_no_copy_into_what_is_read_only() -> None:
    one = np.ones(1, np.int64)
    with pytest.raises((BufferError, TypeError)):
        spans.copy(bytes(4), one, one, bytes(4), one)
