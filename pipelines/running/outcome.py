"""How jobs end, and the records of it; nothing here needs Beam, for a night with nothing to do."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import shardmill
from shardmill.errors import ChecksError, CorruptDataError, JobError, LockedError, OutrunError, UserError
from shardmill.metadata.naming import LATEST
from shardmill.pipelines.reports import log
from shardmill.reading.dataset import Dataset
from shardmill.transforms.publishing.build_records import read_record, write_record
from shardmill.transforms.publishing.file_index import FileIndex
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.brief import briefly
from shardmill.transforms.stores.error_text import sentence_of
from shardmill.versions.build_record import BuildRecord, Status, record_path

Failure = UserError | JobError | CorruptDataError
_STATUSES: tuple[tuple[type[Exception], Status], ...] = (
    (OutrunError, "outrun"),
    (LockedError, "locked"),
    (ChecksError, "checks_failed"),
)


class Interrupted(KeyboardInterrupt):
    """A build that was interrupted; the message says what became of it, the cause how.

    Attributes:
      record: of the build, where it has one.
    """

    record: BuildRecord | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """A data set that a job has published.

    Attributes:
      directory: of the version.
      splits: examples by split, in the splits' order.
      rejected: records that were left out.
      notices: what there is to know about it.
      dataset: it, opened; another job may have replaced it since.
    """

    directory: str
    splits: Mapping[str, int]
    rejected: int
    notices: tuple[str, ...]
    dataset: Dataset = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Launched:
    """A job that was written for its runner, which runs and publishes it when this process has ended.

    Attributes:
      directory: of the version that it will publish.
      template: where it was written.
    """

    directory: str
    template: str

    def __str__(self) -> str:
        return (
            f"the job was written to {self.template}; {self.directory} is its own from now on, and published by the job"
            " itself"
        )


@dataclass(frozen=True, slots=True)
class Built:
    """How a build ended.

    Attributes:
      record: of it.
      published: what it has published, None if nothing, or not yet: of a job that was launched.
      error: that it ended with, None if it did well.
      index: what it remembers of its files, and took from an older version; None of a job that keeps none.
    """

    record: BuildRecord
    published: Published | None = None
    error: Failure | None = None
    index: FileIndex | None = None

    @property
    def exit_status(self) -> int:
        """Of a command that did nothing else."""
        return 0 if self.error is None else self.error.exit_status


def begin_record(name: str, version: str) -> BuildRecord:
    """The record of a build that begins now; it says that it is published, which it will be or be replaced."""
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return BuildRecord(name, version, "published", started, shardmill=shardmill.__version__)


def failed_record(record: BuildRecord, error: Exception) -> BuildRecord:
    """`record` of a build that `error` ended."""
    status: Status = next((status for kind, status in _STATUSES if isinstance(error, kind)), "failed")
    return replace(record, status=status, reason=str(error))


def interrupted(parent: str, record: BuildRecord, cause: KeyboardInterrupt, first_too: bool = False) -> Interrupted:
    """What an interrupted build raises, with its record, which is written; if the version was published all the same,
    that of the publication stands.

    Args:
      parent: the folder of all versions.
      record: as far as it is known.
      cause: the interruption; if a job was, an Interrupted that says what became of it.
      first_too: see `write_unpublished`.
    """
    stands = None
    with briefly(), suppress(OSError):
        stands = read_record(record_path(parent, record.version)) if record.version else None
    if stands is not None and stands.is_of(record) and stands.status == "published":
        became = f"{storage.join(parent, record.version)} is published"
        made = cause if isinstance(cause, Interrupted) else Interrupted(became)
    else:
        made = cause if isinstance(cause, Interrupted) else Interrupted("nothing was published")
        stands = replace(record, status="interrupted", reason=str(made))
        if record.version:
            write_unpublished(parent, stands, first_too)
    made.record = stands
    return made


def write_unpublished(parent: str, record: BuildRecord, first_too: bool = False) -> str:
    """Write the record of a build that published nothing; that it cannot be written is said, for how the build ended
    matters more. Returns where it lies, "" if it was not written.

    Args:
      parent: the folder of all versions.
      record: of the build.
      first_too: also where there is no data set yet: of a night that nobody watched. A command that failed at a prompt
        leaves nothing behind.
    """
    try:
        with briefly():
            if first_too or storage.exists(storage.join(parent, LATEST)):
                return write_record(parent, record)
    except OSError as error:
        log.warn(not_written(error))
    return ""


def not_written(error: OSError) -> str:
    """What is said where a record cannot be written."""
    return f"the record of this build could not be written: {sentence_of(error)}"
