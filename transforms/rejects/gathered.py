"""All rejects of a job: in the order in which they are published, counted, in memory that does not grow with them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import google_crc32c
import orjson

from shardmill.metadata.rejects import Reject
from shardmill.transforms.rejects.losses import LossCounter, Losses, rate, settled
from shardmill.transforms.rejects.part import RejectsPart, encoded, lines
from shardmill.transforms.rejects.reasons import ReasonCounter
from shardmill.transforms.rejects.sorted_lines import SortedLines
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.spool import Spool

_REASONS = 100  # in a manifest
_READERS = 16  # each may be a request to a store
_WHOLE_BYTES = 2 << 20  # a file of no more is read in one
_CHUNK_BYTES = 1 << 20
PlaceOf = Callable[[int], tuple[str, int]]


@dataclass(frozen=True, slots=True)
class MostFrequent:
    """The reason that most rejects have: how often, `at_least` so where others were too many to be counted; and the
    first source that has it."""

    reason: str
    times: int
    at_least: bool
    example: str


@dataclass(frozen=True, slots=True, eq=False)
class Rejects:
    """All rejects of a job, in a file that is gone with the last who refers to it.

    Attributes:
      records: that they stand for.
      reasons: the records of the most frequent reasons, sorted by reason.
      losses: what could not be read.
      unsure: the largest loss whose number of records is not known for certain.
      most: the reason given most often, if there are any.
      size_bytes, crc32c: of the lines.
    """

    records: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    losses: Losses = field(default_factory=Losses)
    unsure: Reject | None = None
    most: MostFrequent | None = None
    size_bytes: int = 0
    crc32c: int = 0
    _spool: Spool | None = None

    def __bool__(self) -> bool:
        return self.size_bytes > 0

    def chunks(self) -> Iterator[bytes]:
        """The lines, in the order of their sources, some bytes at a time."""
        if self._spool is not None:
            yield from self._spool.chunks(0, self.size_bytes, _CHUNK_BYTES)


def gather(
    parts: Iterable[RejectsPart], records: int, size_bytes: int, place_of: PlaceOf | None = None
) -> tuple[Rejects, int]:
    """The rejects of a job, and the records of its input, both with an estimate for the files of which nothing could be
    read.

    Args:
      parts: of all workers.
      records: of the input, those of such files counted as one each.
      size_bytes: of the input.
      place_of: (manifest, line in it) of the number of a line, where there are several manifests.

    Raises:
      OSError: a part cannot be read, or there is no room for them.
    """
    known = list(parts)
    records_a_byte = rate(records, size_bytes, sum(p.lost_records for p in known), sum(p.lost_bytes for p in known))
    found = SortedLines(_place)
    for line in _all_lines(known):
        found.add(line)
    rejects = _gathered(found, records_a_byte, place_of)
    return rejects, records + rejects.records - sum(part.records for part in known)


def _all_lines(parts: Sequence[RejectsPart]) -> Iterator[bytes]:
    yield from (line for part in parts for line in part.text.splitlines())
    files = sorted((part for part in parts if part.path), key=lambda part: part.size_bytes)
    small = [part for part in files if part.size_bytes <= _WHOLE_BYTES]
    with ThreadPoolExecutor(_READERS, "shardmill-rejects") as pool:
        for start in range(0, len(small), _READERS):
            for data in pool.map(storage.read_bytes, (part.path for part in small[start : start + _READERS])):
                yield from lines([data])
    for part in files[len(small) :]:
        with storage.open_read(part.path) as file:
            yield from lines(iter(partial(file.read, _CHUNK_BYTES), b""))


def _gathered(ordered: Iterable[bytes], records_a_byte: float, place_of: PlaceOf | None) -> Rejects:
    spool, reasons, losses = Spool(), ReasonCounter(), LossCounter()
    records = size_bytes = crc32c = 0
    pending: list[bytes] = []
    pending_bytes = 0

    def flush() -> None:
        nonlocal size_bytes, crc32c, pending_bytes
        data = b"".join(pending)
        spool.write(size_bytes, data)
        crc32c = google_crc32c.extend(crc32c, data)
        size_bytes += len(data)
        pending.clear()
        pending_bytes = 0

    for line in ordered:
        reject = Reject(**orjson.loads(line))
        if reject.records is None:
            reject = settled(reject, records_a_byte)
            line = encoded(reject)
        if place_of is not None and reject.line is not None:
            manifest, of_manifest = place_of(reject.line)
            line = encoded(replace(reject, manifest=manifest, line=of_manifest))
        records += reject.counted
        reasons.add(reject.reason, reject.counted, reject.source)
        losses.add(reject)
        pending += (line, b"\n")
        pending_bytes += len(line) + 1
        if pending_bytes >= _CHUNK_BYTES:
            flush()
    flush()
    if not size_bytes:
        return Rejects()
    return Rejects(
        records, reasons.by_records(_REASONS), losses.losses(), losses.unsure, _most(reasons), size_bytes, crc32c, spool
    )


def _most(reasons: ReasonCounter) -> MostFrequent | None:
    found = reasons.most_frequent()
    if found is None:
        return None
    reason, counts = found
    return MostFrequent(reason, counts.times, reasons.forgot, counts.first)


def _place(line: bytes) -> tuple[Any, ...]:
    """Where a line stands in the file."""
    reject = orjson.loads(line)
    return reject["source"], reject["line"] or 0, reject["stage"], reject["reason"]
