"""Write rows that are in no file to temporary files, which the record formats read."""

import io
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.pvalue import AsSingleton
from apache_beam.transforms.window import GlobalWindows

from shardmill.errors import UserError
from shardmill.transforms.columns.arrow import data_of
from shardmill.transforms.columns.example_bytes import frame
from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.rows.formats import BATCH_SUFFIX, RECORD_SUFFIX, ROW_SUFFIX, ROWS, encode_rows
from shardmill.transforms.rows.sources import Batches, RowSource, iterator_error
from shardmill.transforms.rows.values import copy_row, row_of
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.elements import in_global_window

FOLDER = "rows"  # in the job's temporary folder
FILE_BYTES = 64 << 20  # of a file, about; they are held until it is written
GROUP_BYTES, _GROUP_ROWS = 16 << 20, 1 << 20  # of a Parquet row group, which is read at once
_PART_BYTES = 128 << 10  # of some dictionaries, which are read at once, see transforms.formats.json_lines
FEWEST_ROWS, MOST_ROWS = 16, 1024  # of these
_UPDATE_S = 0.2  # seconds between updates of the progress
_WORDS = {BATCH_SUFFIX: "record batches", ROW_SUFFIX: "dictionaries", RECORD_SUFFIX: "tf.train.Examples"}


class RowSpool:
    """A writer of rows of one kind to temporary files of about 64 MiB; their names are random.

    So an attempt that is repeated writes other files, and those of the earlier one are never read.
    """

    def __init__(self, folder: str, name: str = ROWS, is_ordered: bool = False) -> None:
        """Write to the folder `rows` in `folder`, a job's temporary folder.

        `name` is what messages call the rows. It may begin with a split, as in `train/rows`. Messages have numbers of
        rows only if these are ordered.
        """
        self._place = storage.join(folder, FOLDER, uuid.uuid4().hex)
        self._name, self._is_ordered = name, is_ordered
        self._files: list[FileRef] = []
        self._kind = ""  # suffix of all files
        self._pending: list[Any] = []  # rows or batches of the next part
        self._pending_rows = self._pending_bytes = 0
        self._rows_at_once = FEWEST_ROWS
        self._parts: list[Any] = []  # of the file
        self._size = self._rows = 0  # of the file
        self._schema: pa.Schema | None = None  # of a Parquet file
        self._writer: pq.ParquetWriter | None = None

    def add_row(self, row: Mapping[Any, Any]) -> None:
        """Add a dictionary, which must not change any more; see transforms.rows.values for its values."""
        if self._kind != ROW_SUFFIX:
            self._set_kind(ROW_SUFFIX)
        self._pending.append(row)
        if len(self._pending) >= self._rows_at_once:
            self._add_part()

    def add_batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add the rows of an Arrow record batch or table."""
        self._set_kind(BATCH_SUFFIX)
        for part in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
            if self._schema is not None and not part.schema.equals(self._schema, check_metadata=True):
                self._finish_file()
            self._schema = part.schema
            self._hold(part, part.nbytes, len(part))

    def add_record(self, record: bytes) -> None:
        """Add a serialized tf.train.Example, or another record."""
        self._set_kind(RECORD_SUFFIX)
        self._hold(record, len(record), 1)

    def close(self) -> list[FileRef]:
        """Write what is still held, and return all files."""
        self._finish_file()
        return self._files

    def _set_kind(self, kind: str) -> None:
        if self._kind not in ("", kind):
            raise UserError(f"the rows are {_WORDS[self._kind]} and {_WORDS[kind]}; expected one kind of row")
        self._kind = kind

    def _hold(self, rows: Any, size: int, number: int) -> None:
        self._pending.append(rows)
        self._pending_bytes += size
        self._pending_rows += number
        if self._pending_bytes >= GROUP_BYTES or self._pending_rows >= _GROUP_ROWS:
            self._add_part()

    def _add_part(self) -> None:
        """Encode the rows that are held, and write the file if it is large enough."""
        pending, self._pending = self._pending, []
        self._pending_rows = self._pending_bytes = 0
        if self._kind == BATCH_SUFFIX:
            table = pa.Table.from_batches(pending, self._schema)
            if self._writer is None:
                sink = _PartsSink(self._parts)
                ordered = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
                self._writer = pq.ParquetWriter(sink, table.schema, compression="none", use_dictionary=ordered)
            self._writer.write_table(table, row_group_size=max(len(table), 1))
            size, rows = table.nbytes, len(table)
        elif self._kind == RECORD_SUFFIX:
            self._parts.append(data_of(frame(pa.array(pending, pa.large_binary()))))
            size, rows = len(self._parts[-1]), len(pending)
        else:
            self._parts.append(encode_rows(pending))
            size, rows = len(self._parts[-1]), len(pending)
            self._rows_at_once = min(max(_PART_BYTES * rows // size, FEWEST_ROWS), MOST_ROWS)
        self._size += size
        self._rows += rows
        if self._size >= FILE_BYTES:
            self._write_file()

    def _finish_file(self) -> None:
        if self._pending:
            self._add_part()
        if self._rows or self._writer is not None:
            self._write_file()

    def _write_file(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        path = f"{self._place}-{len(self._files):08}{self._kind}"
        storage.write_parts(path, self._parts)
        size = sum(memoryview(part).nbytes for part in self._parts)
        self._files.append(FileRef(self._name, path, size, records=self._rows, is_ordered=self._is_ordered))
        self._parts, self._size, self._rows = [], 0, 0


class _PartsSink(io.RawIOBase):
    """A file for Arrow that keeps the parts written to it; Arrow's own buffer is copied each time it grows."""

    def __init__(self, parts: list[Any]) -> None:
        self._parts = parts

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Keep some bytes."""
        self._parts.append(bytes(data))
        return len(self._parts[-1])


def spool_rows(
    rows: RowSource, folder: str, keeps_splits: bool, update: Callable[[], None]
) -> tuple[tuple[FileRef, ...], tuple[str, ...]]:
    """Write rows that a program holds to files in `folder`, a job's temporary folder.

    Return the files in order, and the keys of dictionaries in the order in which they appear first. `update` is called
    now and then. If `keeps_splits`, files are named as if those of each split were in a folder called after it.

    Raises:
        JobError: the iterator of rows raised an error.
    """
    files: list[FileRef] = []
    columns: dict[str, None] = {}
    shown = time.monotonic()
    for number, (split, part) in enumerate(rows.splits.items()):
        name = f"{split}/{rows.name}" if keeps_splits else rows.name
        spool = RowSpool(storage.join(folder, f"{number:04}"), name, is_ordered=True)
        if isinstance(part, Batches):
            empty = [pa.nulls(0, field.type) for field in part.schema]  # so that data without rows has columns
            spool.add_batch(pa.RecordBatch.from_arrays(empty, schema=part.schema))
        for item in _read_on(part.batches if isinstance(part, Batches) else part, rows.description):
            if isinstance(part, Batches):
                spool.add_batch(item)
            else:
                row = copy_row(item)  # a generator may yield one dictionary again and again
                if isinstance(row, dict) and not row.keys() <= columns.keys():
                    columns |= dict.fromkeys(name for name in row if isinstance(name, str))
                spool.add_row(row)
            if (now := time.monotonic()) > shown + _UPDATE_S:
                shown = now
                update()
        files += spool.close()
    return tuple(files), tuple(columns)


def _read_on(rows: Iterable[Any], description: str) -> Iterator[Any]:
    iterator, done = iter(rows), 0
    while True:
        try:
            found = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            raise iterator_error(description, error, done) from error
        done += len(found) if isinstance(found, pa.RecordBatch) else 1
        yield found


@dataclass(eq=False)
class SpoolRows(beam.PTransform):
    """Write the elements of a PCollection to temporary files, each bundle its own: elements -> FileRefs.

    An element is a dictionary, a row with a schema, an Arrow record batch or table; or a tf.train.Example, serialized
    or not.
    """

    temporary: str  # the job's temporary directory
    are_records: bool = False  # elements are tf.train.Examples, or records of any kind
    ready: beam.PCollection[None] | None = None  # singleton that must exist before anything is written

    def expand(self, pcoll: beam.PCollection[Any]) -> beam.PCollection[FileRef]:
        # Assigning the window of all rows again would take a sixth of the time of a job over dictionaries
        is_in_one = pcoll.windowing.is_default()
        in_one = pcoll if is_in_one else pcoll | "OneWindow" >> beam.WindowInto(GlobalWindows())
        side = () if self.ready is None else (AsSingleton(self.ready),)
        write = beam.ParDo(_SpoolFn(self.temporary, self.are_records), *side)
        return in_one | "Write" >> write.with_output_types(FileRef)


class _SpoolFn(beam.DoFn):
    def __init__(self, temporary: str, are_records: bool) -> None:
        self._temporary, self._are_records = temporary, are_records

    def start_bundle(self) -> None:
        self._spool = RowSpool(self._temporary)
        self._add_row = self._spool.add_row

    def process(self, element: Any, *_: Any) -> None:
        """Write one element."""
        if type(element) is dict and not self._are_records:
            self._add_row(element)
        else:
            self._add(element)

    def _add(self, element: Any) -> None:
        record = element if isinstance(element, bytes) else None
        if record is None and hasattr(element, "SerializeToString"):
            record = element.SerializeToString()
        if (record is not None) != self._are_records:
            raise _type_error(element, self._are_records)
        if record is not None:
            self._spool.add_record(record)
        elif isinstance(element, pa.RecordBatch | pa.Table):
            self._spool.add_batch(element)
        elif (row := row_of(element)) is not None:
            self._spool.add_row(row)
        else:
            raise _type_error(element, self._are_records)

    def finish_bundle(self) -> Iterator[Any]:
        yield from map(in_global_window, self._spool.close())


def _type_error(element: Any, are_records: bool) -> UserError:
    kind = type(element).__name__
    if are_records:
        return UserError(f"an element is of type {kind}; expected tf.train.Examples, serialized or not")
    if isinstance(element, bytes) or hasattr(element, "SerializeToString"):
        return UserError(
            f"an element is of type {kind}, and the type of the PCollection does not say so; give elements='examples'"
            " if all are tf.train.Examples, serialized or not"
        )
    return UserError(
        f"an element is of type {kind}; expected dictionaries, rows with a schema, or Arrow record batches or tables"
    )
