"""Records with the --key of another record: how many there are, and which of them --on_duplicate_key rejects."""

import io
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.data import spans
from shardmill.errors import UserError
from shardmill.flag_values import assign
from shardmill.metadata.manifest import Reject
from shardmill.text import FIRST_UNORDERED, plural, shown_line, to_printable
from shardmill.transforms.columns.arrow import as_text, data_of, offsets_of
from shardmill.transforms.features.rows import EncodedRows
from shardmill.transforms.formats.format import BlockRef, FileRef, Rows
from shardmill.transforms.layout.tables import TableLayout
from shardmill.transforms.options.job_options import reject_flag
from shardmill.transforms.records.encoding import PreparedRows, keys_as_stored
from shardmill.transforms.statistics.contents import (
    SEEDS,
    SEPARATOR,
    Contents,
    Section,
    count_ranges,
    encode_names,
    make_section,
    range_bounds,
    sort_by_split,
)
from shardmill.transforms.statistics.duplicates import CONTENTS_AT_ONCE, MAX_READERS, read_repeated
from shardmill.transforms.stores import storage

_FOLDER = "keys"
_FILE_SHIFT = np.uint64(40)  # a position is the number of the file in its task, and 40 bits of the line
_LINES = np.uint64((1 << 40) - 1)
_MAX_ROWS_HELD, _MAX_BYTES_HELD = 1 << 20, 64 << 20
_TEXTS = ".texts"  # suffix of the file with the keys themselves
# Records with the key of an earlier one: their positions, and the file and line of that one
_LATER = pa.schema({"position": pa.uint64(), "file": pa.dictionary(pa.int32(), pa.string()), "line": pa.int64()})


def name_task(task: Sequence[BlockRef]) -> str:
    """Return the name of a task, the same in each pass over the input."""
    return f"{task[0].file.path}\0{task[0].offset}"


def number_files(task: Sequence[BlockRef]) -> dict[str, np.uint64]:
    """Return the number of each file of a task, as positions have it."""
    names = dict.fromkeys(block.file.name for block in task)
    return {name: np.uint64(number) << _FILE_SHIFT for number, name in enumerate(names)}


class KeyWriter:
    """Writer of the keys of a task's records: 24 bytes each in a temporary file, and their texts in another."""

    def __init__(self, temporary: str, task: Sequence[BlockRef]) -> None:
        self._folder, self._task = storage.join(temporary, _FOLDER), name_task(task)
        self._bases = number_files(task)
        self._pending: list[pa.RecordBatch] = []
        self._sections: list[Section] = []

    def add(self, encoded: EncodedRows, rows: PreparedRows, layout: TableLayout, key: str) -> None:
        """Add the keys of `rows`, which are in column `key`; a record without a key is like no other."""
        keys = keys_as_stored(encoded.helpers[key], encoded.features, key, layout)
        parts = [self._bases[file.name] | lines.astype(np.uint64) for file, lines in rows.sources]
        columns = {"key": keys, "position": pa.array(np.concatenate(parts))}
        if rows.content_hashes is not None:
            columns["content"] = pa.array(rows.content_hashes)
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        self._pending.append(batch.filter(keys.is_valid()) if keys.null_count else batch)
        held = self._pending
        if sum(map(len, held)) >= _MAX_ROWS_HELD or sum(each.nbytes for each in held) >= _MAX_BYTES_HELD:
            self._write()

    def close(self) -> list[Section]:
        """Write what is still held, and return where all keys are."""
        self._write()
        return self._sections

    def _write(self) -> None:
        pending, self._pending = self._pending, []
        if not sum(map(len, pending)):
            return
        batch = pa.concat_batches(pending)
        keys, positions = batch["key"], batch["position"].to_numpy()
        offsets = offsets_of(keys).astype(np.int64)
        high, low = spans.hashes_by_seed(data_of(keys), offsets[:-1], offsets[1:], SEEDS)
        contents = batch["content"].to_numpy() if "content" in batch.schema.names else None
        (ordered,) = sort_by_split(Contents(high, low, positions, contents), np.zeros(len(keys), np.int64), 1)
        path = storage.join(self._folder, uuid.uuid4().hex)  # a random name keeps attempts apart
        section, parts = make_section(ordered, self._task, path, 0, encode_names(self._bases))
        storage.write_parts(path, parts)
        storage.write_bytes(path + _TEXTS, _to_ipc(batch))
        self._sections.append(section)


def _to_ipc(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


Range = tuple[str, int, int]  # path, offset and length
Source = tuple[str, int]  # name of a file, and line


@dataclass(slots=True)
class RepeatedKeys:
    """Counts of the records that have the key of another one."""

    records: int = 0  # all records whose key occurs more than once
    keys: int = 0  # distinct keys of these
    first: tuple[Source, Source, str] | None = None  # the first two records of one of these keys, and the key
    # by task, the files that list its records that have the key of an earlier record
    later: dict[str, list[Range]] = field(default_factory=dict)

    def check(
        self, key: str, action: str, records: int, max_reject_fraction: float, is_only_allowed: bool, is_float: bool
    ) -> list[str]:
        """Return a notice, if there are any; raise a UserError instead if `action` is fail.

        `records` is the number of all records. The notice names no other action if allow `is_only_allowed`.
        Texts of keys that are numbers, and compared as such, are `is_float`.
        """
        if self.first is None:
            return []
        one, other, text = self.first
        is_ordered = shown_line(one[1]) is not None
        places = f" in {one[0]}:{one[1]} and {other[0]}:{other[1]}" if is_ordered else ""
        such = to_printable(f"{text!r}{places}")
        how = f", as numbers (--types {assign(key, 'bytes')} compares texts)" if is_float else ""
        have = f"{self.records:,} records share {plural(self.keys, 'value')} of --key {key}, such as {such}{how}"
        if action == "reject":
            kept = "the first record of each is kept, in the order of file names and lines"
            return [f"{have}; {kept if is_ordered else 'one record of each is kept, chosen by its content'}"]
        if is_only_allowed:
            return [f"{have}; all are kept"]
        later = self.records - self.keys
        limit = reject_flag(later, records, max_reject_fraction)
        remedy = f"--on_duplicate_key reject{limit} keeps the first record of each"
        if action == "fail":
            raise UserError(f"{have}; expected another value in each record; {remedy}, allow keeps all")
        return [f"{have}; all are kept; {remedy}, fail stops the job"]


def find_repeated_keys(sections: Iterable[Section], temporary: str | None = None) -> RepeatedKeys:
    """Count keys that occur more than once; with `temporary`, also list there all records but the first of each.

    The first one has the least file name, and the least line in it.
    """
    sections = sorted(sections, key=lambda section: (section.split, section.path))
    number = count_ranges(sum(section.examples for section in sections), CONTENTS_AT_ONCE)
    found = RepeatedKeys()
    example: tuple[tuple[Source, Source], Section, int] | None = None
    with ThreadPoolExecutor(MAX_READERS, "shardmill-keys") as pool:
        for index in range(number):
            contents, owners = read_repeated(range_bounds(index, number), sections, pool.map)
            names, files = _file_ranks(contents, owners, sections)
            lines = (contents.positions & _LINES).astype(np.int64)
            if contents.labels is not None:  # records without an order are in that of their content
                order = np.lexsort((contents.labels, contents.low, contents.high))
                lines = (contents.labels >> np.uint64(2)).astype(np.int64) | FIRST_UNORDERED
            else:
                order = np.lexsort((lines, files, contents.low, contents.high))
            contents, owners, files, lines = contents.take(order), owners[order], files[order], lines[order]
            same = (contents.high[1:] == contents.high[:-1]) & (contents.low[1:] == contents.low[:-1])
            is_later = np.concatenate((np.zeros(min(1, len(order)), bool), same))
            later = np.flatnonzero(is_later)
            if not len(later):
                continue
            starts = np.flatnonzero(~is_later)
            kept = starts[np.searchsorted(starts, later, side="right") - 1]
            seconds = later[kept == later - 1]  # one of each key
            found.keys += len(seconds)
            found.records += len(seconds) + len(later)
            row = int(seconds[np.lexsort((lines[seconds - 1], files[seconds - 1]))[0]]) - 1
            pair = ((names[files[row]], int(lines[row])), (names[files[row + 1]], int(lines[row + 1])))
            if example is None or pair < example[0]:
                example = pair, sections[owners[row]], int(contents.positions[row])
            if temporary is not None:
                columns = contents.positions[later].astype(np.uint64), files[kept], lines[kept]
                _write_later(found, temporary, sections, owners[later], columns, names)
    if example is not None:
        found.first = (*example[0], _read_key(*example[1:]))
    return found


def _file_ranks(contents: Contents, owners: np.ndarray, sections: Sequence[Section]) -> tuple[list[str], np.ndarray]:
    code = (owners.astype(np.uint64) << np.uint64(24)) | (contents.positions >> _FILE_SHIFT)
    distinct, inverse = np.unique(code, return_inverse=True)
    by_section: dict[int, list[bytes]] = {}
    found = []
    for value in distinct.tolist():
        owner, file = value >> 24, value & ((1 << 24) - 1)
        if owner not in by_section:
            by_section = {owner: sections[owner].read_names().split(SEPARATOR)}  # those of one section at a time
        found.append(by_section[owner][file].decode())
    names = sorted(set(found))
    rank = {name: index for index, name in enumerate(names)}
    return names, np.array([rank[name] for name in found], np.int64)[inverse]


def _read_key(section: Section, position: int) -> str:
    batch = pa.ipc.open_stream(storage.read_bytes(section.path + _TEXTS)).read_all().to_batches()[0]
    (row,) = np.flatnonzero(batch["position"].to_numpy() == position).tolist()[:1]
    return as_text(batch["key"][row].as_py())


def _write_later(
    found: RepeatedKeys, temporary: str, sections: Sequence[Section], owners: np.ndarray, columns: Any, names: list[str]
) -> None:
    """Write the records that have an earlier one's key, task by task, and note where those of each task are."""
    tasks = sorted({sections[owner].split for owner in np.unique(owners).tolist()})
    number_of = {name: number for number, name in enumerate(tasks)}
    code = np.array([number_of.get(section.split, -1) for section in sections])[owners]
    order = np.argsort(code, kind="stable")
    bounds = np.searchsorted(code[order], np.arange(len(tasks) + 1)).tolist()
    path, offset, parts = storage.join(storage.join(temporary, _FOLDER), f"later-{uuid.uuid4().hex}"), 0, []
    for task, start, stop in zip(tasks, bounds, bounds[1:]):
        later, files, lines = (column[order[start:stop]] for column in columns)
        used, ranks = np.unique(files, return_inverse=True)
        kept = pa.DictionaryArray.from_arrays(ranks.astype(np.int32), pa.array([names[rank] for rank in used]))
        data = _to_ipc(pa.RecordBatch.from_arrays([pa.array(later), kept, pa.array(lines)], schema=_LATER))
        found.later.setdefault(task, []).append((path, offset, len(data)))
        parts.append(data)
        offset += len(data)
    storage.write_parts(path, parts)


class LaterRecords:
    """The records of one task that have the key of an earlier record."""

    def __init__(self, repeated: RepeatedKeys | None, task: Sequence[BlockRef]) -> None:
        """Read them, if there are any."""
        ranges = () if repeated is None else repeated.later.get(name_task(task), ())
        parts = [pa.ipc.open_stream(storage.read_range(*part)).read_all() for part in ranges]
        self._later = pa.concat_tables([_LATER.empty_table(), *parts]).sort_by("position")
        self._positions = self._later["position"].to_numpy()
        self._bases = number_files(task)

    def reject(self, rows: Rows, file: FileRef, key: str | None) -> Rows:
        """Return rows without these records, and with a Reject for each of them."""
        positions = self._bases[file.name] | rows.lines.astype(np.uint64)
        bad = np.isin(positions, self._positions)
        if not bad.any():
            return rows
        later = self._later.take(pa.array(np.searchsorted(self._positions, positions[bad]))).to_pylist()
        places = [f"{kept['file']}:{kept['line']}" if file.is_ordered else "another row" for kept in later]
        rejects = [
            Reject(file.name, line, "encode", f"its --key {key} is that of {place}, which is kept")
            for line, place in zip(rows.lines[bad].tolist(), places, strict=True)
        ]
        good = ~bad
        return replace(
            rows, batch=rows.batch.filter(pa.array(good)), lines=rows.lines[good], rejects=[*rows.rejects, *rejects]
        )
