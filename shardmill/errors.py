"""The ways a job or a reader ends without data, as the user sees them."""

from shardmill.printable import printable


class _Sentence(Exception):
    """An error that names things out of data, shown so that no terminal takes them for commands."""

    def __str__(self) -> str:
        return printable(super().__str__())


class UserError(_Sentence, ValueError):
    """A mistake in a flag, a manifest or an input: one sentence that names it. Exit status 2."""


class JobError(_Sentence, RuntimeError):
    """The job ran and must not publish what it made: one sentence that says why. Exit status 1."""


class CorruptDataError(_Sentence, ValueError):
    """A shard, record or manifest on disk is not what was written. The message names file and record."""
