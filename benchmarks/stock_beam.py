"""What bench_tables compares with: Beam's own transforms from CSV to shards, on the runner that runs in this
process."""

import argparse
import csv

import apache_beam as beam
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from loop_shards import SHARDS
from loop_table import to_example
from row_seconds import row_seconds

_COLUMNS = [
    f"{kind}_{number}" for kind, columns in (("int", 3), ("float", 3), ("word", 4)) for number in range(columns)
]


def parse(line: str) -> bytes:
    return to_example(dict(zip(_COLUMNS, next(csv.reader([line])))))


def run(path: str, output: str) -> None:
    # DirectRunner would first look for another runner, in Go, to download; in Python it is this one.
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        (
            pipeline
            | "ReadLines" >> beam.io.ReadFromText(path, skip_header_lines=1)
            | "Parse" >> beam.Map(parse)
            | "Write" >> beam.io.WriteToTFRecord(f"{output}/beam", file_name_suffix=".tfrecord", num_shards=SHARDS)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("output", help="the folder of the shards")
    parser.add_argument(
        "--row_seconds", help="a file for what the rows cost without the start, which is then made twice"
    )
    parser.add_argument("--empty", help="a table without rows, to know what the start of a pipeline costs")
    args = parser.parse_args()
    if args.empty is not None:
        with row_seconds(args.row_seconds, sign=-1):
            run(args.empty, args.output)
    with row_seconds(args.row_seconds):
        run(args.path, args.output)


if __name__ == "__main__":
    main()
