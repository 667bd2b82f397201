"""Telling somebody that nothing was published: one POST, whose own failure changes nothing."""

import json
import queue
import threading
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

from shardmill.versions.build_record import BuildRecord

SECONDS = 10.0  # that all of it may take


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A POST that is sent elsewhere arrives there as a GET, without the record."""

    def redirect_request(self, *_: Any) -> None:
        """None: the redirection is the answer."""


def notify(url: str, record: BuildRecord, seconds: float = SECONDS) -> str | None:
    """Post the record of a build to a webhook; what must be said if that failed, None if it did not.

    The body is the record as an object, with a `text` that Slack and its like show. The URL, which may be a secret, is
    in no sentence.
    """
    text = f"{record.name} {record.version}: {record.status}: {record.reason}"
    body = json.dumps({**json.loads(record.said.to_json()), "text": text}).encode()
    said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    # Looking up a name has no time limit, nor an answer that comes byte by byte: neither holds up the night's end
    threading.Thread(target=lambda: said.put(_post(url, body, seconds)), daemon=True).start()
    try:
        failed = said.get(timeout=seconds)
    except queue.Empty:
        failed = f"has not answered in {seconds:g} s"
    return None if failed is None else f"on_failure: the webhook {failed}; perhaps nobody was told"


def _post(url: str, body: bytes, seconds: float) -> str | None:
    """What the webhook did in place of taking `body`, in words; None if it took it."""
    try:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=seconds) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        return f"answered {error.code} {error.reason}{_moved(error)}"
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, TimeoutError):
            return f"has not answered in {seconds:g} s"
        return f"could not be reached: {_without(getattr(reason, 'strerror', None) or str(reason), url)}"
    return None


def _moved(error: urllib.error.HTTPError) -> str:
    return ": it has moved, give its new address" if 300 <= error.code < 400 else ""


def _without(text: str, url: str) -> str:
    return text.replace(url, "…")
