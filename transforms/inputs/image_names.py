"""Columns of a manifest that name further image files, such as masks, whose text alone examples would hold."""

import json
import posixpath

import pyarrow as pa

from shardmill.transforms.inputs.file_kind import IMAGES
from shardmill.transforms.stores import storage


def image_names(batch: pa.RecordBatch, root: str) -> dict[str, tuple[int, str]]:
    """In how many of a manifest's rows a column names an image file, and the first of these names; nothing of a column
    that says anything else in some row, or whose first name is of no file in the folder `root`.

    Args:
      batch: FOUND.
      root: the folder of the manifest.
    """
    found: dict[str, tuple[int, str]] = {}
    others: set[str] = set()
    for columns in batch["columns"].drop_null().to_pylist():
        for column, value in json.loads(columns).items():
            if value is None or column in others:
                continue
            if isinstance(value, str) and IMAGES.accepts(value):
                number, first = found.get(column, (0, value))
                found[column] = (number + 1, first)
            else:
                others.add(column)
    return {column: named for column, named in found.items() if column not in others and _is_there(root, named[1])}


def _is_there(root: str, name: str) -> bool:
    """Whether a file is there; of one that lies elsewhere nobody asks."""
    relative = posixpath.normpath(name)
    is_inside = storage.is_local(name) and not relative.startswith(("/", "../"))
    return is_inside and storage.exists(storage.join(root, relative))
