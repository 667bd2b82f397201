"""Telling somebody that nothing was published: one POST, whose own failure changes nothing."""

import json
import urllib.error
import urllib.request
from http.client import HTTPException

from shardmill.versions.build_record import BuildRecord

SECONDS = 10.0  # that an answer may take


def notify(url: str, record: BuildRecord, seconds: float = SECONDS) -> str | None:
    """Post the record of a build to a webhook; what must be said if that failed, None if it did not.

    The body is the record as an object, with a `text` that Slack and its like show. The URL, which may be a secret, is
    in no sentence.
    """
    text = f"{record.name} {record.version}: {record.status}: {record.reason}"
    body = json.dumps({**json.loads(record.to_json()), "text": text}).encode()
    try:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        return f"on_failure: the webhook answered {error.code} {error.reason}; nobody was told"
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        return f"on_failure: the webhook could not be reached: {type(error).__name__}: {_without(str(reason), url)}"
    return None


def _without(text: str, url: str) -> str:
    return text.replace(url, "…")
