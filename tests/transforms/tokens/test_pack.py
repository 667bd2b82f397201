"""shardmill.transforms.values.tokens_encoding: blocks, and the documents that shards of them begin and end in."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.columns.example_bytes import frame
from shardmill.transforms.records.run_file import framed_sizes
from shardmill.transforms.values.tokens_encoding import (
    divide_tokens,
    document_records,
    token_counts,
    token_ids,
    total_tokens,
)

LISTS = [[5, 70_000], [1], [2, 3, 4]]


@pytest.mark.parametrize(("end", "behind"), [(None, []), (9, [9])])
def test_a_record_is_the_tokens_of_a_document_and_its_size_says_how_many(end: int | None, behind: list[int]) -> None:
    ids = pa.array([[0], *LISTS], pa.large_list(pa.int64()))[1:]
    records = document_records(ids, end)

    found = [token_ids(np.frombuffer(record, np.uint8)).tolist() for record in records.to_pylist()]
    assert found == [[*tokens, *behind] for tokens in LISTS]
    sizes = framed_sizes(frame(records))
    assert token_counts(sizes).tolist() == [len(tokens) for tokens in found]
    assert total_tokens(len(found), int(sizes.sum())) == sum(map(len, found))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 12), st.integers(1, 8))
def test_shares_are_the_blocks_of_one_stream(sizes: list[int], block: int, shards: int) -> None:
    tokens = np.array(sizes)
    blocks = sum(sizes) // block
    if shards > blocks:
        return
    firsts, each = divide_tokens(tokens, block, shards)

    assert sum(share.blocks for share in each) == blocks
    assert max(share.blocks for share in each) - min(share.blocks for share in each) <= 1
    starts = np.concatenate(([0], np.cumsum(tokens)))
    position = 0
    for first, share in zip([0, *firsts], each, strict=True):
        assert starts[first] + share.skip == position
        assert share.skip < tokens[first]
        position += share.blocks * block
