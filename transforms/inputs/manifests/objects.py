"""What a manifest says of the objects in its images, by its schema or its first rows."""

import json
from contextlib import suppress
from itertools import islice

import pyarrow as pa

from shardmill.errors import UserError
from transforms.columns.arrow_lists import is_list
from transforms.formats.parquet.huggingface import BOX, object_fields
from transforms.inputs.annotations.coco_file import is_whole
from transforms.inputs.annotations.huggingface import COLUMN, KEYS, LABELS, ObjectsColumn
from transforms.inputs.annotations.objects import Member
from transforms.inputs.manifests.formats import is_parquet, is_textual
from transforms.stores import storage

_LOOKED_AT = 10_000  # rows in which the first object is looked for


def told_objects(path: str) -> ObjectsColumn | None:
    """What the manifest at `path` says of objects, by its first that has one; None where no column is of objects.

    Raises:
      UserError: it says where they are, and not what.
    """
    if is_textual(path):
        return None
    found = None
    with suppress(OSError):  # which reading it tells
        found = _of_parquet(path) if is_parquet(path) else _of_json_lines(path)
    if found is None:
        return None
    keys, numbered, names = found
    members: dict[Member, str] = {}
    for key in (key for key in KEYS if key in keys):
        members.setdefault(KEYS[key], key)
    if "label" not in members:
        raise UserError(
            f"--manifest {path}: {COLUMN!r} has {', '.join(map(repr, sorted(keys)))}, and nothing says what each object"
            f" is; expected {LABELS[0]!r}, {LABELS[1]!r} or {LABELS[4]!r} beside {BOX!r}"
        )
    return ObjectsColumn(tuple(members.items()), numbered, names)


def _of_json_lines(path: str) -> tuple[set[str], bool, tuple[str, ...]] | None:
    """The keys of objects, whether their classes are ids, and the names of these."""
    keys: set[str] = set()
    with storage.open_read(path) as raw:
        for line in islice(raw, _LOOKED_AT):
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
            label = next((item[key] for key in LABELS if key in item), None)
            first = next(iter(label), None) if isinstance(label, list) else label
            if first is not None:
                return keys, is_whole(first), ()
    return (keys, False, ()) if keys else None


def _of_parquet(path: str) -> tuple[set[str], bool, tuple[str, ...]] | None:
    from pyarrow import ArrowException, parquet, types

    try:
        with storage.open_read(path) as raw:
            schema = parquet.read_schema(raw)
    except ArrowException:
        return None
    if COLUMN not in schema.names:
        return None
    fields = object_fields(schema.field(COLUMN).type)
    if not fields:
        return None
    label = next((key for key in LABELS if key in fields), "")
    of_label = fields.get(label, pa.null())
    numbered = types.is_integer(of_label.value_type if is_list(of_label) else of_label)
    return set(fields), numbered, _class_names(schema, label)


def _class_names(schema: pa.Schema, label: str) -> tuple[str, ...]:
    """The names of the classes of objects, as Hugging Face's metadata of a schema has them; () where it has none."""
    try:
        told = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][COLUMN]
        while "_type" in told and "feature" in told:
            told = told["feature"]
        told = told[label]
        while "feature" in told:
            told = told["feature"]
        return tuple(map(str, told["names"])) if told.get("_type") == "ClassLabel" else ()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()
