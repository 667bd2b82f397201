"""Manifests: their files, formats and columns."""

import json
import os
import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import BATCH_ROWS, as_text, split_large_batch
from shardmill.transforms.columns.types import MAX_VALUES, DeclaredObjects, preview_value
from shardmill.transforms.formats.format import BOX, KEY_PREFIX, LABELS
from shardmill.transforms.formats.format import OBJECTS as COLUMN
from shardmill.transforms.inputs import annotations
from shardmill.transforms.inputs.folders import IMAGES, FileKind
from shardmill.transforms.inputs.found_files import columns_of, with_columns
from shardmill.transforms.inputs.listing import find_names, input_root, is_glob, list_input
from shardmill.transforms.shards.balance import hash_strings, rows_by_group
from shardmill.transforms.stores import storage

_ANY = FileKind("manifests", "csv|tsv|txt|jsonl|ndjson|parquet")
_FILE_BITS = 40  # of a line's number are of the line, the others of its manifest
_LINES = (1 << _FILE_BITS) - 1


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest file."""

    path: str
    split: str = ""  # of all its rows; "" if the rows give it, or nothing does
    inside: str = ""  # its folder relative to the common folder of all names; "" if they are the same

    def name(self, relative: str) -> str:
        """Convert a name relative to the manifest's folder to one relative to the common folder of all names."""
        if not self.inside or relative.startswith("/") or not storage.is_local(relative):
            return relative
        return posixpath.normpath(posixpath.join(self.inside, relative))


def number_line(manifest: int, line: int) -> int:
    """Return the number of a line among those of several manifests; lines of manifest 0 keep their own."""
    return manifest << _FILE_BITS | line


def line_in_manifest(number: int | None) -> int | None:
    """Return the line within its manifest, from its number among several manifests."""
    return None if number is None else number & _LINES


@dataclass(frozen=True, slots=True)
class LineResolver:
    """Convert the number of a line among several manifests to (path, line)."""

    paths: tuple[str, ...]

    def __call__(self, number: int) -> tuple[str, int]:
        return self.paths[number >> _FILE_BITS], number & _LINES


def find_manifests(given: Sequence[tuple[str, str]]) -> tuple[ManifestFile, ...]:
    """Return the manifests that (split, file or glob) pairs name; raise a UserError if one is missing or repeated."""
    found = [(split, path) for split, pattern in given for path in _matches(pattern)]
    paths = [path for _, path in found]
    for path in paths:
        if paths.count(path) > 1:
            raise UserError(f"--manifest {path}: the file is there twice; give it once")
    folders = [posixpath.dirname(path) or "." for path in paths]
    root = common_folder(folders, "--manifest")
    return tuple(
        ManifestFile(path, split, _make_relative(folder, root))
        for (split, path), folder in zip(found, folders, strict=True)
    )


def common_folder(folders: Sequence[str], flag: str) -> str:
    """Return the deepest folder that contains all `folders`; raise a UserError if their stores or buckets differ."""
    if len(set(folders)) == 1:
        return folders[0]
    schemes = {path.partition("://")[0] if not storage.is_local(path) else "" for path in folders}
    if len(schemes) > 1:
        raise UserError(f"{flag}: {folders[0]} and {folders[1]} are of different stores; give those of one")
    if schemes == {""}:
        if len({os.path.isabs(folder) for folder in folders}) > 1:
            folders = [os.path.abspath(folder) for folder in folders]
        return os.path.commonpath(folders) or "."
    parts = list(takewhile(lambda level: len(set(level)) == 1, zip(*(folder.split("/") for folder in folders))))
    shared = "/".join(part for part, *_ in parts)
    if not shared.partition("://")[2].strip("/"):
        raise UserError(f"{flag}: {folders[0]} and {folders[1]} are of different buckets; give those of one")
    return shared


def _make_relative(folder: str, root: str) -> str:
    if folder == root:
        return ""
    if storage.is_local(folder):
        return os.path.relpath(folder, root)
    return folder.removeprefix(f"{root}/")


def _matches(pattern: str) -> Iterator[str]:
    if not is_glob(pattern):
        yield pattern
        return
    root = input_root(pattern)
    items = list(list_input(pattern, _ANY))
    for item in items:
        if isinstance(item, Reject):
            raise UserError(f"--manifest {pattern}: {item.source}: {item.reason}")
    if not (names := find_names(items)):
        raise UserError(f"--manifest {pattern}: no file matches")
    yield from (storage.join(root, name) if root != "." or pattern.startswith("./") else name for name in names)


DIGEST = pa.field("digest", pa.binary(16))  # a hash of all that a row says; of equal rows, only the first one is kept
_PART_BYTES = 1 << 20  # of a manifest: some ten thousand rows
_MOST_PARTS = 1024
_ROWS_A_PART = 256  # below which a batch is mostly metadata
_MOST_ROWS = 200_000  # dealt out at once: some hundred megabytes


def part_count(size_bytes: int) -> int:
    """Return the number of parts that manifests of `size_bytes` in all are split into."""
    return min(max(size_bytes // _PART_BYTES, 1), _MOST_PARTS)


def rows_at_once(parts: int) -> int:
    """Return how many manifest rows are collected before they are divided by name into parts."""
    return min(max(_ROWS_A_PART * parts, BATCH_ROWS), _MOST_ROWS)


def split_by_name(batch: pa.RecordBatch, parts: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Divide parsed manifest rows into (part, batch) by a hash of their file names, so that duplicates share a part."""
    codes = (hash_strings(batch["name"], 0) % np.uint64(parts)).astype(np.int64)
    for part, rows in enumerate(rows_by_group(codes, parts)):
        if len(rows):
            yield from ((part, piece) for piece in split_large_batch(batch.take(pa.array(rows))))


def drop_duplicates(
    batch: pa.RecordBatch, paths: Sequence[str], is_first_kept: bool = False
) -> tuple[pa.RecordBatch, list[Reject]]:
    """Return manifest rows in line order without repeated ones, and a Reject for each of those.

    `batch` holds all rows of their names. Rows of one name with other columns are not equal, and only the first of them
    is returned if `is_first_kept`.
    """
    batch = batch.take(pa.array(np.argsort(batch["line"].to_numpy(), kind="stable")))
    first: dict[Any, int] = {}
    names = batch["name"].to_pylist()
    locate_line = LineResolver(tuple(paths))
    keep, rejects = [], []
    problem = "the same file as in line" if is_first_kept else "duplicate of line"
    for name, digest, line in zip(names, batch["digest"].to_pylist(), batch["line"].to_pylist(), strict=True):
        first_line = first.setdefault(name if is_first_kept else digest, line)
        keep.append(first_line == line)
        if first_line != line:
            first_path, line_there = locate_line(first_line)
            rejects.append(Reject(name, line, "index", f"{problem} {line_there} in {first_path}"))
    rows = batch.drop_columns(["digest"])
    return (rows if all(keep) else rows.filter(pa.array(keep, pa.bool_()))), rejects


SIZE_COLUMNS = ("width", "height")  # columns that may say the size of the picture, in pixels
OBJECT_KEYS: Mapping[str, annotations.ObjectField] = {
    BOX: "bbox",
    **dict.fromkeys(LABELS, "label"),
    **dict.fromkeys(("area", "areas"), "area"),
    **dict.fromkeys(("id", "ids"), "id"),
    **dict.fromkeys(("iscrowd", "is_crowd"), "is_crowd"),
}


@dataclass(frozen=True, slots=True)
class ObjectsColumn:
    """A column that holds the objects of each image, in the form of Hugging Face's image folders.

    See huggingface.co/docs/datasets/image_dataset. `objects` is {"bbox": [[x, y, width, height], …], "categories":
    […]}, lists of one length, or a list of objects with one value each. Boxes are in pixels from the upper left corner.
    """

    keys: tuple[tuple[annotations.ObjectField, str], ...]  # (field of Object, its key in the column)
    has_class_ids: bool = False  # True if classes are ids; else names
    names: tuple[str, ...] = ()  # class names by id; () if unknown
    image_id: str = ""  # feature to hold the file name as the image's id; "" for none

    @classmethod
    def from_declaration(cls, declared: DeclaredObjects, names: tuple[str, ...], source: str) -> "ObjectsColumn":
        """Make one from a column's declaration in the metadata; raise a UserError if no key holds the classes."""
        members: dict[annotations.ObjectField, str] = {}
        for key in (key for key in OBJECT_KEYS if key in declared.field_names):
            members.setdefault(OBJECT_KEYS[key], key)
        if "label" not in members:
            raise UserError(
                f"{source}: {COLUMN!r} has {', '.join(map(repr, sorted(declared.field_names)))}, and nothing says what"
                f" each object is; expected {LABELS[0]!r}, {LABELS[1]!r} or {LABELS[4]!r} in addition to {BOX!r}"
            )
        return cls(tuple(members.items()), bool(declared.has_class_ids), names)

    @property
    def has_unnamed_ids(self) -> bool:
        """True if classes are ids without names."""
        return self.has_class_ids and not self.names

    @property
    def members(self) -> tuple[annotations.ObjectField, ...]:
        """Fields of Object that the column provides."""
        return tuple(member for member, _ in self.keys)

    def parse_objects(self, value: Any) -> list[annotations.Object]:
        """Return the objects in a row's value; raise a ValueError if one is invalid."""
        columns = _collect_columns(value, [key for _, key in self.keys])
        rows = enumerate(zip(*columns, strict=True), 1)
        return [self._parse_object(dict(zip(self.members, values, strict=True)), number) for number, values in rows]

    def _parse_object(self, fields: dict[annotations.ObjectField, Any], number: int) -> annotations.Object:
        box, label = fields["bbox"], fields["label"]
        is_box = isinstance(box, list) and len(box) == 4 and all(map(annotations.is_number, box))
        _check_value(is_box, number, box, BOX, "[x, y, width, height]")
        x, y, width, height = box
        if self.has_class_ids:
            is_id = annotations.is_integer(label) and 0 <= label < MAX_VALUES
            _check_value(is_id, number, label, "its class", "an id from 0, as others have")
            label = self.names[int(label)] if label < len(self.names) else str(int(label))  # in no table of names
        else:
            _check_value(isinstance(label, str) and label != "", number, label, "its class", "a name, as others have")
        id_, area = fields.get("id", number), fields.get("area", width * height)
        is_crowd = fields.get("is_crowd", False)
        _check_value(annotations.is_integer(id_), number, id_, "its id", "a whole number")
        _check_value(area is None or annotations.is_finite_number(area), number, area, "its area", "a number")
        _check_value(is_crowd in (0, 1, None), number, is_crowd, "iscrowd", "0 or 1")
        area = width * height if area is None else float(area)
        return annotations.Object(label, y, x, y + height, x + width, int(id_), area, bool(is_crowd))

    def find_ignored_keys(self, value: Any) -> Iterator[str]:
        """Yield the keys of a row's value that no example holds, once for each object that has one."""
        known_keys = {key for _, key in self.keys}
        for item in value if isinstance(value, list) else [value or {}]:
            for key in item.keys() - known_keys:
                values = item[key] if isinstance(value, dict) and isinstance(item[key], list) else [item[key]]
                yield from (key for entry in values if entry not in (None, [], "", 0))


def _check_value(is_valid: bool, number: int, value: Any, name: str, expected: str) -> None:
    if not is_valid:
        raise ValueError(f"object {number} has {preview_value(value)} for {name}; expected {expected}")


def extract_objects(batch: pa.RecordBatch, column: ObjectsColumn) -> tuple[pa.RecordBatch, list[Reject], Counter[str]]:
    """Move the objects in manifest rows to columns of their own; also return rejects and counts of ignored keys."""
    kept_rows, objects, sizes, rejects = [], [], [], []
    ignored_keys: Counter[str] = Counter()
    further, absent = columns_of(batch), pa.nulls(len(batch))
    texts = further.pop(COLUMN, absent).to_pylist()
    widths, heights = (further.pop(side, absent).to_pylist() for side in SIZE_COLUMNS)
    for row, (text, *sides) in enumerate(zip(texts, widths, heights, strict=True)):
        value = json.loads(text) if text else None
        name, line = batch["name"][row].as_py(), batch["line"][row].as_py()
        try:
            check_image_size(sides)
            objects.append(column.parse_objects(value))
        except ValueError as error:
            rejects.append(Reject(name, line, "index", f"column {COLUMN!r}: {error}"))
            continue
        sizes.append(sides)
        ignored_keys.update(column.find_ignored_keys(value))
        kept_rows.append(row)
    if column.image_id:
        further[column.image_id] = batch["name"].cast(pa.large_binary())
    result = with_columns(batch, further).take(pa.array(kept_rows, pa.int64()))
    objects_batch = build_objects_batch(sizes, objects)
    for field, values in zip(annotations.OBJECTS, objects_batch.columns, strict=True):
        result = result.append_column(field, values)
    return result, rejects, ignored_keys


def check_image_size(sides: Sequence[Any]) -> None:
    """Raise a ValueError if `sides` are neither (width, height) in pixels nor both missing."""
    if list(sides) != [None, None] and not all(annotations.is_integer(side) and side > 0 for side in sides):
        size_text = f"{preview_value(sides[0])} x {preview_value(sides[1])} pixels"
        raise ValueError(f"the image's size is given as {size_text}; expected whole numbers")


def build_objects_batch(
    sizes: Sequence[Sequence[int | None]], objects: Sequence[Sequence[annotations.Object]]
) -> pa.RecordBatch:
    """Build the columns of objects from the (width, height) and the objects of each image."""
    sides = [pa.array([size[place] for size in sizes], pa.int64()) for place in range(len(SIZE_COLUMNS))]
    return pa.RecordBatch.from_arrays([*sides, annotations.build_object_lists(objects)], schema=annotations.OBJECTS)


def _collect_columns(value: Any, keys: Sequence[str]) -> list[list[Any]]:
    if value is None or value in ([], {}):
        return [[] for _ in keys]
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return [[item.get(key) for item in value] for key in keys]
    if not isinstance(value, dict):
        raise ValueError(f"{preview_value(value)}; expected an object with {', '.join(keys)}, or a list of such")
    columns = [value.get(key) for key in keys]
    if columns == [None] * len(keys) and set(keys) <= value.keys():  # a struct of Arrow's that is nothing may be this
        return [[] for _ in keys]
    for key, column in zip(keys, columns, strict=True):
        if not isinstance(column, list):
            raise ValueError(f"{key} is {preview_value(column)}; expected a list")
    lists = [column for column in columns if isinstance(column, list)]
    if len(set(map(len, lists))) > 1:
        lengths = ", ".join(f"{len(column):,} of {key}" for key, column in zip(keys, lists, strict=True))
        raise ValueError(f"lists of several lengths: {lengths}")
    return lists


def find_image_names(batch: pa.RecordBatch, root: str) -> dict[str, tuple[int, str]]:
    """Return, for each column whose values all name image files, the number of such rows and the first name.

    Examples would hold these names as mere text. A column is left out if its first name is not a file in `root`.
    """
    found: dict[str, tuple[int, str]] = {}
    for column, array in columns_of(batch).items():
        if array.type != pa.large_binary() or column.startswith(KEY_PREFIX):
            continue
        names = list(map(as_text, array.drop_null().to_pylist()))
        relative = posixpath.normpath(names[0]) if names and storage.is_local(names[0]) else "/"
        is_inside = not relative.startswith(("/", "../")) and all(map(IMAGES.accepts, names))
        if is_inside and storage.exists(storage.join(root, relative)):
            found[column] = (len(names), names[0])
    return found
