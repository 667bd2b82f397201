"""Options for records inside files: columns, delimiters, schema, and the checks between them."""

from abc import ABC
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.addons import registry
from shardmill.data.features import Features
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError, items_of, split_pairs
from shardmill.pipelines.config.job import JobConfig, input_flag
from shardmill.transforms.features.options import load
from shardmill.transforms.findings import MISSING
from shardmill.transforms.options import job_options
from shardmill.transforms.options.declare import Options, flag, name_flag, newer_flag, options_of, read_option_file
from shardmill.transforms.options.image_options import BoxOptions, PictureOptions

if TYPE_CHECKING:
    from shardmill.transforms.columns.nested import Nesting
    from shardmill.transforms.features.rows import Assembly, RowAddOn


@dataclass(frozen=True, slots=True)
class GivenSchema:
    """A schema given to a job."""

    features: Features  # the features that it declares
    constraints: str = ""  # its constraints; see shardmill.metadata.schema
    kept_version: str = field(default="", compare=False)  # the version whose schema it is; "" for --schema
    metadata: str = field(default="", compare=False)  # file of the data set that is read, which describes it

    @property
    def origin(self) -> str:
        """Return the schema's origin, for messages."""
        if self.metadata:
            return self.metadata
        return f"the kept schema of version {self.kept_version}" if self.kept_version else "--schema"

    @classmethod
    def from_pbtxt(cls, text: str) -> "GivenSchema":
        """Parse the text of a schema.pbtxt; raises as shardmill.metadata.schema.from_pbtxt."""
        from shardmill.metadata import schema

        return cls(schema.from_pbtxt(text), schema.schema_requests(text))


def read_schema(value: Any) -> GivenSchema:
    """Read the schema.pbtxt at a path; a schema or features given in its place are taken as they are."""
    if not isinstance(value, str):
        return value if isinstance(value, GivenSchema) else GivenSchema(tuple(value))
    from google.protobuf import text_format

    try:
        given = GivenSchema.from_pbtxt(read_option_file("schema", value).decode())
    except (UnicodeDecodeError, text_format.ParseError, ValueError) as error:
        raise UserError(f"--schema {value} is not a tensorflow-metadata Schema in text form: {error}") from None
    names = [feature.name for feature in given.features]
    twice = next((name for name, number in Counter(names).items() if number > 1), None)
    if not names or "" in names or twice is not None:
        unnamed = "has a feature without a name" if names else "has no features"
        problem = f"has feature {twice!r} twice" if twice else unnamed
        raise UserError(f"--schema {value} {problem}; expected features with names that differ")
    return given


def _parse_separators(value: Any) -> dict[str, str]:
    pairs: list[tuple[str, str]] = []
    for item in items_of(value) if isinstance(value, (str, dict, list, tuple)) else [str(value)]:
        is_pair = not isinstance(item, str) or all(item.rpartition("="))
        pairs += split_pairs([item], "label=TEXT") if is_pair else [("", item)]
    found = dict(pairs)
    if not all(found.values()):
        raise OptionValueError(f"{value!r}: expected a separator of classes, such as ';' or ' '")
    if len(pairs) > max(1, len(found.keys() - {""})):
        raise OptionValueError("give one separator for all labels, such as ';', or one for each, such as tags=;")
    return found


def _check_comment(mark: str) -> str | None:
    if not mark or (mark.isascii() and mark.isprintable() and " " not in mark and not mark.isalnum()):
        return None
    return "expected ASCII characters that are not letters, digits or spaces, for example '#' or '//'"


DEFAULT_BLOCK_SIZE = 4 << 20  # bytes: large enough for vectorised work; ten times as much is in memory a thread
table_input_flag = partial(flag, group="input", is_about_files=True)
newer_input_flag = partial(newer_flag, group="input", is_about_files=True)


@dataclass(frozen=True, kw_only=True)
class TableReadOptions(Options, ABC):
    """Options for reading tables, which are record files or manifests."""

    title: ClassVar[str] = "features"

    delimiter: str | None = table_input_flag(
        None,
        r"Delimiter between fields of CSV: a character, tab, several characters such as ::, or \s+ for any white space",
        parse=job_options.parse_separator,
        default_words="a comma; a tab in .tsv files",
    )
    quote: str | None = table_input_flag(
        None, "Quote character of CSV fields; '' turns quoting off", parse=job_options.parse_quote, default_words='"'
    )
    columns: tuple[str, ...] | None = table_input_flag(
        None, "Comma-separated column names, for CSV files without a header line", parse=job_options.parse_names
    )
    header: str = newer_input_flag(
        "auto",
        "Content of the first line: column names (first) or a row (none); auto takes names, and stops the job "
        "if they look like a row",
        choices=("auto", "first", "none"),
    )
    skip_lines: int = newer_input_flag(
        0,
        "Number of lines to skip at the start of each file",
        check=lambda count: None if count >= 0 else "expected a number of lines, 0 or more",
    )
    comment: str = newer_input_flag(
        "",
        "Text that begins a comment, for example '#': lines that begin with it are skipped",
        check=_check_comment,
        default_words="no comments",
    )
    encoding: str | None = table_input_flag(
        None, "Text encoding of the input, or of a manifest, for example latin-1", default_words="utf-8"
    )
    missing: tuple[str, ...] = table_input_flag(
        MISSING,
        "Comma-separated texts that mean a missing value, in addition to an empty field",
        parse=job_options.parse_missing,
        default_words=",".join(MISSING[1:]),
    )
    escape: str = newer_input_flag(
        "",
        "Character that makes a quote part of a quoted field, for example a backslash",
        parse=job_options.parse_quote,
        default_words="quotes are doubled",
    )
    decimal: str = newer_input_flag(
        ".", "Decimal mark of numbers: a point or a comma", choices=(".", ","), metavar="CHAR"
    )
    thousands: str = newer_input_flag(
        "",
        "Mark between groups of three digits: a comma, point, space, apostrophe or '_'",
        choices=("", ",", ".", " ", "\u00a0", "\u202f", "'", "\u2019", "_"),
        metavar="CHAR",
        default_words="none",
    )
    list_separator: tuple[tuple[str, str], ...] = newer_input_flag(
        (),
        "Text between the values in a column that holds lists, for example pixels=' '; repeatable",
        parse=job_options.parse_fill,
        repeats=True,
        metavar="COLUMN=TEXT",
        to_json=dict,
    )
    fill: tuple[tuple[str, str], ...] = flag(
        (),
        "Value that replaces missing values of a column, for example age=0; repeatable",
        parse=job_options.parse_fill,
        repeats=True,
        metavar="COLUMN=VALUE",
        to_json=dict,
    )
    types: tuple[tuple[str, str], ...] = newer_flag(
        (),
        "Type of a column: int64, float32, bytes or bool, for example zip=bytes; rows with another value are "
        "rejected; repeatable",
        parse=job_options.parse_types,
        repeats=True,
        metavar="COLUMN=TYPE,…",
        default_words="types come from all rows",
        to_json=dict,
    )
    drop: tuple[str, ...] = flag((), "Comma-separated columns to leave out", parse=job_options.parse_names)
    only: tuple[str, ...] = flag(
        (),
        "Comma-separated columns to keep; all others are left out, except for a manifest's files, labels and splits",
        parse=job_options.parse_names,
    )
    flatten: bool = newer_flag(
        False,
        "Make a column of each field of an object, for example meta.source; lists of objects become parallel lists",
    )
    json_columns: tuple[str, ...] = newer_flag(
        (),
        "Comma-separated columns whose values are stored as JSON text",
        parse=job_options.parse_names,
    )
    label_separator: Mapping[str, str] | None = newer_flag(
        None,
        "Separator between the classes in a label with several classes; tags=; sets it for the label `tags` alone; "
        "repeatable",
        parse=_parse_separators,
        repeats=True,
        to_json=lambda separators: separators[""] if "" in separators else dict(separators),
        group="labels",
    )
    on_duplicate_key: str = newer_flag(
        "allow",
        "Action for records with the same key, or manifest rows with the same file: keep all (allow), keep the "
        "first (reject), or fail the job",
        choices=("allow", "reject", "fail"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns is not None and self.header != "auto":
            raise UserError("--columns and --header: --columns names the columns of files without a header; drop one")
        if self.delimiter == self.quote_char and self.quote_char:
            raise UserError(f"--delimiter and --quote are both {self.quote_char!r}")
        if self.escape and self.escape in (self.quote_char, self.delimiter or ","):
            raise UserError(f"--escape {self.escape}: it is the quote or the delimiter, too; give another character")
        if self.escape and not self.quote_char:
            raise UserError(f"--escape {self.escape} and --quote '': there are no quotes to escape; leave one out")
        if self.thousands == self.decimal:
            raise UserError(f"--thousands {self.thousands}: it is the decimal mark, too; give --decimal , with it")
        if self.delimiter in (self.decimal, self.thousands):
            raise UserError(f"--delimiter {self.delimiter}: it is a mark in numbers, too; give another delimiter")
        if empty := [name for name, separator in self.list_separator if not separator]:
            raise UserError(f"--list_separator {empty[0]}=: expected the text between two values, for example ' '")
        if self.delimiter is None and self.quote in (",", "\t"):
            raise UserError(
                f"--quote {self.quote!r} needs --delimiter, which is a comma otherwise, or a tab in .tsv files"
            )

    @property
    def quote_char(self) -> str:
        """Return the quote character; "" for none."""
        return '"' if self.quote is None else self.quote

    @property
    def text_encoding(self) -> str:
        """Return the encoding of the input's text."""
        return "utf-8" if self.encoding is None else self.encoding

    def check_format(self, name: str, source: str) -> None:
        """Check that the format called `name` has the given options; raise a UserError about `source` otherwise."""
        formats = {"encoding": ("csv", "jsonl")} | dict.fromkeys(("flatten", "json_columns"), ("jsonl", "parquet"))
        for option in options_of(TableReadOptions):
            takes = name in formats.get(option.field, ("csv",) if option.group == "input" else (name,))
            if not takes and getattr(self, option.field) != option.default:
                raise UserError(f"{source} is of a format without --{option.name}; leave it out")

    @property
    def nesting(self) -> "Nesting":
        """Return how nested values are stored."""
        from shardmill.transforms.columns.nested import Nesting

        return Nesting(self.flatten, self.json_columns, self.drop, self.fill)


# The order of options in manifest.json, in which versions of earlier releases have them
_RECORDED_ORDER = (
    *("delimiter", "quote", "columns", "header", "skip_lines", "comment", "strip", "encoding", "missing", "escape"),
    *("decimal", "thousands", "list_separator", "fill", "schema", "types", "drop", "only", "on_other_columns"),
    *("flatten", "json_columns", "label", "label_separator", "image", "timestamp", "hive_partitioning", "stack", "key"),
    "on_duplicate_key",
)
_MIN_BLOCK_SIZE, _MAX_BLOCK_SIZE = 1 << 10, 1 << 30  # bytes


@dataclass(frozen=True, kw_only=True)
class RecordOptions(TableReadOptions, PictureOptions, BoxOptions, JobConfig, ABC):
    """The options of all record formats; options that a format has no flag for keep their defaults."""

    title: ClassVar[str] = "features"

    input: str | None = input_flag(required=True)
    schema: GivenSchema | None = flag(
        None,
        "File schema.pbtxt to use instead of inferring types; rows that do not match it are rejected",
        parse=read_schema,
        reads_file=True,
    )
    strip: bool = newer_input_flag(False, "Remove spaces and tabs around values, column names and missing values")
    on_other_columns: str = newer_input_flag(
        "fail",
        "Action if files have different columns: fail the job, reject files that differ from most, or use the "
        "union of all columns",
        choices=("fail", "reject", "union"),
    )
    label: tuple[str, ...] | None = flag(
        None,
        "Column or feature with the label, or comma-separated columns; strings become class ids,"
        " numbers are kept, a list holds several classes",
        parse=job_options.parse_names,
        to_json=lambda names: names[0] if len(names) == 1 else list(names),
    )
    image: tuple[str, ...] = newer_flag(
        (),
        "Comma-separated columns of encoded images; each image is checked, and records with a damaged one are rejected",
        parse=job_options.parse_names,
    )
    hive_partitioning: bool = newer_input_flag(False, "Make columns of folders such as year=2024/month=1")
    stack: tuple[job_options.Stack, ...] = newer_flag(
        (),
        "Feature to make of many columns of numbers, for example image=pixel*:uint8:28,28; the type and the "
        "shape are optional; repeatable",
        parse=job_options.parse_stacks,
        repeats=True,
        metavar="NAME=COLUMNS[:DTYPE][:SHAPE]",
        to_json=lambda stacks: [str(stack) for stack in stacks],
    )
    key: str | None = name_flag(None, "Column that identifies a record", default_words="the whole record")
    text_unit: str = newer_input_flag(
        "auto",
        "Unit of text that becomes one example; auto takes lines, and stops the job if a line is only an "
        "end-of-text token",
        choices=("auto", "line", "paragraph", "file"),
        name="record",
    )
    separator: str = newer_input_flag(
        "",
        r"Text between documents, for example '<|endoftext|>'; each document becomes one example; \n and \t "
        "mean line end and tab",
        parse=lambda value: value.replace("\\n", "\n").replace("\\t", "\t"),
        default_words="none",
    )
    line_numbers: bool = table_input_flag(False, "Add the features filename and line_number")
    on_mixed: str = flag(
        "fail",
        "Action for a record with a feature of another kind than in most records or in --schema: fail"
        " the job, or reject the record",
        choices=("fail", "reject"),
    )
    key_until: str = newer_input_flag(
        "",
        "End of the key in a member's name: its first dot, as in WebDataset, or its last dot",
        choices=("", "first_dot", "last_dot"),
        default_words="first_dot; the job stops if that looks wrong",
    )
    record_type: str = newer_input_flag(
        "example",
        "Type of the records: tf.train.Example, or raw for any other type, which is copied without parsing",
        choices=("example", "raw"),
    )
    block_size: int = flag(
        DEFAULT_BLOCK_SIZE,
        "Size of the blocks in which input files are read; four times as much for tar files and tables of more than"
        " 4,096 columns",
        parse=job_options.parse_size,
        check=lambda size: None if _MIN_BLOCK_SIZE <= size < _MAX_BLOCK_SIZE else "expected 1KiB to 1GiB",
        group="run",
        default_words="4MiB",
        affects_output=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on_duplicate_key != "allow" and self.key is None:
            raise UserError(f"--on_duplicate_key {self.on_duplicate_key} needs --key, which identifies a record")

    def to_json(self) -> dict[str, Any]:
        """Return the options that shape the output, with the default quote and encoding if none are given."""
        shaping = super().to_json() | {"quote": self.quote_char, "encoding": self.text_encoding}
        start = list(shaping).index(_RECORDED_ORDER[0])
        before, others = dict(list(shaping.items())[:start]), dict(list(shaping.items())[start:])
        return before | {name: others[name] for name in _RECORDED_ORDER if name in others} | others

    @property
    def languages(self) -> tuple[str, ...]:
        """Return the features of parallel texts, by the names given with --input; () for other inputs."""
        return ()

    @cached_property
    def row_add_ons(self) -> "tuple[RowAddOn, ...]":
        """Return the hooks of the add-ons whose options change rows."""
        # What a schema may say of columns comes first: the other hooks take its results
        of_schema = [cls() for cls in registry.options_for("row") if cls.reads_schema]
        found = {type(options): options for options in (*of_schema, *self.add_ons)}
        used = [options for options in found.values() if self.schema is not None or options in self.add_ons]
        return tuple(load(options.rows).of(options, self) for options in used if options.rows)

    @property
    def assembly(self) -> "Assembly | None":
        """Return how examples are made of records; None if each record is one."""
        return next(filter(None, (add_on.assembly for add_on in self.row_add_ons)), None)
