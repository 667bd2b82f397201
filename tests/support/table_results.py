"""What the tests of tables share: the command run in this process, its examples decoded, and a table of cities."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardmill.data.example import decode_example
from shardmill.data.tfrecord import frame_record
from shardmill.pipelines import cli
from shardmill.reading.dataset import open_dataset
from tests.support.command import WholeDataset, tree_bytes
from tests.support.encoded import encode_example

Row = dict[str, Any]


@dataclass(frozen=True)
class Table(WholeDataset):
    """A data set of rows.

    Attributes:
      splits: the examples of each split in the order of shards and records: a scalar as int, float or bytes, a list as
        a list.
    """

    splits: dict[str, list[Row]]

    @property
    def rows(self) -> list[Row]:
        """The examples of all splits."""
        return [row for rows in self.splits.values() for row in rows]

    @property
    def sizes(self) -> dict[str, list[int]]:
        """Examples of each shard."""
        return {split.name: [shard.examples for shard in split.shards] for split in self.dataset.manifest.splits}

    @property
    def features(self) -> dict[str, str]:
        """Features by name, each as `dtype` with `?` where it may be missing and `[n]` where it is a list."""
        return {
            feature.name: feature.dtype
            + ("" if not feature.shape else f"[{feature.shape[0] or ''}]")
            + ("" if feature.required else "?")
            for feature in self.dataset.manifest.features
        }

    def column(self, name: str) -> list[Any]:
        """A feature of every example that has it."""
        return [row[name] for row in self.rows if name in row]

    def stats(self, split: str = "train") -> Row:
        """Statistics by feature."""
        found: Row = json.loads((self.directory / "stats.json").read_text())["splits"][split]["features"]
        return found


def convert(command: str, source: Path | str, output: Path, *flags: object) -> Table:
    """Run a command, which must succeed, and read the data set back."""
    arguments = [command, "--input", source, "--output", output, "--name", "n", *flags]
    assert cli.main([str(argument) for argument in arguments]) == 0
    return read_table(output / "n")


def read_table(directory: Path) -> Table:
    """Open a data set and decode every record."""
    dataset = open_dataset(str(directory))
    lists = {feature.name for feature in dataset.manifest.features if feature.shape}
    splits = {
        split.name: list(to_rows((record for shard in split.shards for record in dataset.records(shard)), lists))
        for split in dataset.manifest.splits
    }
    return Table(dataset, splits)


def to_rows(records: Iterable[bytes], lists: Iterable[str]) -> Iterator[Row]:
    """Examples as Python values; those of equal bytes, of which there are millions in some tests, are decoded once."""
    for record, equal in groupby(records):
        row = to_row(record, lists)
        for _ in equal:
            yield dict(row)


def to_row(record: bytes, lists: Iterable[str]) -> Row:
    """An Example as Python values."""
    row: Row = {}
    for name, values in decode_example(record).items():
        plain = values.tolist() if isinstance(values, np.ndarray) else list(values)
        row[name] = plain if name in lists else plain[0]
    return row


def to_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """CSV of values that need no quotes; None is an empty field."""
    lines = [",".join("" if value is None else str(value) for value in row) for row in (header, *rows)]
    return "".join(f"{line}\n" for line in lines).encode()


_AVRO: dict[type, Any] = {
    **{bool: "boolean", int: "long", float: "double", str: "string", bytes: "bytes", type(None): "null"},
    datetime: {"type": "long", "logicalType": "timestamp-micros"},
}


def encode_rows(command: str, rows: Sequence[Mapping[str, Any]], **options: Any) -> bytes:
    """A file for a command: csv, jsonl, parquet with `options` of its writer, avro or reshard; None is a missing value,
    but for reshard."""
    if command == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()
    if command == "jsonl":
        return "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    if command == "parquet":
        return parquet(pa.Table.from_pylist(rows), **options)
    if command == "reshard":
        lists = ({name: [v.encode() if isinstance(v, str) else v] for name, v in row.items()} for row in rows)
        return b"".join(frame_record(encode_example(example)) for example in lists)
    kinds = {name: list(dict.fromkeys(type(row[name]) for row in rows)) for name in rows[0]}
    types = {name: [_AVRO[kind] for kind in found] for name, found in kinds.items()}
    fields = [{"name": name, "type": found if len(found) > 1 else found[0]} for name, found in types.items()]
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "row", "fields": fields}, rows)
    return out.getvalue()


def contents(directory: Path) -> dict[str, bytes]:
    """Every file of a data set but the manifest, which names its input, and the seal of that."""
    return {name: data for name, data in tree_bytes(directory).items() if name not in ("manifest.json", "_SUCCESS")}


TOLERANT = ("--max_reject_fraction", "0.9", "--on_damaged_file", "reject")


def check_consistent(table: Table) -> None:
    """Check that all that describes a data set is JSON to the letter, and that its numbers add up."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    for file in table.directory.rglob("*.json"):
        json.loads(file.read_text(), parse_constant=refuse)
    manifest, rejects = table.dataset.manifest, table.rejects()
    for reject in rejects:
        lost = {"records", "size_bytes", "count"} if "records" in reject else set()
        assert reject.keys() == {"source", "line", "stage", "reason"} | lost
        assert all(reject[key] for key in ("source", "stage", "reason"))
    rejected = sum(reject.get("records", 1) for reject in rejects)
    assert manifest.input["records"] == len(table.rows) + rejected
    assert manifest.rejects["records"] == rejected
    assert sum(manifest.rejects["reasons"].values()) == rejected or len(rejects) > 100
    assert {split.name: split.examples for split in manifest.splits} == {
        name: len(rows) for name, rows in table.splits.items()
    }
    stats = json.loads((table.directory / "stats.json").read_text())["splits"]
    assert {name: split["examples"] for name, split in stats.items()} == {
        name: len(rows) for name, rows in table.splits.items()
    }


def parquet(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


CITY_HEADER = ("id", "age", "score", "city", "ok", "code")
CITIES = ("Bern", "Oslo", "Rome", "Lima")


def city_row(number: int) -> list[object]:
    """A row with a missing value here and there."""
    age = None if number % 7 == 0 else number % 90
    return [
        number,
        age,
        f"{number / 8 - 20:.3f}",
        CITIES[number % 4],
        "true" if number % 3 else "false",
        f"{number % 50:03d}",
    ]


CITY_ROWS = [city_row(number) for number in range(1000)]
CITY_SPLITS = ("--splits", "train=0.8,test=0.2")


def numbers_and(*odd: str) -> str:
    """Text with 40 numbers in a column `x`, among which are `odd` values."""
    values = [str(n) for n in range(1, 41)]
    values[20:20] = odd
    return "n,x\n" + "".join(f"{n},{value}\n" for n, value in enumerate(values))
