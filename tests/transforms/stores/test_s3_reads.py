"""Reads from S3 by obstore: once boto3 has shown how, and with boto3's outcome whatever happens."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, S3Options

from shardmill.transforms.stores import s3, storage
from shardmill.transforms.stores import s3 as s3_reads
from shardmill.transforms.stores.clients import object_store, set_options
from shardmill.transforms.stores.s3 import S3Clients
from tests.support.buckets import S3Bucket, flags_by, server
from tests.support.faults import in_child
from tests.support.faulty_store import FAULTS, FaultyStore, attempts_unsaid, faulty

CONTENT = bytes(range(250)) * 20
READS: dict[str, Callable[[str], bytes]] = {
    "whole": storage.read_bytes,
    "range": lambda url: storage.read_range(url, 0, len(CONTENT)),
}


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server("s3", tmp_path_factory.mktemp("s3") / "log") as address:
        yield address


@pytest.fixture
def store(endpoint: str) -> Iterator[FaultyStore]:
    """A store with an object, `s3://bucket/a`, which this process reaches; no client repeats a request."""
    bucket = S3Bucket("bucket", endpoint)
    bucket.put("a", CONTENT)
    with attempts_unsaid(), faulty(endpoint) as proxy:
        reach(bucket, proxy)
        yield proxy
    set_options(None)


def reach(bucket: S3Bucket, proxy: FaultyStore, *flags: str) -> None:
    set_options(PipelineOptions([*flags_by(bucket, proxy.endpoint), "--s3_attempts=1", *flags]))


def reads() -> s3_reads.ObstoreReader:
    """Those of this process."""
    assert s3._shared is not None
    return s3._shared[1]._reads


def who_asked(store: FaultyStore) -> list[str]:
    """The clients that sent requests since this was last called."""
    agents, store.agents = store.agents, []
    return [agent.partition("/")[0].lower() for agent in agents]


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_the_first_read_of_a_bucket_shows_how_the_others_are_sent(
    store: FaultyStore, read: Callable[[str], bytes]
) -> None:
    assert [read("s3://bucket/a") for _ in range(3)] == [CONTENT] * 3
    assert who_asked(store) == ["boto3", "object_store", "object_store"]


def test_ranges(store: FaultyStore) -> None:
    for _ in range(2):
        assert object_store("s3://bucket/a").read_range("s3://bucket/a", 4990, 100) == CONTENT[4990:]
        with pytest.raises(EOFError, match="InvalidRange"):
            storage.read_range("s3://bucket/a", 5000, 1)


NAMES = [
    "a b",
    "100%",
    "%41",
    "a%2Fb",
    "#1",
    "q?",
    "é",
    "日本",
    "~'\"",
    "a+b&c=d",
    "a\\b",
    ".hidden",
    "..b/c...",
    "x=1/y",
]
OTHERS = ["trail/", "line\tend", "a\u00a0b"]  # which obstore would take for others, or refuse


def test_every_name(endpoint: str, store: FaultyStore) -> None:
    bucket = S3Bucket("names", endpoint)
    names = [*NAMES, *OTHERS, "trail", "a/b"]
    for number, name in enumerate(names):
        bucket.put(name, b"%d" % number)
    storage.read_bytes("s3://names/trail")
    who_asked(store)
    assert [storage.read_bytes(f"s3://names/{name}") for name in names] == [b"%d" % n for n in range(len(names))]
    asked = ["object_store"] * len(NAMES) + ["boto3"] * len(OTHERS) + ["object_store"] * 2
    assert who_asked(store) == asked


@pytest.mark.parametrize("name", ["/lead", "a//b", "/", "a/.", "./a", "a/../b", "..", ".", "", "a\nb", "a\udc80"])
def test_names_that_obstore_would_take_for_others(store: FaultyStore, name: str) -> None:
    """The emulator, too, cannot have them; S3 has."""
    storage.read_bytes("s3://bucket/a")
    who_asked(store)
    assert reads().read("bucket", name) is None
    assert who_asked(store) == []


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_fails_is_asked_of_boto3(
    store: FaultyStore, monkeypatch: pytest.MonkeyPatch, fault: str, read: Callable[[str], bytes]
) -> None:
    monkeypatch.setattr(s3_reads, "_BACKOFF_S", 3600)
    read("s3://bucket/a")
    who_asked(store)
    store.fail(fault, 1)
    assert [read("s3://bucket/a") for _ in range(2)] == [CONTENT] * 2
    assert who_asked(store) == ["object_store", "boto3", "boto3"]  # which obstore leaves alone for a while
    assert store.failed == 1
    reads()._resting.clear()
    assert [read("s3://bucket/a") for _ in range(2)] == [CONTENT] * 2
    assert who_asked(store) == ["boto3", "object_store"]


def failing(url: str, store: FaultyStore, fault: str) -> tuple[type[BaseException], str]:
    store.fail(fault, 1000)
    with pytest.raises(OSError, match="s3://") as raised:
        storage.read_bytes(url)
    store.fail("", 0)
    return raised.type, str(raised.value)


@pytest.mark.parametrize("fault", [*FAULTS, "401", "403"])
def test_what_is_said_is_what_boto3_says(store: FaultyStore, fault: str) -> None:
    first = failing("s3://bucket/a", store, fault)
    storage.read_bytes("s3://bucket/a")
    who_asked(store)
    assert failing("s3://bucket/a", store, fault) == first
    assert who_asked(store)[0] == "object_store"


@pytest.mark.parametrize("url", ["s3://bucket/none", "s3://nobucket/a"])
def test_what_is_missing(store: FaultyStore, url: str) -> None:
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match=f"^{url}: not found$"):
            storage.read_bytes(url)
        storage.read_bytes("s3://bucket/a")
    who_asked(store)
    storage.read_bytes("s3://bucket/a")
    assert who_asked(store) == ["object_store"]  # one that is not there says nothing about the others


@pytest.mark.parametrize("own", ["--s3_verify", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", ""])
def test_certificates_of_ones_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str) -> None:
    """Obstore would take them, but those of the system beside: boto3 alone reads by https then."""
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    if own.startswith("--"):
        flags = [f"{own}={tmp_path}"]
    else:
        flags = []
        monkeypatch.setenv(own or "NO_BUNDLE", str(tmp_path))
    flags += ["--s3_access_key_id=key", "--s3_secret_access_key=s", "--s3_region_name=us-east-1"]
    clients = S3Clients(PipelineOptions(flags).view_as(S3Options))
    for scheme, learns in (("https", not own), ("http", True)):
        clients._reads.learn(scheme, "a", replace(sent("key"), url=f"{scheme}://localhost/{scheme}/a"))
        assert (scheme in clients._reads._stores) == learns


def sent(key: str, url: str = "http://localhost/bucket/a", region: str = "us-east-1") -> s3_reads.SentRequest:
    return s3_reads.SentRequest(
        url, f"AWS4-HMAC-SHA256 Credential={key}/20260101/{region}/s3/aws4_request, SignedHeaders=host"
    )


@pytest.mark.parametrize(
    ("bucket", "seen"),
    [
        ("bucket", sent("other")),  # of somebody else
        ("bucket", s3_reads.SentRequest("http://localhost/bucket/a", "")),  # of nobody
        ("bucket", s3_reads.SentRequest("http://localhost/bucket/a", "AWS key:signature")),
        ("bucket", sent("key", "http://localhost/elsewhere/a")),
        ("bucket--use1-az5--x-s3", sent("key", "http://localhost/bucket--use1-az5--x-s3/a")),
    ],
)
def test_what_boto3_alone_can_send(bucket: str, seen: s3_reads.SentRequest) -> None:
    own = s3_reads.ObstoreReader(lambda: ("key", "secret", None))
    own.learn(bucket, "a", seen)
    assert not own._stores


@pytest.mark.parametrize(
    ("url", "endpoint", "virtual"),
    [
        ("https://bucket.s3.eu-west-1.amazonaws.com/a%20b", "https://bucket.s3.eu-west-1.amazonaws.com", "true"),
        (
            "https://s3.dualstack.eu-west-1.amazonaws.com/bucket/a%20b",
            "https://s3.dualstack.eu-west-1.amazonaws.com",
            "false",
        ),
        ("http://localhost:9000/minio/bucket/a%20b", "http://localhost:9000/minio", "false"),
    ],
)
def test_where_a_bucket_is(url: str, endpoint: str, virtual: str) -> None:
    own = s3_reads.ObstoreReader(lambda: ("key", "secret", None))
    own.learn("bucket", "a b", sent("key", url, "eu-west-1"))
    config = own._stores["bucket"].config
    assert (config["endpoint"], str(config["virtual_hosted_style_request"])) == (endpoint, virtual)
    assert config["region"] == "eu-west-1"


def test_a_process_that_is_forked_has_none_of_its_threads(store: FaultyStore) -> None:
    own = s3_reads.ObstoreReader(lambda: ("key", "secret", None))
    own.learn("bucket", "a", sent("key", f"{store.endpoint}/bucket/a"))
    assert own.read("bucket", "a") == CONTENT

    def read() -> None:
        assert own.read("bucket", "a") is None

    assert in_child(read) == 0


class _Signed(BaseHTTPRequestHandler):
    """A bucket of eu-west-1, which says so to who signs for another region, and takes one key."""

    key = "one"
    seen: list[tuple[str, str, str]]

    def do_GET(self) -> None:
        scope = self.headers["Authorization"].partition("Credential=")[2].split("/")
        agent = self.headers["User-Agent"].partition("/")[0].lower()
        self.seen.append((agent, scope[0], scope[2]))
        if scope[2] != "eu-west-1":
            self._send(301, b"<Error><Code>PermanentRedirect</Code></Error>")
        elif scope[0] != self.key:
            self._send(400, b"<Error><Code>ExpiredToken</Code><Message>too old</Message></Error>")
        else:
            self._send(200, CONTENT)

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("x-amz-bucket-region", "eu-west-1")
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def signed() -> Iterator[tuple[type[_Signed], str]]:
    handler = type("Signed", (_Signed,), {"seen": []})
    web = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    try:
        yield handler, f"--s3_endpoint_url=http://127.0.0.1:{web.server_port}"
    finally:
        web.shutdown()
        thread.join()
        web.server_close()
        set_options(None)


def test_a_bucket_of_another_region() -> None:
    """It is boto3 that learns of it; nobody asks the wrong region again."""
    with signed() as (handler, flag):
        set_options(
            PipelineOptions([flag, "--s3_access_key_id=one", "--s3_secret_access_key=s", "--s3_region_name=us-east-1"])
        )
        assert [storage.read_bytes("s3://bucket/a") for _ in range(2)] == [CONTENT] * 2
        assert handler.seen == [
            ("boto3", "one", "us-east-1"),
            ("boto3", "one", "eu-west-1"),
            ("object_store", "one", "eu-west-1"),
        ]


@pytest.fixture
def renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Credentials that a program gives, as roles of machines do, which end soon; renew(key) gives others."""

    def renew(key: str) -> None:
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))
        given = {"Version": 1, "AccessKeyId": key, "SecretAccessKey": "s", "SessionToken": "t", "Expiration": ends}
        (tmp_path / "given").write_text(json.dumps(given))

    program = f"{sys.executable} -c \"print(open('{tmp_path / 'given'}').read())\""
    (tmp_path / "config").write_text(f"[profile renewed]\ncredential_process = {program}\nregion = eu-west-1\n")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "renewed")
    return renew


def test_credentials_that_are_renewed(renewed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_reads, "_CREDENTIALS_LIFETIME", timedelta(0))
    renewed("one")
    with signed() as (handler, flag):
        set_options(PipelineOptions([flag, "--s3_attempts=1"]))
        for key in ("one", "two"):
            handler.key = key
            renewed(key)
            assert [storage.read_bytes("s3://bucket/a") for _ in range(2)] == [CONTENT] * 2
        asked = [("boto3", "one"), ("object_store", "one"), ("object_store", "two"), ("object_store", "two")]
        assert handler.seen == [(*who, "eu-west-1") for who in asked]


def test_credentials_that_have_ended(renewed: Callable[[str], None]) -> None:
    renewed("one")
    with signed() as (handler, flag):
        set_options(PipelineOptions([flag, "--s3_attempts=1"]))
        storage.read_bytes("s3://bucket/a")
        handler.key = "two"
        with pytest.raises(OSError, match=r"s3://bucket/a: .*ExpiredToken.*: too old"):
            storage.read_bytes("s3://bucket/a")
