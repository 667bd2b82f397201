"""Write rows that are in no file to temporary files, which the record formats read."""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.transforms.window import GlobalWindows

from shardmill.data.tfrecord import frame_record
from shardmill.errors import UserError
from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.rows.formats import BATCH_SUFFIX, RECORD_SUFFIX, ROW_SUFFIX, ROWS, encode_rows
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.elements import in_global_window

FOLDER = "rows"  # in the job's temporary folder
_FILE_BYTES = 64 << 20  # of a file, about; they are held until it is written
_GROUP_BYTES = 16 << 20  # of a row group, which is read at once
_GROUP_ROWS = 1 << 20
_ROWS_AT_ONCE = 256  # dictionaries of a part of a file, which are read at once
_WORDS = {BATCH_SUFFIX: "record batches", ROW_SUFFIX: "dictionaries", RECORD_SUFFIX: "tf.train.Examples"}


class RowSpool:
    """A writer of rows of one kind to temporary files of about 64 MiB; their names are random.

    So an attempt that is repeated writes other files, and those of the earlier one are never read.
    """

    def __init__(self, folder: str) -> None:
        """Write to the folder `rows` in `folder`, a job's temporary folder."""
        self._folder = storage.join(folder, FOLDER)
        self._files: list[FileRef] = []
        self._kind = ""  # suffix of the file that is made
        self._parts: list[Any] = []  # of the file
        self._size = self._rows = 0  # of the file
        self._pending: list[Any] = []  # dictionaries or batches of the next part
        self._pending_bytes = 0
        self._schema: pa.Schema | None = None  # of a Parquet file
        self._sink: pa.BufferOutputStream | None = None
        self._writer: pq.ParquetWriter | None = None

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Add a dictionary."""
        self._begin(ROW_SUFFIX)
        self._pending.append(dict(row))
        if len(self._pending) >= _ROWS_AT_ONCE:
            self._flush_rows()

    def add_batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add the rows of an Arrow record batch or table."""
        for part in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
            self._begin(BATCH_SUFFIX)
            if self._schema is not None and not part.schema.equals(self._schema, check_metadata=True):
                self._finish_file()
            self._schema = part.schema
            self._pending.append(part)
            self._pending_bytes += part.nbytes
            if self._pending_bytes >= _GROUP_BYTES or sum(map(len, self._pending)) >= _GROUP_ROWS:
                self._flush_batches()

    def add_record(self, record: bytes) -> None:
        """Add a serialized tf.train.Example, or another record."""
        self._begin(RECORD_SUFFIX)
        self._add_part(frame_record(record), 1)

    def close(self) -> list[FileRef]:
        """Write what is still held, and return all files."""
        self._finish_file()
        return self._files

    def _begin(self, kind: str) -> None:
        if self._kind not in ("", kind):
            raise UserError(f"the rows are {_WORDS[self._kind]} and {_WORDS[kind]}; expected one kind of row")
        self._kind = kind

    def _flush_rows(self) -> None:
        if self._pending:
            self._add_part(encode_rows(self._pending), len(self._pending))
            self._pending = []

    def _flush_batches(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending)
        if self._writer is None:
            self._sink = pa.BufferOutputStream()
            self._writer = pq.ParquetWriter(self._sink, table.schema, compression="none", use_dictionary=False)
        self._writer.write_table(table, row_group_size=max(len(table), 1))
        self._pending, self._pending_bytes = [], 0
        self._count(table.nbytes, len(table))

    def _add_part(self, part: bytes, rows: int) -> None:
        self._parts.append(part)
        self._count(len(part), rows)

    def _count(self, size: int, rows: int) -> None:
        self._size += size
        self._rows += rows
        if self._size >= _FILE_BYTES:
            self._finish_file()

    def _finish_file(self) -> None:
        if self._kind == ROW_SUFFIX:
            self._flush_rows()
        elif self._kind == BATCH_SUFFIX:
            self._flush_batches()
        if self._writer is not None and self._sink is not None:
            self._writer.close()
            self._parts = [self._sink.getvalue()]
            self._writer = self._sink = None
        if self._parts:
            path = storage.join(self._folder, f"{uuid.uuid4().hex}{self._kind}")
            storage.write_parts(path, self._parts)
            size = sum(len(part) for part in self._parts)
            self._files.append(FileRef(ROWS, path, size, records=self._rows))
        self._parts, self._size, self._rows = [], 0, 0


@dataclass(eq=False)
class SpoolRows(beam.PTransform):
    """Write the elements of a PCollection to temporary files, each bundle its own: elements -> FileRefs.

    An element is a dictionary, a row with a schema, an Arrow record batch or table, a tf.train.Example or a serialized
    one.
    """

    temporary: str  # the job's temporary directory

    def expand(self, pcoll: beam.PCollection[Any]) -> beam.PCollection[FileRef]:
        in_one = pcoll | "OneWindow" >> beam.WindowInto(GlobalWindows())
        return in_one | "Write" >> beam.ParDo(_SpoolFn(self.temporary)).with_output_types(FileRef)


class _SpoolFn(beam.DoFn):
    def __init__(self, temporary: str) -> None:
        self._temporary = temporary

    def start_bundle(self) -> None:
        self._spool = RowSpool(self._temporary)

    def process(self, element: Any) -> None:
        if isinstance(element, Mapping):
            self._spool.add_row(element)
        elif isinstance(element, pa.RecordBatch | pa.Table):
            self._spool.add_batch(element)
        elif isinstance(element, bytes):
            self._spool.add_record(element)
        elif hasattr(element, "SerializeToString"):
            self._spool.add_record(element.SerializeToString())
        elif hasattr(element, "_asdict"):
            self._spool.add_row(element._asdict())
        else:
            raise UserError(
                f"an element is of type {type(element).__name__}; expected dictionaries, rows with a schema, Arrow"
                " record batches or tables, or tf.train.Examples"
            )

    def finish_bundle(self) -> Iterator[Any]:
        yield from map(in_global_window, self._spool.close())
