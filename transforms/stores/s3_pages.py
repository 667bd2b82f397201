"""Pages of S3's listings, parsed by Python's parser in C: botocore's takes some 70 ms for the thousand objects of a
page, longer than a store does."""

from typing import Any
from xml.etree import ElementTree

from shardmill.transforms.stores.s3_times import parse_time

_EVENT = "before-parse.s3.ListObjectsV2"


def parse_pages(client: Any) -> None:
    """Have a client of boto3 parse the objects of its listings here, and no more than the rest of a page itself."""
    client.meta.events.register(_EVENT, _parse)


def _parse(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """What botocore calls with an answer, and with what it is to take for parsed: `Contents`, as far as anybody here
    asks for it (https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html)."""
    if response_dict["status_code"] != 200:
        return
    page = ElementTree.fromstring(response_dict["body"])
    namespace = page.tag.rpartition("}")[0] + "}" if "}" in page.tag else ""
    items = page.findall(f"{namespace}Contents")
    if not items:
        return
    customized_response_dict["Contents"] = [
        {
            "Key": item.findtext(f"{namespace}Key", ""),
            "Size": int(item.findtext(f"{namespace}Size", "")),
            "ETag": item.findtext(f"{namespace}ETag", ""),
            "LastModified": parse_time(item.findtext(f"{namespace}LastModified", "")),
        }
        for item in items
    ]
    for item in items:
        page.remove(item)
    response_dict["body"] = ElementTree.tostring(page)
