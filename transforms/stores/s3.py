"""S3 by exact names, through boto3's clients, made from Beam's --s3_* options."""

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import boto3
import botocore.session
from apache_beam.options.pipeline_options import PipelineOptions, S3Options
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError

from transforms.stores.ahead import one_ahead
from transforms.stores.protocol import FileStat, Rename, split_url
from transforms.stores.s3_times import parse_time
from transforms.stores.stored import ChangedError, Stored, check_created, check_replaced
from transforms.stores.transient import StatusError

_COPIES = 16  # at once
_DELETIONS = 1000  # in one request: the limit of S3
_ATTEMPTS = 3  # at an answer that breaks off midway, which boto3 does not repeat
_SINGLE_COPY_BYTES = 1 << 30  # one request copies up to 5 GB, and is long about it
_COPY = TransferConfig(multipart_threshold=_SINGLE_COPY_BYTES, use_threads=False)
_THERE = ("PreconditionFailed", "ConditionalRequestConflict", "412")
_MISSING = ("404", "NoSuchKey", "NoSuchBucket")
_NO_SUCH_RANGE = ("416", "InvalidRange")
# A HEAD has no code but its status. Other codes of a 403 (InvalidAccessKeyId, RequestTimeTooSkewed, …) are of who asks:
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
_FORBIDDEN = ("403", "AccessDenied")

T = TypeVar("T")

_create_loader = functools.cache(botocore.session.create_loader)
_lock = threading.Lock()
_shared: "tuple[PipelineOptions, _Clients] | None" = None


class S3:
    """transforms.stores.protocol.ObjectStore for s3://."""

    def __init__(self, options: PipelineOptions) -> None:
        global _shared
        with _lock, _errors("s3://"):
            if _shared is None or _shared[0] is not options:
                _shared = options, _Clients(options.view_as(S3Options))
            self._clients = _shared[1]

    def read(self, url: str) -> bytes:
        """The bytes of an object; boto3 repeats a request that fails, but not one that breaks off midway."""
        bucket, key = split_url(url)
        with _errors(url):
            return _whole(lambda: self._read(bucket, key))

    def read_range(self, url: str, offset: int, length: int) -> bytes:
        """Some of an object's bytes."""
        bucket, key = split_url(url)
        wanted = {"Range": f"bytes={offset}-{offset + length - 1}"}
        with _errors(url):
            return _whole(lambda: self._read(bucket, key, wanted))

    def _read(self, bucket: str, key: str, more: Mapping[str, str] = {}) -> bytes:
        with self._clients.one() as client:
            return bytes(client.get_object(Bucket=bucket, Key=key, **more)["Body"].read())

    def write(self, url: str, data: bytes) -> None:
        """Write an object; it may be empty, which the multipart upload of Beam's file system may not."""
        bucket, key = split_url(url)
        with _errors(url), self._clients.one() as client:
            client.put_object(Bucket=bucket, Key=key, Body=data)

    def create(self, url: str, data: bytes) -> None:
        """Write an object if none is there."""
        bucket, key = split_url(url)
        with _errors(url):
            try:
                with self._clients.one() as client:
                    client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
            except ClientError as error:
                if _code(error) not in _THERE:
                    raise
                check_created(url, data, self.read)

    def look(self, url: str) -> Stored:
        """A small object and its ETag; retried as `read` is."""
        bucket, key = split_url(url)
        with _errors(url):
            return _whole(lambda: self._look(bucket, key))

    def _look(self, bucket: str, key: str) -> Stored:
        with self._clients.one() as client:
            answer = client.get_object(Bucket=bucket, Key=key)
            return Stored(bytes(answer["Body"].read()), answer["ETag"], answer["LastModified"].timestamp())

    def replace(self, url: str, data: bytes, revision: str) -> None:
        """Write an object in the place of one with that ETag."""
        bucket, key = split_url(url)
        with _errors(url):
            try:
                with self._clients.one() as client:
                    client.put_object(Bucket=bucket, Key=key, Body=data, IfMatch=revision)
            except ClientError as error:
                if _code(error) not in (*_THERE, *_MISSING):
                    raise
                check_replaced(url, data, self.read)

    def delete_unchanged(self, url: str, revision: str) -> None:
        """Delete an object with that ETag."""
        bucket, key = split_url(url)
        with _errors(url):
            try:
                with self._clients.one() as client:
                    client.delete_object(Bucket=bucket, Key=key, IfMatch=revision)
            except ClientError as error:
                if _code(error) not in (*_THERE, *_MISSING):
                    raise
                raise ChangedError(f"{url} was changed by another process") from None

    def size(self, url: str) -> int:
        """The size of an object in bytes."""
        bucket, key = split_url(url)
        with _errors(url), self._clients.one() as client:
            return int(client.head_object(Bucket=bucket, Key=key)["ContentLength"])

    def stat(self, url: str) -> FileStat:
        """An object's metadata."""
        bucket, key = split_url(url)
        with _errors(url), self._clients.one() as client:
            return _stat(url, client.head_object(Bucket=bucket, Key=key), "ContentLength")

    def stats(self, prefix: str) -> Iterator[FileStat]:
        """Objects by prefix."""
        bucket, start = split_url(prefix)
        with _errors(f"s3://{bucket}"), self._clients.one() as client:
            for page in one_ahead(client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=start)):
                for item in page.get("Contents", ()):
                    yield _stat(f"s3://{bucket}/{item['Key']}", item, "Size")

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Objects by prefix."""
        bucket, start = split_url(prefix)
        with _errors(f"s3://{bucket}"), self._clients.one() as client:
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=start):
                for item in page.get("Contents", ()):
                    yield f"s3://{bucket}/{item['Key']}", int(item["Size"])

    def folders(self, prefix: str) -> Sequence[str]:
        """Names of folders below `prefix`, which the store tells apart from what lies in them."""
        bucket, start = split_url(prefix)
        with _errors(f"s3://{bucket}"), self._clients.one() as client:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=start, Delimiter="/")
            names = {item["Prefix"][len(start) : -1] for page in pages for item in page.get("CommonPrefixes", ())}
        return sorted(filter(None, names))

    def delete(self, urls: Sequence[str]) -> None:
        """Delete objects, a thousand of a bucket in a request."""
        buckets: dict[str, list[dict[str, str]]] = {}
        for bucket, key in map(split_url, urls):
            buckets.setdefault(bucket, []).append({"Key": key})
        for bucket, keys in buckets.items():
            for start in range(0, len(keys), _DELETIONS):
                some = keys[start : start + _DELETIONS]
                with _errors(f"s3://{bucket}/{some[0]['Key']}"), self._clients.one() as client:
                    answer = client.delete_objects(Bucket=bucket, Delete={"Objects": some, "Quiet": True})
                for error in answer.get("Errors", ()):
                    said = f"s3://{bucket}/{error['Key']}: {error['Code']}: {error['Message']}"
                    raise StatusError(said, error["Code"])

    def rename(self, moves: Sequence[Rename]) -> None:
        """Copy, within the store and many at once, and delete."""
        with ThreadPoolExecutor(_COPIES, "shardmill-copy") as pool:
            for _ in pool.map(self._copy, moves):
                pass
        self.delete([move.source for move in moves])

    def _copy(self, move: Rename) -> None:
        (bucket, key), (to_bucket, to_key) = split_url(move.source), split_url(move.destination)
        source = {"Bucket": bucket, "Key": key}
        with _errors(move.source), self._clients.one() as client:
            if move.size_bytes < _SINGLE_COPY_BYTES:
                client.copy_object(CopySource=source, Bucket=to_bucket, Key=to_key)
            else:
                client.copy(source, to_bucket, to_key, Config=_COPY)

    def abort_uploads(self, prefix: str) -> None:
        """Abort unfinished multipart uploads: S3 keeps and charges for their parts, and shows them in no listing.

        A courtesy that needs permissions of its own: without them, nothing happens.
        """
        bucket, start = split_url(prefix)
        with suppress(ClientError), self._clients.one() as client:
            for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=start):
                for upload in page.get("Uploads", ()):
                    client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])


def _whole(read: Callable[[], T]) -> T:
    """What `read` gives; an answer that breaks off midway is asked for again."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(HTTPClientError, IncompleteReadError):
            return read()
    return read()


def _stat(url: str, item: Mapping[str, Any], size: str) -> FileStat:
    return FileStat(url, int(item[size]), f"etag:{item['ETag']}", item["LastModified"].timestamp())


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code"))


class _Client:
    """A client of boto3, and whether any of its requests had to be repeated."""

    def __init__(self, client: Any) -> None:
        self.client, self.is_spent = client, False
        client.meta.events.register("after-call.s3", self._answered)
        client.meta.events.register("after-call-error.s3", self._failed)

    def _answered(self, parsed: Mapping[str, Any], **_: Any) -> None:
        self.is_spent |= parsed["ResponseMetadata"].get("RetryAttempts", 0) > 0

    def _failed(self, **_: Any) -> None:
        self.is_spent = True


class _Clients:
    """Those of one process: each serves one thread at a time, and none that had to repeat a request is used again.

    A client repeats some dozens of requests, and then fails at the first error (botocore's quota: 500, at 14 each, or 5
    of those that say SlowDown): threads that share one fail within seconds, whatever number of attempts they were
    given. One more of the same session costs 0.3 MB and some milliseconds.
    """

    def __init__(self, options: S3Options) -> None:
        self._options = options
        _describe_once()
        core = botocore.session.get_session()
        core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=parse_time)
        self._session = boto3.session.Session(botocore_session=core)
        self._lock = threading.Lock()  # the session's: threads may share clients, but not that
        self._idle = [self._make()]  # the first here: what is wrong with the options is said at once

    @contextmanager
    def one(self) -> Iterator[Any]:
        """A client that nobody else uses meanwhile."""
        try:
            own = self._idle.pop()
        except IndexError:
            own = self._make()
        try:
            yield own.client
        finally:
            if not own.is_spent:
                self._idle.append(own)

    def _make(self) -> _Client:
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
        return _Client(client)


def _describe_once() -> None:
    """Let all sessions of this process share what they read of botocore's descriptions of services.

    Beam makes a session for each shard that it writes, which would parse 3 MB of JSON: 0.3 s of a core.
    """
    botocore.session.create_loader = _create_loader


@contextmanager
def _errors(url: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if _code(error) in _MISSING:
            raise FileNotFoundError(f"{url}: not found") from error
        if _code(error) in _NO_SUCH_RANGE:
            raise EOFError(f"{url}: {error}") from error
        raise (PermissionError if _code(error) in _FORBIDDEN else OSError)(f"{url}: {error}") from error
    except BotoCoreError as error:
        raise OSError(f"{url}: {error}") from error
