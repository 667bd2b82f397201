"""What a user says of the way in which text is written: CSV, TSV, and lines, of which only the encoding is said."""

from dataclasses import dataclass
from typing import ClassVar

from shardmill.errors import UserError
from shardmill.transforms.formats.csv.dialect import MISSING
from shardmill.transforms.options.columns import parse_delimiter, parse_missing, parse_names, parse_quote
from shardmill.transforms.options.declare import Options, flag


@dataclass(frozen=True, kw_only=True)
class DelimitedOptions(Options):
    """Fields in texts."""

    title: ClassVar[str] = "input"

    delimiter: str | None = flag(
        None, "between fields", parse=parse_delimiter, default_words="a comma; a tab in .tsv files"
    )
    quote: str = flag('"', "around fields; '' for none", parse=parse_quote)
    columns: tuple[str, ...] | None = flag(None, "name,… of files without a header", parse=parse_names, to_json=list)
    encoding: str = flag("utf-8", "of the text, such as latin-1")
    missing: tuple[str, ...] = flag(
        MISSING,
        "spellings of a missing value, beside an empty field",
        parse=parse_missing,
        default_words=",".join(MISSING[1:]),
        to_json=list,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delimiter == self.quote and self.quote:
            raise UserError(f"--delimiter and --quote are both {self.quote!r}")
        if self.delimiter is None and self.quote in (",", "\t"):
            raise UserError(
                f"--quote {self.quote!r} needs --delimiter, which is a comma otherwise, or a tab in .tsv files"
            )
