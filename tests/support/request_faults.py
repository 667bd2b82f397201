"""Requests to stores that fail, or are the last of this process, at the n-th: all that boto3's, Google's and Azure's
clients ask for by urllib3."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from urllib3.connection import HTTPConnection

# A request is refused before it is sent; it is done, but its answer is lost; or this process asks for nothing any more
STRIKES = ("refused", "answer lost", "killed")
# Of who asks, and of buckets, which Google's client asks in a thread of its own
_NOT_COUNTED = re.compile(r"/token|/storage/v1/b/[^/?]+([?]|$)")


class Killed(BaseException):
    """This process has ended, as far as a store can tell."""


class Requests:
    """Counts them; number `at`, from 0, is struck."""

    def __init__(self, at: int, strike: str) -> None:
        self.count = 0
        self._at, self._strike = at, strike
        self._lock = threading.Lock()
        self._lost = threading.local()

    def begin(self, path: str) -> None:
        """A request is about to be sent."""
        self._lost.now = False
        if _NOT_COUNTED.match(path):
            return
        with self._lock:
            number, self.count = self.count, self.count + 1
        if number == self._at and self._strike == "refused":
            raise ConnectionRefusedError(f"request {number}")
        self._lost.now = number == self._at and self._strike == "answer lost"
        if number >= self._at and self._strike == "killed":
            raise Killed

    def answered(self) -> None:
        """The answer to the request that this thread sent last has come."""
        if getattr(self._lost, "now", False):
            raise ConnectionResetError("the answer is lost")


@contextmanager
def struck(at: int, strike: str) -> Iterator[Requests]:
    """Let request number `at` of this process be struck."""
    requests = Requests(at, strike)
    send, answer = HTTPConnection.putrequest, HTTPConnection.getresponse

    def putrequest(self: Any, method: str, url: str, *arguments: Any, **more: Any) -> None:
        requests.begin(url)
        send(self, method, url, *arguments, **more)

    def getresponse(self: Any) -> Any:
        found = answer(self)
        requests.answered()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HTTPConnection, "putrequest", putrequest)
        patch.setattr(HTTPConnection, "getresponse", getresponse)
        yield requests
