"""Where encoded rows go: their keys, groups and splits, and beside that what they hold. Pure."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.transforms.contents.hashes import SEEDS, Contents
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.options.splits import CONTENT, SplitOptions
from shardmill.transforms.records.encode import EncodedRows, PreparedRows
from shardmill.transforms.records.held import content_hashes, is_all_content
from shardmill.transforms.records.keys import hash_keys
from shardmill.transforms.records.run_file import KeyedRecords
from shardmill.transforms.sharding import keys
from shardmill.transforms.sharding.divisions import Divisions
from shardmill.transforms.sharding.group_rows import rows_of


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """How keys and splits are computed.

    Attributes:
      split: how rows are dealt out to splits, and their order there.
      key: the column that is a row's identity; without it, the encoded record is.
      apart: features that say which record it is, and not what it holds.
    """

    split: SplitOptions = field(default_factory=SplitOptions)
    key: str | None = None
    apart: tuple[str, ...] = ()


def keyed(
    rows: PreparedRows, encoded: EncodedRows, layout: TableLayout, options: KeyOptions, strata: Divisions | None
) -> tuple[KeyedRecords, Contents]:
    """The records of `rows` with their keys and splits, and what they hold; `strata` are how those of --stratify_by are
    cut."""
    order, contents = hashed(rows, encoded, options, _class_ids(encoded, layout))
    if layout.fractions is None:
        splits = rows.folder_splits
    elif options.split.stratify_by is not None:
        assert strata is not None
        splits = _stratified(rows, encoded, layout, options, strata)
    elif len(layout.splits) == 1:
        splits = np.zeros(len(order), np.int64)
    else:
        splits = keys.assign(split_keys(encoded, options), keys.thresholds(layout.fractions))
    ties = rows.ties if encoded.ties is None else encoded.ties
    return KeyedRecords(encoded.framed, order, ties, splits, layout.splits), contents


def stratum_keys(rows: PreparedRows, encoded: EncodedRows, layout: TableLayout, options: KeyOptions) -> KeyedRecords:
    """The records of `rows` keyed by what decides their split within their stratum."""
    names, codes = _strata(encoded, layout, options)
    return KeyedRecords(encoded.framed, split_keys(encoded, options), rows.ties, codes, names)


def split_keys(encoded: EncodedRows, options: KeyOptions) -> np.ndarray:
    """What decides the split of each record: uint64, shape (rows,)."""
    seed = keys.split_salt(options.split.split_seed)
    column = options.split.group_by or options.key
    by_content = options.split.group_by == CONTENT
    if column is None or (by_content and column not in encoded.helpers):
        return _ungrouped(encoded, seed, options, by_content)
    groups = hash_keys(encoded.helpers[column], seed)
    missing = encoded.helpers[column].is_null().to_numpy(zero_copy_only=False)
    if missing.any():  # rows of no group are groups of their own, or of their equals
        groups[missing] = _ungrouped(encoded, seed, options, by_content)[missing]
    return groups


def _ungrouped(encoded: EncodedRows, seed: int, options: KeyOptions, by_content: bool) -> np.ndarray:
    return content_hashes(encoded, [seed], options.apart)[0] if by_content else encoded.payload_hashes([seed])[0]


def _strata(encoded: EncodedRows, layout: TableLayout, options: KeyOptions) -> tuple[list[str], np.ndarray]:
    assert options.split.stratify_by is not None
    column = encoded.helpers[options.split.stratify_by]
    if options.split.stratify_by in layout.class_names:  # "1" and "1.0" are two classes
        column = encoded.features[options.split.stratify_by].cast(pa.string()).cast(pa.large_binary())
    column = pc.fill_null(column, b"").dictionary_encode()
    names = [name.decode(errors="surrogateescape") for name in column.dictionary.to_pylist()]
    return names, column.indices.to_numpy().astype(np.int64)


def _stratified(
    rows: PreparedRows, encoded: EncodedRows, layout: TableLayout, options: KeyOptions, strata: Divisions
) -> np.ndarray:
    names, codes = _strata(encoded, layout, options)
    hashed = split_keys(encoded, options)
    splits = np.zeros(len(codes), np.int64)
    for name, mine in zip(names, rows_of(codes, len(names)), strict=True):
        splits[mine] = strata[name].cuts.part_of(hashed[mine], rows.ties[mine])
    return splits


def hashed(
    rows: PreparedRows, encoded: EncodedRows, options: KeyOptions, class_ids: pa.Array | None = None
) -> tuple[np.ndarray, Contents]:
    """What orders `rows`, uint64, shape (rows,), and what they hold: nothing, where they are parts of examples.

    Where either is a hash of whole records, one hash serves both, and records are read once: a tenth of what staging
    lines of text takes.

    Args:
      class_ids: of each row, int64, null where it has none: the label is no part of what a picture holds.
    """
    by_record = options.key is None and not options.split.no_shuffle
    if by_record and is_all_content(encoded, options.apart) and options.split.seed not in SEEDS:
        order, low = encoded.payload_hashes([options.split.seed, SEEDS[1]])
        return order, Contents(order, low, rows.ties)
    if options.split.no_shuffle:
        order = rows.input_order()
    elif options.key is not None:
        order = hash_keys(encoded.helpers[options.key], options.split.seed)
    else:
        order = encoded.payload_hashes([options.split.seed])[0]
    if not encoded.is_compared:
        return order, Contents()
    high, low = content_hashes(encoded, SEEDS, options.apart)
    if class_ids is None or not encoded.pictures:
        return order, Contents(high, low, rows.ties)
    labels = pc.fill_null(pc.add(class_ids, 1), 0).to_numpy().astype(np.uint64)
    return order, Contents(high, low, rows.ties, labels)


def _class_ids(encoded: EncodedRows, layout: TableLayout) -> pa.Array | None:
    """The id of the class of each row; None unless there is one label, and one class a row. That records lack their
    label is said once all are read."""
    labels = layout.row_labels
    if len(labels) != 1 or labels[0] not in encoded.features.schema.names:
        return None
    found = encoded.features[labels[0]]
    return found if pa.types.is_int64(found.type) else None
