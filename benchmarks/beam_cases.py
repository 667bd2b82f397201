"""The programs that bench_beam.py compares: pipelines of stock Beam and of shardmill.beam, and a loop over a DataFrame.

All pipelines run in this process, on the runner in Python.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from compare import SHARDS
from row_seconds import row_seconds

_BATCH_ROWS = 10_000
INTEGERS, FLOATS = ("int_0", "int_1", "int_2"), ("float_0", "float_1", "float_2")
WORDS = ("word_0", "word_1", "word_2", "word_3")


def to_example(row: Mapping[str, Any]) -> bytes:
    """Return a serialized tf.train.Example, as tutorials make one."""
    import tensorflow as tf

    feature = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=[row[name]])) for name in INTEGERS}
    feature |= {name: tf.train.Feature(float_list=tf.train.FloatList(value=[row[name]])) for name in FLOATS}
    feature |= {name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[row[name].encode()])) for name in WORDS}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def from_example(record: bytes) -> dict[str, Any]:
    """Return the values of a serialized tf.train.Example by name."""
    import tensorflow as tf

    features = tf.train.Example.FromString(record).features.feature
    row = {name: features[name].int64_list.value[0] for name in INTEGERS}
    row |= {name: features[name].float_list.value[0] for name in FLOATS}
    row |= {name: features[name].bytes_list.value[0] for name in WORDS}
    return row


def read_batches(group: int, source: str, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the first `rows` rows of a row group of a Parquet file."""
    with pq.ParquetFile(source) as file:
        for batch in file.iter_batches(_BATCH_ROWS, [group]):
            if rows > 0:
                yield batch.slice(0, rows)
            rows -= len(batch)


def read_rows(group: int, source: str, rows: int) -> Iterator[dict[str, Any]]:
    """Yield the rows as dictionaries."""
    for batch in read_batches(group, source, rows):
        yield from batch.to_pylist()


def _groups(pipeline: beam.Pipeline, args: argparse.Namespace, read: Callable[..., Iterator[Any]]) -> Any:
    """Read the first rows of the source."""
    with pq.ParquetFile(args.source) as file:
        sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    left = sum(sizes) if args.rows is None else args.rows
    wanted = [(number, min(size, max(left - sum(sizes[:number]), 0))) for number, size in enumerate(sizes)]
    groups = pipeline | "Groups" >> beam.Create([group for group in wanted if group[1]])
    return groups | "Read" >> beam.FlatMap(lambda group, source: read(group[0], source, group[1]), args.source)


def write_stock(args: argparse.Namespace) -> None:
    """Write dictionaries as Beam's own documentation does."""
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        records = _groups(pipeline, args, read_rows) | "Encode" >> beam.Map(to_example)
        records | beam.io.WriteToTFRecord(f"{args.output}/beam", file_name_suffix=".tfrecord", num_shards=SHARDS)


def write_dicts(args: argparse.Namespace) -> None:
    """Write dictionaries with WriteDataset."""
    _write(args, read_rows)


def write_batches(args: argparse.Namespace) -> None:
    """Write record batches with WriteDataset."""
    _write(args, read_batches)


def _write(args: argparse.Namespace, read: Callable[..., Iterator[Any]]) -> None:
    from shardmill.beam import WriteDataset

    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _groups(pipeline, args, read) | WriteDataset(args.output, "bench", num_shards=SHARDS)


def read_stock(args: argparse.Namespace) -> None:
    """Read a data set as Beam's own documentation does."""
    pattern = f"{args.source}/*.tfrecord-{'*' if args.rows is None else '00000-of-*'}"  # a part is the first shard
    if args.rows == 0:
        pattern = f"{args.output}/empty"
        Path(pattern).touch()
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        records = pipeline | beam.io.ReadFromTFRecord(pattern)
        _count(records | "Parse" >> beam.Map(from_example), args)


def read_dicts(args: argparse.Namespace) -> None:
    """Read a data set with ReadDataset, as dictionaries."""
    _read(args, "dicts")


def read_record_batches(args: argparse.Namespace) -> None:
    """Read a data set with ReadDataset, as record batches."""
    _read(args, "batches")


def _read(args: argparse.Namespace, as_: Any) -> None:
    from shardmill.beam import ReadDataset

    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        split = "train" if args.rows is None else f"train[:{args.rows}]"
        _count(pipeline | ReadDataset(args.source, split, as_=as_), args)


def _count(elements: Any, args: argparse.Namespace) -> None:
    """Count the elements of a pipeline."""
    (
        elements
        | beam.combiners.Count.Globally()
        | beam.Map(lambda count, path: Path(path).write_text(str(count)), f"{args.output}/count")
    )


def write_frame(args: argparse.Namespace) -> None:
    """Write a DataFrame with shardmill.write."""
    import shardmill

    shardmill.write(_read_frame(args), output=args.output, name="bench", num_shards=SHARDS)


def loop_frame(args: argparse.Namespace) -> None:
    """Write a DataFrame with a loop over its rows."""
    import tensorflow as tf

    frame = _read_frame(args)
    names = list(frame.columns)
    writers = [tf.io.TFRecordWriter(f"{args.output}/loop-{shard:05d}.tfrecord") for shard in range(SHARDS)]
    for number, row in enumerate(frame.itertuples(index=False)):
        writers[number % SHARDS].write(to_example(dict(zip(names, row, strict=True))))
    for writer in writers:
        writer.close()


def _read_frame(args: argparse.Namespace) -> Any:
    table = pq.read_table(args.source)
    return (table if args.rows is None else table.slice(0, args.rows)).to_pandas()


CASES = {
    case.__name__: case
    for case in (
        write_stock,
        write_dicts,
        write_batches,
        read_stock,
        read_dicts,
        read_record_batches,
        write_frame,
        loop_frame,
    )
}


def main() -> None:
    """Run one of the programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("source")
    parser.add_argument("output", help="an empty folder")
    parser.add_argument("--rows", type=int, help="to read (default: all)")
    parser.add_argument("--row_seconds", help="a file for what the rows cost without the start")
    args = parser.parse_args()
    case = CASES[args.case]
    if args.row_seconds is not None:
        with row_seconds(args.row_seconds, sign=-1):
            case(argparse.Namespace(**{**vars(args), "rows": 0}))
    with row_seconds(args.row_seconds):
        case(args)


if __name__ == "__main__":
    main()
