"""Options for records inside files: columns, delimiters, schema, and the checks between them."""

from abc import ABC
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.addons import registry
from shardmill.data.features import Features
from shardmill.errors import UserError
from shardmill.pipelines.config.job import JobConfig, input_flag
from shardmill.transforms.features.options import load
from shardmill.transforms.options import job_options
from shardmill.transforms.options.declare import flag, name_flag, newer_flag, read_option_file
from shardmill.transforms.options.image_options import BoxOptions, PictureOptions
from shardmill.transforms.options.table_options import TableReadOptions, newer_input_flag, table_input_flag

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


DEFAULT_BLOCK_SIZE = 4 << 20  # bytes: large enough for vectorised work; ten times as much is in memory a thread
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
    def nesting(self) -> "Nesting":
        """Return how nested values are stored."""
        from shardmill.transforms.columns.nested import Nesting

        return self.subset(Nesting)

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
