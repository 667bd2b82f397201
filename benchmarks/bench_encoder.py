"""How fast rows become Examples: against tfx-bsl's encoder in C++, and against the loop everybody writes.

All on the same batches in one process, in turns; generating them is not counted.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import tables
import tensorflow as tf
from options import add_folder, add_rounds, add_write
from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder

from shardmill.transforms.columns.example_encoding import encode_examples, encode_framed

OURS, FRAMED = "shardmill's encoder", "the same with framing and checksums"
_BATCH_ROWS = 65_536
_LOOP_ROWS = 20_000
_WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


def make_batches(rows: int) -> list[pa.RecordBatch]:
    """Three columns of integers, three of floats and four of words, without nulls."""
    rng = np.random.default_rng(0)
    words = np.array(_WORDS)

    def make(size: int) -> pa.RecordBatch:
        columns = {f"int_{number}": pa.array(rng.integers(0, 100_000, size)) for number in range(3)}
        columns |= {f"float_{number}": pa.array(rng.standard_normal(size).astype(np.float32)) for number in range(3)}
        columns |= {
            f"word_{number}": pa.array(words[rng.integers(0, len(words), size)], pa.binary()) for number in range(4)
        }
        return pa.RecordBatch.from_pydict(columns)

    return [make(min(_BATCH_ROWS, rows - start)) for start in range(0, rows, _BATCH_ROWS)]


def as_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in the only form that tfx-bsl takes: lists of one value."""
    offsets = pa.array(np.arange(batch.num_rows + 1, dtype=np.int64))
    return pa.RecordBatch.from_arrays(
        [pa.LargeListArray.from_arrays(offsets, column) for column in batch.columns], names=batch.schema.names
    )


def loop(rows: list[dict[str, int | float | bytes]]) -> None:
    """The usual function of a data set's script, value by value."""
    for row in rows:
        features = {}
        for name, value in row.items():
            if isinstance(value, int):
                features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
            elif isinstance(value, float):
                features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
            else:
                features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def table(runs: dict[str, list[float]]) -> str:
    """A row each: microseconds a row, the least and the median of the rounds, and speed against the last row."""
    base = statistics.median(list(runs.values())[-1])
    rows = []
    for name, rounds in runs.items():
        median = statistics.median(rounds)
        rows.append([name, f"{min(rounds) * 1e6:.2f}", f"{median * 1e6:.2f}", f"{base / median:.1f}"])
    return tables.table(["", "µs a row", "median", "times as fast as the loop"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000, help="of ten values (default: %(default)s)")
    add_rounds(parser, 5)
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()

    batches = make_batches(args.rows)
    lists = [as_lists(batch) for batch in batches]
    few = batches[0].slice(0, _LOOP_ROWS).to_pylist()
    tfx_bsl = RecordBatchToExamplesEncoder()

    def each(encode: Callable[[pa.RecordBatch], object], of: list[pa.RecordBatch]) -> Callable[[], None]:
        def work() -> None:
            for batch in of:
                encode(batch)  # a result is dropped before the next: its memory is used again, as a pipeline does

        return work

    works: dict[str, tuple[Callable[[], None], int]] = {
        OURS: (each(encode_examples, batches), args.rows),
        FRAMED: (each(encode_framed, batches), args.rows),
        "tfx-bsl's encoder": (each(tfx_bsl.encode, lists), args.rows),
        "the loop": (lambda: loop(few), len(few)),
    }
    runs: dict[str, list[float]] = {}
    for number in range(args.rounds):
        for name, (work, rows) in works.items():
            runs.setdefault(name, []).append(seconds(work) / rows)
            print(f"round {number + 1}: {name}: {runs[name][-1] * 1e6:.2f} µs a row", file=sys.stderr)
    size = sum(encode_examples(batch).nbytes for batch in batches) / args.rows
    what = f"{args.rows:,} rows of 10 features, {size:.0f} bytes a record; one thread:"
    medians = {name: statistics.median(found) for name, found in runs.items()}
    slower = tables.losses({name: value for name, value in medians.items() if name != FRAMED}, OURS, "time")
    tables.publish(f"{what}\n\n{table(runs)}", args.write, losses=slower)


if __name__ == "__main__":
    main()
