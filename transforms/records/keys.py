"""Keys, groups, splits and content hashes of encoded rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.data import spans
from shardmill.transforms.columns.arrow import data_of, offsets_of
from shardmill.transforms.columns.example_bytes import payload_hashes
from shardmill.transforms.columns.example_encoding import encode_examples
from shardmill.transforms.features.rows import EncodedRows
from shardmill.transforms.layout.tables import TableLayout
from shardmill.transforms.options.job_options import CONTENT, SplitOptions
from shardmill.transforms.records.encoding import PreparedRows, hash_keys
from shardmill.transforms.records.run_file import KeyedRecords
from shardmill.transforms.shards import balance
from shardmill.transforms.shards.balance import rows_by_group
from shardmill.transforms.shards.divisions import DISPUTED, Divisions
from shardmill.transforms.statistics.contents import SEEDS, Contents


def is_whole_record_content(encoded: EncodedRows, non_content: Sequence[str]) -> bool:
    """Return True if a whole record can be hashed as its content: rows without images or features to leave out."""
    return not encoded.pictures and len({name in non_content for name in encoded.features.schema.names}) < 2


def hash_contents(encoded: EncodedRows, seeds: Sequence[int], non_content: Sequence[str]) -> np.ndarray:
    """Return the 64-bit xxh3 of each row's content for each seed: uint64, shape (seeds, rows).

    The content of a row with images is its images, so that rows and image files compare alike. Otherwise it is the
    record without the features in `non_content`, or the whole record if it has no other features.
    """
    if is_whole_record_content(encoded, non_content):
        return payload_hashes(encoded.framed, seeds)
    features = encoded.features
    if len(encoded.pictures) == 1:  # which need not be copied
        (name,) = encoded.pictures
        return _hash_values(features[name], seeds)
    content_features = encoded.pictures or [name for name in features.schema.names if name not in non_content]
    return hash_records(features.select(list(content_features)), seeds)


def hash_records(features: pa.RecordBatch, seeds: Sequence[int]) -> np.ndarray:
    """Return the 64-bit xxh3 of each row's encoded record for each seed: uint64, shape (seeds, rows)."""
    return _hash_values(encode_examples(features), seeds)


def _hash_values(values: pa.Array, seeds: Sequence[int]) -> np.ndarray:
    offsets = offsets_of(values).astype(np.int64)
    return spans.hashes_by_seed(data_of(values), offsets[:-1], offsets[1:], seeds)


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """Options that decide the keys and splits of rows."""

    split: SplitOptions = field(default_factory=SplitOptions)  # how rows are assigned to splits and ordered
    key: str | None = None  # identity column; None for the encoded record
    non_content: tuple[str, ...] = ()  # features that identify a record but are not content
    on_duplicate_key: str | None = None  # action for records with the key of another one; None without --key


def assign_keys(
    rows: PreparedRows, encoded: EncodedRows, layout: TableLayout, options: KeyOptions, strata: Divisions | None
) -> tuple[KeyedRecords, Contents]:
    """Return encoded rows with the keys that order them and choose their split, and with hashes of their content."""
    order, contents = order_and_contents(rows, encoded, options, _find_class_ids(encoded, layout))
    if layout.fractions is None:
        splits = rows.folder_splits
    elif options.split.stratify_by is not None:
        assert strata is not None
        splits = _split_by_stratum(rows, encoded, layout, options, strata)
    elif len(layout.splits) == 1:
        splits = np.zeros(len(order), np.int64)
    else:
        splits = balance.assign_splits(hash_split_keys(encoded, options), balance.split_thresholds(layout.fractions))
    ties = _find_ties(rows, options.key is None) if encoded.ties is None else encoded.ties
    return KeyedRecords(encoded.framed, order, ties, splits, layout.splits), contents


def key_by_stratum(rows: PreparedRows, encoded: EncodedRows, layout: TableLayout, options: KeyOptions) -> KeyedRecords:
    """Return the records of `rows` grouped by stratum, each with the key that decides its split."""
    names, codes = _find_strata(encoded, layout, options)
    ties = _find_ties(rows, _is_split_by_content(options))
    return KeyedRecords(encoded.framed, hash_split_keys(encoded, options), ties, codes, names)


def _find_ties(rows: PreparedRows, by_content: bool) -> np.ndarray:
    return rows.ties if by_content else rows.sample_ties


def _is_split_by_content(options: KeyOptions) -> bool:
    return (options.split.group_by or options.key) in (None, CONTENT)


def hash_split_keys(encoded: EncodedRows, options: KeyOptions) -> np.ndarray:
    """Return the hash that decides each record's split: uint64, shape (rows,)."""
    seed = balance.split_salt(options.split.split_seed)
    column = options.split.group_by or options.key
    by_content = options.split.group_by == CONTENT
    if column is None or (by_content and column not in encoded.helpers):
        return _hash_ungrouped(encoded, seed, options, by_content)
    groups = hash_keys(encoded.helpers[column], seed)
    missing = encoded.helpers[column].is_null().to_numpy(zero_copy_only=False)
    if missing.any():  # rows of no group are groups of their own, or of their equals
        groups[missing] = _hash_ungrouped(encoded, seed, options, by_content)[missing]
    return groups


def _hash_ungrouped(encoded: EncodedRows, seed: int, options: KeyOptions, by_content: bool) -> np.ndarray:
    non_content = options.non_content
    return (hash_contents(encoded, [seed], non_content) if by_content else payload_hashes(encoded.framed, [seed]))[0]


def _find_strata(encoded: EncodedRows, layout: TableLayout, options: KeyOptions) -> tuple[list[str], np.ndarray]:
    assert options.split.stratify_by is not None
    column, classes = encoded.helpers[options.split.stratify_by], layout.class_names.get(options.split.stratify_by)
    if classes is not None:  # "1" and "1.0" are two classes
        column = encoded.features[options.split.stratify_by].cast(pa.string()).cast(pa.large_binary())
    column = pc.fill_null(column, b"").dictionary_encode()
    names = [name.decode(errors="surrogateescape") for name in column.dictionary.to_pylist()]
    if classes is not None:
        names = [classes.names[int(name)] if name else name for name in names]
    return names, column.indices.to_numpy().astype(np.int64)


def _split_by_stratum(
    rows: PreparedRows, encoded: EncodedRows, layout: TableLayout, options: KeyOptions, strata: Divisions
) -> np.ndarray:
    names, codes = _find_strata(encoded, layout, options)
    hashed = hash_split_keys(encoded, options)
    splits, ties = np.zeros(len(codes), np.int64), _find_ties(rows, _is_split_by_content(options))
    for name, mine in zip(names, rows_by_group(codes, len(names)), strict=True):
        splits[mine] = strata[name].cuts.find_parts(hashed[mine], ties[mine])
    if DISPUTED in strata:  # rows of these ids have several labels, and must meet in one split to be rejected
        disputed = np.isin(hashed, strata[DISPUTED].cuts.keys)
        splits[disputed] = 0
    return splits


def order_and_contents(
    rows: PreparedRows, encoded: EncodedRows, options: KeyOptions, class_ids: pa.Array | None = None
) -> tuple[np.ndarray, Contents]:
    """Return the keys that order `rows`, uint64, shape (rows,), and their content hashes, empty if they are only parts.

    If both are hashes of whole records, one hash serves as both and records are read once. This saves a tenth of the
    time of staging lines of text. `class_ids` are apart because an image's content excludes its label.
    """
    by_record = options.key is None and not options.split.no_shuffle
    if by_record and is_whole_record_content(encoded, options.non_content) and options.split.seed not in SEEDS:
        order, low = payload_hashes(encoded.framed, [options.split.seed, SEEDS[1]])
        return order, Contents(order, low, rows.sample_ties)
    if options.split.no_shuffle:
        order = rows.input_order()
    elif options.key is not None:
        order = hash_keys(encoded.helpers[options.key], options.split.seed)
    else:
        order = payload_hashes(encoded.framed, [options.split.seed])[0]
    if not encoded.is_compared:
        return order, Contents()
    high, low = hash_contents(encoded, SEEDS, options.non_content)
    if class_ids is None or not encoded.pictures:
        return order, Contents(high, low, rows.sample_ties)
    labels = pc.fill_null(pc.add(class_ids, 1), 0).to_numpy().astype(np.uint64)
    return order, Contents(high, low, rows.sample_ties, labels)


def _find_class_ids(encoded: EncodedRows, layout: TableLayout) -> pa.Array | None:
    labels = layout.row_labels  # missing ones are reported after all rows are read
    if len(labels) != 1 or labels[0] not in encoded.features.schema.names:
        return None
    found = encoded.features[labels[0]]
    return found if pa.types.is_int64(found.type) else None
