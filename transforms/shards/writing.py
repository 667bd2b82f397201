"""PTransforms that write shards."""

import tempfile
import threading
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import apache_beam as beam
import google_crc32c
from apache_beam.io.filebasedsink import FileBasedSink
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsSingleton

from shardmill.data.codecs import PLAIN_CODEC, Codec
from shardmill.metadata import file_names
from shardmill.metadata.file_names import ShardName, shard_prefix
from shardmill.transforms.analysis import Analysis
from shardmill.transforms.execution.pool import count_usable_workers, offload
from shardmill.transforms.execution.running import INLINE, ThreadedFlatMap, Threads, find_reporter, map_in_order
from shardmill.transforms.shards.balance import ShardKey
from shardmill.transforms.shards.divisions import Divisions
from shardmill.transforms.shards.sources import PIECE_SUFFIX, IndexPiece, PieceWriter, ShardInfo, ShardSource
from shardmill.transforms.statistics.contents import ContentsWriter
from shardmill.transforms.statistics.files import LocatedStats, SplitStats
from shardmill.transforms.stores import local, storage
from shardmill.transforms.stores.clients import prepare_clients
from shardmill.transforms.stores.patience import call_with_retries
from shardmill.transforms.workers.elements import in_global_window, load
from shardmill.transforms.workers.rejects import RejectsWriter
from shardmill.transforms.workers.resources import core_count


def get_sink(write: beam.io.WriteToTFRecord) -> FileBasedSink:
    """Return the sink that the constructor of `write` made; raise a TypeError if Beam keeps something else there."""
    sink = write._sink
    if not isinstance(sink, FileBasedSink):
        raise TypeError(f"beam.io.WriteToTFRecord keeps a {type(sink).__name__} as its sink; expected a FileBasedSink")
    return sink


class TemporaryFile:
    """A temporary file without record framing, written by a sink, or by the store's own upload if it has one."""

    def __init__(self, sink: FileBasedSink, directory: str, name: str) -> None:
        """Create the file in `directory`; the sink appends at most a suffix to `name`."""
        self.path = storage.join(directory, name)  # except for the suffix
        self._upload = storage.upload(self.path)
        self._writer: Any = sink.open_writer(directory, name) if self._upload is None else None

    def write(self, data: bytes) -> None:
        """Append bytes; raises OSError with the file's name."""
        with local.add_path_to_errors(self.path):
            if self._upload is not None:
                self._upload.write(data)
                return
            view = memoryview(data).cast("B")
            for start in range(0, len(view), local.PIECE_BYTES):
                self._writer.temp_handle.write(view[start : start + local.PIECE_BYTES])

    def close(self) -> str:
        """Finish the file and return its path; raises as `write`."""
        with local.add_path_to_errors(self.path):
            if self._upload is None:
                return str(self._writer.close())
            self._upload.close()
            return self.path

    def abandon(self) -> None:
        """Stop writing; the file's folder will be deleted later. Raises OSError."""
        if self._upload is None:
            self.close()
        else:
            self._upload.abandon()


REJECTS = "rejects"
_COUNTERS = "examples_written", "records_rejected", "bytes_written", "files_reused"
_WRITE_BYTES = 1 << 18  # to a local disk at once; larger chunks are not copied before
_SHARDS_A_WORKER = 2  # from which worker processes write whole shards: with fewer, most would wait for the last shard
_PART_BYTES = 8 << 20  # stores take what they are given as a request
# The folders of what is remembered of files, of what they hold, of observations of images, and of where records are
_PIECES, _CONTENTS, _OBSERVED, _INDEXES = "files", "contents", "observed", "positions"
SHARDS_AT_ONCE = 2  # by each worker: one file takes the bytes of one thread at a time
SYNC_BYTES = 8 << 20  # of shards whose disk is waited for together: of thousands of small ones, not of each


@dataclass(eq=False)
class WriteShards(beam.io.WriteToTFRecord):
    """Write shards to a temporary directory: ((split, shard), its batches) -> ShardInfo, and tagged `rejects`."""

    directory: str  # version directory of the data set
    name: str  # of the data set
    source: ShardSource | beam.PCollection[ShardSource]  # a singleton PCollection if it depends on the input
    divisions: beam.PCollection[Divisions]  # of the splits, which give their numbers of shards
    temporary: str  # directory of the shards until publishing, which checks and renames them
    codec: Codec = PLAIN_CODEC
    template: str = file_names.DEFAULT_TEMPLATE  # of the shards' names
    threads: Threads = INLINE  # that encode in each worker; 1 encodes in the threads that write shards
    progress_folder: str | None = None  # in which workers on the launcher's machine report progress
    analysis: Analysis | None = None  # of all examples, which gathers from the columns of chunks
    shards_at_once: int = SHARDS_AT_ONCE  # that each worker writes
    index: bool = False  # write the positions of the records, too
    encoding_lock_share: float = 0.0  # of encoding, which worker processes may do for few shards; see `offload`

    def __post_init__(self) -> None:
        path = storage.join(self.directory, self.name)
        # Compression is done here, not by the sink: the crc32c must cover the bytes on disk.
        uncompressed = CompressionTypes.UNCOMPRESSED
        super().__init__(path, file_name_suffix=self.codec.suffix, compression_type=uncompressed)
        naming = partial(ShardName, self.name, codec=self.codec, template=self.template)
        threads = self.threads if storage.is_local(self.temporary) else self.threads._replace(lock_share=0.0)
        writer = _ShardWriter(
            get_sink(self), naming, self.progress_folder, self.analysis, self.index, self.encoding_lock_share
        )
        self._write = _WriteShardFn(writer, threads, self.shards_at_once)

    # Any: batches, or what the source unpacks
    def expand(self, pcoll: beam.PCollection[tuple[ShardKey, Iterable[Any]]]) -> Any:
        source = AsSingleton(self.source) if isinstance(self.source, beam.PCollection) else self.source
        write = beam.ParDo(self._write, AsSingleton(self.divisions), self.temporary, source)
        return pcoll | "WriteShard" >> write.with_outputs(REJECTS, main="shards")


class _WriteShardFn(ThreadedFlatMap):
    """Writes several shards at a time; shared threads encode their records ahead, or a worker process writes each."""

    def __init__(self, writer: "_ShardWriter", threads: Threads, shards_at_once: int) -> None:
        super().__init__(writer.write, Threads(shards_at_once, threads.lock_share))
        self._writer, self._wanted_encoders, self._shards_at_once = writer, threads.number, shards_at_once
        self._counters = [Metrics.counter("shardmill", name) for name in _COUNTERS]

    def setup(self) -> None:
        super().setup()
        prepare_clients()
        count = self._wanted_encoders or core_count()  # of the worker, not of the launcher
        self._encoders = encoders = ThreadPoolExecutor(count, "shardmill-encode") if count > 1 else None
        self._here = replace(self._writer, encoders=encoders, window=count + 1, ended=threading.Event())
        self._turns = threading.Semaphore(self._shards_at_once)
        self._syncing = ThreadPoolExecutor(SHARDS_AT_ONCE, "shardmill-sync-shards")

    def teardown(self) -> None:
        self._here.ended.set()  # where the job failed, shards may be under way
        super().teardown()
        self._syncing.shutdown(cancel_futures=True)
        if self._encoders is not None:
            self._encoders.shutdown(cancel_futures=True)

    def choose(self, side: tuple[Any, ...]) -> tuple[Callable[..., list[Any]], float]:
        """Write whole shards in worker processes if there are enough; else threads of this process share each shard."""
        shards = sum(division.parts for division in side[0].values())
        self._is_elsewhere = 0 < _SHARDS_A_WORKER * count_usable_workers(self.threads.lock_share) <= shards
        if self._is_elsewhere:
            return partial(call_with_retries, self._writer.write), self.threads.lock_share
        return self._write_here, 0.0

    def _write_here(self, *arguments: Any) -> list[Any]:
        with self._turns:
            return call_with_retries(self._here.write, *arguments)

    def process(self, element: tuple[ShardKey, Iterable[Any]], *side: Any) -> Iterator[Any]:
        (shard, parts), _ = element, self.bind(side)
        # Read here: a long group comes in pages, which only the thread that Beam called may ask for.
        found = [load(part) if self._is_elsewhere and isinstance(part, bytes) else part for part in parts]
        yield from super().process((shard, found), *side)

    def start_bundle(self) -> None:
        super().start_bundle()
        self._written: list[ShardInfo] = []
        self._written_bytes = 0
        self._under_way: deque[Future[list[ShardInfo]]] = deque()

    def finish_bundle(self) -> Iterator[Any]:
        yield from super().finish_bundle()
        self._sync()
        while self._under_way:
            yield from map(in_global_window, map(self._count_progress, self._under_way.popleft().result()))

    def emit(self, items: Iterable[Any]) -> Iterator[Any]:
        """Emit rejects at once, and shards after they are synced to disk; other shards are written meanwhile."""
        for item in items:
            if not isinstance(item, ShardInfo):
                yield item
                continue
            self._written.append(item)
            self._written_bytes += item.size_bytes
            if self._written_bytes >= SYNC_BYTES:
                self._sync()
        while len(self._under_way) > SHARDS_AT_ONCE:
            yield from map(self._count_progress, self._under_way.popleft().result())

    def _sync(self) -> None:
        """Start syncing written shards while others are encoded, so that publishing need not sync all at once."""
        self._under_way.append(self._syncing.submit(_sync_shards, self._written))
        self._written, self._written_bytes = [], 0

    def _count_progress(self, info: ShardInfo) -> ShardInfo:
        # Beam's metrics do not work in the thread that wrote the shard.
        reused = 0 if info.piece is None else info.piece.reused
        for counter, count in zip(self._counters, (info.examples, info.rejected, info.size_bytes, reused), strict=True):
            counter.inc(count)
        return info


@dataclass(frozen=True)
class _ShardWriter:
    """Writes a shard with threads of the process that has set them; a copy in a worker process has none."""

    sink: FileBasedSink
    naming: Callable[[str, int, int], ShardName]  # given the split, shard and number of shards
    progress_folder: str | None
    analysis: Analysis | None
    has_index: bool
    encoding_lock_share: float
    encoders: ThreadPoolExecutor | None = None
    window: int = 1  # tasks encoded ahead
    ended: Any = None  # an event that is set once the job has ended

    def write(
        self,
        element: tuple[ShardKey, list[Any]],
        divisions: Divisions,
        temporary: str,
        source: Any,  # a ShardSource; Beam checks annotations, and cannot check protocols
    ) -> list[Any]:
        """Write the shard of (shard, its batches); return its rejects and ShardInfo."""
        (split, shard), parts = element
        name = self.naming(split, shard, divisions[split].parts)
        planned, tasks = source.plan(parts)
        encode = offload(source.encode, self.encoding_lock_share)
        # The prefix is the sink's file path prefix plus the split, as it is in the final name. The random part keeps
        # attempts apart: a retried or speculative one must never write to another's file.
        attempt = f"{shard:05d}-{uuid.uuid4().hex}"
        file = TemporaryFile(self.sink, temporary, f"{shard_prefix(name.name, split, name.codec)}-{attempt}")
        output = _ShardFile(file, name.codec, _WRITE_BYTES if storage.is_local(temporary) else _PART_BYTES)
        stats: SplitStats | None = None
        examples = framed_bytes = made_of = 0
        is_made_of_others, noted = False, Counter[str]()
        rejects, rejected = RejectsWriter(temporary), 0
        pieces, contents, observations = PieceWriter(), ContentsWriter(), list[tuple[int, Any]]()
        progress = find_reporter(self.progress_folder) if self.progress_folder else None
        positions = None
        if self.has_index:
            from shardmill.data.shard_index import TEXT_SUFFIX, IndexBuilder

            positions = IndexBuilder()
        gatherer = None if self.analysis is None else self.analysis.gatherer(temporary)
        try:
            for chunk in map_in_order(self.encoders, encode, tasks, self.window):
                output.write(chunk.framed)
                if positions is not None:
                    positions.add(chunk.framed)
                if isinstance(chunk.stats, LocatedStats):
                    chunk.stats.move_to_shard(str(name), framed_bytes)
                pieces.add(chunk, framed_bytes)
                contents.add(chunk.contents)
                if chunk.observations is not None:
                    observations.append((framed_bytes, chunk.observations))
                if gatherer is not None:
                    gatherer.add(chunk.columns, split, chunk.examples)
                framed_bytes += len(chunk.framed)
                if stats is None:
                    stats = chunk.stats
                elif chunk.stats is not None:
                    stats.merge(chunk.stats)
                examples += chunk.examples
                is_made_of_others |= chunk.input_records is not None
                noted += chunk.notice_counts
                made_of += chunk.examples if chunk.input_records is None else chunk.input_records
                rejects.add(chunk.rejects)
                rejected += len(chunk.rejects)
                if self.ended is not None and self.ended.is_set():
                    raise CancelledError
                if progress is not None:
                    progress.add(chunk.examples + len(chunk.rejects), len(chunk.framed))
            output.finish()
            if progress is not None:
                progress.flush()
        except BaseException:
            with suppress(Exception):  # which would hide why it is abandoned
                file.abandon()
            raise
        path = file.close()
        piece = pieces.write(storage.join(temporary, _PIECES, f"{split}-{attempt}{PIECE_SUFFIX}"))
        section = contents.write(storage.join(temporary, _CONTENTS, f"{split}-{attempt}"), split)
        observed = index = None
        if observations:
            from shardmill.transforms.statistics.observations import ObservedShard

            place = storage.join(temporary, _OBSERVED, f"{split}-{attempt}")
            observed = ObservedShard.write(observations, place, split, str(name))
        if positions is not None:
            place = storage.join(temporary, _INDEXES, f"{split}-{attempt}{TEXT_SUFFIX}")
            index = IndexPiece.write(place, positions.build())
        input_records = made_of if is_made_of_others else None
        written = (output.size_bytes, output.crc32c, stats, piece, section, observed, input_records, dict(noted))
        gathered = None if gatherer is None else gatherer.close()
        info = ShardInfo(name, path, planned, examples, rejected, *written, gathered, index)
        return [*(beam.pvalue.TaggedOutput(REJECTS, part) for part in rejects.close()), info]


def _sync_shards(shards: list[ShardInfo]) -> list[ShardInfo]:
    storage.sync_files([info.temporary for info in shards])
    return shards


class _ShardFile:
    """Collects small writes into large ones, encodes them, and computes size and crc32c of the result."""

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
        with local.add_path_to_errors(tempfile.gettempdir()):
            data = self._encoder.flush()
        self._put(data)

    def _flush(self) -> None:
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._pending, self._pending_bytes = [], 0
        with local.add_path_to_errors(tempfile.gettempdir()):  # to which some encoders write
            data = self._encoder.compress(data)
        self._put(data)

    def _put(self, data: bytes) -> None:
        self.crc32c = google_crc32c.extend(self.crc32c, data)
        self.size_bytes += len(data)
        self._file.write(data)
