"""An object of S3 that is written as its bytes come: in one request where it is small, else in parts, some of them at
once.

Beam's own client of S3 is made anew for each file, waits for the answer to each part before it takes the next bytes,
which it copies three times, and fails at an empty file: S3 completes no upload without parts.
"""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from botocore.exceptions import ClientError

from shardmill.transforms.stores.protocol import split_url
from shardmill.transforms.stores.s3_clients import Clients
from shardmill.transforms.stores.s3_errors import code_of, errors

# S3 takes parts of 5 MiB to 5 GiB, the last may be smaller, and 10,000 of them: here, objects of up to 78 GiB.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
PART_BYTES = 8 << 20
_AT_ONCE = 3  # parts of an object: so many are held beside the one that is gathered


class S3Upload:
    """A new object, there once it is closed."""

    def __init__(self, clients: Clients, url: str) -> None:
        self._clients, self._url = clients, url
        bucket, key = split_url(url)
        self._object = {"Bucket": bucket, "Key": key}
        self._pending: list[bytes] = []
        self._pending_bytes = self._size_bytes = 0
        self._upload: dict[str, str] = {}
        self._etags: list[str] = []
        self._under_way: deque[Future[str]] = deque()
        self._pool = ThreadPoolExecutor(_AT_ONCE, "shardmill-upload")

    def write(self, data: bytes) -> None:
        """Take more bytes.

        Raises:
          OSError: the store refuses them, or some before them.
        """
        self._pending.append(bytes(data))
        self._pending_bytes += len(data)
        if self._pending_bytes >= PART_BYTES:
            self._send()

    def close(self) -> None:
        """Wait until the object is there; raises as `write`."""
        with self._pool, errors(self._url):
            if not self._upload:
                with self._clients.one() as client:
                    client.put_object(**self._object, Body=self._taken())
                return
            if self._pending:
                self._send()
            while self._under_way:
                self._etags.append(self._under_way.popleft().result())
            self._complete()

    def abandon(self) -> None:
        """Let there be no object; what was sent of it is forgotten where the store answers."""
        self._pool.shutdown(cancel_futures=True)
        if self._upload:
            with suppress(Exception), self._clients.one() as client:  # the error that led here is the one to tell
                client.abort_multipart_upload(**self._object, **self._upload)

    def _taken(self) -> bytes:
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._size_bytes += len(data)
        self._pending, self._pending_bytes = [], 0
        return data

    def _send(self) -> None:
        with errors(self._url):
            if not self._upload:
                with self._clients.one() as client:
                    self._upload = {"UploadId": client.create_multipart_upload(**self._object)["UploadId"]}
            number = len(self._etags) + len(self._under_way) + 1
            self._under_way.append(self._pool.submit(self._send_part, number, self._taken()))
            if len(self._under_way) >= _AT_ONCE:
                self._etags.append(self._under_way.popleft().result())

    def _send_part(self, number: int, data: bytes) -> str:
        with self._clients.one() as client:
            answer: Any = client.upload_part(**self._object, **self._upload, PartNumber=number, Body=data)
        return str(answer["ETag"])

    def _complete(self) -> None:
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(self._etags, 1)]
        with self._clients.one() as client:
            try:
                client.complete_multipart_upload(**self._object, **self._upload, MultipartUpload={"Parts": parts})
            except ClientError as error:
                if code_of(error) != "NoSuchUpload":
                    raise
                # It was completed, and the answer was lost
                if client.head_object(**self._object)["ContentLength"] != self._size_bytes:
                    raise
