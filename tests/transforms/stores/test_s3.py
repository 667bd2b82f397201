"""Tests of transforms/stores/s3.py."""

import io
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import boto3
import botocore.session
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, S3Options
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum
from botocore.utils import parse_timestamp

from shardmill.transforms.stores import s3, storage
from shardmill.transforms.stores.beam_filesystems import process_options
from shardmill.transforms.stores.clients import set_options
from shardmill.transforms.stores.s3 import S3, S3Clients, parse_pages, parse_time
from tests.support.buckets import S3Bucket, flags_by, server
from tests.support.faults import in_child
from tests.support.faulty_store import FAULTS, FaultyStore, attempts_unsaid, faulty

CONTENT = bytes(1_000_000)


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[S3Clients]:
    """Those of a store with a bucket."""
    with server("s3", tmp_path / "log") as endpoint:
        bucket = S3Bucket("bucket", endpoint)
        yield S3Clients(PipelineOptions(bucket.flags).view_as(S3Options))


def test_bytes_are_sent_at_once(clients: S3Clients) -> None:
    sent: list[Any] = []
    with clients.exclusive_client() as client:
        client.meta.events.register_last("before-send.s3", lambda request, **_: sent.append(request.body))
        client.put_object(Bucket="bucket", Key="whole", Body=CONTENT)
        upload = {"Bucket": "bucket", "Key": "parts"}
        upload["UploadId"] = client.create_multipart_upload(**upload)["UploadId"]
        client.upload_part(**upload, PartNumber=1, Body=CONTENT)
        assert [type(body) for body in sent] == [bytes, type(sent[1]), bytes]
        assert sent[0] == sent[2] == CONTENT
        assert client.get_object(Bucket="bucket", Key="whole")["Body"].read() == CONTENT


def test_bytes_with_a_checksum_behind_them_are_sent_at_once_and_again(clients: S3Clients) -> None:
    """As they go to a store by https."""
    whole = AwsChunkedWrapper(io.BytesIO(CONTENT), Crc32Checksum, "x-amz-checksum-crc32").read()
    body = AwsChunkedWrapper(io.BytesIO(CONTENT), Crc32Checksum, "x-amz-checksum-crc32")
    with clients.exclusive_client() as client:
        for _ in range(2):
            request = SimpleNamespace(body=body, headers={})
            client.meta.events.emit("before-send.s3.PutObject", request=request)
            assert request.body == whole


def test_sessions_share_a_loader() -> None:
    S3(PipelineOptions(["--s3_region_name=us-east-1", "--s3_access_key_id=a", "--s3_secret_access_key=b"]))

    first, second = (botocore.session.Session().get_component("data_loader") for _ in range(2))
    assert first is second


PAGE = """<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult{namespace}><Name>b</Name><EncodingType>url</EncodingType><KeyCount>3</KeyCount>
<IsTruncated>true</IsTruncated><NextContinuationToken>1&amp;2</NextContinuationToken>
<Contents><Key>in/a%20b+%26.jpg</Key><LastModified>2021-01-01T00:00:00.123Z</LastModified><ETag>&quot;ab&quot;</ETag>
<Size>5368709121</Size><StorageClass>STANDARD</StorageClass><Owner><ID>me</ID></Owner></Contents>
<Contents><Key>in/%C3%A9</Key><LastModified>2026-11-20T01:02:03Z</LastModified><ETag>"c-2"</ETag><Size>0</Size></Contents>
<CommonPrefixes><Prefix>in/x%2By/</Prefix></CommonPrefixes></ListBucketResult>"""
OF_AWS = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
ASKED = ("Key", "LastModified", "ETag", "Size")


class Answer(io.BytesIO):
    def stream(self, **_: Any) -> Any:
        yield self.read()


def listed(status: int, body: str, quick: bool) -> dict[str, Any]:
    known = {"region_name": "us-east-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    client = boto3.session.Session().client("s3", **known)
    if quick:
        parse_pages(client)
    client.meta.events.register(
        "before-send.s3", lambda request, **_: AWSResponse(request.url, status, {}, Answer(body.encode()))
    )
    return dict(client.list_objects_v2(Bucket="b", Prefix="in/"))


@pytest.mark.parametrize("namespace", ["", OF_AWS])
@pytest.mark.parametrize("empty", [False, True])
def test_a_page_is_what_botocore_makes_of_it(namespace: str, empty: bool) -> None:
    body = PAGE.format(namespace=namespace)
    if empty:
        body = body[: body.index("<Contents>")] + body[body.index("<CommonPrefixes>") :]
    quick, slow = (listed(200, body, quick) for quick in (True, False))
    contents = [[{name: item[name] for name in ASKED} for item in page.pop("Contents", ())] for page in (quick, slow)]
    assert contents[0] == contents[1]
    assert len(contents[0]) == (0 if empty else 2)
    assert quick == slow
    assert quick["NextContinuationToken"] == "1&2"


def test_an_error_is_botocores_own() -> None:
    body = "<Error><Code>NoSuchBucket</Code><Message>none</Message></Error>"
    with pytest.raises(ClientError, match="NoSuchBucket"):
        listed(404, body, quick=True)


STORED = bytes(range(250)) * 20
READS: dict[str, Callable[[str], bytes]] = {
    "whole": storage.read_bytes,
    "range": lambda url: storage.read_range(url, 0, len(STORED)),
}


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server("s3", tmp_path_factory.mktemp("s3") / "log") as address:
        yield address


@pytest.fixture
def store(endpoint: str) -> Iterator[FaultyStore]:
    """A store with an object, `s3://bucket/a`, which this process reaches; no client repeats a request."""
    bucket = S3Bucket("bucket", endpoint)
    bucket.put("a", STORED)
    with attempts_unsaid(), faulty(endpoint) as proxy:
        reach(bucket, proxy)
        yield proxy
    set_options(None)


def reach(bucket: S3Bucket, proxy: FaultyStore, *flags: str) -> None:
    set_options(PipelineOptions([*flags_by(bucket, proxy.endpoint), "--s3_attempts=1", *flags]))


def reads() -> s3.ObstoreReader:
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
    assert [read("s3://bucket/a") for _ in range(3)] == [STORED] * 3
    assert who_asked(store) == ["boto3", "object_store", "object_store"]


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
    monkeypatch.setattr(s3, "BACKOFF_S", 3600)
    read("s3://bucket/a")
    who_asked(store)
    store.fail(fault, 1)
    assert [read("s3://bucket/a") for _ in range(2)] == [STORED] * 2
    assert who_asked(store) == ["object_store", "boto3", "boto3"]  # which obstore leaves alone for a while
    assert store.failed == 1
    reads()._resting.clear()
    assert [read("s3://bucket/a") for _ in range(2)] == [STORED] * 2
    assert who_asked(store) == ["boto3", "object_store"]


def test_bytes_that_are_not_those_of_the_etag_are_asked_of_boto3(store: FaultyStore) -> None:
    storage.read_bytes("s3://bucket/a")
    who_asked(store)
    store.fail("damaged", 1)
    assert [storage.read_bytes("s3://bucket/a") for _ in range(2)] == [STORED] * 2
    assert who_asked(store) == ["object_store", "boto3", "object_store"]


def test_etags_that_are_no_md5_are_compared_once(store: FaultyStore) -> None:
    """As of objects that are encrypted with a key of KMS."""
    storage.read_bytes("s3://bucket/a")
    who_asked(store)
    store.fail("etag", 1000)
    assert [storage.read_bytes("s3://bucket/a") for _ in range(3)] == [STORED] * 3
    assert who_asked(store) == ["object_store", "boto3", "object_store", "object_store"]


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


def sent(key: str, url: str = "http://localhost/bucket/a", region: str = "us-east-1") -> s3.SentRequest:
    return s3.SentRequest(
        url, f"AWS4-HMAC-SHA256 Credential={key}/20260101/{region}/s3/aws4_request, SignedHeaders=host"
    )


@pytest.mark.parametrize(
    ("bucket", "seen"),
    [
        ("bucket", sent("other")),  # of somebody else
        ("bucket", s3.SentRequest("http://localhost/bucket/a", "")),  # of nobody
        ("bucket", s3.SentRequest("http://localhost/bucket/a", "AWS key:signature")),
        ("bucket", sent("key", "http://localhost/elsewhere/a")),
        ("bucket--use1-az5--x-s3", sent("key", "http://localhost/bucket--use1-az5--x-s3/a")),
    ],
)
def test_what_boto3_alone_can_send(bucket: str, seen: s3.SentRequest) -> None:
    own = s3.ObstoreReader(lambda: ("key", "secret", None))
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
    own = s3.ObstoreReader(lambda: ("key", "secret", None))
    own.learn("bucket", "a b", sent("key", url, "eu-west-1"))
    config = own._stores["bucket"].config
    assert (config["endpoint"], str(config["virtual_hosted_style_request"])) == (endpoint, virtual)
    assert config["region"] == "eu-west-1"


def test_a_process_that_is_forked_has_none_of_its_threads(store: FaultyStore) -> None:
    own = s3.ObstoreReader(lambda: ("key", "secret", None))
    own.learn("bucket", "a", sent("key", f"{store.endpoint}/bucket/a"))
    assert (own.read("bucket", "a") or [None])[0] == STORED

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
            self._send(200, STORED)

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
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Answer requests with a handler; yield the flag that names the address."""
    web = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    try:
        yield f"--s3_endpoint_url=http://127.0.0.1:{web.server_port}"
    finally:
        web.shutdown()
        thread.join()
        web.server_close()
        set_options(None)


@contextmanager
def signed() -> Iterator[tuple[type[_Signed], str]]:
    handler = type("Signed", (_Signed,), {"seen": []})
    with serving(handler) as flag:
        yield handler, flag


def test_a_bucket_of_another_region() -> None:
    """It is boto3 that learns of it; nobody asks the wrong region again."""
    with signed() as (handler, flag):
        set_options(
            PipelineOptions([flag, "--s3_access_key_id=one", "--s3_secret_access_key=s", "--s3_region_name=us-east-1"])
        )
        assert [storage.read_bytes("s3://bucket/a") for _ in range(2)] == [STORED] * 2
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
    monkeypatch.setattr(s3, "CREDENTIALS_LIFETIME", timedelta(0))
    renewed("one")
    with signed() as (handler, flag):
        set_options(PipelineOptions([flag, "--s3_attempts=1"]))
        for key in ("one", "two"):
            handler.key = key
            renewed(key)
            assert [storage.read_bytes("s3://bucket/a") for _ in range(2)] == [STORED] * 2
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


class _Busy(BaseHTTPRequestHandler):
    """Answers 503 so many times, and then that an object of three bytes was found, or written; for each object."""

    left = 0
    asked: ClassVar[Counter[str]] = Counter()

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        _Busy.asked[self.path] += 1
        busy = _Busy.asked[self.path] <= _Busy.left
        body = b"" if busy or self.command == "HEAD" else b"abc"
        self.send_response(503 if busy else 200)
        self.send_header("Content-Length", "0" if busy else "3")
        self.send_header("ETag", '"e"')
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = _answer

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def flags() -> Iterator[list[str]]:
    with serving(_Busy) as flag, attempts_unsaid():
        yield [flag, "--s3_access_key_id=k", "--s3_secret_access_key=s"]


def be_busy(times: int) -> None:
    """Answer each object's first requests with 503."""
    _Busy.left = times
    _Busy.asked.clear()


def without_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that botocore waits from now on, without waiting them; threads that other tests left wait on."""
    waits: list[float] = []
    sleep, others = time.sleep, frozenset(threading.enumerate()) - {threading.current_thread()}

    def wait(seconds: float) -> None:
        (sleep if threading.current_thread() in others else waits.append)(seconds)

    monkeypatch.setattr(time, "sleep", wait)
    return waits


def test_requests_are_repeated_as_often_as_the_flag_says(flags: list[str]) -> None:
    set_options(PipelineOptions([*flags, "--s3_attempts=4"]))
    be_busy(3)
    assert storage.read_bytes("s3://bucket/a") == b"abc"
    assert _Busy.asked.total() == 4
    be_busy(100)
    for asked in (5, 4):  # once by obstore, which then leaves the store alone
        _Busy.asked.clear()
        with pytest.raises(OSError, match=r"s3://bucket/a: .*503"):
            storage.read_bytes("s3://bucket/a")
        assert _Busy.asked.total() == asked


def test_by_default_for_minutes_in_a_burst_of_threads_too(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Botocore's quota, of some dozens of repetitions, is a client's: threads that share one use it up at once."""
    waits = without_waiting(monkeypatch)
    set_options(PipelineOptions(flags))
    assert os.environ["AWS_RETRY_MODE"] in ("standard", "adaptive")
    be_busy(23)
    urls = [f"s3://bucket/{number}" for number in range(16)]
    for _ in range(2):  # a second time that the store fails, too
        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(storage.size, urls)) == [3] * 16  # which boto3 asks for
        _Busy.asked.clear()
    assert len(waits) == 2 * 16 * 23
    assert 120 <= sum(waits) / (2 * 16) <= 240  # in the mean of all


def test_clients_that_had_nothing_to_repeat_are_used_again(flags: list[str]) -> None:
    set_options(PipelineOptions(flags))
    store = S3(process_options())
    be_busy(0)
    with store._clients.exclusive_client() as first:
        pass
    assert storage.read_bytes("s3://bucket/a") == b"abc"
    with store._clients.exclusive_client() as again, store._clients.exclusive_client() as other:
        assert again is first
        assert other is not first


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-19T02:03:04.000Z",
        "2026-11-19T02:03:04Z",
        "2026-11-19T02:03:04.567+01:00",
        "Thu, 19 Nov 2026 02:03:04 GMT",
        "19 November 2026 02:03:04 UTC",
        1_795_053_784,
    ],
)
def test_it_is_what_botocore_makes_of_it(text: str | int) -> None:
    assert parse_time(text) == parse_timestamp(text)
    assert parse_time(text).tzinfo is not None


def test_a_time_is_the_moment_it_names() -> None:
    for text in ("2026-11-19T02:03:04.000Z", "Thu, 19 Nov 2026 02:03:04 GMT"):
        assert parse_time(text) == datetime(2026, 11, 19, 2, 3, 4, tzinfo=UTC)
    with pytest.raises(ValueError, match="Invalid timestamp"):
        parse_time("yesterday")
