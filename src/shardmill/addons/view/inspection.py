"""Sample record files of anyone, and describe them: what `inspect` shows, with the code that reads them."""

import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from shardmill.addons.view.files import ARRAY_RECORD, Damage, RecordFiles
from shardmill.addons.view.values import STEPS, Column, decode_any, describe_fields, example_lines, show_list
from shardmill.data.example import EXAMPLE, SEQUENCE_EXAMPLE
from shardmill.data.features import Features
from shardmill.filesystem import read_if_exists
from shardmill.metadata import file_names
from shardmill.metadata.labels import parse_label_map
from shardmill.text import html_table, plural, to_printable

FORMAT = 1  # of --json, as `inspect` has it
SAMPLE_BYTES = {False: 256 << 20, True: 64 << 20}  # of files that are read without `--all`: plain, and compressed
_SAMPLE_WORK = 1_500_000  # values to decode, where a feature counts as 20 and a record as 200
_SAMPLE_FILES = 16
_ROWS = 200  # features and damaged places in a table
_SPEC_FEATURES = 60  # in printed code
_LABEL_MAP = "label_map.pbtxt"
_LABEL = re.compile(r"(?:^|[/_.])(?:labels?|class(?:es)?|category)\Z", re.I)
_DIGITS, _FILES = re.compile(r"\d+"), 2  # in names of files; more files are listed by a glob
_NOT_A_NAME = re.compile(r"\W+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of record files: what was read of them.

    Attributes:
        records: number of sound records that were read.
        decoded: number of those whose values were looked at.
        kinds: number of decoded records by the kind of their message.
        columns: what is known of each feature.
        damages: damaged places.
        examples: the first records: split, number among the records of all files of the split, and values.
        is_whole: True if all files were read to their end.
        size_bytes: bytes of these records, with framing.
    """

    records: int
    decoded: int
    kinds: Mapping[str, int]
    columns: Mapping[str, Column]
    damages: tuple[Damage, ...]
    examples: tuple[tuple[str, int, Mapping[str, Any]], ...]
    is_whole: bool
    size_bytes: int
    fields: str = ""  # of the first record, if nobody knows its kind

    @property
    def kind(self) -> str:
        """Return the kind of most records; "" if that is not known."""
        return max(self.kinds, key=lambda kind: self.kinds[kind], default=EXAMPLE)

    @property
    def features(self) -> Features:
        """Return the features as readers take them; () if the records are no Examples."""
        if self.kind != EXAMPLE:
            return ()
        return tuple(column.infer_feature(self.kinds[EXAMPLE]) for column in self.columns.values())


def take_sample(found: RecordFiles, examples: int = 3, read_all: bool = False) -> Sample:
    """Read the files, or without `read_all` the beginnings of some of them if they are large; look at some records."""
    is_compressed = any(shard.compression for shard in found.shards)
    most_bytes = SAMPLE_BYTES[is_compressed]
    reads_whole = read_all or found.size_bytes <= most_bytes
    shards = found.shards
    if not reads_whole:
        step = max(len(shards) / _SAMPLE_FILES, 1)
        shards = tuple(shards[int(at * step)] for at in range(min(len(shards), _SAMPLE_FILES)))
    kinds, columns = Counter[str](), dict[str, Column]()
    damages, first = list[Damage](), list[tuple[str, int, Mapping[str, Any]]]()
    records = decoded = size_bytes = 0
    fields, is_whole = "", len(shards) == len(found.shards)
    for place, shard in enumerate(shards):
        work, taken = (1 << 62 if read_all else _SAMPLE_WORK // len(shards)), 0
        before = sum(other.records or 0 for other in shards[:place] if other.split == shard.split)
        for item in shard.scan():
            if isinstance(item, Damage):
                damages.append(item)
                continue
            records += len(item.block)
            framed = int((item.block.ends - item.block.starts).sum()) + 16 * len(item.block)
            size_bytes, taken = size_bytes + framed, taken + framed
            for row in range(len(item.block)):
                if work <= 0:
                    break
                record = item.block.record(row)
                kind, values = decode_any(record)
                kind = kind or _name_kind(record)
                fields = fields or ("" if kind else describe_fields(record))
                kinds[kind] += 1
                decoded += 1
                if len(first) < examples:
                    first.append((shard.split, before + item.number + row, values))
                for name, value in values.items():
                    columns.setdefault(name, Column(name)).add(value)
                    work -= 20 + len(value)
                work -= 200
            if not reads_whole and taken > most_bytes // len(shards) and item.number + len(item.block) != shard.known:
                is_whole = False
                break
    _describe_columns(found, columns)
    found_columns = dict(sorted(columns.items())) if found.features == () else columns
    return Sample(records, decoded, kinds, found_columns, tuple(damages), tuple(first), is_whole, size_bytes, fields)


def _name_kind(record: bytes) -> str:
    """Return a record's kind in plural; "" if nobody knows it."""
    from shardmill.transforms.formats.tfrecords import kind_of_record  # late: it imports pyarrow

    return kind_of_record(record)


def _describe_columns(found: RecordFiles, columns: Mapping[str, Column]) -> None:
    """Give columns the features of TFDS's metadata, or the names of classes in files next to the records."""
    described = {feature.name: feature for feature in found.features}
    files = found.shards[0].files
    for name, column in columns.items():
        if (feature := described.get(name)) is not None and column.dtypes.keys() <= {feature.dtype}:
            column.feature = feature
        elif found.directory and column.dtypes.keys() == {"int64"} and _LABEL.search(name) and column.low >= 0:
            for file in (_LABEL_MAP, file_names.labels_file(name.replace("/", "."))):
                text = (read_if_exists(files, posixpath.join(found.directory, file)) or b"").decode(errors="replace")
                names = parse_label_map(text) or tuple(text.splitlines())
                if column.high < len(names):
                    plain = column.infer_feature(column.present)
                    column.feature = replace(plain, kind="class_label", class_names=names)


@dataclass(frozen=True, slots=True, repr=False)
class RecordsInspection:
    """The result of `inspect` on record files that have no manifest.

    Attributes:
        found: the files.
        sample: what was read of them.
        contact_sheet: a PNG file of sample images; None if none was requested.
        contact_sheet_note: its description in a few words.
    """

    found: RecordFiles
    sample: Sample
    contact_sheet: bytes | None = None
    contact_sheet_note: str = ""

    @property
    def text(self) -> str:
        """Return files, features, examples and the code that reads them as text."""
        return "\n".join(map(to_printable, self._lines()))

    def __repr__(self) -> str:
        return "\n\n".join(filter(None, (self.text, to_printable(self.contact_sheet_note))))

    def _repr_html_(self) -> str:
        head, *notes = self._summary()
        return html_table(head, _COLUMNS, self._rows(), notes)

    @property
    def exit_status(self) -> int:
        """Return the exit status of the command: 1 if a place is damaged, as for a data set of ours."""
        return 1 if self.sample.damages else 0

    @property
    def content(self) -> dict[str, Any]:
        """Return what `text` shows as JSON-ready data; docs/json.md describes it."""
        sample = self.sample
        return {
            "format": FORMAT,
            "files": [
                {"file": shard.path, "split": shard.split, "size_bytes": shard.size_bytes, "records": shard.records}
                | {"compression": shard.compression}
                for shard in self.found.shards
            ],
            "records": sample.records,
            "complete": sample.is_whole,
            "looked_at": sample.decoded,
            "kinds": dict(sample.kinds),
            "features": [dict(zip(_KEYS, row, strict=True)) for row in self._rows()],
            "damaged": [damage._asdict() for damage in sample.damages],
            "examples": [
                {
                    "split": split,
                    "number": number,
                    "features": {name: show_list(value) for name, value in values.items()},
                }
                for split, number, values in sample.examples
            ],
            "code": list(self.code()),
        }

    def _summary(self) -> Iterator[str]:
        """Yield the files, then what is odd about them, in sentences."""
        found, sample = self.found, self.sample
        shards = found.shards
        compression = " or ".join(sorted({_WORDS.get(shard.compression, shard.compression) for shard in shards}))
        kinds = ", ".join(
            f"{kind or 'records of an unknown kind'}{f' {count:,}' if len(sample.kinds) > 1 else ''}"
            for kind, count in sorted(sample.kinds.items(), key=lambda item: -item[1])
        )
        where = shards[0].path if len(shards) == 1 else f"{' '.join(found.given)}: {len(shards):,} files"
        yield f"{where}, {found.size_bytes:,} bytes, {compression}"
        yield f"{self._count()}{f': {kinds}' if kinds else ''}"
        if sample.fields:
            yield f"fields of the first record, by number: {sample.fields}"
        if not sample.is_whole:
            yield f"read: {sample.size_bytes:,} bytes with {sample.records:,} records; --all reads everything"
        if sample.decoded < sample.records:
            yield f"looked at: the values of {sample.decoded:,} records; --all looks at every record"
        damages = [f"  {damage.file}: {damage}" for damage in sample.damages[:_ROWS]]
        place = plural(len(sample.damages), "damaged place")
        yield f"{place}:" if damages else "no damaged place" + ("" if sample.is_whole else " in what was read")
        yield from damages

    def _count(self) -> str:
        known = [shard.records for shard in self.found.shards]
        if None not in known:
            total = sum(count for count in known if count is not None)
            by_split = {split: sum(one.records or 0 for one in of) for split, of in self.found.splits.items()}
            more = ", ".join(f"{split} {count:,}" for split, count in by_split.items())
            return plural(total, "record") + (f" ({more})" if len(by_split) > 1 else "")
        if any(shard.compression for shard in self.found.shards):
            return f"more than {self.sample.records:,} records"
        return f"about {round(self.found.size_bytes * self.sample.records / max(self.sample.size_bytes, 1)):,} records"

    def _rows(self) -> list[tuple[str, ...]]:
        """Return the cells of each feature."""
        whole = sum(self.sample.kinds.values())
        return [
            (
                column.name,
                " or ".join(f"{name}" for name, _ in column.dtypes.most_common()),
                column.describe_count(),
                f"{whole - column.present:,}" if whole != column.present else "",
                column.describe_look(),
                column.describe_range(),
                show_list(column.example, 4) if column.example is not None else "",
            )
            for column in self.sample.columns.values()
        ]

    def _lines(self) -> Iterator[str]:
        from shardmill.pipelines.reports.summary import new_table, table_text

        yield from self._summary()
        rows = self._rows()
        if rows and self.sample.kinds:
            table = new_table([], folded=_COLUMNS)
            for row in rows[:_ROWS]:
                table.add_row(*map(to_printable, row))
            yield from ("", *table_text(table, _WIDTH).split("\n"))
            if len(rows) > _ROWS:
                yield f"… and {len(rows) - _ROWS:,} more features; --json lists all"
        for split, number, values in self.sample.examples:
            yield from ("", f"Record {number:,}, {split}:", *islice(example_lines(values, self.sample.columns), _ROWS))
        if self.sample.kinds:
            yield from ("", "Code that reads it:", "", *(f"  {line}".rstrip() for line in self.code()))

    def code(self) -> Iterator[str]:
        """Yield lines of Python that read the records, and the command that makes a data set of them."""
        found, sample = self.found, self.sample
        where = list(found.given) if len(found.given) > 1 else found.given[0]
        split = found.shards[0].split
        compressions = {shard.compression for shard in found.shards}
        files = [shard.path for shard in found.shards if shard.split == split]
        if len(compressions) == 1 and not compressions & {ARRAY_RECORD}:
            how = f", compression_type={max(compressions).upper()!r}" if max(compressions) else ""
            yield "import tensorflow as tf"
            globs = sorted(
                {f"{posixpath.dirname(path)}/{_DIGITS.sub('*', posixpath.basename(path))}" for path in files}
            )
            listed = repr(files) if len(files) <= _FILES else f"sorted(tf.io.gfile.glob({globs!r}))"
            yield f"records = tf.data.TFRecordDataset({listed}{how})"
            if sample.kind in (EXAMPLE, SEQUENCE_EXAMPLE):
                yield from self._spec_lines()
            yield ""
        read = "source" if compressions in ({""}, {ARRAY_RECORD}) else "examples"
        yield "import shardmill"
        yield f"{read} = shardmill.{read}({where!r}, {split!r})"
        yield ""
        inputs = " ".join(f"--input {shlex.quote(path)}" for path in found.given)
        raw = "" if sample.kind == EXAMPLE else " --record_type raw"
        yield f"shardmill reshard {inputs} --output datasets --name {name_of(found)}{raw} --num_shards 4"

    def _spec_lines(self) -> Iterator[str]:
        columns = self.sample.columns
        if len(columns) > _SPEC_FEATURES and self.sample.kind == EXAMPLE:
            yield f"spec = shardmill.feature_spec({self.found.given[0]!r})  # of {len(columns):,} features"
            yield "examples = records.batch(32).map(lambda batch: tf.io.parse_example(batch, spec))"
            return
        total = self.sample.kinds[self.sample.kind]
        plain = {name: column for name, column in columns.items() if not name.endswith(STEPS)}
        lists = {name.removesuffix(STEPS): column for name, column in columns.items() if name.endswith(STEPS)}
        for title, group in (("spec", plain), ("steps", lists)):
            if group or title == "spec":
                yield f"{title} = {{"
                yield from (f"    {name!r}: {_spec_of(column, total)}," for name, column in group.items())
                yield "}"
        if self.sample.kind == EXAMPLE:
            yield "examples = records.batch(32).map(lambda batch: tf.io.parse_example(batch, spec))"
        else:
            steps = ", steps" if lists else ""
            yield f"examples = records.map(lambda record: tf.io.parse_single_sequence_example(record, spec{steps}))"


_COLUMNS = ("feature", "type", "values", "missing", "looks like", "range or most frequent", "example")
_KEYS = ("name", "type", "values", "missing", "looks_like", "range", "example")
_WORDS = {"": "not compressed", ARRAY_RECORD: "ArrayRecord"}
_WIDTH = 160  # letters of a line of the table


def _spec_of(column: Column, total: int) -> str:
    """Return the code of a feature for TensorFlow's parsers."""
    dtype = {"bytes": "tf.string"}.get(column.dtype, f"tf.{column.dtype}")
    if column.steps is not None:
        if column.fewest == column.most and column.most:
            return f"tf.io.FixedLenSequenceFeature({[column.most] if column.most > 1 else []}, {dtype})"
        return f"tf.io.RaggedFeature({dtype})"
    if column.present == total and column.fewest == column.most and column.most:
        return f"tf.io.FixedLenFeature({[column.most] if column.most > 1 else []}, {dtype})"
    return f"tf.io.RaggedFeature({dtype})"


def name_of(found: RecordFiles) -> str:
    """Return a name of letters, digits and `_` for the files."""
    parts = [part for part in found.given[0].split("/") if part and not file_names.is_version(part)]
    stem = parts[-1].partition(".")[0] if parts else ""
    name = _NOT_A_NAME.sub("_", stem).strip("_").lower()
    return name if name[:1].isalpha() else f"records_{name}".rstrip("_")
