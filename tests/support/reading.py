"""What the tests of reading share: data sets made with the command, once a session, and ways to damage them."""

import json
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import shardmill
from shardmill.data.shard_index import BOUNDS_SUFFIX, INDEX_FILE, INDEX_FOLDER, SplitIndex, parse_index_json
from shardmill.filesystem import Files, LocalFiles, read_small_file
from shardmill.pipelines import cli
from tests.support.command import image, image_tree, write_files

ROWS = 100
FILLS = {"age": -1, "note": "none"}  # of features that some rows lack


def make(command: str, source: Path | None, output: Path, *flags: object) -> Path:
    """The directory of the data set that the command makes of `source`, or of what the flags name; it must succeed."""
    given = [] if source is None else ["--input", source]
    arguments = [command, *given, "--output", output, "--name", "n", *flags]
    assert cli.main([str(argument) for argument in arguments]) == 0
    return output / "n" / "1.0.0"


def make_images(folder: Path, *flags: object, each: int = 20, same_size: bool = False) -> Path:
    """Images of three classes, with differing widths unless `same_size`; 20 of each class."""
    files = image_tree(["bee", "cat", "dog"], each)
    if same_size:
        files = {name: image(number) for number, name in enumerate(files)}
    return make("images", write_files(folder / "source", files), folder / "out", *flags)


def row(number: int) -> dict[str, Any]:
    """A row of the table `rows`: scalars, lists of fixed and any length, some of them missing."""
    values: dict[str, Any] = {
        "n": number,
        "x": number / 4,
        "word": f"wörd {number}",
        "pair": [number, -number],
        "weights": [0.5] * (number % 4),
        "tokens": list(range(number % 5)),
        "tags": ["t"] * (number % 3),
        "city": ["Rome", "Oslo"][number % 2],
    }
    if number % 3 == 0:
        values["age"] = number * 1000
    if number % 4 == 0:
        values["note"] = "seen"
    return values


def make_rows(folder: Path, *flags: object, rows: int = ROWS) -> Path:
    """A data set of `row(0)` to `row(rows - 1)`, whose label is `city`."""
    lines = "".join(f"{json.dumps(row(number))}\n" for number in range(rows))
    source = write_files(folder, {"rows.jsonl": lines.encode()}) / "rows.jsonl"
    return make("jsonl", source, folder / "out", "--label", "city", *flags)


def make_equal_shards(folder: Path) -> Path:
    """Two shards of equal size, each of ten floats."""
    lines = "".join(f'{{"x": {number}.5}}\n' for number in range(20))
    return make(
        "jsonl", write_files(folder, {"x.jsonl": lines.encode()}) / "x.jsonl", folder / "out", "--num_shards", 2
    )


def copy(directory: Path, folder: Path) -> Path:
    """A copy of a data set, to damage."""
    return Path(shutil.copytree(directory, folder / "copy"))


def shards(directory: Path, split: str = "train") -> list[Path]:
    """The shards of a split, in order."""
    return sorted(directory.glob(f"n-{split}.tfrecord-*"))


def count(directory: Path, split: str = "train") -> int:
    """The number of examples in a split."""
    return shardmill.info(directory).splits[split].examples


def flip(path: Path, position: int) -> None:
    """Flip one bit of the byte at `position`."""
    data = bytearray(path.read_bytes())
    data[position] ^= 4
    path.write_bytes(data)


def plain(value: Any) -> Any:
    """NumPy values as Python ones, bytes as text."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return [plain(item) for item in value] if isinstance(value, list) else value


def by_number(examples: Iterable[Any]) -> dict[int, Any]:
    """Examples of `rows` by their `n`, as Python values, each there once."""
    found = [plain(example) for example in examples]
    numbered = {example["n"]: example for example in found}
    assert len(numbered) == len(found)
    return numbered


class CountedFiles(LocalFiles):
    """Files that note each range that is read, as those of a store."""

    def __init__(self) -> None:
        self.ranges: list[tuple[str, int, int]] = []
        self.lock = threading.Lock()

    def read_range(self, path: str, start: int, size: int) -> bytes:
        with self.lock:
            self.ranges.append((Path(path).name, start, size))
        with self.open(path) as file:
            file.seek(start)
            return file.read(size)

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, _: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]


def read_index(directory: Path | str, files: Files | None = None) -> dict[str, SplitIndex] | None:
    """The index of each split, if there is any."""
    files, path = files or LocalFiles(), f"{directory}/{INDEX_FOLDER}/{INDEX_FILE}"
    if not files.exists(path):
        return None
    splits = parse_index_json(read_small_file(files, path), path)
    return {
        split: SplitIndex(f"{directory}/{INDEX_FOLDER}/{split}{BOUNDS_SUFFIX}", entries, files)
        for split, entries in splits.items()
    }
