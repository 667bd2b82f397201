"""Rejects on their way to publication: only counts travel, and a few lines; more are left in the job's temporary
directory, in whatever order they were found."""

import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from shardmill.metadata.rejects import Reject
from shardmill.transforms.stores import storage

FOLDER = "rejects"  # in the job's temporary directory
_TRAVELS_BYTES = 2 << 10  # with the counts: to write a file for a line or two would cost more
_BLOCK_BYTES = 1 << 20  # written at once; fewer in all are written in one request
_encode = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class RejectsPart:
    """Some rejects of one worker.

    Attributes:
      rejects: how many.
      records: that they stand for, those whose number is estimated later counted as one.
      lost_records, lost_bytes: of those that were not even read, see shardmill.rejects.Reject.is_loss.
      text: their lines, each with its end, where they are few.
      path, size_bytes: of the file that has them otherwise, "" where none was to be written: then `text` has the
        first of them.
    """

    rejects: int
    records: int
    lost_records: int
    lost_bytes: int
    text: bytes = b""
    path: str = ""
    size_bytes: int = 0


class RejectsWriter:
    """Takes rejects as they are found, and holds a mebibyte of them at most."""

    def __init__(self, temporary: str | None) -> None:
        """Args:

        temporary: the job's temporary directory; None where nothing is to be written, as in a dry run.
        """
        self._temporary = temporary
        self._lines: list[bytes] = []
        self._held = self._written = 0
        self._rejects = self._records = self._lost_records = self._lost_bytes = 0
        self._path = ""
        self._file: Any = None
        self._opened = ExitStack()

    def add(self, rejects: Iterable[Reject]) -> None:
        """Take some more; raises OSError, as where the disk is full."""
        for reject in rejects:
            self._rejects += 1
            self._records += reject.counted
            if reject.is_loss:
                self._lost_records += reject.counted
                self._lost_bytes += reject.size_bytes
            if self._temporary is None and self._held >= _TRAVELS_BYTES:
                continue
            line = encoded(reject) + b"\n"
            self._lines.append(line)
            self._held += len(line)
            if self._held >= _BLOCK_BYTES:
                self._write()

    def close(self) -> list[RejectsPart]:
        """All that was taken, none or one; raises OSError."""
        if not self._rejects:
            return []
        counts = (self._rejects, self._records, self._lost_records, self._lost_bytes)
        if self._temporary is None or (self._file is None and self._held <= _TRAVELS_BYTES):
            return [RejectsPart(*counts, b"".join(self._lines))]
        if self._file is None:
            storage.write_parts(self._new_path(), [b"".join(self._lines)])
            self._written = self._held
        else:
            self._write()
            self._opened.close()
        return [RejectsPart(*counts, path=self._path, size_bytes=self._written)]

    def _write(self) -> None:
        if self._file is None:
            self._file = self._opened.enter_context(storage.open_write(self._new_path()))
        self._file.write(b"".join(self._lines))
        self._written += self._held
        self._lines, self._held = [], 0

    def _new_path(self) -> str:
        # A random name keeps attempts apart: a retried or speculative one must never write to another's file.
        assert self._temporary is not None
        self._path = storage.join(storage.join(self._temporary, FOLDER), f"{uuid.uuid4().hex}.jsonl")
        return self._path


def parts_of(rejects: Iterable[Reject], temporary: str | None) -> list[RejectsPart]:
    """Some rejects as what travels of them, none or one; see RejectsWriter."""
    writer = RejectsWriter(temporary)
    writer.add(rejects)
    return writer.close()


def first_of(parts: Iterable[RejectsPart]) -> Reject | None:
    """The first, in the order of sources, of those rejects that travel; None if there are none."""
    found = [Reject(**json.loads(line)) for part in parts for line in part.text.splitlines()]
    return min(found, key=lambda reject: (reject.source, reject.line or 0, reject.stage, reject.reason), default=None)


def encoded(reject: Reject) -> bytes:
    """The line of a reject, without its end."""
    return _encode(reject.to_json()).encode()


def lines(data: Iterable[bytes]) -> Iterator[bytes]:
    """Each line of what comes in chunks, without its end; the last has one too."""
    rest = b""
    for chunk in data:
        first, *others = chunk.split(b"\n")
        if not others:
            rest += first
            continue
        yield rest + first
        yield from others[:-1]
        rest = others[-1]
