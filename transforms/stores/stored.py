"""A small file as it was read, by which to tell later whether it still is the same."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stored:
    """A small file, read whole.

    Attributes:
      data: its bytes.
      revision: another one after each write: the generation on Google's store, the ETag on S3, which is of the content
        alone, and on disks what the file system knows of the file.
      modified: when it was written, in seconds since 1970, by the clock of its store; 0 where that keeps no time.
    """

    data: bytes
    revision: str
    modified: float


class ChangedError(OSError):
    """A file is not what it was when it was read: another process wrote or deleted it meanwhile."""
