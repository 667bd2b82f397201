"""What Hugging Face's datasets library writes of a table's columns, beside their types. Pure.

Source: datasets 4, Features.to_dict below `huggingface` in the schema's metadata; Image and Audio are stored as a
struct of `bytes` and `path`, ClassLabel as its ids.
"""

import json
from typing import Any

import pyarrow as pa

from transforms.columns.arrow_lists import is_list
from transforms.columns.inferred import Told

_KEY = b"huggingface"
_FIELDS = {"bytes", "path"}
_IS_BINARY = (pa.types.is_binary, pa.types.is_large_binary)
AUDIO = "audio"
BOX = "bbox"  # of an object in an image: [x, y, width, height]


def told_columns(schema: pa.Schema) -> dict[str, Told]:
    """What the metadata of a schema tells; nothing where it has none, or is none of Hugging Face's."""
    try:
        features = json.loads((schema.metadata or {}).get(_KEY, b"{}"))["info"]["features"]
        return {name: told for name, feature in features.items() if (told := _told(feature)) is not None}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _told(feature: Any) -> Told | None:
    if isinstance(feature, list) and len(feature) == 1:
        feature = {"_type": "List", "feature": feature[0]}
    if not isinstance(feature, dict):
        return None
    kind = feature.get("_type")
    if kind in ("Sequence", "List", "LargeList"):
        inner = _told(feature.get("feature"))
        return inner if inner is not None and inner.kind == "class_label" else None
    if kind == "ClassLabel" and all(isinstance(name, str) for name in feature["names"]):
        return Told("class_label", frozenset({tuple(feature["names"])}))
    return Told("image", is_complete=True) if kind == "Image" else Told("audio") if kind == "Audio" else None


def is_file(kind: pa.DataType) -> bool:
    """Whether a column of this type holds files as Hugging Face has them: their bytes, and what they were called."""
    if not pa.types.is_struct(kind):
        return False
    fields = {kind.field(index).name: kind.field(index).type for index in range(kind.num_fields)}
    return fields.keys() <= _FIELDS and "bytes" in fields and any(test(fields["bytes"]) for test in _IS_BINARY)


def is_list_of_files(kind: pa.DataType) -> bool:
    """Whether a column of this type holds lists of such files."""
    return is_list(kind) and is_file(kind.value_type)


def object_fields(kind: pa.DataType) -> dict[str, pa.DataType]:
    """What a column of this type says of objects in images, by the names of its fields: lists of one length, or a list
    of such; nothing where it says of none where it is."""
    kind = kind.value_type if is_list(kind) else kind
    if not pa.types.is_struct(kind) or kind.get_field_index(BOX) < 0:
        return {}
    return {kind.field(place).name: kind.field(place).type for place in range(kind.num_fields)}
