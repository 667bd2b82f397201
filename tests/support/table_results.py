"""What the tests of tables share: the command run in this process, and the examples that come out, decoded."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from shardmill.data.example import decode_example
from shardmill.pipelines import cli
from shardmill.reading.dataset import Dataset, open_dataset
from tests.support.command import tree_bytes

Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A data set, read back whole.

    Attributes:
      splits: the examples of each split in the order of shards and records: a scalar as int, float or bytes, a list as
        a list.
    """

    dataset: Dataset
    splits: dict[str, list[Row]]

    @property
    def directory(self) -> Path:
        return Path(self.dataset.directory)

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

    def rejects(self) -> list[Row]:
        """The lines in rejects/."""
        files = sorted(self.directory.glob("rejects/*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

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


def contents(directory: Path) -> dict[str, bytes]:
    """Every file of a data set but the manifest, which names its input, and the seal of that."""
    return {name: data for name, data in tree_bytes(directory).items() if name not in ("manifest.json", "_SUCCESS")}
