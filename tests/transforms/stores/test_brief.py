"""Who clears up asks a store for seconds, and one that has not answered no more until it has."""

import socket
import threading
from collections.abc import Iterator

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores import protocol, storage
from shardmill.transforms.stores.clients import set_options
from shardmill.transforms.stores.protocol import GivenUpError, call_with_timeout, has_short_timeouts, limit_timeouts


@pytest.fixture(autouse=True)
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


def test_a_store_that_is_silent_is_asked_once(silent: list[str]) -> None:
    set_options(PipelineOptions(silent))
    with limit_timeouts():
        with pytest.raises(GivenUpError, match=r"^the store has not answered for 0.2 seconds$"):
            storage.delete_tree("s3://bucket/folder")
        with pytest.raises(GivenUpError, match=r"^the store no longer answers$"):
            storage.read_bytes("s3://bucket/a")


def test_one_that_answers_again_is_asked_again() -> None:
    never = threading.Event()
    with pytest.raises(GivenUpError):
        call_with_timeout(never.wait)
    with pytest.raises(GivenUpError):
        call_with_timeout(str, 1)
    protocol.mark_store_responsive()
    assert call_with_timeout(str, 1) == "1"
    never.set()


def test_what_fails_fails_as_ever() -> None:
    with pytest.raises(ZeroDivisionError):
        call_with_timeout(lambda: 1 / 0)
    assert call_with_timeout(str, 1) == "1"


def test_other_threads_have_time() -> None:
    """Steps that are still under way, and of several blocks the inner one does not end the outer."""
    seen: list[bool] = []
    with limit_timeouts():
        thread = threading.Thread(target=lambda: seen.append(has_short_timeouts()))
        thread.start()
        thread.join()
        with limit_timeouts():
            pass
        seen.append(has_short_timeouts())
    assert [*seen, has_short_timeouts()] == [False, True, False]
