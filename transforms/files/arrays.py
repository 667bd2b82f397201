"""Encode .npy and TIFF files as examples, with their array type, features and statistics."""

import io
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.lib import format as npy

from shardmill.data.features import NO_RENAMES, Feature, Features, Renames
from shardmill.errors import UserError
from shardmill.quality.stats_file import FeatureSummary
from shardmill.quality.stats_values import Numbers
from shardmill.text import plural
from shardmill.transforms.columns.example_encoding import MAX_RECORD_BYTES
from shardmill.transforms.columns.types import format_shape
from shardmill.transforms.files import encoding
from shardmill.transforms.files.encoding import Encoded, FileEncoder, LabelledStats, ManifestColumns, file_features
from shardmill.transforms.files.image_features import nodata_notices
from shardmill.transforms.files.image_geometry import ImageError
from shardmill.transforms.files.image_headers import describe_foreign
from shardmill.transforms.files.tiff import is_tiff, read_tiff
from shardmill.transforms.files.tiff import read_array as read_tiff_array
from shardmill.transforms.findings import Occurrences, merged, merged_by
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.files import Layout, make_layout
from shardmill.transforms.layout.options import FileLayoutOptions
from shardmill.transforms.options.image_options import ELEMENTS, MAX_DIMENSIONS
from shardmill.transforms.statistics.files import ClassNames, SplitStats, summarize_labels
from shardmill.transforms.statistics.images import NumberStats
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import error_text
from shardmill.transforms.stores.storage import raise_if_store_failed

HEADER_BYTES = 1 << 16  # a header of numbers is 128; one of 10,000 is refused by NumPy
_SHOWN = 20  # bytes of what is no .npy file


class NpyError(ValueError):
    """The reason to reject a .npy file, as written to rejects/."""


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The type of all arrays of a data set."""

    element: str  # one of ELEMENTS
    shape: tuple[int | None, ...]  # the first size is None if it varies

    def __str__(self) -> str:
        return f"{self.element} of {format_shape(self.shape)}" if self.shape else f"a single {self.element}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape without a varying first size."""
        return tuple(size for size in self.shape if size is not None)

    @property
    def size_bytes(self) -> int:
        """Bytes of an array, or of one row if the first size varies."""
        return math.prod(self.sizes) * np.dtype(self.element).itemsize

    def holds(self, other: "ArrayType") -> bool:
        """Return True if an array of type `other` conforms to this type."""
        if None not in self.shape:
            return self == other
        return self.element == other.element and len(other.shape) > 0 and (None, *other.shape[1:]) == self.shape


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a .npy file."""

    type: ArrayType  # type of the array
    dtype: "np.dtype[np.generic]"  # as stored, in either byte order
    column_major: bool  # True for Fortran's order
    offset: int  # where the values begin


def read_header(data: bytes) -> Header:
    """Read the header of a .npy file from its first HEADER_BYTES; raise an NpyError for what no data set holds."""
    if not data.startswith(npy.MAGIC_PREFIX):
        raise NpyError(_describe_other(data))
    file = io.BytesIO(data)
    try:
        with warnings.catch_warnings(action="ignore"):  # of headers that Python 2 wrote
            version = npy.read_magic(file)
            if version not in ((1, 0), (2, 0), (3, 0)):
                raise NpyError(f".npy of version {version[0]}.{version[1]}; expected 1.0, 2.0 or 3.0")
            # Version 3 differs from 2 in the names of structured types alone, which are refused.
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, column_major, dtype = read(file)
    except NpyError:
        raise
    except Exception as error:  # NumPy evaluates the header as Python, which fails in many ways
        raise NpyError(f"its header cannot be read: {error_text(error)[:100]}") from None
    return Header(check_array_type(dtype, shape), dtype, column_major, file.tell())


def tiff_to_npy(data: bytes) -> bytes:
    """Return the bands and pages of a TIFF as a .npy file, and other data unchanged; raise an NpyError for damage."""
    if not is_tiff(data):
        return data
    try:
        array = read_tiff_array(data)
    except ImageError as error:
        raise NpyError(str(error)) from error
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def read_array(data: bytes, expected: ArrayType | None = None, example: str = "") -> bytes:
    """Return the little-endian, row-major values in a .npy or TIFF file; raise an NpyError if not as `expected`."""
    data = tiff_to_npy(data)
    header = read_header(data)
    if expected is not None and not expected.holds(header.type):
        origin = f"in {example}" if example else "--shape and --dtype say"
        is_other_dtype = expected.holds(replace(header.type, element=expected.element))
        remedy = f"; save array.astype({expected.element!r}) in its place" if is_other_dtype else ""
        raise NpyError(f"{header.type}; expected {expected}, as {origin}{remedy}")
    more = len(data) - header.offset - header.type.size_bytes
    if more < 0:
        raise NpyError(f"truncated: {-more:,} of the {header.type.size_bytes:,} bytes of {header.type} are missing")
    if more:
        raise NpyError(f"{more:,} bytes follow {header.type}; expected one array and no more")
    wanted = header.dtype.newbyteorder("<")
    if header.dtype == wanted and not (header.column_major and len(header.type.shape) > 1):
        return data[header.offset :]
    array = np.frombuffer(data, header.dtype, offset=header.offset)
    shaped = array.reshape(header.type.sizes, order="F" if header.column_major else "C")
    return shaped.astype(wanted, order="C").tobytes()


def check_array_type(dtype: "np.dtype[np.generic]", shape: tuple[int, ...]) -> ArrayType:
    """Return the type of an array of `dtype` and `shape`; raise an NpyError for what no data set holds."""
    if dtype.kind not in "biufc" or dtype.subdtype is not None:
        raise NpyError(f"an array of dtype {str(dtype)[:40]}; only numbers and booleans can be read")
    if dtype.name not in ELEMENTS:
        raise NpyError(
            f"an array of {dtype.name}, which tf.io.decode_raw does not read; expected one of {', '.join(ELEMENTS)}"
        )
    found = ArrayType(dtype.name, tuple(map(int, shape)))
    if any(size < 0 for size in found.sizes):
        raise NpyError(f"its header claims {found}")
    if len(found.shape) > MAX_DIMENSIONS:
        raise NpyError(f"an array of {len(found.shape)} dimensions; expected {MAX_DIMENSIONS} at most")
    if 0 in found.shape:
        raise NpyError(f"{found} holds no values")
    return found


def _describe_other(data: bytes) -> str:
    if not data:
        return "the file is empty"
    if data.startswith(b"\x80") and data[1:2] <= b"\x05":
        return "not .npy, but a pickle, which may run code and is never loaded; save the array with numpy.save"
    if what := describe_foreign(data):
        return f"not .npy, but {what}; save the array with numpy.save"
    return f"not .npy: it begins with {ascii(data[:_SHOWN])[1:]}"


_REMEDY = "give --shape and --dtype, such as --shape 64,64 --dtype float32"
_ROOM = 1 << 20  # in a record, for everything except the array


@dataclass(frozen=True, slots=True)
class ArrayOptions:
    """User options about arrays."""

    root: str  # folder that names are relative to
    feature: str = "image"  # name of the arrays' feature
    given: ArrayType | None = None  # type of all arrays; None to take the first array's
    pattern: str = ""  # folder or glob of --input


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayLayout(Layout):
    """The layout of a data set of arrays: labels, splits and the type of all arrays."""

    array: ArrayType  # type of all arrays
    example: str  # file that determined the type; "" if --shape and --dtype did


def make_array_layout(summary: InputSummary, options: FileLayoutOptions, arrays: ArrayOptions) -> ArrayLayout:
    """Return the layout with the type of all arrays, given or the first file's, or raise a UserError."""
    layout = make_layout(summary, options)
    if arrays.given is not None:
        _check_size(arrays.given, "--shape and --dtype: ", "")
        return _replace_array(layout, arrays.given, "")
    if summary.first_file is None:
        raise UserError(f"{options.source} has no file that says what the arrays are; {_REMEDY}")
    name, uri = summary.first_file
    what = f"{options.source}: {name!r}, the first file by name, does not say what the arrays are: "
    try:
        with storage.open_read(uri or storage.join(arrays.root, name)) as file:
            head = file.read(HEADER_BYTES)
            found = read_header(tiff_to_npy(head + file.read()) if is_tiff(head) else head).type
    except (NpyError, FileNotFoundError) as error:
        remedy = "" if str(error).startswith(("not .npy, but", "an array of")) else f"; {_REMEDY}"
        raise UserError(f"{what}{'no such file' if isinstance(error, OSError) else error}{remedy}") from None
    except OSError as error:
        raise_if_store_failed(error, uri or arrays.root)
        raise UserError(f"{what}it cannot be read: {error_text(error)}; {_REMEDY}") from None
    _check_size(found, what, f"; {_REMEDY}")
    notice = f"the arrays are {found}, as is {name!r}, the first by name; others are rejected"
    return _replace_array(replace(layout, notices=(*layout.notices, notice)), found, name)


def make_typed_layout(summary: InputSummary, options: FileLayoutOptions, array: ArrayType) -> ArrayLayout:
    """Return the layout of arrays whose type is known; raise a UserError if one does not fit into an example."""
    _check_size(array, "", "")
    return _replace_array(make_layout(summary, options), array, "")


def _replace_array(layout: Layout, array: ArrayType, example: str) -> ArrayLayout:
    return ArrayLayout(
        **{item.name: getattr(layout, item.name) for item in fields(layout)}, array=array, example=example
    )


def _check_size(array: ArrayType, what: str, remedy: str) -> None:
    if array.size_bytes > MAX_RECORD_BYTES - _ROOM:
        raise UserError(f"{what}{array} is {array.size_bytes:,} bytes; an example holds 2 GB at most{remedy}")


@dataclass(slots=True)
class ArrayStats(LabelledStats):
    """Statistics of arrays: sizes in bytes, the range of finite values unless complex, and labels by id."""

    feature: str
    sizes: NumberStats = field(default_factory=NumberStats)
    low: int | float = merged_by(min, default=math.inf)
    high: int | float = merged_by(max, default=-math.inf)
    odd: dict[str, Occurrences] = field(default_factory=dict)  # numbers that are `NaN` or `infinite`, with a file
    nodata: dict[str, Occurrences] = field(default_factory=dict)  # files by the value that a tag calls no data

    def add(self, data: bytes, element: str, name: str) -> None:
        """Count the values of the array in the file called `name`; minimum and maximum are exact in any order."""
        self.sizes.add([len(data)])
        values = np.frombuffer(data, np.dtype(element).newbyteorder("<"))
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            if not finite.all():
                nan = int(np.count_nonzero(np.isnan(values)))
                infinite = len(values) - int(np.count_nonzero(finite)) - nan
                for what, number in (("NaN", nan), ("infinite", infinite)):
                    merged(self.odd, {what: Occurrences(number, name)} if number else None)
                values = values[finite]
        if values.dtype.kind != "c" and len(values):
            # -0.0 becomes 0.0, or the order would show; a boolean becomes an integer
            self.low, self.high = min(self.low, values.min().item() + 0), max(self.high, values.max().item() + 0)

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        """Return a split's statistics by feature, as written to stats.json."""
        nan, infinity = (self.odd[what].number if what in self.odd else 0 for what in ("NaN", "infinite"))
        low, high = (self.low, self.high) if self.low <= self.high else (None, None)
        values = Numbers(minimum=low, maximum=high, nan=nan, infinity=infinity)
        array = FeatureSummary(size_bytes=self.sizes.summary(), values=None if values == Numbers() else values)
        return {self.feature: array, **summarize_labels(self.labels, class_names)}


@dataclass(frozen=True)
class ArrayEncoder(FileEncoder):
    """Encoder of arrays as tf.train.Example: the array, label, filename, manifest columns."""

    refusal = NpyError
    reason_options = ("example",)

    root: str  # folder that names are relative to
    feature: str = "image"  # name of the array's feature
    expected: ArrayType | None = None  # type of all arrays; others are rejected
    example: str = ""  # file that determined the type, for rejects; "" if --shape and --dtype did
    renames: Renames = NO_RENAMES  # of features
    columns: ManifestColumns = ()  # of a manifest

    def of_layout(self, layout: Layout) -> "ArrayEncoder":
        assert isinstance(layout, ArrayLayout)
        return replace(super().of_layout(layout), expected=layout.array, example=layout.example)

    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        assert self.expected is not None
        data = storage.read_bytes(path) if data is None else data
        value = read_array(data, self.expected, self.example)
        return Encoded(value, stats_data=read_tiff(data).nodata if is_tiff(data) else "")

    def remember(self, encoded: Encoded) -> str:
        return str(encoded.stats_data or "")

    def recall(self, value: bytes, remembered: str, record: bytes = b"") -> Encoded:
        return Encoded(value, stats_data=remembered)

    def as_columns(self, encoded: Encoded) -> dict[str, Any]:
        """Return the array in its shape and type, which may be written to."""
        assert self.expected is not None
        values = np.frombuffer(bytearray(encoded.value), np.dtype(self.expected.element).newbyteorder("<"))
        return {self.feature: values.reshape([-1 if size is None else size for size in self.expected.shape])}

    def count(self, files: Sequence[Encoded], labels: Counter[int], spans: encoding.RecordSpans) -> ArrayStats:
        assert self.expected is not None
        stats, names = ArrayStats(self.feature, labels=labels), [name for name, _, _ in spans]
        for file, name in zip(files, names, strict=True):
            stats.add(file.value, self.expected.element, name)
        stats.nodata = Occurrences.of_texts([file.stats_data for file in files], names)
        return stats

    def describe(
        self, summary: InputSummary, layout: Any, stats: Sequence[SplitStats] = (), for_tfds: bool = True
    ) -> tuple[Features, Sequence[str]]:
        array = Feature(self.feature, "bytes", "array", layout.array.shape, element=layout.array.element)
        total = ArrayStats(self.feature)
        for of_split in stats:
            if isinstance(of_split, ArrayStats):
                total.merge(of_split)
        notices = [
            f"of the arrays, {plural(count, 'number is', 'numbers are')} {what}, the first in {name!r}"
            for what, (count, name) in sorted(total.odd.items())
        ]
        return file_features(layout, summary.records, array), [*notices, *nodata_notices(total.nodata)]
