"""Measure `shardmill.write` of a DataFrame, and of its rows as dictionaries, against the loop that everybody writes.

The loop makes a tf.train.Example of each row of `itertuples`, and writes them with `TFRecordWriter`, unshuffled. It
takes `--loop_rows` rows, and its seconds are scaled to all rows.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import tensorflow as tf
from loop_table import bytes_feature, float_feature, int64_feature

import shardmill


def make_frame(rows: int) -> pd.DataFrame:
    """Return a table of three integers, three floats and four words."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{n}" for n in range(1000)])
    columns: dict[str, object] = {f"int_{n}": rng.integers(0, 10 ** (3 * n + 1), rows) for n in range(3)}
    columns |= {f"float_{n}": rng.normal(size=rows).astype(np.float32) for n in range(3)}
    columns |= {f"word_{n}": words[rng.integers(0, 1000, rows)] for n in range(4)}
    return pd.DataFrame(columns)


def write_loop(frame: pd.DataFrame, path: Path) -> None:
    """Write each row with TFRecordWriter."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in frame.itertuples(index=False):
            features = {f"int_{n}": int64_feature(getattr(row, f"int_{n}")) for n in range(3)}
            features |= {f"float_{n}": float_feature(getattr(row, f"float_{n}")) for n in range(3)}
            features |= {f"word_{n}": bytes_feature(getattr(row, f"word_{n}").encode()) for n in range(4)}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


def seconds_of(work: Callable[[Path], object]) -> float:
    """Return the seconds of some work in a new folder."""
    folder = Path(tempfile.mkdtemp())
    start = time.perf_counter()
    work(folder)
    seconds = time.perf_counter() - start
    shutil.rmtree(folder)
    return seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--loop_rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    frame = make_frame(options.rows)
    part = frame[: options.loop_rows]
    tasks: dict[str, Callable[[Path], object]] = {
        "`shardmill.write` of a DataFrame": lambda folder: shardmill.write(frame, output=folder, name="d"),
        "`shardmill.write` of dictionaries": lambda folder: shardmill.write(
            iter(frame.to_dict("records")), output=folder, name="d"
        ),
        "loop with `TFRecordWriter`": lambda folder: write_loop(part, folder / "d.tfrecord"),
    }
    seconds_of(lambda folder: shardmill.write(part[:100], output=folder, name="d"))  # imports
    print(f"{options.rows:,} rows of 10 columns, least of {options.rounds} rounds\n\n| task | seconds |\n|---|---:|")
    for name, work in tasks.items():
        scale = options.rows / len(part) if name.startswith("loop") else 1
        print(f"| {name} | {min(seconds_of(work) for _ in range(options.rounds)) * scale:.1f} |", flush=True)


if __name__ == "__main__":
    main()
