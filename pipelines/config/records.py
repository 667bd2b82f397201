"""What a job over records inside files is told: tables, lines of text, existing TFRecords."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pipelines.config.given_schema import GivenSchema, read_schema
from pipelines.config.job import JobConfig
from shardmill.errors import UserError
from shardmill.features.feature import Features, TimeUnit, of_kind
from shardmill.features.renames import Renames
from transforms.formats.csv.dialect import MISSING
from transforms.inputs.file_kind import FileKind
from transforms.options.columns import parse_delimiter, parse_fill, parse_missing, parse_names, parse_quote
from transforms.options.declare import ValueMistake, flag
from transforms.options.labels import LabelOptions
from transforms.options.output import parse_path
from transforms.options.pictures import PictureOptions
from transforms.options.shards import parse_size
from transforms.options.splits import SplitOptions
from transforms.options.timestamps import parse_timestamps
from transforms.preprocessing.options import TransformOptions
from transforms.sequences.options import SequenceOptions
from transforms.tokens.options import TokenOptions

if TYPE_CHECKING:
    from transforms.formats.base import RecordFormat
    from transforms.inputs.record_files import RecordFiles
    from transforms.layout.table_layout import MakeLayout
    from transforms.layout.table_options import TableOptions
    from transforms.records.analyze import ModuleAnalysis
    from transforms.records.encode import RecordEncoder
    from transforms.records.keyed import KeyOptions
    from transforms.records.run_size import RunSize
    from transforms.tokens.tokenize import Tokenization

DEFAULT_BLOCK_SIZE = 16 << 20  # bytes: large enough for vectorised work, small enough for a few in memory at once
_MIN_BLOCK_SIZE, _MAX_BLOCK_SIZE = 1 << 10, 1 << 30  # bytes


@dataclass(frozen=True)
class FormatSpec:
    """A format of records inside files: all that differs from one to the next.

    Attributes:
      name: in manifest.json.
      command: that reads it.
      plural: how errors call the files.
      suffixes: of their names, see FileKind.
      summary: what the command does, as `shardmill --help` says it.
      description: as its own --help says it.
      flags: the options that have a meaning for it, of RecordsConfig's own.
      make_format: how the records are found and read.
      make_encoder: what becomes of the rows, given the columns of keys, groups and strata, what features are called,
        and what becomes of texts.
      make_layout: what decides how the input is read; a function, so that nothing is imported before.
      infers: whether types come from the rows where no --schema says them.
      has_columns: whether its features are known before the records are read.
      calls_rows: the column, a source, whose text rejects call a row by; "" where there is none.
      untouched: whether records pass through as they are.
      needs: (module, what for, the extra that installs it).
    """

    name: str
    command: str
    plural: str
    suffixes: str
    summary: str
    description: str
    flags: tuple[str, ...]
    make_format: "Callable[[RecordsConfig], RecordFormat]"
    make_encoder: "Callable[[tuple[str, ...], Renames, Tokenization | None], RecordEncoder]"
    make_layout: "Callable[[], MakeLayout]"
    infers: bool = True
    has_columns: bool = True
    calls_rows: str = ""
    untouched: bool = False
    needs: tuple[tuple[str, str, str], ...] = ()

    @property
    def kind(self) -> FileKind:
        """The files that a folder is searched for."""
        return FileKind(self.plural, self.suffixes)


def _check_block_size(size: int) -> str | None:
    return None if _MIN_BLOCK_SIZE <= size < _MAX_BLOCK_SIZE else "expected 1KiB to 1GiB"


def _parse_separators(value: Any) -> dict[str, str]:
    """Separators by label, "" of the only one, from `;`, or `tags=;` of one of several, or a mapping."""
    if isinstance(value, Mapping):
        found = {str(name): str(separator) for name, separator in value.items()}
    else:
        name, _, separator = str(value).rpartition("=")
        found = {name: separator} if name and separator else {"": str(value)}
    if not all(separator.strip() for separator in found.values()):
        raise ValueMistake(f"{value!r}: expected what stands between classes, such as ';' or '|'")
    return found


def _separators_to_json(separators: Mapping[str, str]) -> str | dict[str, str]:
    return separators[""] if "" in separators else dict(separators)


def _one_or_list(names: tuple[str, ...]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


@dataclass(frozen=True, kw_only=True)
class RecordsConfig(TransformOptions, TokenOptions, SequenceOptions, PictureOptions, JobConfig):
    """What a job over records inside files is told; of what a format has no flag for, it is told the default."""

    title: ClassVar[str] = "features"

    input: str | None = flag(
        None,
        "a folder, a file or a glob; local, gs://, s3://, az://",
        parse=parse_path,
        group="input",
        shapes=False,
        required=True,
    )
    spec: FormatSpec
    delimiter: str | None = flag(
        None, "between fields", parse=parse_delimiter, group="input", default_words="a comma; a tab in .tsv files"
    )
    quote: str = flag('"', "around fields; '' for none", parse=parse_quote, group="input")
    columns: tuple[str, ...] | None = flag(
        None, "name,… of files without a header", parse=parse_names, group="input", to_json=list
    )
    encoding: str = flag("utf-8", "of the text, such as latin-1", group="input")
    missing: tuple[str, ...] = flag(
        MISSING,
        "spellings of a missing value, beside an empty field",
        parse=parse_missing,
        group="input",
        default_words=",".join(MISSING[1:]),
        to_json=list,
    )
    fill: tuple[tuple[str, str], ...] = flag(
        (), "in place of missing values; repeat", parse=parse_fill, repeats=True, metavar="COLUMN=VALUE", to_json=dict
    )
    schema: GivenSchema | None = flag(
        None,
        "a schema.pbtxt: no inference, and rows that do not fit it are rejected",
        parse=read_schema,
    )
    drop: tuple[str, ...] = flag((), "column,… to leave out", parse=parse_names, to_json=list)
    only: tuple[str, ...] = flag((), "column,… to keep alone", parse=parse_names, to_json=list)
    label: tuple[str, ...] | None = flag(
        None,
        "column,… or feature that is the label: strings become ids, numbers stay; a list is several classes",
        parse=parse_names,
        to_json=_one_or_list,
    )
    label_separator: Mapping[str, str] | None = flag(
        None,
        "between the classes in a text that names several; of one of several labels tags=;",
        parse=_parse_separators,
        to_json=_separators_to_json,
        group="labels",
        told=False,
    )
    image: tuple[str, ...] = flag(
        (),
        "column,… of encoded images: each is checked, a damaged one is a reject",
        parse=parse_names,
        to_json=list,
        told=False,
    )
    timestamp: tuple[tuple[str, TimeUnit], ...] = flag(
        (),
        "a column of dates or times as int64, in s, ms, us or ns since 1970 in UTC; repeat",
        parse=parse_timestamps,
        repeats=True,
        metavar="COLUMN=UNIT",
        default_words="times stay texts",
        to_json=dict,
        told=False,
    )
    key: str | None = flag(None, "the column that is a record's identity", default_words="all of the record")
    line_numbers: bool = flag(False, "features filename and line_number, too", group="input")
    on_mixed: str = flag(
        "fail",
        "what a record does whose feature is of another kind than in most records, or in --schema",
        choices=("fail", "reject"),
    )
    block_size: int = flag(
        DEFAULT_BLOCK_SIZE,
        "read at once",
        parse=parse_size,
        check=_check_block_size,
        group="run",
        default_words="16MiB",
        shapes=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.inputs:
            raise UserError("give --input, a folder, a file or a glob")
        if self.spec.untouched:
            self._check_untouched()
        if self.materialize and self.schema is not None and self.schema.asked:
            raise UserError(
                f"--materialize: {self.schema.said} asks for more of raw values than their types, and transformed"
                " examples have none of them; leave the constraints out of the schema, or --materialize"
            )
        self._check_separators()
        self._check_tokens()
        self._check_sequences()
        if self.delimiter == self.quote and self.quote:
            raise UserError(f"--delimiter and --quote are both {self.quote!r}")
        if self.delimiter is None and self.quote in (",", "\t"):
            raise UserError(
                f"--quote {self.quote!r} needs --delimiter, which is a comma otherwise, or a tab in .tsv files"
            )
        try:
            _ = self.format  # built to be checked
        except ValueError as error:
            raise UserError(str(error)) from None

    def _check_untouched(self) -> None:
        if self.on_new_label != "fail":
            raise UserError(
                f"--on_new_label {self.on_new_label}: reshard passes records through with the ids that they have; "
                "add the names of new ids to --labels_file"
            )
        if self.rename:
            raise UserError(
                "--rename: reshard passes records through untouched, and names stand in each of them; rename where the"
                " reader parses them, or convert what these records were made of"
            )

    def _check_tokens(self) -> None:
        if self.tokenizer is None:
            return
        _ = self._own_schema  # undone to be checked
        for other in ("transform", "module_file", "transform_graph"):
            if getattr(self, other) is not None:
                raise UserError(
                    f"--tokenizer and --{other}: texts become tokens or what it says; leave one of them out"
                )
        if self.pack_to is None:
            return
        for other in ("label", "label_separator", "stratify_by", "line_numbers"):
            if getattr(self, other):
                raise UserError(
                    f"--pack_to and --{other}: a block has parts of several texts, and nothing that is said of one;"
                    " leave one of them out"
                )
        if self.balance == "bytes":
            raise UserError(
                f"--balance bytes: with --pack_to all examples have {self.pack_to:,} tokens, and shards are equal in"
                " these; leave it out"
            )

    def _check_sequences(self) -> None:
        if self.sequence_by is None:
            return
        for other in ("tokenizer", "transform", "module_file", "transform_graph", "key", "label_separator"):
            if getattr(self, other) is not None:
                raise UserError(f"--sequence_by and --{other}: rows are gathered as they are; leave one of them out")
        if self.no_shuffle:
            raise UserError("--sequence_by and --no_shuffle: sequences are in the order of their ids' hashes")
        for other in ("group_by", "stratify_by"):
            if getattr(self, other) is not None:
                raise UserError(
                    f"--{other} {getattr(self, other)}: with --sequence_by the id decides the split of a row, so that"
                    " all rows of a sequence are in one; leave it out"
                )
        for name in (self.sequence_by, self.order_by):
            if name in self.drop:
                raise UserError(f"--drop {name}: sequences are made by it; leave it in")

    def _check_separators(self) -> None:
        for name, separator in (self.label_separator or {}).items():
            if not self.table_labels:
                raise UserError(f"--label_separator {separator!r} splits a label; name its column with --label")
            if not name and len(self.table_labels) > 1:
                each = f"{self.table_labels[-1]}={separator}"
                raise UserError(
                    f"--label_separator {separator!r}: which of {', '.join(self.table_labels)}? Give --label_separator"
                    f" {each!r} if it is that one"
                )
            if name and name not in self.table_labels:
                raise UserError(f"--label_separator {name}={separator}: --label names no {name}")

    @property
    def has_tokens(self) -> bool:
        """As the base says."""
        return self.tokenizer is not None

    @property
    def format_name(self) -> str:  # type: ignore[override]
        """In manifest.json."""
        return self.spec.name

    @property
    def libraries(self) -> tuple[str, ...]:
        """Those whose release can change the bytes."""
        analyzing = ("tensorflow", "tensorflow-transform") if self.module_file is not None else ()
        tokenizing = ("tokenizers",) if self.tokenizer is not None else ()
        return ("pyarrow", "xxhash", *analyzing, *tokenizing)

    @property
    def files(self) -> "RecordFiles":
        """The files that hold the records."""
        from transforms.inputs.record_files import OneInput

        assert self.input is not None
        return OneInput(self.input)

    @property
    def format(self) -> "RecordFormat":
        """How the records are read."""
        return self.spec.make_format(self)

    @property
    def encoder(self) -> "RecordEncoder":
        """What becomes of the rows."""
        if self.sequencing is not None:
            from transforms.records.sequence_rows import SequenceRowEncoder

            return SequenceRowEncoder(tuple(self.table_options.helpers), self.renames, sequencing=self.sequencing)
        return self.spec.make_encoder(tuple(self.table_options.helpers), self.renames, self.tokenization)

    @property
    def kind(self) -> FileKind:
        """As the base says."""
        return self.spec.kind

    @property
    def schema_text(self) -> str:
        """As the base says."""
        if self.schema is None:
            return ""
        from shardmill.metadata.schema import to_pbtxt

        return to_pbtxt(self.schema.features, self.schema.asked)

    @property
    def _schema_labels(self) -> tuple[str, ...]:
        """The class label of --schema: what the command that wrote it was given as --label."""
        labels = tuple(feature.name for feature in of_kind(self._own_schema or (), "class_label"))
        return labels if len(labels) == 1 and not self.spec.untouched else ()

    @property
    def _own_schema(self) -> Features | None:
        """The features of --schema as the input has them, and by its names: texts, not tokens; rows, not sequences."""
        if self.schema is None:
            return None
        features = self.renames.undone(self.schema.features)
        if self.tokenization is not None:
            from transforms.layout.tokens import untokenized

            features = untokenized(features, self.tokenization, self.schema.said)
        if self.sequencing is not None:
            from transforms.layout.sequences import ungathered

            features = ungathered(features)
        return features

    @property
    def asked(self) -> str:
        """As the base says."""
        if self.schema is None or not self.schema.asked:
            return ""
        from shardmill.metadata.asked_schema import asked_of

        return asked_of(self.schema.asked, lambda name: self.renames(self.renames.original(name)))

    @property
    def table_labels(self) -> tuple[str, ...]:
        """The columns that are labels."""
        return self.label or self._schema_labels

    @property
    def _split(self) -> SplitOptions:
        """How records are dealt out to splits; the column that is named `label` is the first of --label."""
        split, label = self.part(SplitOptions), next(iter(self.table_labels), "label")
        return replace(
            split,
            group_by=label if split.group_by == "label" else split.group_by,
            stratify_by=label if split.stratify_by == "label" else split.stratify_by,
        )

    @property
    def table_options(self) -> "TableOptions":
        """What the layout is decided with."""
        from transforms.layout.table_options import TableOptions

        named = {"--group_by": self.group_by, "--stratify_by": self.stratify_by}
        return TableOptions(
            source=self.source,
            schema=self._own_schema,
            schema_said=self.schema.said if self.schema is not None else "",
            drop=self.drop,
            only=self.only,
            fill=self.fill,
            label_columns=self.table_labels,
            images=self.image,
            pictures=self.part(PictureOptions),
            times=dict(self.timestamp),
            calls_rows=self.spec.calls_rows,
            separators={name or self.table_labels[0]: text for name, text in (self.label_separator or {}).items()},
            says_label=tuple(name for name, column in named.items() if column == "label"),
            key=self.key or self.sequence_by,
            key_said="--key" if self.sequence_by is None else "--sequence_by",
            split=self._split,
            classes=self.part(LabelOptions),
            folders=self.folders,
            plural=self.kind.plural,
            split_shards=tuple(name for name, _ in self.split_shards),
        )

    @property
    def key_options(self) -> "KeyOptions":
        """What keys and splits are computed with."""
        from transforms.records.keyed import KeyOptions

        return KeyOptions(self._split, self.key or self.sequence_by, self.apart)

    def module_analysis(self, features: Features) -> "ModuleAnalysis":
        """What --module_file is given of examples with `features`, by the names of the input."""
        from shardmill.metadata.schema import to_pbtxt
        from transforms.records.analyze import ModuleAnalysis

        return ModuleAnalysis(self.module_file, to_pbtxt(self.renames.features(features)), self.analyzed_splits)

    @property
    def run_size(self) -> "RunSize":
        """The bytes of input that become one run."""
        from transforms.records.run_size import RunSize
        from transforms.sharding.shards import about_how_many
        from transforms.stores.storage import is_local

        shards = partial(about_how_many, self.shard_counts)
        return RunSize(self.block_size, shards, not is_local(self.directory))

    @property
    def apart(self) -> tuple[str, ...]:
        """The features that say which record it is, and not what it holds."""
        key = tuple(filter(None, (self.key, self.sequence_by, self.spec.calls_rows)))
        return (*key, "filename", "line_number") if self.line_numbers else key

    @property
    def content(self) -> str:
        """What of two records is compared where equal ones are looked for, in words."""
        if self.pack_to is not None:
            return "documents"
        without = f" without {', '.join(map(repr, self.apart))}" if self.apart else ""
        return f"{'records' if self.sequence_by is None else 'sequences'}{without}"

    def to_json(self) -> dict[str, Any]:
        """As the base says; the features of --schema by the names of the input."""
        names = None if self._own_schema is None else [feature.name for feature in self._own_schema]
        return super().to_json() | {"schema": names}
