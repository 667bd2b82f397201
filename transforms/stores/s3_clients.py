"""Clients of boto3 that are kept, made from Beam's --s3_* options, and what reads in their stead."""

import functools
import io
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.httpchecksum import AwsChunkedWrapper

from shardmill.transforms.stores.s3_pages import parse_pages
from shardmill.transforms.stores.s3_reads import Reads, Sent
from shardmill.transforms.stores.s3_times import parse_time

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import S3Options

_PIECE_BYTES = 1 << 20  # which botocore puts together of as many
_create_loader = functools.cache(botocore.session.create_loader)


class _Client:
    """A client of boto3, and whether any of its requests had to be repeated."""

    def __init__(self, client: Any) -> None:
        self.client, self.is_spent = client, False
        self.sent = Sent("", "")  # the last read
        client.meta.events.register("after-call.s3", self._answered)
        client.meta.events.register("after-call-error.s3", self._failed)
        client.meta.events.register("before-send.s3.GetObject", self._sends)
        client.meta.events.register("before-send.s3", _send_at_once)

    def _answered(self, parsed: Mapping[str, Any], **_: Any) -> None:
        self.is_spent |= parsed["ResponseMetadata"].get("RetryAttempts", 0) > 0

    def _failed(self, **_: Any) -> None:
        self.is_spent = True

    def _sends(self, request: Any, **_: Any) -> None:
        signed = request.headers.get("Authorization", b"")
        self.sent = Sent(request.url, signed.decode() if isinstance(signed, bytes) else signed)


def _send_at_once(request: Any, **_: Any) -> None:
    """Have the bytes that botocore has made a file of sent by one call.

    Files are sent in pieces of 16 KiB, before each of which a thread waits for the interpreter while others work.
    """
    if isinstance(request.body, io.BytesIO):
        request.body = request.body.getvalue()
    elif isinstance(request.body, AwsChunkedWrapper):  # by https, with a checksum behind them
        body = request.body
        request.body = b"".join(iter(functools.partial(body.read, _PIECE_BYTES), b""))
        body.seek(0)  # where a repetition begins


class Clients:
    """Those of one process: each serves one thread at a time, and none that had to repeat a request is used again.

    A client repeats some dozens of requests, and then fails at the first error (botocore's quota: 500, at 14 each, or 5
    of those that say SlowDown): threads that share one fail within seconds, whatever number of attempts they were
    given. One more of the same session costs 0.3 MB and some milliseconds.
    """

    def __init__(self, options: "S3Options") -> None:
        self._options = options
        _describe_once()
        core = botocore.session.get_session()
        core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=parse_time)
        self._session = boto3.session.Session(botocore_session=core)
        self._lock = threading.Lock()  # the session's: threads may share clients, but not that
        self._idle = [self._make()]  # the first here: what is wrong with the options is said at once
        # obstore trusts whom the system trusts, and others beside, never instead
        own_trust = options.s3_verify is not None or core.get_config_variable("ca_bundle")
        trusts_system = not own_trust and "REQUESTS_CA_BUNDLE" not in os.environ
        self._reads = Reads(self._credentials, trusts_system)

    @contextmanager
    def one(self) -> Iterator[Any]:
        """A client that nobody else uses meanwhile."""
        with self._own() as own:
            yield own.client

    def read(self, bucket: str, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """An object, or some of its bytes; raises what boto3 raises."""
        if (found := self._reads.read(bucket, key, offset, length)) is not None:
            return found
        more = {} if length is None else {"Range": f"bytes={offset}-{offset + length - 1}"}
        with self._own() as own:
            data = bytes(own.client.get_object(Bucket=bucket, Key=key, **more)["Body"].read())
            self._reads.learn(bucket, key, own.sent)
            return data

    def _credentials(self) -> tuple[str, str, str | None]:
        """Those that clients sign with at this moment."""
        options = self._options
        if options.s3_access_key_id:
            return options.s3_access_key_id, options.s3_secret_access_key, options.s3_session_token
        with self._lock:
            found = self._session.get_credentials()
        frozen = found.get_frozen_credentials()
        return frozen.access_key, frozen.secret_key, frozen.token

    @contextmanager
    def _own(self) -> Iterator[_Client]:
        try:
            own = self._idle.pop()
        except IndexError:
            own = self._make()
        try:
            yield own
        finally:
            if not own.is_spent:
                self._idle.append(own)

    def _make(self) -> _Client:
        options = self._options
        with self._lock:
            client = self._session.client(
                "s3",
                region_name=options.s3_region_name,
                api_version=options.s3_api_version,
                use_ssl=not options.s3_disable_ssl,
                verify=options.s3_verify,
                endpoint_url=options.s3_endpoint_url,
                aws_access_key_id=options.s3_access_key_id,
                aws_secret_access_key=options.s3_secret_access_key,
                aws_session_token=options.s3_session_token,
            )
        parse_pages(client)
        return _Client(client)


def _describe_once() -> None:
    """Let all sessions of this process share what they read of botocore's descriptions of services.

    Beam makes a session for each shard that it writes, which would parse 3 MB of JSON: 0.3 s of a core.
    """
    botocore.session.create_loader = _create_loader
