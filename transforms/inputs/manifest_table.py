"""Read manifests as tables: CSV, JSON lines and Parquet by the rules of these record formats."""

import json
import posixpath
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.errors import UserError
from shardmill.flag_values import split_names
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns import types as column_types
from shardmill.transforms.columns.arrow import as_text, convert_batch, split_text, to_batch
from shardmill.transforms.columns.example_bytes import payload_hashes
from shardmill.transforms.columns.example_encoding import encode_framed
from shardmill.transforms.columns.nested import Nesting
from shardmill.transforms.findings import Findings
from shardmill.transforms.formats import format as formats
from shardmill.transforms.formats.format import BOX, KEY_PREFIX, BlockRef, FileRef, RecordNotice, Rows
from shardmill.transforms.inputs import found_files, summary
from shardmill.transforms.inputs.annotations import is_integer
from shardmill.transforms.inputs.listing import report_unreadable_flag_file
from shardmill.transforms.inputs.manifest_files import DIGEST, SIZE_COLUMNS, ManifestFile, ObjectsColumn, number_line
from shardmill.transforms.options.table_options import TableReadOptions
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.storage import raise_if_store_failed

FILE_COLUMNS = ("file_name", "image_uri")
RESERVED = ("image", "filename", "height", "width")  # the features of every image, which a column cannot also be
_BLOCK_BYTES = 4 << 20  # of a manifest, read at once


@dataclass(frozen=True, slots=True)
class ManifestNames(TableReadOptions):
    """Names of a manifest's columns, the rules for its file names, and the options that it is read with."""

    file_column: str = ""  # columns of file names, the main one first; "" for file_name or image_uri
    label_column: str = "label"
    file_suffix: str = ""  # appended to file names that lack it
    file_root: str = ""  # folder of the files, relative to the manifest's folder
    companions: tuple[found_files.Companion, ...] = ()  # columns that name further files of an example
    objects_column: ObjectsColumn | None = None  # column of the objects in each image; None without one
    split_column: str = "split"
    group_by: str | None = None  # column that groups files
    stratify_by: str | None = None  # column that stratifies them
    flags: Any = None  # the layout's TableOptions, of a floor above this one, that notices about rows depend on
    columns_by_flag: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # columns of flags of add-ons
    lay_out: Any = None  # hooks of add-ons, of a floor above this one: see lay_out_rows; None without any

    def keeps(self, column: str) -> bool:
        """Return True if a further column is kept."""
        return column not in self.drop and (not self.only or column in self.only)

    def format_of(self, path: str) -> formats.RecordFormat:
        """Return the format that reads the manifest at `path`, by its name."""
        kind = manifest_format(path)
        if kind == "csv":
            from shardmill.transforms.formats.csv import CsvFormat

            return replace(CsvFormat.of(self), strip=True, remarks_spaces=True)
        objects = () if self.objects_column is None else (formats.OBJECTS,)
        nesting = self.subset(Nesting, json_columns=(*self.json_columns, *objects))
        if kind == "parquet":
            from shardmill.transforms.formats.parquet import ParquetFormat

            return ParquetFormat(self.fill, nesting)
        from shardmill.transforms.formats.json_lines import JsonLinesFormat

        return JsonLinesFormat(_BLOCK_BYTES, self.fill, nesting, encoding=self.text_encoding)

    @property
    def role_columns(self) -> tuple[str, ...]:
        """Columns that name files, labels and splits."""
        return (*self.file_columns, *(item.column for item in self.companions), self.label_column, self.split_column)

    @property
    def file_columns(self) -> tuple[str, ...]:
        """Columns that may name the file."""
        return split_names(self.file_column)[:1] if self.file_column else FILE_COLUMNS

    def path(self, name: str) -> str:
        """Return a file name with the suffix and root of this manifest."""
        suffixed = name if name.lower().endswith(self.file_suffix.lower()) else f"{name}{self.file_suffix}"
        root = self.file_root.rstrip("/") or self.file_root
        return suffixed if not root or name.startswith("/") or "://" in name else storage.join(root, suffixed)

    def reserved_names(self, feature_names: Collection[str]) -> tuple[str, ...]:
        """Return the names that no further column may have; image sides are allowed with a column of objects."""
        companion_features = (item.feature for item in self.companions if item.feature != item.column)
        names = (*feature_names, *(["label"] if self.label_column != "label" else []), *companion_features)
        free = (*self.file_columns, *SIZE_COLUMNS)  # sizes are compared with the images
        return tuple(name for name in names if name not in free)

    @property
    def named_columns(self) -> list[tuple[str, str]]:
        """(flag, column) of the columns that flags name, except for the file's."""
        label = [("--label_column", self.label_column)] if self.label_column != "label" else []
        flags = [(item.flag, item.column) for item in self.companions]
        flags += [("--split_column", self.split_column)] if self.split_column != "split" else []
        flags += [("--drop", name) for name in self.drop] + [("--only", name) for name in self.only]
        flags += [(flag, name) for flag, columns in self.columns_by_flag.items() for name in columns]
        return [*label, *flags, *(("--types", name) for name, _ in self.types)]


def manifest_format(path: str) -> Literal["csv", "jsonl", "parquet"]:
    """Return the format of a manifest, by its name; raise a UserError for other names."""
    suffix = posixpath.splitext(path)[1].lower()
    if suffix in (".csv", ".tsv", ".txt"):
        return "csv"
    if suffix in (".jsonl", ".ndjson"):
        return "jsonl"
    if suffix == ".parquet":
        return "parquet"
    raise UserError(f"--manifest {path}: expected a name that ends in .csv, .tsv, .txt, .jsonl or .parquet")


def manifest_folder(path: str) -> str:
    """Return the folder of the manifest at `path`, which its names are relative to."""
    return posixpath.dirname(path) or "."


class ManifestFindings:
    """Findings in the rows of manifests: counts of repaired values, and the findings of their formats."""

    def __init__(self, names: ManifestNames) -> None:
        self.of_rows = Findings()
        self._names = names
        self._counts: dict[str, tuple[int, str]] = {}
        self._rows = 0

    def add(self, what: str, example: str) -> int:
        """Count one row, given as an example, and return the number of such rows so far."""
        number, first = self._counts.get(what, (0, example))
        self._counts[what] = (number + 1, first)
        return number + 1

    def add_rows(self, rows: Rows) -> None:
        """Add the findings in rows, good and bad."""
        self._rows += len(rows.batch) + len(rows.rejects)
        self.of_rows = self.of_rows.merge(rows.findings)

    def notices(self, path: str) -> list[str]:
        """Return notices with flags for manifests such as `path`; raise a UserError if rows are read the wrong way."""
        kind, roles = manifest_format(path), (*self._names.role_columns, *SIZE_COLUMNS)
        flags = replace(self._names.flags, plural=f"{kind.title()} manifests", columns_by_flag={"": roles})
        flags = flags if kind == "csv" else replace(flags, missing=())
        counted = [_describe(what, number, first) for what, (number, first) in self._counts.items()]
        return [*counted, *self.of_rows.notices(flags, self._rows)]


def _describe(what: str, number: int, first: str) -> str:
    return f"manifest: {what}: {number:,}, such as {first!r}"


_BACKSLASHES = "file names with backslashes, which are read as slashes"
_SIZES = "rows with the width and height of their image, which each example has anyway; the columns are left out"
_COMPARED_SIZES = 20  # rows whose image is opened to compare its size


def check_header(header: Sequence[str], path: str, reserved: Collection[str], names: ManifestNames) -> None:
    """Raise a UserError if the columns of a manifest are invalid or lack one that is needed."""
    columns = ", ".join(header)[:200]  # letters
    if not set(header) & set(names.file_columns):
        if len(header) == 1 and (marks := sorted(set(header[0]) & set("\t;|"))):
            hint = f"; --delimiter {'tab' if marks[0] == chr(9) else repr(marks[0])} divides them"
        elif manifest_format(path) == "csv" and any(re.search(r"\w\.\w{2,5}$", cell) for cell in header):
            hint = "; if line 1 is a row, give --columns, such as --columns file_name,label"
        else:
            hint = _suggest_file_columns(header, path, names)
        raise UserError(
            f"--manifest {path} has no column {' or '.join(names.file_columns)}; its columns are {columns}{hint}"
        )
    for flag, column in names.named_columns:
        if column not in header:
            raise UserError(f"{flag} {column}: --manifest {path} has no such column; its columns are {columns}")
    for name in filter(names.keeps, header):
        if not name:
            raise UserError(f"--manifest {path} has a column without a name")
        if name in reserved:
            what = f"has a column {name!r}, which is the name of a feature that every example has"
            raise UserError(f"--manifest {path} {what}")


def _suggest_file_columns(columns: Sequence[str], path: str, names: ManifestNames) -> str:
    """Return the flag for the columns of files, as the end of a sentence: those whose first row has a file that exists,
    or else those whose names say it."""
    if names.file_column:
        return ""
    read, row, folder = names.format_of(path), dict[str, Any](), manifest_folder(path)
    for block in islice((item for item in _find_blocks(path, names) if isinstance(item, BlockRef)), 1):
        inferred = next(read.infer(block, columns, ()), column_types.Inferred())
        row = next((rows.batch[:1].to_pylist()[0] for rows in read.read(block, inferred.types) if len(rows.batch)), {})
    files = {name: names.path(as_text(cell)) for name, cell in row.items() if isinstance(cell, str | bytes)}
    found = [name for name, file in files.items() if "." in file and storage.exists(storage.join(folder, file))]
    found = found or list(found_files.file_name_columns(columns))
    if len(found) < 2:
        return f"; --file_column {shlex.quote(found[0]) if found else 'COLUMN'} gives the one with the names of files"
    flag = f"--file_column {shlex.quote(','.join(found))}"
    return f"; {flag} says that these name the files of an example, its image first; with one alone others are features"


_MAX_PROBED_ROWS = 10_000  # rows in which the first object is looked for


def find_objects_column(path: str) -> ObjectsColumn | None:
    """Return a manifest's column of objects, or None; raise a UserError if it has boxes but no classes.

    JSON lines are judged by the first row with an object, among the first 10,000.
    """
    declared: column_types.DeclaredObjects | None = None
    names: tuple[str, ...] = ()
    if manifest_format(path) == "parquet":
        if (found := _find_in_parquet(path)) is not None:
            (declared,) = found.objects
            names = next(iter(found.class_names), ())
    elif manifest_format(path) == "jsonl":
        try:
            declared = _find_in_json_lines(path)
        except OSError as error:  # which reading the rows reports
            raise_if_store_failed(error, path)
    return ObjectsColumn.from_declaration(declared, names, f"--manifest {path}") if declared is not None else None


def _find_in_parquet(path: str) -> column_types.DeclaredColumn | None:
    from shardmill.transforms.formats.parquet import OpenedParquet

    try:
        with OpenedParquet(FileRef(path, path, storage.size(path))) as opened:
            return opened.declared.get(formats.OBJECTS)
    except (formats.UnreadableError, OSError) as error:  # which reading the rows reports
        formats.unreadable_reason(error, path)
        return None


def _find_in_json_lines(path: str) -> column_types.DeclaredObjects | None:
    keys: set[str] = set()
    with storage.open_read(path) as raw:
        for line in islice(raw, _MAX_PROBED_ROWS):
            try:
                row = json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError):
                continue
            value = row.get(formats.OBJECTS) if isinstance(row, dict) else None
            items = value if isinstance(value, list) else [value]
            item = items[0] if items else None
            if not isinstance(item, dict) or BOX not in item:
                continue
            keys = set(item)
            label = item.get(formats.label_key(keys))
            first = next(iter(label), None) if isinstance(label, list) else label
            if first is not None:
                return column_types.DeclaredObjects(tuple(sorted(keys)), is_integer(first))
    return column_types.DeclaredObjects(tuple(sorted(keys)), False) if keys else None


@contextmanager
def _reading(path: str) -> Iterator[None]:
    with report_unreadable_flag_file("--manifest", path):
        try:
            yield
        except UserError as error:
            raise UserError(f"--manifest {error}" if str(error).startswith(path) else str(error)) from None


def _find_header(path: str, names: ManifestNames) -> tuple[str, ...] | None:
    if manifest_format(path) == "jsonl":
        return None
    return names.format_of(path).header(FileRef(path, path, storage.size(path)))


def peek_columns(path: str) -> tuple[str, ...]:
    """Return the columns of a manifest; for JSON lines those of the first line, () if it cannot be read."""
    try:
        if (known := _find_header(path, ManifestNames())) is not None:
            return known
        with storage.open_read(path) as raw:
            first = json.loads(raw.readline().decode("utf-8-sig"))
    except OSError as error:
        raise_if_store_failed(error, path)
        return ()
    except (ValueError, UserError):  # which reading the rows reports
        return ()
    return tuple(first) if isinstance(first, dict) else ()


def _find_blocks(path: str, names: ManifestNames) -> Iterator[BlockRef | RecordNotice]:
    for item in names.format_of(path).index(FileRef(path, path, storage.size(path))):
        if isinstance(item, Reject):
            raise _unreadable_error(path, item.reason)
        if isinstance(item, BlockRef | RecordNotice):
            yield item


def _unreadable_error(path: str, reason: str) -> UserError:
    return UserError(f"--manifest {path} cannot be read: {reason.removeprefix('cannot be read: ')}")


@dataclass(frozen=True, slots=True)
class ManifestColumns:
    """The columns of manifests."""

    types: Mapping[str, column_types.ColumnType] = field(default_factory=dict)  # of all columns that are read
    # types as stored of further columns, in addition to files, labels and splits
    kept: Mapping[str, column_types.ColumnType] = field(default_factory=dict)
    notices: tuple[str, ...] = ()  # messages for the end of the job
    change: Any = None  # of rows by add-ons, given the name of their file; None without any


def infer_columns(
    manifests: Sequence[ManifestFile], reserved: Collection[str], names: ManifestNames
) -> ManifestColumns:
    """Infer the types of the columns of manifests over all rows.

    Raise a UserError if a column is missing, has a `reserved` name or differs between manifests, or if a manifest
    cannot be read.
    """
    forbidden = names.reserved_names(reserved)
    roles = names.role_columns
    inferred, notices = column_types.Inferred(), list[str]()
    headers: list[tuple[str, ...] | None] = []
    for manifest in manifests:
        path = manifest.path
        if (manifest_format(manifests[0].path) == "csv") != (manifest_format(path) == "csv"):
            raise UserError(
                f"--manifest: {manifests[0].path} and {path} are of formats of which one has types and the other texts"
                " alone; give manifests of one format"
            )
        with _reading(path):
            header = _find_header(path, names)
            headers.append(header)
            if headers[0] and header and (odd := sorted(set(headers[0]) ^ set(header))):
                has, lacks = (manifests[0].path, path) if odd[0] in headers[0] else (path, manifests[0].path)
                raise UserError(
                    f"--manifest: {has} has a column {odd[0]!r}, which {lacks} has not; give manifests of the same"
                    " columns"
                )
            named = [column for _, column in names.named_columns]
            wanted: list[str] | None = [*roles, *named] if names.only else None
            if header is not None:
                if manifest_format(path) == "csv":
                    notices += _check_csv_header(header, path, names)
                if header:
                    check_header(header, path, forbidden, names)
                wanted = [name for name in header if name in roles or names.keeps(name)]
            for item in _find_blocks(path, names):
                if isinstance(item, RecordNotice):
                    notices.append(f"{item.text}; {item.first_record}")
                    continue
                for part in names.format_of(path).infer(item, wanted, ()):
                    inferred = inferred.merge(part)
    if inferred.rows and manifest_format(manifests[0].path) == "jsonl":
        check_header(list(inferred.types), manifests[0].path, forbidden, names)
    compared = SIZE_COLUMNS if _compares_sizes(reserved, names) else ()
    types = {
        name: _settle(column, dict(names.types).get(name))
        for name, column in inferred.types.items()
        if name not in (*roles, *compared) and names.keeps(name)
    }
    label = inferred.types.get(names.label_column)
    text = column_types.ColumnType("bytes", None, 0)
    read = {name: text for name in (*roles, *compared) if name in inferred.types}
    if label is not None and label.length is not None:
        read[names.label_column] = column_types.ColumnType("bytes", -1, 0)
    for flag, columns in names.columns_by_flag.items() if inferred.rows else ():
        if other := next((column for column in columns if column not in types), None):
            why = "it is about files, labels or splits, or --drop or --only leaves it out"
            raise UserError(f"{flag} {other}: no example has that column of --manifest {manifests[0].path}: {why}")
    kept, change = types, None
    if names.lay_out is not None:
        types, kept, change = names.lay_out(types, inferred)
    return ManifestColumns(read | types, kept, tuple(dict.fromkeys(notices)), change)


def _check_csv_header(header: Sequence[str], path: str, names: ManifestNames) -> list[str]:
    if not header:
        raise UserError(f"--manifest {path} is empty; expected a header with column {' or '.join(names.file_columns)}")
    spelled = replace(cast(Any, names.format_of(path)), strip=False).header(FileRef(path, path, storage.size(path)))
    spaced = [name for name in spelled if name != name.strip(" \t")]
    what = "names of columns with spaces around them, which are left out"
    return [_describe(what, len(spaced), spaced[0])] if spaced else []


def _compares_sizes(reserved: Collection[str], names: ManifestNames) -> bool:
    return names.objects_column is None and set(SIZE_COLUMNS) <= set(reserved)


def _settle(column: column_types.ColumnType, asked: str | None) -> column_types.ColumnType:
    settled = column.settle()
    dtype: Any = settled.dtype if asked is None else asked
    spelling = column_types.Spelling(0)  # so that the layout does not settle it again
    return replace(settled, dtype=dtype, spelling=spelling)


def _without_backslashes(name: str, folder: str, names: ManifestNames, findings: ManifestFindings) -> str:
    """Return a file name with slashes for the backslashes of Windows, if there is such a file and none of the name."""
    slashed = name.replace("\\", "/")
    if slashed == name or not storage.is_local(slashed) or storage.exists(storage.join(folder, names.path(name))):
        return name
    if not storage.exists(storage.join(folder, names.path(slashed))):
        return name
    findings.add(_BACKSLASHES, name)
    return slashed


def _compare_size(sides: Sequence[Any], image_path: str, path: str, line: int) -> None:
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


@dataclass(frozen=True, slots=True)
class ManifestReader:
    """The reader of the rows of manifests, whose columns are known."""

    manifests: Sequence[ManifestFile]
    columns: ManifestColumns
    names: ManifestNames
    allow_outside: bool  # True if files may be elsewhere
    reserved: Collection[str] = RESERVED  # names that no further column may have

    @property
    def schema(self) -> pa.Schema:
        """The schema of rows, without their further columns."""
        return pa.schema([*found_files.FOUND, DIGEST, *([found_files.COMPANIONS] if self.names.companions else [])])

    def read(self, findings: ManifestFindings) -> Iterator[pa.RecordBatch | Reject]:
        """Yield all rows, repeated ones too, in batches of `schema` and their columns, and a Reject per invalid row.

        Names are relative to the common folder of the manifests, and lines tell the manifest. Raise a UserError if a
        row has a split although its manifest has one, or all manifests of a split are empty.
        """
        empty = {manifest.split: manifest for manifest in reversed(self.manifests)}
        for place, manifest in enumerate(self.manifests):
            for rows in self._read_rows(manifest.path):
                if len(rows.batch) or rows.rejects:
                    empty.pop(manifest.split, None)
                findings.add_rows(rows)
                batch, rejects = self._resolve_rows(rows, place, findings)
                for reject in (*rows.rejects, *rejects):
                    if reject.records != 1:
                        raise _unreadable_error(manifest.path, reject.reason)
                    yield _number_reject(reject, place)
                if len(batch):
                    yield batch
        for split, manifest in empty.items():
            number = sum(other.split == split for other in self.manifests)
            given = f"{split}={manifest.path}" if split else manifest.path
            others = f", nor {'has' if number == 2 else 'have'} the other {number - 1:,}" if number > 1 else ""
            raise UserError(f"--manifest {given} has no rows{others}; expected one for each file")

    def _read_rows(self, path: str) -> Iterator[Rows]:
        read = self.names.format_of(path)
        named = (self.names.group_by, self.names.stratify_by)
        keys = [formats.KeyColumn(name) for name in named if name and name in self.columns.kept]
        with _reading(path):
            for block in _find_blocks(path, self.names):
                if isinstance(block, BlockRef):
                    for rows in read.read(block, self.columns.types, keys):
                        composed = formats.compose_keys(rows, block.file, keys, self.names.group_by)
                        yield composed if self.columns.change is None else self.columns.change(composed, path)

    def _resolve_rows(self, rows: Rows, place: int, findings: ManifestFindings) -> tuple[pa.RecordBatch, list[Reject]]:
        names, manifest = self.names, self.manifests[place]
        path, folder = manifest.path, manifest_folder(manifest.path)
        absent = [None] * len(rows.batch)
        texts = {
            column: rows.batch[column].to_pylist() if column in self.columns.types else absent
            for column in (*names.role_columns, *SIZE_COLUMNS)
        }
        compares_sizes = _compares_sizes(self.reserved, names)
        kept, cells, rejects = [], [], []
        for row, line in enumerate(rows.lines.tolist()):
            name = next((as_text(text) for column in names.file_columns if (text := texts[column][row])), "")
            if not name:
                rejects.append(Reject(path, line, "index", f"the row has no {' or '.join(names.file_columns)}"))
                continue
            name = _without_backslashes(name, folder, names, findings)
            try:
                identity, uri = found_files.resolve_name(names.path(name), folder, self.allow_outside)
                companions = [self._find_companion(item, texts[item.column][row], folder) for item in names.companions]
                label = _parse_label(texts[names.label_column][row], names.class_separator)
            except ValueError as error:
                rejects.append(Reject(name, line, "index", str(error)))
                continue
            split = as_text(text) if (text := texts[names.split_column][row]) else None
            if manifest.split and split is not None:
                raise UserError(
                    f"--manifest {manifest.split}={path}: line {line} has a split of its own, {split!r}; leave out the"
                    " column, or the split of the file"
                )
            sides = [None if (text := texts[side][row]) is None else as_text(text) for side in SIZE_COLUMNS]
            has_sizes = compares_sizes and sides != [None, None]
            if has_sizes and findings.add(_SIZES, identity) <= _COMPARED_SIZES:
                _compare_size(sides, uri or storage.join(folder, identity), path, line)
            of_file = (manifest.name(identity), 0, uri, label, manifest.split or split, number_line(place, line), None)
            cells.append((*of_file, None, companions) if names.companions else (*of_file, None))
            kept.append(row)
        columns = list(zip(*cells, strict=True)) or [()] * len(self.schema)
        batch = rows.batch.take(pa.array(kept, pa.int64()))
        found = convert_batch(columns, self.schema)
        compared = {f"\0{name}": found[name] for name in ("name", "label", "split")}  # lines do not count
        if names.companions:
            compared[f"\0{found_files.COMPANIONS.name}"] = pc.binary_join(found[found_files.COMPANIONS.name], "\0")
        compared |= {name: batch[name] for name in sorted(self.columns.kept)}
        hashes = np.ascontiguousarray(payload_hashes(encode_framed(to_batch(compared, len(found))), [0, 1]).T)
        digests = pa.Array.from_buffers(DIGEST.type, len(found), [None, pa.py_buffer(hashes)])
        found = found.set_column(len(found_files.FOUND), DIGEST, digests)
        further = [name for name in batch.schema.names if name in self.columns.kept or name.startswith(KEY_PREFIX)]
        return found_files.with_columns(found, {name: batch[name] for name in further}), rejects

    def _find_companion(self, item: found_files.Companion, value: bytes | None, folder: str) -> str:
        """Return the path of a companion that a row names; raise a ValueError if it is invalid."""
        if not value:
            raise ValueError(f"the row has no {item.column}")
        name = as_text(value)
        try:  # the suffix and root of the manifest's files are not those of an add-on's
            found, uri = found_files.resolve_name(
                self.names.path(name) if item.codec is None else name, folder, self.allow_outside
            )
        except ValueError as error:
            raise ValueError(f"{item.display_name}: {error}") from None
        return uri or storage.join(folder, found)


def _number_reject(reject: Reject, place: int) -> Reject:
    return replace(reject, stage="index", line=None if reject.line is None else number_line(place, reject.line))


def _parse_label(value: bytes | list[bytes] | None, separator: str) -> str | None:
    if isinstance(value, list):
        if b"" in value:
            raise ValueError(f"label {column_types.preview_value(list(map(as_text, value)))} has an empty name in it")
        return summary.encode_label_list(map(as_text, value))
    label = as_text(value) if value else None
    if label is not None and summary.is_encoded_list(label):
        raise ValueError(f"label {column_types.preview_value(label)} begins with a NUL character")
    return summary.encode_label_list(split_text(label or "", separator)) if separator else label
