"""`shardmill csv …` with tfx-bsl's encoder in C++ in the place of ours: what bench_tables compares with."""

import sys
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder

from shardmill.pipelines import cli
from shardmill.transforms.columns.example_bytes import frame
from shardmill.transforms.records import encoding as encode_rows

_encoded: list[int] = []  # rows


def encode_framed(batch: pa.RecordBatch) -> pa.LargeBinaryArray:
    """As shardmill.transforms.columns.example_encoding has it; takes no nulls and no lists."""
    if any(column.null_count for column in batch.columns):
        raise ValueError("a null: this comparison is for complete tables")
    offsets = pa.array(np.arange(batch.num_rows + 1, dtype=np.int64))
    lists = [pa.LargeListArray.from_arrays(offsets, column) for column in batch.columns]  # all that tfx-bsl takes
    examples = RecordBatchToExamplesEncoder().encode(pa.RecordBatch.from_arrays(lists, names=batch.schema.names))
    _encoded.append(batch.num_rows)
    return frame(pa.array(examples, pa.large_binary()))


def main() -> int:
    with patch.object(encode_rows, "encode_framed", encode_framed):
        status = cli.main(["csv", *sys.argv[1:]])
    if not status and not _encoded:
        sys.exit("our encoder was used, not tfx-bsl's")
    return status


if __name__ == "__main__":
    sys.exit(main())
