"""What bench_transform compares with: Beam's and TensorFlow Transform's own transforms, on the runner that runs in this
process.

`dicts` is how TFT's examples write transformed Examples: a dictionary a row. `batches` analyzes Arrow record batches,
which is the faster way, and writes raw Examples of them.
"""

import argparse
import csv
import tempfile
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from loop_shards import SHARDS
from preprocessing import preprocessing_fn
from tensorflow_transform.tf_metadata import dataset_metadata, schema_utils
from tfx_bsl.public import tfxio

_DTYPES = {"int": tf.int64, "float": tf.float32, "word": tf.string}
_COLUMNS = [
    f"{kind}_{number}" for kind, columns in (("int", 3), ("float", 3), ("word", 4)) for number in range(columns)
]
_MAKE: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "word": str}
_TYPES = [_MAKE[name.partition("_")[0]] for name in _COLUMNS]
_SCHEMA = schema_utils.schema_from_feature_spec(
    {name: tf.io.FixedLenFeature([], _DTYPES[name.partition("_")[0]]) for name in _COLUMNS}
)


def parse(line: str) -> dict[str, Any]:
    fields = next(csv.reader([line]))
    return {name: make(text) for name, make, text in zip(_COLUMNS, _TYPES, fields)}


def dicts(pipeline: beam.Pipeline, path: str, output: str) -> None:
    """CSV to dictionaries, analyzed and transformed, as Examples."""
    metadata = dataset_metadata.DatasetMetadata(_SCHEMA)
    rows = pipeline | "ReadLines" >> beam.io.ReadFromText(path, skip_header_lines=1) | "Parse" >> beam.Map(parse)
    (transformed, transformed_metadata), function = (rows, metadata) | tft_beam.AnalyzeAndTransformDataset(
        preprocessing_fn
    )
    coder = tft.coders.ExampleProtoCoder(transformed_metadata.schema)
    _write(transformed | "Encode" >> beam.Map(coder.encode), output)
    function | tft_beam.WriteTransformFn(f"{output}/transform_graph")


def batches(pipeline: beam.Pipeline, path: str, output: str) -> None:
    """CSV to record batches, analyzed, and as raw Examples."""
    source = tfxio.CsvTFXIO(path, _COLUMNS, schema=_SCHEMA, skip_header_lines=1, telemetry_descriptors=["stock"])
    found = pipeline | "Read" >> source.BeamSource()
    function = (found, source.TensorAdapterConfig()) | tft_beam.AnalyzeDataset(preprocessing_fn)
    _write(found | "Encode" >> beam.FlatMap(tfxio.RecordBatchToExamplesEncoder(_SCHEMA).encode), output)
    function | tft_beam.WriteTransformFn(f"{output}/transform_graph")


def _write(examples: beam.PCollection[bytes], output: str) -> None:
    examples | "Write" >> beam.io.WriteToTFRecord(f"{output}/beam", file_name_suffix=".tfrecord", num_shards=SHARDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("route", choices=("dicts", "batches"))
    parser.add_argument("path")
    parser.add_argument("output", help="the folder of the shards and of the graph")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as temporary,
        tft_beam.Context(temp_dir=temporary),
        # DirectRunner would first look for another runner, in Go, to download; in Python it is this one.
        beam.Pipeline(runner=FnApiRunner()) as pipeline,
    ):
        {"dicts": dicts, "batches": batches}[args.route](pipeline, args.path, args.output)


if __name__ == "__main__":
    main()
