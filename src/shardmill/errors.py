"""The ways a job or a reader ends without data, as the user sees them."""

from collections.abc import Mapping
from typing import ClassVar

from shardmill.printable import printable


class _Sentence(Exception):
    """An error that names things out of data, shown so that no terminal takes them for commands.

    Attributes:
      exit_status: of the command that ends with it.
    """

    exit_status: ClassVar[int] = 1

    def __str__(self) -> str:
        return printable(super().__str__())


class UserError(_Sentence, ValueError):
    """A mistake in a flag, a manifest or an input: one sentence that names it. Exit status 2."""

    exit_status = 2


class JobError(_Sentence, RuntimeError):
    """The job ran and must not publish what it made: one sentence that says why. Exit status 1."""


class ChecksError(JobError):
    """What the job made is not what was asked of it, and was not published. Exit status 3."""

    exit_status = 3


class LockedError(JobError):
    """Another job builds or has published the same version: this one stood back. Exit status 4."""

    exit_status = 4


class OutrunError(LockedError):
    """A version was published, but another job had published a newer one by then, which LATEST names. Exit status 4."""


class CorruptDataError(_Sentence, ValueError):
    """A shard, record or manifest on disk is not what was written. The message names file and record."""


# By their names, which outlive a way between processes
KINDS: Mapping[str, type[UserError] | type[JobError]] = {
    kind.__name__: kind for kind in (UserError, JobError, ChecksError, LockedError, OutrunError)
}
