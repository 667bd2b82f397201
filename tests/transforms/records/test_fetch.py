"""Ranges of files come into a spool as they are, however they lie and however large they are."""

import os
from pathlib import Path

import pytest

from shardmill.transforms.records.merging import fetch_ranges


def test_ranges_lie_behind_each_other(tmp_path: Path) -> None:
    small, large = os.urandom(1000), os.urandom((5 << 20) + 17)  # the latter more than one request's
    for name, data in (("small", small), ("large", large)):
        (tmp_path / name).write_bytes(data)
    asked = [("small", 10, 90), ("large", 3, len(large) - 3), ("small", 0, 0), ("small", 999, 1)]
    spool, offsets = fetch_ranges([(str(tmp_path / name), offset, length) for name, offset, length in asked])

    for (name, offset, length), where in zip(asked, offsets, strict=True):
        read = bytearray(length)
        spool.read_into(where, memoryview(read))
        assert read == (tmp_path / name).read_bytes()[offset : offset + length]


def test_what_cannot_be_read_is_raised(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(bytes(10))
    with pytest.raises(EOFError, match="short"):
        fetch_ranges([(str(tmp_path / "short"), 5, 6)])
    with pytest.raises(FileNotFoundError):
        fetch_ranges([(str(tmp_path / "none"), 0, 1)])
