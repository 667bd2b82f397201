"""Call a user's function with each file of the input, and spool the rows that it returns."""

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from apache_beam.pvalue import TaggedOutput
from PIL import Image

from shardmill.addons.mapping.findings import MapCalls
from shardmill.addons.mapping.function import FunctionError, UserFunction, is_same, is_sampled, record_seed
from shardmill.addons.mapping.records import FINDINGS, STAGE
from shardmill.addons.mapping.spool import MappedSpool, make_key, name_file
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import as_text
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.files.encoding import Encoded, FileEncoder, describe_refusal
from shardmill.transforms.files.references import find_roles
from shardmill.transforms.findings import Findings
from shardmill.transforms.formats.format import FileRef, Rows, key_column_name
from shardmill.transforms.inputs.findings import REJECTS
from shardmill.transforms.inputs.found_files import columns_of
from shardmill.transforms.inputs.summary import decode_label_list
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.layout.tables import TableLayout
from shardmill.transforms.options.job_options import ROW_FILE, ROW_KEY
from shardmill.transforms.records.encoding import PreparedRows, TableEncoder
from shardmill.transforms.rows.values import RefusedRow, image_columns, to_plain_rows
from shardmill.transforms.workers.rejects import RejectsWriter

_FILES_AT_ONCE = 64
_LARGE = 1 << 30  # bytes: so that a sample of files is run twice, and not all
_MODES_OF_PNG = {"1", "I", "I;16", "L", "LA", "P", "RGB", "RGBA"}  # of Pillow's images, which it writes as PNG


@dataclass(frozen=True)
class FileMap:
    """Parameters of `map_files`: how files are read, and the function."""

    function: UserFunction
    encoder: FileEncoder  # reads and checks a file; its value is what the function gets
    seed: int  # of random numbers
    group_by: str | None = None  # of --group_by
    quality: int = 95  # of JPEG, for images that the function has changed


def slice_files(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the parts of a batch of found files that are called one after the other."""
    for start in range(0, len(batch), _FILES_AT_ONCE):
        yield batch.slice(start, _FILES_AT_ONCE)


def map_files(mapping: FileMap, temporary: str, batch: pa.RecordBatch, layout: Layout) -> list[Any]:
    """Return tasks of what the function returns for found files, its rejects, and its findings."""
    found, rejects, spool = MapCalls(str(mapping.function)), RejectsWriter(temporary), MappedSpool(temporary)
    places = {split: FileRef(f"{split}/files" if split else "files", "", 0) for split in ("", *layout.splits)}
    mapping = replace(mapping, encoder=mapping.encoder.of_layout(layout))
    with mapping.function.calling() as call:
        for item in _read_files(mapping, batch, layout):
            if isinstance(item, Reject):
                refused: list[Reject] = [item]
            else:
                split = item.split if layout.fractions is None else ""
                refused = _map_file(mapping, call, item, places[split], spool, found)
            rejects.add(refused)
            found.rejected += sum(reject.counted_records for reject in refused)
    out: list[Any] = [(block,) for block in spool.close()]
    return [
        *out,
        *(TaggedOutput(REJECTS, part) for part in rejects.close()),
        TaggedOutput(FINDINGS, Findings.of(found)),
    ]


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    line: int | None  # in the manifest
    split: str  # "" if fractions decide it
    group: str  # whose files stay in one split
    encoded: Encoded
    columns: Mapping[str, Any] = field(default_factory=dict)  # further values that the function gets


def _read_files(mapping: FileMap, batch: pa.RecordBatch, layout: Layout) -> Iterator[_File | Reject]:
    contents = mapping.encoder.read_values(batch)
    found = {name: array.to_pylist() for name, array in columns_of(batch).items() if name in layout.columns}
    roles = find_roles(batch, layout, mapping.group_by)
    known = (batch["name"], batch["line"], *(roles[name] for name in ("label", "split", "group", "problem")))
    rows = zip(*(column.to_pylist() for column in known), contents, strict=True)
    for row, (name, line, label, split, group, problem, content) in enumerate(rows):
        if isinstance(content, Exception):
            yield Reject(name, line, "read", describe_refusal(content))
            continue
        if problem is not None:
            yield Reject(name, line, "index", problem)
            continue
        columns = {
            each: _typed(found[each][row], column) if each in found else None for each, column in layout.columns.items()
        }
        own = {} if layout.class_names is None else {"label": label if label is None else _labels(label)}
        yield _File(name, line, split, group, content, {**own, "filename": name, **columns})


def _labels(label: str) -> Any:
    names = decode_label_list(label)
    return label if names is None else names


def _typed(value: Any, column: ColumnType) -> Any:
    """Return a value of a manifest's column, in which booleans are 0 and 1, and nested lists are flat."""
    if isinstance(value, list):
        for size in reversed(column.item_shape):
            value = [value[start : start + size] for start in range(0, len(value), size)]
        return [_typed(item, replace(column, item_shape=())) for item in value]
    if value is None or column.dtype in ("int64", "float32"):
        return value
    return bool(value) if column.dtype == "bool" else as_text(value)


def _map_file(
    mapping: FileMap, call: Callable[..., list[Any]], file: _File, place: FileRef, spool: MappedSpool, found: MapCalls
) -> list[Reject]:
    feature, line = mapping.encoder.feature, file.line or 0
    seed = record_seed(file.name, line, mapping.seed)
    try:
        again = call(_make_row(mapping.encoder, file), seed) if is_sampled(seed, _LARGE) else None
        row = _make_row(mapping.encoder, file)
        given = row[feature]
        is_image = isinstance(given, Image.Image)
        returned = call(row, seed)
        if again is not None:
            found.count_repeated((file.name, line), is_same(again, returned))
        if is_image:
            returned = [_with_image(each, feature, given, file.encoded.value, mapping.quality) for each in returned]
    except FunctionError as error:
        return [Reject(file.name, file.line, STAGE, str(error))]
    rows = to_plain_rows(returned) if returned else []
    images = image_columns(returned) | ({feature} if is_image and any(feature in row for row in returned) else set())
    if (refused := next((each for each in rows if isinstance(each, RefusedRow)), None)) is not None:
        return [Reject(file.name, file.line, STAGE, refused.reason)]
    found.count((file.name, line), len(rows))
    for number, each in enumerate(rows):
        assert isinstance(each, dict)
        key = make_key(file.name, line, number)
        number = xxhash.xxh3_64_intdigest(key.encode("utf-8", "surrogateescape")) >> 2  # 62 bits, in place of a line
        spool.add_rows(place, number, [{**each, ROW_KEY: key, ROW_FILE: file.group}], images)
    return []


def _make_row(encoder: FileEncoder, file: _File) -> dict[str, Any]:
    """Return the argument of the function: the content of the file, with what else is known of it."""
    try:
        return {**encoder.as_columns(file.encoded), **file.columns}
    except ValueError as error:
        raise FunctionError(str(error)) from None


def _with_image(row: dict[str, Any], feature: str, given: Any, data: bytes, quality: int) -> dict[str, Any]:
    """Return a row with its image as the bytes of a file: those of the input if no pixel has changed."""
    value = row.get(feature)
    if isinstance(value, np.ndarray):
        kind = f"{value.dtype} and the shape {value.shape}"
        try:
            value = Image.fromarray(value)
        except (TypeError, ValueError) as error:
            raise FunctionError(f"column {feature!r}: an array of {kind} is no image: {error}") from None
    if not isinstance(value, Image.Image):
        return row
    if value is given and (getattr(value, "tile", None) or _has_same_pixels(value, data)):
        return {**row, feature: data}
    out = io.BytesIO()
    kind = "JPEG" if given.format == "JPEG" else "PNG"
    try:
        value.save(out, kind, **({"quality": quality} if kind == "JPEG" else {}))
    except (OSError, ValueError) as error:
        remedy = "; --image_format png stores it" if kind == "JPEG" and value.mode in _MODES_OF_PNG else ""
        raise FunctionError(f"column {feature!r}: an image cannot be written as {kind}: {error}{remedy}") from None
    return {**row, feature: out.getvalue()}


def _has_same_pixels(image: Image.Image, data: bytes) -> bool:
    with Image.open(io.BytesIO(data)) as original:
        return (image.mode, image.size) == (original.mode, original.size) and image.tobytes() == original.tobytes()


@dataclass(frozen=True)
class FileRowEncoder(TableEncoder):
    """Encoder of rows that a function made of files; rejects name the file."""

    def prepare(self, rows: Rows, file: FileRef, layout: TableLayout) -> tuple[PreparedRows, list[Reject]]:
        prepared, rejects = super().prepare(rows, file, layout)
        if not rejects:
            return prepared, rejects
        keys = dict(zip(rows.lines.tolist(), rows.batch[key_column_name(ROW_KEY)].to_pylist(), strict=True))
        return prepared, [name_file(reject, as_text(keys[reject.line])) for reject in rejects]
