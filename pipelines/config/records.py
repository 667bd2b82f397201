"""Configurations of jobs over records inside files: tables, text lines, TFRecords, parallel texts."""

import glob
import os
import re
from collections.abc import Callable, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, Self

from shardmill.data.features import LANGUAGES_KEY, Features, features_of_kind
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError, items_of
from shardmill.metadata.file_names import is_split_name
from shardmill.pipelines.config.record_options import GivenSchema, RecordOptions
from shardmill.transforms.inputs.folders import FileKind
from shardmill.transforms.options.declare import Options, flag
from shardmill.transforms.options.image_options import BoxOptions, LabelOptions, PictureOptions
from shardmill.transforms.options.job_options import CONTENT, SplitOptions, parse_path

if TYPE_CHECKING:
    from shardmill.transforms.execution.running import Threads
    from shardmill.transforms.findings import Findings
    from shardmill.transforms.formats.format import RecordFormat
    from shardmill.transforms.inputs.listing import RecordFiles
    from shardmill.transforms.inputs.summary import InputSummary
    from shardmill.transforms.layout.options import TableOptions
    from shardmill.transforms.layout.tables import MakeLayout
    from shardmill.transforms.records.encoding import RecordEncoder
    from shardmill.transforms.records.keys import KeyOptions
    from shardmill.transforms.records.staging import RunSize


@dataclass(frozen=True)
class FormatSpec:
    """Everything in which one record format, such as CSV, differs from the others."""

    name: str  # in manifest.json
    plural: str  # the files' name in errors
    suffixes: str  # of file names, see FileKind
    flags: tuple[str, ...]  # the options it uses, besides those of every job
    make_format: "Callable[[Any], RecordFormat]"  # makes the format of a configuration, as it imports Arrow
    block_factor: int = 1  # of --block_size, for the blocks of a file
    unit: Literal["row", "line", "example"] = "row"  # of a table, of text, or an existing tf.train.Example
    row_name_column: str = ""  # source column whose text names a row in rejects; "" for none
    has_objects: bool = False  # a column may hold objects in images
    required_modules: tuple[tuple[str, str, str], ...] = ()  # (module, purpose, extra that installs it)

    @property
    def is_passed_through(self) -> bool:
        """Return True if records pass through unchanged; their features are known only once they are read."""
        return self.unit == "example"


@dataclass(frozen=True, kw_only=True)
class RecordsConfig(RecordOptions):
    """The options of a job over records, together with their format."""

    spec: FormatSpec
    data_set: Any = field(default=None, compare=False)  # the InputDataSet of existing records; None for files alone
    label_map: tuple[str, ...] | None = field(default=None, compare=False)  # names by id of a file next to the records

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.input_schema  # restored to be checked

    def resolve(self) -> Self:
        """Return this configuration with what is next to existing records: a data set with its schema, a label map."""
        if not self.spec.is_passed_through or not self.inputs:
            return self
        from shardmill.pipelines.config.data_sets import find_data_set

        found, schema = None if self.input is None else find_data_set(self.input), self.schema
        if found is not None and found.features and schema is None and not self.has_raw_records:
            schema = GivenSchema(found.features, metadata=found.metadata)
        first = self.inputs[0] if found is None else found.directory
        names = None
        if len(self.label or ()) == 1 and self.labels is None:
            from shardmill.transforms.layout.labels import find_label_map

            names = find_label_map(first)
        return replace(
            self,
            data_set=found,
            input=self.input if found is None else found.directory,
            schema=schema,
            label_map=None if names is None else names[1],
        )

    def check(self) -> None:
        super().check()
        self._check_inputs()
        if self.folders is not None and self.folders.group is not None:
            raise UserError(f"--folders {self.folders}: groups are of whole files, as with --record file")
        if self.spec.is_passed_through and self.on_new_label != "fail":
            raise UserError(
                f"--on_new_label {self.on_new_label}: reshard passes records through with the ids that they have; add"
                " the names of new ids to --labels_file"
            )
        if self.spec.is_passed_through and self.rename:
            raise UserError(
                "--rename: reshard does not change records, and each of them contains the names; rename where the"
                " reader parses them, or convert what these records were made of"
            )
        self._check_raw_records()
        if self.separator and self.text_unit != "auto":
            raise UserError(
                f"--separator {self.separator!r} and --record {self.text_unit}: documents between separators are the"
                " records; leave one of them out"
            )
        self._check_separators()
        try:
            _ = self.format  # built to be checked
        except ValueError as error:
            raise UserError(str(error)) from None

    def _check_inputs(self) -> None:
        if not self.inputs:
            raise UserError("give --input, a folder, a file or a glob")

    def _check_raw_records(self) -> None:
        if not self.has_raw_records:
            return
        given = {name: getattr(self, name) for name in ("label", "key", "schema", "group_by", "stratify_by")}
        named = [name for name, value in given.items() if value and (name, value) != ("group_by", CONTENT)]
        if self.on_mixed != "fail":
            named.append("on_mixed")
        if named:
            raise UserError(
                f"--record_type raw and --{named[0]}: raw records are not parsed, so they have no features; leave one"
                " of them out"
            )

    def _check_separators(self) -> None:
        for name, separator in (self.label_separator or {}).items():
            if not self.label_columns:
                raise UserError(f"--label_separator {separator!r} splits a label; name its column with --label")
            if not name and len(self.label_columns) > 1:
                each = f"{self.label_columns[-1]}={separator}"
                raise UserError(
                    f"--label_separator {separator!r}: which of {', '.join(self.label_columns)}? Give --label_separator"
                    f" {each!r} if it is that one"
                )
            if name and name not in self.label_columns:
                raise UserError(f"--label_separator {name}={separator}: --label names no {name}")

    @property
    def has_files(self) -> bool:
        """Return True if the input is files, or rows in an order, which are written to the same files each time."""
        return True

    @property
    def keeps_splits(self) -> bool:
        """Return True if existing records stay in the splits of their data set."""
        return self.data_set is not None and self.splits is None

    @property
    def format_name(self) -> str:
        return self.spec.name

    @property
    def libraries(self) -> tuple[str, ...]:
        analyzing = () if self.analysis is None else self.analysis.libraries
        return ("pyarrow", "xxhash", *analyzing, *(name for options in self.add_ons for name in options.libraries))

    @property
    def has_raw_records(self) -> bool:
        """Return True if existing records are not parsed."""
        return self.record_type == "raw"

    @property
    def files(self) -> "RecordFiles":
        """Return the files that hold the records."""
        from shardmill.transforms.inputs.listing import RecordFiles

        assert self.input is not None
        shards = () if self.data_set is None else self.data_set.shards
        return RecordFiles((("", self.input),), are_splits=self.keeps_splits, shards=shards)

    @cached_property
    def format(self) -> "RecordFormat":
        """Return the format that reads the records, with the columns that folders name."""
        from shardmill.transforms.formats.format import PartitionedFormat

        found = self.spec.make_format(self)
        return PartitionedFormat(found) if self.hive_partitioning else found

    @property
    def block_bytes(self) -> int:
        """Return the bytes of a block: several times --block_size for tar files, because their rows are large.

        Work on a block has a cost that does not depend on its rows. For 150 images of 25 KB it is half of the work.
        """
        return self.block_size * self.spec.block_factor

    @property
    def leaves_images(self) -> bool:
        """Return True if images may stay in their files until shards are written; nothing else then reads records."""
        from shardmill.transforms.stores.storage import is_local

        return is_local(self.directory) and (self.analysis is None or not self.analysis.reads_records)

    @property
    def input_format(self) -> "RecordFormat":
        """Return the format that reads the records, as they are before an add-on changes their stream."""
        if self.stream is None:
            return self.format
        # Flags about columns are those of the rows that it makes
        whole: dict[str, Any] = {"fill": (), "drop": (), "image": (), "flatten": False, "json_columns": ()}
        return replace(self, **whole).format

    def of_rows(self, summary: "InputSummary", columns: Set[str], findings: "Findings") -> Self:
        """Return this configuration once the input, the columns and the findings of an add-on are known."""
        return self

    @property
    def encoder(self) -> "RecordEncoder":
        """Return the encoder of rows."""
        from shardmill.transforms.records.encoding import LineEncoder, RecordPasser, TableEncoder

        helpers = tuple(self.table_options.helper_columns)
        if self.spec.unit == "example":
            return RecordPasser(helpers, self.has_raw_records)
        make = LineEncoder if self.spec.unit == "line" else TableEncoder
        return make(helpers, self.renames, self.row_add_ons, self.assembly)

    @property
    def make_layout(self) -> "MakeLayout":
        """Return the function that decides how records are read."""
        from shardmill.transforms.layout.tables import make_line_layout, make_record_layout, make_table_layout

        if self.spec.unit == "row":
            return make_table_layout
        return make_line_layout if self.spec.unit == "line" else make_record_layout

    @property
    def kind(self) -> FileKind:
        return FileKind(
            self.spec.plural,
            self.spec.suffixes,
            exclude=self.exclude,
            has_signature=self.spec.is_passed_through,
            is_parquet=self.spec.name == "parquet",
        )

    @property
    def schema_text(self) -> str:
        if self.schema is None:
            return ""
        from shardmill.metadata.schema import to_pbtxt

        return to_pbtxt(self.schema.features, self.schema.constraints)

    @property
    def input_schema(self) -> "Features | None":
        """Return the features of --schema by input names; features of objects are replaced by their column."""
        return self._schema_and_objects[0]

    @property
    def _schema_and_objects(self) -> "tuple[Features | None, Features]":
        if self.schema is None:
            return None, ()
        features = self.renames.restore_features(self.schema.features)
        for add_on in self.row_add_ons:
            features = add_on.restore_features(features, self.schema.origin)
        if not self.spec.has_objects:
            return features, ()
        from shardmill.transforms.layout.options import split_object_features

        return split_object_features(features)

    @property
    def schema_requests(self) -> str:
        if self.schema is None or not self.schema.constraints:
            return ""
        from shardmill.metadata.schema import schema_requests

        return schema_requests(self.schema.constraints, lambda name: self.renames(self.renames.original_name(name)))

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Return the columns that are labels: those of --label, or the only class label of --schema."""
        if self.label:
            return self.label
        labels = tuple(feature.name for feature in features_of_kind(self.input_schema or (), "class_label"))
        return labels if len(labels) == 1 and not self.spec.is_passed_through else ()

    @property
    def split(self) -> SplitOptions:
        """Return the options that assign records to splits; `label` there means the first column of --label."""
        split, label = super().split, next(iter(self.label_columns), "label")
        return replace(
            split,
            group_by=label if split.group_by == "label" else split.group_by,
            stratify_by=label if split.stratify_by == "label" else split.stratify_by,
        )

    @property
    def table_options(self) -> "TableOptions":
        """Return the options that the layout is made with."""
        from shardmill.transforms.layout.options import TableOptions

        return self.subset(
            TableOptions,
            schema=self.input_schema,
            objects=self._schema_and_objects[1],
            records=self.inputs[0] if self.spec.is_passed_through and self.inputs else "",
            schema_name=self.schema.origin if self.schema is not None else "",
            is_schema_partial=self.schema is not None and bool(self.schema.metadata),
            on_other_columns=self.on_other_columns if "on_other_columns" in self.spec.flags else "",
            nesting=self.nesting if "json_columns" in self.spec.flags else None,
            pictures=self.subset(PictureOptions),
            boxes=self.subset(BoxOptions),
            column_changes=tuple(add_on.change_columns for add_on in self.row_add_ons),
            missing=self.missing if self.spec.name == "csv" else (),
            row_name_column=self.spec.row_name_column,
            label_alias_flags=tuple(f"--{by}" for by in ("group_by", "stratify_by") if getattr(self, by) == "label"),
            key=self.record_key[1],
            key_flag=self.record_key[0],
            plural=self.kind.plural,
        )

    @property
    def classes(self) -> LabelOptions:
        """Return the options of class names; a label map next to existing records gives those of --label."""
        options = super().classes
        return options if self.label_map is None else replace(options, labels=self.label_map)

    @property
    def key_options(self) -> "KeyOptions":
        """Return the options that keys and splits are computed with."""
        from shardmill.transforms.records.keys import KeyOptions

        action = None if self.key is None else self.on_duplicate_key
        return KeyOptions(self.split, self.record_key[1], self.identifying_features, action)

    @property
    def read_threads(self) -> "Threads":
        """Return the threads per worker that read and encode, which worker processes may replace."""
        from shardmill.transforms.execution.running import TWICE_THE_CORES, Threads
        from shardmill.transforms.stores.storage import is_local

        number = 0 if all(map(is_local, (self.directory, *self.inputs))) else TWICE_THE_CORES
        return Threads(self.threads or number, self.format.lock_share)

    @property
    def run_size(self) -> "RunSize":
        """Return the bytes of input whose records are sorted together in one temporary file."""
        from shardmill.transforms.records.staging import RunSize
        from shardmill.transforms.shards.balance import estimate_shard_count
        from shardmill.transforms.stores.storage import is_local

        shards = partial(estimate_shard_count, self.shard_counts)
        return RunSize(self.block_bytes, shards, not is_local(self.directory))

    @property
    def identifying_features(self) -> tuple[str, ...]:
        """Return the features that identify a record and are no part of its content."""
        return (*filter(None, (self.record_key[1],)), *self.row_identifiers)

    @property
    def row_identifiers(self) -> tuple[str, ...]:
        """Return the features that identify a row in the input."""
        name = tuple(filter(None, (self.spec.row_name_column,)))
        return (*name, "filename", "line_number") if self.line_numbers else name

    @property
    def record_key(self) -> tuple[str, str | None]:
        """Return the flag and the column that say which records are one."""
        assembled = None if self.assembly is None else self.assembly.key
        return ("--key", self.key) if assembled is None else assembled

    @property
    def compared_content(self) -> str:
        """Return what is compared to find duplicates, as text."""
        if self.assembly is not None:
            return self.assembly.contents
        without = f" without {', '.join(map(repr, self.identifying_features))}" if self.identifying_features else ""
        return f"records{without}"

    def to_json(self) -> dict[str, Any]:
        """Return the options that shape the output; the features of --schema have their input names."""
        names = None if self.input_schema is None else [feature.name for feature in self.input_schema]
        kept = {} if self.data_set is None or self.has_raw_records else self.data_set.configuration
        return super().to_json() | {"schema": names, **kept}


@dataclass(frozen=True, kw_only=True)
class RowsConfig(RecordsConfig):
    """The configuration of a job over rows that are in no file, such as those of a PCollection."""

    rows_source: str = flag("rows", "What the rows are, for messages", hidden=True, affects_output=False)

    def _check_inputs(self) -> None:
        """Accept that there is no --input."""

    @property
    def has_files(self) -> bool:
        return False

    @property
    def source(self) -> str:
        return f"the {self.rows_source}"


@dataclass(frozen=True, kw_only=True)
class DataConfig(RowsConfig):
    """The configuration of `shardmill.write`, over rows that a program holds, in their order."""

    # FileRefs of the files that the rows were written to; their type would import Arrow
    spooled: tuple[Any, ...] = field(default=(), compare=False)
    column_order: tuple[str, ...] = field(default=(), compare=False)  # of dictionaries: keys as they appear first
    has_splits: bool = False  # True if the rows are in splits

    @property
    def has_files(self) -> bool:
        return True

    @property
    def keeps_splits(self) -> bool:
        return self.has_splits and self.splits is None

    @property
    def files(self) -> Any:
        """Return the spooled files; their type would import Beam."""
        from shardmill.transforms.inputs.record_blocks import SpooledFiles

        return SpooledFiles(self.spooled)


def make_spooled_format(config: RecordsConfig) -> "RecordFormat":
    """Return the format of rows that were written to temporary files."""
    from shardmill.transforms.rows.formats import SpooledFormat

    return SpooledFormat(config.block_size, config.fill, config.nesting, config.image, config.has_raw_records)


_NAMED = re.compile(r"([\w.-]+)=(.+)", re.DOTALL)
_RESERVED_NAMES = ("label", "filename", "line_number")  # what shardmill calls features of its own


def parse_inputs(value: Any) -> tuple[tuple[str, str], ...]:
    """Parse (name, path) pairs from texts such as `de=train.de`, pairs or a mapping; a single input has the name ""."""
    pairs = _parse_named(value)
    if len(pairs) == 1 and pairs[0][0]:
        ((name, path),) = pairs
        if not isinstance(value, dict) and isinstance(next(iter(value)), str) and not (_exists(path) or "://" in path):
            return (("", f"{name}={path}"),)  # nothing is there by the one name or the other
        raise OptionValueError(
            f"{name}={path} alone has no file that its lines belong to; give the other parallel files, too, such as"
            f" --input en=PATH, or --input {path} for a text without others"
        )
    names = [name for name, _ in pairs]
    for name, path in pairs if len(pairs) > 1 else ():
        if not name:
            raise OptionValueError(
                f"{path} is one of several inputs and has no name; expected NAME=PATH of each, such as de=train.de, for"
                " parallel files, or one folder or glob for all files"
            )
        if names.count(name) > 1:
            raise OptionValueError(f"{name}= is there twice; each of the parallel files is a feature of its own")
        if name in _RESERVED_NAMES:
            raise OptionValueError(f"{name}= is what shardmill calls a feature of its own; give another name")
    return pairs


def parse_split_inputs(value: Any) -> tuple[tuple[str, str], ...]:
    """Parse (split, path) pairs from texts such as `train=a/*`, pairs or a mapping; a single input has the split ""."""
    pairs = _parse_named(value)
    for split, path in pairs:
        if not split and len(pairs) > 1:
            raise OptionValueError(
                f"{path} is one of several inputs and has no split; expected SPLIT=PATH of each, such as train='a/*',"
                " or one folder or glob for all files"
            )
        if split and not is_split_name(split):
            raise OptionValueError(f"split {split!r}: expected letters, digits and '_' only")
    return pairs


def _parse_named(value: Any) -> tuple[tuple[str, str], ...]:
    pairs = []
    for item in items_of(value):
        found = None if not isinstance(item, str) or _exists(item) else _NAMED.fullmatch(item)
        name, path = found.groups() if found else ("", item) if isinstance(item, str) else tuple(item)
        pairs.append((name, parse_path(path)))
    return tuple(pairs)


def _exists(path: str) -> bool:
    return os.path.lexists(path) or next(glob.iglob(path), None) is not None


def _inputs_flag(others: str, parse: Callable[[Any], Any], metavar: str) -> Any:
    words = f"Folder, file or glob to read; local, gs://, s3://, az://; or {others}; repeatable"
    attributes: dict[str, Any] = {"parse": parse, "metavar": metavar, "repeats": True, "group": "input"}
    return flag((), words, affects_output=False, required=True, **attributes)


@dataclass(frozen=True, kw_only=True)
class TextInput(Options):
    """The --input of `shardmill text`: one, or parallel files."""

    input: tuple[tuple[str, str], ...] = _inputs_flag(
        "NAME=PATH for each of several parallel files", parse_inputs, "[NAME=]PATH"
    )


@dataclass(frozen=True, kw_only=True)
class SplitInput(Options):
    """The --input of `shardmill reshard`: one, or one for each split."""

    input: tuple[tuple[str, str], ...] = _inputs_flag("SPLIT=PATH for each split", parse_split_inputs, "[SPLIT=]PATH")


@dataclass(frozen=True, kw_only=True)
class NamedInputsConfig(RecordsConfig):
    """The configuration of a job with several --input, each with a name."""

    named_inputs: tuple[tuple[str, str], ...]  # (name, path) pairs

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(path for _, path in self.named_inputs)

    @property
    def files(self) -> "RecordFiles":
        from shardmill.transforms.inputs.listing import RecordFiles

        return RecordFiles(self.named_inputs, are_splits=self.keeps_splits)

    @property
    def source(self) -> str:
        return " ".join(f"--input {name}={path}" for name, path in self.named_inputs)


@dataclass(frozen=True, kw_only=True)
class SplitRecordsConfig(NamedInputsConfig):
    """The configuration of `shardmill reshard` with an --input for each split."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.splits is not None:
            raise UserError(f"--splits and {self.source}: --input says the splits; leave one of them out")

    @property
    def keeps_splits(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class ParallelConfig(NamedInputsConfig):
    """The configuration of `shardmill text` for parallel files."""

    def __post_init__(self) -> None:
        super().__post_init__()
        flag = f"--input {self.named_inputs[0][0]}=…"
        if self.separator or self.text_unit in ("paragraph", "file"):
            given = f"--separator {self.separator!r}" if self.separator else f"--record {self.text_unit}"
            raise UserError(f"{given} and {flag}: line n of each file makes one example; leave one of them out")

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.named_inputs)

    @cached_property
    def format(self) -> "RecordFormat":
        from shardmill.transforms.formats.lines import LinesFormat, ParallelFormat

        block = max(self.block_size // len(self.named_inputs), 1)
        return ParallelFormat(LinesFormat(block, self.text_encoding, self.line_numbers), self.languages)

    def to_json(self) -> dict[str, Any]:
        """Return the options that shape the output, with the features of the texts."""
        names = self.languages
        for add_on in self.row_add_ons:
            names = add_on.rename_texts(names)
        return super().to_json() | {LANGUAGES_KEY: list(names)}
