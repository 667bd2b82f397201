"""Sessions share what botocore reads of its descriptions of services: Beam makes one for each shard that it writes."""

import botocore.session
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores.s3 import S3


def test_sessions_share_a_loader() -> None:
    S3(PipelineOptions(["--s3_region_name=us-east-1", "--s3_access_key_id=a", "--s3_secret_access_key=b"]))

    first, second = (botocore.session.Session().get_component("data_loader") for _ in range(2))
    assert first is second
