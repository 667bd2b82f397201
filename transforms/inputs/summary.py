"""Totals of an input: its folders, labels, columns and sizes, mergeable in any order."""

import json
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import xxhash

from shardmill.errors import UserError
from shardmill.text import plural
from shardmill.transforms.columns.types import MAX_VALUES, ColumnType, Inferred
from shardmill.transforms.findings import Mergeable, merged_by
from shardmill.transforms.inputs.folders import FolderRoles, folder_key, quote_names, split_of_file

_MARK = "\0"  # with which no label begins


def encode_label_list(names: Iterable[str]) -> str:
    """Encode the names of several classes as one text."""
    return _MARK + json.dumps(list(names), ensure_ascii=False)


def decode_label_list(text: str) -> list[str] | None:
    """Return the class names in a text from encode_label_list; None for a label of one class."""
    return [str(name) for name in json.loads(text[len(_MARK) :])] if text.startswith(_MARK) else None


def is_encoded_list(label: str) -> bool:
    """Return True if a class name would be mistaken for an encoded list."""
    return label.startswith(_MARK)


def count_label_lists(labels: Iterable[str | None]) -> tuple[Counter[str], Counter[str]]:
    """Return the number of rows of each class, "" for none, and counts of list labels.

    The latter are `lists`, `several` (lists with several classes) and `repeated` (classes repeated within a row).
    """
    classes: Counter[str] = Counter()
    list_counts: Counter[str] = Counter()
    for label in labels:
        names = decode_label_list(label) if label is not None else None
        if names is None:
            classes[label or ""] += 1
            continue
        distinct = set(names)
        classes.update(distinct or [""])
        list_counts.update(lists=1, several=int(len(distinct) > 1), repeated=len(names) - len(distinct))
    return classes, +list_counts  # without those that none are of


_MODULUS = 1 << 128  # of the sum of 128-bit hashes, which is the same in any order
_MOST_KEYS = MAX_VALUES + 2  # one too many, and ""

Key = TypeVar("Key")
Named = dict[Key, tuple[int, str]]  # how many, and the least name

MOST_SAMPLED = 20_000  # names that are compared with each other


@dataclass(frozen=True, slots=True)
class InputCounts:
    """The totals of an input that are needed at the end of a job; fields as in InputSummary."""

    rejected: int = 0
    size_bytes: int = 0
    fingerprint: int = 0


def _add_bounded(target: Counter[str], other: Counter[str]) -> Counter[str]:
    target.update(other)
    while len(target) > _MOST_KEYS:
        target.popitem()
    return target


def _add_named(target: Named[Key], other: Named[Key]) -> Named[Key]:
    for kind, (number, name) in other.items():
        before, first = target.get(kind, (0, name))
        target[kind] = (before + number, min(first, name))
    return target


def _named() -> Any:
    return merged_by(_add_named, default_factory=dict)


def _bounded() -> Any:
    return merged_by(_add_bounded, default_factory=Counter)


@dataclass(slots=True)
class InputSummary(Mergeable):
    """Counts over any part of the input."""

    records: int = 0  # files found
    rejected: int = 0  # records that could not be indexed
    size_bytes: int = 0  # of all files found
    # files by their leading folders, see folder_key: "", "cats", "train/cats/1"
    folders: Counter[str] = field(default_factory=Counter)
    # manifest rows by label, "" if missing; beyond MAX_VALUES, which fail the job, some are lost
    labels: Counter[str] = _bounded()
    splits: Counter[str] = _bounded()  # manifest rows by split, as `labels`
    columns: dict[str, ColumnType] = field(default_factory=dict)  # types of a manifest's further columns
    # what is not part of the input, as (number, one name) by kind
    skipped: Named[str] = _named()
    # sum mod 2^128 of xxh3_128 of names and sizes; equal in any order
    fingerprint: int = merged_by(lambda one, other: (one + other) % _MODULUS, default=0)
    # files by the columns of their table, as (number, one name)
    headers: Named[tuple[str, ...]] = _named()
    first_file: tuple[str, str] | None = None  # least (name, URI or "") of all files found
    # missing files of a manifest, as (number, one name) by reason
    missing_files: Named[str] = _named()
    # annotation files by the class list they declare, as (number, one name)
    class_lists: Named[tuple[str, ...]] = _named()
    objects: Counter[str] = field(default_factory=Counter)  # objects in images by class name
    boxes: Named[str] = _named()  # boxes that look wrong, as (number, one image) by fault
    # objects with annotated facts that no example holds, by fact
    ignored_properties: Counter[str] = field(default_factory=Counter)
    notices: frozenset[str] = frozenset()  # messages about the input for the user
    mask_classes: frozenset[tuple[int, str]] = frozenset()  # (id, name) of classes in drawn masks
    label_lists: Counter[str] = field(default_factory=Counter)  # counts of labels that are lists, see count_label_lists
    # manifest rows by column that names image files, as (number, one name)
    image_names: Named[str] = _named()
    repeated: Named[str] = _named()  # manifest rows of a file that an earlier row has, under "rows"
    # record files by the split in their own name, as (number, one name)
    named_splits: Named[str] = _named()
    reasons: Counter[str] = _bounded()  # rejected records by reason; some are lost, as of `labels`
    # the first files by name: of each folder of a listing, or of a manifest
    sample: tuple[str, ...] = merged_by(
        lambda one, other: tuple(sorted({*one, *other})[:MOST_SAMPLED]) if one and other else one or other, default=()
    )
    # records read despite a peculiarity, as (number, one name) by peculiarity
    peculiarities: Named[str] = _named()
    inferred: Inferred = field(default_factory=Inferred)  # of records, if their format `infers_with_index`

    @property
    def counts(self) -> InputCounts:
        """Totals that are needed at the end of a job."""
        return InputCounts(self.rejected, self.size_bytes, self.fingerprint)

    @property
    def total_records(self) -> int:
        """Records in the input, good or bad; records written and rejected must add up to this."""
        return self.records + self.rejected


def summarize_files(files: Iterable[tuple[str, int]], roles: FolderRoles | None = None) -> InputSummary:
    """Return the summary of record files, given as (name, size in bytes); `roles` are those of --folders."""
    entries = list(files)
    digest = xxhash.xxh3_128_intdigest
    splits: dict[str, tuple[int, str]] = {}
    for name, _ in entries:
        if (split := split_of_file(name)) is not None:
            _add_named(splits, {split: (1, name)})
    return InputSummary(
        size_bytes=sum(size for _, size in entries),
        folders=Counter(folder_key(name, roles) for name, _ in entries),
        fingerprint=sum(digest(f"{name}\0{size}".encode()) for name, size in entries) % _MODULUS,
        named_splits=splits,
    )


def object_labels(batch: pa.RecordBatch) -> pa.Array:
    """Return the class names of all objects in a batch of annotated images."""
    return batch["objects"].flatten().flatten()[0]


_TOO_SMALL = "are fractions, and boxes of this format are pixels; multiply them by the sizes of the images"
_TOO_LARGE = "are pixels, and boxes of this format are fractions; divide them by the sizes of the images"
DECOMPOSED = "whose name has another Unicode form than NFC: its group is compared in NFC"
_EMPTY = "with no annotated object: each is an example without objects"
REACHING = (
    "reach out of their pictures: are they corners in place of sizes, or of a turned picture? --on_bad_box clip cuts"
    " such boxes, and drop leaves them out"
)


def _measure_boxes(batch: pa.RecordBatch) -> Named[str]:
    """Return how many boxes look as if they had another unit or order, each fault with an image's name."""
    owners = batch["objects"].value_parent_indices().to_numpy()
    edges = (edge.to_numpy(zero_copy_only=False) for edge in batch["objects"].flatten().flatten()[1:5])
    width, height = (batch[name].to_numpy(zero_copy_only=False)[owners] for name in ("box_width", "box_height"))
    top, left, bottom, right = boxes = np.array([*edges])
    largest, relative = np.abs(boxes).max(axis=0, initial=0), (width == 1) & (height == 1)
    out = np.maximum(np.maximum(-left, right - width) / width, np.maximum(-top, bottom - height) / height)
    slack = np.where(relative, 0.1, np.maximum(2 / np.minimum(width, height), 0.01))
    found = {_TOO_SMALL: ~relative & (largest <= 1), _TOO_LARGE: relative & (largest > 2), REACHING: out > slack}
    names = batch["name"]
    return {what: (int(odd.sum()), names[owners[odd.argmax()]].as_py()) for what, odd in found.items() if odd.any()}


def summarize_batch(
    batch: pa.RecordBatch, columns: dict[str, ColumnType] | None = None, roles: FolderRoles | None = None
) -> InputSummary:
    """Return the summary of a batch of found files, given the types of their further columns."""
    names, sizes = batch["name"].to_pylist(), batch["size"].to_pylist()
    manifest = batch["line"].null_count < len(names)
    has_labels, has_splits = (manifest or batch[name].null_count < len(names) for name in ("label", "split"))
    digest = xxhash.xxh3_128_intdigest
    labels, lists = count_label_lists(batch["label"].to_pylist()) if has_labels else (Counter[str](), Counter[str]())
    lengths = batch["objects"].value_lengths().to_pylist() if "objects" in batch.schema.names else []
    empty = [name for name, length in zip(names, lengths, strict=False) if length == 0]
    decomposed = [name for name in names if not (name.isascii() or unicodedata.is_normalized("NFC", name))]
    return InputSummary(
        records=len(names),
        size_bytes=sum(sizes),
        folders=Counter(map(folder_key, names, repeat(roles))) if not has_labels else Counter(),
        sample=tuple(sorted(set(names))) if columns is not None else (),
        labels=labels,
        label_lists=lists,
        splits=Counter(split or "" for split in batch["split"].to_pylist()) if has_splits else Counter(),
        columns=columns or {},
        fingerprint=sum(digest(f"{name}\0{size}".encode()) for name, size in zip(names, sizes, strict=True)) % _MODULUS,
        objects=Counter(object_labels(batch).to_pylist()) if "objects" in batch.schema.names else Counter(),
        boxes=_measure_boxes(batch) if "objects" in batch.schema.names else {},
        peculiarities={what: (len(of), min(of)) for what, of in ((_EMPTY, empty), (DECOMPOSED, decomposed)) if of},
        first_file=min(zip(names, (uri or "" for uri in batch["uri"].to_pylist()), strict=True), default=None),
    )


class UsualColumns(NamedTuple):
    """The columns that most files of a table have, and one of these files."""

    columns: frozenset[str]
    file: str


def compared_columns(header: Iterable[str], drop: Collection[str], only: Collection[str]) -> frozenset[str]:
    """Return the columns of a file that are read, of which all files are to have the same."""
    return frozenset(name for name in header if name not in drop and (not only or name in only))


def usual_columns(
    headers: Mapping[tuple[str, ...], tuple[int, str]], drop: Collection[str], only: Collection[str]
) -> UsualColumns | None:
    """Return the columns that more files have than any others; None if there are no files with columns.

    Raise a UserError if two sets of columns have as many files.
    """
    files: Counter[frozenset[str]] = Counter()
    names: dict[frozenset[str], str] = {}
    for header, (number, name) in headers.items():
        columns = compared_columns(header, drop, only)
        files[columns] += number
        names[columns] = min(name, names.get(columns, name))
    order = sorted(files, key=lambda columns: (-files[columns], names[columns]))
    if not order:
        return None
    first = order[0]
    if len(order) > 1 and files[order[1]] == files[first]:
        second = order[1]
        raise UserError(
            f"--on_other_columns reject: {plural(files[first], 'file has', 'files have')} the columns of"
            f" {names[first]!r}, and as many those of {names[second]!r}, which {describe_columns(second, first)} it;"
            " no columns are those of most files; give --on_other_columns union, or --exclude files"
        )
    return UsualColumns(first, names[first])


def describe_columns(columns: Collection[str], usual: Collection[str]) -> str:
    """Return how `columns` differ from the usual ones, as words before the name of what has those."""
    missing, extra = sorted(set(usual) - set(columns)), sorted(set(columns) - set(usual))
    lacks = f"lacks {quote_names(missing)}" if missing else ""
    has = f"has {quote_names(extra)} in addition to" if extra else ""
    return " and ".join(filter(None, (lacks, has)))
