"""Files that cannot be read to their end: how many records that loses, as a footer or an index promises or as bytes
tell."""

from dataclasses import dataclass

from shardmill.metadata.rejects import Count, Reject
from shardmill.transforms.stores.compressed import TruncatedError
from shardmill.transforms.stores.error_text import error_text
from shardmill.transforms.stores.failures import raise_if_store_failed


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
