"""The flags of `shardmill csv`, `jsonl`, `parquet`, `text --record line` and `reshard`."""

import argparse
import csv
from collections.abc import Sequence
from typing import Any

from google.protobuf import text_format

from pipelines.flags.options import (
    EPILOG,
    Parser,
    add_folder_option,
    add_label_options,
    add_output_options,
    add_run_options,
    add_shard_options,
    add_split_options,
    common_values,
    parse_size,
)
from pipelines.kinds.records_config import DEFAULT_BLOCK_SIZE, KINDS, ON_MIXED, RecordsConfig, Route
from shardmill import schema
from shardmill.errors import UserError
from shardmill.features import Features
from shardmill.renames import Renames
from transforms.formats.csv.dialect import MISSING
from transforms.stores import storage

_DESCRIPTIONS = {
    "csv": "Turn CSV or TSV files into balanced, shuffled TFRecord shards. Types come from all rows, not from a sample.",
    "jsonl": "Turn JSON lines, one object each, into balanced, shuffled TFRecord shards. Lists become lists of values.",
    "parquet": "Turn Parquet files into balanced, shuffled TFRecord shards.",
    "lines": "Turn text into balanced, shuffled TFRecord shards, an example for each line or, with --record file, for each file.",
    "tfrecords": "Deal the records of existing TFRecord files out to a new number of balanced, shuffled shards, untouched.",
}
_PROGRAMS = {"csv": "csv", "jsonl": "jsonl", "parquet": "parquet", "lines": "text", "tfrecords": "reshard"}


def parse_names(text: str) -> tuple[str, ...]:
    """Column names from `a,b,"c,d"`: a line of CSV."""
    names = tuple(next(csv.reader([text]), ()))
    if not names or not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names, such as id,age,city")
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r} names a column twice")
    return names


def parse_missing(text: str) -> tuple[str, ...]:
    """The spellings of a missing value from `NA,null,-`; an empty field is always missing."""
    return tuple(dict.fromkeys(["", *next(csv.reader([text]), ())]))


def parse_fill(text: str) -> tuple[str, str]:
    """(column, value) from `age=-1`."""
    column, equals, value = text.partition("=")
    if not column or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not column=value, such as age=-1")
    return column, value


def parse_delimiter(text: str) -> str:
    r"""One ASCII character; `\t` and `tab` stand for a tab."""
    sign = {"\\t": "\t", "tab": "\t"}.get(text, text)
    if len(sign) != 1 or not sign.isascii() or sign in "\r\n":
        raise argparse.ArgumentTypeError(f"{text!r} is not one ASCII character, such as ';' or tab")
    return sign


def parse_quote(text: str) -> str:
    """One ASCII character, or none where quotes mean nothing."""
    return parse_delimiter(text) if text else ""


def records_parser(route: Route) -> Parser:
    """The parser of the command that reads `route`."""
    parser = Parser(prog=f"shardmill {_PROGRAMS[route]}", description=_DESCRIPTIONS[route], epilog=EPILOG)
    source = parser.add_argument_group("input")
    source.add_argument("--input", required=True, help=f"a folder of {KINDS[route].plural}, a file or a glob; local, gs://, s3://")
    if route == "csv":
        _add_csv_options(source)
    if route in ("csv", "lines"):
        source.add_argument("--encoding", default="utf-8", help="of the text, such as latin-1 (default: %(default)s)")
    if route == "lines":
        source.add_argument("--record", choices=("line", "file"), default="line", help="what an example is (default: %(default)s)")
        source.add_argument("--line_numbers", action="store_true", help="features filename and line_number, too")
        add_folder_option(source)
    _add_feature_options(parser, route)
    add_output_options(parser)
    add_split_options(parser, "files by name, and of the records in each")
    add_shard_options(parser)
    run = add_run_options(parser)
    if route != "parquet":
        run.add_argument("--block_size", type=parse_size, default=DEFAULT_BLOCK_SIZE, help="read at once (default: 16MiB)")
    return parser


def _add_csv_options(source: Any) -> None:
    source.add_argument("--delimiter", type=parse_delimiter, help="between fields (default: a comma; a tab in .tsv files)")
    source.add_argument("--quote", type=parse_quote, default='"', help="around fields; '' for none (default: %(default)s)")
    source.add_argument("--columns", type=parse_names, help="name,… of files without a header")
    source.add_argument(
        "--missing",
        type=parse_missing,
        default=MISSING,
        help=f"spellings of a missing value, beside an empty field (default: {','.join(MISSING[1:])})",
    )


def _add_feature_options(parser: Parser, route: Route) -> None:
    group = parser.add_argument_group("features")
    if route in ("csv", "jsonl", "parquet"):
        group.add_argument("--label", help="the column that is the label: strings become ids, integers stay")
        group.add_argument(
            "--fill",
            type=parse_fill,
            action="append",
            default=[],
            metavar="COLUMN=VALUE",
            help="in place of missing values; repeat",
        )
        group.add_argument("--drop", type=parse_names, default=(), help="column,… to leave out")
        group.add_argument("--only", type=parse_names, default=(), help="column,… to keep alone")
    elif route == "tfrecords":
        group.add_argument("--label", help="the feature that is the label; its classes are named by --labels_file")
        group.add_argument(
            "--on_mixed",
            choices=ON_MIXED,
            default="fail",
            help="what a record does whose feature is of another kind than in most records, or in --schema (default: %(default)s)",
        )
    if route != "lines":
        group.add_argument("--key", help="the column that is a record's identity (default: all of the record)")
        group.add_argument("--schema", help="a schema.pbtxt: no inference, and rows that do not fit it are rejected")
    add_label_options(group)


def to_config(args: argparse.Namespace, route: Route) -> RecordsConfig:
    """The configuration that parsed flags describe; reads --labels_file and --schema.

    Raises:
      UserError: a mistake, named.
    """
    values = common_values(args)
    values.pop("record", None)
    path = values.pop("schema", None)
    if path is not None:
        values["schema"] = Renames(values["rename"]).undone(_read_schema(path))
    if "fill" in values:
        values["fill"] = _check_fill(values["fill"])
    return RecordsConfig(route=route, **values)


def _check_fill(pairs: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    columns = [column for column, _ in pairs]
    for column in columns:
        if columns.count(column) > 1:
            raise UserError(f"--fill {column}=… is given twice")
    return tuple(pairs)


def _read_schema(path: str) -> Features:
    try:
        features = schema.from_pbtxt(storage.read_bytes(path).decode())
    except OSError as error:
        raise UserError(f"--schema {path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, text_format.ParseError, ValueError) as error:
        raise UserError(f"--schema {path} is not a tensorflow-metadata Schema in text form: {error}") from None
    names = [feature.name for feature in features]
    twice = next((name for name in names if names.count(name) > 1), None)
    if not names or "" in names or twice is not None:
        problem = f"has feature {twice!r} twice" if twice else "has a feature without a name" if names else "has no features"
        raise UserError(f"--schema {path} {problem}; expected features with names that differ")
    return features
