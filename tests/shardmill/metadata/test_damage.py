"""Damaged metadata: every reader names what is wrong in its own words, never in those of Python's parsers."""

import re
from collections.abc import Callable
from contextlib import suppress

import pytest

from shardmill.errors import CorruptDataError
from shardmill.metadata.manifest import Manifest
from shardmill.metadata.tfds_features import parse_features
from shardmill.metadata.versions import BuildRecord
from shardmill.transforms.publishing.publication import Journal

PYTHON = re.compile(r"Error|attribute|indices|Expecting|Extra data|codec|char \d|recursion|keyword|invalid literal")
DAMAGES = (
    *(b"", b"null", b"[]", b"{}", b"3", b'"x"', b"\xff\xfe", b"{", b"{}}", b"[" * 100_000, b'{"a":' * 100_000),
    *(b'{"format": 1}', b'{"format": "x"}', b'{"format": 1, "moves": 3}', b'{"format": 1, "moves": [{"x": 1}]}'),
    *(b'{"pythonClassName": 3}', b'{"pythonClassName": "FeaturesDict", "featuresDict": {"features": []}}'),
)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage[:20].decode("latin-1"))
@pytest.mark.parametrize("read", [Manifest.from_json, BuildRecord.from_json, Journal.from_json, parse_features])
def test_damaged_metadata(read: Callable[..., object], damage: bytes) -> None:
    said = ""
    with suppress(CorruptDataError, ValueError):
        try:
            read(damage, (lambda _: ()) if read == parse_features else "file.json")
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise
    assert read == parse_features or said
    assert not PYTHON.search(said.partition(": ")[2]), said
