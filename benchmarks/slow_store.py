"""An object store on the loopback that waits: `python slow_store.py FOLDER PORT MILLISECONDS`.

It speaks as much of S3 as reading, listing and writing objects takes, serves the folders below FOLDER as buckets, and
answers each request after so many milliseconds, as a store at some distance does. `GET /requests` tells, and forgets,
what was asked since that was last asked: how many requests, how many of them at once at most, and for how many seconds
there was one alone.

Whoever is measured shares the cores with it, so one thread serves all connections: one of Python's for each would take
a core's millisecond for an image of 25 KB, as much as who reads it.
"""

import asyncio
import bisect
import os
import sys
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from xml.sax.saxutils import escape

from slow_store_state import Buffers, Counts, Upload

_PAGE = 1000  # objects in an answer to a listing, as S3 has it
_HEAD_BYTES = 64 << 10  # of a request line and headers at most
_SENDFILE_BYTES = 256 << 10  # from which on the system copies an object to its connection by itself
_DATE = "Last-Modified: Fri, 01 Jan 2021 00:00:00 GMT\r\n"


class Store:
    """The objects below a folder, and how many seconds an answer takes."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.seconds, self.counts = folder, seconds, Counts()
        self.buffers = Buffers()
        self._listings: dict[str, list[str]] = {}
        self._uploads: dict[str, Upload] = {}

    def path(self, target: str) -> tuple[Path, dict[str, str]]:
        """The file that a request is about, and its query."""
        path, _, query = target.partition("?")
        asked = dict(urllib.parse.parse_qsl(query, keep_blank_values=True)) if query else {}
        return self.folder / urllib.parse.unquote(path).lstrip("/"), asked

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: memoryview) -> list[bytes]:
        """An answer to anything but GET of an object, whole."""
        path, query = self.path(target)
        if method == "GET":
            return _answer(200, self._list(path, query))
        if method == "HEAD":
            if not path.is_file():
                return _answer(404, b"")
            return [_head(200, path.stat().st_size, f"ETag: {_etag(path)}\r\n")]
        if method == "PUT":
            return self._put(path, query, headers, body)
        if method == "POST":
            return _answer(200, self._post(path, query, bytes(body).decode()))
        path.unlink(missing_ok=True)
        return _answer(204, b"")

    def _put(self, path: Path, query: Mapping[str, str], headers: Mapping[str, str], body: memoryview) -> list[bytes]:
        """An object, a part of one, or a copy."""
        if "uploadId" in query:
            self._uploads[query["uploadId"]].write(int(query["partNumber"]), body)
            return _answer(200, b"", 'ETag: "part"\r\n')
        new = path.with_name(f".{uuid.uuid4().hex}")
        path.parent.mkdir(parents=True, exist_ok=True)
        source = headers.get("x-amz-copy-source")
        if source is None:
            new.write_bytes(body)
        else:  # what is there is never written to again, so another name is a copy
            new.hardlink_to(self.folder / urllib.parse.unquote(source).lstrip("/"))
        new.replace(path)
        answer = f"<CopyObjectResult><ETag>{escape(_etag(path))}</ETag></CopyObjectResult>".encode() if source else b""
        return _answer(200, answer, f"ETag: {_etag(path)}\r\n")

    def _post(self, path: Path, query: Mapping[str, str], body: str) -> bytes:
        """An upload's begin or end, or the deletion of several objects."""
        if "delete" in query:
            for key in body.split("<Key>")[1:]:
                (path / _unescaped(key.partition("</Key>")[0])).unlink(missing_ok=True)
            return b"<DeleteResult></DeleteResult>"
        if "uploads" in query:
            name = uuid.uuid4().hex
            path.parent.mkdir(parents=True, exist_ok=True)
            self._uploads[name] = Upload(path.with_name(f".{name}"))
            upload = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId>"
            return f"{upload}</InitiateMultipartUploadResult>".encode()
        self._uploads.pop(query["uploadId"]).close(path)
        return b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"

    def _list(self, bucket: Path, query: Mapping[str, str]) -> bytes:
        """A page of a listing."""
        prefix, token, after = (query.get(name, "") for name in ("prefix", "continuation-token", "start-after"))
        if query.get("delimiter"):
            folder = bucket / prefix
            inner = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
            items = "".join(
                f"<CommonPrefixes><Prefix>{escape(prefix + name)}/</Prefix></CommonPrefixes>" for name in inner
            )
            return f"<ListBucketResult>{items}</ListBucketResult>".encode()
        names = self._listings.get(prefix)
        if names is None or not (token or after):  # of one listing, all pages are those of its first moment
            names = self._listings[prefix] = sorted(name for name in _below(bucket, prefix) if name.startswith(prefix))
        start = int(token) if token else bisect.bisect_right(names, after)
        items = "".join(_item(bucket, name) for name in names[start : start + _PAGE])
        more = start + _PAGE < len(names)
        token = f"<NextContinuationToken>{start + _PAGE}</NextContinuationToken>" if more else ""
        truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}"
        return f"<ListBucketResult>{truncated}{items}</ListBucketResult>".encode()


class _Connection(asyncio.BufferedProtocol):
    """One request after the other: its head, then its body, which the system puts where it stays."""

    def __init__(self, store: Store) -> None:
        self._store, self._loop = store, asyncio.get_running_loop()
        self._head, self._filled = memoryview(bytearray(_HEAD_BYTES)), 0
        self._body: memoryview | None = None
        self._come = 0  # of the body
        self._at_work: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where what comes next is put."""
        if self._body is not None:
            return self._body[self._come :]
        return self._head[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """So much came."""
        if self._body is not None:
            self._come += nbytes
            if self._come == len(self._body):
                self._wait(self._body)
            return
        self._filled += nbytes
        head = bytes(self._head[: self._filled])
        end = head.find(b"\r\n\r\n")
        if end < 0:
            return
        first, *lines = head[:end].decode("latin-1").split("\r\n")
        self._method, self._target, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines)
        self._headers = {name.lower(): value.strip() for name, _, value in pairs}
        self._begun = self._target != "/requests"
        if self._begun:
            self._store.counts.change(1)
        length, came = int(self._headers.get("content-length", 0)), head[end + 4 :]
        self._filled = 0
        if length == len(came):
            self._wait(memoryview(came))
            return
        self._body, self._come = self._store.buffers.take(length), len(came)
        self._body[: len(came)] = came
        if "expect" in self._headers:  # said at once: boto3 waits a second for that word
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _wait(self, body: memoryview) -> None:
        self._body = None
        self._transport.pause_reading()
        if self._begun:
            self._loop.call_later(self._store.seconds, self._answer, body)
        else:
            self._end(_answer(200, self._store.counts.take()))

    def _answer(self, body: memoryview) -> None:
        if self._transport.is_closing():
            self._store.counts.change(-1)
        elif self._method == "GET" and "list-type=" not in self._target:
            self._get()
        else:
            self._at_work = self._loop.create_task(self._work(body))

    async def _work(self, body: memoryview) -> None:
        """An answer that takes the disk some time."""
        asked = (self._method, self._target, self._headers, body)
        answer = await self._loop.run_in_executor(None, self._store.answer, *asked)
        if not body.readonly:
            self._store.buffers.give(body)
        self._end(answer)

    def _get(self) -> None:
        """An object, or a range of it."""
        path, _ = self._store.path(self._target)
        if not path.is_file():
            self._end(_answer(404, b"<Error><Code>NoSuchKey</Code></Error>"))
            return
        descriptor = os.open(path, os.O_RDONLY)
        status = os.fstat(descriptor)
        start, stop = _range(self._headers.get("range"), status.st_size)
        said = f"ETag: {_etag_of(status)}\r\n"
        if "range" in self._headers:
            said += f"Content-Range: bytes {start}-{stop - 1}/{status.st_size}\r\n"
        head = _head(206 if "range" in self._headers else 200, stop - start, said)
        if stop - start < _SENDFILE_BYTES:
            data = os.pread(descriptor, stop - start, start)
            os.close(descriptor)
            self._end([head, data])
        else:
            self._transport.write(head)
            self._at_work = self._loop.create_task(self._send(descriptor, start, stop))

    async def _send(self, descriptor: int, start: int, stop: int) -> None:
        """The bytes of a large range."""
        with open(descriptor, "rb") as file, suppress(ConnectionError):
            await self._loop.sendfile(self._transport, file, start, stop - start)
        self._end([])

    def _end(self, answer: list[bytes]) -> None:
        self._transport.writelines(answer)
        if self._begun:
            self._store.counts.change(-1)
        if self._headers.get("connection", "").lower() == "close":
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.resume_reading()


def _answer(status: int, body: bytes, headers: str = "") -> list[bytes]:
    return [_head(status, len(body), headers), body]


def _head(status: int, length: int, headers: str) -> bytes:
    return f"HTTP/1.1 {status} -\r\nContent-Length: {length}\r\n{headers}{_DATE}\r\n".encode()


def _range(asked: str | None, size: int) -> tuple[int, int]:
    start, _, last = (asked or "bytes=0-").removeprefix("bytes=").partition("-")
    return int(start), min(int(last) + 1, size) if last else size


def _below(bucket: Path, prefix: str) -> Iterator[str]:
    """The names of objects in the folder that `prefix` is in; what lies elsewhere takes a store no time."""
    top = str(bucket)
    for folder, _, names in os.walk(f"{top}/{prefix.rpartition('/')[0]}".rstrip("/")):
        before = f"{folder[len(top) + 1 :]}/".lstrip("/")
        yield from (f"{before}{name}" for name in names)


def _etag(path: Path) -> str:
    return _etag_of(path.stat())


def _etag_of(status: os.stat_result) -> str:
    return f'"{status.st_size:x}-{status.st_mtime_ns:x}"'


def _item(bucket: Path, name: str) -> str:
    path = bucket / name
    about = f"<Key>{escape(name)}</Key><Size>{path.stat().st_size}</Size><ETag>{escape(_etag(path))}</ETag>"
    return f"<Contents>{about}<LastModified>2021-01-01T00:00:00.000Z</LastModified></Contents>"


def _unescaped(text: str) -> str:
    for name, letter in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        text = text.replace(name, letter)
    return text


async def _serve(folder: Path, port: int, seconds: float) -> None:
    store = Store(folder, seconds)
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(store), "127.0.0.1", port, backlog=256)
    await server.serve_forever()


def main() -> None:
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000))


if __name__ == "__main__":
    main()
