"""A manifest of files: CSV with a header, JSON lines or Parquet; one row a file."""

import csv
import io
import json
import math
import os
import posixpath
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import xxhash

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from transforms.columns.nested import ColumnError
from transforms.columns.separated import parts_of
from transforms.inputs import label_lists
from transforms.inputs.companions import Companion
from transforms.inputs.manifests import ManifestFile, numbered
from transforms.stores import storage
from transforms.stores.error_text import error_text
from transforms.stores.failures import raise_if_store_failed
from transforms.stores.web import web_reason

FILE_COLUMNS = ("file_name", "image_uri")
RESERVED = ("image", "filename", "height", "width")  # the features of every image, which a column cannot also be
_PARQUET = ".parquet"
_PARQUET_ROWS = 4096  # of Parquet, made Python values at once
_FIELD_LIMIT = 1 << 30  # bytes in one CSV cell; the csv module's default of 128 KiB is less than a caption may have
_SHOWN, _SHOWN_COLUMNS = 60, 200  # letters of a value that is no good, and of the names of all columns


@dataclass(frozen=True, slots=True)
class Row:
    """A row: the file's name relative to the manifest's folder, or its URI elsewhere, and the other columns.

    Attributes:
      line: where the row starts in the manifest, from 1.
      name: the identity: the relative name, or the URI itself.
      uri: where to read it, None if that is `name` under the manifest's folder.
      label, split: the columns of that name, None if there is none or it is empty; a label of several classes is as
        transforms.inputs.label_lists has it.
      columns: further columns by name; text in CSV, JSON values in JSON lines.
      companions: the paths of further files of the example.
    """

    line: int
    name: str
    uri: str | None
    label: str | None
    split: str | None
    columns: dict[str, Any]
    companions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ManifestNames:
    """How a manifest made for something else names files and labels.

    Attributes:
      file: the column of files; "" for file_name or image_uri.
      label: the column of labels.
      suffix: what follows the names of files, unless they end so.
      root: the folder that the names are relative to, itself relative to the manifest's.
      separator: what stands between the classes that a label names; "" where it names one.
      companions: the columns that name further files of an example.
    """

    file: str = ""
    label: str = "label"
    suffix: str = ""
    root: str = ""
    separator: str = ""
    companions: tuple[Companion, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The columns of which one names the file."""
        return (self.file,) if self.file else FILE_COLUMNS

    def path(self, name: str) -> str:
        """The name of a file as the manifest would have it."""
        suffixed = name if name.lower().endswith(self.suffix.lower()) else f"{name}{self.suffix}"
        return suffixed if not self.root or name.startswith("/") or "://" in name else storage.join(self.root, suffixed)

    def reserved(self, others: Collection[str]) -> tuple[str, ...]:
        """What no further column is called: features that every example has."""
        beside = (item.feature for item in self.companions if item.feature != item.column)
        return (*others, *(["label"] if self.label != "label" else []), *beside)

    def companion(self, item: Companion, name: str) -> str:
        """The name of a further file as the manifest would have it: of another picture it is as that of the first, of a
        mask, whose suffix is another, as it stands."""
        return name if item.is_mask else self.path(name)


USUAL_NAMES = ManifestNames()


def is_textual(path: str) -> bool:
    """Whether the manifest is CSV, whose values are all text, rather than JSON lines or Parquet.

    Raises:
      UserError: the name says neither.
    """
    suffix = posixpath.splitext(path)[1].lower()
    if suffix in (".jsonl", ".ndjson", _PARQUET):
        return False
    if suffix == ".csv":
        return True
    raise UserError(f"--manifest {path}: expected a name that ends in .csv, .jsonl or .parquet")


def folder_of(path: str) -> str:
    """The folder of the manifest at `path`, which the names in it are relative to."""
    return posixpath.dirname(path) or "."


def read_manifest(
    path: str, allow_outside: bool, reserved: Collection[str] = RESERVED, names: ManifestNames = USUAL_NAMES
) -> Iterator[Row | Reject]:
    """The rows of the manifest at `path`, whose columns have no `reserved` names; a row that is no good comes as a
    Reject, as do the second and later of equal rows.

    Raises:
      as `read_rows`.
    """
    return _without_duplicates(read_rows(path, allow_outside, reserved, names), path)


def read_rows(
    path: str, allow_outside: bool, reserved: Collection[str] = RESERVED, names: ManifestNames = USUAL_NAMES
) -> Iterator[Row | Reject]:
    """As `read_manifest`, with all of equal rows: nothing is remembered of those that were read.

    Raises:
      UserError: there is no such file, no column that names the file, or a quote that is never closed.
    """
    folder = folder_of(path)
    if path.lower().endswith(_PARQUET):
        yield from _rows(_parquet_rows(path, names.reserved(reserved), names), path, folder, allow_outside, names)
        return
    try:
        raw = storage.open_read(path)
    except FileNotFoundError:
        raise UserError(f"--manifest {path}: no such file") from None
    except OSError as error:
        raise_if_store_failed(error, path)
        raise UserError(f"--manifest {path} cannot be read: {error_text(error)}") from None
    with raw, io.TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape", newline="") as text:
        values_of = _csv_rows if is_textual(path) else _json_rows
        values = values_of(text, path, names.reserved(reserved), names)
        yield from _rows(values, path, folder, allow_outside, names)


def read_all(
    manifests: Sequence[ManifestFile],
    allow_outside: bool,
    reserved: Collection[str] = RESERVED,
    names: ManifestNames = USUAL_NAMES,
) -> Iterator[Row | Reject]:
    """The rows of several manifests, one after another: their names as seen from the folder of all, their splits those
    of the manifests, and their lines as transforms.inputs.manifests.numbered has it.

    Raises:
      UserError: as `read_rows`; or they are of several formats, have different columns, or say splits where it is said
        of the manifest.
    """
    _check_alike(manifests, names)
    for place, manifest in enumerate(manifests):
        for row in read_rows(manifest.path, allow_outside, reserved, names):
            if isinstance(row, Reject):
                yield row
                continue
            if manifest.split and row.split is not None:
                raise UserError(
                    f"--manifest {manifest.split}={manifest.path}: line {row.line} has a split of its own,"
                    f" {row.split!r}; leave out the column, or the split of the file"
                )
            if manifest.split or manifest.inside or place:
                split, line = manifest.split or row.split, numbered(place, row.line)
                row = replace(row, name=manifest.name(row.name), split=split, line=line)
            yield row


def _check_alike(manifests: Sequence[ManifestFile], names: ManifestNames) -> None:
    """Check that manifests can be one input; raises UserError."""
    first, *others = manifests
    for other in others:
        if is_textual(first.path) != is_textual(other.path):
            raise UserError(
                f"--manifest: {first.path} and {other.path} are of formats of which one has types and the other texts"
                " alone; give manifests of one format"
            )
    of_first = columns_of(first.path) if others else None
    for other in others:
        columns = columns_of(other.path)
        if of_first is not None and columns is not None and (odd := sorted(set(of_first) ^ set(columns))):
            has, lacks = (first, other) if odd[0] in of_first else (other, first)
            raise UserError(
                f"--manifest: {has.path} has a column {odd[0]!r}, which {lacks.path} has not; give manifests of the"
                " same columns"
            )


def _rows(
    values: Iterable[tuple[int, dict[str, Any]] | Reject],
    path: str,
    folder: str,
    allow_outside: bool,
    names: ManifestNames,
) -> Iterator[Row | Reject]:
    for value in values:
        if isinstance(value, Reject):
            yield value
            continue
        line, columns = value
        name = next((columns.pop(column) for column in names.files if columns.get(column) not in (None, "")), None)
        for column in names.files:
            columns.pop(column, None)
        if names.file and isinstance(name, int) and not isinstance(name, bool):
            name = str(name)
        if not isinstance(name, str):
            yield Reject(path, line, "index", f"the row has no {' or '.join(names.files)}")
            continue
        try:
            identity, uri = locate(names.path(name), folder, allow_outside)
            beside = tuple(_companion(columns, item, names, folder, allow_outside) for item in names.companions)
            label = _label(columns.pop(names.label, None), names)
            split = _text(columns.pop("split", None))
        except ValueError as error:
            yield Reject(name, line, "index", str(error))
            continue
        yield Row(line, identity, uri, label, split, columns, beside)


def _companion(columns: dict[str, Any], item: Companion, names: ManifestNames, folder: str, allow_outside: bool) -> str:
    """The path of a further file of a row, whose column is taken out; raises ValueError."""
    value = columns.pop(item.column, None)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        raise ValueError(f"the row has no {item.column}" if value in (None, "") else f"{item.what} is no file name")
    try:
        name, uri = locate(names.companion(item, value), folder, allow_outside)
    except ValueError as error:
        raise ValueError(f"{item.what}: {error}") from None
    return uri or storage.join(folder, name)


def locate(name: str, folder: str, allow_outside: bool, whose: str = "the manifest's folder") -> tuple[str, str | None]:
    """(identity, URI or None) of a file that is called `name` as seen from `folder`, in words `whose`.

    Raises:
      ValueError: it lies outside, which is not allowed, or its name can be none.
    """
    if "\0" in name:
        raise ValueError("the file name holds a NUL byte")
    if why := web_reason(name):
        raise ValueError(why)
    local = storage.is_local(name)
    if local and name.startswith("/"):
        name = posixpath.normpath(name)
    root = os.path.abspath(folder) if local and storage.is_local(folder) else folder
    if name.startswith("/") or not local:
        name = name.removeprefix(f"{root.rstrip('/')}/")
    absolute = name.startswith("/") or not storage.is_local(name)
    relative = posixpath.normpath(name)
    if not absolute and relative != ".." and not relative.startswith("../"):
        return relative, None
    if not allow_outside:
        raise ValueError(f"lies outside {whose}; give --allow_outside if that is meant")
    return name, name if absolute else posixpath.normpath(storage.join(folder, name))


def _label(value: Any, names: ManifestNames) -> str | None:
    """A label as a text: of several classes as label_lists has it."""
    if isinstance(value, list):
        found = [text for text in map(_text, value) if text is not None]
        if len(found) < len(value):
            raise ValueError(f"label {json.dumps(value)[:_SHOWN]} has a null or an empty name in it")
        return label_lists.as_text(found)
    label = _text(value)
    if label is not None and label_lists.is_reserved(label):
        raise ValueError(f"label {json.dumps(label)[:_SHOWN]} begins with a NUL character")
    return label_lists.as_text(parts_of(label or "", names.separator)) if names.separator else label


def _text(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"label or split {json.dumps(value)[:_SHOWN]} is not a string or an integer")
    return str(value)


def _csv_rows(
    text: io.TextIOWrapper, path: str, reserved: Collection[str], names: ManifestNames
) -> Iterator[tuple[int, dict[str, Any]] | Reject]:
    csv.field_size_limit(_FIELD_LIMIT)
    reader = csv.reader(text, strict=True)
    header = _next_row(reader, path, 1)
    if header is None:
        raise UserError(f"--manifest {path} is empty; expected a header with a column {' or '.join(names.files)}")
    _check_header(header, path, reserved, names)
    while True:
        line = reader.line_num + 1
        cells = _next_row(reader, path, line)
        if cells is None:
            return
        if not cells:  # a blank line
            continue
        if len(cells) != len(header):
            yield Reject(path, line, "index", f"the row has {len(cells)} fields; the header has {len(header)}")
        elif problem := _encoding_problem(cells):
            yield Reject(path, line, "index", problem)
        else:
            yield line, dict(zip(header, cells, strict=True))


def _parquet_rows(
    path: str, reserved: Collection[str], names: ManifestNames
) -> Iterator[tuple[int, dict[str, Any]] | Reject]:
    from pyarrow import ArrowException, parquet

    try:
        with storage.open_read(path) as raw, parquet.ParquetFile(raw) as file:
            schema = file.schema_arrow
            _check_header(schema.names, path, reserved, names)
            for field in schema:
                if not _is_plain(field.type):
                    raise UserError(
                        f"--manifest {path}: column {field.name!r} is of {field.type}, where a manifest has texts,"
                        " numbers, booleans and lists of them; cast the column, or leave it out"
                    )
            line = 0
            for batch in file.iter_batches(_PARQUET_ROWS):
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
    """Whether values of an Arrow type are those that JSON has."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_plain(kind.value_type)
    plain = (types.is_string, types.is_large_string, types.is_integer, types.is_floating, types.is_boolean)
    return any(check(kind) for check in (*plain, types.is_null))


def columns_of(path: str) -> tuple[str, ...] | None:
    """The columns of a manifest that says them before its rows; None of JSON lines.

    Raises:
      UserError: as `read_rows`.
    """
    if path.lower().endswith(_PARQUET):
        from pyarrow import ArrowException, parquet

        try:
            with storage.open_read(path) as raw:
                return tuple(parquet.read_schema(raw).names)
        except (ArrowException, OSError):  # which reading it tells
            return None
    if not is_textual(path):
        return None
    try:
        with storage.open_read(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", "surrogateescape", newline="") as text:
            header = _next_row(csv.reader(text, strict=True), path, 1)
    except OSError:
        return None
    return None if header is None else tuple(header)


def columns_told(path: str) -> tuple[str, ...]:
    """The columns of a manifest as far as it says them: of JSON lines those of the first."""
    known = columns_of(path)
    if known is not None or is_textual(path) or path.lower().endswith(_PARQUET):
        return known or ()
    with suppress(OSError, ValueError), storage.open_read(path) as raw:
        first = json.loads(raw.readline().decode("utf-8-sig"))
        return tuple(first) if isinstance(first, dict) else ()
    return ()


def _next_row(reader: Any, path: str, line: int) -> list[str] | None:
    try:
        return next(reader, None)
    except csv.Error as error:
        raise UserError(
            f"--manifest {path}, from line {line}: {error}; check the quotes: a field that opens one must close it, "
            "and doubles those within"
        ) from None


def _check_header(header: Sequence[str], path: str, reserved: Collection[str], names: ManifestNames) -> None:
    if _encoding_problem(header):
        raise UserError(f"--manifest {path}: the header is not UTF-8; save the file as UTF-8")
    columns = ", ".join(header)[:_SHOWN_COLUMNS]
    if not set(header) & set(names.files):
        hint = "" if names.file else "; --file_column says which names the files"
        raise UserError(f"--manifest {path} has no column {' or '.join(names.files)}; its columns are {columns}{hint}")
    if names.label != "label" and names.label not in header:
        raise UserError(
            f"--label_column {names.label}: --manifest {path} has no such column; its columns are {columns}"
        )
    for item in names.companions:
        if item.column not in header:
            raise UserError(
                f"{flag_of(item)} {item.column}: --manifest {path} has no such column; its columns are {columns}"
            )
    for name in header:
        if header.count(name) > 1:
            raise UserError(f"--manifest {path} has the column {name!r} twice")
        _check_column(name, path, reserved)


def flag_of(item: Companion) -> str:
    """The flag that names the column of a companion."""
    return "--mask_column" if item.is_mask else "--file_column"


def _check_column(name: str, path: str, reserved: Collection[str]) -> None:
    if not name:
        raise UserError(f"--manifest {path} has a column without a name")
    if name in reserved:
        raise UserError(
            f"--manifest {path} has a column {name!r}, which is the name of a feature that every example has"
        )


def _json_rows(
    text: io.TextIOWrapper, path: str, reserved: Collection[str], names: ManifestNames
) -> Iterator[tuple[int, dict[str, Any]] | Reject]:
    checked: set[str] = set()
    found_name, found_label = False, names.label == "label"
    unfound = {item.column: item for item in names.companions}
    for line, content in enumerate(text, 1):
        if not content.strip():
            continue
        if problem := _encoding_problem([content]):
            yield Reject(path, line, "index", problem)
            continue
        try:
            value = json.loads(content, parse_float=_float)
        except ColumnError as error:
            yield Reject(path, line, "index", str(error))
            continue
        except (ValueError, RecursionError) as error:
            yield Reject(path, line, "index", f"not JSON: {error_text(error)}")
            continue
        if not isinstance(value, dict):
            yield Reject(path, line, "index", "not a JSON object")
            continue
        if problem := _encoding_problem([json.dumps(value, ensure_ascii=False)]):
            yield Reject(path, line, "index", problem)
            continue
        for name in value.keys() - checked:
            _check_column(name, path, reserved)
            checked.add(name)
        found_name = found_name or any(value.get(column) not in (None, "") for column in names.files)
        found_label = found_label or names.label in value
        unfound = {column: item for column, item in unfound.items() if column not in value} if unfound else unfound
        yield line, value
    if not found_name:
        raise UserError(f"--manifest {path}: no row has a {' or '.join(names.files)}")
    if not found_label:
        raise UserError(f"--label_column {names.label}: no row of --manifest {path} has it")
    for item in unfound.values():
        raise UserError(f"{flag_of(item)} {item.column}: no row of --manifest {path} has it")


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):  # which is written as Infinity if it is meant
        raise ColumnError(f"{text} is beyond the range of float32")
    return number


def _encoding_problem(cells: Sequence[str]) -> str | None:
    try:
        for cell in cells:
            cell.encode()
    except UnicodeEncodeError:
        return "the row is not UTF-8"
    return None


def digest(row: Row) -> bytes:
    """16 bytes that equal rows share, but for their lines."""
    content = json.dumps([row.name, row.label, row.split, row.columns, *row.companions], sort_keys=True)
    return xxhash.xxh3_128_digest(content.encode())


def _without_duplicates(rows: Iterable[Row | Reject], path: str) -> Iterator[Row | Reject]:
    """The rows, the second and later of equal ones as Rejects; equal names with other columns are not equal rows."""
    seen: dict[bytes, int] = {}
    for row in rows:
        if isinstance(row, Row):
            first = seen.setdefault(digest(row), row.line)
            if first != row.line:
                yield Reject(row.name, row.line, "index", f"duplicate of line {first} in {path}")
                continue
        yield row
