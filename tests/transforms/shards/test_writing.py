"""Tests of transforms/shards/writing.py."""

import io
import pickle
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import google_crc32c
import pyarrow.parquet as pq
import pytest
from apache_beam.io.filebasedsink import FileBasedSink
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from PIL import Image

from shardmill.data.codecs import CODECS, PLAIN_CODEC, Codec
from shardmill.data.example import decode_example
from shardmill.data.tfrecord import is_valid_record
from shardmill.metadata.file_names import TEMP_PREFIX, ShardName
from shardmill.pipelines.jobs.runner import make_runner
from shardmill.transforms.columns.arrow import convert_batch
from shardmill.transforms.execution.running import Progress, Threads, read_progress
from shardmill.transforms.files.encoding import TextFileEncoder
from shardmill.transforms.files.image_encoder import ImageEncoder
from shardmill.transforms.files.references import PLANNED
from shardmill.transforms.files.shards import FileShards, PreviousVersion
from shardmill.transforms.shards import writing
from shardmill.transforms.shards.divisions import Division, to_cuts
from shardmill.transforms.shards.sources import EncodedChunk, FileIndex, IndexedPiece, ShardInfo
from shardmill.transforms.shards.writing import REJECTS, TemporaryFile, WriteShards, get_sink
from shardmill.transforms.statistics.files import ImageStats
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.elements import RecordBatchCoder
from tests.support.builds import rejects_in


def write_to(path: Path) -> beam.io.WriteToTFRecord:
    return beam.io.WriteToTFRecord(str(path), file_name_suffix=".gz", compression_type=CompressionTypes.UNCOMPRESSED)


def test_the_sink_is_that_of_the_constructor(tmp_path: Path) -> None:
    sink = get_sink(write_to(tmp_path / "flowers"))

    assert isinstance(sink, FileBasedSink)
    assert sink.file_path_prefix.get() == str(tmp_path / "flowers")
    assert sink.compression_type == CompressionTypes.UNCOMPRESSED


def test_a_temporary_file_holds_what_was_written_and_nothing_else(tmp_path: Path) -> None:
    """After the way to a worker too, and where the suffix says gzip: shards are compressed before."""
    sink = pickle.loads(pickle.dumps(get_sink(write_to(tmp_path / "flowers"))))
    (tmp_path / "temporary").mkdir()
    file = TemporaryFile(sink, str(tmp_path / "temporary"), "flowers-train-00000-x")
    file.write(b"any ")
    file.write(b"bytes")
    path = Path(file.close())

    assert path.parent == tmp_path / "temporary"
    assert path.name == "flowers-train-00000-x.flowers.gz"
    assert path.read_bytes() == b"any bytes"


def test_another_sink_is_named(tmp_path: Path) -> None:
    write = write_to(tmp_path / "flowers")
    write._sink = object()
    with pytest.raises(TypeError, match="keeps a object as its sink; expected a FileBasedSink"):
        get_sink(write)


NAMES = ("a.txt", "b.txt", "empty.txt", "young.txt")


def planned() -> Any:
    identities = {"young.txt": None}
    rows = [
        (name, 9, None, None, None, None, "train", key, 0, None, None, identities.get(name, key))
        for key, name in enumerate(NAMES)
    ]
    return RecordBatchCoder().encode(convert_batch([list(column) for column in zip(*rows, strict=True)], PLANNED))


def write(source: FileShards, output: Path) -> tuple[ShardInfo, int]:
    """The one shard, and how many files Beam was told to have been reused."""
    output.mkdir()
    pipeline = beam.Pipeline(runner=make_runner(PipelineOptions([])))
    divisions = pipeline | "Divisions" >> beam.Create([{"train": Division(len(NAMES), to_cuts([]))}])
    shards = pipeline | "Shards" >> beam.Create([(("train", 0), [planned()])])
    written = shards | WriteShards(str(output), "n", source, divisions, str(output))
    _ = written["shards"] | beam.Map(lambda info: (output / "info").write_bytes(pickle.dumps(info)))
    result = pipeline.run()
    result.wait_until_finish()
    found = result.metrics().query(MetricsFilter().with_name("files_reused"))["counters"]
    return pickle.loads((output / "info").read_bytes()), sum(counter.committed for counter in found)


def test_a_piece_says_where_records_lie_and_the_next_build_takes_them(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_text("" if name == "empty.txt" else name)
    source = FileShards(TextFileEncoder(str(folder)), 64, 0, {})

    info, reused = write(source, tmp_path / "first")

    assert (reused, info.examples, info.rejected) == (0, 3, 1)
    assert info.piece is not None
    data = Path(info.piece.path).read_bytes()
    assert info.piece.crc32c == google_crc32c.value(data)
    rows = {row["name"]: row for row in pq.read_table(info.piece.path).to_pylist()}
    assert set(rows) == {"a.txt", "b.txt", "empty.txt"}, "what may change again unseen is not remembered"
    assert (rows["empty.txt"]["offset"], rows["empty.txt"]["reason"]) == (None, "the file is empty")
    assert (info.piece.low, info.piece.high) == tuple(f(row["key"] for row in rows.values()) for f in (min, max))
    shard = Path(info.temporary).read_bytes()
    for name in ("a.txt", "b.txt"):
        record = shard[rows[name]["offset"] :][: rows[name]["length"]]
        assert is_valid_record(record)
        assert record[rows[name]["value_offset"] :][: rows[name]["value_length"]] == name.encode()

    piece = IndexedPiece(Path(info.piece.path).name, info.piece.crc32c, str(info.name), info.piece.low, info.piece.high)
    Path(info.temporary).rename(tmp_path / str(info.name))
    former = PreviousVersion(
        "1.0.0", str(tmp_path), str(Path(info.piece.path).parent), FileIndex(str(folder), 0, {}, pieces=(piece,))
    )
    for name in ("a.txt", "b.txt", "empty.txt"):
        (folder / name).unlink()
    again, reused = write(FileShards(TextFileEncoder(str(folder)), 64, 0, {}, previous=former), tmp_path / "second")

    assert reused == 3
    assert (again.crc32c, again.size_bytes, again.rejected) == (info.crc32c, info.size_bytes, 1)
    assert again.stats == info.stats


FILES = 40
DIVISIONS = {"train": Division(30, to_cuts([(15, 0)])), "test": Division(FILES - 30, to_cuts([]))}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for index in range(FILES):
        Image.new("L", (4 + index, 5), index).save(folder / f"{index:02}.png")
    (folder / "07.png").write_bytes(b"no image")
    return folder


def batch(indices: range) -> bytes:
    rows = [(f"{i:02}.png", 100, None, i % 3, None, None, "any", 99 - i, 0, None, None, None) for i in indices]
    return RecordBatchCoder().encode(convert_batch([list(column) for column in zip(*rows)], PLANNED))


# In each shard the key falls with the name, and the batches come in no order.
ELEMENTS = [
    (("train", 0), [batch(range(8, 15)), batch(range(8))]),
    (("train", 1), [batch(range(15, 30))]),
    (("test", 0), [batch(range(30, FILES))]),
]


def temporary_in(directory: Path) -> str:
    return tempfile.mkdtemp(prefix=f"{TEMP_PREFIX}photos-", dir=directory)


def write_all(
    images: Path, output: Path, codec: Codec = PLAIN_CODEC, files_per_task: int = 64, **options: Any
) -> list[ShardInfo]:
    """Run the PTransform; the ShardInfo of each shard, in order."""
    output.mkdir()
    source = FileShards(ImageEncoder(str(images)), files_per_task)
    with beam.Pipeline(runner=make_runner(PipelineOptions([]))) as pipeline:
        divisions = pipeline | "Divisions" >> beam.Create([DIVISIONS])
        written = (
            pipeline
            | "Shards" >> beam.Create(ELEMENTS)
            | WriteShards(str(output), "photos", source, divisions, temporary_in(output), codec, **options)
        )
        sources = written[REJECTS] | beam.FlatMap(lambda part: [reject.source for reject in rejects_in([part])])
        assert_that(sources, equal_to(["07.png"]), label="Rejects")
        _ = written["shards"] | "Save" >> beam.Map(save, str(output))
    infos = [pickle.loads(path.read_bytes()) for path in output.glob("*.info")]
    return sorted(infos, key=lambda info: (info.name.split, info.name.shard))


def save(info: ShardInfo, output: str) -> None:
    (Path(output) / f"{info.name}.info").write_bytes(pickle.dumps(info))


def names(codec: Codec, data: bytes) -> list[str]:
    found = [decode_example(record)["filename"] for record in codec.read_records(io.BytesIO(data), "shard")]
    return [bytes(name[0]).decode() for name in found]


@pytest.mark.parametrize("codec", CODECS.values())
def test_shards(images: Path, tmp_path: Path, codec: Codec) -> None:
    (tmp_path / "progress").mkdir()
    infos = write_all(images, tmp_path / "out", codec, progress_folder=str(tmp_path / "progress"), threads=Threads(1))
    size_bytes = sum(info.size_bytes for info in infos)
    progress = read_progress(str(tmp_path / "progress"))
    assert progress == Progress(FILES, size_bytes if codec is PLAIN_CODEC else progress.size_bytes)

    assert [info.name for info in infos] == [
        ShardName("photos", "test", 0, 1, codec),
        ShardName("photos", "train", 0, 2, codec),
        ShardName("photos", "train", 1, 2, codec),
    ]
    assert [(info.planned, info.examples, info.rejected) for info in infos] == [(10, 10, 0), (15, 14, 1), (15, 15, 0)]
    for info, indices in zip(infos, (range(30, FILES), range(15), range(15, 30)), strict=True):
        data = Path(info.temporary).read_bytes()
        assert (info.size_bytes, info.crc32c) == (len(data), google_crc32c.value(data))
        assert Path(info.temporary).parent.name.startswith(TEMP_PREFIX)
        assert Path(info.temporary).parent.parent == tmp_path / "out"
        expected = [f"{i:02}.png" for i in reversed(indices) if i != 7]
        assert names(codec, data) == expected
        assert isinstance(info.stats, ImageStats)
        assert info.stats.formats == {"png": info.examples}
    for threads, files_per_task in [(4, 1), (0, 8)]:
        again = write_all(images, tmp_path / str(threads), codec, files_per_task, threads=Threads(threads))
        assert [Path(info.temporary).read_bytes() for info in again] == [
            Path(info.temporary).read_bytes() for info in infos
        ]


class Meeting:
    """A source of two shards that can only be written at once; or one of them fails while the other is under way."""

    both_began = threading.Barrier(2, timeout=60)
    encoded = 0

    def __init__(self, failing: bool) -> None:
        self.failing = failing

    def plan(self, parts: Any) -> tuple[int, Any]:
        """One task, or for the shard that does not fail so many that they take 25 seconds."""
        rows = sum(len(RecordBatchCoder().decode(part)) for part in parts)
        self.both_began.wait()
        return rows, ["fail"] if self.failing and rows == 15 else ["go on"] * (5000 if self.failing else 1)

    def encode(self, task: str) -> EncodedChunk:
        """Nothing, slowly."""
        if task == "fail":
            raise ValueError("a shard that fails")
        time.sleep(0.005 if self.failing else 0)
        Meeting.encoded += 1
        return EncodedChunk(b"", 1)


def write_two(source: Any, output: Path, threads: int) -> None:
    with beam.Pipeline(runner=make_runner(PipelineOptions([]))) as pipeline:
        divisions = pipeline | "Divisions" >> beam.Create([DIVISIONS])
        elements = pipeline | "Shards" >> beam.Create(ELEMENTS[1:])
        _ = elements | WriteShards(
            str(output), "photos", source, divisions, temporary_in(output), threads=Threads(threads)
        )


@pytest.mark.parametrize("threads", [1, 2])
def test_shards_are_written_at_once(tmp_path: Path, threads: int) -> None:
    write_two(Meeting(failing=False), tmp_path, threads)

    assert len(list(tmp_path.glob(f"{TEMP_PREFIX}*/*"))) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_a_shard_that_fails_ends_the_other(tmp_path: Path, threads: int) -> None:
    before = Meeting.encoded

    with pytest.raises(ValueError, match="a shard that fails"):
        write_two(Meeting(failing=True), tmp_path, threads)

    assert Meeting.encoded - before < 5000


class InThisThread(list[bytes]):
    """A group as Beam gives it where it is long: in pages that only the thread it was given to may ask for."""

    def __init__(self, parts: list[bytes]) -> None:
        super().__init__(parts)
        self.thread = threading.get_ident()

    def __iter__(self) -> Iterator[bytes]:
        assert threading.get_ident() == self.thread
        return super().__iter__()


def test_groups_are_read_in_the_thread_they_are_given_to(images: Path, tmp_path: Path) -> None:
    source = FileShards(ImageEncoder(str(images)))
    function = WriteShards(str(tmp_path), "photos", source, None, "", threads=Threads(2))._write
    function.setup()
    function.start_bundle()
    side = (DIVISIONS, temporary_in(tmp_path), source)
    out = [item for shard, parts in ELEMENTS for item in function.process((shard, InThisThread(parts)), *side)]
    out += [item.value for item in function.finish_bundle()]
    function.teardown()

    infos = [item for item in out if isinstance(item, ShardInfo)]
    assert [(info.name.split, info.name.shard, info.examples) for info in infos] == [
        ("train", 0, 14),
        ("train", 1, 15),
        ("test", 0, 10),
    ]


class Disk:
    """storage.sync_files, which waits until three shards were begun: two at once are written, so neither may wait."""

    began = 0
    lock = threading.Lock()
    all_began = threading.Event()
    synced: ClassVar[list[str]] = []

    @staticmethod
    def sync(paths: list[str]) -> None:
        assert Disk.all_began.wait(timeout=60)
        assert all(Path(path).stat().st_size for path in paths)
        Disk.synced += paths


class Beginning(FileShards):
    def plan(self, parts: Any) -> tuple[int, Any]:
        with Disk.lock:
            Disk.began += 1
            if Disk.began == len(ELEMENTS):
                Disk.all_began.set()
        return super().plan(parts)


def expect_synced(info: ShardInfo) -> None:
    assert info.temporary in Disk.synced


def test_small_shards_are_synced_together(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(storage, "sync_files", lambda paths: calls.append(len(paths)))

    infos = write_all(images, tmp_path / "out")

    assert calls == [len(infos)] == [len(ELEMENTS)]


def test_a_shard_is_synced_while_others_are_written_and_before_anybody_hears_of_it(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "sync_files", Disk.sync)
    monkeypatch.setattr(writing, "SYNC_BYTES", 1)

    with beam.Pipeline(runner=make_runner(PipelineOptions([]))) as pipeline:
        divisions = pipeline | "Divisions" >> beam.Create([DIVISIONS])
        shards = pipeline | "Shards" >> beam.Create(ELEMENTS)
        written = shards | WriteShards(
            str(tmp_path), "photos", Beginning(ImageEncoder(str(images))), divisions, temporary_in(tmp_path)
        )
        _ = written["shards"] | beam.Map(expect_synced)

    assert len(Disk.synced) == len(ELEMENTS)


def no_disk(paths: list[str]) -> None:
    raise OSError(28, "No space left on device")


def test_a_shard_that_cannot_be_synced_fails_the_job(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "sync_files", no_disk)

    with pytest.raises(Exception, match="No space left on device"):
        write_two(FileShards(ImageEncoder(str(images))), tmp_path, threads=1)


class FailingSource:
    """A source whose records cannot be encoded."""

    def plan(self, parts: Any) -> tuple[int, Any]:
        """One task."""
        return len(parts), ["fail"]

    def encode(self, task: str) -> EncodedChunk:
        """Nothing."""
        raise ValueError("why the shard failed")


@pytest.mark.parametrize("threads", [1, 2])
def test_the_error_of_closing_does_not_hide_why_it_is_closed(
    tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an object store that fails, sending the rest fails as well."""
    closed = []

    def close(file: Any) -> str:
        closed.append(file)
        raise OSError("closing failed, too")

    monkeypatch.setattr("shardmill.transforms.shards.writing.TemporaryFile.close", close)
    with pytest.raises(ValueError, match="why the shard failed") as caught:
        write_two(FailingSource(), tmp_path, threads)
    assert closed
    assert "closing failed" not in str(caught.value)
