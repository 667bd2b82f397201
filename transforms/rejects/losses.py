"""What could not be read, summed up: records, bytes, and how sure that is."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from shardmill.metadata.rejects import Reject


def rate(records: int, size_bytes: int, lost_records: int, lost_bytes: int) -> float:
    """Records a byte of what could be read; 0 where nothing could.

    Args:
      records: of the input, those of files of which nothing could be read counted as one each.
      size_bytes: of the input.
      lost_records, lost_bytes: of all that could not be read.
    """
    good, good_bytes = records - lost_records, size_bytes - lost_bytes
    return good / good_bytes if good > 0 and good_bytes > 0 else 0.0


def settled(reject: Reject, records_a_byte: float) -> Reject:
    """`reject`, with an estimate for a file of which nothing could be read."""
    if reject.records is not None:
        return reject
    return replace(reject, records=max(round(reject.size_bytes * records_a_byte), 1))


@dataclass(frozen=True, slots=True)
class Losses:
    """What could not be read of all files: records, and bytes on disk.

    Attributes:
      uncounted: files of which more than that is lost, but nobody knows how much.
      estimated: whether `records` holds estimates.
    """

    files: int = 0
    records: int = 0
    size_bytes: int = 0
    uncounted: int = 0
    estimated: bool = False

    def __str__(self) -> str:
        number = (
            f"{'about ' if self.estimated else 'at least ' if self.uncounted else ''}{_many(self.records, 'record')}"
        )
        files = _many(self.files, "damaged file")
        more = f", and how many more were in {_many(self.uncounted, 'file')} cut short or unlisted nobody knows"
        # Of a file cut short, none is there to be read
        size = f", {_many(self.size_bytes, 'byte')}" if self.size_bytes else ""
        return f"{number} in {files} cannot be read{size}{more if self.uncounted else ''}"

    def to_json(self) -> dict[str, Any]:
        """What stands in the manifest."""
        return {
            "files": self.files,
            "records": self.records,
            "size_bytes": self.size_bytes,
            "uncounted_files": self.uncounted,
            "estimated": self.estimated,
        }


class LossCounter:
    """Sums up the rejects, settled, that stand for more than a record that was read and refused.

    They come in the order of their sources, so that no names need be remembered.
    """

    def __init__(self) -> None:
        self._files = self._records = self._size_bytes = self._uncounted = 0
        self._estimated = False
        self._source: str | None = None  # of the last loss
        self._unknown: str | None = None  # and of the last of which nobody knows how much it is
        self.unsure: Reject | None = None  # the largest whose number of records is not known for certain

    def add(self, reject: Reject) -> None:
        """Take the next one."""
        if not reject.is_loss:
            return
        self._files += reject.source != self._source
        self._source = reject.source
        self._records += reject.counted
        self._size_bytes += reject.size_bytes
        self._estimated |= reject.count == "estimated"
        if reject.count == "at least":
            self._uncounted += reject.source != self._unknown
            self._unknown = reject.source
        if reject.count != "exact" and (self.unsure is None or _size(reject) > _size(self.unsure)):
            self.unsure = reject

    def losses(self) -> Losses:
        """All of them."""
        return Losses(self._files, self._records, self._size_bytes, self._uncounted, self._estimated)


def losses_of(rejects: Iterable[Reject]) -> tuple[Losses, Reject | None]:
    """What LossCounter makes of settled rejects in any order, and its `unsure`."""
    counter = LossCounter()
    for reject in sorted(rejects, key=lambda reject: reject.source):
        counter.add(reject)
    return counter.losses(), counter.unsure


def failure(losses: Losses, unsure: Reject | None, on_damaged_file: str) -> str | None:
    """Why a job fails where the number of records lost is not known for certain; None if it does not."""
    if on_damaged_file == "reject" or unsure is None:
        return None
    return (
        f"{losses}; such as {unsure.source!r}: {unsure.reason}; mend the files or leave them out, or give "
        "--on_damaged_file reject to go without what cannot be read"
    )


def _size(reject: Reject) -> tuple[int, int]:
    return reject.counted, reject.size_bytes


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
