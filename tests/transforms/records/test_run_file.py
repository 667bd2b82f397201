"""Tests of transforms/records/run_file.py."""

import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data import tfrecord
from shardmill.data.codecs import PLAIN_CODEC
from shardmill.errors import JobError
from shardmill.transforms.columns.arrow import convert_batch, data_of
from shardmill.transforms.columns.example_bytes import HEADER_BYTES
from shardmill.transforms.records import run_file as run_files
from shardmill.transforms.records import staging
from shardmill.transforms.records.merging import Piece, RunShards, RunWriter, cut_into_segments, fetch_ranges
from shardmill.transforms.shards.divisions import Cuts, Division, to_cuts
from shardmill.transforms.stores import storage
from tests.support.command import write_files
from tests.support.native import without_native
from tests.support.table_results import contents, convert


def test_ranges_lie_behind_each_other(tmp_path: Path) -> None:
    small, large = os.urandom(1000), os.urandom((5 << 20) + 17)  # the latter more than one request's
    for name, data in (("small", small), ("large", large)):
        (tmp_path / name).write_bytes(data)
    asked = [("small", 10, 90), ("large", 3, len(large) - 3), ("small", 0, 0), ("small", 999, 1)]
    spool, offsets = fetch_ranges([(str(tmp_path / name), offset, length) for name, offset, length in asked])

    for (name, offset, length), where in zip(asked, offsets, strict=True):
        read = bytearray(length)
        spool.read_into(where, memoryview(read))
        assert read == (tmp_path / name).read_bytes()[offset : offset + length]


def test_what_cannot_be_read_is_raised(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(bytes(10))
    with pytest.raises(EOFError, match="short"):
        fetch_ranges([(str(tmp_path / "short"), 5, 6)])
    with pytest.raises(FileNotFoundError):
        fetch_ranges([(str(tmp_path / "none"), 0, 1)])


Key = tuple[int, int]  # (key, tie)


def records(keys: list[Key], groups: list[int], names: tuple[str, ...] = ("train", "test")) -> run_files.KeyedRecords:
    """Records whose payload says their key, of differing sizes."""
    framed = [tfrecord.frame_record(f"{key}/{tie}".encode() + b"." * (tie % 7)) for key, tie in keys]
    arrays = [np.array(column, np.uint64) for column in zip(*keys, strict=True)]
    return run_files.KeyedRecords(pa.array(framed, pa.large_binary()), arrays[0], arrays[1], np.array(groups), names)


def write_run(path: str, keyed: run_files.KeyedRecords, self_contained: bool = False) -> run_files.Run:
    return run_files.write_sorted(path, run_files.sort_records(keyed), self_contained)


def keys_of(data: bytes) -> list[Key]:
    payloads = PLAIN_CODEC.read_records(io.BytesIO(data), "run")
    return [tuple(map(int, payload.decode().rstrip(".").split("/"))) for payload in payloads]  # type: ignore[misc]


keys_and_groups = st.lists(
    st.tuples(st.tuples(st.integers(0, 5) | st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), st.integers(0, 1)),
    min_size=1,
)


@given(keys_and_groups)
def test_order_is_that_of_group_key_and_tie(rows: list[tuple[Key, int]]) -> None:
    keys, ties = (np.array([row[0][i] for row in rows], np.uint64) for i in (0, 1))
    groups = np.array([group for _, group in rows])

    assert [(rows[i][1], *rows[i][0]) for i in run_files.sort_order(keys, ties, groups)] == sorted(
        (group, *key) for key, group in rows
    )
    assert [rows[i][0] for i in run_files.sort_order(keys, ties)] == sorted(key for key, _ in rows)


def test_a_run_is_sorted_and_knows_its_keys(tmp_path: Path) -> None:
    rows = [((5, 1), 1), ((9, 0), 0), ((5, 0), 1), ((2**64 - 1, 3), 0), ((5, 0), 0)]
    path = str(tmp_path / "run")
    run = write_run(path, records([key for key, _ in rows], [group for _, group in rows]))

    expected = [(5, 0), (9, 0), (2**64 - 1, 3), (5, 0), (5, 1)]
    assert keys_of(Path(path).read_bytes()[: run.index_offset]) == expected
    grouped = run_files.read_keys(run)
    assert list(grouped) == ["train", "test"]
    assert [list(zip(keys.tolist(), ties.tolist(), strict=True)) for keys, ties, _ in grouped.values()] == [
        expected[:3],
        expected[3:],
    ]
    sizes = [len(record) for record in records(expected, [0] * 5).framed.to_pylist()]
    assert np.concatenate([sizes for _, _, sizes in grouped.values()]).tolist() == sizes
    assert run.parts == (run_files.RunPart("train", 3, sum(sizes[:3])), run_files.RunPart("test", 2, sum(sizes[3:])))
    assert run_files.read_keys_at(path, run.index_offset + run_files.ENTRY.itemsize, 2)[0].tolist() == [9, 2**64 - 1]


def test_a_self_contained_run_says_its_keys_twice(tmp_path: Path) -> None:
    made = records([(5, 1), (9, 0), (5, 0)], [1, 0, 1])
    run = write_run(str(tmp_path / "run"), made, self_contained=True)
    data = (tmp_path / "run").read_bytes()

    assert run.self_contained
    assert run_files.extract_entries(data[: run.index_offset]).tobytes() == data[run.index_offset :]
    assert [part.rows for part in run.parts] == [1, 2]
    with pytest.raises(ValueError, match="do not end with a record"):
        run_files.extract_entries(data[: run.index_offset - 1])


def test_keys_alone_have_no_records(tmp_path: Path) -> None:
    made = records([(3, 0), (1, 0)], [0, 0], ("ant",))
    run = run_files.write_keys(str(tmp_path / "keys"), made)

    assert run.index_offset == 0
    keys, _, sizes = run_files.read_keys(run)["ant"]
    assert keys.tolist() == [1, 3]
    assert sizes.tolist() == [len(record) for record in made.framed.take(pa.array([1, 0])).to_pylist()]


def test_a_run_is_never_written_over(tmp_path: Path) -> None:
    write_run(str(tmp_path / "run"), records([(1, 1)], [0]))
    with pytest.raises(FileExistsError):
        write_run(str(tmp_path / "run"), records([(1, 1)], [0]))


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4))),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=4),
)
def test_boundaries_are_where_part_of_changes(keys: list[Key], cuts: list[Key]) -> None:
    ordered, cut = sorted(keys), to_cuts(cuts)
    arrays = [np.array([key[i] for key in ordered], np.uint64) for i in (0, 1)]
    bounds = cut.bounds(*arrays)

    parts = cut.find_parts(*arrays)
    assert np.diff(bounds).tolist() == [int((parts == part).sum()) for part in range(len(cuts) + 1)]


@settings(max_examples=40)
@given(keys_and_groups, st.integers(1, 5), st.integers(1, 400), st.booleans(), st.data())
def test_slices_of_any_runs_merge_to_the_same_shards(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[Key, int]],
    number: int,
    segment_bytes: int,
    self_contained: bool,
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    place = data.draw(st.lists(st.integers(0, number - 1), min_size=len(rows), max_size=len(rows)))
    cuts = {
        split: data.draw(st.lists(st.sampled_from([key for key, _ in rows]), max_size=2)) for split in ("train", "test")
    }
    divisions = {split: Division(0, to_cuts(keys)) for split, keys in cuts.items()}
    slices: dict[tuple[str, int], list[run_files.Slice]] = {}
    for run_number in set(place):
        mine = [row for row, where in zip(rows, place, strict=True) if where == run_number]
        made = records([key for key, _ in mine], [group for _, group in mine])
        run = write_run(str(folder / str(run_number)), made, self_contained)
        for shard, part in run_files.slice_run(run, divisions):
            slices.setdefault(shard, []).append(part)

    written: dict[str, list[Key]] = {"train": [], "test": []}
    for shard, rows_of in sorted(slices.items()):
        source = RunShards(segment_bytes)
        planned, tasks = source.plan(
            [convert_batch([list(column) for column in zip(*rows_of, strict=True)], run_files.SLICE)]
        )
        chunks = [source.encode(task) for task in tasks]
        found = keys_of(b"".join(bytes(chunk.framed) for chunk in chunks))
        assert planned == len(found) == sum(chunk.examples for chunk in chunks)
        parts = divisions[shard[0]].cuts.find_parts(*(np.array([key[i] for key in found], np.uint64) for i in (0, 1)))
        assert set(parts.tolist()) == {shard[1]}
        written[shard[0]] += found
    for group, split in enumerate(("train", "test")):
        assert written[split] == sorted(key for key, where in rows if where == group)


def test_segments_are_of_the_size_asked_for(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    batches = []
    for number in range(4):
        keys = rng.integers(0, 2**64, 5000, np.uint64)
        framed = pa.array([tfrecord.frame_record(bytes(100))] * 5000, pa.large_binary())
        run = write_run(
            str(tmp_path / str(number)), run_files.KeyedRecords(framed, keys, keys, np.zeros(5000, np.int64), ["train"])
        )
        ((_, values),) = run_files.slice_run(
            run, {"train": Division(20_000, Cuts(np.empty(0, np.uint64), np.empty(0, np.uint64)))}
        )
        batches.append(convert_batch([[value] for value in values], run_files.SLICE))
    _, tasks = RunShards(116_000).plan(batches)
    sizes = [sum(int(piece.sizes.sum()) for piece in task) for task in tasks]

    assert sum(sizes) == 20_000 * 116
    assert 15 <= len(sizes) <= 21
    assert max(sizes) < 2 * 116_000


@pytest.mark.parametrize("rows", [1, 30, 800, 1000, 1001, 5000])
def test_segments_of_many_short_runs_are_of_one_size(rows: int) -> None:
    """A run is about as long as the distance of two samples, or shorter: the first key of each run is a small one."""
    rng, number = np.random.default_rng(rows), min(640_000 // rows, 2_000)
    runs = [np.sort(rng.integers(0, 2**64, rows, np.uint64)) for _ in range(number)]
    pieces = [Piece("run", 0, keys, keys, np.full(rows, 100, np.uint32)) for keys in runs]
    sizes = [sum(len(piece.keys) for piece in task) for task in cut_into_segments(pieces, 100 * number * rows // 20)]

    assert sum(sizes) == number * rows
    assert max(sizes) < 1.6 * number * rows / 20


def test_a_key_shared_by_all_is_cut_by_its_ties() -> None:
    ties = np.arange(10_000, dtype=np.uint64)
    piece = Piece("run", 0, np.zeros(10_000, np.uint64), ties, np.full(10_000, 100, np.uint32))
    sizes = [len(task[0].keys) for task in cut_into_segments([piece], 100_000)]

    assert sum(sizes) == 10_000
    assert max(sizes) <= 2000


Row = tuple[int, int, int]  # key, tie, group

NAMES = ("test", "train")


def run_writer_records(rows: list[Row]) -> run_files.KeyedRecords:
    framed = pa.array([tfrecord.frame_record(f"{row}".encode()) for row in rows], pa.large_binary())
    keys, ties, groups = (np.array([row[i] for row in rows], np.uint64) for i in range(3))
    return run_files.KeyedRecords(framed, keys, ties, groups.astype(np.int64), NAMES)


rows_of = st.lists(
    st.tuples(st.integers(0, 3) | st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 1)),
    min_size=1,
    max_size=30,
    unique_by=lambda row: row[1],
)


@settings(max_examples=60)
@given(rows_of, st.integers(1, 6), st.integers(1, 300), st.booleans())
def test_batches_are_merged(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], step: int, segment_bytes: int, self_contained: bool
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    expected = run_files.write_sorted(
        str(folder / "whole"), run_files.sort_records(run_writer_records(rows)), self_contained
    )
    writer = RunWriter(str(folder / "merged"), self_contained, segment_bytes)
    for start in range(0, len(rows), step):
        writer.add(run_writer_records(rows[start : start + step]))
    run = writer.close()

    assert run is not None
    assert run == replace(expected, path=run.path)
    assert (folder / "merged").read_bytes() == (folder / "whole").read_bytes()


def test_a_run_without_records_is_none(tmp_path: Path) -> None:
    assert RunWriter(str(tmp_path / "run")).close() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["csv", "text"])
def test_larger_runs_give_the_same_shards(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"{name}.{'csv' if command == 'csv' else 'txt'}": b"x,y\n" + _lines(name) for name in "abc"}
    source = write_files(tmp_path / "in", files)
    flags = ("--block_size", "1KiB", "--num_shards", 3)
    small = convert(command, source, tmp_path / "small", *flags)
    runs: list[int] = []
    close = RunWriter.close

    def counting(writer: RunWriter) -> object:
        run = close(writer)
        runs.extend([run.rows] if run is not None else [])
        return run

    monkeypatch.setattr(RunWriter, "close", counting)
    monkeypatch.setattr(staging, "_MIN_SLICE_BYTES", 1 << 20)
    monkeypatch.setattr(staging, "_MIN_RUNS", 2)
    large = convert(command, source, tmp_path / "large", *flags)
    assert len(runs) < 8
    assert sum(runs) == 3 * 400 + (3 if command == "text" else 0)
    assert contents(small.directory) == contents(large.directory)


def _lines(name: str) -> bytes:
    return b"".join(b"%d,%s%d\n" % (n, name.encode(), n * n) for n in range(400))


VALUES = st.lists(
    st.tuples(st.integers(0, 3) | st.integers(0, 2**64 - 1), st.integers(0, 1), st.integers(0, 3), st.integers(0, 40)),
    min_size=1,
    max_size=30,
)


def referring_records(
    folder: Path, rows: list[tuple[int, int, int, int]]
) -> tuple[run_files.KeyedRecords, run_files.KeyedRecords]:
    """Records of a key, a group, an input file (0 for none) and the length of their value: whole, and with references.

    The files are written to `folder`, with other bytes around the values.
    """
    rng = np.random.default_rng(len(rows))
    files, framed = [bytearray() for _ in range(4)], []
    references = np.zeros(len(rows), run_files.REFERENCE)
    for row, (key, _, file, length) in enumerate(rows):
        head, value = f"{key}:{row}:".encode(), rng.bytes(length)
        if file:
            files[file] += b"other"
            references[row] = (file - 1, len(files[file]), length, HEADER_BYTES + len(head))
            files[file] += value
        framed.append(tfrecord.frame_record(head + value + b"."))
    named = []
    for number, data in enumerate(files[1:]):
        (folder / f"file-{number}").write_bytes(data)
        named.append((str(folder / f"file-{number}"), storage.read_revision(str(folder / f"file-{number}"))))
    keys, groups = (np.array([row[i] for row in rows], np.uint64) for i in (0, 1))
    ties = np.arange(len(rows), dtype=np.uint64)
    inline = run_files.KeyedRecords(pa.array(framed, pa.large_binary()), keys, ties, groups.astype(np.int64), NAMES)
    return inline, replace(inline, references=references, files=tuple(named))


def some(records: run_files.KeyedRecords, start: int, stop: int) -> run_files.KeyedRecords:
    arrays = {name: getattr(records, name)[start:stop] for name in ("keys", "ties", "groups")}
    references = None if records.references is None else records.references[start:stop]
    return replace(records, framed=records.framed.slice(start, stop - start), references=references, **arrays)


def shard_bytes(runs: list[run_files.Run], segment_bytes: int) -> list[bytes]:
    divisions = {split: Division(0, to_cuts([(2**63, 0)])) for split in NAMES}
    slices: dict[tuple[str, int], list[run_files.Slice]] = {}
    for run in runs:
        for shard, part in run_files.slice_run(run, divisions):
            slices.setdefault(shard, []).append(part)
    source, shards = RunShards(segment_bytes), []
    for _, parts in sorted(slices.items()):
        _, tasks = source.plan([convert_batch([list(column) for column in zip(*parts, strict=True)], run_files.SLICE)])
        shards.append(b"".join(bytes(source.encode(task).framed) for task in tasks))
    return shards


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "python"])
@settings(max_examples=60)
@given(VALUES, st.integers(1, 9), st.integers(1, 300), st.booleans())
def test_values_left_in_files_are_in_the_shards(
    tmp_path_factory: pytest.TempPathFactory,
    compiled: bool,
    rows: list[tuple[int, int, int, int]],
    step: int,
    segment_bytes: int,
    in_one_run: bool,
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    inline, referring = referring_records(folder, rows)
    shards = []
    for name, made in (("inline", inline), ("referring", referring)):
        runs, writer = [], RunWriter(str(folder / name), segment_bytes=segment_bytes)
        for start in range(0, len(rows), step):
            part = some(made, start, start + step)
            if in_one_run:
                writer.add(part)
            else:
                runs.append(run_files.write_sorted(str(folder / f"{name}{start}"), run_files.sort_records(part)))
        if (run := writer.close()) is not None:
            runs.append(run)
        assert all(run.has_references == (name == "referring") for run in runs)
        assert sum(part.size_bytes for run in runs for part in run.parts) == len(data_of(inline.framed))
        with pytest.MonkeyPatch.context() as patch:
            if not compiled:
                without_native(patch)
            shards.append(shard_bytes(runs, segment_bytes))
    assert shards[0] == shards[1]


def test_a_run_has_no_bytes_of_values_left_in_files(tmp_path: Path) -> None:
    inline, referring = referring_records(tmp_path, [(1, 0, 1, 5000), (2, 0, 0, 300)])
    run = run_files.write_sorted(str(tmp_path / "run"), run_files.sort_records(referring))

    assert run.index_offset == len(data_of(inline.framed)) - 5000


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def change(path: Path) -> None:
    """Change a byte of the file, but not its size, inode or time."""
    times = path.stat()
    with path.open("r+b") as file:
        file.seek(5)
        file.write(bytes([path.read_bytes()[5] ^ 1]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def touch(path: Path) -> None:
    os.utime(path, ns=(0, 0))


@pytest.mark.parametrize("alter", [shorten, change, touch])
@pytest.mark.usefixtures("is_compiled")
def test_a_file_that_changes_before_shards_are_written_is_named(tmp_path: Path, alter: Callable[[Path], None]) -> None:
    _, referring = referring_records(tmp_path, [(1, 0, 1, 30), (2, 0, 2, 40)])
    run = run_files.write_sorted(str(tmp_path / "run"), run_files.sort_records(referring))
    alter(tmp_path / "file-1")

    with pytest.raises(JobError, match="file-1 was changed while the job read it"):
        shard_bytes([run], 1 << 20)
    (tmp_path / "file-1").unlink()
    with pytest.raises(FileNotFoundError, match="file-1"):
        shard_bytes([run], 1 << 20)
