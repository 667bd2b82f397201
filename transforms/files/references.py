"""References to files, with the split, label, order key and record size of each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.data import tfrecord
from shardmill.data.features import NO_RENAMES, Renames
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import as_text, concatenate, convert_batch, split_large_batch, to_batch
from shardmill.transforms.columns.example_encoding import encode_entries
from shardmill.transforms.columns.text import key_texts
from shardmill.transforms.formats.format import key_column_name
from shardmill.transforms.inputs import summary
from shardmill.transforms.inputs.annotations import PLANNED_OBJECTS, find_unknown_classes, plan_objects
from shardmill.transforms.inputs.folders import find_file_group, normalize_split
from shardmill.transforms.inputs.found_files import COMPANIONS, FOUND, REVISION, columns_of
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.options.job_options import SplitOptions
from shardmill.transforms.shards import balance
from shardmill.transforms.workers.resources import null_columns

# A file as planned: label by id, `size` of the record to come, `columns` as serialized entries of the Example.
PLANNED = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("uri", pa.string()),
        pa.field("label", pa.int64()),
        pa.field("line", pa.int64()),
        pa.field("columns", pa.binary()),
        pa.field("split", pa.dictionary(pa.int32(), pa.string())),  # of strings, offsets would be a sixth of a batch
        pa.field("key", pa.uint64()),
        pa.field("tie", pa.uint64()),
        pa.field("stratum", pa.string()),
        pa.field("split_key", pa.uint64()),
        pa.field("identity", pa.uint64()),
    ]
)

# In addition, if files may have any number of labels: their ids; `label` is null then.
LABELS = pa.field("labels", pa.list_(pa.int64()))

# What a shard's writer needs of them.
_SHARD_COLUMNS = ("name", "size", "uri", "label", "line", "columns", "key", "tie", "identity")
SHARD = pa.schema([PLANNED.field(name) for name in _SHARD_COLUMNS])


def shard_columns(batch: pa.RecordBatch) -> list[str]:
    """Return the columns that a shard's writer needs, with the optional ones that a batch of planned files has."""
    optional = (*PLANNED_OBJECTS.names, LABELS.name, COMPANIONS.name, REVISION.name)
    return [*SHARD.names, *(name for name in optional if name in batch.schema.names)]


def sort_by_key(parts: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Return all rows ordered by (key, tie), which makes the result independent of their arrival.

    References travel in batches because a runner's cost is per element. Their coder is a compressed Arrow IPC stream,
    because a local runner keeps everything between stages in memory, several times over. Names decide between equal
    keys and ties: among 10^9 files, two may well have one hash.
    """
    parts = list(parts)
    keys, ties = (np.concatenate([part[name].to_numpy() for part in parts]) for name in ("key", "tie"))
    order = np.lexsort((ties, keys))
    keys, ties = keys.take(order), ties.take(order)
    if ((keys[1:] == keys[:-1]) & (ties[1:] == ties[:-1])).any():
        by = ("key", "tie", "name")
        batch = concatenate([part.select(by) for part in parts])
        order = pc.sort_indices(batch, sort_keys=[(name, "ascending") for name in by]).to_numpy()
    order = pa.array(order)
    del keys, ties
    # By column, so that there are never three copies of all, which may be a million references
    schema, rows = parts[0].schema, len(order)
    columns: dict[str, pa.Array | None] = {}
    for name in schema.names:
        if name in SHARD.names and sum(part[name].null_count for part in parts) == rows:
            columns[name] = None
        else:
            columns[name] = pa.concat_arrays([part[name] for part in parts]).take(order)
    empty = [name for name, column in columns.items() if column is None]
    columns |= zip(empty, null_columns((schema.field(name).type for name in empty), rows))
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)


def encode_columns(batch: pa.RecordBatch, types: Iterable[str], renames: Renames = NO_RENAMES) -> pa.Array:
    """Return the entries of each file's Example for its further columns of `types`, in order."""
    columns = columns_of(batch)
    absent = {name for name in types if name not in columns}
    arrays = {renames(name): columns[name] for name in types if name not in absent}
    return encode_entries(to_batch(arrays, len(batch))).cast(pa.binary())


# Bytes of an image's Example without payload, name and columns: keys, lengths, label, height, width
_EXAMPLE_OVERHEAD = 90
# Bytes of an object in an Example, and of the part before the objects of an image: keys, lengths
_OBJECT_BYTES, _OBJECTS_OVERHEAD = 28, 120


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options for the keys, splits and sizes of files."""

    # assignment of files to splits; `stratify_by` is applied later
    split: SplitOptions = field(default_factory=SplitOptions)
    record_bytes: int | None = None  # bytes of each image if all are re-encoded to one size; else None
    renames: Renames = NO_RENAMES  # of columns


def resolve_files(batch: pa.RecordBatch, layout: Layout, options: PlanOptions) -> Iterator[pa.RecordBatch | Reject]:
    """Find the label, split and key of found files; yield batches of planned files, and Rejects of invalid ones."""
    rows, kept, names = [], list[int](), list[str | None]()
    objects, unknown = None, dict[int, str]()
    if layout.object_classes is not None:
        objects = plan_objects(batch, layout.object_classes.ids)
        unknown = find_unknown_classes(batch, objects, layout.object_classes.source)
    encoded = encode_columns(batch, layout.columns, options.renames).to_pylist()
    columns = (column.to_pylist() for column in batch.select(FOUND.names).columns)
    found = zip(range(len(batch)), *columns, encoded, strict=True)
    for row, name, size, uri, label, split, line, identity, entries in found:
        if line is None:
            folder_split, folder_label = layout.folders.locate(name)
            split, label = split or folder_split, label or folder_label
        label_id, problem = _find_label(label, layout)
        problem = problem or unknown.get(row)
        group = find_file_group(name, layout.folders, options.split.group_by)
        if problem is None and group is None:
            problem = f"not named as --group_by {options.split.group_by} says"
        if problem is None and layout.fractions is None and split is None:
            problem = "no split: the file is in no split folder, or the column 'split' is empty"
        if problem is not None:
            yield Reject(name, line, "index", problem)
            continue
        payload = size if options.record_bytes is None else options.record_bytes
        planned = payload + len(name.encode()) + len(entries) + _EXAMPLE_OVERHEAD + tfrecord.OVERHEAD
        names.append(label)
        kept.append(row)
        split = normalize_split(split or "")
        rows.append((name, planned, uri, label_id, line, entries or None, split, identity, group))
    if rows:
        by = filter(None, (options.split.group_by, options.split.stratify_by))
        keys = {column: _key_texts(batch.take(pa.array(kept)), column, names) for column in by}
        planned_rows = _make_planned(rows, layout, options, keys)
        for field in (COMPANIONS, REVISION):
            if field.name in batch.schema.names:
                planned_rows = planned_rows.append_column(field, batch[field.name].take(pa.array(kept)))
        if objects is not None:
            planned_rows = _add_objects(planned_rows, objects.take(pa.array(kept)))
        yield from split_large_batch(planned_rows)


def _add_objects(planned: pa.RecordBatch, objects: pa.RecordBatch) -> pa.RecordBatch:
    lengths = objects["objects"].value_lengths().to_numpy(zero_copy_only=False)
    sizes = planned["size"].to_numpy() + _OBJECT_BYTES * lengths + _OBJECTS_OVERHEAD
    place = planned.schema.get_field_index("size")
    planned = planned.set_column(place, PLANNED.field("size"), pa.array(sizes, pa.int64()))
    fields = [*planned.schema, *objects.schema]
    return pa.RecordBatch.from_arrays([*planned.columns, *objects.columns], schema=pa.schema(fields))


def _find_label(label: str | None, layout: Layout) -> tuple[Any, str | None]:
    """Return the id of a label, or the distinct ids of a list in row order, and the reason to reject the file."""
    if layout.class_names is None:
        return None, None
    if layout.label_lists:
        found = [] if label is None else summary.decode_label_list(label)
        names = list(dict.fromkeys([str(label)] if found is None else found))
    elif label is None:
        return None, "no label: the file is in no class folder, or the column 'label' is empty"
    else:
        names = [label]
    ids = [layout.class_names.id(name) for name in names]
    if None in ids:
        return None, f"class {names[ids.index(None)]!r} is not in {layout.class_names.source}"
    return ids if layout.label_lists else ids[0], None


def _make_planned(
    rows: list[tuple[Any, ...]], layout: Layout, options: PlanOptions, keys: Mapping[str, list[str | None]]
) -> pa.RecordBatch:
    names, sizes, uris, labels, lines, entries, splits, identities, groups = map(list, zip(*rows, strict=True))
    group_by, stratify_by = options.split.group_by, options.split.stratify_by
    if lines[0] is None:  # of a folder, which holds a name once: a tie would be eight bytes a file that do not compress
        order, tie = balance.hash_strings(names, options.split.seed), np.zeros(len(names), np.uint64)
    else:
        ties = [f"{name}\0{line}" for name, line in zip(names, lines, strict=True)]
        order, tie = balance.order_keys(names, ties, options.split.seed)
    if group_by == "label" or group_by in layout.columns:
        groups = _fill(keys[group_by], names)
    split_key = balance.split_keys(groups, options.split.split_seed)
    if layout.fractions is not None and stratify_by is None:
        indices = balance.assign_splits(split_key, balance.split_thresholds(layout.fractions))
        splits = [layout.splits[index] for index in indices]
    strata = _fill(keys[stratify_by], [""] * len(rows)) if stratify_by else [None] * len(rows)
    stored_key = split_key if stratify_by else [None] * len(rows)
    one = [None] * len(rows) if layout.label_lists else labels
    columns = [names, sizes, uris, one, lines, entries, splits, order, tie, strata, stored_key, identities]
    batch = convert_batch(columns, PLANNED)
    return batch.append_column(LABELS, pa.array(labels, LABELS.type)) if layout.label_lists else batch


def _key_texts(batch: pa.RecordBatch, column: str, labels: list[str | None]) -> list[str | None]:
    columns = columns_of(batch)
    if column == "label" and column not in columns:  # names of classes, among which "1" and "1.0" are two
        return labels
    found = columns.get(key_column_name(column))
    if found is None:
        found = key_texts(columns[column]) if column in columns else pa.nulls(len(batch))
    return [as_text(text) if text else None for text in found.to_pylist()]


def _fill(texts: list[str | None], missing: list[str]) -> list[str]:
    return [instead if text is None else text for text, instead in zip(texts, missing, strict=True)]
