"""Read the rows of input manifests: CSV, JSON lines and Parquet."""

import csv
import io
import json
import math
import posixpath
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import xxhash

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import split_text
from shardmill.transforms.columns.types import ColumnError, DeclaredObjects
from shardmill.transforms.formats.format import BOX, declared_objects, label_key
from shardmill.transforms.formats.format import OBJECTS as COLUMN
from shardmill.transforms.inputs import summary
from shardmill.transforms.inputs.coco import is_integer, is_text
from shardmill.transforms.inputs.found_files import Companion, file_name_columns, resolve_name
from shardmill.transforms.inputs.listing import report_unreadable_flag_file
from shardmill.transforms.inputs.manifest_files import SIZE_COLUMNS, ManifestFile, ObjectsColumn, number_line
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import error_text
from shardmill.transforms.stores.storage import raise_if_store_failed

FILE_COLUMNS = ("file_name", "image_uri")
RESERVED = ("image", "filename", "height", "width")  # the features of every image, which a column cannot also be


@dataclass(frozen=True, slots=True)
class ManifestNames:
    """Names of a manifest's columns, and the rules for its file names."""

    file: str = ""  # column of file names; "" for file_name or image_uri
    label: str = "label"  # column of labels
    suffix: str = ""  # appended to file names that lack it
    root: str = ""  # folder of the files, relative to the manifest's folder
    separator: str = ""  # between the classes in a label; "" for one class
    companions: tuple[Companion, ...] = ()  # columns that name further files of an example
    objects: ObjectsColumn | None = None  # column of the objects in each image; None without one
    split: str = "split"  # column of splits
    delimiter: str = ""  # between fields of CSV; "" for a comma, or a tab in .tsv files
    columns: tuple[str, ...] = ()  # names of the columns of CSV without a header
    drop: tuple[str, ...] = ()  # further columns to leave out
    only: tuple[str, ...] = ()  # further columns to keep; () for all
    types: tuple[tuple[str, str], ...] = ()  # data types of further columns; those of others are inferred

    def keeps(self, column: str) -> bool:
        """Return True if a further column is kept."""
        return column not in self.drop and (not self.only or column in self.only)

    def find_delimiter(self, path: str) -> str:
        """Return the delimiter of a CSV file."""
        return self.delimiter or ("\t" if path.lower().endswith(".tsv") else ",")

    @property
    def file_columns(self) -> tuple[str, ...]:
        """Columns that may name the file."""
        return (self.file,) if self.file else FILE_COLUMNS

    def path(self, name: str) -> str:
        """Return a file name with the suffix and root of this manifest."""
        suffixed = name if name.lower().endswith(self.suffix.lower()) else f"{name}{self.suffix}"
        return suffixed if not self.root or name.startswith("/") or "://" in name else storage.join(self.root, suffixed)

    def reserved_names(self, feature_names: Collection[str]) -> tuple[str, ...]:
        """Return the names that no further column may have; image sides are allowed with a column of objects."""
        companion_features = (item.feature for item in self.companions if item.feature != item.column)
        names = (*feature_names, *(["label"] if self.label != "label" else []), *companion_features)
        free = (*self.file_columns, *SIZE_COLUMNS)  # sizes are compared with the images
        return tuple(name for name in names if name not in free)

    @property
    def named_columns(self) -> list[tuple[str, str]]:
        """(flag, column) of the columns that flags name, except for the file's."""
        label = [("--label_column", self.label)] if self.label != "label" else []
        flags = [("--mask_column" if item.is_mask else "--file_column", item.column) for item in self.companions]
        flags += [("--split_column", self.split)] if self.split != "split" else []
        flags += [("--drop", name) for name in self.drop] + [("--only", name) for name in self.only]
        return [*label, *flags, *(("--types", name) for name, _ in self.types)]


DEFAULT_NAMES = ManifestNames()


class Oddities:
    """Counts of what rows have against the odds, which is put right and reported."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, str]] = {}

    def add(self, what: str, example: str) -> None:
        """Count one row or column, given as an example."""
        number, first = self._counts.get(what, (0, example))
        self._counts[what] = (number + 1, first)

    def count(self, what: str) -> int:
        """Return the number of rows or columns with an oddity."""
        return self._counts.get(what, (0, ""))[0]

    def notices(self) -> list[str]:
        """Return a notice for each oddity, with its count and its first example."""
        return [f"manifest: {what}: {number:,}, such as {first!r}" for what, (number, first) in self._counts.items()]


_SPACED_HEADER = "names of columns with spaces around them, which are left out"
_SPACED = "rows with spaces around values, which are left out"
_BACKSLASHES = "file names with backslashes, which are read as slashes"
_SIZES = "rows with the width and height of their image, which each example has anyway; the columns are left out"
_COMPARED_SIZES = 20  # rows whose image is opened to compare its size

_SHOWN_COLUMNS = 200  # letters of the names of all


def check_header(header: Sequence[str], path: str, reserved: Collection[str], names: ManifestNames) -> None:
    """Raise a UserError if the columns of a manifest are invalid or lack one that is needed."""
    if not is_text("".join(header)):
        raise UserError(f"--manifest {path}: the header is not UTF-8; save the file as UTF-8")
    columns = ", ".join(header)[:_SHOWN_COLUMNS]
    if not set(header) & set(names.file_columns):
        hint = "" if names.file else "; --file_column says which names the files"
        if not names.file and (further := file_name_columns(header)):
            hint = f"; --file_column {','.join(further)} says that these name the files of an example, its image first"
        if len(header) == 1 and (marks := sorted(set(header[0]) & set("\t;|"))):
            hint = f"; --delimiter {'tab' if marks[0] == chr(9) else repr(marks[0])} divides them"
        elif any(re.search(r"\w\.\w{2,5}$", cell) for cell in header):
            hint = "; if line 1 is a row, give --columns, such as --columns file_name,label"
        raise UserError(
            f"--manifest {path} has no column {' or '.join(names.file_columns)}; its columns are {columns}{hint}"
        )
    for flag, column in names.named_columns:
        if column not in header:
            raise UserError(f"{flag} {column}: --manifest {path} has no such column; its columns are {columns}")
    for name in header:
        if header.count(name) > 1:
            raise UserError(f"--manifest {path} has the column {name!r} twice")
        if names.keeps(name):
            check_column(name, path, reserved)


def check_column(name: str, path: str, reserved: Collection[str]) -> None:
    """Raise a UserError if a further column cannot be called `name`."""
    if not name:
        raise UserError(f"--manifest {path} has a column without a name")
    if name in reserved:
        raise UserError(
            f"--manifest {path} has a column {name!r}, which is the name of a feature that every example has"
        )


_NOT_UTF8 = "the row is not UTF-8; save the file as UTF-8"
_FIELD_LIMIT = 1 << 30  # bytes in one CSV cell; the csv module's default of 128 KiB is less than a caption may have


def csv_rows(
    text: io.TextIOWrapper, path: str, reserved: Collection[str], names: ManifestNames, oddities: Oddities
) -> Iterator[tuple[int, dict[str, Any]] | Reject]:
    """Yield (line, columns) of each row; raise a UserError for an invalid header or an unclosed quote."""
    csv.field_size_limit(_FIELD_LIMIT)
    reader = csv.reader(text, strict=True, delimiter=names.find_delimiter(path))
    header = list(names.columns) or next_row(reader, path, 1)
    if header is None:
        raise UserError(
            f"--manifest {path} is empty; expected a header with a column {' or '.join(names.file_columns)}"
        )
    for name in header:
        if name != name.strip():
            oddities.add(_SPACED_HEADER, name)
    header = [name.strip() for name in header]
    check_header(header, path, reserved, names)
    while True:
        line = reader.line_num + 1
        cells = next_row(reader, path, line)
        if cells is None:
            return
        if not cells:  # a blank line
            continue
        if len(cells) != len(header):
            yield Reject(path, line, "index", f"the row has {len(cells)} fields; the header has {len(header)}")
        elif not is_text("".join(cells)):
            yield Reject(path, line, "index", _NOT_UTF8)
        else:
            stripped = [cell.strip() for cell in cells]
            if stripped != cells:
                oddities.add(_SPACED, next(cell for cell in cells if cell != cell.strip()))
            yield line, dict(zip(header, stripped, strict=True))


def next_row(reader: Any, path: str, line: int) -> list[str] | None:
    """Return the next row, which starts at `line`, or None at the end; raise a UserError for broken quotes."""
    try:
        return next(reader, None)
    except csv.Error as error:
        raise UserError(
            f"--manifest {path}, from line {line}: {error}; check the quotes: a field that opens one must close it, "
            "and doubles those within"
        ) from None


_PARQUET = ".parquet"


def is_parquet(path: str) -> bool:
    """Return True if the manifest is Parquet, by its name."""
    return path.lower().endswith(_PARQUET)


def is_textual(path: str) -> bool:
    """Return True for CSV, whose values are text, False for JSON lines and Parquet; raise a UserError otherwise."""
    suffix = posixpath.splitext(path)[1].lower()
    if suffix in (".jsonl", ".ndjson", _PARQUET):
        return False
    if suffix in (".csv", ".tsv", ".txt"):
        return True
    raise UserError(f"--manifest {path}: expected a name that ends in .csv, .tsv, .txt, .jsonl or .parquet")


def manifest_folder(path: str) -> str:
    """Return the folder of the manifest at `path`, which its names are relative to."""
    return posixpath.dirname(path) or "."


def declared_columns(path: str, names: ManifestNames = DEFAULT_NAMES) -> tuple[str, ...] | None:
    """Return the columns that a manifest declares before its rows; None for JSON lines, or if it cannot be read.

    Raises OSError if its store fails.
    """
    if is_parquet(path):
        schema = _parquet_schema(path)
        return None if schema is None else tuple(schema.names)
    if not is_textual(path) or names.columns:
        return names.columns or None
    try:
        with storage.open_read(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", "surrogateescape", newline="") as text:
            header = next_row(csv.reader(text, strict=True, delimiter=names.find_delimiter(path)), path, 1)
    except OSError as error:
        raise_if_store_failed(error, path)
        return None
    return None if header is None else tuple(name.strip() for name in header)


def _parquet_schema(path: str) -> Any:
    """Return the schema of a Parquet manifest; None if it cannot be read, which reading its rows reports."""
    from pyarrow import ArrowException, parquet

    try:
        with storage.open_read(path) as raw:
            return parquet.read_schema(raw)
    except (ArrowException, OSError) as error:
        if isinstance(error, OSError):
            raise_if_store_failed(error, path)
        return None


def peek_columns(path: str) -> tuple[str, ...]:
    """Return the columns that a manifest declares; for JSON lines, those of the first line."""
    known = declared_columns(path)
    if known is not None or is_textual(path) or is_parquet(path):
        return known or ()
    try:
        with storage.open_read(path) as raw:
            first = json.loads(raw.readline().decode("utf-8-sig"))
    except OSError as error:
        raise_if_store_failed(error, path)
        return ()
    except ValueError:
        return ()
    return tuple(first) if isinstance(first, dict) else ()


def json_rows(
    text: io.TextIOWrapper, path: str, reserved: Collection[str], names: ManifestNames
) -> Iterator[tuple[int, dict[str, Any]] | Reject]:
    """Yield (line, columns) of each row; raise a UserError for an invalid column, or a needed one that no row has."""
    checked: set[str] = set()
    has_lines = has_file_name = False
    missing = names.named_columns
    for line, content in enumerate(text, 1):
        if not content.strip():
            continue
        has_lines = True
        try:
            value = _parse_json_line(content)
        except ValueError as error:
            yield Reject(path, line, "index", str(error))
            continue
        for name in value.keys() - checked:
            if names.keeps(name):
                check_column(name, path, reserved)
            checked.add(name)
        has_file_name = has_file_name or any(value.get(column) not in (None, "") for column in names.file_columns)
        missing = missing and [(flag, column) for flag, column in missing if column not in value]
        yield line, value
    if not has_lines:
        return
    if not has_file_name:
        raise UserError(f"--manifest {path}: no row has a {' or '.join(names.file_columns)}")
    for flag, column in missing:
        raise UserError(f"{flag} {column}: no row of --manifest {path} has it")


def _parse_json_line(content: str) -> dict[str, Any]:
    """Parse a line of JSON; raise a ValueError with the reject reason if it is invalid."""
    if not is_text(content):
        raise ValueError(_NOT_UTF8)
    try:
        value = json.loads(content, parse_float=_parse_float)
    except ColumnError:
        raise
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error_text(error)}") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    if not is_text(json.dumps(value, ensure_ascii=False)):
        raise ValueError(_NOT_UTF8)
    return value


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):  # which is written as Infinity if it is meant
        raise ColumnError(f"{text} is beyond the range of float32")
    return number


_MAX_PROBED_ROWS = 10_000  # rows in which the first object is looked for


def find_objects_column(path: str) -> ObjectsColumn | None:
    """Return a manifest's column of objects, or None; raise a UserError if it has boxes but no classes.

    JSON lines are judged by the first row with an object, among the first 10,000.
    """
    declared: DeclaredObjects | None = None
    names: tuple[str, ...] = ()
    if is_parquet(path):
        schema = _parquet_schema(path)
        if schema is not None and (found := declared_objects(schema)) is not None:
            (declared,) = found.objects
            names = next(iter(found.class_names), ())
    elif not is_textual(path):
        try:
            declared = _find_in_json_lines(path)
        except OSError as error:  # which reading the rows reports
            raise_if_store_failed(error, path)
    return ObjectsColumn.from_declaration(declared, names, f"--manifest {path}") if declared is not None else None


def _find_in_json_lines(path: str) -> DeclaredObjects | None:
    keys: set[str] = set()
    with storage.open_read(path) as raw:
        for line in islice(raw, _MAX_PROBED_ROWS):
            try:
                row = json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError):
                continue
            value = row.get(COLUMN) if isinstance(row, dict) else None
            items = value if isinstance(value, list) else [value]
            item = items[0] if items else None
            if not isinstance(item, dict) or BOX not in item:
                continue
            keys = set(item)
            label = item.get(label_key(keys))
            first = next(iter(label), None) if isinstance(label, list) else label
            if first is not None:
                return DeclaredObjects(tuple(sorted(keys)), is_integer(first))
    return DeclaredObjects(tuple(sorted(keys)), False) if keys else None


_ROWS_PER_BATCH = 4096  # rows made Python values at once


def parquet_rows(
    path: str, reserved: Collection[str], names: ManifestNames
) -> Iterator[tuple[int, dict[str, Any]] | Reject]:
    """Yield (row number, columns) of each row, from 1; raise a UserError for invalid columns or an unreadable file."""
    from pyarrow import ArrowException, parquet

    try:
        with storage.open_read(path) as raw, parquet.ParquetFile(raw) as file:
            schema = file.schema_arrow
            check_header(schema.names, path, reserved, names)
            for field in schema:
                is_objects = names.objects is not None and field.name == COLUMN
                if names.keeps(field.name) and not _is_plain(field.type) and not is_objects:
                    raise UserError(
                        f"--manifest {path}: column {field.name!r} is of {field.type}, where a manifest has texts,"
                        " numbers, booleans and lists of them; cast the column, or leave it out"
                    )
            line = 0
            for batch in file.iter_batches(_ROWS_PER_BATCH):
                for row in batch.to_pylist():
                    line += 1
                    yield line, row
    except FileNotFoundError:
        raise UserError(f"--manifest {path}: no such file") from None
    except (ArrowException, OSError) as error:
        if isinstance(error, OSError):
            raise_if_store_failed(error, path)
        raise UserError(f"--manifest {path} cannot be read: {error_text(error, lines=1)}") from None


def _is_plain(kind: Any) -> bool:
    """Return True if the values of an Arrow type can be JSON values other than objects."""
    from pyarrow import types

    nested = (types.is_dictionary, types.is_list, types.is_large_list, types.is_fixed_size_list)
    if any(check(kind) for check in nested):
        return _is_plain(kind.value_type)
    plain = (types.is_string, types.is_large_string, types.is_integer, types.is_floating, types.is_boolean)
    return any(check(kind) for check in (*plain, types.is_null))


_SHOWN = 60  # letters of a value that is no good


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a manifest: a file and its columns."""

    line: int  # where the row starts in the manifest, from 1
    name: str  # name relative to the manifest's folder, or the URI of a file elsewhere
    uri: str | None  # None if the file is `name` below the manifest's folder
    label: str | None  # None if missing; several classes as one text, see encode_label_list
    split: str | None  # None if missing or empty
    columns: dict[str, Any]  # further columns; text from CSV, JSON values from JSON lines
    companions: tuple[str, ...] = ()  # paths of further files of the example


def row_digest(row: Row) -> bytes:
    """Return a hash of 16 bytes that is the same for equal rows; their lines do not count."""
    content = json.dumps([row.name, row.label, row.split, row.columns, *row.companions], sort_keys=True)
    return xxhash.xxh3_128_digest(content.encode())


def _take_companion(
    columns: dict[str, Any], item: Companion, names: ManifestNames, folder: str, allow_outside: bool
) -> str:
    """Remove a companion's column from a row and return the companion's path; raise a ValueError if it is invalid."""
    value = _convert_number_to_text(columns.pop(item.column, None))
    if not isinstance(value, str) or not value:
        raise ValueError(
            f"the row has no {item.column}" if value in (None, "") else f"{item.display_name} is no file name"
        )
    try:  # the suffix and root of the manifest's files are not those of masks
        name, uri = resolve_name(value if item.is_mask else names.path(value), folder, allow_outside)
    except ValueError as error:
        raise ValueError(f"{item.display_name}: {error}") from None
    return uri or storage.join(folder, name)


def _convert_number_to_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _parse_label(value: Any, names: ManifestNames) -> str | None:
    """Return a manifest row's label as a text; several classes become one text."""
    if isinstance(value, list):
        found = [text for text in map(_to_text, value) if text is not None]
        if len(found) < len(value):
            raise ValueError(f"label {json.dumps(value)[:_SHOWN]} has a null or an empty name in it")
        return summary.encode_label_list(found)
    label = _to_text(value)
    if label is not None and summary.is_encoded_list(label):
        raise ValueError(f"label {json.dumps(label)[:_SHOWN]} begins with a NUL character")
    return summary.encode_label_list(split_text(label or "", names.separator)) if names.separator else label


def _to_text(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"label or split {json.dumps(value)[:_SHOWN]} is not a string or an integer")
    return str(value)


def read_rows(
    path: str,
    allow_outside: bool,
    reserved: Collection[str] = RESERVED,
    names: ManifestNames = DEFAULT_NAMES,
    oddities: Oddities | None = None,
) -> Iterator[Row | Reject]:
    """Yield the rows of a manifest, including duplicates, and a Reject for each invalid row; count `oddities`.

    Raise a UserError if there is no such file, no column that names the file, or a quote that is never closed.
    """
    folder, oddities = manifest_folder(path), oddities or Oddities()
    has_sizes = names.objects is None and set(SIZE_COLUMNS) <= set(reserved)
    for value in _read_values(path, names.reserved_names(reserved), names, oddities):
        if isinstance(value, Reject):
            yield value
            continue
        line, columns = value
        cells = [columns.pop(column, None) for column in names.file_columns]
        name = next((cell for cell in cells if cell not in (None, "")), None)
        if names.file:
            name = _convert_number_to_text(name)
        if not isinstance(name, str):
            yield Reject(path, line, "index", f"the row has no {' or '.join(names.file_columns)}")
            continue
        name = _without_backslashes(name, folder, names, oddities)
        try:
            identity, uri = resolve_name(names.path(name), folder, allow_outside)
            taken = (_take_companion(columns, item, names, folder, allow_outside) for item in names.companions)
            companions = tuple(taken)
            label = _parse_label(columns.pop(names.label, None), names)
            split = _to_text(columns.pop(names.split, None))
        except ValueError as error:
            yield Reject(name, line, "index", str(error))
            continue
        columns = {name: value for name, value in columns.items() if names.keeps(name)}
        for column, dtype in names.types:
            if dtype == "bytes" and isinstance(number := columns.get(column), int | float):
                columns[column] = json.dumps(number)
        if has_sizes and (sides := [columns.pop(side, None) for side in SIZE_COLUMNS]) != [None, None]:
            if oddities.count(_SIZES) < _COMPARED_SIZES:
                _compare_size(sides, uri or storage.join(folder, identity), path, line)
            oddities.add(_SIZES, identity)
        yield Row(line, identity, uri, label, split, columns, companions)


def _without_backslashes(name: str, folder: str, names: ManifestNames, oddities: Oddities) -> str:
    """Return a file name with slashes for the backslashes of Windows, if there is such a file and none of the name."""
    slashed = name.replace("\\", "/")
    if slashed == name or not storage.is_local(slashed) or storage.exists(storage.join(folder, names.path(name))):
        return name
    if not storage.exists(storage.join(folder, names.path(slashed))):
        return name
    oddities.add(_BACKSLASHES, name)
    return slashed


def _compare_size(sides: Sequence[Any], image_path: str, path: str, line: int) -> None:
    """Raise a UserError if an image can be opened and is not as wide and high as its row says."""
    from shardmill.data.media import open_image

    try:
        with open_image(storage.read_bytes(image_path)) as image:
            size = image.size
    except Exception as error:  # which reading the image reports
        if isinstance(error, OSError):
            raise_if_store_failed(error, image_path)
        return
    given = [None if side in (None, "") else str(side) for side in sides]
    if not any(
        all(one in (None, str(side)) for one, side in zip(given, both, strict=True)) for both in (size, size[::-1])
    ):
        raise UserError(
            f"--manifest {path}: line {line} gives {given[0]} and {given[1]} for width and height, and its image has"
            f" {size[0]} x {size[1]} pixels; these are the names of features that every example has: rename the columns"
        )


def _read_values(
    path: str, reserved: Collection[str], names: ManifestNames, oddities: Oddities
) -> Iterator[tuple[int, dict[str, Any]] | Reject]:
    """Yield (line, columns) of each row of the manifest at `path`, or a Reject."""
    if is_parquet(path):
        yield from parquet_rows(path, reserved, names)
        return
    with report_unreadable_flag_file("--manifest", path):
        raw = storage.open_read(path)
    with raw, io.TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape", newline="") as text:
        if is_textual(path):
            yield from csv_rows(text, path, reserved, names, oddities)
        else:
            yield from json_rows(text, path, reserved, names)


def read_all_rows(
    manifests: Sequence[ManifestFile],
    allow_outside: bool,
    reserved: Collection[str] = RESERVED,
    names: ManifestNames = DEFAULT_NAMES,
    oddities: Oddities | None = None,
) -> Iterator[Row | Reject]:
    """Yield the rows of several manifests, with names relative to their common folder and lines that tell the file.

    Raise a UserError as `read_rows`. Also raise one if formats or columns differ, a row has a split although its
    manifest has one, or all manifests of a split are empty.
    """
    _check_same_columns(manifests, names)
    empty = {manifest.split: manifest for manifest in reversed(manifests)}
    for place, manifest in enumerate(manifests):
        for row in read_rows(manifest.path, allow_outside, reserved, names, oddities):
            empty.pop(manifest.split, None)
            if isinstance(row, Reject):
                yield row if row.line is None else replace(row, line=number_line(place, row.line))
                continue
            if manifest.split and row.split is not None:
                raise UserError(
                    f"--manifest {manifest.split}={manifest.path}: line {row.line} has a split of its own,"
                    f" {row.split!r}; leave out the column, or the split of the file"
                )
            if manifest.split or manifest.inside or place:
                split, line = manifest.split or row.split, number_line(place, row.line)
                row = replace(row, name=manifest.name(row.name), split=split, line=line)
            yield row
    for split, manifest in empty.items():
        number = sum(other.split == split for other in manifests)
        given = f"{split}={manifest.path}" if split else manifest.path
        others = f", nor {'has' if number == 2 else 'have'} the other {number - 1:,}" if number > 1 else ""
        raise UserError(f"--manifest {given} has no rows{others}; expected one for each file")


def _check_same_columns(manifests: Sequence[ManifestFile], names: ManifestNames) -> None:
    """Raise a UserError if the manifests differ in format or columns."""
    first, *others = manifests
    for other in others:
        if is_textual(first.path) != is_textual(other.path):
            raise UserError(
                f"--manifest: {first.path} and {other.path} are of formats of which one has types and the other texts"
                " alone; give manifests of one format"
            )
    of_first = declared_columns(first.path, names) if others else None
    for other in others:
        columns = declared_columns(other.path, names)
        if of_first is not None and columns is not None and (odd := sorted(set(of_first) ^ set(columns))):
            has, lacks = (first, other) if odd[0] in of_first else (other, first)
            raise UserError(
                f"--manifest: {has.path} has a column {odd[0]!r}, which {lacks.path} has not; give manifests of the"
                " same columns"
            )
