"""What is known of the input once all of it is listed: folders, labels, columns, sizes. Mergeable in any order."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
import xxhash

from shardmill.transforms.columns.inferred import MAX_VALUES
from shardmill.transforms.columns.types import ColumnType, merge_types
from shardmill.transforms.inputs.annotations.objects import labels_of
from shardmill.transforms.inputs.folders import FolderRoles, folder_key, split_of_file
from shardmill.transforms.inputs.label_lists import count_lists

_MODULUS = 1 << 128  # of the sum of 128-bit hashes, which is the same in any order
_MOST_KEYS = MAX_VALUES + 2  # one too many, and ""

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class InputCounts:
    """How much input there is: what is left to know of it at the end; attributes as those of InputSummary."""

    rejected: int = 0
    size_bytes: int = 0
    fingerprint: int = 0


@dataclass(slots=True)
class InputSummary:
    """Counts over any part of the input.

    Attributes:
      records: files found.
      rejected: records that could not be indexed.
      size_bytes: of all files found.
      folders: files by the first folders of their names, see folders.folder_key: `""`, `"cats"`, `"train/cats/1"`.
      labels, splits: rows of a manifest by label and by split; "" where it is missing. Of more than MAX_VALUES, which
        fail the job, some are forgotten.
      columns: types of a manifest's further columns.
      skipped: what is not part of the input, by kind, as (number, one name).
      headers: columns of tables, as (number of files, one name).
      first: the least (name, URI or "") of all files found.
      missing: files of a manifest that are not there, as (number, one name), by reason.
      categories: the classes that files of annotations say there are, in order, as (number of files, one's name).
      objects: objects in images by the name of their class.
      left_out: annotations of objects that say what no example holds, by what that is.
      notices: what the user must be told of the input.
      label_lists: of a manifest's labels that are lists, see shardmill.transforms.inputs.label_lists.
      image_names: rows of a manifest in which a column names an image file, as (number, one name).
      named_splits: files of records whose own names say a split, as (number, one name), by the split.
      noted: records that are read although there is something to say of them, as (number, one name), by what that is.
      fingerprint: the sum modulo 2^128 of xxh3_128 of each name and size: equal for equal inputs in any order.
    """

    records: int = 0
    rejected: int = 0
    size_bytes: int = 0
    folders: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    splits: Counter[str] = field(default_factory=Counter)
    columns: dict[str, ColumnType] = field(default_factory=dict)
    skipped: dict[str, tuple[int, str]] = field(default_factory=dict)
    fingerprint: int = 0
    headers: dict[tuple[str, ...], tuple[int, str]] = field(default_factory=dict)
    first: tuple[str, str] | None = None
    missing: dict[str, tuple[int, str]] = field(default_factory=dict)
    categories: dict[tuple[str, ...], tuple[int, str]] = field(default_factory=dict)
    objects: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    notices: frozenset[str] = frozenset()
    label_lists: Counter[str] = field(default_factory=Counter)
    image_names: dict[str, tuple[int, str]] = field(default_factory=dict)
    named_splits: dict[str, tuple[int, str]] = field(default_factory=dict)
    noted: dict[str, tuple[int, str]] = field(default_factory=dict)

    def merge(self, other: "InputSummary") -> "InputSummary":
        """Add `other` to this summary and return this summary; `other` stays as it is.

        The cost depends on the size of `other` alone, so that merging all parts of an input is linear in them.
        """
        self.records += other.records
        self.rejected += other.rejected
        self.size_bytes += other.size_bytes
        self.folders.update(other.folders)
        _add_bounded(self.labels, other.labels)
        _add_bounded(self.splits, other.splits)
        self.columns = merge_types(self.columns, other.columns)
        _add_named(self.skipped, other.skipped)
        self.fingerprint = (self.fingerprint + other.fingerprint) % _MODULUS
        _add_named(self.headers, other.headers)
        self.first = min(filter(None, (self.first, other.first)), default=None)
        _add_named(self.missing, other.missing)
        _add_named(self.categories, other.categories)
        self.objects.update(other.objects)
        self.left_out.update(other.left_out)
        self.notices |= other.notices
        self.label_lists.update(other.label_lists)
        _add_named(self.image_names, other.image_names)
        _add_named(self.named_splits, other.named_splits)
        _add_named(self.noted, other.noted)
        return self

    @property
    def counts(self) -> InputCounts:
        """How much input there is."""
        return InputCounts(self.rejected, self.size_bytes, self.fingerprint)

    @property
    def matched(self) -> int:
        """Records in the input, good or bad: what written and rejected must add up to."""
        return self.records + self.rejected


def _add_bounded(one: Counter[str], other: Counter[str]) -> None:
    """Add the counts of `other` to `one`, which keeps its first _MOST_KEYS keys."""
    one.update(other)
    while len(one) > _MOST_KEYS:
        one.popitem()


def _add_named(one: dict[Key, tuple[int, str]], other: dict[Key, tuple[int, str]]) -> None:
    """Add the numbers of `other` to `one`, which keeps the least name of each key."""
    for kind, (number, name) in other.items():
        before, first = one.get(kind, (0, name))
        one[kind] = (before + number, min(first, name))


def summarize_skipped(kind: str, name: str) -> InputSummary:
    """The summary of one thing passed over."""
    return InputSummary(skipped={kind: (1, name)})


def summarize_files(files: Iterable[tuple[str, int]], roles: FolderRoles | None = None) -> InputSummary:
    """The summary of files that hold records: (name, bytes) of each; `roles` are those of --folders."""
    listed = list(files)
    digest = xxhash.xxh3_128_intdigest
    named: dict[str, tuple[int, str]] = {}
    for name, _ in listed:
        if (split := split_of_file(name)) is not None:
            _add_named(named, {split: (1, name)})
    return InputSummary(
        size_bytes=sum(size for _, size in listed),
        folders=Counter(folder_key(name, roles) for name, _ in listed),
        fingerprint=sum(digest(f"{name}\0{size}".encode()) for name, size in listed) % _MODULUS,
        named_splits=named,
    )


def summarize_header(columns: tuple[str, ...], name: str) -> InputSummary:
    """The summary of one file's header."""
    return InputSummary(headers={columns: (1, name)})


def summarize_batch(
    batch: pa.RecordBatch, columns: dict[str, ColumnType] | None = None, roles: FolderRoles | None = None
) -> InputSummary:
    """The summary of a batch of FOUND files; `columns` are the types of their further columns, `roles` those of
    --folders."""
    names, sizes = batch["name"].to_pylist(), batch["size"].to_pylist()
    manifest = batch["line"].null_count < len(names)
    digest = xxhash.xxh3_128_intdigest
    labels, lists = count_lists(batch["label"].to_pylist()) if manifest else (Counter[str](), Counter[str]())
    return InputSummary(
        records=len(names),
        size_bytes=sum(sizes),
        folders=Counter(folder_key(name, roles) for name in names) if not manifest else Counter(),
        labels=labels,
        label_lists=lists,
        splits=Counter(split or "" for split in batch["split"].to_pylist()) if manifest else Counter(),
        columns=columns or {},
        fingerprint=sum(digest(f"{name}\0{size}".encode()) for name, size in zip(names, sizes, strict=True)) % _MODULUS,
        objects=Counter(labels_of(batch).to_pylist()) if "objects" in batch.schema.names else Counter(),
        first=min(zip(names, (uri or "" for uri in batch["uri"].to_pylist()), strict=True), default=None),
    )
