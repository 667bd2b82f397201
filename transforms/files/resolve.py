"""From files found to files planned: split, label and order key of each, and the size its record will have."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.features.renames import NO_RENAMES, Renames
from shardmill.metadata.rejects import Reject
from shardmill.records import tfrecord
from shardmill.transforms.columns.key_texts import key_texts_of_values
from shardmill.transforms.columns.nested import ColumnError
from shardmill.transforms.files.manifest_columns import encode_columns
from shardmill.transforms.files.references import LABELS, PLANNED
from shardmill.transforms.inputs import label_lists
from shardmill.transforms.inputs.annotations.objects import planned_objects, unknown_classes
from shardmill.transforms.inputs.companions import COMPANIONS
from shardmill.transforms.inputs.folders import split_name
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.options.splits import CONTENT, SplitOptions
from shardmill.transforms.sharding import keys
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.checksums import UNREADABLE, checksums
from shardmill.transforms.workers.batches import bounded, to_batch

# Bytes of an image's Example beside payload, name and columns: keys, lengths, label, height, width
_EXAMPLE_OVERHEAD = 90
# Bytes of an object in an Example, and of what stands before the objects of an image: keys, lengths
_OBJECT_BYTES, _OBJECTS_OVERHEAD = 28, 120


@dataclass(frozen=True, slots=True)
class ResolveOptions:
    """How keys, splits and sizes are computed.

    Attributes:
      split: how files are dealt out to splits; with `stratify_by` that is done later.
      renames: what columns are called in examples.
      record_bytes: the bytes of every encoded image where images are re-encoded to one size, else None.
      root: the folder that names are relative to.
    """

    split: SplitOptions = field(default_factory=SplitOptions)
    record_bytes: int | None = None
    renames: Renames = NO_RENAMES
    root: str = ""


def resolve(batch: pa.RecordBatch, layout: Layout, options: ResolveOptions) -> Iterator[pa.RecordBatch | Reject]:
    """The planned files of a FOUND batch, in batches that are no larger than an element may be, and a Reject for each
    that cannot be planned."""
    rows, kept = [], []
    objects, unknown = None, dict[int, str]()
    if layout.object_classes is not None:
        objects = planned_objects(batch, layout.object_classes.ids)
        unknown = unknown_classes(batch, objects, layout.object_classes.source)
    found = zip(range(len(batch)), *(batch[i].to_pylist() for i in range(8)), strict=True)
    for row, name, size, uri, label, split, line, columns, identity in found:
        values = json.loads(columns) if columns else {}
        if line is None:
            split, label = layout.locate(name)
        label_id, problem = _label_ids(label, layout) if layout.label_lists else _label_id(label, layout)
        problem = problem or unknown.get(row)
        if problem is None and layout.fractions is None and split is None:
            problem = "no split: the file lies in no split folder, or the column 'split' is empty"
        entries = b""
        try:
            entries = encode_columns(values, layout.columns, options.renames)
        except ColumnError as error:
            problem = problem or str(error)
        if problem is not None:
            yield Reject(name, line, "index", problem)
            continue
        payload = size if options.record_bytes is None else options.record_bytes
        planned = payload + len(name.encode()) + len(entries) + _EXAMPLE_OVERHEAD + tfrecord.OVERHEAD
        values["label"] = label
        kept.append(row)
        rows.append((name, planned, uri, label_id, line, entries or None, split_name(split or ""), values, identity))
    if rows:
        planned_rows = _planned(rows, layout, options)
        if COMPANIONS.name in batch.schema.names:
            planned_rows = planned_rows.append_column(COMPANIONS, batch[COMPANIONS.name].take(pa.array(kept)))
        yield from bounded(planned_rows if objects is None else _beside(planned_rows, objects.take(pa.array(kept))))


def _beside(planned: pa.RecordBatch, objects: pa.RecordBatch) -> pa.RecordBatch:
    """Planned images with their objects, and the bytes that these will take."""
    lengths = objects["objects"].value_lengths().to_numpy(zero_copy_only=False)
    sizes = planned["size"].to_numpy() + _OBJECT_BYTES * lengths + _OBJECTS_OVERHEAD
    place = planned.schema.get_field_index("size")
    planned = planned.set_column(place, PLANNED.field("size"), pa.array(sizes, pa.int64()))
    fields = [*planned.schema, *objects.schema]
    return pa.RecordBatch.from_arrays([*planned.columns, *objects.columns], schema=pa.schema(fields))


def _label_ids(label: str | None, layout: Layout) -> tuple[list[int], str | None]:
    """(ids, None), each once in the order of the row, or ([], why the record has none)."""
    assert layout.class_names is not None
    found = [] if label is None else label_lists.names_in(label)
    names = dict.fromkeys([str(label)] if found is None else found)
    ids = {name: layout.class_names.id(name) for name in names}
    unknown = next((name for name, class_id in ids.items() if class_id is None), None)
    if unknown is not None:
        return [], f"class {unknown!r} is not in {layout.class_names.source}"
    return [class_id for class_id in ids.values() if class_id is not None], None


def _label_id(label: str | None, layout: Layout) -> tuple[int | None, str | None]:
    """(id, None), or (None, why the record has none)."""
    if layout.class_names is None:
        return None, None
    if label is None:
        return None, "no label: the file lies in no class folder, or the column 'label' is empty"
    label_id = layout.class_names.id(label)
    return label_id, None if label_id is not None else f"class {label!r} is not in {layout.class_names.source}"


def _planned(rows: list[tuple[Any, ...]], layout: Layout, options: ResolveOptions) -> pa.RecordBatch:
    names, sizes, uris, labels, lines, entries, splits, values, identities = (
        list(column) for column in zip(*rows, strict=True)
    )
    group_by, stratify_by = options.split.group_by, options.split.stratify_by
    order, tie = _order_keys(names, lines, options.split.seed)
    if group_by == CONTENT and CONTENT not in layout.columns:
        groups = _contents(names, uris, options.root)
    else:
        groups = _column(values, group_by, names) if group_by else names
    split_key = keys.split_keys(groups, options.split.split_seed)
    if layout.fractions is not None and stratify_by is None:
        splits = [layout.splits[index] for index in keys.assign(split_key, keys.thresholds(layout.fractions))]
    strata = _column(values, stratify_by, [""] * len(rows)) if stratify_by else [None] * len(rows)
    stored_key = split_key if stratify_by else [None] * len(rows)
    one = [None] * len(rows) if layout.label_lists else labels
    columns = [names, sizes, uris, one, lines, entries, splits, order, tie, strata, stored_key, identities]
    batch = to_batch(columns, PLANNED)
    return batch.append_column(LABELS, pa.array(labels, LABELS.type)) if layout.label_lists else batch


def _contents(names: list[str], uris: list[str | None], root: str) -> list[str]:
    """What files hold, as groups: a checksum of all of it. One that cannot be read will be no example."""
    paths = [uri or storage.join(root, name) for name, uri in zip(names, uris, strict=True)]
    return [
        name if stamp.startswith(UNREADABLE) else stamp for name, stamp in zip(names, checksums(paths), strict=True)
    ]


def _order_keys(names: list[str], lines: list[int | None], seed: int) -> tuple[np.ndarray, np.ndarray]:
    if lines[0] is None:  # of a folder, which holds a name once: a tie would be eight bytes a file that do not compress
        return keys.hash_strings(names, seed), np.zeros(len(names), np.uint64)
    return keys.order_keys(names, [f"{name}\0{line}" for name, line in zip(names, lines, strict=True)], seed)


def _column(values: list[dict[str, Any]], column: str, missing: list[str]) -> list[str]:
    """What the values of a column are as groups or strata; a missing one is replaced."""
    found = [None if row.get(column) == "" else row.get(column) for row in values]
    if column != "label":  # whose values are names of classes, among which "1" and "1.0" are two
        found = [None if text is None else text.decode() for text in key_texts_of_values(found).to_pylist()]
    return [instead if text is None else text for text, instead in zip(found, missing, strict=True)]
