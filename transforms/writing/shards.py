"""WriteToTFRecord for planned shards: each shard written whole by one worker, straight from its references.

Beam's WriteToTFRecord moves every record through a GroupByKey, deals them out round robin, and numbers shards by the
sorted names of temporary files. This subclass keeps its sink (temporary files, naming, file systems) and replaces the
rest.
"""

import threading
import uuid
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import apache_beam as beam
import google_crc32c
import pyarrow as pa
from apache_beam.io.filebasedsink import FileBasedSink
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsSingleton

import shardmill.transforms.workers.coder  # noqa: F401, registers the coder of batches
from shardmill.codecs.base import Codec
from shardmill.codecs.registry import PLAIN
from shardmill.metadata import file_template
from shardmill.metadata.naming import ShardName, shard_prefix
from shardmill.transforms.contents.looks import LooksWriter
from shardmill.transforms.contents.of_files import ContentsWriter
from shardmill.transforms.preprocessing import gather
from shardmill.transforms.preprocessing.gather import Analysis, Gatherer
from shardmill.transforms.rejects.part import RejectsWriter
from shardmill.transforms.sharding.divisions import Divisions
from shardmill.transforms.sharding.shards import ShardKey
from shardmill.transforms.statistics.files import Located, SplitStats
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.clients import prepare_clients
from shardmill.transforms.stores.patience import patiently
from shardmill.transforms.workers.cores import cores
from shardmill.transforms.workers.progress import ProgressReporter
from shardmill.transforms.workers.threads import ThreadedFlatMap, map_in_order
from shardmill.transforms.workers.windowed import windowed
from shardmill.transforms.writing.beam_sink import TemporaryFile, sink_of
from shardmill.transforms.writing.remembered import PIECE_SUFFIX, PieceWriter
from shardmill.transforms.writing.shard_info import ShardInfo
from shardmill.transforms.writing.source import ShardSource

REJECTS = "rejects"
# Local disks want large writes. What is this large is not copied to others before.
_WRITE_BYTES = 1 << 18
_PART_BYTES = 8 << 20  # stores take what they are given as a request
# The folders of what is remembered of files, of what they hold, and of how pictures look
_PIECES, _CONTENTS, _LOOKS = "files", "contents", "looks"
SHARDS_AT_ONCE = 2  # by each worker: one file takes the bytes of one thread at a time
_SYNC_BYTES = 8 << 20  # of shards whose disk is waited for together: of thousands of small ones, not of each


class WriteShards(beam.io.WriteToTFRecord):
    """Shards' references -> ShardInfo of each shard, in a temporary directory; rejects under the tag `rejects`.

    The input is one element a shard: ((split, shard), its batches). Nothing gets its final name here: publishing does
    that once all is written and checked.
    """

    def __init__(
        self,
        directory: str,
        name: str,
        source: ShardSource | beam.PCollection[ShardSource],
        divisions: beam.PCollection[Divisions],
        temporary: str,
        codec: Codec = PLAIN,
        template: str = file_template.DEFAULT,
        threads: int = 1,
        progress_folder: str | None = None,
        analysis: Analysis | None = None,
        shards_at_once: int = SHARDS_AT_ONCE,
    ) -> None:
        """Args:

        directory: the data set's version directory.
        name: the data set's name.
        source: of the records of each shard; a collection of one where it depends on the input.
        divisions: of the splits, for the number of shards of each.
        temporary: the directory that shards are written to first.
        codec: the format of the shards.
        template: by which they are called.
        threads: that encode in each worker; 1 encodes in those that write shards, 0 stands for the number of its cores.
        progress_folder: where workers on the launcher's machine report, or None.
        analysis: what --transform takes constants of, of the columns of chunks; None where that is not done in writing.
        shards_at_once: by each worker.
        """
        # Compression is done here, not by the sink: the crc32c has to be that of the bytes on disk.
        super().__init__(
            storage.join(directory, name),
            file_name_suffix=codec.suffix,
            compression_type=CompressionTypes.UNCOMPRESSED,
        )
        self._divisions, self._temporary, self._source = divisions, temporary, source
        self._write = _WriteShardFn(
            sink_of(self), name, codec, template, threads, progress_folder, analysis, shards_at_once
        )

    def expand(self, pcoll: beam.PCollection[tuple[ShardKey, Iterable[pa.RecordBatch]]]) -> Any:
        """One ParDo: references in, ShardInfo and rejects out."""
        source = AsSingleton(self._source) if isinstance(self._source, beam.PCollection) else self._source
        return pcoll | "WriteShard" >> beam.ParDo(
            self._write, AsSingleton(self._divisions), self._temporary, source
        ).with_outputs(REJECTS, main="shards")


class _WriteShardFn(ThreadedFlatMap):
    """Writes some shards at a time, their records encoded ahead in threads that they share."""

    def __init__(
        self,
        sink: FileBasedSink,
        name: str,
        codec: Codec,
        template: str,
        threads: int,
        progress_folder: str | None,
        analysis: Analysis | None,
        shards_at_once: int,
    ) -> None:
        super().__init__(partial(patiently, self._write_shard), shards_at_once)
        self._sink, self._name, self._codec, self._template = sink, name, codec, template
        self._wanted_encoders, self._progress_folder, self._analysis = threads, progress_folder, analysis
        self._examples = Metrics.counter("shardmill", "examples_written")
        self._rejected = Metrics.counter("shardmill", "records_rejected")
        self._bytes = Metrics.counter("shardmill", "bytes_written")
        self._reused = Metrics.counter("shardmill", "files_reused")

    def setup(self) -> None:
        super().setup()
        prepare_clients()
        self._ended = threading.Event()
        encoders = self._wanted_encoders or cores()  # of the worker, not of the launcher
        self._encoders = ThreadPoolExecutor(encoders, "shardmill-encode") if encoders > 1 else None
        self._window = encoders + 1
        self._syncing = ThreadPoolExecutor(SHARDS_AT_ONCE, "shardmill-sync-shards")
        self._progress = ProgressReporter(self._progress_folder) if self._progress_folder else None

    def teardown(self) -> None:
        self._ended.set()  # where the job failed, shards may be under way
        super().teardown()
        self._syncing.shutdown(cancel_futures=True)
        if self._encoders is not None:
            self._encoders.shutdown(cancel_futures=True)

    def process(self, element: tuple[ShardKey, Iterable[pa.RecordBatch]], *side: Any) -> Iterator[Any]:
        shard, parts = element
        # Read here: a long group comes in pages, which only the thread that Beam called may ask for.
        yield from super().process((shard, list(parts)), *side)

    def start_bundle(self) -> None:
        super().start_bundle()
        self._written: list[ShardInfo] = []
        self._written_bytes = 0
        self._under_way: deque[Future[list[ShardInfo]]] = deque()

    def finish_bundle(self) -> Iterator[Any]:
        yield from super().finish_bundle()
        self._sync()
        while self._under_way:
            yield from map(windowed, map(self._counted, self._under_way.popleft().result()))
        if self._progress is not None:
            self._progress.flush()

    def emit(self, items: Iterable[Any]) -> Iterator[Any]:
        """Rejects at once, and shards once they are on their disk, for which nobody waits who writes others."""
        for item in items:
            if not isinstance(item, ShardInfo):
                yield item
                continue
            self._written.append(item)
            self._written_bytes += item.size_bytes
            if self._written_bytes >= _SYNC_BYTES:
                self._sync()
        while len(self._under_way) > SHARDS_AT_ONCE:
            yield from map(self._counted, self._under_way.popleft().result())

    def _sync(self) -> None:
        """Begin to wait for the disk of what was written, while others are encoded, and not of all at once when they
        are published."""
        self._under_way.append(self._syncing.submit(_synced, self._written))
        self._written, self._written_bytes = [], 0

    def _counted(self, info: ShardInfo) -> ShardInfo:
        """`info`, counted: not in the thread that wrote the shard, whose metrics Beam does not know."""
        self._examples.inc(info.examples)
        self._rejected.inc(info.rejected)
        self._bytes.inc(info.size_bytes)
        if info.piece is not None:
            self._reused.inc(info.piece.reused)
        return info

    def _write_shard(
        self,
        element: tuple[ShardKey, list[pa.RecordBatch]],
        divisions: Divisions,
        temporary: str,
        source: Any,  # a ShardSource; Beam checks annotations, and cannot check protocols
    ) -> list[Any]:
        """The rejects of one shard, tagged, and its ShardInfo."""
        (split, shard), parts = element
        name = ShardName(self._name, split, shard, divisions[split].parts, self._codec, self._template)
        planned, tasks = source.plan(parts)
        # The prefix is the sink's file path prefix plus the split, as it is in the final name. The random part keeps
        # attempts apart: a retried or speculative one must never write to another's file.
        attempt = f"{shard:05d}-{uuid.uuid4().hex}"
        file = TemporaryFile(self._sink, temporary, f"{shard_prefix(self._name, split, self._codec)}-{attempt}")
        blocks = _WRITE_BYTES if storage.is_local(temporary) else _PART_BYTES
        output = _ShardFile(file, self._codec, blocks)
        stats: SplitStats | None = None
        examples = framed_bytes = made_of = 0
        is_made_of_others, noted = False, Counter[str]()
        rejects = RejectsWriter(temporary)
        rejected = 0
        pieces, contents, looks = PieceWriter(), ContentsWriter(), LooksWriter()
        gatherer = Gatherer(self._analysis, storage.join(temporary, gather.FOLDER)) if self._analysis else None
        try:
            for chunk in map_in_order(self._encoders, source.encode, tasks, self._window):
                output.write(chunk.framed)
                if isinstance(chunk.stats, Located):
                    chunk.stats.lie_in(str(name), framed_bytes)
                pieces.add(chunk, framed_bytes)
                contents.add(chunk.contents)
                looks.add(chunk.looks, framed_bytes)
                if gatherer is not None:
                    gatherer.add_columns(chunk.columns, chunk.examples, split)
                framed_bytes += len(chunk.framed)
                if stats is None:
                    stats = chunk.stats
                elif chunk.stats is not None:
                    stats.merge(chunk.stats)
                examples += chunk.examples
                is_made_of_others |= chunk.made_of is not None
                noted += chunk.noted
                made_of += chunk.examples if chunk.made_of is None else chunk.made_of
                rejects.add(chunk.rejects)
                rejected += len(chunk.rejects)
                if self._ended.is_set():
                    raise CancelledError
                if self._progress is not None:
                    self._progress.add(chunk.examples + len(chunk.rejects), len(chunk.framed))
            output.finish()
        except BaseException:
            with suppress(Exception):  # which would hide why it is abandoned
                file.abandon()
            raise
        path = file.close()
        piece = pieces.write(storage.join(storage.join(temporary, _PIECES), f"{split}-{attempt}{PIECE_SUFFIX}"))
        section = contents.write(storage.join(storage.join(temporary, _CONTENTS), f"{split}-{attempt}"), split)
        seen = looks.write(storage.join(storage.join(temporary, _LOOKS), f"{split}-{attempt}"), split, str(name))
        left_out = rejects.close()
        written = (output.size_bytes, output.crc32c, stats, piece, section, seen)
        info = ShardInfo(name, path, planned, examples, rejected, *written)
        if is_made_of_others:
            info = replace(info, made_of=made_of, noted=dict(noted))
        if gatherer is not None:
            info = replace(info, gathered=gatherer.close())
        return [*(beam.pvalue.TaggedOutput(REJECTS, part) for part in left_out), info]


def _synced(shards: list[ShardInfo]) -> list[ShardInfo]:
    """Shards, when they are on their disk."""
    storage.sync_files([info.temporary for info in shards])
    return shards


class _ShardFile:
    """Gathers small writes into large ones, encodes them as the file has them; keeps size and crc32c of the outcome."""

    def __init__(self, file: TemporaryFile, codec: Codec, block_bytes: int) -> None:
        self._file, self._encoder, self._block_bytes = file, codec.encoder(), block_bytes
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self.size_bytes = self.crc32c = 0

    def write(self, data: bytes) -> None:
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= self._block_bytes:
            self._flush()

    def finish(self) -> None:
        self._flush()
        self._put(self._encoder.end())

    def _flush(self) -> None:
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._pending, self._pending_bytes = [], 0
        self._put(self._encoder.add(data))

    def _put(self, data: bytes) -> None:
        self.crc32c = google_crc32c.extend(self.crc32c, data)
        self.size_bytes += len(data)
        self._file.write(data)
