"""S3 that answers 503 for a while: every client of the process goes on asking, for as long as the flag says."""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores import storage
from shardmill.transforms.stores.beam_filesystems import process_options
from shardmill.transforms.stores.clients import set_options
from shardmill.transforms.stores.s3 import S3
from tests.support.command import Run, check_mistake
from tests.support.faulty_store import attempts_unsaid


class _Busy(BaseHTTPRequestHandler):
    """Answers 503 so many times, and then that an object of three bytes was found, or written; for each object."""

    left = 0
    asked: ClassVar[Counter[str]] = Counter()

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        _Busy.asked[self.path] += 1
        busy = _Busy.asked[self.path] <= _Busy.left
        body = b"" if busy or self.command == "HEAD" else b"abc"
        self.send_response(503 if busy else 200)
        self.send_header("Content-Length", "0" if busy else "3")
        self.send_header("ETag", '"e"')
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = _answer

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def flags() -> Iterator[list[str]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Busy)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    access = {"endpoint_url": f"http://127.0.0.1:{server.server_port}", "access_key_id": "k", "secret_access_key": "s"}
    with attempts_unsaid():
        yield [f"--s3_{flag}={value}" for flag, value in access.items()]
    server.shutdown()
    thread.join()
    server.server_close()
    set_options(None)


def be_busy(times: int) -> None:
    """Answer each object's first requests with 503."""
    _Busy.left = times
    _Busy.asked.clear()


def without_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that botocore waits from now on, without waiting them; threads that other tests left wait on."""
    waits: list[float] = []
    sleep, others = time.sleep, frozenset(threading.enumerate()) - {threading.current_thread()}

    def wait(seconds: float) -> None:
        (sleep if threading.current_thread() in others else waits.append)(seconds)

    monkeypatch.setattr(time, "sleep", wait)
    return waits


def test_requests_are_repeated_as_often_as_the_flag_says(flags: list[str]) -> None:
    set_options(PipelineOptions([*flags, "--s3_attempts=4"]))
    be_busy(3)
    assert storage.read_bytes("s3://bucket/a") == b"abc"
    assert _Busy.asked.total() == 4
    be_busy(100)
    for asked in (5, 4):  # once by obstore, which then leaves the store alone
        _Busy.asked.clear()
        with pytest.raises(OSError, match=r"s3://bucket/a: .*503"):
            storage.read_bytes("s3://bucket/a")
        assert _Busy.asked.total() == asked


def test_by_default_for_minutes_in_a_burst_of_threads_too(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Botocore's quota, of some dozens of repetitions, is a client's: threads that share one use it up at once."""
    waits = without_waiting(monkeypatch)
    set_options(PipelineOptions(flags))
    assert os.environ["AWS_RETRY_MODE"] in ("standard", "adaptive")
    be_busy(23)
    urls = [f"s3://bucket/{number}" for number in range(16)]
    for _ in range(2):  # a second time that the store fails, too
        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(storage.size, urls)) == [3] * 16  # which boto3 asks for
        _Busy.asked.clear()
    assert len(waits) == 2 * 16 * 23
    assert 120 <= sum(waits) / (2 * 16) <= 240  # in the mean of all


def test_clients_that_had_nothing_to_repeat_are_used_again(flags: list[str]) -> None:
    set_options(PipelineOptions(flags))
    store = S3(process_options())
    be_busy(0)
    with store._clients.exclusive_client() as first:
        pass
    assert storage.read_bytes("s3://bucket/a") == b"abc"
    with store._clients.exclusive_client() as again, store._clients.exclusive_client() as other:
        assert again is first
        assert other is not first


@pytest.mark.parametrize("value", ["0", "-1", "x", "", "1.5", "٣"])
@pytest.mark.parametrize("form", ["one word", "two words"])
def test_a_number_that_is_none_is_a_mistake(run: Run, tmp_path: Path, value: str, form: str) -> None:
    flag = ["--s3_attempts", value] if form == "two words" else [f"--s3_attempts={value}"]
    result = run("images", "--input", tmp_path, "--output", tmp_path / "out", "--name", "n", *flag)
    check_mistake(result, "--s3_attempts")
    check_mistake(run("verify", tmp_path, *flag), "--s3_attempts")
    assert not (tmp_path / "out").exists()
