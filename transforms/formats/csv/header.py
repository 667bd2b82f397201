"""The header of a CSV file: its columns, or why the file is not what it is taken for."""

from collections import Counter
from collections.abc import Sequence

from shardmill.errors import UserError
from shardmill.printable import beginning
from shardmill.transforms.formats.csv.dialect import Dialect
from shardmill.transforms.formats.csv.parse import parse_header
from shardmill.transforms.formats.csv.scan import is_malformed
from shardmill.transforms.formats.encodings import is_utf8

_MAGIC = (  # of what is often named .csv by mistake
    (b"\x1f\x8b", "gzip data: name it .csv.gz"),
    (b"\x28\xb5\x2f\xfd", "zstd data: name it .csv.zst"),
    (b"BZh91AY&", "bzip2 data: name it .csv.bz2"),
    (b"PK\x03\x04", "a zip archive or a spreadsheet: export it as CSV"),
    (b"\xd0\xcf\x11\xe0", "an old Excel file: export it as CSV"),
    (b"PAR1\x15", "a Parquet file"),
    (b"\xff\xfe", "UTF-16: give --encoding utf-16"),
    (b"\xfe\xff", "UTF-16: give --encoding utf-16"),
)
_DELIMITERS = "\t;|,"  # of which files have one or the other
START_BYTES = 8  # as many as the longest of these


def check_start(start: bytes, name: str, encoding: str) -> None:
    """Check that the file `name`, which begins with `start`, is not known to be something else; raises UserError if it
    is."""
    for magic, what in _MAGIC:
        if start.startswith(magic) and not encoding.startswith(("utf-16", "utf-32")):
            raise UserError(f"{name} is not CSV; it begins like {what}")


def header_columns(text: bytes, dialect: Dialect, where: str, encoding: str) -> tuple[str, ...]:
    """The columns that a header names; none if it is empty.

    Args:
      text: the header's record, as UTF-8.
      dialect: how it is written.
      where: its file and line, for errors.
      encoding: of the file, for errors.

    Raises:
      UserError: it is not text, or does not name each column once.
    """
    if not text:
        return ()
    if b"\0" in text:
        raise UserError(
            f"{where}: there is a NUL byte in the header; expected names of columns: is it text, in the encoding given?"
        )
    if not is_utf8(text):
        raise UserError(f"{where}: the header is not {encoding}; give the encoding of the file with --encoding")
    if is_malformed(text, dialect):
        raise UserError(
            f"{where}: in the header, text goes on after the quote that closes a name; expected the delimiter"
        )
    columns = parse_header(text, dialect)
    if problem := column_problem(columns):
        raise UserError(f"{where}: the header {problem}")
    return columns


def one_column_problem(columns: Sequence[str], delimiter: str) -> str | None:
    """What is wrong with a header that was divided at `delimiter`, which nobody gave, if it is one name that holds what
    may well be the delimiter."""
    found = next((char for char in _DELIMITERS if len(columns) == 1 and char in columns[0]), None)
    if found is None:
        return None
    likely, own = (repr(char).replace(r"'\t'", "tab") for char in (found, delimiter))
    return (
        f"the header is one column, {beginning(columns[0])!r}; give --delimiter {likely} if that stands between"
        f" columns, or --delimiter {own} if it is one column"
    )


def column_problem(columns: Sequence[str]) -> str | None:
    """What is wrong with the names of columns, if anything is."""
    if not columns:
        return "names no columns"
    if "" in columns:
        return f"has no name for column {columns.index('') + 1} of {len(columns)}; give every column a name"
    counts = Counter(columns)
    twice = next((name for name in columns if counts[name] > 1), None)
    return None if twice is None else f"names the column {twice!r} {counts[twice]} times; rename or drop all but one"
