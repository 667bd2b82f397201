"""Clients of boto3, as what they send shows."""

import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, S3Options
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum

from shardmill.transforms.stores.s3 import S3Clients
from tests.support.buckets import S3Bucket, server

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
