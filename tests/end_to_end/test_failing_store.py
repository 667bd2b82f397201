"""Whole commands against an S3 that answers 503 for seconds, by a proxy in front of an emulator; and two buckets at
once."""

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.support.buckets import S3Bucket, s3_named_once, server
from tests.support.command import Run, image
from transforms.stores import storage
from transforms.stores.clients import reaching
from transforms.stores.protocol import Rename
from transforms.stores.s3 import S3

BUSY_SECONDS = 2.0  # more than boto3 waits where nothing is configured
_PASSED = ("connection", "transfer-encoding", "content-length", "server", "date")


class BusyStore(ThreadingHTTPServer):
    """Passes every request on, but for those by `methods` to `part` from the first on, for so many seconds: these get a
    503."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Pass)
        self.store = urlsplit(endpoint).netloc
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self._lock = threading.Lock()
        self.fail(frozenset(), "", 0)

    def fail(self, methods: frozenset[str], part: str, seconds: float) -> None:
        """Answer 503 from the next such request on."""
        self.refused: Counter[str] = Counter()
        self._methods, self._part, self._seconds, self._until = methods, part, seconds, 0.0

    def is_busy(self, method: str, path: str) -> bool:
        """Whether this request gets a 503."""
        if method not in self._methods or self._part not in path:
            return False
        with self._lock:
            self._until = self._until or time.monotonic() + self._seconds
            busy = time.monotonic() < self._until
            self.refused[method] += busy
        return busy


class _Pass(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: BusyStore

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.is_busy(self.command, self.path):
            self._send(503, [], b"")
            return
        connection = http.client.HTTPConnection(self.server.store)
        try:
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            length = answer.headers.get("Content-Length") if self.command == "HEAD" else None
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in _PASSED]
            self._send(answer.status, headers, answer.read(), length)
        finally:
            connection.close()

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

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server("s3", tmp_path_factory.mktemp("s3") / "log") as url, s3_named_once():
        yield url


@pytest.fixture
def store(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[BusyStore]:
    for name in ("AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    server = BusyStore(endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def new_bucket(endpoint: str) -> S3Bucket:
    return S3Bucket(f"bucket-{random.SystemRandom().getrandbits(64):x}", endpoint)


def flags_of(bucket: S3Bucket, store: BusyStore) -> list[str]:
    return [f"--s3_endpoint_url={store.endpoint}", *(flag for flag in bucket.flags if "endpoint" not in flag)]


def arguments(bucket: S3Bucket, store: BusyStore) -> list[str]:
    for number in range(8):
        bucket.put(f"in/{'ab'[number % 2]}/{number}.png", image(number, "PNG"))
    flags = ["--input", f"{bucket.url}/in", "--output", f"{bucket.url}/out", "--name", "n", "--num_shards", "2"]
    return ["images", *flags, *flags_of(bucket, store)]


@pytest.mark.parametrize(("methods", "part"), [("GET", "in/a/"), ("PUT", "out/"), ("GET PUT POST HEAD", "")])
def test_a_store_that_is_busy_for_seconds(run: Run, endpoint: str, store: BusyStore, methods: str, part: str) -> None:
    bucket = new_bucket(endpoint)
    words = arguments(bucket, store)
    store.fail(frozenset(methods.split()), part, BUSY_SECONDS)
    result = run(*words)
    assert result.status == 0, result.err
    assert store.refused.total() >= 2
    assert "out/n/1.0.0/_SUCCESS" in bucket.files("out/")
    assert run("verify", f"{bucket.url}/out/n", *flags_of(bucket, store)).status == 0


@pytest.mark.parametrize(("method", "part", "named"), [("GET", "in/a/", "/in/a/"), ("PUT", "out/", "/out/n/1.0.0/")])
def test_one_attempt_fails_and_says_where(
    run: Run, endpoint: str, store: BusyStore, method: str, part: str, named: str
) -> None:
    bucket = new_bucket(endpoint)
    words = arguments(bucket, store)
    store.fail(frozenset([method]), part, 3600)
    result = run(*words, "--s3_attempts", "1", "--store_patience", "0")
    assert result.status in (1, 2)
    assert result.out == ""
    assert f"{bucket.url}{named}" in result.err
    assert "503" in result.err
    assert "Traceback" not in result.err
    assert "out/n/1.0.0/_SUCCESS" not in bucket.files("out/")


@pytest.mark.parametrize("through", ["storage", "client"])
def test_two_buckets_at_once(endpoint: str, tmp_path: Path, through: str) -> None:
    one, two = new_bucket(endpoint), new_bucket(endpoint)
    kept = {"kept": b"k"}
    for bucket in (one, two):
        for name in ("kept", "gone", "gone too", "moved"):
            bucket.put(name, name[:1].encode())
    (tmp_path / "moved").write_bytes(b"l")
    with reaching(PipelineOptions(one.flags)):
        client = S3(PipelineOptions(one.flags))
        gone = [f"{bucket.url}/{name}" for name in ("gone", "gone too", "never there") for bucket in (two, one)]
        moves = [(f"{bucket.url}/moved", f"{bucket.url}/final") for bucket in (two, one)]
        if through == "storage":
            storage.delete([str(tmp_path / "never there"), *gone])
            moves.append((str(tmp_path / "moved"), str(tmp_path / "final")))
            for _ in range(2):
                storage.rename(*zip(*moves, strict=True))
            assert (tmp_path / "final").read_bytes() == b"l"
        else:
            client.delete(gone)
            client.rename([Rename(source, final, 1) for source, final in moves])
        for bucket in (one, two):
            assert bucket.files() == {**kept, "final": b"m"}
        storage.rename([f"{one.url}/final"], [f"{two.url}/from one"])  # from one to another, too
    assert one.files() == kept
    assert two.files() == {**kept, "final": b"m", "from one": b"m"}
