"""Clients of these tests share one description of S3: a private name of botocore's is where they look it up."""

import botocore.session

from tests.support.buckets import s3_described_once


def test_sessions_share_a_loader() -> None:
    with s3_described_once():
        first, second = (botocore.session.Session().get_component("data_loader") for _ in range(2))
    assert first is second
    assert botocore.session.Session().get_component("data_loader") is not first
