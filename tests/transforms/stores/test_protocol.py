"""Tests of transforms/stores/protocol.py."""

import ast
import errno
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.exceptions
import pyarrow as pa
import pytest
import requests.exceptions
import urllib3.exceptions
from apache_beam.options.pipeline_options import PipelineOptions
from google.api_core import exceptions
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse

from shardmill.errors import JobError, UserError
from shardmill.transforms.stores import patience, protocol, storage
from shardmill.transforms.stores.clients import set_options
from shardmill.transforms.stores.patience import call_with_retries
from tests.support.command import REPOSITORY, Run, check_mistake


class Nameless:
    """An object that is shown with its address."""


def fault(function: object, *arguments: object) -> Exception:
    """What a call raises."""
    assert callable(function)
    with pytest.raises((OSError, TypeError, ValueError)) as raised:
        function(*arguments)
    return raised.value


def test_addresses_are_left_out() -> None:
    refused = fault(ast.literal_eval, "__import__('os')")
    assert " at 0x" in str(refused)
    assert protocol.error_text(refused) == "malformed node or string on line 1: <ast.Call object>"
    assert protocol.error_text(fault(json.dumps, {"a": {Nameless()}})) == "Object of type set is not JSON serializable"
    assert protocol.error_text(ValueError(f"{Nameless()}, {Nameless()}!")).count("Nameless object>") == 2
    assert protocol.error_text(ValueError("byte 0x80 at position 3")) == "byte 0x80 at position 3"


def test_paths_are_left_out(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    for function in (open, os.stat, pa.OSFile):
        error = fault(function, missing)
        assert missing in str(error)
        assert protocol.error_text(error) == os.strerror(errno.ENOENT)
    assert protocol.error_text(fault(storage.size, str(tmp_path))) == "not a regular file"
    assert protocol.error_text(FileNotFoundError("gs://bucket/object: not found")) == "no such file"
    assert protocol.error_text(PermissionError("gs://bucket/object: 403 denied")) == os.strerror(errno.EACCES)


def test_lines_become_one() -> None:
    error = ValueError("page 3 is\n  damaged\n\nin a cellar")
    assert protocol.error_text(error) == "page 3 is damaged in a cellar"
    assert protocol.error_text(error, lines=1) == "page 3 is"
    assert protocol.error_text(ValueError()) == ""


def test_a_full_disk_is_no_mistake(tmp_path: Path) -> None:
    """Whoever meets it: the file and what is free are in the sentence, where the system names neither."""
    path = str(tmp_path / "not" / "there")
    full = protocol.writing_error(OSError(errno.ENOSPC, "of the system"), path)

    assert re.fullmatch(
        rf"{path}: No space left on device; [\d,]+ of [\d,]+ bytes are free there", protocol.os_error_text(full)
    )
    assert type(protocol.file_error("--output x", full)) is JobError
    assert str(protocol.file_error("--output x", full)).startswith("--output x: No space left on device; ")


def test_what_else_cannot_be_written_is_a_mistake() -> None:
    denied = OSError(errno.EACCES, "Permission denied", "/x")

    assert protocol.writing_error(denied, "/y") is denied
    assert (
        protocol.os_error_text(protocol.writing_error(OSError(errno.EIO, "broken"), "/y")) == "/y: Input/output error"
    )
    assert protocol.os_error_text(OSError("gs://bucket: 503")) == "gs://bucket: 503"
    assert type(protocol.file_error("--output x", denied)) is UserError


google: Any = exceptions  # which has no types


def of_s3(status: int, code: str) -> Exception:
    answer = {"ResponseMetadata": {"HTTPStatusCode": status}, "Error": {"Code": code}}
    return botocore.exceptions.ClientError(answer, "GetObject")


def of_beams_client() -> Exception:
    """As Beam's client of S3 raises what is no answer of the store's."""
    try:
        try:
            raise botocore.exceptions.ConnectionClosedError(endpoint_url="x")
        except botocore.exceptions.ConnectionClosedError as error:
            error.response.get("ResponseMetadata")
    except AttributeError as error:
        return error
    raise AssertionError


TRANSIENT: list[Callable[[], BaseException]] = [
    lambda: google.TooManyRequests("x"),
    lambda: google.InternalServerError("x"),
    lambda: google.ServiceUnavailable("x"),
    lambda: google.RetryError("x", None),
    lambda: of_s3(503, "SlowDown"),
    lambda: of_s3(500, "InternalError"),
    lambda: of_s3(400, "RequestTimeout"),
    lambda: botocore.exceptions.ReadTimeoutError(endpoint_url="x"),
    lambda: botocore.exceptions.EndpointConnectionError(endpoint_url="x"),
    lambda: botocore.exceptions.IncompleteReadError(actual_bytes=1, expected_bytes=2),
    of_beams_client,
    lambda: requests.exceptions.ConnectionError("x"),
    lambda: requests.exceptions.ReadTimeout("x"),
    lambda: urllib3.exceptions.ProtocolError("x"),
    lambda: http.client.IncompleteRead(b""),
    lambda: DataCorruption(None, "x"),
    lambda: ConnectionResetError("x"),
    lambda: TimeoutError("x"),
    lambda: protocol.StatusError("x", 503),
    lambda: protocol.StatusError("x", HTTPStatus.TOO_MANY_REQUESTS),
    lambda: protocol.StatusError("x", "SlowDown"),
    lambda: InvalidResponse(SimpleNamespace(status_code=410), "x"),
]
LASTING: list[Callable[[], BaseException]] = [
    lambda: google.Forbidden("x"),
    lambda: google.NotFound("x"),
    lambda: google.PreconditionFailed("x"),
    lambda: of_s3(403, "AccessDenied"),
    lambda: of_s3(404, "NoSuchKey"),
    lambda: botocore.exceptions.NoCredentialsError(),
    lambda: protocol.StatusError("x", 400),
    lambda: InvalidResponse(SimpleNamespace(status_code=400), "x"),
    lambda: ValueError("x"),
    lambda: AttributeError("x"),
    lambda: OSError(28, "no space left"),
    lambda: EOFError("x"),
    lambda: protocol.GivenUpError("x"),
]


@pytest.mark.parametrize(("made", "expected"), [*product(TRANSIENT, [True]), *product(LASTING, [False])])
def test_which_errors_are_transient(made: Callable[[], BaseException], expected: bool) -> None:
    assert protocol.is_transient(made()) == expected
    told = OSError("s3://b/a")
    told.__cause__ = made()
    assert protocol.is_transient(told) == expected
    for answered in (FileNotFoundError("x"), PermissionError("x"), protocol.GivenUpError("x")):
        answered.__cause__ = made()
        assert not protocol.is_transient(answered)


class Failing:
    """Fails so many times."""

    def __init__(self, times: int, error: BaseException | None = None) -> None:
        self.left, self.asked, self.error = times, 0, error or ConnectionResetError("reset")

    def __call__(self, answer: str) -> str:
        self.asked += 1
        if self.asked <= self.left:
            raise self.error
        return answer


@pytest.fixture
def granted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(patience, "FIRST_SECONDS", 0.01)
    patience.set_patience()
    yield
    patience.set_patience(False)
    set_options(None)


def test_until_it_works(granted: None) -> None:
    assert call_with_retries(Failing(4), "done") == "done"


def test_what_lasts_is_told_at_once(granted: None) -> None:
    for error in (FileNotFoundError("no"), PermissionError("no"), ValueError("no"), protocol.GivenUpError("no")):
        function = Failing(1, error)
        with pytest.raises(type(error), match=r"^no$"):
            call_with_retries(function, "done")
        assert function.asked == 1


def test_patience_ends(granted: None) -> None:
    set_options(PipelineOptions(["--store_patience=1"]))
    function = Failing(10**6)
    with pytest.raises(protocol.GivenUpError, match=r"^reset; it was tried again for 1 seconds$"):
        call_with_retries(function, "done")
    assert 4 <= function.asked <= 20
    set_options(PipelineOptions(["--store_patience=0"]))
    function = Failing(10**6)
    with pytest.raises(ConnectionResetError):
        call_with_retries(function, "done")
    assert function.asked == 1


def test_outside_of_a_job_nobody_waits() -> None:
    function = Failing(1)
    with pytest.raises(ConnectionResetError):
        call_with_retries(function, "done")
    assert function.asked == 1


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        *(("--s3_attempts", value) for value in ("0", "-1", "x", "", "1.5", "٣")),
        *(("--store_patience", value) for value in ("-1", "x", "1.5")),
        *(("--worker_memory", value) for value in ("-1", "lots")),
    ],
)
def test_a_number_that_is_none_is_a_mistake(run: Run, tmp_path: Path, flag: str, value: str) -> None:
    for words in ([f"{flag}={value}"], [flag, value]):
        result = run("images", "--input", tmp_path, "--output", tmp_path / "out", "--name", "n", *words)
        check_mistake(result, flag)
        if flag != "--worker_memory":
            check_mistake(run("verify", tmp_path, *words), flag)
    assert not (tmp_path / "out").exists()


def test_the_command_knows_the_flag() -> None:
    """In a process that has imported nothing yet."""
    words = ("images", "--input", "a", "--output", "b", "--name", "n", "--store_patience=x")
    said = subprocess.run([sys.executable, "-m", "shardmill", *words], cwd=REPOSITORY, capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (
        2,
        "shardmill: error: argument --store_patience: expected seconds, 0 or more, not 'x'\n",
    )


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(protocol, "TIMEOUT_S", 0.2)
    yield
    protocol.mark_store_responsive()


@pytest.fixture
def silent() -> Iterator[list[str]]:
    """The flags of an S3 that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        access = {"endpoint_url": address, "access_key_id": "k", "secret_access_key": "s"}
        yield [f"--s3_{flag}={value}" for flag, value in access.items()]
    set_options(None)


@pytest.mark.usefixtures("short")
def test_a_store_that_is_silent_is_asked_once(silent: list[str]) -> None:
    set_options(PipelineOptions(silent))
    with protocol.limit_timeouts():
        with pytest.raises(protocol.GivenUpError, match=r"^the store has not answered for 0.2 seconds$"):
            storage.delete_tree("s3://bucket/folder")
        with pytest.raises(protocol.GivenUpError, match=r"^the store no longer answers$"):
            storage.read_bytes("s3://bucket/a")


@pytest.mark.usefixtures("short")
def test_one_that_answers_again_is_asked_again() -> None:
    never = threading.Event()
    with pytest.raises(protocol.GivenUpError):
        protocol.call_with_timeout(never.wait)
    with pytest.raises(protocol.GivenUpError):
        protocol.call_with_timeout(str, 1)
    protocol.mark_store_responsive()
    assert protocol.call_with_timeout(str, 1) == "1"
    never.set()


@pytest.mark.usefixtures("short")
def test_what_fails_fails_as_ever() -> None:
    with pytest.raises(ZeroDivisionError):
        protocol.call_with_timeout(lambda: 1 / 0)
    assert protocol.call_with_timeout(str, 1) == "1"


@pytest.mark.usefixtures("short")
def test_other_threads_have_time() -> None:
    """Steps that are still under way, and of several blocks the inner one does not end the outer."""
    seen: list[bool] = []
    with protocol.limit_timeouts():
        thread = threading.Thread(target=lambda: seen.append(protocol.has_short_timeouts()))
        thread.start()
        thread.join()
        with protocol.limit_timeouts():
            pass
        seen.append(protocol.has_short_timeouts())
    assert [*seen, protocol.has_short_timeouts()] == [False, True, False]
