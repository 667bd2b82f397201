"""What is written to stores as its bytes come: empty shards, large ones, and what breaks off."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, S3Options
from botocore.awsrequest import AWSResponse

from shardmill.transforms.stores import storage
from shardmill.transforms.stores.clients import set_options
from shardmill.transforms.stores.patience import VARIABLES
from shardmill.transforms.stores.s3 import PART_BYTES, S3Clients, S3Upload
from tests.support.buckets import Bucket, S3Bucket
from tests.support.faults import struck

pytestmark = pytest.mark.slow


@pytest.fixture
def s3(bucket: Bucket) -> S3Bucket:
    """The bucket, of S3's emulator."""
    if not isinstance(bucket, S3Bucket):
        pytest.fail("of S3 alone")
    return bucket


@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
@pytest.mark.parametrize("strike", ["refused", "answer lost"])
def test_uploads_that_cannot_be_forgotten_are_an_error_of_the_store(
    s3: S3Bucket, strike: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publication says so; whatever is no OSError ends it with a stack of Python."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    set_options(PipelineOptions([*s3.flags, "--s3_attempts=1"]))
    storage.abort_uploads(f"{s3.url}/out/")
    with struck(0, strike) as requests, pytest.raises(OSError, match=f"{s3.url}/out/: "):
        storage.abort_uploads(f"{s3.url}/out/")
    assert requests.count == 1


class OneClient(S3Clients):
    """One client for all threads."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @contextmanager
    def exclusive_client(self) -> Iterator[Any]:
        yield self._client


class Answer(BytesIO):
    """The body of an answer, as botocore reads it."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


def calls_of(s3: S3Bucket) -> list[str]:
    """What was asked to write since this was last called: methods, and what of an upload."""
    asked = (request for request in s3.requests()["requests"] if "/out/" in request)
    return sorted(f"{request.partition(' ')[0]} {request.partition('?')[2][:7]}" for request in asked)


@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
def test_an_object_is_one_request_until_it_is_large(s3: S3Bucket) -> None:
    data = bytes(range(256)) * (PART_BYTES // 256)
    in_parts = ["POST uploadI", "POST uploads", *["PUT uploadI"] * 6]
    for name, parts, calls in (
        ("empty", [], ["PUT "]),
        ("small", [b"ab", b"", b"c"], ["PUT "]),
        ("large", [data[:-1], b"xy", data, data, data, data, b"z"], in_parts),
    ):
        s3.requests()
        with storage.open_write(f"{s3.url}/out/{name}") as file:
            for part in parts:
                file.write(part)
        assert calls_of(s3) == calls, name
        assert s3.files("out/")[f"out/{name}"] == b"".join(parts)


@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
def test_what_breaks_off_leaves_nothing(s3: S3Bucket) -> None:
    class Broken(Exception):
        pass

    for size in (3, PART_BYTES + 1):
        with pytest.raises(Broken), storage.open_write(f"{s3.url}/out/a") as file:  # noqa: PT012
            file.write(bytes(size))
            raise Broken
    assert s3.files("out/") == {}
    assert "Uploads" not in s3.client.list_multipart_uploads(Bucket=s3.name)


@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
@pytest.mark.parametrize("whole", [True, False])
def test_an_upload_that_was_completed_is_done(s3: S3Bucket, whole: bool) -> None:
    """The store completed it, its answer was lost, the client asks again, and the store knows of no such upload."""
    found = S3Clients(PipelineOptions(s3.flags).view_as(S3Options))
    with found.exclusive_client() as client:
        uploading = S3Upload(OneClient(client), f"{s3.url}/out/a")

        def complete(request: Any, **_: Any) -> AWSResponse:
            (begun,) = s3.client.list_multipart_uploads(Bucket=s3.name)["Uploads"]
            named = {"Bucket": s3.name, "Key": "out/a", "UploadId": begun["UploadId"]}
            sent = [
                {name: part[name] for name in ("PartNumber", "ETag")} for part in s3.client.list_parts(**named)["Parts"]
            ]
            s3.client.complete_multipart_upload(**named, MultipartUpload={"Parts": sent})
            if not whole:
                s3.put("out/a", b"of another process")
            error = b"<Error><Code>NoSuchUpload</Code><Message>none</Message></Error>"
            return AWSResponse(request.url, 404, {}, Answer(error))

        client.meta.events.register("before-send.s3.CompleteMultipartUpload", complete)
        uploading.write(bytes(PART_BYTES))
        uploading.write(b"x")
        if whole:
            uploading.close()
            assert s3.files("out/") == {"out/a": bytes(PART_BYTES) + b"x"}
        else:
            with pytest.raises(OSError, match="NoSuchUpload"):
                uploading.close()
