"""Amazon S3 and compatible stores."""

import functools
import hashlib
import io
import itertools
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import boto3
import botocore.session
from apache_beam.options.pipeline_options import PipelineOptions, S3Options
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError, FlexibleChecksumError, HTTPClientError, IncompleteReadError
from botocore.httpchecksum import AwsChunkedWrapper
from botocore.utils import parse_timestamp
from obstore.exceptions import PermissionDeniedError
from obstore.store import S3Store

from shardmill.errors import UserError
from shardmill.transforms.stores import protocol
from shardmill.transforms.stores.prefetch import list_concurrently


def parse_time(value: Any) -> datetime:
    """Parse a time as S3 writes it in listings (2026-11-19T02:03:04.000Z) or headers (Thu, 19 Nov 2026 02:03:04 GMT).

    botocore parses any other form, and raises ValueError.
    """
    if isinstance(value, str):
        for parse in (datetime.fromisoformat, parsedate_to_datetime):
            try:
                found = parse(value)
            except (TypeError, ValueError):
                continue
            if found.tzinfo is not None:
                return found.astimezone(UTC)
    return parse_timestamp(value)


_EVENT = "before-parse.s3.ListObjectsV2"


def parse_pages(client: Any) -> None:
    """Make a boto3 client parse the objects of listings with this module, and only the rest of a page itself."""
    client.meta.events.register(_EVENT, _parse)


def _parse(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Handle botocore's event before parsing: fill in the fields of `Contents` that are used here.

    See https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html.
    """
    if response_dict["status_code"] != 200:
        return
    page = ElementTree.fromstring(response_dict["body"])
    namespace = page.tag.rpartition("}")[0] + "}" if "}" in page.tag else ""
    items = page.findall(f"{namespace}Contents")
    if not items:
        return
    customized_response_dict["Contents"] = [
        {
            "Key": item.findtext(f"{namespace}Key", ""),
            "Size": int(item.findtext(f"{namespace}Size", "")),
            "ETag": item.findtext(f"{namespace}ETag", ""),
            "LastModified": parse_time(item.findtext(f"{namespace}LastModified", "")),
        }
        for item in items
    ]
    for item in items:
        page.remove(item)
    response_dict["body"] = ElementTree.tostring(page)


_MD5_DIGITS = 32
BACKOFF_S = 5.0  # for which boto3 alone reads of a bucket after obstore could not
# Credentials are asked for again five minutes before they end. Those of botocore hold for ten, or are renewed first.
CREDENTIALS_LIFETIME = timedelta(minutes=10)
_SIGNED = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/([^/]+)/s3/aws4_request,")
_DIRECTORY_BUCKET_SUFFIX = "--x-s3"  # directory buckets, which have sessions of their own

# () -> access key, secret key and token
Credentials = Callable[[], tuple[str, str, str | None]]


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as boto3 sent it."""

    url: str
    authorization: str


class ObstoreReader:
    """The obstore reads of this process, from any threads. A bucket is read only after boto3 has shown how."""

    def __init__(self, credentials: Credentials, trusts_system: bool = True) -> None:
        """Create the reader of what `credentials` may read; https needs `trusts_system`, to use its certificates."""
        self._credentials, self._trusts_system = credentials, trusts_system
        self._stores: dict[str, S3Store] = {}
        self._resting: dict[str, float] = {}  # until when
        self._doubted = threading.local()  # has the bytes that this thread has read last, if their ETag is of others
        self._other_etags: set[str] = set()  # buckets
        self._process = os.getpid()  # obstore's threads are not there in one that is forked

    def read(self, bucket: str, key: str, offset: int = 0, length: int | None = None) -> tuple[bytes, str] | None:
        """Read an object, with its ETag, or up to `length` bytes of it; return None if boto3 must read it."""
        store = self._stores.get(bucket)
        is_changed = not key.isprintable() or not {"", ".", ".."}.isdisjoint(key.split("/"))  # by obstore
        if store is None or is_changed or os.getpid() != self._process:
            return None
        try:
            if length is None:
                found = store.get(key)
                data, etag = bytes(found.bytes()), found.meta["e_tag"] or ""
                if bucket in self._other_etags or not _is_other_md5(data, etag):
                    return data, etag
                self._doubted.data = data
                return None
            return bytes(store.get_range(key, start=offset, length=length)), ""
        except (FileNotFoundError, PermissionDeniedError):  # of this object alone
            return None
        except Exception:  # of whatever kind: boto3 meets it, too, or makes up for it
            self._resting[bucket] = time.monotonic() + BACKOFF_S
            self._stores.pop(bucket, None)
            return None

    def compare(self, bucket: str, data: bytes) -> None:
        """Take note of what boto3 read of an object. ETags whose MD5 differs from the bytes twice are none: by KMS."""
        if getattr(self._doubted, "data", None) == data:
            self._other_etags.add(bucket)
        self._doubted.data = None

    def learn(self, bucket: str, key: str, sent: SentRequest) -> None:
        """From now on, read from a bucket as boto3 read an object of it, if obstore can."""
        if bucket in self._stores or time.monotonic() < self._resting.get(bucket, 0.0):
            return
        if not (self._trusts_system or sent.url.startswith("http:")):
            return
        with suppress(Exception):  # of whatever kind: boto3 reads on
            store = _make_store(bucket, key, sent, self._credentials)
            if store is not None and os.getpid() == self._process:
                self._stores[bucket] = store


def _is_other_md5(data: bytes, etag: str) -> bool:
    """Return True if an ETag, unless it is of an object in several parts, is the MD5 of other bytes than `data`."""
    digest = etag.strip('"')
    return len(digest) == _MD5_DIGITS and hashlib.md5(data, usedforsecurity=False).hexdigest() != digest


def _make_store(bucket: str, key: str, sent: SentRequest, credentials: Credentials) -> S3Store | None:
    """Return a store with the endpoint and signing settings of the request `sent`; None if it cannot copy them."""
    signed = _SIGNED.match(sent.authorization)
    if signed is None or bucket.endswith(_DIRECTORY_BUCKET_SUFFIX) or signed[1] != credentials()[0]:
        return None
    url = urlsplit(sent.url)
    path = unquote(url.path)
    if path.endswith(f"/{bucket}/{key}"):
        is_of_host, above = False, path.removesuffix(f"/{bucket}/{key}")
    elif url.netloc.startswith(f"{bucket}.") and path == f"/{key}":
        is_of_host, above = True, ""
    else:
        return None

    def provide() -> Any:
        access, secret, token = credentials()
        until = datetime.now(UTC) + CREDENTIALS_LIFETIME
        return {"access_key_id": access, "secret_access_key": secret, "token": token, "expires_at": until}

    return S3Store(
        bucket,
        endpoint=f"{url.scheme}://{url.netloc}{above}",
        region=signed[2],
        virtual_hosted_style_request=is_of_host,
        skip_signature=False,  # these, which object_store reads from the environment, as the request shows them
        request_payer=False,
        s3_express=False,
        client_options={
            "allow_http": url.scheme == "http",
            "connect_timeout": "10s",
            "read_timeout": "60s",
            "timeout": "15min",
        },
        retry_config={"max_retries": 0},  # boto3's affair
        credential_provider=provide,
    )


_PIECE_BYTES = 1 << 20  # which botocore puts together of as many
_create_loader = functools.cache(botocore.session.create_loader)


class _Client:
    """A boto3 client, with a flag that is set when any of its requests had to be repeated."""

    def __init__(self, client: Any) -> None:
        self.client, self.is_spent = client, False
        self.sent = SentRequest("", "")  # the last read
        client.meta.events.register("after-call.s3", self._on_response)
        client.meta.events.register("after-call-error.s3", self._on_error)
        client.meta.events.register("before-send.s3.GetObject", self._on_send)
        client.meta.events.register("before-send.s3", _send_in_one_call)

    def _on_response(self, parsed: Mapping[str, Any], **_: Any) -> None:
        self.is_spent |= parsed["ResponseMetadata"].get("RetryAttempts", 0) > 0

    def _on_error(self, **_: Any) -> None:
        self.is_spent = True

    def _on_send(self, request: Any, **_: Any) -> None:
        signed = request.headers.get("Authorization", b"")
        self.sent = SentRequest(request.url, signed.decode() if isinstance(signed, bytes) else signed)


def _send_in_one_call(request: Any, **_: Any) -> None:
    """Send the bytes that botocore has wrapped in a file with one call.

    Files are sent in pieces of 16 KiB. Before each piece, a thread waits for the interpreter while others work.
    """
    if isinstance(request.body, io.BytesIO):
        request.body = request.body.getvalue()
    elif isinstance(request.body, AwsChunkedWrapper):  # by https, with a checksum behind them
        body = request.body
        request.body = b"".join(iter(functools.partial(body.read, _PIECE_BYTES), b""))
        body.seek(0)  # where a repetition begins


class S3Clients:
    """The boto3 clients of this process. Each serves one thread at a time, and none is used again after it had to
    repeat a request.

    A client repeats a few dozen requests and then fails at the first error (botocore's quota: 500, at 14 each, or 5 for
    SlowDown). Threads that share a client would fail within seconds, whatever their number of attempts. Another client
    of the same session costs 0.3 MB and some milliseconds.
    """

    def __init__(self, options: "S3Options") -> None:
        self._options = options
        # All sessions share botocore's parsed descriptions of services. Beam makes a session for each shard that it
        # writes, and each would parse 3 MB of JSON, which takes 0.3 s of a core.
        botocore.session.create_loader = _create_loader
        core = botocore.session.get_session()
        core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=parse_time)
        self._session = boto3.session.Session(botocore_session=core)
        self._lock = threading.Lock()  # the session's: threads may share clients, but not that
        self._idle = [self._make_client()]  # the first one here, so that wrong options fail at once
        self.endpoint = str(self._idle[0].client.meta.endpoint_url)
        # obstore trusts the system's certificates, and can add others but not replace them
        own_trust = options.s3_verify is not None or core.get_config_variable("ca_bundle")
        trusts_system = not own_trust and "REQUESTS_CA_BUNDLE" not in os.environ
        self._reads = ObstoreReader(self._credentials, trusts_system)

    @contextmanager
    def exclusive_client(self) -> Iterator[Any]:
        """Yield a client that no other thread uses meanwhile."""
        with self._take_client() as client:
            yield client.client

    def read(self, bucket: str, key: str, offset: int = 0, length: int | None = None) -> tuple[bytes, str]:
        """Read an object, with its ETag, or a range of it; raises what boto3 raises."""
        if (found := self._reads.read(bucket, key, offset, length)) is not None:
            return found
        more = {} if length is None else {"Range": f"bytes={offset}-{offset + length - 1}"}
        with self._take_client() as own:
            answer = own.client.get_object(Bucket=bucket, Key=key, **more)
            data = bytes(answer["Body"].read())
            self._reads.learn(bucket, key, own.sent)
            if length is None:
                self._reads.compare(bucket, data)
            return data, answer["ETag"]

    def _credentials(self) -> tuple[str, str, str | None]:
        options = self._options
        if options.s3_access_key_id:
            return options.s3_access_key_id, options.s3_secret_access_key, options.s3_session_token
        with self._lock:
            found = self._session.get_credentials()
        frozen = found.get_frozen_credentials()
        return frozen.access_key, frozen.secret_key, frozen.token

    @contextmanager
    def _take_client(self) -> Iterator[_Client]:
        try:
            client = self._idle.pop()
        except IndexError:
            client = self._make_client()
        try:
            yield client
        finally:
            if not client.is_spent:
                self._idle.append(client)

    def _make_client(self) -> _Client:
        options = self._options
        with self._lock:
            client = self._session.client(
                "s3",
                region_name=options.s3_region_name,
                api_version=options.s3_api_version,
                use_ssl=not options.s3_disable_ssl,
                verify=options.s3_verify,
                endpoint_url=options.s3_endpoint_url,
                aws_access_key_id=options.s3_access_key_id,
                aws_secret_access_key=options.s3_secret_access_key,
                aws_session_token=options.s3_session_token,
            )
        parse_pages(client)
        return _Client(client)


MISSING = ("404", "NoSuchKey", "NoSuchBucket")
_NO_SUCH_RANGE = ("416", "InvalidRange")
# A HEAD has no code but its status. Other codes of a 403 (InvalidAccessKeyId, RequestTimeTooSkewed, …) are of who asks:
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
_FORBIDDEN = ("403", "AccessDenied")
_CONFLICT_CODES = ("PreconditionFailed", "ConditionalRequestConflict", "412")


def error_code(error: ClientError) -> str:
    """Return the store's code of an error."""
    return str(error.response.get("Error", {}).get("Code"))


@contextmanager
def translate_errors(url: str) -> Iterator[None]:
    """Within this context, raise errors of boto3 about `url` as OSError or a subclass."""
    try:
        yield
    except ClientError as error:
        if error_code(error) in MISSING:
            raise FileNotFoundError(f"{url}: not found") from error
        if error_code(error) in _NO_SUCH_RANGE:
            raise EOFError(f"{url}: {error}") from error
        if error_code(error) in _CONFLICT_CODES:
            raise protocol.ConditionError(f"{url}: {error}") from error
        raise (PermissionError if error_code(error) in _FORBIDDEN else OSError)(f"{url}: {error}") from error
    except BotoCoreError as error:
        raise OSError(f"{url}: {error}") from error


# S3 takes parts of 5 MiB to 5 GiB, the last may be smaller, and 10,000 of them: here, objects of up to 78 GiB.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
PART_BYTES = 8 << 20
_AT_ONCE = 3  # parts of an object: as many are held in addition to the part that is gathered


class S3Upload:
    """A new S3 object that exists once it is closed."""

    def __init__(self, clients: S3Clients, url: str) -> None:
        self._clients, self._url = clients, url
        bucket, key = protocol.split_url(url)
        self._address_object = {"Bucket": bucket, "Key": key}
        self._pending: list[bytes] = []
        self._pending_bytes = self._size_bytes = 0
        self._upload: dict[str, str] = {}
        self._etags: list[str] = []
        self._uploading: deque[Future[str]] = deque()
        self._pool = ThreadPoolExecutor(_AT_ONCE, "shardmill-upload")

    def write(self, data: bytes) -> None:
        """Add bytes; raise OSError if the store refuses these or earlier ones."""
        self._pending.append(bytes(data))
        self._pending_bytes += len(data)
        if self._pending_bytes >= PART_BYTES:
            self._send()

    def close(self) -> None:
        """Wait until the object exists; raise OSError if the store refuses any bytes."""
        with self._pool, translate_errors(self._url):
            if not self._upload:
                self._request("put_object", Body=self._take_pending())
                return
            if self._pending:
                self._send()
            while self._uploading:
                self._etags.append(self._uploading.popleft().result())
            self._complete()

    def abandon(self) -> None:
        """Discard the object, and its uploaded parts if the store responds."""
        self._pool.shutdown(cancel_futures=True)
        if self._upload:
            with suppress(Exception):  # the error that led here is the one to tell
                self._request("abort_multipart_upload")

    def _request(self, operation: str, **arguments: Any) -> Any:
        with self._clients.exclusive_client() as client:
            return getattr(client, operation)(**self._address_object, **self._upload, **arguments)

    def _take_pending(self) -> bytes:
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._size_bytes += len(data)
        self._pending, self._pending_bytes = [], 0
        return data

    def _send(self) -> None:
        with translate_errors(self._url):
            if not self._upload:
                self._upload = {"UploadId": self._request("create_multipart_upload")["UploadId"]}
            number = len(self._etags) + len(self._uploading) + 1
            self._uploading.append(self._pool.submit(self._send_part, number, self._take_pending()))
            if len(self._uploading) >= _AT_ONCE:
                self._etags.append(self._uploading.popleft().result())

    def _send_part(self, number: int, data: bytes) -> str:
        return str(self._request("upload_part", PartNumber=number, Body=data)["ETag"])

    def _complete(self) -> None:
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(self._etags, 1)]
        try:
            self._request("complete_multipart_upload", MultipartUpload={"Parts": parts})
        except ClientError as error:
            if error_code(error) != "NoSuchUpload":
                raise
            # It was completed, and the answer was lost
            with self._clients.exclusive_client() as client:
                if client.head_object(**self._address_object)["ContentLength"] != self._size_bytes:
                    raise


_COPIES = 16  # at once
_DELETIONS = 1000  # in one request: the limit of S3
_BROKEN = (HTTPClientError, IncompleteReadError, FlexibleChecksumError)  # errors of an answer that breaks off midway
_SINGLE_COPY_BYTES = 1 << 30  # one request copies up to 5 GB, and is long about it
_COPY = TransferConfig(multipart_threshold=_SINGLE_COPY_BYTES, use_threads=False)

_lock = threading.Lock()
_shared: "tuple[PipelineOptions, S3Clients] | None" = None


class S3(protocol.ConditionalStore):
    """An ObjectStore for s3:// URLs."""

    def __init__(self, options: PipelineOptions) -> None:
        global _shared
        with _lock, translate_errors("s3://"):
            if _shared is None or _shared[0] is not options:
                try:
                    _shared = options, S3Clients(options.view_as(S3Options))
                except ValueError:  # of an endpoint, which may hold a password
                    problem = "s3://: the endpoint, of --s3_endpoint_url or AWS_ENDPOINT_URL, is not a URL"
                    raise UserError(f"{problem}; expected one such as https://host:9000") from None
            self._clients = _shared[1]

    def endpoint(self, url: str) -> str:
        return self._clients.endpoint

    def read_with_stamp(self, url: str) -> tuple[bytes, str]:
        data, etag = self._read(url, 0, None)
        return data, etag and _etag_stamp(etag)

    def read_range(self, url: str, offset: int, length: int) -> bytes:
        return self._read(url, offset, length)[0]

    def _read(self, url: str, offset: int, length: int | None) -> tuple[bytes, str]:
        """Read an object or part of it; retry a response that breaks off midway, which boto3 does not."""
        bucket, key = protocol.split_url(url)
        with translate_errors(url):
            return protocol.read_again(_BROKEN, lambda: self._clients.read(bucket, key, offset, length))

    def write(self, url: str, data: bytes) -> None:
        """Write an object, which may be empty, unlike in the multipart uploads of Beam's file system."""
        with self._address_object(url) as (client, place):
            client.put_object(**place, Body=data)

    def upload(self, url: str) -> S3Upload:
        """Start a multipart upload."""
        return S3Upload(self._clients, url)

    def write_if(self, url: str, data: bytes, revision: str | None) -> None:
        condition = {"IfNoneMatch": "*"} if revision is None else {"IfMatch": revision}
        with self._address_object(url) as (client, place):
            client.put_object(**place, Body=data, **condition)

    def delete_if(self, url: str, revision: str) -> None:
        with self._address_object(url) as (client, place):
            client.delete_object(**place, IfMatch=revision)

    def read_with_revision(self, url: str) -> protocol.StoredFile:
        """Read a small object with its ETag, retrying as `read` does."""
        bucket, key = protocol.split_url(url)
        with translate_errors(url):
            return protocol.read_again(_BROKEN, lambda: self._read_with_revision(bucket, key))

    def _read_with_revision(self, bucket: str, key: str) -> protocol.StoredFile:
        with self._clients.exclusive_client() as client:
            answer = client.get_object(Bucket=bucket, Key=key)
            return protocol.StoredFile(bytes(answer["Body"].read()), answer["ETag"], answer["LastModified"].timestamp())

    def size(self, url: str) -> int:
        with self._address_object(url) as (client, place):
            return int(client.head_object(**place)["ContentLength"])

    def stat(self, url: str) -> protocol.FileStat:
        with self._address_object(url) as (client, place):
            return _stat(url, client.head_object(**place), "ContentLength")

    @contextmanager
    def _address_object(self, url: str) -> Iterator[tuple[Any, dict[str, str]]]:
        bucket, key = protocol.split_url(url)
        with translate_errors(url), self._clients.exclusive_client() as client:
            yield client, {"Bucket": bucket, "Key": key}

    def stats(self, prefix: str) -> Iterator[protocol.FileStat]:
        with translate_errors(f"s3://{protocol.split_url(prefix)[0]}"):
            yield from list_concurrently(partial(self._list_pages, prefix), self._some_folders, prefix)

    def _list_pages(self, prefix: str, first: str, end: str) -> Iterator[list[protocol.FileStat]]:
        bucket, _ = protocol.split_url(prefix)
        # What comes after the name of the folder without its slash, comes before the folder too: `a.jpg` before `a/`
        more = {"StartAfter": protocol.split_url(first)[1].removesuffix("/")} if first else {}
        for page in self._response_pages(prefix, **more):
            found = [_stat(f"s3://{bucket}/{item['Key']}", item, "Size") for item in page.get("Contents", ())]
            yield [item for item in found if first <= item.path and (not end or item.path < end)]
            if end and found and found[-1].path >= end:
                return

    def _some_folders(self, prefix: str) -> list[str]:
        return sorted(_folders(prefix, itertools.islice(self._response_pages(prefix, Delimiter="/"), 1)))

    def folders(self, prefix: str) -> Sequence[str]:
        """List the folders below `prefix`, grouped by the store itself."""
        with translate_errors(f"s3://{protocol.split_url(prefix)[0]}"):
            return sorted(filter(None, set(_folders(prefix, self._response_pages(prefix, Delimiter="/")))))

    def _response_pages(self, prefix: str, **more: str) -> Iterator[Mapping[str, Any]]:
        bucket, start = protocol.split_url(prefix)
        with self._clients.exclusive_client() as client:
            yield from client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=start, **more)

    def delete(self, urls: Sequence[str]) -> None:
        """Delete objects, a thousand of one bucket per request."""
        for bucket, group in itertools.groupby(sorted(urls), lambda url: protocol.split_url(url)[0]):
            while some := list(itertools.islice(group, _DELETIONS)):
                objects = {"Objects": [{"Key": protocol.split_url(url)[1]} for url in some], "Quiet": True}
                with self._address_object(some[0]) as (client, _):
                    answer = client.delete_objects(Bucket=bucket, Delete=objects)
                for error in answer.get("Errors", ()):
                    message = f"s3://{bucket}/{error['Key']}: {error['Code']}: {error['Message']}"
                    raise protocol.StatusError(message, error["Code"])

    def rename(self, moves: Sequence[protocol.Rename]) -> None:
        """Copy objects within the store, several at once, then delete the sources."""
        with ThreadPoolExecutor(_COPIES, "shardmill-copy") as pool:
            for _ in pool.map(self._copy, moves):
                pass
        self.delete([move.source for move in moves])

    def _copy(self, move: protocol.Rename) -> None:
        to_bucket, to_key = protocol.split_url(move.destination)
        with self._address_object(move.source) as (client, source):
            if move.size_bytes < _SINGLE_COPY_BYTES:
                client.copy_object(CopySource=source, Bucket=to_bucket, Key=to_key)
            else:
                client.copy(source, to_bucket, to_key, Config=_COPY)

    def abort_uploads(self, prefix: str) -> None:
        """Abort incomplete multipart uploads: S3 keeps and charges for their parts, and shows them in no listing.

        This needs extra permissions; without them, it does nothing.
        """
        bucket, start = protocol.split_url(prefix)
        with translate_errors(prefix), suppress(ClientError), self._clients.exclusive_client() as client:
            for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=start):
                for upload in page.get("Uploads", ()):
                    client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])


def _folders(prefix: str, pages: Iterable[Mapping[str, Any]]) -> list[str]:
    _, start = protocol.split_url(prefix)
    return [item["Prefix"][len(start) : -1] for page in pages for item in page.get("CommonPrefixes", ())]


def _stat(url: str, item: Mapping[str, Any], size: str) -> protocol.FileStat:
    return protocol.FileStat(url, int(item[size]), _etag_stamp(item["ETag"]), item["LastModified"].timestamp())


def _etag_stamp(etag: str) -> str:
    return f"etag:{etag}"
