"""What Hugging Face's datasets library writes of a table's columns, beside their types. Pure.

Source: datasets 4, Features.to_dict below `huggingface` in the schema's metadata; Image and Audio are stored as a
struct of `bytes` and `path`, ClassLabel as its ids.
"""

import json
from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shardmill.transforms.columns.arrow_lists import is_list
from shardmill.transforms.columns.inferred import Told, ToldObjects

_KEY = b"huggingface"
_FIELDS = {"bytes", "path"}
_IS_BINARY = (pa.types.is_binary, pa.types.is_large_binary)
AUDIO = "audio"
OBJECTS = "objects"  # the column of what is in images
BOX = "bbox"  # of an object in an image: [x, y, width, height]
LABELS = ("category", "categories", "category_id", "category_ids", "label", "labels", "class", "classes")  # of one


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


def objects_of_schema(schema: pa.Schema) -> Told | None:
    """What a schema tells of its column of objects in images; None where it has none."""
    if OBJECTS not in schema.names or not (fields := object_fields(schema.field(OBJECTS).type)):
        return None
    label = label_key(fields)
    of_label = fields.get(label, pa.null())
    numbered = pa.types.is_integer(of_label.value_type if is_list(of_label) else of_label)
    names = _class_names(schema, label)
    objects = ToldObjects(tuple(sorted(fields)), numbered)
    return Told("bbox", frozenset({names} if names else ()), objects=frozenset({objects}))


def label_key(keys: Collection[str]) -> str:
    """Which of the names that objects have for what is said of them is that of the class; "" where none is."""
    return next((key for key in LABELS if key in keys), "")


def object_classes(objects: pa.Array) -> frozenset[str]:
    """The classes in a column of objects in images, names or ids, as texts."""
    label = label_key(object_fields(objects.type))
    while is_list(objects.type) or pa.types.is_struct(objects.type):
        objects = objects.flatten() if is_list(objects.type) else pc.struct_field(objects, label)
    return frozenset(map(str, pc.unique(objects).drop_null().to_pylist()))


def _class_names(schema: pa.Schema, label: str) -> tuple[str, ...]:
    """The names of the classes of objects, as Hugging Face's metadata of a schema has them; () where it has none."""
    try:
        told = json.loads((schema.metadata or {})[_KEY])["info"]["features"][OBJECTS]
        while "_type" in told and "feature" in told:
            told = told["feature"]
        told = told[label]
        while "feature" in told:
            told = told["feature"]
        return tuple(map(str, told["names"])) if told.get("_type") == "ClassLabel" else ()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()
