"""An Avro schema as Arrow's types, and as fastavro decodes it.

Source: Apache Avro 1.12, Specification, "Logical Types" (https://avro.apache.org/docs/1.12.0/specification/).
"""

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from shardmill.transforms.columns.arrow_values import UnsupportedTypeError, spelled_type

_MAX_DIGITS = 76  # of pa.decimal256
_EXACT = Context(prec=10 * _MAX_DIGITS)  # digits: more than any value has, so that none is rounded


_PRIMITIVE = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.large_binary(),
    "string": pa.large_binary(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    **{
        ("long", f"timestamp-{word}"): pa.timestamp(unit, "UTC")
        for word, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
    **{
        ("long", f"local-timestamp-{word}"): pa.timestamp(unit)
        for word, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}


def kinds_of(fields: Sequence[Any], named: Mapping[str, Any]) -> dict[str, pa.DataType | str]:
    """What Arrow calls the values of each field, whose types may be `named` ones; in words where no feature can hold
    them."""
    kinds: dict[str, pa.DataType | str] = {}
    for field in fields:
        try:
            kind = _kind(field["type"], named)
            spelled_type(kind)
            kinds[field["name"]] = kind
        except UnsupportedTypeError as error:
            kinds[field["name"]] = str(error)
    return kinds


def _kind(schema: Any, named: Mapping[str, Any]) -> pa.DataType:
    """What Arrow calls the values of a schema; raises UnsupportedTypeError in words."""
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) > 1:
            names = [branch["type"] if isinstance(branch, dict) else branch for branch in branches]
            raise UnsupportedTypeError(f"a union of {', '.join(names[:-1])} and {names[-1]}")
        return _kind(branches[0], named) if branches else pa.null()
    if isinstance(schema, str):
        return _PRIMITIVE[schema] if schema in _PRIMITIVE else _kind(named[schema], named)
    kind, logical = schema["type"], schema.get("logical")
    if kind in ("record", "error", "map"):
        raise UnsupportedTypeError("a map" if kind == "map" else "a record")
    if kind == "array":
        return pa.large_list(_kind(schema["items"], named))
    if kind == "enum":
        return pa.large_string()
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision", 0), schema.get("scale", 0)
        if precision > _MAX_DIGITS:
            raise UnsupportedTypeError(f"a decimal of {precision} digits")
        if kind == "fixed":
            precision = precision if precision < len(str((1 << 8 * schema["size"]) >> 1)) else 0
        if 0 <= scale <= precision and precision:  # else it is to be passed over, says the specification
            return pa.decimal256(_MAX_DIGITS, scale)
    if kind == "fixed":
        return pa.large_binary()
    return _LOGICAL.get((kind, logical)) or _kind(kind, named)


def as_stored(schema: Any) -> Any:
    """A schema of the same bytes, whose strings are bytes of any encoding, and whose logical types are left to
    Arrow."""
    if isinstance(schema, list):
        several = len(schema) > 2  # a union may not have bytes twice
        return [branch if several and branch == "string" else as_stored(branch) for branch in schema]
    if not isinstance(schema, dict):
        return "bytes" if schema == "string" else schema
    kept = {
        name: value
        for name, value in schema.items()
        if name in ("name", "namespace", "size", "symbols", "precision", "scale")
    }
    kept |= {"logical": schema["logicalType"]} if "logicalType" in schema else {}
    kept |= {name: as_stored(schema[name]) for name in ("type", "items", "values") if name in schema}
    return kept | ({"fields": [as_stored(field) for field in schema["fields"]]} if "fields" in schema else {})


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as fastavro decodes them by `as_stored`, as an array of a kind of `kinds_of`."""
    item = _item(kind)
    return pa.array(_decimals(values, item.scale) if pa.types.is_decimal(item) else values, kind)


def _item(kind: pa.DataType) -> pa.DataType:
    return _item(kind.value_type) if pa.types.is_large_list(kind) else kind


def _decimals(value: Any, scale: int) -> Any:
    """Decimals for their integers, in two's complement and big-endian, and for lists of them."""
    if isinstance(value, list):
        return [_decimals(item, scale) for item in value]
    return None if value is None else Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _EXACT)
