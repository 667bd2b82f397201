"""What encoded rows hold, by hash: where equal contents are looked for, and what --group_by content goes by. Pure."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from shardmill.records import spans
from shardmill.transforms.columns.buffers import data_of, offsets_of
from shardmill.transforms.examples.encode import encode_examples
from shardmill.transforms.records.encode import EncodedRows


def is_all_content(encoded: EncodedRows, apart: Sequence[str]) -> bool:
    """Whether what a row holds is all of its record: it has no pictures, and none of its features stands `apart`, or
    all of them do."""
    return not encoded.pictures and len({name in apart for name in encoded.features.schema.names}) < 2


def content_hashes(encoded: EncodedRows, seeds: Sequence[int], apart: Sequence[str]) -> np.ndarray:
    """For each seed the 64-bit xxh3 of what each row holds, uint64, shape (seeds, rows): its pictures if it has any, as
    files of pictures are compared; else its record without the features that stand `apart`, or all of it where it has
    no others."""
    if is_all_content(encoded, apart):
        return encoded.payload_hashes(seeds)
    features = encoded.features
    if len(encoded.pictures) == 1:  # which need not be copied
        (name,) = encoded.pictures
        return _hashes(features[name], seeds)
    held = encoded.pictures or [name for name in features.schema.names if name not in apart]
    return record_hashes(features.select(list(held)), seeds)


def record_hashes(features: pa.RecordBatch, seeds: Sequence[int]) -> np.ndarray:
    """For each seed the 64-bit xxh3 of the record of each row: uint64, shape (seeds, rows)."""
    return _hashes(encode_examples(features), seeds)


def _hashes(values: pa.Array, seeds: Sequence[int]) -> np.ndarray:
    offsets = offsets_of(values).astype(np.int64)
    return spans.hashes_by_seed(data_of(values), offsets[:-1], offsets[1:], seeds)
