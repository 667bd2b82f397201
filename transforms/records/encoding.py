"""Encode rows as framed records with their statistics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.data import spans
from shardmill.data.features import NO_RENAMES, Renames
from shardmill.metadata.labels import ClassNames
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns import example_decoding
from shardmill.transforms.columns.arrow import Separated, as_text, data_of, is_list, offsets_of, split_texts
from shardmill.transforms.columns.conversion import find_rounded_texts
from shardmill.transforms.columns.example_bytes import FOOTER_BYTES, frame, payload_hashes
from shardmill.transforms.columns.example_encoding import MAX_RECORD_BYTES, encode_framed, entry_sizes, example_sizes
from shardmill.transforms.columns.text import canonical_texts, join_items, key_texts, misfit_reason, parse_values
from shardmill.transforms.encodings import to_nfc
from shardmill.transforms.features.rows import ENCODE_STAGE, PICTURES, Assembly, EncodedRows, Flags, RowAddOn, RowBatch
from shardmill.transforms.findings import NO_CLASS, REPEATED_CLASS, SEVERAL_CLASSES, Findings, LabelLists
from shardmill.transforms.formats.format import IMAGE_COLUMN, IMAGE_OFFSET, FileRef, Rows, key_column_name, remark_empty
from shardmill.transforms.layout.tables import TableLayout
from shardmill.transforms.records.run_file import REFERENCE
from shardmill.transforms.statistics.contents import hash_lines
from shardmill.transforms.statistics.tables import TableStats


def hash_keys(texts: pa.LargeBinaryArray, seed: int) -> np.ndarray:
    """Return the xxh3_64 of each text: uint64, shape (n,). A missing text hashes like an empty one."""
    filled = pc.fill_null(texts, b"")
    offsets, data = offsets_of(filled), data_of(filled)
    return spans.hashes(data, offsets[:-1], offsets[1:], seed)


def keys_as_stored(keys: pa.Array, features: pa.RecordBatch, name: str, layout: TableLayout) -> pa.Array:
    """Return the texts or classes of column `name` in NFC; where none are stored, its `keys`, one for 1.1 and 1.10."""
    stored = features[name] if name in features.schema.names else pa.nulls(0)
    if name in layout.class_names and pa.types.is_integer(stored.type):
        stored = pa.array(layout.class_names[name].names).take(stored).cast(pa.large_binary())
    if not pa.types.is_large_binary(stored.type.value_type if is_list(stored.type) else stored.type):
        return keys
    texts, canonical = (join_items(stored, read) for read in (to_nfc, lambda items: canonical_texts(to_nfc(items))))
    return pc.if_else(pc.equal(canonical, keys), texts, keys)  # times of other units are one


def input_order_keys(file: FileRef, lines: np.ndarray) -> np.ndarray:
    """Return keys that sort records like the input: uint64, shape (n,), in the range of keys that their file has."""
    # At 32 bytes a line. The guess only has to be monotonic: it spreads keys over the histogram.
    guess = file.size_bytes / 32 + 1
    return np.uint64(file.key_start) + (lines / (lines + guess) * file.key_span).astype(np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class ReadLabels:
    """The converted labels of a column."""

    values: pa.Array  # ids, numbers or lists of them; arbitrary for bad rows
    bad: Flags  # rows with an invalid label
    reason: Callable[[int], str]  # returns the reason why a row is bad
    repeated: npt.NDArray[np.int64]  # int64, shape (rows,): dropped repetitions of a class in a row
    lengths: npt.NDArray[np.int64]  # int64, shape (rows,): list lengths in the input


def is_outside_classes(ids: pa.Array, classes: int) -> Flags:
    """Return the rows with an id, or with any id of a list, outside 0 … classes - 1: bool, shape (rows,)."""
    if pa.types.is_large_list(ids.type):
        wrong, rows = is_outside_classes(ids.flatten(), classes), ids.value_parent_indices().to_numpy()
        return np.bincount(rows, weights=wrong, minlength=len(ids)) > 0
    values = ids.fill_null(0).to_numpy(zero_copy_only=False)
    return (values < 0) | (values >= classes)


def read_labels(column: pa.Array, separated: Separated | None, classes: ClassNames | None) -> ReadLabels:
    """Convert a column of labels, of one or several classes a row, to class ids or, without class names, numbers."""
    lists = column if separated is None else split_texts(column, separated.separator)
    zeros = np.zeros(len(lists), np.int64)
    if not pa.types.is_large_list(lists.type):
        assert classes is not None
        ids, unknown = _class_ids_of_names(lists, classes)
        return ReadLabels(ids, unknown, lambda row: _unknown_class_message(lists[row], classes), zeros, zeros + 1)
    items, rows = lists.flatten(), lists.value_parent_indices().to_numpy()
    lengths = np.bincount(rows, minlength=len(lists))
    if classes is None:
        assert separated is not None
        texts, dtype = items.cast(pa.binary()), separated.dtype
        values, misfits = parse_values(texts, dtype)
        wrong = np.zeros(len(items), bool)
        wrong[misfits] = True
        kept = np.ones(len(items), bool)

        def reason(item: int) -> str:
            return misfit_reason(texts[item].as_py(), dtype)

    else:
        values, wrong = _class_ids_of_names(items, classes)
        kept = np.zeros(len(items), bool)
        codes = rows * (len(classes) + 1) + values.fill_null(len(classes)).to_numpy()
        kept[np.unique(codes, return_index=True)[1]] = True

        def reason(item: int) -> str:
            return _unknown_class_message(items[item], classes)

    first = {int(rows[item]): int(item) for item in np.flatnonzero(wrong)[::-1]}
    bad = np.zeros(len(lists), bool)
    bad[list(first)] = True
    kept_lengths = np.bincount(rows[kept], minlength=len(lists))
    offsets = pa.array(np.concatenate((np.zeros(1, np.int64), np.cumsum(kept_lengths))))
    values = values.filter(pa.array(kept)).fill_null(0)  # of rows that are bad
    kept_lists = pa.LargeListArray.from_arrays(offsets, values)
    return ReadLabels(kept_lists, bad, lambda row: reason(first[row]), lengths - kept_lengths, lengths)


def _class_ids_of_names(names: pa.Array, classes: ClassNames) -> tuple[pa.Array, Flags]:
    encoded = names.dictionary_encode()
    known = pa.array([classes.id(as_text(name)) for name in encoded.dictionary.to_pylist()], pa.int64())
    ids = known.take(encoded.indices)
    return ids, ids.is_null().to_numpy(zero_copy_only=False)


def _unknown_class_message(name: pa.Scalar, classes: ClassNames) -> str:
    if not name.as_py():
        return "a class without a name; expected names, or an empty list"
    return f"class {as_text(name.as_py())!r} is not in {classes.source}"


CONTENT_SEED = 0x9AE16A3B2F90404F  # any that orders rows by nothing else
_PLACE_BITS = np.uint64((1 << 24) - 1)  # of a tie by content; two rows of one key agree in the others once in 2**40
_FILE_COLUMN, _NUMBER_COLUMN = "file", "number"  # of an existing record, in addition to its bytes


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRows:
    """Valid rows of the input, ready to be encoded."""

    batch: pa.RecordBatch  # columns of the rows
    ties: np.ndarray  # uint64, shape (rows,), see transforms.records.keys
    folder_splits: np.ndarray  # int64, shape (rows,): split of the file's folder, or -1
    sources: tuple[tuple[FileRef, np.ndarray], ...]  # files of the rows, each with its rows' lines
    findings: Findings = field(default_factory=Findings)  # about these rows
    # of rows without an order, ties by content, and hashes of the content: uint64, shape (rows,)
    content_ties: np.ndarray | None = None
    content_hashes: np.ndarray | None = None

    @property
    def sample_ties(self) -> np.ndarray:
        """Ties that do not depend on how a runner divided rows without an order."""
        return self.ties if self.content_ties is None else self.content_ties

    def with_content_ties(self, encoded: "EncodedRows") -> "PreparedRows":
        """Return rows without an order with ties by content; other rows as they are.

        Of equal rows, the last bits of the ties differ, so that shards can be cut between them.
        """
        if all(file.is_ordered for file, _ in self.sources):
            return self
        hashes = payload_hashes(encoded.framed, [CONTENT_SEED])[0]
        return replace(self, content_ties=(hashes & ~_PLACE_BITS) | (self.ties & _PLACE_BITS), content_hashes=hashes)

    def input_order(self) -> np.ndarray:
        """Return keys that sort the rows like the input: uint64, shape (rows,)."""
        return np.concatenate([input_order_keys(file, lines) for file, lines in self.sources])


class RecordEncoder(Protocol):
    """Interface of encoders: prepare the rows of an input format and encode them as records."""

    def prepare(self, rows: Rows, file: FileRef, layout: TableLayout) -> tuple[PreparedRows, list[Reject]]:
        """Return the rows that can be encoded, and a Reject for each of the others."""

    def encode(self, batch: pa.RecordBatch, layout: TableLayout) -> EncodedRows:
        """Encode prepared rows as records."""


@dataclass(frozen=True)
class TableEncoder:
    """Encoder of table rows as tf.train.Examples."""

    helpers: tuple[str, ...] = ()  # columns read for keys, groups or strata, even if they are not features
    renames: Renames = NO_RENAMES  # names of the features in examples
    add_ons: tuple[RowAddOn, ...] = ()  # hooks that change rows
    assembly: Assembly | None = None  # how examples are made of records, if a record is not one

    def prepare(self, rows: Rows, file: FileRef, layout: TableLayout) -> tuple[PreparedRows, list[Reject]]:
        """Convert class names to ids; reject rows without a label or a required value, and records over 2 GB."""
        found = RowBatch(rows.batch, rows.lines, file.name, layout)
        found.counters.append(partial(remark_empty, rows, file, layout.types.keys() - {layout.row_name_column}))
        self._convert_labels(found, layout)
        for add_on in self.add_ons:
            add_on.prepare(found)
        if layout.images:
            from shardmill.transforms.records.images import check_rows

            check_rows(found, layout)
        self._check_features(found, layout)
        good = found.is_good
        kept = found.batch if good.all() else found.batch.filter(pa.array(good))
        return replace(add_positions(kept, rows.lines[good], file, layout), findings=found.find()), found.rejects

    def _convert_labels(self, rows: RowBatch, layout: TableLayout) -> None:
        for name in layout.required_labels:
            rows.reject(rows.is_missing(name), lambda _, name=name: f"no label: column {name!r} has no value")
        amounts = {}
        for name in dict.fromkeys((*layout.label_separators, *layout.class_names)):
            separated = layout.label_separators.get(name)
            read = read_labels(rows.batch[name], separated, layout.class_names.get(name))
            if separated is not None and separated.dtype in ("int64", "float32"):
                texts = split_texts(rows.batch[name], separated.separator)
                rows.counters.append(partial(find_rounded_texts, name, texts, read.values))
            rows.reject(read.bad, read.reason)
            rows.set_column(name, read.values)
            amounts[name, NO_CLASS], amounts[name, SEVERAL_CLASSES] = read.lengths == 0, read.lengths > 1
            amounts[name, REPEATED_CLASS] = read.repeated
        separators = {name: how.separator for name, how in layout.label_separators.items()}

        rows.counters.append(
            lambda good: LabelLists({key: int(amount[good].sum()) for key, amount in amounts.items()}, separators)
        )

    def _check_features(self, rows: RowBatch, layout: TableLayout) -> None:
        """Reject rows with an id of no class, without a required value, or of more than 2 GB."""
        for feature in layout.features:
            column = rows.batch[feature.name]
            if feature.kind == "class_label" and feature.name not in layout.class_names:
                expected = f"is no id of a class of {feature.name!r}; expected 0 to {len(feature.class_names) - 1}"
                wrong = is_outside_classes(column, len(feature.class_names))
                rows.reject(wrong, lambda row, column=column, said=expected: f"{column[row].as_py()} {said}")
            is_required = feature.required and feature.name not in (*layout.required_labels, *layout.images)
            if is_required and column.null_count:
                message = f"column {feature.name!r} has no value, which {layout.schema_name} wants in every row"
                rows.reject(rows.is_missing(feature.name), lambda _, said=message: said)
        if rows.batch.nbytes > MAX_RECORD_BYTES // 2:
            sizes = example_sizes(rows.batch.select([feature.name for feature in layout.features]))
            too_large = sizes > MAX_RECORD_BYTES
            rows.reject(too_large, lambda row: f"a record of {sizes[row]:,} bytes; protobuf holds 2 GB at most")

    def encode(self, batch: pa.RecordBatch, layout: TableLayout) -> EncodedRows:
        features = batch.select([feature.name for feature in layout.features])
        columns = {name: key_column_name(name) for name in self.helpers}
        helpers = {name: batch[column] for name, column in columns.items() if column in batch.schema.names}
        if self.assembly is not None:
            return self.assembly.encode(batch, helpers, layout)
        references = None
        renamed = features.rename_columns(list(map(self.renames, features.schema.names)))
        framed = encode_framed(renamed)
        if IMAGE_OFFSET in batch.schema.names:
            requested = batch[IMAGE_COLUMN].to_numpy()
            places = {features.schema.get_field_index(name): requested == n for n, name in enumerate(layout.types)}
            references = _locate_values(framed, renamed, batch[IMAGE_OFFSET].to_numpy(), places)
        pictures = {name: batch[f"{PICTURES}{name}"] for name in layout.images}
        return EncodedRows(framed, features, helpers, pictures=pictures, references=references)


def _locate_values(
    framed: pa.LargeBinaryArray, features: pa.RecordBatch, offsets: np.ndarray, places: Mapping[int, Flags]
) -> np.ndarray:
    """Return where records have the images at `offsets` of their files: dtype REFERENCE, shape (rows,).

    `places` tells which rows have their image in a column of `features`, given by its index, or -1 if it is none.
    """
    references, bounds = np.zeros(len(framed), REFERENCE), offsets_of(framed)
    for place, is_there in places.items():
        if place < 0 or not is_there.any():
            continue
        lengths = np.diff(offsets_of(features.column(place)))
        # A value is the end of its feature's entry, and entries are in column order
        following = entry_sizes(features.select(list(range(place + 1, features.num_columns))))
        at = np.diff(bounds) - FOOTER_BYTES - following - lengths
        for name, values in (("offset", offsets), ("length", lengths), ("at", at)):
            references[name][is_there] = values[is_there]
    return references


@dataclass(frozen=True)
class LineEncoder(TableEncoder):
    """Encoder of text lines as tf.train.Examples, with the class and name of their file if these are features."""

    def prepare(self, rows: Rows, file: FileRef, layout: TableLayout) -> tuple[PreparedRows, list[Reject]]:
        """Add the columns that come from the file, then prepare the rows like a table's."""
        batch = rows.batch
        names = {feature.name for feature in layout.features}
        if layout.class_names:
            _, label = layout.folders.locate(file.name)
            assert label is not None
            batch = batch.append_column("label", _repeat_text(label, len(batch)))
        if "filename" in names:
            batch = batch.append_column("filename", _repeat_text(file.name, len(batch)))
        for name in filter(batch.schema.names.__contains__, self.helpers):
            batch = batch.append_column(key_column_name(name), key_texts(batch[name]))
        return TableEncoder.prepare(self, replace(rows, batch=batch), file, layout)


def _repeat_text(text: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(text.encode(), pa.large_binary()), rows)


@dataclass(frozen=True)
class RecordPasser:
    """Encoder that passes existing records through unchanged, and decodes them for statistics, types and keys."""

    helpers: tuple[str, ...] = ()  # features used as keys, groups or strata
    is_raw: bool = False  # records are of any type, and are not parsed

    def prepare(self, rows: Rows, file: FileRef, layout: TableLayout) -> tuple[PreparedRows, list[Reject]]:
        """Reject records whose features are not of the layout's kinds, if any; add the others' files and numbers."""
        batch, lines, rejects = rows.batch, rows.lines, []
        if layout.kinds:
            problems = example_decoding.kind_misfits(example_decoding.decode_parts(batch["record"]), layout.kinds)
            rejects = [
                Reject(file.name, int(lines[row]), ENCODE_STAGE, reason) for row, reason in sorted(problems.items())
            ]
            good = np.ones(len(lines), bool)
            good[list(problems)] = False
            batch, lines = batch.filter(pa.array(good)), lines[good]
        source = pa.DictionaryArray.from_arrays(np.zeros(len(lines), np.int32), [file.name])
        batch = batch.append_column(_FILE_COLUMN, source).append_column(_NUMBER_COLUMN, pa.array(lines))
        return add_positions(batch, lines, file, layout), rejects

    def encode(self, batch: pa.RecordBatch, layout: TableLayout) -> EncodedRows:
        records = batch["record"]
        if self.is_raw:
            return EncodedRows(frame(records), batch.select(["record"]), {})
        parts = example_decoding.decode_parts(records)
        features = example_decoding.merge_parts(parts, len(records))
        helpers = {name: example_decoding.feature_key_texts(parts, name) for name in self.helpers}
        kinds = example_decoding.count_kinds(parts, batch[_FILE_COLUMN], batch[_NUMBER_COLUMN].to_numpy())
        return EncodedRows(frame(records), features, helpers, example_decoding.infer_examples(features), kinds)


def add_positions(batch: pa.RecordBatch, lines: np.ndarray, file: FileRef, layout: TableLayout) -> PreparedRows:
    """Return the rows with tie-breakers of their order, and with their folder's split if folders decide the splits."""
    split = -1
    if layout.fractions is None:
        named, _ = layout.folders.locate(file.name)
        assert named is not None
        split = layout.splits.index(named)
    return PreparedRows(batch, hash_lines(file.name, lines), np.full(len(lines), split), ((file, lines),))


def concatenate_rows(parts: Sequence[PreparedRows]) -> PreparedRows:
    """Join several batches of rows that are ready to be encoded."""
    if len(parts) == 1:
        return parts[0]
    return PreparedRows(
        pa.concat_batches([part.batch for part in parts]),
        np.concatenate([part.ties for part in parts]),
        np.concatenate([part.folder_splits for part in parts]),
        tuple(source for part in parts for source in part.sources),
        reduce(Findings.merge, (part.findings for part in parts)),
    )


def count_by_split(
    rows: PreparedRows,
    encoded: EncodedRows,
    groups: np.ndarray,
    layout: TableLayout,
    known: Mapping[str, TableStats] | None = None,
) -> dict[str, TableStats]:
    """Return the statistics of the rows of each split, to be merged into those that are `known`."""
    known = known or {}
    counted, stats = encoded.counted_columns, {}
    present = np.flatnonzero(np.bincount(groups)).tolist()
    for code in present:
        is_in_split = groups == code
        columns = counted if len(present) == 1 else counted.filter(pa.array(is_in_split))
        ties = rows.sample_ties[is_in_split]
        split = layout.splits[code]
        stats[split] = TableStats.from_batch(columns, ties, layout.labels, layout.target, known.get(split))
    return stats
