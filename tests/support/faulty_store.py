"""A store that fails at the first requests for each object, or for some seconds, in one way or another: a proxy in
front of an emulator."""

import http.client
import math
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from shardmill.transforms.stores.patience import VARIABLES

_PASSED = ("connection", "transfer-encoding", "content-length", "server", "date")
FAULTS = ("429", "500", "503", "reset", "short")
_PIECES, _PAUSE_S = 5, 0.05  # in which a slow body comes
METHODS = ("GET", "PUT", "POST", "HEAD", "DELETE")


class FaultyStore(ThreadingHTTPServer):
    """Passes requests on, but for those that it is told to fail."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Pass)
        self.store = urlsplit(endpoint).netloc
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self._lock = threading.Lock()
        self.agents: list[str] = []  # who asked, as each says
        self.listings: dict[str, tuple[int, list[tuple[str, str]], bytes]] = {}  # as they were first answered
        self.fail("", 0)

    def fail(self, fault: str, times: int, part: str = "", most: int = 1_000) -> None:
        """Have so many requests of each kind fail from now on, of those with `part` in their path; `most` in all."""
        self.fault, self.times, self._part, self._most = fault, times, part, most
        self._methods: Collection[str] = METHODS
        self._seconds, self._until = math.inf, 0.0
        self.asked: Counter[str] = Counter()
        self.failed = 0

    def fail_for(self, fault: str, seconds: float, methods: Collection[str], part: str) -> None:
        """Have every request by `methods` fail that has `part` in its path, so long from the next such one on."""
        self.fail(fault, sys.maxsize, part, sys.maxsize)
        self._methods, self._seconds = methods, seconds

    def fails(self, method: str, path: str) -> bool:
        """Whether this request does."""
        if self._part not in path or method not in self._methods or "/token" in path:
            return False
        asked = f"{method} {path.partition('&uploadId')[0]}"
        with self._lock:
            self._until = self._until or time.monotonic() + self._seconds
            self.asked[asked] += 1
            in_time = time.monotonic() < self._until
            return self.asked[asked] <= self.times and self.failed < self._most and in_time


class _Pass(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyStore

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fails, fault = self.server.fails(self.command, self.path), self.server.fault
        self.server.agents.append(self.headers["User-Agent"])
        if fails and fault == "reset":
            self.server.failed += 1
            self._reset()
            return
        if fails and fault == "stale" and self.path in self.server.listings:
            self.server.failed += 1
            self._send(*self.server.listings[self.path])
            return
        if fails and fault.isdigit():
            self.server.failed += 1
            self._send(int(fault), [], b"")
            return
        connection = http.client.HTTPConnection(self.server.store)
        try:
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            length = answer.headers.get("Content-Length") if self.command == "HEAD" else None
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in _PASSED]
            content = answer.read()
        finally:
            connection.close()
        if "prefix=" in self.path:
            self.server.listings.setdefault(self.path, (answer.status, headers, content))
        if fails and fault == "lost":  # done, and nobody hears of it
            self.server.failed += 1
            self._reset()
            return
        has_body = fails and self.command == "GET" and len(content) > 1
        if has_body and fault != "stale":
            self.server.failed += 1
        if has_body and fault == "short":
            self._send(answer.status, headers, content[: len(content) // 2], str(len(content)))
            self.close_connection = True
        elif has_body and fault == "slow":
            self._send(answer.status, headers, b"", str(len(content)))
            for start in range(0, len(content), -(-len(content) // _PIECES)):
                time.sleep(_PAUSE_S)
                self.wfile.write(content[start : start + -(-len(content) // _PIECES)])
        elif has_body and fault == "damaged":
            self._send(answer.status, headers, content[:-1] + bytes([content[-1] ^ 1]))
        elif has_body and fault == "etag":
            others = [(name, f'"{"0" * 32}"' if name.lower() == "etag" else value) for name, value in headers]
            self._send(answer.status, others, content)
        else:
            self._send(answer.status, headers, content, length)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def _send(self, status: int, headers: list[tuple[str, str]], body: bytes, length: str | None = None) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer

    def handle_expect_100(self) -> bool:
        """As ever: the store itself is asked without."""
        del self.headers["Expect"]
        return super().handle_expect_100()

    def handle_error(self, *_: object) -> None:
        """Clients hang up."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def attempts_unsaid() -> Iterator[None]:
    """Nothing says how often S3's clients ask; what a job says of it in here, in its environment, ends with the
    block."""
    with pytest.MonkeyPatch.context() as patch:
        for name in VARIABLES:
            patch.setenv(name, "")
            patch.delenv(name)
        yield


@contextmanager
def faulty(endpoint: str) -> Iterator[FaultyStore]:
    """A proxy of the store at `endpoint`, which fails as it is told."""
    store = FaultyStore(endpoint)
    thread = threading.Thread(target=store.serve_forever)
    thread.start()
    try:
        yield store
    finally:
        store.shutdown()
        thread.join()
        store.server_close()
