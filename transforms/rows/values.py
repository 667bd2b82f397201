"""Values of Python programs as the plain values that rows are stored with: numbers, texts, bytes, lists and objects."""

import io
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from types import NoneType
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa

from shardmill.data.example import decode_example
from shardmill.text import is_unicode, shorten
from shardmill.transforms.columns.arrow import decode_array, time_texts
from shardmill.transforms.columns.types import values_of_type

_PLAIN = {str, int, float, bool, bytes, NoneType}
_FILE_FORMATS = ("JPEG", "PNG")  # of images whose file is stored as it is, by Pillow's names


class RefusedRow(NamedTuple):
    """A row that cannot be stored."""

    reason: str
    text: str  # the beginning of the row


class ValueRefusedError(ValueError):
    """A value that cannot be stored; the message is the reason."""


class _NanError(ValueRefusedError):
    """A value that is not a number."""


def to_plain_rows(rows: Sequence[Mapping[Any, Any]]) -> list[dict[str, Any] | RefusedRow]:
    """Return rows of plain values; of a row with others, these are converted, or the row is refused.

    * NumPy numbers become Python's, arrays and tuples become lists.
    * Dates, times, decimals and UUIDs become the text that Arrow casts them to.
    * Images of Pillow become the bytes of their JPEG or PNG file if they are as it was opened, or else PNG.
    """
    return list(rows) if _are_plain(rows) else [_to_plain_row(row) for row in rows]  # type: ignore[arg-type]


def copy_row(row: Any) -> Any:
    """Return a row for `to_plain_rows` that stays as it is if the program changes `row` or its values.

    Rows with a schema become dictionaries, see `row_of`.
    """
    if type(row) is dict and _PLAIN.issuperset(map(type, row.values())):
        return row.copy()
    found = row_of(row)
    return _to_plain_row(row if found is None else found)


def _are_plain(rows: Sequence[Mapping[Any, Any]]) -> bool:
    if set(map(type, rows)) != {dict}:
        return False
    values: list[Any] = list(chain.from_iterable(map(dict.values, rows)))  # type: ignore[arg-type]
    if not set(map(type, values)) <= _PLAIN:
        return False
    names = set().union(*rows)
    if not set(map(type, names)) <= {str}:
        return False
    floats = [value for value in values if type(value) is float]
    texts = [value for value in values if type(value) is str]
    return math.isfinite(sum(floats)) and is_unicode("".join(chain(names, texts)))


def plain_columns(rows: Sequence[Any]) -> dict[str, Sequence[Any]] | None:
    """Return the columns of dictionaries of plain scalars with the same keys in one order; None for any others."""
    if set(map(type, rows)) != {dict} or len(set(map(tuple, rows))) != 1 or not rows[0]:
        return None
    columns = dict(zip(rows[0], zip(*map(dict.values, rows), strict=True), strict=True))
    if set(map(type, columns)) != {str} or not is_unicode("".join(columns)):
        return None
    return columns if all(map(_is_plain_column, columns.values())) else None


def _is_plain_column(values: Sequence[Any]) -> bool:
    kinds = set(map(type, values))
    if not kinds <= _PLAIN:
        return False
    floats = values_of_type(values, float) if float in kinds else ()
    return math.isfinite(sum(floats)) and (str not in kinds or is_unicode("".join(values_of_type(values, str))))


def _to_plain_row(row: Any) -> dict[str, Any] | RefusedRow:
    plain: dict[str, Any] = {}
    if isinstance(row, RefusedRow):
        return row
    if not isinstance(row, Mapping):
        return RefusedRow(f"a {type(row).__name__} is no row; expected a dictionary", shorten(repr(row)))
    for name, value in row.items():
        try:
            plain[_to_plain_key(name)] = _to_plain(value)
        except (ValueRefusedError, RecursionError) as error:
            reason = "a value nested too deep" if isinstance(error, RecursionError) else error
            prefix = f"column {name!r}: " if isinstance(name, str) else ""
            return RefusedRow(f"{prefix}{reason}", describe_row(row))
    return plain


def describe_row(row: Mapping[Any, Any]) -> str:
    """Return the beginning of a row as text."""
    shown = [f"{key!r}: {_describe_value(value)}" for key, value in list(row.items())[:_MOST_SHOWN]]
    return shorten(f"{{{', '.join(shown)}}}")


def describe_record(record: bytes) -> str:
    """Return the beginning of a serialized tf.train.Example, or of other bytes, as text."""
    try:
        features = {name: list(values) for name, values in decode_example(record).items()}
        return describe_row({name: values[0] if len(values) == 1 else values for name, values in features.items()})
    except ValueError:
        return _describe_value(record)


_MOST_SHOWN = 20  # values of a row, and letters of a text


def _describe_value(value: Any) -> str:
    if isinstance(value, bytes | str):
        return repr(value) if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]!r}…"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, np.number):
        value = value.item()
    return f"{value!r}" if isinstance(value, int | float | NoneType) else f"a {type(value).__name__}"


def _to_plain_key(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueRefusedError(f"the key {name!r} is no string; expected names of columns")
    if not is_unicode(name):
        raise ValueRefusedError(f"the key {name!r} is no valid Unicode")
    return str(name)


def _to_plain(value: Any) -> Any:
    """Return one plain value, also of what is inside of it; raise ValueRefusedError for one that is not stored."""
    kind = type(value)
    if kind in (int, bool, bytes, NoneType):
        return value
    if kind is list or kind is tuple:
        kinds = set(map(type, value))
        if kinds <= {int} or (kinds <= {int, float} and math.isfinite(sum(value))):
            return list(value)
        return _to_plain_list(value)
    if kind is float:
        return _to_finite(value)
    if isinstance(value, str):
        if not is_unicode(value):
            raise ValueRefusedError(f"{shorten(repr(value))} is no valid Unicode")
        return str(value)
    if isinstance(value, Mapping):
        return {_to_plain_key(name): _to_plain(item) for name, item in value.items()}
    return _to_plain_other(value)


def _to_plain_list(values: Iterable[Any]) -> list[Any]:
    try:
        return [_to_plain(item) for item in values]
    except _NanError:  # None would not help: no feature holds lists with missing values
        raise ValueRefusedError(
            "nan in a list or array may be a number or a missing value; put a number in its place, as numpy.nan_to_num"
            " does"
        ) from None


def _to_finite(value: float) -> float:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        raise _NanError(
            "nan may be a number or a missing value; give None for a missing value, or a pyarrow.RecordBatch, whose nan"
            " stays a number"
        )
    raise ValueRefusedError(f"{value} is not finite; expected a number, or None for a missing value")


def _to_plain_other(value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return _to_finite(float(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, date | time | np.datetime64):
        return None if value != value else _to_arrow_text(value)  # as NaT is
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueRefusedError(f"{value} is not finite; expected a number, or None for a missing value")
        return format(value, "f")
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, list | tuple):
        return _to_plain_list(value)
    if _is_image(value):
        return encode_image(value)
    if isinstance(value, ValueError):  # in place of a value that a source could not read
        raise ValueRefusedError(str(value))
    if hasattr(value, "__array__"):  # arrays of NumPy, and tensors
        try:
            array = np.asarray(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueRefusedError(f"a {type(value).__name__} is no array: {error}") from None
        if array.dtype.kind in "biu":
            return array.tolist()
        if array.dtype.kind in "fUSOM":
            return _to_plain(array.astype(object).tolist() if array.dtype.kind != "M" else _list_times(array))
    raise ValueRefusedError(
        f"a {type(value).__name__} is not stored; expected numbers, texts, bytes, dates, lists or dictionaries of"
        " these, NumPy arrays, or images of Pillow"
    )


def _list_times(times: np.ndarray) -> Any:
    """Return an array of np.datetime64 as nested lists, whose items keep their unit."""
    return times[()] if not times.ndim else [_list_times(item) for item in times]


def _to_arrow_text(value: Any) -> str | None:
    if isinstance(value, time) and value.tzinfo is not None:
        raise ValueRefusedError(f"{value!r} is not stored: a time without a date has no offset; give its isoformat()")
    offset = value.utcoffset() if isinstance(value, datetime) else None
    if offset is not None and offset.seconds % 60 and not offset.microseconds:  # which Arrow refuses
        return f"{_to_arrow_text(value.replace(tzinfo=None))}{value:%z}"
    try:
        array = pa.array(np.atleast_1d(value) if isinstance(value, np.datetime64) else [value])
        text: str | None = time_texts(decode_array(array))[0].as_py()
        if text is None and array.null_count == 0:
            raise ValueError("it is beyond the years -32767 to 32767")
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise ValueRefusedError(f"{value!r} is not stored: {str(error).splitlines()[0]}") from None
    return text


def _is_image(value: Any) -> bool:
    kind = getattr(sys.modules.get("PIL.Image"), "Image", None)
    return kind is not None and isinstance(value, kind)


def encode_image(image: Any) -> bytes:
    """Return the JPEG or PNG file that a Pillow image was opened from, if no pixel is decoded yet; otherwise PNG.

    Raises:
        ValueRefusedError: if PNG has no such pixels.
    """
    if getattr(image, "tile", None) and image.format in _FILE_FORMATS and image.fp is not None:
        at = image.fp.tell()
        image.fp.seek(0)
        data: bytes = image.fp.read()
        image.fp.seek(at)
        return data
    written = io.BytesIO()
    try:
        image.save(written, "PNG")
    except (OSError, ValueError) as error:
        raise ValueRefusedError(f"an image cannot be written as PNG: {error}") from None
    return written.getvalue()


def image_columns(rows: Iterable[Mapping[Any, Any]]) -> set[str]:
    """Return the names of the columns that hold images of Pillow."""
    if "PIL.Image" not in sys.modules:
        return set()
    return {name for row in rows for name, value in row.items() if type(value) not in _PLAIN and _is_image(value)}


def row_of(element: Any) -> Mapping[Any, Any] | None:
    """Return the values by name of a dictionary or of a row with a schema; None for an element of another kind.

    A row with a schema is a `beam.Row`, a NamedTuple or an instance of a dataclass.
    """
    if isinstance(element, Mapping):
        return element
    if hasattr(element, "_asdict"):
        return element._asdict()
    if is_dataclass(element) and not isinstance(element, type):
        return {field.name: getattr(element, field.name) for field in fields(element)}
    return None
