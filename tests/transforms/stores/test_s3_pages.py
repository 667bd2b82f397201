"""Pages of listings say what botocore's own parser says of them."""

import io
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError

from shardmill.transforms.stores.s3 import parse_pages

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
