"""Keys of rows: from values, positions and order."""

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.inputs.listing import FoundFile, assign_key_shares, to_refs
from shardmill.transforms.records.encoding import hash_keys, input_order_keys
from shardmill.transforms.statistics.contents import hash_lines


def test_hashes_of_keys() -> None:
    texts = pa.array([b"5", None, b"", b"\xff"], pa.large_binary())

    assert hash_keys(texts, 7).tolist() == [xxhash.xxh3_64_intdigest(text, 7) for text in (b"5", b"", b"", b"\xff")]
    assert hash_keys(texts.slice(2), 7).tolist() == hash_keys(texts, 7)[2:].tolist()


def test_ties_are_distinct_and_of_the_position_alone() -> None:
    one, other = FileRef("a.csv", "/x/a.csv", 100), FileRef("b.csv", "/x/b.csv", 100)
    lines = np.arange(1, 100_001)
    ties = hash_lines(one.name, lines)

    assert len(np.unique(np.concatenate([ties, hash_lines(other.name, lines)]))) == 200_000
    assert np.array_equal(hash_lines(FileRef("a.csv", "/elsewhere", 5, 1, 2).name, lines[50:]), ties[50:])
    assert 0.49 < (ties < np.uint64(1 << 63)).mean() < 0.51


@pytest.mark.parametrize("lines", [np.arange(1, 200_001), np.array([1, 2, 3, 10**9, 10**9 + 1])])
def test_input_order_is_that_of_names_then_lines(lines: np.ndarray) -> None:
    found = [FoundFile("b.csv", 10**9), FoundFile("a.csv", 5_000), FoundFile("c/a.csv", 0)]
    files = assign_key_shares(to_refs(found, "/folder"))
    keys = np.concatenate([input_order_keys(file, lines) for file in files])

    assert [file.path for file in files] == ["/folder/a.csv", "/folder/b.csv", "/folder/c/a.csv"]
    assert keys.dtype == np.uint64
    assert (np.diff(keys[len(lines) : 2 * len(lines)].astype(object)) > 0).all()
    assert (np.diff(keys.astype(object)) >= 0).all()
    assert sum(file.key_span for file in files) < 1 << 64
