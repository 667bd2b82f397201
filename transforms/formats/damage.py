"""Files that cannot be read to their end: how many records that loses, as a footer or an index promises or as bytes
tell."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardmill.metadata.rejects import Count, Reject
from transforms.stores.compressed import TruncatedError
from transforms.stores.error_text import error_text
from transforms.stores.failures import raise_if_store_failed


class UnreadableError(Exception):
    """What is not of the format, or damaged: why."""


def why_unreadable(error: Exception, path: str) -> str:
    """Why the file at `path` cannot be read; raises `error` if a store failed, so that the runner tries again."""
    if not isinstance(error, OSError):
        return str(error)
    raise_if_store_failed(error, path)
    return error_text(error)


@dataclass(frozen=True, slots=True)
class Damage:
    """Why a file, or a block of one, cannot be read any further.

    Attributes:
      reason: in words.
      size_bytes: how much of it on disk cannot be read; 0 where what is there was read, but its end is missing.
      ratio: of what cannot be read to what could be, 0 where nobody knows how much is missing.
    """

    reason: str
    size_bytes: int
    ratio: float

    def reject(self, source: str, line: int | None, stage: str, reason: str, records: int, whole_bytes: int) -> Reject:
        """The Reject of all that is lost.

        Args:
          source, line, stage, reason: as in Reject.
          records: that could be read; if there are none, how many are lost is estimated once all files are read.
          whole_bytes: the file's on disk.
        """
        count: Count = "estimated" if self.ratio else "at least"
        if not records:
            return Reject(source, line, stage, reason, None, whole_bytes, count)
        return Reject(source, line, stage, reason, max(round(records * self.ratio), 1), self.size_bytes, count)


def of_compressed(error: TruncatedError, size_bytes: int) -> Damage:
    """The damage that `error` tells of a compressed file of `size_bytes`."""
    if not error.is_cut:
        left = max(size_bytes - error.good_bytes, 0)
        return Damage(str(error), left, left / max(error.good_bytes, 1))
    missing = max(error.promised_bytes - error.made_bytes, 0)
    return Damage(str(error), 0, missing / max(error.made_bytes, 1))


def unread_file(name: str, size_bytes: int, stage: str, reason: str, count: Count = "estimated") -> Reject:
    """The Reject of a file of which nothing can be read: how many records it has is estimated once all files are
    read."""
    return Reject(name, None, stage, reason, None, size_bytes, count)


def settle(rejects: Iterable[Reject], records: int, size_bytes: int) -> tuple[list[Reject], int]:
    """The rejects, with an estimate for the files of which nothing could be read; and all records of the input by that.

    Args:
      rejects: all of a job.
      records: all of its input, those of such files counted as one each.
      size_bytes: of its input.
    """
    known = list(rejects)
    good_bytes = size_bytes - sum(reject.size_bytes for reject in known)
    good = records - sum(reject.counted for reject in known if reject.is_loss)
    rate = good / good_bytes if good > 0 and good_bytes > 0 else 0.0
    settled = [
        reject if reject.records is not None else replace(reject, records=max(round(reject.size_bytes * rate), 1))
        for reject in known
    ]
    return settled, records + sum(reject.counted for reject in settled) - sum(reject.counted for reject in known)


@dataclass(frozen=True, slots=True)
class Losses:
    """What could not be read of all files: records, and bytes on disk.

    Attributes:
      uncounted: files of which more than that is lost, but nobody knows how much.
      estimated: whether `records` holds estimates.
    """

    files: int
    records: int
    size_bytes: int
    uncounted: int
    estimated: bool

    @classmethod
    def of(cls, rejects: Iterable[Reject]) -> "Losses":
        """The sum of `rejects` that stand for more than a record that was read and refused."""
        lost = [reject for reject in rejects if reject.is_loss]
        return cls(
            len({reject.source for reject in lost}),
            sum(reject.counted for reject in lost),
            sum(reject.size_bytes for reject in lost),
            len({reject.source for reject in lost if reject.count == "at least"}),
            any(reject.count == "estimated" for reject in lost),
        )

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


def failure(rejects: Sequence[Reject], on_damaged_file: str) -> str | None:
    """Why `rejects` fail the job where the number of records lost is not known for certain; None if they do not."""
    unsure = [reject for reject in rejects if reject.count != "exact"]
    if on_damaged_file == "reject" or not unsure:
        return None
    first = min(unsure, key=lambda reject: (-reject.counted, -reject.size_bytes, reject.source))
    return (
        f"{Losses.of(rejects)}; such as {first.source!r}: {first.reason}; mend the files or leave them out, or give "
        "--on_damaged_file reject to go without what cannot be read"
    )


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
