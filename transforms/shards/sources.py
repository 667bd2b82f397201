"""Sources of a shard's records, and the index from which a later build reuses them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shardmill.metadata import file_names
from shardmill.metadata import manifest as seal
from shardmill.metadata.file_names import ShardName
from shardmill.metadata.json_values import Value, parse_file
from shardmill.metadata.manifest import Reject
from shardmill.text import plural
from shardmill.transforms.statistics.contents import FileContents, Section
from shardmill.transforms.statistics.files import SplitStats
from shardmill.transforms.stores import storage

if TYPE_CHECKING:
    from shardmill.data.shard_index import ShardIndex
    from shardmill.transforms.statistics.observations import ObservedShard


@dataclass(slots=True)
class EncodedChunk:
    """Consecutive framed records of a shard, with their number and rejects."""

    framed: Any  # a bytes-like object
    examples: int
    rejects: list[Reject] = field(default_factory=list)
    stats: SplitStats | None = None  # where they are gathered as shards are written
    index_rows: pa.RecordBatch | None = None  # rows of PIECE_SCHEMA, offsets from the chunk's start
    reused: int = 0  # files whose records or rejects come from an older version
    damaged: int = 0  # files to be reused, but with damaged or missing records
    input_records: int | None = None  # input records in the examples; None if one each
    notice_counts: Counter[str] = field(default_factory=Counter)  # counts for notices, if `input_records` is not None
    contents: FileContents | None = None  # contents of the files, if gathered during writing
    observations: pa.RecordBatch | None = None  # of images, by an add-on, offsets from the chunk's start
    columns: pa.RecordBatch | None = None  # manifest columns of the files, if any


class ShardSource(Protocol):
    """A source that divides a shard's plan into tasks, and encodes each task, in any thread, as framed records."""

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[Any]]:
        """Return the number of planned records, and the tasks in record order."""

    def encode(self, task: Any) -> EncodedChunk:
        """Encode the records of one task."""


PIECE_SUFFIX = ".parquet"

# `key` is a hash of the name; `offset` is null of a file that was rejected, whose `reason` is that of its reject.
PIECE_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("key", pa.uint64()),
        pa.field("identity", pa.uint64()),
        pa.field("offset", pa.int64()),  # of the framed record in its shard
        pa.field("length", pa.int64()),
        pa.field("value_offset", pa.int64()),  # of the value of the file's feature in its record
        pa.field("value_length", pa.int64()),
        pa.field("seen", pa.string()),  # counted by the statistics only
        pa.field("reason", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class ShardPiece:
    """One shard's part of the file index, and counts of reused files."""

    path: str = ""  # current location; empty if the shard has no piece
    crc32c: int = 0  # of the piece's bytes
    low: int = 0  # smallest key
    high: int = 0  # largest key
    reused: int = 0  # files taken from an older version
    damaged: int = 0  # files read again, as their old records are damaged or gone


class PieceWriter:
    """Collects one shard's part of the file index, in the order of its records."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._piece: ShardPiece | None = None

    def add(self, chunk: EncodedChunk, start: int) -> None:
        """Add the index rows of a chunk whose records begin at byte `start` of the shard."""
        if (rows := chunk.index_rows) is None:
            return
        before = self._piece or ShardPiece()
        self._piece = ShardPiece(reused=before.reused + chunk.reused, damaged=before.damaged + chunk.damaged)
        if len(rows):
            index = PIECE_SCHEMA.get_field_index("offset")
            self._batches.append(rows.set_column(index, PIECE_SCHEMA.field(index), pc.add(rows["offset"], start)))

    def write(self, path: str) -> ShardPiece | None:
        """Write this part of the index to the new file `path`; return None if nothing is to be remembered."""
        if self._piece is None or not self._batches:
            return self._piece
        table, sink = pa.Table.from_batches(self._batches), pa.BufferOutputStream()
        # Hashes and identities have no value twice: a dictionary of them is a waste.
        pq.write_table(table, sink, compression="zstd", use_dictionary=["seen", "reason"])
        data = bytes(sink.getvalue())
        storage.write_parts(path, [data])
        ends = pc.min_max(table["key"]).as_py()
        return replace(self._piece, path=path, crc32c=google_crc32c.value(data), low=ends["min"], high=ends["max"])


def read_piece(path: str, crc32c: int) -> pa.Table | None:
    """Read a part of the file index at `path`; return None if it is missing or its checksum differs."""
    try:
        data = storage.read_bytes(path)
    except FileNotFoundError:
        return None
    return pq.read_table(pa.BufferReader(data)) if google_crc32c.value(data) == crc32c else None


def make_piece_batch(
    rows: Sequence[tuple[Any, ...]], metadata: dict[str, str], first: Sequence[pa.Array] = ()
) -> pa.RecordBatch:
    """Make a batch of the file index from arrays for the `first` columns and `rows` for the others."""
    schema = PIECE_SCHEMA.with_metadata(metadata)
    fields = [schema.field(index) for index in range(len(first), len(schema))]
    columns = zip(*rows, strict=True) if rows else [()] * len(fields)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays([*first, *arrays], schema=schema)


@dataclass(frozen=True, slots=True)
class IndexPiece:
    """The index of a shard's records, as text in a temporary file."""

    path: str  # current location
    size_bytes: int
    crc32c: int  # of the text
    bounds_crc32c: int  # of the numbers, see shardmill.data.shard_index

    @classmethod
    def write(cls, path: str, index: "ShardIndex") -> "IndexPiece":
        """Write the text of `index` to the new file `path`."""
        text = index.to_text()
        storage.write_parts(path, [text])
        return cls(path, len(text), google_crc32c.value(text), index.crc32c)


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """A shard as written: its location and its entry for the manifest."""

    name: ShardName  # final file name
    temporary: str  # path it was written to
    planned: int  # references planned for it, equal to examples + rejected
    examples: int
    rejected: int
    size_bytes: int
    crc32c: int  # of the bytes on disk
    stats: SplitStats | None = None  # statistics of its examples, if gathered during writing
    piece: ShardPiece | None = None  # index piece for the next build, if any
    section: Section | None = None  # contents of its examples, if gathered during writing
    observed: "ObservedShard | None" = None  # observations of its images, by an add-on
    input_records: int | None = None  # input records in its examples; None if one each
    notice_counts: Mapping[str, int] = field(default_factory=dict)  # counts for notices, by kind
    gathered: Any = None  # input of the analysis of all examples, if gathered in writing
    index: IndexPiece | None = None  # positions of its records, with --index

    @property
    def done(self) -> int:
        """Number of references, or input records, in its examples."""
        return self.examples if self.input_records is None else self.input_records


FORMAT = 1  # raised when a reader of the previous format would misread the file
_MAX_KEY = (1 << 64) - 1  # the largest uint64


@dataclass(frozen=True, slots=True)
class IndexedPiece:
    """A shard's part of the file index: its file and checksum."""

    file: str  # name in the folder
    crc32c: int  # of its bytes
    shard: str  # name of the shard in the version's folder
    low: int  # smallest key
    high: int  # largest key


@dataclass(frozen=True, slots=True)
class FileIndex:
    """The index of a version's files, and what the version reused from an older one."""

    root: str  # absolute folder that names are relative to
    seed: int  # of the hashes of names by which files are found
    encoding: Mapping[str, str]  # options and library versions that examples depend on
    codec: str = ""  # shard format in manifest.json; records can only be reused from plain TFRecords: ""
    former: str = ""  # version whose records were reused, or ""
    why: str = ""  # reason why none could be reused
    files: int = 0  # files that were read or reused
    reused: int = 0  # files that were reused
    damaged: int = 0  # records to reuse that failed their checksums
    pieces: tuple[IndexedPiece, ...] = ()  # of all shards

    def to_json(self) -> str:
        """Return the text of the file index."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "FileIndex":
        """Parse the text of a file index, called `name` in errors; raise CorruptDataError if it is invalid."""
        return parse_file(text, name, FORMAT, "is no index of files", cls._of)

    @classmethod
    def _of(cls, content: Value) -> "FileIndex":
        return cls(
            root=content["root"].text(),
            seed=content["seed"].integer(0, _MAX_KEY),
            encoding={key: value.text() for key, value in content["encoding"].entries().items()},
            codec=content["codec"].text(),
            former=content["former"].text(),
            why=content["why"].text(),
            files=content["files"].integer(),
            reused=content["reused"].integer(),
            damaged=content["damaged"].integer(),
            pieces=tuple(map(_parse_piece, content["pieces"].items())),
        )

    def describe_reuse(self) -> str:
        """Return a sentence on how many files were reused, or why none were."""
        if not self.former:
            return f"all {self.files:,} files were read: {self.why}"
        rest = ", the others read" if self.read else ", none read"
        return f"{self.reused:,} of {self.files:,} files taken from {self.former}{rest}"

    @property
    def read(self) -> int:
        """Number of files that were read."""
        return self.files - self.reused

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about damage in the older version; the manifest lacks them, as the new bytes are the same."""
        if not self.damaged:
            return ()
        are = plural(self.damaged, "record is", "records are")
        return (
            f"{are} damaged in the shards of {self.former}: what should have been taken from there was read again;"
            " `shardmill verify` says more",
        )


def _parse_piece(value: Value) -> IndexedPiece:
    file, shard = value["file"].text(), value["shard"].text()
    if not file_names.is_file_name(file) or not file_names.is_file_name(shard):
        raise ValueError(f"{file!r} of {shard!r} is no name of a piece of a shard")
    return IndexedPiece(
        file, value["crc32c"].integer(), shard, value["low"].integer(0, _MAX_KEY), value["high"].integer(0, _MAX_KEY)
    )


def index_folder(parent: str, version: str) -> str:
    """Return the folder of a version's file index; `parent` is the folder of all versions."""
    return storage.join(storage.join(parent, file_names.BUILDS), f"{version}.files")


def index_name(manifest: bytes | str) -> str:
    """Return the name of the file index of a version, given its manifest's bytes or their checksum."""
    return f"index-{manifest if isinstance(manifest, str) else seal.crc32c_hex(manifest)}.json"


def read_index(parent: str, version: str, manifest_crc32c: str = "") -> FileIndex | None:
    """Return the index of a published version, None if it has none; the manifest is read if its checksum is missing."""
    manifest = storage.join(storage.join(parent, version), file_names.MANIFEST)
    path = storage.join(index_folder(parent, version), index_name(manifest_crc32c or storage.read_bytes(manifest)))
    try:
        return FileIndex.from_json(storage.read_bytes(path), path)
    except FileNotFoundError:
        return None
