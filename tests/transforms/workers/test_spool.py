"""A file that nobody sees and that is gone with its last reader."""

import gc
import os
from pathlib import Path

import pytest

from shardmill.transforms.workers.resources import Spool


def test_a_spool_leaves_no_file_and_closes_with_its_last_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gc.collect()  # what other tests left
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    spool = Spool()
    spool.write(0, b"abc")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(EOFError):
        spool.read_into(1, memoryview(bytearray(3)))
    del spool
    gc.collect()
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_what_was_written_comes_in_chunks(most: int) -> None:
    spool = Spool()
    spool.write(0, b"abcdefg")
    assert b"".join(spool.chunks(1, 5, most)) == b"bcdef"
    assert max(map(len, spool.chunks(1, 5, most))) <= most
    assert list(spool.chunks(7, 0, most)) == []
