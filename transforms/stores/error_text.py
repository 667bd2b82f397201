"""What libraries say of a fault, in words that are the same in every run, wherever the input lies."""

import errno
import os
import re

# How objects without a text of their own are shown, such as `<ast.Call object at 0x7f0c…>`: where they lie in memory is
# chance.
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


class NotAFileError(OSError):
    """There is something, but no regular file: a folder, a pipe. Its text is ours, for the system has no number for
    it."""


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
