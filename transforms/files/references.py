"""References to files, with the split, label, order key and record size of each."""

import posixpath
import re
from collections.abc import Iterable, Iterator
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
from shardmill.transforms.encodings import to_nfc
from shardmill.transforms.formats.format import key_column_name
from shardmill.transforms.inputs import summary
from shardmill.transforms.inputs.annotations import PLANNED_OBJECTS, find_unknown_classes, plan_objects
from shardmill.transforms.inputs.folders import is_name_pattern, normalize_split
from shardmill.transforms.inputs.found_files import COMPANIONS, REVISION, columns_of
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.options.job_options import FOLDER, SplitOptions
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

    Names decide between equal keys and ties: among 10^9 files, two may well have one hash.
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


_NO_SPLIT = "no split: the file is in no split folder, or the column 'split' is empty"
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
    roles, objects, unknown = find_roles(batch, layout, options.split.group_by), None, dict[int, str]()
    if layout.object_classes is not None:
        objects = plan_objects(batch, layout.object_classes.ids)
        unknown = find_unknown_classes(batch, objects, layout.object_classes.source)
    of_objects = pa.array(map(unknown.get, range(len(batch))), pa.string())
    problems = pc.coalesce(roles["label_problem"], of_objects, roles["problem"])
    invalid = (column.filter(problems.is_valid()).to_pylist() for column in (batch["name"], batch["line"], problems))
    yield from (Reject(name, line, "index", problem) for name, line, problem in zip(*invalid, strict=True))
    if (is_sound := problems.is_null()).true_count:
        planned = _make_planned(batch.filter(is_sound), roles.filter(is_sound), layout, options)
        yield from split_large_batch(planned if objects is None else _add_objects(planned, objects.filter(is_sound)))


def find_roles(batch: pa.RecordBatch, layout: Layout, group_by: str | None) -> pa.RecordBatch:
    """Return what names, labels and splits of found files mean, decided once for each folder, label and split.

    The columns are label, ids (of the label), label_problem, split, problem (of split or group) and group. Files of a
    group stay in one split: it is what --group_by finds in a name, or the folder, in NFC, or the name itself.
    """
    parts = pc.split_pattern(names := batch["name"], "/", max_splits=1, reverse=True)
    folders = pc.if_else(pc.equal(parts.value_lengths(), 1), "", pc.list_element(parts, 0))
    listed = pc.if_else(batch["line"].is_null(), folders, None)  # a manifest's files have their own label and split
    columns = [column.dictionary_encode("encode") for column in (listed, batch["label"], batch["split"])]
    shape = [max(len(column.dictionary), 1) for column in columns]
    combined = np.ravel_multi_index([column.indices.to_numpy() for column in columns], shape)
    distinct, codes = np.unique(combined, return_inverse=True)
    indices, roles = np.unravel_index(distinct, shape), []
    values = (column.dictionary.take(pa.array(index)) for column, index in zip(columns, indices, strict=True))
    for folder, label, split in zip(*(column.to_pylist() for column in values), strict=True):
        if folder is not None:
            folder_split, folder_label = layout.folders.locate(posixpath.join(folder, "name"))
            split, label = split or folder_split, label or folder_label
        no_split = _NO_SPLIT if layout.fractions is None and split is None else None
        roles.append((label, *_find_label(label, layout), normalize_split(split or ""), no_split))
    texts = dict.fromkeys(("label", "ids", "label_problem", "split", "problem"), pa.string())
    schema = pa.schema(texts | {"ids": LABELS.type if layout.label_lists else pa.int64()})
    found = convert_batch(list(zip(*roles, strict=True)) or [()] * len(texts), schema).take(pa.array(codes))
    if is_name_pattern(group_by):
        matches = (re.fullmatch(str(group_by), name.rpartition("/")[2]) for name in names.to_pylist())
        names = to_nfc(pa.array([match["group"] if match else None for match in matches], pa.string()))
        ungrouped = pc.if_else(names.is_null(), f"not named as --group_by {group_by} says", None)
        found = found.set_column(4, "problem", pc.coalesce(ungrouped, found["problem"]))
    elif group_by == FOLDER:
        names = to_nfc(pa.array(map(layout.folders.find_group, names.to_pylist()), pa.string()))
    return found.append_column("group", names)


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


def _make_planned(batch: pa.RecordBatch, roles: pa.RecordBatch, layout: Layout, options: PlanOptions) -> pa.RecordBatch:
    names, lines, groups, splits = batch["name"], batch["line"], roles["group"], roles["split"]
    group_by, stratify_by = options.split.group_by, options.split.stratify_by
    entries = encode_columns(batch, layout.columns, options.renames)
    lengths = np.add(*(pc.binary_length(texts).to_numpy() for texts in (names, entries)), dtype=np.int64)
    payload = batch["size"].to_numpy() if options.record_bytes is None else options.record_bytes
    sizes = payload + lengths + _EXAMPLE_OVERHEAD + tfrecord.OVERHEAD
    order, tie = balance.hash_strings(names, options.split.seed), np.zeros(len(names), np.uint64)
    if lines[0].is_valid:  # files of a folder have one name each: a tie would be eight bytes that do not compress
        texts = pc.binary_join_element_wise(names, lines.cast(pa.string()), "\0")
        order, tie = balance.order_keys(names, texts, options.split.seed)
    if group_by == "label" or group_by in layout.columns:
        groups = pc.coalesce(_key_texts(batch, group_by, roles), names)
    split_key = balance.split_keys(groups, options.split.split_seed)
    if layout.fractions is not None and stratify_by is None:
        indices = balance.assign_splits(split_key, balance.split_thresholds(layout.fractions))
        splits = pa.array(layout.splits).take(pa.array(indices))
    entries = pc.if_else(pc.equal(pc.binary_length(entries), 0), None, entries)
    absent = [None] * len(batch)
    stratum = (pc.fill_null(_key_texts(batch, stratify_by, roles), ""), split_key) if stratify_by else (absent, absent)
    ids, keys = absent if layout.label_lists else roles["ids"], [splits, order, tie, *stratum, batch["identity"]]
    planned = convert_batch([names, sizes, batch["uri"], ids, lines, entries, *keys], PLANNED)
    further = [(each, batch[each.name]) for each in (COMPANIONS, REVISION) if each.name in batch.schema.names]
    for added in [(LABELS, roles["ids"])] * layout.label_lists + further:
        planned = planned.append_column(*added)
    return planned


def _key_texts(batch: pa.RecordBatch, column: str, roles: pa.RecordBatch) -> pa.Array:
    columns = columns_of(batch)
    if column == "label" and column not in columns:  # names of classes, among which "1" and "1.0" are two
        return roles["label"]
    found = columns.get(key_column_name(column))
    if found is None:
        found = to_nfc(key_texts(columns[column])) if column in columns else pa.nulls(len(batch))
    return pa.array([as_text(text) if text else None for text in found.to_pylist()], pa.string())
