"""A webhook's own failure is one sentence, without its address."""

import socket

from pipelines.rebuilding.webhook import notify
from shardmill.versions.build_record import BuildRecord

RECORD = BuildRecord("n", "1.0.0", "failed", "2026-11-20T03:00:00Z", reason="no such file")


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        said = notify(f"http://127.0.0.1:{taken.getsockname()[1]}/secret", RECORD)

    assert said is not None
    assert said.startswith("on_failure: the webhook could not be reached: ")
    assert "secret" not in said


def test_somebody_listens_and_does_not_answer() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        said = notify(f"http://127.0.0.1:{silent.getsockname()[1]}/secret", RECORD, seconds=0.2)

    assert said == "on_failure: the webhook could not be reached: TimeoutError: timed out"


def test_what_is_no_address() -> None:
    said = notify("http://[secret/", RECORD)

    assert said is not None
    assert "secret" not in said
