"""What libraries say of a fault, in words that are the same in every run, wherever the input lies."""

import errno
import os
import re

from shardmill.errors import JobError, UserError

_FULL = (errno.ENOSPC, errno.EDQUOT)

# How objects without a text of their own are shown, such as `<ast.Call object at 0x7f0c…>`: where they lie in memory is
# chance.
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


class NotAFileError(OSError):
    """There is something, but no regular file: a folder, a pipe. Its text is ours, for the system has no number for
    it."""


def sentence_of(error: OSError) -> str:
    """What an error of the system is, with the file that it is about, in words for a user."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)


def is_of_space(error: OSError) -> bool:
    """Whether there is no room for what was to be written: nothing that the user said is wrong."""
    return error.errno in (*_FULL, errno.EFBIG)


def of_output(words: str, error: OSError) -> UserError | JobError:
    """The error of a command whose output cannot be written: a mistake in what the user said, unless there is no room.

    Args:
      words: what was to be written, and where.
      error: why it cannot be.
    """
    return (JobError if is_of_space(error) else UserError)(f"{words}: {error.strerror or error}")


def of_writing(error: OSError, path: str) -> OSError:
    """`error`, met in writing to `path`, with that path, which the system leaves out where a file is open already; of a
    disk that is full, how much is free, too."""
    if error.errno is None:
        return error
    said = os.strerror(error.errno)
    if error.errno in _FULL and (room := _room(path)):
        said = f"{said}; {room}"
    elif error.filename:
        return error
    return OSError(error.errno, said, error.filename or path)


def _room(path: str) -> str:
    """What is free on the disk of a local path, in words; "" where that cannot be told."""
    while path and not os.path.isdir(path):
        path = os.path.dirname(path)
    import shutil  # which every command would import for this one sentence

    try:
        found = shutil.disk_usage(path or ".")
    except OSError:
        return ""
    return f"{found.free:,} of {found.total:,} bytes are free there"


def error_text(error: BaseException, lines: int | None = None) -> str:
    """The text of an exception as it may stand in rejects/ and the manifest: one line, no address in memory, no path.

    With `lines`, of its first lines only. An error of the system is called as the system calls it, for its own text,
    and Arrow's, name the path.
    """
    if isinstance(error, NotAFileError):
        return str(error.strerror)
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    if isinstance(error, FileNotFoundError):  # an object store's, which names the URL
        return "no such file"
    if isinstance(error, PermissionError):  # an object store's, too
        return os.strerror(errno.EACCES)
    return _ADDRESS.sub("", " ".join(" ".join(str(error).splitlines()[:lines]).split()))
