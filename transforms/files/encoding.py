"""Encode batches of files as examples: what all kinds of files share, and texts."""

import errno
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa

from shardmill.data import example
from shardmill.data.example import example_header
from shardmill.data.features import NO_RENAMES, DType, Feature, Features, Renames
from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.quality.stats_file import FeatureSummary
from shardmill.reading.plain_examples import ExampleDecoder
from shardmill.transforms.columns.arrow import arrow_type
from shardmill.transforms.columns.example_bytes import HEADER_BYTES, RecordFramer
from shardmill.transforms.columns.example_encoding import MAX_RECORD_BYTES
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.files.references import LABELS
from shardmill.transforms.findings import Mergeable, Undecodable
from shardmill.transforms.formats.format import check_start
from shardmill.transforms.inputs import found_files
from shardmill.transforms.inputs.manifest_files import line_in_manifest
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.shards.balance import hash_strings
from shardmill.transforms.shards.sources import EncodedChunk
from shardmill.transforms.statistics.contents import FileContents, digest_content
from shardmill.transforms.statistics.files import ClassNames, ManifestStats, SplitStats, count_labels, summarize_labels
from shardmill.transforms.statistics.images import NumberStats
from shardmill.transforms.statistics.observations import SCHEMA
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import FileStat, NotAFileError, changed_error, error_text
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.workers.resources import find_memory_problem

MEMORY_FACTOR = 3  # times the size of files: as they were read, as they are stored, and framed
ManifestColumns = tuple[tuple[str, ColumnType], ...]  # by name
_LABEL = "label"


def decode_columns(columns: ManifestColumns, renames: Renames, entries: Sequence[bytes]) -> pa.RecordBatch:
    """Return a manifest's columns of several files as Arrow columns, from the Example entries that hold them."""
    decode = ExampleDecoder(tuple(_to_feature(renames(name), column) for name, column in columns))
    rows = [decode(example_header(len(entry)) + entry) for entry in entries]
    return pa.record_batch(
        {name: pa.array([row.get(renames(name)) for row in rows], arrow_type(column)) for name, column in columns}
    )


def column_stats(
    columns: pa.RecordBatch, labels: Sequence[int | None], names: Sequence[str], lines: Sequence[int | None]
) -> TableStats:
    """Return the statistics of a manifest's columns, given each file's class id, name and line in the manifest."""
    if not columns.num_rows:
        return TableStats()
    is_labelled = any(label is not None for label in labels)
    if is_labelled:
        columns = columns.append_column(_LABEL, pa.array(labels, pa.int64()))
    ties = hash_strings([f"{name}\0{line}" for name, line in zip(names, lines, strict=True)], 0)
    return TableStats.from_batch(columns, ties, [_LABEL] if is_labelled else ())


def _to_feature(name: str, column: ColumnType) -> Feature:
    dtype: DType = "int64" if column.dtype == "bool" else column.dtype
    return Feature(name, dtype, shape=() if column.length is None else (None,), required=False)


class Encoded(NamedTuple):
    """An encoded file: header, value and annotations. A frozen dataclass would take three times as long to create."""

    value: bytes  # stored bytes of the file
    entries: bytes = b""  # serialized features after the file name
    stats_data: Any = None  # further data for statistics
    annotations: Any = None  # encoded annotations, companions and the like
    observed: str = ""  # text that an add-on observed


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a previous version stored it."""

    value: bytes = b""  # stored bytes of the file
    remembered: str = ""  # text from `FileEncoder.remember`
    reason: str | None = None  # why it was rejected; None if it was not
    record: bytes = b""  # the whole example, framed


class RecordPlace(NamedTuple):
    """The place of a file's record in a chunk of records, for the index of files."""

    offset: int | None = None
    length: int | None = None
    value_offset: int | None = None
    value_length: int | None = None
    seen: str | None = None
    reason: str | None = None


# The place of each file's record among others: (the file's name, offset, length), in bytes with the record's frame.
RecordSpans = Sequence[tuple[str, int, int]]
_FileRow = tuple[str, int | None, bytes, int | None]  # name, line, digest of the content, and label


class FileEncoder(ABC):
    """Encoder of files as tf.train.Example: value, label, filename, the kind's features, manifest columns."""

    root: str  # folder that names are relative to
    feature: str  # feature of the value, before renames
    renames: Renames  # of features
    columns: ManifestColumns = ()  # of a manifest, for statistics; set by `of_layout`
    refusal: ClassVar[type[Exception]]  # exception that rejects a file; its text is written to rejects/
    reason_options: ClassVar[tuple[str, ...]] = ()  # options that only the reasons of rejects depend on
    # larger planned records are rejected unread, as they would fill the memory
    max_bytes: ClassVar[int] = MAX_RECORD_BYTES

    @property
    def is_compiled(self) -> bool:
        """True if `encode_compiled` encodes most files; by default False."""
        return False

    def of_layout(self, layout: Layout) -> Self:
        """Return the encoder for the files of an input."""
        columns = tuple(layout.columns.items())
        return replace(self, columns=columns) if columns else self  # type: ignore[type-var]

    @abstractmethod
    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        """Encode the file at `path`, whose bytes may be known; raise `refusal` if the file is invalid, or OSError."""

    def as_columns(self, encoded: Encoded) -> dict[str, Any]:
        """Return the columns that a function of --map gets for an encoded file; raise ValueError if there are none."""
        return {self.feature: encoded.value}

    @abstractmethod
    def count(self, files: Sequence[Encoded], labels: Counter[int], spans: RecordSpans) -> SplitStats:
        """Return the statistics of encoded files; `labels` counts the files of each class id, `spans` names them."""

    @abstractmethod
    def describe(
        self, summary: InputSummary, layout: Any, stats: Sequence[SplitStats] = (), for_tfds: bool = True
    ) -> tuple[Features, Sequence[str]]:
        """Return the features of the examples, in the order written, and notices, given each split's statistics.

        `summary` and `layout` are those of the input; `for_tfds` is False if TFDS does not read the data set.
        """

    def remember(self, encoded: Encoded) -> str:
        """Return the text that lets a later build restore this file without reading it; "" by default."""
        return ""

    def recall(self, value: bytes, remembered: str, record: bytes = b"") -> Encoded:
        """Restore an encoded file from its value, the text that `remember` returned, and its stored example."""
        return Encoded(value)

    def prepare(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add to a batch of planned files what is encoded before they are read; by default nothing."""
        return batch

    def annotate(self, batch: pa.RecordBatch, files: Sequence[Encoded | Exception]) -> Sequence[Encoded | Exception]:
        """Add annotations to encoded files, or an error in place of a file; by default nothing."""
        return files

    def depends_on(self) -> dict[str, str]:
        """Return all options that an encoded file depends on, apart from the file's location."""
        excluded = ("root", "renames", "columns", *self.reason_options)
        names = [item.name for item in fields(self) if item.name not in excluded]  # type: ignore[arg-type]
        options = {name: str(getattr(self, name)) for name in names}
        return {"kind": type(self).__name__, **options}

    def __call__(self, batch: pa.RecordBatch) -> EncodedChunk:
        """Encode a batch of planned files in order."""
        return self.encode_batch(self.prepare(batch), [None] * len(batch))[0]

    def encode_batch(
        self, batch: pa.RecordBatch, stored_files: Sequence[StoredFile | None], returns_places: bool = False
    ) -> tuple[EncodedChunk, list[RecordPlace | None]]:
        """Encode a batch of planned files in order; files that a previous version stored are not read.

        Return the records and, if requested, their places: None for a rejected file that may be valid another time.
        """
        if (compiled := self.encode_compiled(batch, stored_files, returns_places)) is not None:
            return compiled
        framing = RecordFramer()
        rejects: list[Reject] = []
        files: list[Encoded] = []
        spans: list[tuple[str, int, int]] = []
        file_rows: list[_FileRow] = []
        column_entries: list[bytes] = []
        labels: Counter[int] = Counter()
        places: list[RecordPlace | None] = []
        offset = 0
        feature_names = tuple(map(self.renames, (self.feature, "label", "filename")))
        label_column = LABELS.name if LABELS.name in batch.schema.names else "label"
        rows = [batch[name].to_pylist() for name in ("name", label_column, "line", "columns")]
        paths = self._list_paths(batch)
        with storage.note_objects() as objects:
            data, revisions = self._read(paths, stored_files)
            encoded_files = list(map(self._try_encode, paths, data, batch["size"].to_pylist(), stored_files))
            annotated_files = self.annotate(batch, encoded_files)
        self._check_unchanged(batch, stored_files, revisions, objects)
        for original, encoded, name, label, line, entries in zip(encoded_files, annotated_files, *rows, strict=True):
            try:
                if isinstance(encoded, Exception):
                    raise encoded
                record = self._frame_record(feature_names, name, encoded, label, entries or b"")
                if (size_bytes := sum(map(len, record))) > MAX_RECORD_BYTES:
                    raise self.refusal(
                        f"{size_bytes:,} bytes once encoded; an example holds {MAX_RECORD_BYTES:,} at most"
                    )
            except (self.refusal, OSError) as error:
                rejects.append(Reject(name, line, "write", describe_refusal(error)))
                # Annotations may be valid another time although the file stays the same
                is_own = encoded is original or isinstance(original, Exception)
                is_permanent = is_own and not isinstance(error, OSError)
                places.append(RecordPlace(reason=describe_refusal(error)) if is_permanent else None)
                continue
            length = framing.add(record)
            if returns_places:
                start = HEADER_BYTES + len(record[0])
                places.append(RecordPlace(offset, length, start, len(encoded.value), self.remember(encoded)))
            spans.append((name, offset, length))
            offset += length
            files.append(encoded)
            file = encoded if isinstance(original, Exception) else original  # annotations are not part of its content
            single_label = None if isinstance(label, list) else label  # conflicts are only searched among these
            file_rows.append((name, line_in_manifest(line), digest_content(file.value, file.entries), single_label))
            column_entries.append(entries or b"")
            count_labels(labels, label)
        stats: SplitStats = self.count(files, labels, spans)
        columns = decode_columns(self.columns, self.renames, column_entries) if self.columns else None
        file_columns = list(zip(*file_rows, strict=True)) or [()] * 4
        if columns is not None:
            names, lines, _, single_labels = file_columns
            stats = ManifestStats(stats, column_stats(columns, single_labels, names, lines))
        chunk = EncodedChunk(framing.framed(), len(files), rejects, stats, columns=columns)
        chunk.contents = FileContents.from_digests(*file_columns) if file_rows else None
        if any(texts := [file.observed for file in files]):
            names, lines, digests, _ = file_columns
            _, offsets, lengths = zip(*spans, strict=True)
            observed = (texts, digests, names, lines, offsets, lengths)
            chunk.observations = pa.record_batch(list(map(pa.array, observed, SCHEMA.types)), SCHEMA)
        return chunk, places

    def read_values(self, batch: pa.RecordBatch) -> list[Encoded | Exception]:
        """Return the encoded value of each found file, or why it has none; raise JobError if one has changed."""
        paths, unknown = self._list_paths(batch), [None] * len(batch)
        with storage.note_objects() as objects:
            data, revisions = self._read(paths, unknown)
            found = list(map(self._try_encode, paths, data, batch["size"].to_pylist(), unknown))
        self._check_unchanged(batch, unknown, revisions, objects)
        return found

    def digest_values(self, batch: pa.RecordBatch) -> list[bytes | None]:
        """Return a digest of the value that each planned file is stored as; None if it would be rejected."""
        paths, unknown = self._list_paths(batch), [None] * len(batch)
        found = map(self._try_encode, paths, self._read(paths, unknown)[0], batch["size"].to_pylist(), unknown)
        return [None if isinstance(file, Exception) else digest_content(file.value) for file in found]

    def encode_compiled(
        self, batch: pa.RecordBatch, stored_files: Sequence[StoredFile | None], returns_places: bool
    ) -> tuple[EncodedChunk, list[RecordPlace | None]] | None:
        """Encode a batch as `encode_batch` does, but in compiled calls; None, as by default, if that is impossible."""
        return None

    def _list_paths(self, batch: pa.RecordBatch) -> list[str]:
        root = storage.join(self.root, "")
        return [uri or root + name for name, uri in zip(*(batch[i].to_pylist() for i in ("name", "uri")), strict=True)]

    def _read(
        self, paths: Sequence[str], stored_files: Sequence[StoredFile | None]
    ) -> tuple[list[bytes | None], np.ndarray]:
        """Read the files that no previous version stored, if many are read at once.

        Also return the hash of the revision of each file that was read, -1 of the others: int64, shape (n,).
        """
        unknown = [index for index, stored_file in enumerate(stored_files) if stored_file is None]
        contents, statuses = storage.read_small([paths[index] for index in unknown])
        hashes = found_files.hash_statuses(statuses)
        if None in contents:
            hashes[[content is None for content in contents]] = -1
        if len(unknown) == len(paths):
            return contents, hashes
        data: list[bytes | None] = [None] * len(paths)
        for index, content in zip(unknown, contents, strict=True):
            data[index] = content
        revisions = np.full(len(paths), -1)
        revisions[unknown] = hashes
        return data, revisions

    def _check_unchanged(
        self,
        batch: pa.RecordBatch,
        stored_files: Sequence[StoredFile | None],
        revisions: np.ndarray,
        objects: Mapping[str, FileStat],
    ) -> None:
        """Check that files which were read are those that were listed; raise JobError otherwise.

        Args:
            revisions: the hashes of files that `_read` returned.
            objects: the objects of stores that were read, by URL.
        """
        if found_files.REVISION.name not in batch.schema.names:
            return
        column, has_companions = batch[found_files.REVISION.name], found_files.COMPANIONS.name in batch.schema.names
        if not (has_companions or column.null_count) and np.array_equal(column.to_numpy(), revisions):
            return
        listed = zip(
            self._list_paths(batch), found_files.companion_paths(batch), stored_files, column.to_pylist(), strict=True
        )
        for (path, companions, stored_file, expected), revision in zip(listed, revisions.tolist(), strict=True):
            if expected is None or stored_file is not None:
                continue
            found = [self._stat_read(path, objects) if revision < 0 else revision]
            files = [each for each in companions if found_files.drawn_text(each) is None]
            found += [self._stat_read(each, objects) for each in files]
            if found_files.add_revisions(found) not in (None, expected):
                raise changed_error(" or ".join((path, *files)))

    def _stat_read(self, path: str, objects: Mapping[str, FileStat]) -> int | None:
        if not storage.is_local(path):
            return found_files.hash_revision(objects[path]) if path in objects else None
        try:
            return found_files.hash_revision(storage.stat_file(path))
        except OSError:  # reading it says so
            return None

    def _try_encode(
        self, path: str, data: bytes | None, size: int, stored_file: StoredFile | None
    ) -> Encoded | Exception:
        try:
            if size > self.max_bytes:
                raise self.refusal(f"{size:,} bytes as an example, which holds {self.max_bytes:,} at most")
            if stored_file is None:
                if data is None and (problem := find_memory_problem(size, MEMORY_FACTOR)):
                    raise NotAFileError(errno.ENOMEM, problem, path)
                return self.encode_file(path, data)
            if stored_file.reason is not None:
                raise self.refusal(stored_file.reason)
            return self.recall(stored_file.value, stored_file.remembered, stored_file.record)
        except self.refusal as error:
            return error
        except MemoryError:  # which another time may suffice
            return OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        except FileNotFoundError:  # it was listed
            raise changed_error(path) from None
        except OSError as error:
            raise_if_store_failed(error, path)
            return error

    def entry_header(self, name: str, size: int) -> bytes:
        """Return the bytes before a value of `size` bytes in its entry; by default, those of a bytes_list."""
        return example.bytes_entry_header(name, size)

    def _frame_record(
        self, feature_names: Sequence[str], name: str, encoded: Encoded, label: int | list[int] | None, entries: bytes
    ) -> tuple[bytes, bytes, bytes]:
        value_name, label_name, filename_name = feature_names
        filename, size = name.encode(), len(encoded.value)
        after = label_entry(label_name, tuple(label) if isinstance(label, list) else label)
        after += filename_header(filename_name, len(filename)) + filename + encoded.entries + entries
        before = self.entry_header(value_name, size)
        return example.example_header(len(before) + size + len(after)) + before, encoded.value, after


@lru_cache(maxsize=4096)
def label_entry(name: str, label: int | tuple[int, ...] | None) -> bytes:
    """Return the entry of a label id or of a list of them; b"" for None."""
    if label is None:
        return b""
    return example.encode_entry(name, example.encode_int64_feature(label if isinstance(label, tuple) else [label]))


# Names of files are of few lengths, where their values' have as many as there are files.
filename_header = lru_cache(maxsize=4096)(example.bytes_entry_header)


def describe_refusal(error: Exception) -> str:
    """Return why a file was not encoded, as its reject says it."""
    return f"cannot be read: {error_text(error)}" if isinstance(error, OSError) else str(error)


def file_features(
    layout: Layout, rows: int, value: Feature, size_names: Sequence[str] = (), annotation_features: Features = ()
) -> Features:
    """Return the features of a data set made from files, in the order that its encoder writes them.

    A manifest's column is required if all `rows` planned records have a value. `size_names` are those of numbers.
    """
    features = [value]
    if layout.class_names is not None:
        shape = (None,) if layout.label_lists else ()
        features.append(Feature("label", "int64", "class_label", shape, class_names=layout.class_names.names))
    features.append(Feature("filename", "bytes", "text", role="source"))
    features += [Feature(name, "int64", role="source") for name in size_names]
    features += annotation_features
    features += [column.feature(name, rows) for name, column in layout.columns.items()]
    return tuple(features)


@dataclass(slots=True, kw_only=True)
class LabelledStats(Mergeable):
    """Statistics of files whose only label is `label`."""

    labels: Counter[int] = field(default_factory=Counter)  # files by class id

    def label_counts(self, feature: str) -> Counter[int]:
        """Return the number of files by class id."""
        return self.labels


@dataclass(slots=True)
class TextStats(LabelledStats):
    """Statistics of text files: stored lengths in bytes, and labels by id."""

    lengths: NumberStats = field(default_factory=NumberStats)

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        """Return a split's statistics by feature, as written to stats.json."""
        text = FeatureSummary(length_bytes=self.lengths.summary())
        return {"text": text, **summarize_labels(self.labels, class_names)}


_SHOWN = 20  # bytes on each side of one that is not UTF-8


@dataclass(frozen=True)
class TextFileEncoder(FileEncoder):
    """Encoder of text files as tf.train.Example: text as UTF-8, label, filename."""

    feature = "text"
    refusal = UserError
    max_bytes = MAX_RECORD_BYTES // 4  # in memory thrice: as stored, decoded, and as UTF-8

    root: str  # folder that names are relative to
    encoding: str = "utf-8"  # of the files
    renames: Renames = NO_RENAMES  # of features

    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        """Read and decode a text, without its byte order mark."""
        data = storage.read_bytes(path) if data is None else data
        check_start(data, "it", self.encoding)
        try:
            text = data.decode(self.encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            reason = f"byte {error.start} is not {self.encoding}: {error.reason}"
            if self.encoding == "utf-8" and Undecodable.of_record(data, path, 1).cp1252:
                around = data[max(error.start - _SHOWN, 0) : error.start + _SHOWN].decode("cp1252")
                reason += f"; if all files are cp1252, --encoding cp1252 reads it as {around!r}"
            raise UserError(reason) from None
        if not text.strip():
            raise UserError("the file is empty" if not text else "the file holds nothing but white space")
        return Encoded(text.encode())

    def as_columns(self, encoded: Encoded) -> dict[str, Any]:
        return {self.feature: encoded.value.decode()}

    def count(self, files: Sequence[Encoded], labels: Counter[int], spans: RecordSpans) -> TextStats:
        stats = TextStats(labels=labels)
        stats.lengths.add(len(file.value) for file in files)
        return stats

    def describe(
        self, summary: InputSummary, layout: Any, stats: Sequence[SplitStats] = (), for_tfds: bool = True
    ) -> tuple[Features, Sequence[str]]:
        return file_features(layout, 0, Feature("text", "bytes", "text")), ()  # texts have no manifest columns
