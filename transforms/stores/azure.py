"""Azure Blob Storage as an object store, by exact names: az://ACCOUNT/CONTAINER/PATH.

The URLs correspond to Beam's azfs://. Beam's own file system builds copy addresses for Azure's public cloud only,
supports one account, and requests an object's metadata before reading it. Azure treats a backslash in a name as a
slash.
"""

import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from os import environ
from typing import TYPE_CHECKING, Any, TypeVar

from azure.core import MatchConditions
from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    IncompleteReadError,
    ResourceNotFoundError,
    ServiceResponseError,
)
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import BlobBlock, BlobClient, BlobServiceClient, ContainerClient, ExponentialRetry
from requests import Session
from requests.adapters import HTTPAdapter

from shardmill.errors import UserError
from shardmill.transforms.stores import protocol
from shardmill.transforms.stores.prefetch import prefetch_one

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

_MAX_CONCURRENT = 16  # copies or deletions
_BLOCK_BYTES = 8 << 20  # of 50,000 blocks at most, which makes 390 GiB
_SINGLE_BYTES = 64 << 20  # read or written in one request
_CONNECTIONS = 256  # kept open: as many as threads of one process may want at once
_ACCOUNTS = 16  # whose clients are kept
_POLL_SECONDS = 0.2  # between looks at a copy that the store makes by itself
_RETRIES = {"initial_backoff": 1, "increment_base": 2, "retry_total": 4}  # 1, 3, 5 and 9 seconds; then see patience.py
_CONFLICTS = (409, 412)  # statuses of a condition that does not hold
# Of a 403, what is about who asks rather than the object:
# https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes
_CALLER_CODES = ("AuthenticationFailed", "InvalidAuthenticationInfo", "AccountIsDisabled")

_BROKEN = (IncompleteReadError, ServiceResponseError)  # errors of an answer that breaks off midway, or is damaged

T = TypeVar("T")

logging.getLogger("azure").setLevel(logging.ERROR)  # the sentence of the error says what the client warns of


def split_az_url(url: str) -> tuple[str, str, str]:
    """Split a URL into (account, container, name), "" for a container; raise UserError without one of the first two."""
    account, _, path = url.partition("://")[2].partition("/")
    container, _, name = path.partition("/")
    if not account or not container:
        raise UserError(f"{url}: there is no account or no container in it; expected az://account/container/path")
    return account, container, name


def blob_client(url: str, options: "PipelineOptions") -> BlobClient:
    """Return the client of an object."""
    account, container, name = split_az_url(url)
    return _get_service(account, options).get_blob_client(container, name)


@lru_cache(maxsize=_ACCOUNTS)
def _get_service(account: str, pipeline_options: "PipelineOptions") -> BlobServiceClient:
    from apache_beam.options.pipeline_options import AzureOptions

    options = pipeline_options.view_as(AzureOptions)
    session = Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))
    more = {
        "transport": RequestsTransport(session=session, session_owner=False),
        "retry_policy": ExponentialRetry(**_RETRIES),
        "max_single_get_size": _SINGLE_BYTES,
        "max_single_put_size": _SINGLE_BYTES,
    }
    connection_string = options.azure_connection_string or environ.get("AZURE_STORAGE_CONNECTION_STRING")
    if not connection_string:
        from azure.identity import DefaultAzureCredential

        address = options.blob_service_endpoint or f"https://{account}.blob.core.windows.net"
        of_whom = {"managed_identity_client_id": options.azure_managed_identity_client_id}
        return BlobServiceClient(address, DefaultAzureCredential(**of_whom), **more)
    try:
        made = BlobServiceClient.from_connection_string(connection_string, **more)
    except ValueError as error:
        raise UserError(f"az://{account}: the connection string of Azure is invalid: {error}") from None
    if made.account_name != account:
        raise UserError(
            f"az://{account}: the connection string of Azure is of the account {made.account_name}; expected one of"
            f" {account}"
        )
    return made


class AzureUpload:
    """A new object that is written block by block, and exists once it is closed."""

    def __init__(self, url: str, client: BlobClient) -> None:
        self._url, self._client = url, client
        self._blocks: list[BlobBlock] = []
        self._pending = bytearray()

    def write(self, data: bytes) -> None:
        self._pending += memoryview(data)  # of arrays, too
        if len(self._pending) >= _BLOCK_BYTES:
            self._send()

    def close(self) -> None:
        if self._pending:
            self._send()
        with translate_errors(self._url):
            self._client.commit_block_list(self._blocks)

    def abandon(self) -> None:
        """Do nothing: Azure discards uncommitted blocks within a week."""

    def _send(self) -> None:
        name = uuid.uuid4().hex
        with translate_errors(self._url):
            self._client.stage_block(name, bytes(self._pending))
        self._blocks.append(BlobBlock(name))
        self._pending.clear()


class AzureBlobs(protocol.ConditionalStore):
    """An ObjectStore for az:// URLs. Azure discards blocks of incomplete uploads within a week."""

    def __init__(self, options: "PipelineOptions") -> None:
        self._options = options

    def endpoint(self, url: str) -> str:
        return str(_get_service(split_az_url(url)[0], self._options).url)

    def read_with_stamp(self, url: str) -> tuple[bytes, str]:
        """Read an object's bytes as stored, checked against its MD5 if it has one, with its ETag.

        They are not decompressed.
        """
        data, properties = self._read(url)
        return data, _etag_stamp(properties.etag)

    def read_range(self, url: str, offset: int, length: int) -> bytes:
        blob = self._open_blob(url)
        with translate_errors(url):
            return protocol.read_again(
                _BROKEN, lambda: bytes(blob.download_blob(offset, length, decompress=False).readall())
            )

    def write(self, url: str, data: bytes) -> None:
        with translate_errors(url):
            self._open_blob(url).upload_blob(data, overwrite=True)

    def upload(self, url: str) -> AzureUpload:
        return AzureUpload(url, self._open_blob(url))

    def write_if(self, url: str, data: bytes, revision: str | None) -> None:
        condition = {} if revision is None else _if_unmodified(revision)
        with translate_errors(url):
            self._open_blob(url).upload_blob(data, overwrite=revision is not None, **condition)

    def delete_if(self, url: str, revision: str) -> None:
        with translate_errors(url):
            self._open_blob(url).delete_blob(**_if_unmodified(revision))

    def read_with_revision(self, url: str) -> protocol.StoredFile:
        data, properties = self._read(url)
        return protocol.StoredFile(data, str(properties.etag), properties.last_modified.timestamp())

    def _read(self, url: str) -> tuple[bytes, Any]:
        blob = self._open_blob(url)

        def read() -> tuple[bytes, Any]:
            found = blob.download_blob(decompress=False)
            data, digest = bytes(found.readall()), found.properties.content_settings.content_md5
            if digest and hashlib.md5(data, usedforsecurity=False).digest() != bytes(digest):
                raise IncompleteReadError("the bytes that came have another MD5 than the object")  # transient
            return data, found.properties

        with translate_errors(url):
            return protocol.read_again(_BROKEN, read)

    def stat(self, url: str) -> protocol.FileStat:
        with translate_errors(url):
            return _stat(url, self._open_blob(url).get_blob_properties())

    def stats(self, prefix: str) -> Iterator[protocol.FileStat]:
        bucket, container, start = self._container(prefix)
        with translate_errors(bucket):
            for page in prefetch_one(map(list, container.list_blobs(name_starts_with=start).by_page())):
                for item in page:
                    yield _stat(f"{bucket}/{item.name}", item)

    def folders(self, prefix: str) -> Sequence[str]:
        bucket, container, start = self._container(prefix)
        with translate_errors(bucket):
            found = [item.name for item in container.walk_blobs(name_starts_with=start, delimiter="/")]
        return sorted(filter(None, {name[len(start) : -1] for name in found if name.endswith("/")}))

    def delete(self, urls: Sequence[str]) -> None:
        _call_concurrently(self._delete, urls)

    def _delete(self, url: str) -> None:
        with suppress(FileNotFoundError), translate_errors(url):
            self._open_blob(url).delete_blob()

    def rename(self, moves: Sequence[protocol.Rename]) -> None:
        _call_concurrently(self._copy, moves)
        self.delete([move.source for move in moves])

    def _copy(self, move: protocol.Rename) -> None:
        source, destination = self._open_blob(move.source), self._open_blob(move.destination)
        with translate_errors(move.source):
            status = destination.start_copy_from_url(source.url)["copy_status"]
            while status == "pending":
                time.sleep(_POLL_SECONDS)
                status = destination.get_blob_properties().copy.status
            if status != "success":
                raise OSError(f"{move.source}: its copy ended with status {status}")

    def _open_blob(self, url: str) -> BlobClient:
        return blob_client(url, self._options)

    def _container(self, prefix: str) -> tuple[str, ContainerClient, str]:
        account, container, start = split_az_url(prefix)
        return (
            f"az://{account}/{container}",
            _get_service(account, self._options).get_container_client(container),
            start,
        )


def _call_concurrently(function: Callable[[T], None], items: Sequence[T]) -> None:
    if len(items) == 1:
        function(items[0])
        return
    with ThreadPoolExecutor(_MAX_CONCURRENT, "shardmill-azure") as pool:
        list(pool.map(function, items))


def _if_unmodified(revision: str) -> dict[str, Any]:
    return {"etag": revision, "match_condition": MatchConditions.IfNotModified}


def _stat(url: str, item: Any) -> protocol.FileStat:
    return protocol.FileStat(url, int(item.size), _etag_stamp(item.etag), item.last_modified.timestamp())


def _etag_stamp(etag: object) -> str:
    return "etag:" + str(etag).strip('"')  # which a listing writes without the marks


@contextmanager
def translate_errors(url: str) -> Iterator[None]:
    """Translate errors of Azure's client into those that ObjectStore promises."""
    try:
        yield
    except ResourceNotFoundError as error:
        raise FileNotFoundError(f"{url}: not found") from error
    except HttpResponseError as error:
        if error.status_code == 416:
            raise EOFError(f"{url}: {_first_line(error)}") from error
        code = getattr(error, "error_code", None)
        code = getattr(code, "value", code) or ""  # of those that the library knows, it is one of an enumeration
        kind: type[OSError] = OSError
        if error.status_code in _CONFLICTS:
            kind = protocol.ConditionError
        elif error.status_code == 403 and code not in _CALLER_CODES:
            kind = PermissionError
        raise kind(f"{url}: {f'{code}: ' if code else ''}{_first_line(error)}") from error
    except AzureError as error:
        raise OSError(f"{url}: {_first_line(error)}") from error


def _first_line(error: AzureError) -> str:
    return str(error.message).partition("\n")[0]
