"""Errors of jobs and readers that users see."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from json import JSONDecodeError
from typing import ClassVar

from shardmill.text import mask_urls, to_printable

# Exit statuses of the command line, with their meanings
EXIT_STATUSES: Mapping[int, str] = {
    0: "done",
    1: "the job failed, or a fault was found; nothing was published unless the message says so",
    2: "a mistake in a flag, a recipe or the input; nothing was written",
    3: "the data failed its checks; nothing was published",
    4: "another job builds this version, or has published it meanwhile or a newer one",
    5: "the version is published and kept, although its input has changed since",
    129: "hung up (SIGHUP, as when its terminal is closed), and cleaned up",
    130: "interrupted (Ctrl-C), and cleaned up",
    143: "terminated (SIGTERM), and cleaned up",
}
LINE_BREAK = "\n  "  # between the lines of a message; in the lines themselves line breaks are escaped


def describe_exit_statuses(*statuses: int) -> str:
    """Return the sentence on exit statuses at the end of a command's help."""
    return f"Exit status: {'; '.join(f'{status} {EXIT_STATUSES[status]}' for status in statuses)}."


class _PrintableError(Exception):
    """An error whose message may quote data; control characters in it are escaped for terminals.

    Further arguments are lines of a table below the message.
    """

    exit_status: ClassVar[int] = 1  # exit status of a command that ends with it

    def __init__(self, *lines: object) -> None:
        super().__init__(*map(mask_urls, lines))

    def __str__(self) -> str:
        return LINE_BREAK.join(to_printable(str(line)) for line in self.args)

    @property
    def sentence(self) -> str:
        """The message on one line."""
        return "; ".join(" ".join(line.split()) for line in str(self).split(LINE_BREAK))


class UserError(_PrintableError, ValueError):
    """A mistake in a flag, a manifest or an input, named in one sentence. Exit status 2."""

    exit_status = 2


class NotAnIntegerError(UserError, TypeError):
    """A value in place of which an integer is needed."""


class JobError(_PrintableError, RuntimeError):
    """The job ran, but its output must not be published. The message says why in one sentence. Exit status 1."""


class ChecksError(JobError):
    """The output failed its checks and was not published. Exit status 3."""

    exit_status = 3


class LockedError(JobError):
    """Another job is building or has published the same version, so this job stopped. Exit status 4."""

    exit_status = 4


class OutrunError(LockedError):
    """The version was published, but LATEST already names a newer one that another job published. Exit status 4."""


class OutdatedError(JobError):
    """The version is published and is kept, although its input has changed since. Exit status 5."""

    exit_status = 5


class CorruptDataError(_PrintableError, ValueError):
    """A shard, record or manifest on disk differs from what was written. The message names file and record."""


def describe_damage(error: Exception) -> str:
    """Return what is wrong with metadata that raised `error`, without the words of Python's parsers."""
    if isinstance(error, RecursionError):
        return "its brackets are nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start:,} is not UTF-8"
    if isinstance(error, JSONDecodeError):
        return f"it is not JSON from line {error.lineno}, column {error.colno} on"
    if isinstance(error, KeyError):
        return f"it has no {str(error.args[0])[:60]!r}"
    is_own = type(error) in (ValueError, CorruptDataError)
    is_python = not is_own or str(error).startswith(("invalid literal", "could not convert"))
    return "a value has another type than expected" if is_python else str(error)


# By their names, which outlive a way between processes
ERRORS_BY_NAME: Mapping[str, type[UserError] | type[JobError]] = {
    kind.__name__: kind for kind in (UserError, JobError, ChecksError, LockedError, OutrunError)
}


class Terminated(KeyboardInterrupt):
    """A SIGTERM, which preemption, Slurm and Kubernetes send before they kill, or a SIGHUP. Its number follows."""


def interruption_status(cause: BaseException | None) -> int:
    """Return the exit status of a command that a signal ends."""
    return 128 + (int(cause.args[0]) if isinstance(cause, Terminated) else signal.SIGINT)


@contextmanager
def handle_sigterm() -> Iterator[None]:
    """Let the first SIGTERM or SIGHUP raise Terminated in the main thread; a second one ends the process as usual."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGHUP)  # `nohup` ignores the latter
    handled = [number for number in numbers if is_main and signal.getsignal(number) is signal.SIG_DFL]

    def restore() -> None:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)

    def terminate(number: int, _: object) -> None:
        restore()
        raise Terminated(number)

    for number in handled:
        signal.signal(number, terminate)
    try:
        yield
    finally:
        restore()
