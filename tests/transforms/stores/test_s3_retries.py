"""S3 that answers 503 for a while: every client of the process goes on asking, for as long as the flag says."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.support.command import Run, check_mistake
from transforms.stores import storage
from transforms.stores.clients import set_options


class _Busy(BaseHTTPRequestHandler):
    """Answers 503 so many times, and then that an object of three bytes was found, or written."""

    left = 0
    asked = 0

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        _Busy.asked += 1
        _Busy.left -= 1
        busy = _Busy.left >= 0
        body = b"" if busy or self.command == "HEAD" else b"abc"
        self.send_response(503 if busy else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"e"')
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = _answer

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def flags(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    for name in ("AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Busy)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    access = {"endpoint_url": f"http://127.0.0.1:{server.server_port}", "access_key_id": "k", "secret_access_key": "s"}
    yield [f"--s3_{flag}={value}" for flag, value in access.items()]
    server.shutdown()
    thread.join()
    server.server_close()
    set_options(None)


def test_requests_are_repeated_as_often_as_the_flag_says(flags: list[str]) -> None:
    set_options(PipelineOptions([*flags, "--s3_attempts=4"]))
    _Busy.left, _Busy.asked = 3, 0
    assert storage.read_bytes("s3://bucket/a") == b"abc"
    assert _Busy.asked == 4
    _Busy.left, _Busy.asked = 100, 0
    with pytest.raises(OSError, match=r"s3://bucket/a: .*503"):
        storage.read_bytes("s3://bucket/a")
    assert _Busy.asked == 4


def test_by_default_for_minutes(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    set_options(PipelineOptions(flags))
    _Busy.left, _Busy.asked = 8, 0
    assert storage.read_bytes("s3://bucket/a") == b"abc"
    assert len(waits) >= 8


@pytest.mark.parametrize("value", ["0", "-1", "x", "", "1.5", "٣"])
@pytest.mark.parametrize("form", ["one word", "two words"])
def test_a_number_that_is_none_is_a_mistake(run: Run, tmp_path: Path, value: str, form: str) -> None:
    flag = ["--s3_attempts", value] if form == "two words" else [f"--s3_attempts={value}"]
    result = run("images", "--input", tmp_path, "--output", tmp_path / "out", "--name", "n", *flag)
    check_mistake(result, "--s3_attempts")
    check_mistake(run("verify", tmp_path, *flag), "--s3_attempts")
    assert not (tmp_path / "out").exists()
