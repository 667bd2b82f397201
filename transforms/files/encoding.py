"""Encode batches of files as examples: what all kinds of files share, and texts."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import pyarrow as pa

from shardmill.data import example
from shardmill.data.example import example_header
from shardmill.data.features import NO_RENAMES, DType, Feature, Features, Renames
from shardmill.metadata.manifest import Reject
from shardmill.quality.stats_file import FeatureSummary
from shardmill.reading.plain_examples import ExampleDecoder
from shardmill.transforms.columns.example_bytes import HEADER_BYTES, RecordFramer
from shardmill.transforms.columns.example_encoding import MAX_RECORD_BYTES
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.files.references import LABELS
from shardmill.transforms.inputs.manifest_files import line_in_manifest
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.shards.balance import hash_strings
from shardmill.transforms.shards.sources import EncodedChunk
from shardmill.transforms.statistics.contents import FileContents, digest_content
from shardmill.transforms.statistics.files import ClassNames, ManifestStats, SplitStats, count_labels, summarize_labels
from shardmill.transforms.statistics.images import NumberStats
from shardmill.transforms.statistics.near_duplicates import ImageHashes
from shardmill.transforms.statistics.tables import BatchedStats
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import error_text
from shardmill.transforms.stores.storage import raise_if_store_failed

ManifestColumns = tuple[tuple[str, ColumnType], ...]  # by name
_ARROW: dict[DType, pa.DataType] = {"int64": pa.int64(), "float32": pa.float32(), "bytes": pa.large_binary()}
_LABEL = "label"


def decode_columns(columns: ManifestColumns, renames: Renames, entries: Sequence[bytes]) -> pa.RecordBatch:
    """Decode a manifest's columns of several files to Arrow columns.

    Args:
        columns: of the manifest.
        renames: renames applied in `entries`.
        entries: serialized entries of each row, from encode_columns.
    """
    decode = ExampleDecoder(tuple(_to_feature(renames(name), column) for name, column in columns))
    rows = [decode(example_header(len(entry)) + entry) for entry in entries]
    return pa.record_batch(
        {name: pa.array([row.get(renames(name)) for row in rows], _arrow(column)) for name, column in columns}
    )


def column_stats(
    columns: pa.RecordBatch, labels: Sequence[int | None], names: Sequence[str], lines: Sequence[int | None]
) -> BatchedStats:
    """Return the statistics of a manifest's columns of several files.

    Args:
        columns: from decode_columns.
        labels: class id of each file; all None for unlabelled files.
        names, lines: name of each file, and its line in the manifest.
    """
    if not columns.num_rows:
        return BatchedStats()
    is_labelled = any(label is not None for label in labels)
    if is_labelled:
        columns = columns.append_column(_LABEL, pa.array(labels, pa.int64()))
    ties = hash_strings([f"{name}\0{line}" for name, line in zip(names, lines, strict=True)], 0)
    return BatchedStats.from_batch(columns, ties, [_LABEL] if is_labelled else ())


def _dtype(column: ColumnType) -> DType:
    return "int64" if column.dtype == "bool" else column.dtype


def _to_feature(name: str, column: ColumnType) -> Feature:
    """Return a column as a feature of one value, or of a list of any length."""
    return Feature(name, _dtype(column), shape=() if column.length is None else (None,), required=False)


def _arrow(column: ColumnType) -> pa.DataType:
    return _ARROW[_dtype(column)] if column.length is None else pa.large_list(_ARROW[_dtype(column)])


class Encoded(NamedTuple):
    """An encoded file. It is a tuple because a frozen dataclass takes three times as long to create."""

    value: bytes  # stored bytes of the file
    entries: bytes = b""  # serialized features after the file name
    stats_data: Any = None  # further data for statistics
    annotations: Any = None  # encoded annotations, companions and the like


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a previous version stored it."""

    value: bytes = b""  # stored bytes of the file
    remembered: str = ""  # text from `FileEncoder.remember`
    reason: str | None = None  # why it was rejected; None if it was not
    record: bytes = b""  # the whole example, framed


class RecordPlace(NamedTuple):
    """The place of a file's record among others, from `offset` on; fields as in
    transforms.shards.sources.PIECE_SCHEMA.
    """

    offset: int | None = None
    length: int | None = None
    value_offset: int | None = None
    value_length: int | None = None
    seen: str | None = None
    reason: str | None = None


# Where the record of a file lies among others: (the file's name, offset, length), in bytes with the record's frame.
RecordSpan = tuple[str, int, int]


class _Names(NamedTuple):
    """The names in examples of the features that all files have."""

    value: str
    label: str
    filename: str


class FileEncoder(ABC):
    """Encoder of file references as tf.train.Example: value, label, filename, the kind's features, manifest columns.

    A subclass for each kind of files encodes one file and counts statistics.
    """

    root: str  # folder that names are relative to
    feature: str  # feature of the value, before renames
    renames: Renames  # of features
    columns: ManifestColumns = ()  # of a manifest, for statistics; set by `of_layout`
    refusal: ClassVar[type[Exception]]  # exception that rejects a file; its text is written to rejects/
    reason_options: ClassVar[tuple[str, ...]] = ()  # options that only the reasons of rejects depend on
    # larger planned records are rejected unread, as they would fill the memory
    max_bytes: ClassVar[int] = MAX_RECORD_BYTES

    def of_layout(self, layout: Layout) -> Self:
        """Return the encoder for the files of an input."""
        columns = tuple(layout.columns.items())
        return replace(self, columns=columns) if columns else self  # type: ignore[type-var]

    @abstractmethod
    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        """Encode the file at `path`; `data` are its bytes if they were already read.

        Raises:
            Exception: the kind's `refusal`, if the file is invalid.
            OSError: if it cannot be read.
        """

    @abstractmethod
    def count(self, files: Sequence[Encoded], labels: Counter[int]) -> SplitStats:
        """Return the statistics of encoded files; `labels` are counts by class id."""

    def add_locations(self, stats: SplitStats, files: Sequence[Encoded], spans: Sequence[RecordSpan]) -> SplitStats:
        """Add the places of notable files, such as extremes, to statistics; by default, add nothing."""
        return stats

    def perceptual_hashes(self, files: Sequence[Encoded]) -> list[str] | None:
        """Return the perceptual hash of each file, see transforms.statistics.near_duplicates; None if not requested."""
        return None

    def remember(self, encoded: Encoded) -> str:
        """Return what `recall` needs in addition to the value; "" by default."""
        return ""

    def recall(self, value: bytes, remembered: str, record: bytes = b"") -> Encoded:
        """Restore an encoded file from its value, the text from `remember`, and its framed example."""
        return Encoded(value)

    def prepare(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Encode the annotations of a shard's planned files before the files are read; by default, return the batch
        unchanged.
        """
        return batch

    def annotate(self, batch: pa.RecordBatch, files: Sequence[Encoded | Exception]) -> Sequence[Encoded | Exception]:
        """Add annotations to the encoded files of a batch from `prepare`; by default, return the files unchanged.

        An exception, the kind's `refusal`, means that a file is rejected for its content or its annotations.
        """
        return files

    def depends_on(self) -> dict[str, str]:
        """Return all options that an encoded file depends on, apart from its location."""
        excluded = ("root", "renames", "columns", *self.reason_options)
        names = [item.name for item in fields(self) if item.name not in excluded]  # type: ignore[arg-type]
        options = {name: str(getattr(self, name)) for name in names}
        return {"kind": type(self).__name__, **options}

    def reasons_depend_on(self) -> dict[str, str]:
        """Return the further options that the reasons of rejects depend on."""
        return {name: str(getattr(self, name)) for name in self.reason_options}

    def __call__(self, batch: pa.RecordBatch) -> EncodedChunk:
        """Encode the files of a PLANNED batch in order."""
        return self.encode_batch(self.prepare(batch), [None] * len(batch))[0]

    def encode_batch(
        self, batch: pa.RecordBatch, stored_files: Sequence[StoredFile | None], returns_places: bool = False
    ) -> tuple[EncodedChunk, list[RecordPlace | None]]:
        """Encode the files of a PLANNED batch from `prepare` in order.

        Args:
            batch: the prepared batch.
            stored_files: each file as a previous version stored it; None for a file to read.
            returns_places: True to return the place of each file's record.

        Returns:
            The records and their places. A place is None for a rejected file that may be valid another time.
        """
        framing = RecordFramer()
        rejects: list[Reject] = []
        files: list[Encoded] = []
        spans: list[RecordSpan] = []
        file_rows: list[tuple[str, int | None, bytes, int | None]] = []
        column_entries: list[bytes] = []
        labels: Counter[int] = Counter()
        places: list[RecordPlace | None] = []
        offset = 0
        names = _Names(self.renames(self.feature), self.renames("label"), self.renames("filename"))
        label_column = LABELS.name if LABELS.name in batch.schema.names else "label"
        rows = (batch[name].to_pylist() for name in ("name", label_column, "line", "columns"))
        paths = self._paths(batch)
        encoded_files = list(
            map(self._try_encode, paths, self._read(paths, stored_files), batch["size"].to_pylist(), stored_files)
        )
        annotated_files = self.annotate(batch, encoded_files)
        for original, encoded, name, label, line, entries in zip(encoded_files, annotated_files, *rows, strict=True):
            try:
                if isinstance(encoded, Exception):
                    raise encoded
                record = self._record(names, name, encoded, label, entries or b"")
                if (size_bytes := sum(map(len, record))) > MAX_RECORD_BYTES:
                    raise self.refusal(
                        f"{size_bytes:,} bytes once encoded; an example holds {MAX_RECORD_BYTES:,} at most"
                    )
            except (self.refusal, OSError) as error:
                rejects.append(Reject(name, line, "write", _reject_reason(error)))
                # Annotations may be valid another time although the file stays the same
                is_permanent = (encoded is original or isinstance(original, Exception)) and not isinstance(
                    error, OSError
                )
                places.append(RecordPlace(reason=_reject_reason(error)) if is_permanent else None)
                continue
            length = framing.add(record)
            if returns_places:
                start = HEADER_BYTES + len(record[0])
                places.append(RecordPlace(offset, length, start, len(encoded.value), self.remember(encoded)))
            spans.append((name, offset, length))
            offset += length
            files.append(encoded)
            file = encoded if isinstance(original, Exception) else original  # annotations are not part of its content
            # Conflicting labels are only searched where each file has one label
            file_rows.append(
                (
                    name,
                    line_in_manifest(line),
                    digest_content(file.value, file.entries),
                    None if isinstance(label, list) else label,
                )
            )
            column_entries.append(entries or b"")
            count_labels(labels, label)
        stats: SplitStats = self.add_locations(self.count(files, labels), files, spans)
        columns = decode_columns(self.columns, self.renames, column_entries) if self.columns else None
        if columns is not None:
            stats = _add_column_stats(stats, file_rows, columns)
        contents = FileContents.from_digests(*zip(*file_rows, strict=True)) if file_rows else None
        hashes = self._collect_hashes(files, file_rows, spans)
        chunk = EncodedChunk(
            framing.framed(), len(files), rejects, stats, contents=contents, image_hashes=hashes, columns=columns
        )
        return chunk, places

    def _paths(self, batch: pa.RecordBatch) -> list[str]:
        root = storage.join(self.root, "")
        return [uri or root + name for name, uri in zip(batch["name"].to_pylist(), batch["uri"].to_pylist())]

    def _read(self, paths: Sequence[str], stored_files: Sequence[StoredFile | None]) -> list[bytes | None]:
        """Read the files that no previous version stored, if many are read at once."""
        unknown = [index for index, stored_file in enumerate(stored_files) if stored_file is None]
        data: list[bytes | None] = [None] * len(paths)
        for index, content in zip(unknown, storage.read_small([paths[index] for index in unknown]), strict=True):
            data[index] = content
        return data

    def _try_encode(
        self, path: str, data: bytes | None, size: int, stored_file: StoredFile | None
    ) -> Encoded | Exception:
        """Encode a file, or return the error."""
        try:
            if size > self.max_bytes:
                raise self.refusal(f"{size:,} bytes as an example, which holds {self.max_bytes:,} at most")
            return self.encode_file(path, data) if stored_file is None else self._restore(stored_file)
        except self.refusal as error:
            return error
        except OSError as error:
            raise_if_store_failed(error, path)
            return error

    def _collect_hashes(
        self,
        files: Sequence[Encoded],
        file_rows: Sequence[tuple[str, int | None, bytes, int | None]],
        spans: Sequence[RecordSpan],
    ) -> ImageHashes | None:
        hashes = self.perceptual_hashes(files)
        if not hashes:
            return None
        names, lines, digests, _ = zip(*file_rows, strict=True)
        return ImageHashes.from_hashes(hashes, digests, names, lines, [place for _, *place in spans])

    def _restore(self, stored_file: StoredFile) -> Encoded:
        """Restore a known file without reading it; raises as `encode_file`."""
        if stored_file.reason is not None:
            raise self.refusal(stored_file.reason)
        return self.recall(stored_file.value, stored_file.remembered, stored_file.record)

    def entry_header(self, name: str, size: int) -> bytes:
        """Return the bytes before a value of `size` bytes in its entry; by default, those of a bytes_list."""
        return example.bytes_entry_header(name, size)

    def _record(
        self, names: _Names, name: str, encoded: Encoded, label: int | list[int] | None, entries: bytes
    ) -> tuple[bytes, bytes, bytes]:
        """Return the parts of a record: before the value, the value, and after it."""
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
    """Return the entry of a label id or of a list of them; b"" for None."""
    if label is None:
        return b""
    return example.encode_entry(name, example.encode_int64_feature(label if isinstance(label, tuple) else [label]))


# Names of files are of few lengths, where their values' have as many as there are files.
filename_header = lru_cache(maxsize=4096)(example.bytes_entry_header)


def _add_column_stats(
    stats: SplitStats, file_rows: Sequence[tuple[str, int | None, bytes, int | None]], columns: pa.RecordBatch
) -> SplitStats:
    """Add the statistics of a manifest's columns."""
    names, lines, _, labels = zip(*file_rows, strict=True) if file_rows else ((),) * 4
    return ManifestStats(stats, column_stats(columns, labels, names, lines))


def _reject_reason(error: Exception) -> str:
    """Return the reason of a reject, as written to rejects/."""
    if isinstance(error, FileNotFoundError):
        return "no such file: it vanished after it was listed"
    if isinstance(error, OSError):
        return f"cannot be read: {error_text(error)}"
    return str(error)


TFDS_CANNOT = "TFDS cannot decode"  # so begin the notices of what only other readers can


def file_features(
    layout: Layout, rows: int, value: Feature, size_names: Sequence[str] = (), annotation_features: Features = ()
) -> Features:
    """Return the features of a data set of files, in the order that FileEncoder writes them.

    Args:
        layout: class names and manifest columns.
        rows: number of planned records; a column with a value in each is required.
        value: feature of the file's content.
        size_names: names of numbers that the kind adds, such as `height`.
        annotation_features: features of annotations other than columns.
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


@dataclass(slots=True)
class TextStats:
    """Statistics of text files: stored lengths in bytes, and labels by id."""

    lengths: NumberStats = field(default_factory=NumberStats)
    labels: Counter[int] = field(default_factory=Counter)

    def merge(self, other: "TextStats") -> None:
        """Add the counts of `other`."""
        self.lengths.merge(other.lengths)
        self.labels.update(other.labels)

    def label_counts(self, feature: str) -> Counter[int]:
        """Return the number of texts by class id; `label` is the only label."""
        return self.labels

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        """Return a split's statistics by feature, as written to stats.json."""
        text = FeatureSummary(length_bytes=self.lengths.summary())
        return {"text": text, **summarize_labels(self.labels, class_names)}


class _TextError(ValueError):
    """The reason to reject a text file, as written to rejects/."""


@dataclass(frozen=True)
class TextFileEncoder(FileEncoder):
    """Encoder of text files as tf.train.Example: text as UTF-8, label, filename."""

    feature = "text"
    refusal = _TextError
    max_bytes = MAX_RECORD_BYTES // 4  # in memory thrice: as stored, decoded, and as UTF-8

    root: str  # folder that names are relative to
    encoding: str = "utf-8"  # of the files
    renames: Renames = NO_RENAMES  # of features

    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        """Read and decode a text, without its byte order mark."""
        data = storage.read_bytes(path) if data is None else data
        try:
            text = data.decode(self.encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            raise _TextError(f"byte {error.start} is not {self.encoding}: {error.reason}") from None
        if not text.strip():
            raise _TextError("the file is empty" if not text else "the file holds nothing but white space")
        return Encoded(text.encode())

    def count(self, files: Sequence[Encoded], labels: Counter[int]) -> TextStats:
        stats = TextStats(labels=labels)
        stats.lengths.add(len(file.value) for file in files)
        return stats


def text_features(layout: Layout) -> Features:
    """Return the features in encoding order; texts have no manifest columns."""
    return file_features(layout, 0, Feature("text", "bytes", "text"))
