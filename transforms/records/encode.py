"""From rows to framed records and their statistics; shardmill.transforms.records.keyed says where each goes. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.features.renames import NO_RENAMES, Renames
from shardmill.metadata.rejects import Reject
from shardmill.transforms.columns.arrow import as_text
from shardmill.transforms.columns.inferred import Inferred
from shardmill.transforms.columns.key_texts import key_texts
from shardmill.transforms.columns.timestamps import read_times
from shardmill.transforms.examples.decode import decode_parts, infer_examples, key_feature, merge_parts
from shardmill.transforms.examples.encode import MAX_RECORD_BYTES, encode_framed, example_sizes
from shardmill.transforms.examples.framing import frame, payload_hashes
from shardmill.transforms.examples.kinds import Kinds, kinds_of, misfits
from shardmill.transforms.formats.base import FileRef, Rows, key_column
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.layout.timestamps import CUT, NAIVE
from shardmill.transforms.records.images import check_images, pictures_column
from shardmill.transforms.records.keys import input_order, position_ties
from shardmill.transforms.records.labels import ReadLabels, outside, read_labels
from shardmill.transforms.records.objects import place_objects
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.tokens.pack import documents
from shardmill.transforms.tokens.tokenize import INPUT_IDS, Tokenization, tokenize

STAGE = "encode"
EMPTY, SEVERAL, REPEATED = "empty", "several", "repeated"
_FILE, _NUMBER = "file", "number"  # of an existing record, beside it


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRows:
    """Rows that will be examples, of one block or several.

    Attributes:
      batch: their columns.
      ties: uint64, shape (rows,), see shardmill.transforms.records.keys.
      folder_splits: int64, shape (rows,), the split that the file's folder says, or -1.
      sources: the files that they come from, each with the lines of its rows.
      odd: by label, how many rows have none of its classes (EMPTY) or more than one (SEVERAL), and how often one names
        a class again (REPEATED); by column of times, what shardmill.transforms.layout.timestamps counts.
      tokens: what is counted of tokens, see shardmill.transforms.tokens.tokenize.
    """

    batch: pa.RecordBatch
    ties: np.ndarray
    folder_splits: np.ndarray
    sources: tuple[tuple[FileRef, np.ndarray], ...]
    odd: Counter[tuple[str, str]] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)

    def input_order(self) -> np.ndarray:
        """Keys that sort as the input does: uint64, shape (rows,)."""
        return np.concatenate([input_order(file, lines) for file, lines in self.sources])


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRows:
    """Rows as records, with what decides their place.

    Attributes:
      framed: as they stand in a TFRecord file.
      features: as encoded.
      helpers: the texts of keys, groups and strata by the name of their column, see transforms.columns.key_texts.
      inferred: of the features, where they were not known before.
      kinds: of existing records' features, as they are: `inferred` says which holds all of them.
      pictures: of columns of images, what is known of each, as shardmill.transforms.statistics.pictures counts it.
      ties: uint64, shape (rows,), what orders records of one key, where it is not the place of their rows.
      part: what is counted of rows that are not examples yet; None of those that are, whose features are.
      is_compared: whether equal ones are looked for, and not among what is made of them.
    """

    framed: pa.LargeBinaryArray
    features: pa.RecordBatch
    helpers: Mapping[str, pa.Array]
    inferred: Inferred = field(default_factory=Inferred)
    kinds: Kinds = field(default_factory=dict)
    pictures: Mapping[str, pa.Array] = field(default_factory=dict)
    ties: np.ndarray | None = None
    part: pa.RecordBatch | None = None
    is_compared: bool = True

    @property
    def counted(self) -> pa.RecordBatch:
        """The features as statistics count them: of images, what is known of them."""
        if self.part is not None:
            return self.part
        batch = self.features
        for name, pictures in self.pictures.items():
            batch = batch.set_column(batch.schema.get_field_index(name), name, pictures)
        return batch

    def payload_hashes(self, seeds: Sequence[int]) -> np.ndarray:
        """For each seed the 64-bit xxh3 of each record: uint64, shape (seeds, rows)."""
        return payload_hashes(self.framed, seeds)


class RecordEncoder(Protocol):
    """What a route does with the rows of its format."""

    def prepare(self, rows: Rows, file: FileRef, layout: TableLayout) -> tuple[PreparedRows, list[Reject]]:
        """The rows that can be encoded, and a Reject for each other."""

    def encode(self, batch: pa.RecordBatch, layout: TableLayout) -> EncodedRows:
        """The records of prepared rows."""


@dataclass(frozen=True)
class TableEncoder:
    """Rows of a table as tf.train.Examples.

    Attributes:
      helpers: columns that are read although they may be no features.
      renames: what the features are called in examples.
      tokens: what becomes of texts; None where they stay.
    """

    helpers: tuple[str, ...] = ()
    renames: Renames = NO_RENAMES
    tokens: Tokenization | None = None

    def prepare(self, rows: Rows, file: FileRef, layout: TableLayout) -> tuple[PreparedRows, list[Reject]]:
        """Turn class names into ids; reject rows without a label or a required value, and records over 2 GB."""
        batch, rejects = rows.batch, []
        good = np.ones(len(batch), bool)

        def reject(bad: np.ndarray, reason: Any) -> None:
            for row in np.flatnonzero(bad & good).tolist():
                rejects.append(Reject(file.name, int(rows.lines[row]), STAGE, called(row) + reason(row)))
            good[bad] = False

        def called(row: int) -> str:
            return f"{as_text(rows.batch[layout.calls_rows][row].as_py())}: " if layout.calls_rows else ""

        for name in layout.required_labels:
            missing = batch[name].is_null().to_numpy(zero_copy_only=False)
            reject(missing, lambda row, name=name: f"no label: column {name!r} has no value")
        labels: dict[str, ReadLabels] = {}
        for name in dict.fromkeys((*layout.separated, *layout.class_names)):
            read = read_labels(batch[name], layout.separated.get(name), layout.class_names.get(name))
            reject(read.bad, read.reason)
            batch = batch.set_column(batch.schema.get_field_index(name), name, read.values)
            labels[name] = read
        times = {name: read_times(batch[name], unit, name in layout.counted) for name, unit in layout.times.items()}
        for name, found in times.items():
            reject(found.bad, lambda row, name=name, found=found: f"column {name!r}: {found.reason(row)}")
            batch = batch.set_column(batch.schema.get_field_index(name), name, found.values)
        tokenized = None if self.tokens is None else tokenize(batch, self.tokens, reject)
        if tokenized is not None:
            batch = tokenized.batch
        for name in layout.images:
            checked = check_images(batch[name], layout.pictures)
            reject(checked.bad, lambda row, name=name, checked=checked: f"column {name!r}: {checked.reasons[row]}")
            batch = batch.append_column(pictures_column(name), checked.pictures)
        placed = None if layout.objects is None else place_objects(batch, layout.objects)
        if placed is not None:
            reject(placed.bad, lambda row, placed=placed: placed.reasons[row])
            batch = placed.batch
        for feature in layout.features:
            column = batch[feature.name]
            if feature.kind == "class_label" and feature.name not in layout.class_names:
                wrong = outside(column, len(feature.class_names))
                most = len(feature.class_names) - 1
                reject(
                    wrong,
                    lambda row, column=column, feature=feature, most=most: (
                        f"{column[row].as_py()} is no id of a class of {feature.name!r}; expected 0 to {most}"
                    ),
                )
            asked = feature.required and feature.name not in (*layout.required_labels, *layout.images)
            if asked and column.null_count:
                missing = column.is_null().to_numpy(zero_copy_only=False)
                said = f"column {feature.name!r} has no value, which {layout.schema_said} wants in every row"
                reject(missing, lambda row, said=said: said)
        if batch.nbytes > MAX_RECORD_BYTES // 2:
            sizes = example_sizes(batch.select([feature.name for feature in layout.features]))
            reject(
                sizes > MAX_RECORD_BYTES, lambda row: f"a record of {sizes[row]:,} bytes; protobuf holds 2 GB at most"
            )
        kept = batch if good.all() else batch.filter(pa.array(good))
        odd = Counter({(name, EMPTY): int((read.lengths[good] == 0).sum()) for name, read in labels.items()})
        odd.update({(name, SEVERAL): int((read.lengths[good] > 1).sum()) for name, read in labels.items()})
        odd.update({(name, REPEATED): int(read.repeated[good].sum()) for name, read in labels.items()})
        for name, found in times.items():
            odd.update({(name, NAIVE): int(found.naive[good].sum()), (name, CUT): int(found.cut[good].sum())})
        if placed is not None:
            odd.update(placed.counts(good))
        counts = Counter[str]() if tokenized is None else tokenized.counts(good)
        return replace(position(kept, rows.lines[good], file, layout), odd=odd, tokens=counts), rejects

    def encode(self, batch: pa.RecordBatch, layout: TableLayout) -> EncodedRows:
        """Encode the features."""
        features, part = batch.select([feature.name for feature in layout.features]), None
        if self.tokens is not None and self.tokens.is_packed:
            framed = frame(documents(features[INPUT_IDS], self.tokens.end))
            part = pa.RecordBatch.from_arrays([pc.list_value_length(features[INPUT_IDS])], names=[INPUT_IDS])
        else:
            framed = encode_framed(features.rename_columns(list(map(self.renames, features.schema.names))))
        helpers = {name: batch[key_column(name)] for name in self.helpers if key_column(name) in batch.schema.names}
        pictures = {name: batch[pictures_column(name)] for name in layout.images}
        return EncodedRows(framed, features, helpers, pictures=pictures, part=part)


@dataclass(frozen=True)
class LineEncoder(TableEncoder):
    """Lines of text as tf.train.Examples, with the class and the name of their file where the layout has them."""

    def prepare(self, rows: Rows, file: FileRef, layout: TableLayout) -> tuple[PreparedRows, list[Reject]]:
        """Add the file's columns, then as a table."""
        batch = rows.batch
        names = {feature.name for feature in layout.features}
        if layout.class_names:
            _, label = layout.folders.locate(file.name)
            assert label is not None
            batch = batch.append_column("label", _constant(label, len(batch)))
        if "filename" in names:
            batch = batch.append_column("filename", _constant(file.name, len(batch)))
        for name in filter(batch.schema.names.__contains__, self.helpers):
            batch = batch.append_column(key_column(name), key_texts(batch[name]))
        return TableEncoder.prepare(self, replace(rows, batch=batch), file, layout)


def _constant(text: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(text.encode(), pa.large_binary()), rows)


@dataclass(frozen=True)
class RecordPasser:
    """Existing records, which pass through untouched; their Examples are looked at for statistics, types and keys.

    Attributes:
      helpers: features that are keys, groups or strata.
    """

    helpers: tuple[str, ...] = ()

    def prepare(self, rows: Rows, file: FileRef, layout: TableLayout) -> tuple[PreparedRows, list[Reject]]:
        """Reject records whose features are not of the layout's kinds, if it has any; remember where the others come
        from."""
        batch, lines, rejects = rows.batch, rows.lines, []
        if layout.kinds:
            problems = misfits(decode_parts(batch["record"]), layout.kinds)
            rejects = [Reject(file.name, int(lines[row]), STAGE, reason) for row, reason in sorted(problems.items())]
            good = np.ones(len(lines), bool)
            good[list(problems)] = False
            batch, lines = batch.filter(pa.array(good)), lines[good]
        source = pa.DictionaryArray.from_arrays(np.zeros(len(lines), np.int32), [file.name])
        batch = batch.append_column(_FILE, source).append_column(_NUMBER, pa.array(lines))
        return position(batch, lines, file, layout), rejects

    def encode(self, batch: pa.RecordBatch, layout: TableLayout) -> EncodedRows:
        """Frame the records."""
        records = batch["record"]
        parts = decode_parts(records)
        features = merge_parts(parts, len(records))
        helpers = {name: key_feature(parts, name) for name in self.helpers}
        kinds = kinds_of(parts, batch[_FILE], batch[_NUMBER].to_numpy())
        return EncodedRows(frame(records), features, helpers, infer_examples(features), kinds)


def position(batch: pa.RecordBatch, lines: np.ndarray, file: FileRef, layout: TableLayout) -> PreparedRows:
    """Rows with what their positions decide."""
    split = -1
    if layout.fractions is None:
        named, _ = layout.folders.locate(file.name)
        assert named is not None
        split = layout.splits.index(named)
    return PreparedRows(batch, position_ties(file, lines), np.full(len(lines), split), ((file, lines),))


def join(parts: Sequence[PreparedRows]) -> PreparedRows:
    """All rows of `parts`, at least one, in one."""
    if len(parts) == 1:
        return parts[0]
    return PreparedRows(
        pa.concat_batches([part.batch for part in parts]),
        np.concatenate([part.ties for part in parts]),
        np.concatenate([part.folder_splits for part in parts]),
        tuple(source for part in parts for source in part.sources),
        sum((part.odd for part in parts), Counter()),
        sum((part.tokens for part in parts), Counter()),
    )


def split_stats(
    rows: PreparedRows, encoded: EncodedRows, groups: np.ndarray, layout: TableLayout
) -> dict[str, TableStats]:
    """Statistics of each split that has some of the rows."""
    labels, counted = layout.labels, encoded.counted
    present = np.flatnonzero(np.bincount(groups)).tolist()
    if len(present) == 1:
        return {layout.splits[present[0]]: TableStats.of(counted, rows.ties, labels, layout.target)}
    stats = {}
    for code in present:
        mine = groups == code
        of_split = counted.filter(pa.array(mine))
        stats[layout.splits[code]] = TableStats.of(of_split, rows.ties[mine], labels, layout.target)
    return stats
