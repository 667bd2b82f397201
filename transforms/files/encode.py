"""From references to files to framed examples, whatever the files hold: read, check, reject, serialize. Pure but for
reading."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import pyarrow as pa

from shardmill.features.renames import Renames
from shardmill.metadata.rejects import Reject
from shardmill.records import example
from shardmill.transforms.contents.hashes import digest
from shardmill.transforms.contents.looks import Looks
from shardmill.transforms.contents.of_files import FileContents
from shardmill.transforms.examples.encode import MAX_RECORD_BYTES
from shardmill.transforms.examples.framing import HEADER_BYTES, Framing
from shardmill.transforms.files.noted_columns import Columns, noted_columns, noted_stats
from shardmill.transforms.files.references import LABELS
from shardmill.transforms.inputs.manifests.given import line_of
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.statistics.files import SplitStats, count_labels
from shardmill.transforms.statistics.noted import NotedStats
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import error_text
from shardmill.transforms.stores.failures import raise_if_store_failed
from shardmill.transforms.writing.source import EncodedChunk


class Encoded(NamedTuple):
    """What becomes of one file; a tuple, for a frozen dataclass takes three times as long to make.

    Attributes:
      value: what is stored of its bytes.
      entries: serialized, of the features that follow its name.
      seen: what statistics are to count beside.
      noted: what was made of what is noted of it.
    """

    value: bytes
    entries: bytes = b""
    seen: Any = None
    noted: Any = None


@dataclass(frozen=True, slots=True)
class Remembered:
    """What became of a file in an older version.

    Attributes:
      value: what was stored of its bytes.
      seen: what `FileEncoder.remember` made of what was counted beside.
      reason: why it was rejected, if it was.
      record: all of the example, framed.
    """

    value: bytes = b""
    seen: str = ""
    reason: str | None = None
    record: bytes = b""


class Place(NamedTuple):
    """Where a file's record lies among others: as transforms.writing.remembered.REMEMBERED, from `offset` on."""

    offset: int | None = None
    length: int | None = None
    value_offset: int | None = None
    value_length: int | None = None
    seen: str | None = None
    reason: str | None = None


# Where the record of a file lies among others: (the file's name, offset, length), in bytes with the record's frame.
Laid = tuple[str, int, int]


class _Names(NamedTuple):
    """What the features that all files have are called in examples."""

    value: str
    label: str
    filename: str


class FileEncoder(ABC):
    """Encodes references as tf.train.Example: the file's value, label, filename, what the kind adds, then a manifest's
    columns.

    A kind of files says what it does with one file, and what it counts.

    Attributes:
      root: the folder that names are relative to.
      feature: the feature of the value, before it is renamed.
      renames: what the features are called.
      columns: of a manifest, which statistics are to count; see `of_layout`.
      refusal: the exception by which the kind refuses a file; its text stands in rejects/.
      said: the options that rejects alone tell of.
      max_bytes: of a record as planned: a file of which more would become is refused unread, for it would fill the
        memory.
    """

    root: str
    feature: str
    renames: Renames
    columns: Columns = ()
    refusal: ClassVar[type[Exception]]
    said: ClassVar[tuple[str, ...]] = ()
    max_bytes: ClassVar[int] = MAX_RECORD_BYTES

    def of_layout(self, layout: Layout) -> Self:
        """The encoder for the files of an input."""
        columns = tuple(layout.columns.items())
        return replace(self, columns=columns) if columns else self  # type: ignore[type-var]

    @abstractmethod
    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        """What becomes of the file at `path`; `data` is what it holds, where it was read already.

        Raises:
          Exception: the kind's `refusal`: the file is no good.
          OSError: it cannot be read.
        """

    @abstractmethod
    def count(self, files: Sequence[Encoded], labels: Counter[int]) -> SplitStats:
        """The statistics of some files; `labels` are theirs by id."""

    def point_out(self, stats: SplitStats, files: Sequence[Encoded], laid: Sequence[Laid]) -> SplitStats:
        """The statistics of some files with where those lie that are to be looked at; as they are, unless the kind says
        which."""
        return stats

    def looks(self, files: Sequence[Encoded]) -> list[str] | None:
        """How each file looks, see shardmill.transforms.contents.looks; None where nobody asked."""
        return None

    def remember(self, encoded: Encoded) -> str:
        """What `recall` needs beside the value; nothing, unless the kind counts more."""
        return ""

    def recall(self, value: bytes, seen: str, record: bytes = b"") -> Encoded:
        """What became of a file, from its value, what `remember` made, and the example that it was in, framed."""
        return Encoded(value)

    def prepare(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The planned files of a shard with all that can be made of what is noted of them before they are read; as they
        are, unless the kind says what."""
        return batch

    def note(self, batch: pa.RecordBatch, files: Sequence[Encoded | Exception]) -> Sequence[Encoded | Exception]:
        """What becomes of the files of a batch from `prepare` with what it notes of them beside their columns; as they
        are, unless the kind says what.

        An exception, the kind's `refusal`, stands for a file that is no good: itself, or by what is noted of it.
        """
        return files

    def depends_on(self) -> dict[str, str]:
        """All options that what becomes of a file depends on, beside the file; where it is not."""
        no = ("root", "renames", "columns", *self.said)
        own = {item.name: str(getattr(self, item.name)) for item in fields(self) if item.name not in no}  # type: ignore[arg-type]
        return {"kind": type(self).__name__, **own}

    def reasons_depend_on(self) -> dict[str, str]:
        """All options that the reasons of rejects depend on beside."""
        return {name: str(getattr(self, name)) for name in self.said}

    def __call__(self, batch: pa.RecordBatch) -> EncodedChunk:
        """Encode the files of a PLANNED batch, in their order."""
        return self.encode_batch(self.prepare(batch), [None] * len(batch))[0]

    def encode_batch(
        self, batch: pa.RecordBatch, known: Sequence[Remembered | None], remembers: bool = False
    ) -> tuple[EncodedChunk, list[Place | None]]:
        """Encode the files of a PLANNED batch from `prepare`, in their order; what is `known` of one is not read.

        Returns:
          The records, and where each file's lies, if the call `remembers`; None of a file that may be good another
          time.
        """
        framing = Framing()
        rejects: list[Reject] = []
        files: list[Encoded] = []
        laid: list[Laid] = []
        held: list[tuple[str, int | None, bytes, int | None]] = []
        columns_of: list[bytes] = []
        labels: Counter[int] = Counter()
        places: list[Place | None] = []
        offset = 0
        names = _Names(self.renames(self.feature), self.renames("label"), self.renames("filename"))
        label_of = LABELS.name if LABELS.name in batch.schema.names else "label"
        rows = (batch[name].to_pylist() for name in ("name", label_of, "line", "columns"))
        paths = self._paths(batch)
        tried = list(map(self._tried, paths, self._read(paths, known), batch["size"].to_pylist(), known))
        noted = self.note(batch, tried)
        for before, encoded, name, label, line, entries in zip(tried, noted, *rows, strict=True):
            try:
                if isinstance(encoded, Exception):
                    raise encoded
                record = self._record(names, name, encoded, label, entries or b"")
                if (grown := sum(map(len, record))) > MAX_RECORD_BYTES:
                    raise self.refusal(f"{grown:,} bytes once encoded; an example holds {MAX_RECORD_BYTES:,} at most")
            except (self.refusal, OSError) as error:
                rejects.append(Reject(name, line, "write", _reason(error)))
                # What is noted of a file may be right another time, although the file stays as it is
                lasts = (encoded is before or isinstance(before, Exception)) and not isinstance(error, OSError)
                places.append(Place(reason=_reason(error)) if lasts else None)
                continue
            length = framing.add(record)
            if remembers:
                start = HEADER_BYTES + len(record[0])
                places.append(Place(offset, length, start, len(encoded.value), self.remember(encoded)))
            laid.append((name, offset, length))
            offset += length
            files.append(encoded)
            file = encoded if isinstance(before, Exception) else before  # what is noted of it is not what it holds
            # Whether labels quarrel is asked only where each file has one
            held.append(
                (name, line_of(line), digest(file.value, file.entries), None if isinstance(label, list) else label)
            )
            columns_of.append(entries or b"")
            count_labels(labels, label)
        stats: SplitStats = self.point_out(self.count(files, labels), files, laid)
        columns = noted_columns(self.columns, self.renames, columns_of) if self.columns else None
        if columns is not None:
            stats = _with_columns(stats, held, columns)
        contents = FileContents.of(*zip(*held, strict=True)) if held else None
        looks = self._looks(files, held, laid)
        chunk = EncodedChunk(
            framing.framed(), len(files), rejects, stats, contents=contents, looks=looks, columns=columns
        )
        return chunk, places

    def _paths(self, batch: pa.RecordBatch) -> list[str]:
        root = storage.join(self.root, "")
        return [uri or root + name for name, uri in zip(batch["name"].to_pylist(), batch["uri"].to_pylist())]

    def _read(self, paths: Sequence[str], known: Sequence[Remembered | None]) -> list[bytes | None]:
        """What the files hold, as far as that is read for many at once, and not `known`."""
        wanted = [place for place, former in enumerate(known) if former is None]
        data: list[bytes | None] = [None] * len(paths)
        for place, found in zip(wanted, storage.read_small([paths[place] for place in wanted]), strict=True):
            data[place] = found
        return data

    def _tried(self, path: str, data: bytes | None, size: int, former: Remembered | None) -> Encoded | Exception:
        """What becomes of a file, or why nothing does."""
        try:
            if size > self.max_bytes:
                raise self.refusal(f"{size:,} bytes as an example, which holds {self.max_bytes:,} at most")
            return self.encode_file(path, data) if former is None else self._recalled(former)
        except self.refusal as error:
            return error
        except OSError as error:
            raise_if_store_failed(error, path)
            return error

    def _looks(
        self, files: Sequence[Encoded], held: Sequence[tuple[str, int | None, bytes, int | None]], laid: Sequence[Laid]
    ) -> Looks | None:
        found = self.looks(files)
        if not found:
            return None
        names, lines, digests, _ = zip(*held, strict=True)
        return Looks.of(found, digests, names, lines, [place for _, *place in laid])

    def _recalled(self, former: Remembered) -> Encoded:
        """What became of a file that is known, without reading it; raises as `encode_file`."""
        if former.reason is not None:
            raise self.refusal(former.reason)
        return self.recall(former.value, former.seen, former.record)

    def entry_header(self, name: str, size: int) -> bytes:
        """What precedes a value of `size` bytes in its entry: that of a bytes_list."""
        return example.bytes_entry_header(name, size)

    def _record(
        self, names: _Names, name: str, encoded: Encoded, label: int | list[int] | None, entries: bytes
    ) -> tuple[bytes, bytes, bytes]:
        """What stands before the value, the value, and what follows it."""
        filename, size = name.encode(), len(encoded.value)
        after = (
            label_entry(names.label, tuple(label) if isinstance(label, list) else label)
            + filename_header(names.filename, len(filename))
            + filename
        )
        after += encoded.entries + entries
        before = self.entry_header(names.value, size)
        return example.example_header(len(before) + size + len(after)) + before, encoded.value, after


@lru_cache(maxsize=4096)
def label_entry(name: str, label: int | tuple[int, ...] | None) -> bytes:
    """The entry of a label by id, or of a list of them; nothing for none."""
    if label is None:
        return b""
    return example.entry(name, example.int64_feature(label if isinstance(label, tuple) else [label]))


# Names of files are of few lengths, where their values' have as many as there are files.
filename_header = lru_cache(maxsize=4096)(example.bytes_entry_header)


def _with_columns(
    stats: SplitStats, held: Sequence[tuple[str, int | None, bytes, int | None]], columns: pa.RecordBatch
) -> SplitStats:
    """The statistics of some files, with those of a manifest's columns."""
    names, lines, _, labels = zip(*held, strict=True) if held else ((),) * 4
    return NotedStats(stats, noted_stats(columns, labels, names, lines))


def _reason(error: Exception) -> str:
    """Why a file could not be read, as it will stand in rejects/."""
    if isinstance(error, FileNotFoundError):
        return "no such file: it vanished after it was listed"
    if isinstance(error, OSError):
        return f"cannot be read: {error_text(error)}"
    return str(error)
