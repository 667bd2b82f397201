"""Which errors may be gone in a minute."""

import http.client
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import botocore.exceptions
import pytest
import requests.exceptions
import urllib3.exceptions
from google.api_core import exceptions
from google.cloud.storage.exceptions import DataCorruption

from shardmill.transforms.stores.protocol import GivenUpError, StatusError, is_transient

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
    lambda: StatusError("x", 503),
    lambda: StatusError("x", HTTPStatus.TOO_MANY_REQUESTS),
    lambda: StatusError("x", "SlowDown"),
]
LASTING: list[Callable[[], BaseException]] = [
    lambda: google.Forbidden("x"),
    lambda: google.NotFound("x"),
    lambda: google.PreconditionFailed("x"),
    lambda: of_s3(403, "AccessDenied"),
    lambda: of_s3(404, "NoSuchKey"),
    lambda: botocore.exceptions.NoCredentialsError(),
    lambda: StatusError("x", 400),
    lambda: ValueError("x"),
    lambda: AttributeError("x"),
    lambda: OSError(28, "no space left"),
    lambda: EOFError("x"),
    lambda: GivenUpError("x"),
]


@pytest.mark.parametrize("made", TRANSIENT)
def test_transient(made: Callable[[], BaseException]) -> None:
    assert is_transient(made())
    told = OSError("s3://b/a")
    told.__cause__ = made()
    assert is_transient(told)
    for answered in (FileNotFoundError("x"), PermissionError("x"), GivenUpError("x")):
        answered.__cause__ = made()
        assert not is_transient(answered)


@pytest.mark.parametrize("made", LASTING)
def test_lasting(made: Callable[[], BaseException]) -> None:
    assert not is_transient(made())
    told = OSError("s3://b/a")
    told.__cause__ = made()
    assert not is_transient(told)
