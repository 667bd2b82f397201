"""Reads from S3 through obstore, the object_store of Rust: an image of 25 KB costs boto3 two milliseconds of a core, in
which no other thread of Python runs, and obstore a tenth of that.

Where a bucket is and how requests to it are signed boto3 alone knows: its own first read of the bucket shows both.
Whatever obstore does not read is asked of boto3, which repeats requests, follows a bucket to its region, and says what
is wrong as it does everywhere else.
"""

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

from obstore.exceptions import PermissionDeniedError
from obstore.store import S3Store

_REST_SECONDS = 5.0  # for which boto3 alone reads of a bucket after obstore could not
# Credentials are asked for again five minutes before they end. Those of botocore hold for ten, or are renewed first.
_HOLD = timedelta(minutes=10)
_SIGNED = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/([^/]+)/s3/aws4_request,")
_OF_ONE_ZONE = "--x-s3"  # directory buckets, which have sessions of their own

# () -> access key, secret key and token
Credentials = Callable[[], tuple[str, str, str | None]]


@dataclass(frozen=True, slots=True)
class Sent:
    """A request of boto3's as it was sent."""

    url: str
    authorization: str


class Reads:
    """Those of one process, of threads as many as there are; none before boto3 has shown how."""

    def __init__(self, credentials: Credentials, trusts_system: bool = True) -> None:
        """Args:

        credentials: those that boto3 signs with at that moment.
        trusts_system: whether stores are reached by https whose certificates the system trusts.
        """
        self._credentials, self._trusts_system = credentials, trusts_system
        self._stores: dict[str, S3Store] = {}
        self._resting: dict[str, float] = {}  # until when
        self._process = os.getpid()  # obstore's threads are not there in one that is forked

    def read(self, bucket: str, key: str, offset: int = 0, length: int | None = None) -> bytes | None:
        """An object, or as many bytes of it as there are; None where boto3 is to be asked."""
        store = self._stores.get(bucket)
        if store is None or not _is_plain(key) or os.getpid() != self._process:
            return None
        try:
            if length is None:
                return bytes(store.get(key).bytes())
            return bytes(store.get_range(key, start=offset, length=length))
        except (FileNotFoundError, PermissionDeniedError):  # of this object alone
            return None
        except Exception:  # of whatever kind: boto3 meets it, too, or makes up for it
            self._resting[bucket] = time.monotonic() + _REST_SECONDS
            self._stores.pop(bucket, None)
            return None

    def learn(self, bucket: str, key: str, sent: Sent) -> None:
        """Read of a bucket from now on as boto3 read an object of it, if obstore can."""
        if bucket in self._stores or time.monotonic() < self._resting.get(bucket, 0.0):
            return
        if not (self._trusts_system or sent.url.startswith("http:")):
            return
        with suppress(Exception):  # of whatever kind: boto3 reads on
            store = _store(bucket, key, sent, self._credentials)
            if store is not None and os.getpid() == self._process:
                self._stores[bucket] = store


def _is_plain(key: str) -> bool:
    """Whether object_store takes a key as it is: it has no empty parts, drops slashes at both ends, and no dots."""
    return key.isprintable() and all(part not in ("", ".", "..") for part in key.split("/"))


def _store(bucket: str, key: str, sent: Sent, credentials: Credentials) -> S3Store | None:
    """What sends requests as `sent`; None where it cannot."""
    signed = _SIGNED.match(sent.authorization)
    if signed is None or bucket.endswith(_OF_ONE_ZONE) or signed[1] != credentials()[0]:
        return None
    url = urlsplit(sent.url)
    path = unquote(url.path)
    if path.endswith(f"/{bucket}/{key}"):
        is_of_host, above = False, path.removesuffix(f"/{bucket}/{key}")
    elif url.netloc.startswith(f"{bucket}.") and path == f"/{key}":
        is_of_host, above = True, ""
    else:
        return None

    def provide() -> Any:
        access, secret, token = credentials()
        until = datetime.now(UTC) + _HOLD
        return {"access_key_id": access, "secret_access_key": secret, "token": token, "expires_at": until}

    return S3Store(
        bucket,
        endpoint=f"{url.scheme}://{url.netloc}{above}",
        region=signed[2],
        virtual_hosted_style_request=is_of_host,
        skip_signature=False,  # these, which object_store reads from the environment, as the request shows them
        request_payer=False,
        s3_express=False,
        client_options={
            "allow_http": url.scheme == "http",
            "connect_timeout": "10s",
            "read_timeout": "60s",
            "timeout": "15min",
        },
        retry_config={"max_retries": 0},  # boto3's affair
        credential_provider=provide,
    )
