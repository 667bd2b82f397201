"""Write the end of your own Beam pipeline as a data set: scikit-learn's 1,797 digits, brightened and without dark ones.

python examples/from_your_pipeline.py datasets
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from PIL import Image
from sklearn.datasets import load_digits

import shardmill
import shardmill.beam


def brighten(number: int) -> Iterator[dict[str, Any]]:
    """Yield the row of a digit, with an image of Pillow, unless it is nearly black."""
    digits = load_digits()
    pixels = (digits.images[number] * 15).clip(0, 255).astype("uint8")
    if pixels.mean() > 60:
        yield {"number": number, "image": Image.fromarray(pixels), "digit": str(digits.target[number])}


def main(arguments: Sequence[str] | None = None) -> str:
    """Run the pipeline, whose options follow the folder in `arguments`, and return the folder of the version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="folder of data sets")
    found, rest = parser.parse_known_args(arguments)
    with beam.Pipeline(options=PipelineOptions(rest)) as pipeline:
        rows = pipeline | beam.Create(range(0, 1797, 9)) | beam.FlatMap(brighten)
        version = rows | shardmill.beam.WriteDataset(
            found.output,
            "bright",
            key="number",
            label="digit",
            image="image",
            splits={"train": 0.8, "test": 0.2},
            overwrite=True,
        )
        version | beam.Map(print)
    return str(found.output / "bright" / "1.0.0")


if __name__ == "__main__":
    main()
