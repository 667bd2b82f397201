"""Google Cloud Storage as an object store, by exact names.

Uses the client that Beam creates, which finds credentials or the emulator as Beam does.
"""

import threading
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import google_crc32c
from apache_beam.io.gcp.gcsio import GcsIO
from apache_beam.options.pipeline_options import PipelineOptions
from google.api_core.exceptions import (
    Forbidden,
    GoogleAPIError,
    NotFound,
    PreconditionFailed,
    RequestRangeNotSatisfiable,
)
from google.auth.exceptions import GoogleAuthError
from google.cloud.storage import Blob
from google.cloud.storage.exceptions import DataCorruption
from google.cloud.storage.retry import DEFAULT_RETRY
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from shardmill.transforms.stores import protocol
from shardmill.transforms.stores.patience import PatienceOptions
from shardmill.transforms.stores.prefetch import prefetch_one

# A client each thread: cheap to make, keeps one connection open, and is not promised to be safe to share.
_thread = threading.local()
_TYPE = "application/octet-stream"
_CLIENT_SECONDS = 120  # for which the client itself repeats a request at most, unless another limit is set
_READ_ATTEMPTS = 10  # at an object that is written anew meanwhile, before that is an error
# Reasons of a 403 that are not about the object: https://cloud.google.com/storage/docs/json_api/v1/status-codes
_CALLER_REASONS = (
    "accountDisabled",
    "quotaExceeded",
    "rateLimitExceeded",
    "userRateLimitExceeded",
    "UserProjectAccountProblem",
)


class GoogleStorage(protocol.ConditionalStore):
    """An ObjectStore for gs:// URLs. Incomplete uploads expire, and cost nothing until then."""

    def __init__(self, options: PipelineOptions) -> None:
        if getattr(_thread, "options", None) is not options:
            _thread.io, _thread.options = GcsIO(pipeline_options=options), options
        self._io = _thread.io
        seconds = min(_CLIENT_SECONDS, options.view_as(PatienceOptions).store_patience)
        self._retry = DEFAULT_RETRY.with_timeout(seconds) if seconds else None

    def endpoint(self, url: str) -> str:
        return str(self._io.client.api_endpoint)

    def read_with_stamp(self, url: str) -> tuple[bytes, str]:
        """Read an object's bytes as stored, checked against the store's checksum, with that checksum."""
        with _translate_errors(url):
            data = bytes(self._open_blob(url).download_as_bytes(raw_download=True, retry=self._retry))
        return data, f"{protocol.CHECKSUM_STAMP}{b64encode(google_crc32c.value(data).to_bytes(4, 'big')).decode()}"

    def read_range(self, url: str, offset: int, length: int) -> bytes:
        """Read part of an object, unchecked: the store has no checksums of parts."""
        with _translate_errors(url):
            blob = self._open_blob(url)
            return bytes(
                blob.download_as_bytes(
                    start=offset, end=offset + length - 1, raw_download=True, checksum=None, retry=self._retry
                )
            )

    def write(self, url: str, data: bytes) -> None:
        with _translate_errors(url):
            self._open_blob(url).upload_from_string(data, _TYPE, retry=self._retry)

    def write_if(self, url: str, data: bytes, revision: str | None) -> None:
        """Write an object on the condition that it has this generation, or 0, so that it does not exist yet."""
        generation = int(revision or 0)
        with _translate_errors(url):
            self._open_blob(url).upload_from_string(data, _TYPE, retry=self._retry, if_generation_match=generation)

    def delete_if(self, url: str, revision: str) -> None:
        with _translate_errors(url):
            self._open_blob(url).delete(if_generation_match=int(revision), retry=self._retry)

    def read_with_revision(self, url: str) -> protocol.StoredFile:
        with _translate_errors(url):
            for _ in range(_READ_ATTEMPTS - 1):
                with suppress(PreconditionFailed):  # written anew between the two requests
                    return self._read_with_revision(url)
            return self._read_with_revision(url)

    def _read_with_revision(self, url: str) -> protocol.StoredFile:
        blob = self._open_blob(url)
        blob.reload(retry=self._retry)
        # Reading forgets them where an answer has no such headers
        generation, updated = int(blob.generation), blob.updated
        data = blob.download_as_bytes(raw_download=True, if_generation_match=generation, retry=self._retry)
        return protocol.StoredFile(bytes(data), str(generation), updated.timestamp())

    def stat(self, url: str) -> protocol.FileStat:
        with _translate_errors(url):
            blob = self._open_blob(url)
            blob.reload(retry=self._retry)
            return _stat(url, blob)

    def stats(self, prefix: str) -> Iterator[protocol.FileStat]:
        bucket, _ = protocol.split_url(prefix)
        with _translate_errors(f"gs://{bucket}"):
            blobs = self._list_blobs(prefix, "items(name,size,crc32c,generation,updated)")
            for page in prefetch_one(map(list, blobs.pages)):
                for blob in page:
                    yield _stat(f"gs://{bucket}/{blob.name}", blob)

    def folders(self, prefix: str) -> Sequence[str]:
        bucket, start = protocol.split_url(prefix)
        with _translate_errors(f"gs://{bucket}"):
            blobs = self._list_blobs(prefix, "prefixes", delimiter="/")
            names = {name[len(start) : -1] for page in blobs.pages for name in page.prefixes}
        return sorted(filter(None, names))

    def _list_blobs(self, prefix: str, fields: str, **more: str) -> Any:
        bucket, start = protocol.split_url(prefix)
        fields = f"{fields},nextPageToken"
        return self._io.client.list_blobs(bucket, prefix=start, fields=fields, retry=self._retry, **more)

    def delete(self, urls: Sequence[str]) -> None:
        with _translate_errors(urls[0] if urls else ""):
            _raise_first((url, status) for url, status in self._io.delete_batch(list(urls)))

    def rename(self, moves: Sequence[protocol.Rename]) -> None:
        pairs = [(move.source, move.destination) for move in moves]
        with _translate_errors(pairs[0][0] if pairs else ""):
            _raise_first((source, status) for source, _, status in self._io.copy_batch(pairs))
        self.delete([source for source, _ in pairs])

    def _open_blob(self, url: str) -> Blob:
        bucket, name = protocol.split_url(url)
        return self._io.client.bucket(bucket).blob(name)


def _stat(url: str, blob: Blob) -> protocol.FileStat:
    stamp = f"{protocol.CHECKSUM_STAMP}{blob.crc32c}" if blob.crc32c else f"generation:{blob.generation}"
    return protocol.FileStat(url, int(blob.size), stamp, blob.updated.timestamp() if blob.updated else 0.0)


@contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise FileNotFoundError(f"{url}: not found") from error
    except PreconditionFailed as error:
        raise protocol.ConditionError(f"{url}: {error}") from error
    except RequestRangeNotSatisfiable as error:
        raise EOFError(f"{url}: {error}") from error
    except Forbidden as error:
        answer = getattr(error.response, "text", "")  # the error of a download has its reasons nowhere else
        of_the_caller = any(reason in answer for reason in _CALLER_REASONS)
        raise (OSError if of_the_caller else PermissionError)(f"{url}: {error}") from error
    except (GoogleAPIError, GoogleAuthError, DataCorruption, RequestException, HTTPError) as error:
        raise OSError(f"{url}: {error}") from error


def _raise_first(statuses: Iterator[tuple[str, int | None]]) -> None:
    for url, status in statuses:
        if status == 404:
            raise FileNotFoundError(f"{url}: not found")
        if status is not None:
            raise protocol.StatusError(f"{url}: HTTP status {status}", status)
