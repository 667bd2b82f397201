"""A webhook's own failure is one sentence, without its address, and in bounded time."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from shardmill.addons.nightly.rebuild import notify
from shardmill.metadata.versions import BuildRecord

RECORD = BuildRecord("n", "1.0.0", "failed", "2026-11-20T03:00:00Z", reason="no such file")


def _receive(connection: socket.socket) -> bytes:
    """The whole request, which may come in several parts."""
    request = part = connection.recv(1 << 16)
    while part and (length := re.search(rb"Content-Length: (\d+)", request)):
        if len(request.partition(b"\r\n\r\n")[2]) >= int(length[1]):
            break
        request += (part := connection.recv(1 << 16))
    return request


@contextmanager
def hook(*pieces: bytes, pause: float = 0.0, waits: bool = False) -> Iterator[tuple[str, list[bytes]]]:
    """The address of a webhook that answers each request with `pieces`, pausing after each; what it was sent.

    One that `waits` takes connections and never answers.
    """
    ended, sent = threading.Event(), list[bytes]()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        sent.append(_receive(connection))
                        ended.wait(None if waits else 0)
                        for piece in pieces:
                            connection.sendall(piece)
                            ended.wait(pause)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/secret", sent
        finally:
            ended.set()
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_one_that_answers() -> None:
    with hook(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n") as (url, sent):
        assert notify(url, RECORD) is None

    assert sent[0].startswith(b"POST /secret ")


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        said = notify(f"http://127.0.0.1:{taken.getsockname()[1]}/secret", RECORD)

    assert said == "on_failure: the webhook could not be reached: Connection refused; nobody may have been notified"


@pytest.mark.parametrize("pieces", [(), (b"HTTP/1.1 200 OK\r\n", *[b"x"] * 100)])
def test_one_that_answers_a_byte_at_a_time_or_not_at_all(pieces: tuple[bytes, ...]) -> None:
    with hook(*pieces, pause=0.1, waits=not pieces) as (url, _):
        said = notify(url, RECORD, seconds=0.3)

    assert said == "on_failure: the webhook has not answered in 0.3 s; nobody may have been notified"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 400])
def test_one_that_has_moved_was_not_told(status: int) -> None:
    """A GET of the other address would be answered, and nobody would have read anything."""
    moved = f"HTTP/1.1 {status} Odd\r\nLocation: /other\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with hook(moved.encode()) as (url, sent):
        said = notify(url, RECORD)

    words = ": it has moved, give its new address" if status != 400 else ""
    assert said == f"on_failure: the webhook answered {status} Odd{words}; nobody may have been notified"
    assert len(sent) == 1


def test_what_is_no_address() -> None:
    said = notify("http://[secret/", RECORD)

    assert said is not None
    assert "secret" not in said
