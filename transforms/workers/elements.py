"""Encode, gather, merge and distribute elements of PCollections."""

import math
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self

import apache_beam as beam
import pyarrow as pa
import xxhash
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindows

from shardmill.transforms.findings import merge_all, merged
from shardmill.transforms.workers.resources import Spool

_PLACE = struct.Struct("<4Q")  # of a batch on disk: _ON_DISK, the number of its file, its offset and its bytes
_ON_DISK = (1 << 64) - 1  # where a batch in memory begins with its size
_disks: dict[int, Spool] = {}  # files of jobs that run in this process, by number
_number = ContextVar("number", default=0)  # of the file of the job that runs in this context; 0 for none


@contextmanager
def keep_on_disk() -> Iterator[None]:
    """Keep batches between steps in a temporary file, for pipelines that run in this context and this process alone."""
    number = uuid.uuid4().int >> 64
    _disks[number], before = Spool(), _number.set(number)
    try:
        yield
    finally:
        _number.reset(before)
        del _disks[number]


class RecordBatchCoder(beam.coders.Coder):
    """A coder that stores one batch as a compressed Arrow IPC stream, or as its place in the file of a `number`."""

    _CODEC = pa.Codec("zstd", compression_level=1)  # level 3 takes twice the time, and makes a fifth less of names
    _SIZE = struct.Struct("<Q")  # of the stream, which Arrow's codecs require

    def __init__(self, number: int = 0) -> None:
        self._number = number

    @classmethod
    def from_type_hint(cls, typehint: Any, registry: Any) -> Self:  # where a pipeline is run
        return cls(_number.get())

    def encode(self, value: pa.RecordBatch) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_batch(value)
        stream = sink.getvalue()  # compressed as a whole: most batches are small, and mostly metadata
        encoded = self._SIZE.pack(stream.size) + self._CODEC.compress(stream, asbytes=True)
        disk = _disks.get(self._number)
        return encoded if disk is None else _PLACE.pack(_ON_DISK, self._number, disk.append(encoded), len(encoded))

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        encoded = load(encoded)
        (size,) = self._SIZE.unpack_from(encoded)
        stream = self._CODEC.decompress(memoryview(encoded)[self._SIZE.size :], size)
        return pa.ipc.open_stream(stream).read_next_batch()

    def estimate_size(self, value: pa.RecordBatch) -> int:
        """Return the approximate size; by default Beam would encode the batch several times per step for this."""
        return int(value.nbytes)

    def to_type_hint(self) -> Any:
        return pa.RecordBatch


beam.coders.registry.register_coder(pa.RecordBatch, RecordBatchCoder)


def load(encoded: bytes) -> bytes:
    """Return an encoded batch as bytes, also if only its place on disk is given."""
    mark, number, offset, length = _PLACE.unpack(encoded) if len(encoded) == _PLACE.size else (0, 0, 0, 0)
    return encoded if mark != _ON_DISK else b"".join(_disks[number].chunks(offset, length, length))


def in_global_window(item: Any) -> Any:
    """Return an element, or a TaggedOutput of one, as `finish_bundle` must emit it."""
    if isinstance(item, TaggedOutput):
        return TaggedOutput(item.tag, in_global_window(item.value))
    return GlobalWindows.windowed_value(item)


class GatherFn(beam.DoFn):
    """Gathers elements, and emits what `make` returns for them before they get too large and when the bundle ends."""

    def __init__(
        self,
        make: Callable[..., Iterable[Any]],
        size_of: Callable[[Any], float] = lambda _: 1,
        max_size: float | Callable[..., float] = math.inf,
    ) -> None:
        """Gather elements for `make(elements, *side inputs)`.

        `max_size`, or what it returns for the side inputs, limits their total `size_of`; a larger element is alone.
        """
        self._make, self._size_of, self._most = make, size_of, max_size

    def start_bundle(self) -> None:
        self._held: list[Any] = []
        self._size: float = 0
        self._side: tuple[Any, ...] = ()

    def process(self, element: Any, *side: Any) -> Iterator[Any]:
        """Gather one element; if it does not fit, emit the earlier ones first."""
        size = self._size_of(element)
        self._side = side  # the same for all of a bundle, because finish_bundle gets no side inputs
        most = self._most(*side) if callable(self._most) else self._most
        if self._held and self._size + size > most:
            yield from self._flush()
        self._held.append(element)
        self._size += size

    def finish_bundle(self) -> Iterator[Any]:
        if self._held:
            yield from map(in_global_window, self._flush())

    def _flush(self) -> Iterable[Any]:
        held, self._held, self._size = self._held, [], 0
        return self._make(held, *self._side)


class MergeFn(beam.CombineFn):
    """Merges elements, which it does not change, starting from `empty()`: linear, where `merge_all` copies anew."""

    def __init__(self, empty: Callable[[], Any]) -> None:
        super().__init__()
        self._empty = empty

    def create_accumulator(self) -> Any:
        return self._empty()

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return merged(accumulator, element)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return merge_all(accumulators, self._empty)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


class Spread(beam.PTransform):
    """Distribute elements by a hash of their names, so that a repeated attempt sends them to the same workers.

    Elements of one name stay together.
    """

    def __init__(self, name_of: Callable[[Any], str]) -> None:
        super().__init__()
        self._name_of = name_of

    def expand(self, pcoll: beam.PCollection[Any]) -> beam.PCollection[Any]:
        keyed = pcoll | "ByName" >> beam.Map(_key_by_name, self._name_of).with_output_types(tuple[int, Any])
        grouped = keyed | "Spread" >> beam.GroupByKey()
        return grouped | "Elements" >> beam.FlatMap(lambda group: group[1]).with_output_types(Any)


def _key_by_name(element: Any, name_of: Callable[[Any], str]) -> tuple[int, Any]:
    return xxhash.xxh32_intdigest(name_of(element).encode(errors="surrogateescape")), element
