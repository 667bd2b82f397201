"""Make a table to measure with, as CSV or as TFRecords, with lists as Parquet or JSON lines, or lines of the same
words; n rows are the first n of any more."""

import argparse
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from shardmill.transforms.columns.example_encoding import encode_framed

# At these, a row of CSV has 68 bytes.
_INT_LIMITS = (100, 10_000, 1_000_000)
_FLOATS, _DECIMALS = 3, 6
_DIFFERENT_WORDS = (10, 100, 1_000, 10_000)
_LINE_WORDS = (5, 16)  # the least and the most, of 12 bytes a word with what follows it
_CHUNK_ROWS = 100_000  # made at once, each chunk from a seed of its own
_FILES = 4  # of TFRecords


def vocabulary() -> pa.Array:
    """10,000 different words, of two syllables or three."""
    syllables = [consonant + vowel for consonant in "bcdfghjklmnpqrstvwxz" for vowel in "aeiou"]
    random = np.random.default_rng(0)
    pairs = [first + second for first in syllables for second in syllables]
    longer = random.integers(0, 2, len(pairs)).tolist()
    ends = random.choice(syllables, len(pairs)).tolist()
    words = [pair + end if more else pair for pair, end, more in zip(pairs, ends, longer)]
    return pa.array(words).take(pa.array(random.permutation(len(words))))


def tables(rows: int) -> Iterator[pa.RecordBatch]:
    """Three columns of integers, three of floats, four of words, without missing values."""
    words = vocabulary()
    for random, size in _chunks(rows):
        columns = {f"int_{i}": pa.array(random.integers(0, limit, _CHUNK_ROWS)) for i, limit in enumerate(_INT_LIMITS)}
        columns |= {
            f"float_{i}": pa.array(random.standard_normal(_CHUNK_ROWS).round(_DECIMALS)) for i in range(_FLOATS)
        }
        columns |= {
            f"word_{i}": words.take(pa.array(random.integers(0, different, _CHUNK_ROWS)))
            for i, different in enumerate(_DIFFERENT_WORDS)
        }
        yield pa.RecordBatch.from_pydict(columns).slice(0, size)


def lines(rows: int) -> Iterator[pa.Array]:
    """Lines of text with their ends."""
    words = vocabulary()
    for random, size in _chunks(rows):
        ends = np.cumsum(random.integers(*_LINE_WORDS, _CHUNK_ROWS, endpoint=True))
        offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
        chosen = words.take(pa.array(random.integers(0, len(words), ends[-1])))
        sentences = pc.binary_join(pa.ListArray.from_arrays(offsets, chosen), " ")
        yield pc.binary_join_element_wise(sentences, "", "\n").slice(0, size)


def _chunks(rows: int) -> Iterator[tuple[np.random.Generator, int]]:
    """Random numbers for each chunk, and how many of its rows to keep."""
    for number, start in enumerate(range(0, rows, _CHUNK_ROWS)):
        yield np.random.default_rng(number), min(_CHUNK_ROWS, rows - start)


def write_csv(path: Path, rows: int) -> None:
    """`tables` as one file of CSV with a header."""
    names = next(tables(1)).schema.names
    options = csv.WriteOptions(include_header=False, quoting_style="none")
    with path.open("wb") as file:
        file.write(",".join(names).encode() + b"\n")
        for batch in tables(rows):
            csv.write_csv(batch, file, options)


def write_text(path: Path, rows: int) -> None:
    """`lines` as one file."""
    with path.open("wb") as file:
        for batch in lines(rows):
            file.write("".join(batch.to_pylist()).encode())


def write_tfrecords(path: Path, rows: int) -> None:
    """`tables` as tf.train.Examples in a folder of files, which have a chunk in turns."""
    path.mkdir()
    files = [(path / f"old-{number:05d}-of-{_FILES:05d}.tfrecord").open("wb") for number in range(_FILES)]
    for number, batch in enumerate(tables(rows)):
        columns = [
            column.cast(pa.float32()) if pa.types.is_floating(column.type) else column  # all that an Example holds
            for column in batch.columns
        ]
        framed = encode_framed(pa.RecordBatch.from_arrays(columns, batch.schema.names))
        files[number % _FILES].write(framed.buffers()[2])
    for file in files:
        file.close()


def lists(rows: int) -> Iterator[pa.Table]:
    """`tables` with two lists in place of two words: up to six integers, and up to four words."""
    words = vocabulary()
    for number, batch in enumerate(tables(rows)):
        random = np.random.default_rng(number)
        table = pa.Table.from_batches([batch]).drop_columns(["word_2", "word_3"])
        for name, most in (("ids", 6), ("tags", 4)):
            ends = np.cumsum(random.integers(0, most, len(table), endpoint=True))
            values = pa.array(random.integers(0, 10_000, int(ends[-1])))
            offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
            inner = words.take(values) if name == "tags" else values
            table = table.append_column(name, pa.ListArray.from_arrays(offsets, inner))
        yield table


def write_parquet(path: Path, rows: int) -> None:
    """`lists` as one file."""
    with pq.ParquetWriter(path, next(lists(1)).schema) as file:
        for table in lists(rows):
            file.write_table(table)


def write_plain_parquet(path: Path, rows: int) -> None:
    """`tables` as one file, in groups of 100,000 rows."""
    with pq.ParquetWriter(path, next(tables(1)).schema) as file:
        for batch in tables(rows):
            file.write_batch(batch)


def write_jsonl(path: Path, rows: int) -> None:
    """`lists` as one file of JSON lines."""
    with path.open("w") as file:
        for table in lists(rows):
            file.writelines(f"{json.dumps(row)}\n" for row in table.to_pylist())


_WRITERS: dict[str, Callable[[Path, int], None]] = {
    "csv": write_csv,
    "txt": write_text,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
    "plain.parquet": write_plain_parquet,
    "tfrecords": write_tfrecords,
}


def make_table(parent: Path, kind: str, rows: int) -> Path:
    """The file, or for TFRecords the folder, of so many rows in `parent`, made unless it is there already.

    Args:
      parent: where it goes; its name says what is in it.
      kind: csv, txt, jsonl, parquet, plain.parquet (without lists) or tfrecords.
      rows: how many.
    """
    path = parent / f"table-{rows}.{kind}"
    if path.exists():
        return path
    parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    _WRITERS[kind](temporary, rows)
    temporary.rename(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parent", type=Path, nargs="?", default=Path("bench-data"), help="default: %(default)s")
    parser.add_argument("--kind", choices=list(_WRITERS), default="csv", help="default: %(default)s")
    parser.add_argument("--rows", type=int, default=3_000_000, help="default: %(default)s")
    args = parser.parse_args()
    print(make_table(args.parent, args.kind, args.rows))


if __name__ == "__main__":
    main()
