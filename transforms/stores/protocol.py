"""The interface of object stores, their errors, and short retries."""

import errno
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from shardmill.errors import JobError, UserError


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A small file that was read completely."""

    data: bytes
    revision: str  # changes with each write: generation, file status or ETag; that of S3 with the content alone
    modified: float  # write time, seconds since 1970 by the store's clock; or 0


class ChangedError(OSError):
    """A file has been written or deleted by another process since it was read."""


class ConditionError(OSError):
    """A store did not write or delete an object, because it is not as the request required."""


CHECKSUM_STAMP = "crc32c:"  # what a stamp begins with that is a checksum of the content
TIME_STAMP = "time:"  # and one that is the time when the file was written
forget_at_new_options: dict[str, Callable[[], None]] = {}  # by what was read: the function that forgets it


@dataclass(frozen=True, slots=True)
class FileStat:
    """A file's metadata as its store reports it, without reading the file."""

    path: str  # path or URL
    size_bytes: int
    stamp: str = ""  # changes with the content: crc32c, ETag or write time in ns
    modified: float = 0.0  # write time by the store's clock, in seconds since 1970
    inode: int = 0  # of a file on a disk

    @property
    def revision(self) -> str:
        """A text that changes when the file is written or replaced."""
        return f"{self.size_bytes}:{self.stamp}:{self.inode}"


def changed_error(path: str) -> JobError:
    """Return the error of an input file that is no longer as it was when the job first saw it."""
    return JobError(f"{path} was changed while the job read it; leave the input as it is while a job runs")


class Rename(NamedTuple):
    """The source and destination URLs of an object to rename, and its size."""

    source: str
    destination: str
    size_bytes: int


class Upload(Protocol):
    """A new object that is written as its bytes arrive."""

    def write(self, data: bytes) -> object:
        """Add bytes; raises OSError."""

    def close(self) -> None:
        """Wait until the whole object exists; raises OSError."""

    def abandon(self) -> None:
        """Discard the upload; no more bytes follow."""


class ObjectStore(Protocol):
    """A store of objects by URL; implementations inherit the methods that have a body here.

    All methods raise FileNotFoundError for a missing object or bucket, and PermissionError for an object that may not
    be read or written. Other failures raise OSError.
    """

    def endpoint(self, url: str) -> str:
        """Return the address of the server that requests about `url` go to; "" if it is not known."""
        return ""

    def read(self, url: str) -> bytes:
        """Read an object in one request."""
        return self.read_with_stamp(url)[0]

    def read_with_stamp(self, url: str) -> tuple[bytes, str]:
        """Read an object in one request, with the stamp that a FileStat of what was read has; "" if unknown."""

    def read_range(self, url: str, offset: int, length: int) -> bytes:
        """Read `length` bytes from `offset` in one request, fewer at the end; raise EOFError if there are none."""

    def write(self, url: str, data: bytes) -> None:
        """Write an object atomically, in one request."""

    def upload(self, url: str) -> Upload | None:
        """Start a new object; return None if Beam's file system writes objects that are too large for one request."""
        return None

    def create(self, url: str, data: bytes) -> None:
        """Write an object, but raise FileExistsError if one exists, as far as the store can detect it."""

    def read_with_revision(self, url: str) -> StoredFile:
        """Read a small object with the revision that distinguishes it from later writes."""

    def replace(self, url: str, data: bytes, revision: str) -> None:
        """Write an object, but raise ChangedError unless the existing one has this revision."""

    def delete_unchanged(self, url: str, revision: str) -> None:
        """Delete an object; raises ChangedError unless it has this revision."""

    def size(self, url: str) -> int:
        """Return the size of an object in bytes."""
        return self.stat(url).size_bytes

    def stat(self, url: str) -> FileStat:
        """Return the metadata of an object, in one request."""

    def stats(self, prefix: str) -> Iterator[FileStat]:
        """Yield the metadata of each object whose URL starts with `prefix`, sorted by URL."""

    def folders(self, prefix: str) -> Sequence[str]:
        """Return the sorted, distinct parts of URLs between `prefix` and the next slash."""

    def delete(self, urls: Sequence[str]) -> None:
        """Delete objects; a missing one is no error."""

    def rename(self, moves: Sequence[Rename]) -> None:
        """Copy each source to its destination, then delete the sources."""

    def abort_uploads(self, prefix: str) -> None:
        """Abort incomplete uploads below `prefix`, in stores that keep and charge for their parts."""
        return


class ConditionalStore(ObjectStore, Protocol):
    """A store whose requests can have conditions. If the response to one was lost and the request was repeated, the
    condition fails, and the object's bytes show whether our own request wrote it.
    """

    def write_if(self, url: str, data: bytes, revision: str | None) -> None:
        """Write an object that has this revision, or with None, that does not exist; else raise ConditionError."""

    def delete_if(self, url: str, revision: str) -> None:
        """Delete an object that has this revision; else raise ConditionError or FileNotFoundError."""

    def create(self, url: str, data: bytes) -> None:
        try:
            self.write_if(url, data, None)
        except ConditionError:
            if not self._has_content(url, data):
                raise FileExistsError(f"{url} is there already") from None

    def replace(self, url: str, data: bytes, revision: str) -> None:
        try:
            self.write_if(url, data, revision)
        except (ConditionError, FileNotFoundError):
            if not self._has_content(url, data):
                raise ChangedError(f"{url} was changed by another process") from None

    def delete_unchanged(self, url: str, revision: str) -> None:
        try:
            self.delete_if(url, revision)
        except (ConditionError, FileNotFoundError):
            raise ChangedError(f"{url} was changed by another process") from None

    def _has_content(self, url: str, data: bytes) -> bool:
        with suppress(FileNotFoundError):
            return self.read(url) == data
        return False


def split_url(url: str) -> tuple[str, str]:
    """Split `url` into (bucket, object name), "" for a bucket; raise UserError if the bucket is missing."""
    bucket, _, name = url.partition("://")[2].partition("/")
    if not bucket:
        raise UserError(f"{url}: there is no bucket in it; expected {url.partition('://')[0]}://bucket/path")
    return bucket, name


def web_url_problem(url: str) -> str:
    """Return why `url` is not read and what to do instead; "" if it is no web address."""
    scheme = url.partition("://")[0].lower()
    if scheme not in ("http", "https"):
        return ""
    return (
        f"{scheme}:// is not read; download it first: img2dataset makes tar files of a list of images, which `shardmill"
        " webdataset` takes"
    )


_REFUSALS = (401, 403)  # HTTP statuses
_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)

# How objects without a text of their own are shown, such as `<ast.Call object at 0x7f0c…>`: where they lie in memory is
# chance.
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


class NotAFileError(OSError):
    """The path exists but is no regular file, for which the system has no error number; the text is ours."""


def os_error_text(error: OSError) -> str:
    """Return the text of a system error, with the name of its file."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)


def file_error(action: str, error: OSError) -> UserError | JobError:
    """Return the error of a command that cannot read or write a file in `action`.

    It is a JobError if that is no mistake of the user's: if there is no space, or a store fails or refuses access.
    """
    causes = list(_causes(error))
    is_refused = any(code in _REFUSALS for cause in causes for code in _codes(cause))
    has_given_up = any(isinstance(cause, GivenUpError) for cause in causes)
    has_no_room = error.errno in (*_DISK_FULL_ERRNOS, errno.EFBIG)  # which is no mistake of the user's
    is_failure = has_no_room or is_transient(error) or is_refused or has_given_up
    return (JobError if is_failure else UserError)(f"{action}: {error.strerror or error}")


def writing_error(error: OSError, path: str) -> OSError:
    """Return `error` with `path` added, which the system omits if the file is already open.

    If the disk is full, the message also gives its free space.
    """
    if error.errno is None:
        return error
    message = os.strerror(error.errno)
    if error.errno in _DISK_FULL_ERRNOS and (room := _free_space_text(path)):
        message = f"{message}; {room}"
    elif error.filename:
        return error
    return OSError(error.errno, message, error.filename or path)


def _free_space_text(path: str) -> str:
    while path and not os.path.isdir(path):
        path = os.path.dirname(path)
    import shutil  # which every command would import for this one sentence

    try:
        found = shutil.disk_usage(path or ".")
    except OSError:
        return ""
    return f"{found.free:,} of {found.total:,} bytes are free there"


def error_text(error: BaseException, lines: int | None = None) -> str:
    """Return the text of an exception for rejects/ and the manifest: one line, without memory addresses or paths.

    System errors get the system's generic text, because their own text and Arrow's contain the path. Of other errors,
    only the first `lines` lines are used.
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


_STATUSES = (408, 429)  # and all from 500 on
_CODES = ("InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown", "Throttling", "ThrottlingException")
_TYPES = (
    "azure.core.exceptions.IncompleteReadError",
    "azure.core.exceptions.ServiceRequestError",
    "azure.core.exceptions.ServiceResponseError",
    "google.api_core.exceptions.RetryError",
    "google.auth.exceptions.TransportError",
    "google.resumable_media.common.DataCorruption",  # a checksum that differs: of what came, not of what lies there
    "google.cloud.storage._media.common.DataCorruption",
    "http.client.HTTPException",
    "urllib3.exceptions.HTTPError",
    "requests.exceptions.ConnectionError",
    "requests.exceptions.Timeout",
    "requests.exceptions.ChunkedEncodingError",
    "botocore.exceptions.ConnectionError",
    "botocore.exceptions.FlexibleChecksumError",
    "botocore.exceptions.HTTPClientError",
    "botocore.exceptions.IncompleteReadError",
    "botocore.exceptions.ResponseStreamingError",
)
# An upload to Google that is no longer known is begun anew, by Google's own advice:
# https://docs.cloud.google.com/storage/docs/resumable-uploads
_UPLOAD_TYPES = ("google.cloud.storage.exceptions.InvalidResponse", "google.resumable_media.common.InvalidResponse")
_GONE = {404, 410}


_READ_ATTEMPTS = 3
Result = TypeVar("Result")


def read_again(errors: tuple[type[Exception], ...], read: Callable[[], Result]) -> Result:
    """Return the result of `read`; after `errors` of an answer that breaks off, which clients do not repeat, try again.

    Beyond that, steps of a job repeat it for minutes; see transforms.stores.patience.
    """
    for _ in range(_READ_ATTEMPTS - 1):
        with suppress(*errors):
            return read()
    return read()


class GivenUpError(OSError):
    """A store that failed for as long as the caller was ready to wait; callers must not retry again."""


class StatusError(OSError):
    """A store's error for one object of a batch, with its HTTP status or error code."""

    def __init__(self, text: str, code: int | str) -> None:
        super().__init__(text)
        self.code = code


def is_transient(error: BaseException) -> bool:
    """Return True if the same request may succeed in a minute; the causes of an error count too."""
    found = list(_causes(error))
    if any(isinstance(cause, GivenUpError | FileNotFoundError | PermissionError | FileExistsError) for cause in found):
        return False
    return any(map(_is_transient, found))


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = masked_error(cause) or cause.__cause__


def masked_error(error: BaseException) -> BaseException | None:
    """Return the error that Beam's S3 client failed to report; None if `error` is another.

    Beam's `get_http_error_code` raises AttributeError for errors that are no response of the store.
    """
    return error.__context__ if isinstance(error, AttributeError) else None


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    names = {f"{base.__module__}.{base.__qualname__}" for base in type(error).__mro__}
    if not names.isdisjoint(_UPLOAD_TYPES) and not _GONE.isdisjoint(_codes(error)):
        return True
    return not names.isdisjoint(_TYPES) or any(map(_is_transient_code, _codes(error)))


def _codes(error: BaseException) -> Iterator[Any]:
    """Yield the status or code of an error of Google's libraries, botocore or Beam's file systems."""
    yield getattr(error, "code", None)
    response = getattr(error, "response", None)
    yield getattr(response, "status_code", None)
    if isinstance(response, dict):
        yield response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        yield response.get("Error", {}).get("Code")


def _is_transient_code(code: Any) -> bool:
    if isinstance(code, int) and not isinstance(code, bool):
        return code in _STATUSES or 500 <= code < 600
    return code in _CODES


TIMEOUT_S = 10.0  # for one request, the client's own attempts at it included

_thread = threading.local()  # steps of a job that has ended may still be under way in others
_gone = False  # whether a store has not answered, nor since


@contextmanager
def limit_timeouts() -> Iterator[None]:
    """Within this context, limit the current thread's storage requests to seconds."""
    before = has_short_timeouts()
    _thread.is_brief = True
    try:
        yield
    finally:
        _thread.is_brief = before


def has_short_timeouts() -> bool:
    """Return True if the current thread's storage requests are limited to seconds."""
    return getattr(_thread, "is_brief", False)


def mark_store_responsive() -> None:
    """Record that a store has responded, so that brief requests are tried again."""
    global _gone
    _gone = False


def call_with_timeout(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call `function` in a thread for at most 10 seconds; raise GivenUpError then, or at once if a call timed out."""
    global _gone
    if _gone:
        raise GivenUpError("the store no longer answers")
    ended: Future[Result] = Future()

    def call() -> None:
        try:
            ended.set_result(function(*arguments))
        except BaseException as error:  # handed to the thread that asks, whatever it is
            ended.set_exception(error)

    thread = threading.Thread(target=call, name="shardmill-brief", daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    if not ended.done():
        _gone = True
        raise GivenUpError(f"the store has not answered for {TIMEOUT_S:g} seconds")
    return ended.result()
