"""Versions are those that TFDS reads."""

import pytest

from shardmill.errors import UserError
from shardmill.transforms.options.job_options import OutputOptions
from tests.support.later import Later

tfds_version = Later("tensorflow_datasets.core.utils.version")


@pytest.mark.parametrize("version", ["1.0.0", "0.0.10", "1.0.20261119", "10.20.30"])
def test_versions(version: str) -> None:
    assert str(tfds_version.Version(OutputOptions(output="o", name="n", version=version).version)) == version


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.0", "expected three numbers, such as 1.0.0"),
        ("1.0.x", "expected three numbers, such as 1.0.0"),
        ("1.01.007", "TFDS reads no leading zeros; give 1.1.7"),
        ("00.1.0", "TFDS reads no leading zeros; give 0.1.0"),
    ],
)
def test_what_is_none(version: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        OutputOptions(output="o", name="n", version=version)
    with pytest.raises(ValueError, match="version"):
        tfds_version.Version(version)
