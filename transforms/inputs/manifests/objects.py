"""What a manifest says of the objects in its images, by its schema or its first rows."""

import json
from contextlib import suppress
from itertools import islice

from shardmill.transforms.columns.inferred import ToldObjects
from shardmill.transforms.formats.parquet.huggingface import BOX, label_key, objects_of_schema
from shardmill.transforms.formats.parquet.huggingface import OBJECTS as COLUMN
from shardmill.transforms.inputs.annotations.coco_file import is_whole
from shardmill.transforms.inputs.annotations.huggingface import ObjectsColumn
from shardmill.transforms.inputs.manifests.formats import is_parquet, is_textual
from shardmill.transforms.stores import storage

_LOOKED_AT = 10_000  # rows in which the first object is looked for
_Found = tuple[ToldObjects, tuple[str, ...]]  # with the names of classes by their ids, where somebody says them


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
    told, names = found
    return ObjectsColumn.of(told, names, f"--manifest {path}")


def _of_json_lines(path: str) -> _Found | None:
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
            label = item.get(label_key(keys))
            first = next(iter(label), None) if isinstance(label, list) else label
            if first is not None:
                return ToldObjects(tuple(sorted(keys)), is_whole(first)), ()
    return (ToldObjects(tuple(sorted(keys)), False), ()) if keys else None


def _of_parquet(path: str) -> _Found | None:
    from pyarrow import ArrowException, parquet

    try:
        with storage.open_read(path) as raw:
            found = objects_of_schema(parquet.read_schema(raw))
    except ArrowException:
        return None
    if found is None:
        return None
    (told,) = found.objects
    return told, next(iter(found.names), ())
