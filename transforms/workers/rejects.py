"""Gather the rejects of all workers in order, within bounded memory."""

import heapq
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any

import google_crc32c
import orjson

from shardmill.metadata.manifest import Reject
from shardmill.text import plural
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.resources import Spool

OTHER_COLUMNS = "columns"  # stage of files that are left out because of their columns, whose records are counted
FOLDER = "rejects"  # in the job's temporary directory
MOST_REASONS = 10_000  # that are remembered; twice as many for a moment
_REASONS = 100  # in a manifest
_INLINE_BYTES = 2 << 10  # with the counts: to write a file for a line or two would cost more
CHUNK_BYTES = 1 << 20  # read or written at once; fewer in all are written in one request
_READERS = 16  # each may be a request to a store
SINGLE_READ_BYTES = 2 << 20  # a file of no more is read in one
_HELD_BYTES = 8 << 20  # of lines that are sorted at once, which are ten times as much with their keys
READ_BYTES = 4 << 20  # of all that is merged, read ahead
_LEAST_BYTES = 4 << 10  # of each
_encode = json.JSONEncoder(ensure_ascii=False).encode
_rank_loss = attrgetter("counted_records", "size_bytes")
PlaceOf = Callable[[int], tuple[str, int]]


@dataclass(slots=True)
class Losses:
    """Unreadable input of all files: records, and bytes on disk.

    Rejects must be added in the order of their sources, so that no names need to be remembered.
    """

    files: int = 0
    records: int = 0
    size_bytes: int = 0
    uncounted_files: int = 0  # files that lost an unknown number of further records
    estimated: bool = False  # True if `records` contains estimates
    largest_uncertain: Reject | None = None  # the largest whose number of records is not known for certain
    _source: str | None = None  # of the last loss
    _uncounted_source: str | None = None  # and of the last loss of unknown size

    def add(self, reject: Reject) -> None:
        """Add the next reject that is settled, unless it is a record that was read and refused."""
        if not reject.is_loss or reject.stage == OTHER_COLUMNS:
            return
        self.files += reject.source != self._source
        self._source = reject.source
        self.records += reject.counted_records
        self.size_bytes += reject.size_bytes
        self.estimated |= reject.count == "estimated"
        if reject.count == "at least":
            self.uncounted_files += reject.source != self._uncounted_source
            self._uncounted_source = reject.source
        largest = self.largest_uncertain
        if reject.count != "exact" and (largest is None or _rank_loss(reject) > _rank_loss(largest)):
            self.largest_uncertain = reject

    def __str__(self) -> str:
        certainty = "about " if self.estimated else "at least " if self.uncounted_files else ""
        files = plural(self.files, "damaged file")
        more = f", and how many more were in {plural(self.uncounted_files, 'file')} cut short or unlisted nobody knows"
        # Of a file cut short, none is there to be read
        size = f", {plural(self.size_bytes, 'byte')}" if self.size_bytes else ""
        number = f"{certainty}{plural(self.records, 'record')}"
        return f"{number} in {files} cannot be read{size}{more if self.uncounted_files else ''}"

    def to_json(self) -> dict[str, Any]:
        names = ("files", "records", "size_bytes", "uncounted_files", "estimated")
        return {name: getattr(self, name) for name in names}

    def failure(self, on_damaged_file: str, limit: str | None) -> str | None:
        """Return why a job fails that lost an uncertain number of records; `limit`: more flags, None if none helps."""
        if on_damaged_file == "reject" or self.largest_uncertain is None:
            return None
        flags = f", or give --on_damaged_file reject{limit} to go without what cannot be read"
        such = f"such as {self.largest_uncertain.source!r}: {self.largest_uncertain.reason}"
        return f"{self}; {such}; mend the files or leave them out{'' if limit is None else flags}"


@dataclass(frozen=True, slots=True)
class RejectsPart:
    """A batch of rejects of one worker."""

    rejects: int  # number of rejects
    records: int  # records that they count; unknown numbers count as one
    lost_records: int  # of unreadable input, see Reject.is_loss
    lost_bytes: int
    text: bytes = b""  # all lines with line ends if they are few, or the first ones
    path: str = ""  # file of all other lines; "" if none was written
    size_bytes: int = 0  # of that file


class RejectsWriter:
    """Collects rejects as they are found, holding at most one MiB of them in memory."""

    def __init__(self, temporary: str | None) -> None:
        """Write to the job's `temporary` directory; None writes no files, as in a dry run."""
        self._temporary = temporary
        self._lines: list[bytes] = []
        self._held = self._written = 0
        self._rejects = self._records = self._lost_records = self._lost_bytes = 0
        self._path = ""
        self._file: Any = None
        self._opened = ExitStack()

    def add(self, rejects: Iterable[Reject]) -> None:
        """Add rejects; raises OSError, for example if the disk is full."""
        for reject in rejects:
            self._rejects += 1
            self._records += reject.counted_records
            if reject.is_loss:
                self._lost_records += reject.counted_records
                self._lost_bytes += reject.size_bytes
            if self._temporary is None and self._held >= _INLINE_BYTES:
                continue
            line = encode_reject(reject) + b"\n"
            self._lines.append(line)
            self._held += len(line)
            if self._held >= CHUNK_BYTES:
                self._write()

    def close(self) -> list[RejectsPart]:
        """Return the rejects as a list of no or one part; raises OSError."""
        if not self._rejects:
            return []
        counts = (self._rejects, self._records, self._lost_records, self._lost_bytes)
        if self._temporary is None or (self._file is None and self._held <= _INLINE_BYTES):
            return [RejectsPart(*counts, b"".join(self._lines))]
        if self._file is None:
            storage.write_parts(self._make_path(), [b"".join(self._lines)])
            self._written = self._held
        else:
            self._write()
            self._opened.close()
        return [RejectsPart(*counts, path=self._path, size_bytes=self._written)]

    def _write(self) -> None:
        self._file = self._file or self._opened.enter_context(storage.open_write(self._make_path()))
        self._file.write(b"".join(self._lines))
        self._written += self._held
        self._lines, self._held = [], 0

    def _make_path(self) -> str:
        # A random name keeps attempts apart: a retried or speculative one must never write to another's file.
        assert self._temporary is not None
        self._path = storage.join(storage.join(self._temporary, FOLDER), f"{uuid.uuid4().hex}.jsonl")
        return self._path


def make_parts(rejects: Iterable[Reject], temporary: str | None) -> list[RejectsPart]:
    """Return the given rejects as a list of no or one batch of lines."""
    writer = RejectsWriter(temporary)
    writer.add(rejects)
    return writer.close()


def first_reject(parts: Iterable[RejectsPart]) -> Reject | None:
    """Return the first, by source, of the rejects whose lines travel with `parts`; None if there are none."""
    found = [Reject(**json.loads(line)) for part in parts for line in part.text.splitlines()]
    return min(found, key=lambda reject: (reject.source, reject.line or 0, reject.stage, reject.reason), default=None)


def encode_reject(reject: Reject) -> bytes:
    """Return the JSON line of a reject, without line end."""
    return _encode(reject.to_json()).encode()


def split_lines(data: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each line of chunks of bytes, without its line end; the last line must have one too."""
    rest = b""
    for chunk in data:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


@dataclass(slots=True)
class Reason:
    """A reason to reject records: how often it occurred, with an example."""

    text: str
    source: str  # of the first reject
    rejects: int = 0  # number of rejects
    records: int = 0  # records that they count


class ReasonCounter:
    """Counts why records were rejected, in the order of rejects.

    If there are too many different reasons, the rarest so far are dropped, and of equally rare ones the later. The
    result depends only on the order in which rejects are published.
    """

    def __init__(self, most: int = MOST_REASONS) -> None:
        self._most, self._found = most, dict[str, Reason]()
        self.has_dropped = False

    def add(self, reason: str, records: int, source: str) -> None:
        found = self._found.get(reason)
        if found is None:
            found = self._found[reason] = Reason(reason, source)
        found.rejects += 1
        found.records += records
        if len(self._found) > 2 * self._most:
            kept = sorted(self._found.items(), key=lambda item: -item[1].rejects)[: self._most]
            self._found, self.has_dropped = dict(kept), True

    def is_counted(self, reason: str) -> bool:
        return reason in self._found

    def most_frequent(self) -> Reason | None:
        """Return the reason with the most rejects, the first of equals; None without rejects."""
        return max(self._found.values(), key=lambda reason: reason.rejects, default=None)

    def by_records(self, max_reasons: int) -> dict[str, int]:
        """Return the records of the `max_reasons` reasons with the most records, sorted by reason.

        Of equals, the first by name are chosen.
        """
        ordered = sorted(self._found.items(), key=lambda item: (-item[1].records, item[0]))[:max_reasons]
        return {reason: found.records for reason, found in sorted(ordered)}


class SortedLines:
    """Takes lines without line ends, in any order, and iterates over them sorted."""

    def __init__(self, key: Callable[[bytes], Any], held_bytes: int = _HELD_BYTES) -> None:
        """Sort by `key`, then by the lines' bytes; at most `held_bytes` of lines are held in memory."""
        self._order, self._held_bytes = lambda line: (key(line), line), held_bytes
        self._held: list[bytes] = []
        self._size = 0
        self._spool: Spool | None = None
        self._parts: list[tuple[int, int]] = []  # offset and length of what was put aside

    def add(self, line: bytes) -> None:
        """Add a line; raises OSError, for example if the disk is full."""
        self._held.append(line)
        self._size += len(line) + 1
        if self._size >= self._held_bytes:
            self._put_aside()

    def __iter__(self) -> Iterator[bytes]:
        if self._spool is None:
            return iter(sorted(self._held, key=self._order))
        if self._held:
            self._put_aside()
        most = max(READ_BYTES // len(self._parts), _LEAST_BYTES)
        return heapq.merge(*(split_lines(self._spool.chunks(*part, most)) for part in self._parts), key=self._order)

    def _put_aside(self) -> None:
        self._spool = self._spool or Spool()
        data = b"".join(line + b"\n" for line in sorted(self._held, key=self._order))
        self._parts.append((self._spool.append(data), len(data)))
        self._held, self._size = [], 0


@dataclass(frozen=True, slots=True, eq=False)
class Rejects:
    """All rejects of a job, in a file that is deleted with the last reference to it."""

    records: int = 0  # number of rejected records
    reasons: Mapping[str, int] = field(default_factory=dict)  # records of the most frequent reasons, sorted by reason
    losses: Losses = field(default_factory=Losses)  # unreadable input
    most_frequent: Reason | None = None  # by number of rejects, if any
    is_lower_bound: bool = False  # True if there were too many different reasons to count all
    size_bytes: int = 0  # of the lines
    crc32c: int = 0
    _spool: Spool | None = None

    def __bool__(self) -> bool:
        return self.size_bytes > 0

    def chunks(self) -> Iterator[bytes]:
        """Yield the lines in chunks of bytes, in the order of their sources."""
        if self._spool is not None:
            yield from self._spool.chunks(0, self.size_bytes, CHUNK_BYTES)


def gather_rejects(
    parts: Iterable[RejectsPart], records: int, size_bytes: int, locate_record: PlaceOf | None = None
) -> tuple[Rejects, int]:
    """Return the rejects of a job and its number of input records, both with estimates for completely unreadable files.

    `records` counts one for each completely unreadable file. `locate_record` maps a line number to (manifest, line in
    it), if there are several manifests. Raise an OSError if a part cannot be read, or the disk is full.
    """
    known = list(parts)
    read_records = records - sum(part.lost_records for part in known)
    read_bytes = size_bytes - sum(part.lost_bytes for part in known)
    density = read_records / read_bytes if read_records > 0 and read_bytes > 0 else 0.0
    ordered = SortedLines(_sort_key)
    for line in _iterate_lines(known):
        ordered.add(line)
    rejects = _collect_rejects(ordered, density, locate_record)
    return rejects, records + rejects.records - sum(part.records for part in known)


def _iterate_lines(parts: Sequence[RejectsPart]) -> Iterator[bytes]:
    yield from (line for part in parts for line in part.text.splitlines())
    files = sorted((part for part in parts if part.path), key=lambda part: part.size_bytes)
    small = [part for part in files if part.size_bytes <= SINGLE_READ_BYTES]
    with ThreadPoolExecutor(_READERS, "shardmill-rejects") as pool:
        for start in range(0, len(small), _READERS):
            for data in pool.map(storage.read_bytes, (part.path for part in small[start : start + _READERS])):
                yield from split_lines([data])
    for part in files[len(small) :]:
        with storage.open_read(part.path) as file:
            yield from split_lines(iter(partial(file.read, CHUNK_BYTES), b""))


def _collect_rejects(ordered: Iterable[bytes], records_per_byte: float, locate_record: PlaceOf | None) -> Rejects:
    spool, reasons, losses, block = Spool(), ReasonCounter(), Losses(), bytearray()
    records = crc32c = 0

    def flush() -> None:
        nonlocal crc32c
        spool.append(block)
        crc32c = google_crc32c.extend(crc32c, bytes(block))
        block.clear()

    for line in ordered:
        reject = Reject(**orjson.loads(line))
        if reject.records is None:
            reject = replace(reject, records=max(round(reject.size_bytes * records_per_byte), 1))
            line = encode_reject(reject)
        if locate_record is not None and reject.line is not None:
            manifest, of_manifest = locate_record(reject.line)
            line = encode_reject(replace(reject, manifest=manifest, line=of_manifest))
        records += reject.counted_records
        reasons.add(reject.reason, reject.counted_records, reject.source)
        losses.add(reject)
        block += line + b"\n"
        if len(block) >= CHUNK_BYTES:
            flush()
    flush()
    most_frequent, by_records = reasons.most_frequent(), reasons.by_records(_REASONS)
    return Rejects(records, by_records, losses, most_frequent, reasons.has_dropped, spool.size_bytes, crc32c, spool)


def _sort_key(line: bytes) -> tuple[Any, ...]:
    reject = orjson.loads(line)
    return reject["source"], reject["line"] or 0, reject["stage"], reject["reason"]
