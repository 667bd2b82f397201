"""Which errors of a store may be gone in a minute: too many requests, faults of its own, of the network, and answers
that break off. Pure: whose libraries raise them is told by their names."""

from collections.abc import Iterator
from typing import Any

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
    "botocore.exceptions.HTTPClientError",
    "botocore.exceptions.IncompleteReadError",
    "botocore.exceptions.ResponseStreamingError",
)


class GivenUpError(OSError):
    """A store that did not work again for as long as anybody waited: nobody who called waits again."""


class StatusError(OSError):
    """A store's answer about one object of many, with its status, or its word for it."""

    def __init__(self, text: str, code: int | str) -> None:
        super().__init__(text)
        self.code = code


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed in a minute; of an error that was made of another, what that says counts."""
    found = list(_causes(error))
    if any(isinstance(cause, GivenUpError | FileNotFoundError | PermissionError | FileExistsError) for cause in found):
        return False
    return any(map(_is_transient, found))


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = told_of(cause) or cause.__cause__


def told_of(error: BaseException) -> BaseException | None:
    """The error that Beam's client of S3 wanted to tell of, and failed, for it is no answer of the store's: its
    `get_http_error_code` raises AttributeError then. None if `error` is another."""
    return error.__context__ if isinstance(error, AttributeError) else None


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    names = {f"{base.__module__}.{base.__qualname__}" for base in type(error).__mro__}
    return not names.isdisjoint(_TYPES) or any(map(_is_of_the_moment, _codes(error)))


def _codes(error: BaseException) -> Iterator[Any]:
    """Status, or the store's word, of an error of Google's libraries, of botocore, or of Beam's file systems."""
    yield getattr(error, "code", None)
    response = getattr(error, "response", None)
    yield getattr(response, "status_code", None)
    if isinstance(response, dict):
        yield response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        yield response.get("Error", {}).get("Code")


def _is_of_the_moment(code: Any) -> bool:
    if isinstance(code, int) and not isinstance(code, bool):
        return code in _STATUSES or 500 <= code < 600
    return code in _CODES
