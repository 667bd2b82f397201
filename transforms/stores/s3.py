"""S3 by exact names, through boto3's clients, made from Beam's --s3_* options."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from apache_beam.options.pipeline_options import PipelineOptions, S3Options
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError

from shardmill.transforms.stores.listing_at_once import list_at_once
from shardmill.transforms.stores.protocol import FileStat, Rename, split_url
from shardmill.transforms.stores.s3_clients import Clients
from shardmill.transforms.stores.s3_errors import MISSING, code_of, errors
from shardmill.transforms.stores.s3_upload import S3Upload
from shardmill.transforms.stores.stored import ChangedError, Stored, check_created, check_replaced
from shardmill.transforms.stores.transient import StatusError

_COPIES = 16  # at once
_DELETIONS = 1000  # in one request: the limit of S3
_ATTEMPTS = 3  # at an answer that breaks off midway, which boto3 does not repeat
_SINGLE_COPY_BYTES = 1 << 30  # one request copies up to 5 GB, and is long about it
_COPY = TransferConfig(multipart_threshold=_SINGLE_COPY_BYTES, use_threads=False)
_THERE = ("PreconditionFailed", "ConditionalRequestConflict", "412")

T = TypeVar("T")

_lock = threading.Lock()
_shared: "tuple[PipelineOptions, Clients] | None" = None


class S3:
    """shardmill.transforms.stores.protocol.ObjectStore for s3://."""

    def __init__(self, options: PipelineOptions) -> None:
        global _shared
        with _lock, errors("s3://"):
            if _shared is None or _shared[0] is not options:
                _shared = options, Clients(options.view_as(S3Options))
            self._clients = _shared[1]

    def read(self, url: str) -> bytes:
        """The bytes of an object; boto3 repeats a request that fails, but not one that breaks off midway."""
        bucket, key = split_url(url)
        with errors(url):
            return _whole(lambda: self._clients.read(bucket, key))

    def read_range(self, url: str, offset: int, length: int) -> bytes:
        """Some of an object's bytes."""
        bucket, key = split_url(url)
        with errors(url):
            return _whole(lambda: self._clients.read(bucket, key, offset, length))

    def write(self, url: str, data: bytes) -> None:
        """Write an object; it may be empty, which the multipart upload of Beam's file system may not."""
        bucket, key = split_url(url)
        with errors(url), self._clients.one() as client:
            client.put_object(Bucket=bucket, Key=key, Body=data)

    def upload(self, url: str) -> S3Upload:
        """A new object, in parts."""
        return S3Upload(self._clients, url)

    def create(self, url: str, data: bytes) -> None:
        """Write an object if none is there."""
        bucket, key = split_url(url)
        with errors(url):
            try:
                with self._clients.one() as client:
                    client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
            except ClientError as error:
                if code_of(error) not in _THERE:
                    raise
                check_created(url, data, self.read)

    def look(self, url: str) -> Stored:
        """A small object and its ETag; retried as `read` is."""
        bucket, key = split_url(url)
        with errors(url):
            return _whole(lambda: self._look(bucket, key))

    def _look(self, bucket: str, key: str) -> Stored:
        with self._clients.one() as client:
            answer = client.get_object(Bucket=bucket, Key=key)
            return Stored(bytes(answer["Body"].read()), answer["ETag"], answer["LastModified"].timestamp())

    def replace(self, url: str, data: bytes, revision: str) -> None:
        """Write an object in the place of one with that ETag."""
        bucket, key = split_url(url)
        with errors(url):
            try:
                with self._clients.one() as client:
                    client.put_object(Bucket=bucket, Key=key, Body=data, IfMatch=revision)
            except ClientError as error:
                if code_of(error) not in (*_THERE, *MISSING):
                    raise
                check_replaced(url, data, self.read)

    def delete_unchanged(self, url: str, revision: str) -> None:
        """Delete an object with that ETag."""
        bucket, key = split_url(url)
        with errors(url):
            try:
                with self._clients.one() as client:
                    client.delete_object(Bucket=bucket, Key=key, IfMatch=revision)
            except ClientError as error:
                if code_of(error) not in (*_THERE, *MISSING):
                    raise
                raise ChangedError(f"{url} was changed by another process") from None

    def size(self, url: str) -> int:
        """The size of an object in bytes."""
        bucket, key = split_url(url)
        with errors(url), self._clients.one() as client:
            return int(client.head_object(Bucket=bucket, Key=key)["ContentLength"])

    def stat(self, url: str) -> FileStat:
        """An object's metadata."""
        bucket, key = split_url(url)
        with errors(url), self._clients.one() as client:
            return _stat(url, client.head_object(Bucket=bucket, Key=key), "ContentLength")

    def stats(self, prefix: str) -> Iterator[FileStat]:
        """Objects by prefix."""
        with errors(f"s3://{split_url(prefix)[0]}"):
            yield from list_at_once(partial(self._pages, prefix), self._some_folders, prefix)

    def _pages(self, prefix: str, first: str, end: str) -> Iterator[list[FileStat]]:
        """As shardmill.transforms.stores.listing_at_once has them."""
        bucket, start = split_url(prefix)
        # What comes after the name of the folder without its slash, comes before the folder too: `a.jpg` before `a/`
        more = {"StartAfter": split_url(first)[1].removesuffix("/")} if first else {}
        with self._clients.one() as client:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=start, **more)
            for page in pages:
                found = [_stat(f"s3://{bucket}/{item['Key']}", item, "Size") for item in page.get("Contents", ())]
                yield [item for item in found if first <= item.path and (not end or item.path < end)]
                if end and found and found[-1].path >= end:
                    return

    def _some_folders(self, prefix: str) -> list[str]:
        bucket, start = split_url(prefix)
        with self._clients.one() as client:
            page = client.list_objects_v2(Bucket=bucket, Prefix=start, Delimiter="/")
        return sorted(item["Prefix"][len(start) : -1] for item in page.get("CommonPrefixes", ()))

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Objects by prefix."""
        bucket, start = split_url(prefix)
        with errors(f"s3://{bucket}"), self._clients.one() as client:
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=start):
                for item in page.get("Contents", ()):
                    yield f"s3://{bucket}/{item['Key']}", int(item["Size"])

    def folders(self, prefix: str) -> Sequence[str]:
        """Names of folders below `prefix`, which the store tells apart from what lies in them."""
        bucket, start = split_url(prefix)
        with errors(f"s3://{bucket}"), self._clients.one() as client:
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
                with errors(f"s3://{bucket}/{some[0]['Key']}"), self._clients.one() as client:
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
        with errors(move.source), self._clients.one() as client:
            if move.size_bytes < _SINGLE_COPY_BYTES:
                client.copy_object(CopySource=source, Bucket=to_bucket, Key=to_key)
            else:
                client.copy(source, to_bucket, to_key, Config=_COPY)

    def abort_uploads(self, prefix: str) -> None:
        """Abort unfinished multipart uploads: S3 keeps and charges for their parts, and shows them in no listing.

        A courtesy that needs permissions of its own: without them, nothing happens.
        """
        bucket, start = split_url(prefix)
        with errors(prefix), suppress(ClientError), self._clients.one() as client:
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
