"""Options for reading tables, which are record files or manifests."""

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from shardmill.errors import UserError
from shardmill.flag_values import MISSING, OptionValueError, items_of, split_pairs
from shardmill.transforms.options import job_options
from shardmill.transforms.options.declare import Options, flag, newer_flag, options_of


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

    @property
    def class_separator(self) -> str:
        """Return the separator of the classes in the only label; "" for one class."""
        return next(iter((self.label_separator or {}).values()), "")

    def check_format(self, name: str, source: str) -> None:
        """Check that the format called `name` has the given options; raise a UserError about `source` otherwise."""
        formats = {"encoding": ("csv", "jsonl")} | dict.fromkeys(("flatten", "json_columns"), ("jsonl", "parquet"))
        for option in options_of(TableReadOptions):
            takes = name in formats.get(option.field, ("csv",) if option.group == "input" else (name,))
            if not takes and getattr(self, option.field) != option.default:
                raise UserError(f"{source} is of a format without --{option.name}; leave it out")
