"""An object store on the loopback that waits: `python slow_store.py FOLDER PORT MILLISECONDS`.

It speaks as much of S3 as reading, listing and writing objects takes, serves the folders below FOLDER as buckets, and
answers each request after so many milliseconds, as a store at some distance does. `GET /requests` tells, and forgets,
what was asked since that was last asked: how many requests, how many of them at once at most, and for how many seconds
there was one alone.
"""

import bisect
import json
import os
import sys
import threading
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from xml.sax.saxutils import escape

_PAGE = 1000  # objects in an answer to a listing, as S3 has it


class _Counts:
    """What is counted of requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now, self._since = 0, 0.0
        self._clear()

    def _clear(self) -> None:
        self._requests = self._most = 0
        self._alone = 0.0

    def change(self, by: int) -> None:
        """A request begins, or ends."""
        with self._lock:
            moment = time.monotonic()
            if self._now == 1:
                self._alone += moment - self._since
            self._since = moment
            self._now += by
            self._requests += by > 0
            self._most = max(self._most, self._now)

    def take(self) -> bytes:
        """All of it as JSON."""
        with self._lock:
            answer = json.dumps({"requests": self._requests, "at_once": self._most, "seconds_alone": self._alone})
            self._clear()
        return answer.encode()


class Store(BaseHTTPRequestHandler):
    """A request each."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    folder = Path()
    seconds = 0.0
    listings: ClassVar[dict[str, list[str]]] = {}
    lock = threading.Lock()
    counts = _Counts()

    def parse_request(self) -> bool:
        """Let each request take its time, but that for what was asked."""
        parsed = super().parse_request()
        if parsed and self.path != "/requests":
            self._counted = True
            self.counts.change(1)
            time.sleep(self.seconds)
        return parsed

    def handle_one_request(self) -> None:
        """One request, counted until it is answered."""
        self._counted = False
        try:
            super().handle_one_request()
        finally:
            if self._counted:
                self.counts.change(-1)

    def handle_expect_100(self) -> bool:
        """Say at once that a client may send what it holds back until then: boto3 waits a second for that word."""
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def do_GET(self) -> None:
        """An object, a range of it, or a page of a listing."""
        path, query = self._asked()
        if self.path == "/requests":
            self._answer(200, self.counts.take())
            return
        if "list-type" in query:
            self._list(path, query)
            return
        if not path.is_file():
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        start, stop = self._range(path.stat().st_size)
        self._head(206 if "Range" in self.headers else 200, stop - start, {"ETag": _etag(path)})
        self.wfile.flush()
        with path.open("rb") as file:
            self.connection.sendfile(file, start, stop - start)

    def do_HEAD(self) -> None:
        """What is known of an object."""
        path, _ = self._asked()
        if path.is_file():
            self._head(200, path.stat().st_size, {"ETag": _etag(path)})
        else:
            self._answer(404, b"")

    def do_PUT(self) -> None:
        """An object, a part of one, or a copy."""
        path, query = self._asked()
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "uploadId" in query:
            path = path.with_name(f".{query['uploadId']}-{int(query['partNumber']):05d}")
        new = path.with_name(f".{uuid.uuid4().hex}")
        path.parent.mkdir(parents=True, exist_ok=True)
        source = self.headers.get("x-amz-copy-source")
        if source is None:
            new.write_bytes(data)
        else:  # what is there is never written to again, so another name is a copy
            new.hardlink_to(self.folder / urllib.parse.unquote(source).lstrip("/"))
        new.replace(path)
        body = f"<CopyObjectResult><ETag>{escape(_etag(path))}</ETag></CopyObjectResult>".encode() if source else b""
        self._answer(200, body, {"ETag": _etag(path)})

    def do_POST(self) -> None:
        """An upload's begin or end, or the deletion of several objects."""
        path, query = self._asked()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if "delete" in query:
            for key in body.split("<Key>")[1:]:
                (path / _unescaped(key.partition("</Key>")[0])).unlink(missing_ok=True)
            self._answer(200, b"<DeleteResult></DeleteResult>")
        elif "uploads" in query:
            upload = f"<InitiateMultipartUploadResult><UploadId>{uuid.uuid4().hex}</UploadId>"
            self._answer(200, f"{upload}</InitiateMultipartUploadResult>".encode())
        else:
            first, *others = sorted(path.parent.glob(f".{query['uploadId']}-*"))
            with first.open("r+b") as file:
                file.seek(0, os.SEEK_END)
                for part in others:
                    with part.open("rb") as more:
                        while os.copy_file_range(more.fileno(), file.fileno(), 1 << 30):
                            pass
                    part.unlink()
            first.replace(path)
            self._answer(200, b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>")

    def do_DELETE(self) -> None:
        """An object."""
        self._asked()[0].unlink(missing_ok=True)
        self._answer(204, b"")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def _asked(self) -> tuple[Path, dict[str, str]]:
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        return self.folder / urllib.parse.unquote(url.path).lstrip("/"), query

    def _range(self, size: int) -> tuple[int, int]:
        start, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        return int(start), min(int(last) + 1, size) if last else size

    def _list(self, bucket: Path, query: dict[str, str]) -> None:
        prefix, token, after = (query.get(name, "") for name in ("prefix", "continuation-token", "start-after"))
        if query.get("delimiter"):
            folder = bucket / prefix
            inner = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
            items = "".join(
                f"<CommonPrefixes><Prefix>{escape(prefix + name)}/</Prefix></CommonPrefixes>" for name in inner
            )
            self._answer(200, f"<ListBucketResult>{items}</ListBucketResult>".encode())
            return
        with self.lock:  # of one listing, all pages are those of its first moment
            if not (token or (after and prefix in self.listings)):
                self.listings[prefix] = sorted(name for name in _below(bucket, prefix) if name.startswith(prefix))
            names = self.listings[prefix]
        start = int(token) if token else bisect.bisect_right(names, after)
        items = "".join(_item(bucket, name) for name in names[start : start + _PAGE])
        more = start + _PAGE < len(names)
        token = f"<NextContinuationToken>{start + _PAGE}</NextContinuationToken>" if more else ""
        truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}"
        self._answer(200, f"<ListBucketResult>{truncated}{items}</ListBucketResult>".encode())

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self._head(status, len(body), headers or {})
        self.wfile.write(body)

    def _head(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.send_header("Last-Modified", "Fri, 01 Jan 2021 00:00:00 GMT")
        self.end_headers()


def _below(bucket: Path, prefix: str) -> Iterator[str]:
    """The names of objects in the folder that `prefix` is in; what lies elsewhere takes a store no time."""
    top = str(bucket)
    for folder, _, names in os.walk(f"{top}/{prefix.rpartition('/')[0]}".rstrip("/")):
        before = f"{folder[len(top) + 1 :]}/".lstrip("/")
        yield from (f"{before}{name}" for name in names)


def _etag(path: Path) -> str:
    status = path.stat()
    return f'"{status.st_size:x}-{status.st_mtime_ns:x}"'


def _item(bucket: Path, name: str) -> str:
    path = bucket / name
    about = f"<Key>{escape(name)}</Key><Size>{path.stat().st_size}</Size><ETag>{escape(_etag(path))}</ETag>"
    return f"<Contents>{about}<LastModified>2021-01-01T00:00:00.000Z</LastModified></Contents>"


def _unescaped(text: str) -> str:
    for name, letter in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        text = text.replace(name, letter)
    return text


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


def main() -> None:
    Store.folder, Store.seconds = Path(sys.argv[1]), float(sys.argv[3]) / 1000
    _Server(("127.0.0.1", int(sys.argv[2])), Store).serve_forever()


if __name__ == "__main__":
    main()
