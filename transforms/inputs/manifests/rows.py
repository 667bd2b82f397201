"""A row of a manifest: the file that it names, and what it says of it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import xxhash

from shardmill.metadata.rejects import Reject
from shardmill.transforms.columns.separated import parts_of
from shardmill.transforms.inputs import label_lists
from shardmill.transforms.inputs.companions import Companion
from shardmill.transforms.inputs.located import locate
from shardmill.transforms.inputs.manifests.names import ManifestNames
from shardmill.transforms.stores import storage

_SHOWN = 60  # letters of a value that is no good


@dataclass(frozen=True, slots=True)
class Row:
    """A row: the file's name relative to the manifest's folder, or its URI elsewhere, and the other columns.

    Attributes:
      line: where the row starts in the manifest, from 1.
      name: the identity: the relative name, or the URI itself.
      uri: where to read it, None if that is `name` under the manifest's folder.
      label, split: the columns of that name, None if there is none or it is empty; a label of several classes is as
        shardmill.transforms.inputs.label_lists has it.
      columns: further columns by name; text in CSV, JSON values in JSON lines.
      companions: the paths of further files of the example.
    """

    line: int
    name: str
    uri: str | None
    label: str | None
    split: str | None
    columns: dict[str, Any]
    companions: tuple[str, ...] = ()


def digest(row: Row) -> bytes:
    """16 bytes that equal rows share, but for their lines."""
    content = json.dumps([row.name, row.label, row.split, row.columns, *row.companions], sort_keys=True)
    return xxhash.xxh3_128_digest(content.encode())


def rows_of(
    values: Iterable[tuple[int, dict[str, Any]] | Reject],
    path: str,
    folder: str,
    allow_outside: bool,
    names: ManifestNames,
) -> Iterator[Row | Reject]:
    """Rows of their lines and columns, as `path` in `folder` has them."""
    for value in values:
        if isinstance(value, Reject):
            yield value
            continue
        line, columns = value
        name = next((columns.pop(column) for column in names.files if columns.get(column) not in (None, "")), None)
        for column in names.files:
            columns.pop(column, None)
        if names.file and isinstance(name, int) and not isinstance(name, bool):
            name = str(name)
        if not isinstance(name, str):
            yield Reject(path, line, "index", f"the row has no {' or '.join(names.files)}")
            continue
        try:
            identity, uri = locate(names.path(name), folder, allow_outside)
            beside = tuple(_companion(columns, item, names, folder, allow_outside) for item in names.companions)
            label = _label(columns.pop(names.label, None), names)
            split = _text(columns.pop("split", None))
        except ValueError as error:
            yield Reject(name, line, "index", str(error))
            continue
        yield Row(line, identity, uri, label, split, columns, beside)


def _companion(columns: dict[str, Any], item: Companion, names: ManifestNames, folder: str, allow_outside: bool) -> str:
    """The path of a further file of a row, whose column is taken out; raises ValueError."""
    value = columns.pop(item.column, None)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        raise ValueError(f"the row has no {item.column}" if value in (None, "") else f"{item.what} is no file name")
    try:
        name, uri = locate(names.companion(item, value), folder, allow_outside)
    except ValueError as error:
        raise ValueError(f"{item.what}: {error}") from None
    return uri or storage.join(folder, name)


def _label(value: Any, names: ManifestNames) -> str | None:
    """A label as a text: of several classes as label_lists has it."""
    if isinstance(value, list):
        found = [text for text in map(_text, value) if text is not None]
        if len(found) < len(value):
            raise ValueError(f"label {json.dumps(value)[:_SHOWN]} has a null or an empty name in it")
        return label_lists.as_text(found)
    label = _text(value)
    if label is not None and label_lists.is_reserved(label):
        raise ValueError(f"label {json.dumps(label)[:_SHOWN]} begins with a NUL character")
    return label_lists.as_text(parts_of(label or "", names.separator)) if names.separator else label


def _text(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"label or split {json.dumps(value)[:_SHOWN]} is not a string or an integer")
    return str(value)
