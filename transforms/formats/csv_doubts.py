"""Signs in the first rows of a CSV file that it is read the wrong way: no header, another delimiter, comments.

The rules compare the first line with the rows after it, as DuckDB's sniffer and CleverCSV do. Names of columns are
texts over numbers, differ from each other, and do not occur again among the values below them. If the rules find a
doubt, the job stops, and the message has a flag for each reading; they never change what is stored.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise, takewhile

from shardmill.text import shorten
from shardmill.transforms.formats.conventions import Dialect
from shardmill.transforms.formats.csv_scan import is_malformed

DELIMITERS = "\t;|,"  # which files have
COMMENT_MARKS = ("#", "%", "//")  # what lines of comments begin with
# Others, of which a header and its rows must have equally many: the longer ones first
_MARKS = ("::", "||", "|", "^", "~", "¦", *map(chr, (*range(1, 9), *range(14, 32))))
_ROWS = 200  # how many rows after the first line are compared with it
_MOST = 0.9  # share of the rows that must agree
_NAMES_SHOWN = 12  # columns, at most, for which --columns is written out
_NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?%?|[+-]?(nan|inf(inity)?)", re.IGNORECASE)
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ]\d{1,2}:\d{2}.*)?")
_SPARSE = re.compile(r"[+-]?\d+(\.\d+)?( (qid|\d+):\S+)+ *(#.*)?")  # LIBSVM, LETOR: a label, then index:value
_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)  # the first line that Excel writes and reads


@dataclass(frozen=True, slots=True)
class _Row:
    line: int  # on which it begins, from 1
    text: str
    fields: list[str]


def header_problem(
    sample: str, line: int, dialect: Dialect, is_delimiter_given: bool, is_header_given: bool = False
) -> str | None:
    """Return why the first row of a CSV file is probably no header as it is read, with the flags for each reading.

    Args:
        sample: the file's first rows, whole ones, from the header on.
        line: the line on which it begins, from 1.
        dialect: the delimiter and quote with which the file is read.
        is_delimiter_given: True if the user chose the delimiter.
        is_header_given: True if the user said that line 1 holds the names: then only their number is doubted.
    """
    rows = _rows(sample, line, dialect)
    if not rows:
        return None
    first = rows[0]
    following = [row for row in rows[1:] if _bare(row.fields) != _bare(first.fields)]  # without repeated headers
    if separator := _SEPARATOR.fullmatch(first.text):
        return (
            f"{first.text!r} tells Excel the delimiter; give --skip_lines {first.line} --delimiter"
            f" {quote_flag(separator[1])}"
        )
    if is_header_given and (not following or _usual_count(following) in (0, len(first.fields))):
        return None
    if not is_delimiter_given and (problem := _delimiter_problem(sample, line, dialect, first, following)):
        return problem
    if not is_header_given and (problem := _comment_problem(first, following)):
        return problem
    if following and (problem := _count_problem(sample, line, dialect, first, following)):
        return f"{problem}, in place of --header first" if is_header_given else problem
    if not is_header_given and following and _is_data(first.fields, [row.fields for row in following]):
        looks = f"line {first.line} looks like data, not names: {shorten(first.text)!r}"
        return f"{looks}; if it is a row, {_name_flags(len(first.fields))}; {_FIRST}"
    return None


def columns_problem(sample: str, line: int, dialect: Dialect, columns: Sequence[str]) -> str | None:
    """Return why the names given for a file without a header do not fit its first rows, with the flags that help."""
    rows = _rows(sample, line, dialect)
    if rows and [name.strip() for name in rows[0].fields] == list(columns):
        return (
            f"the line holds the names that --columns gives; leave --columns out, or give --skip_lines {line} with it"
        )
    usual = _usual_count(rows)
    if usual in (0, len(columns)) or (usual == len(columns) + 1 and all(not row.fields[-1] for row in rows)):
        return None
    for delimiter in DELIMITERS.replace(dialect.delimiter.decode(), ""):
        others = _usual_count(_rows(sample, line, Dialect(delimiter.encode(), dialect.quote)))
        if others == len(columns) > 1:
            return f"the rows have {_fields(usual)}, not {len(columns)}; give --delimiter {quote_flag(delimiter)}"
    return f"the rows have {_fields(usual)}, and --columns has {len(columns)} names; give {usual}"


_FIRST = "if it holds the names, give --header first"


def looks_like_row(columns: Sequence[str]) -> str:
    """Return the question, with flags, to ask about a header whose names are not unique."""
    return f"is line 1 a row? then {_name_flags(len(columns))}"


def _name_flags(count: int) -> str:
    names = "".join(f",column_{number}" for number in range(2, min(count, _NAMES_SHOWN) + 1))
    shown = f"column_1{names}" if count <= _NAMES_SHOWN else "column_1,column_2,…"
    return f"give --columns {shown} ({count} name{'' if count == 1 else 's'}), or --header none for these names"


def quote_flag(char: str) -> str:
    """Return a delimiter as a shell wants it."""
    return "tab" if char == "\t" else f"'{char}'" if char.isprintable() else f"$'\\x{ord(char):02x}'"


def look_like_rows(lines: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> bool | None:
    """Return True if the lines of one record hold what the columns of `rows` hold; None if no column tells."""
    found = None
    for index in range(len(lines[0])):
        column, own = [row[index] for row in rows if index < len(row)], [line[index] for line in lines]
        kind, values = _column_kind(column), set(column)
        if kind in ("number", "date"):
            fits = [_kind(value) in (kind, "") for value in own]
        elif len(values) <= len(column) / 4:
            fits = [value in values for value in own]
        else:
            continue
        if sum(fits) < _MOST * len(own):
            return False
        found = True
    return found


def _rows(sample: str, line: int, dialect: Dialect) -> list[_Row]:
    """Return the first rows, without blank ones; none if Python's csv module cannot read them."""
    lines = io.StringIO(sample, newline="").readlines()
    reader = csv.reader(
        lines,
        delimiter=dialect.delimiter.decode(),
        quotechar=dialect.quote.decode() or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
    )
    rows, begin = [], 0
    with suppress(csv.Error):
        for fields in reader:
            if fields:
                text = "".join(lines[begin : reader.line_num]).rstrip("\r\n")
                rows.append(_Row(line + begin, text, fields))
            begin = reader.line_num
            if len(rows) > _ROWS:
                break
    return rows


def _bare(fields: Sequence[str]) -> list[str]:
    return [field.strip(" \t").strip(' \t"') for field in fields]


def _usual_count(rows: Sequence[_Row]) -> int:
    if not rows:
        return 0
    count, times = Counter(len(row.fields) for row in rows).most_common(1)[0]
    return count if times >= _MOST * len(rows) else 0


def _delimiter_problem(sample: str, line: int, dialect: Dialect, first: _Row, following: Sequence[_Row]) -> str | None:
    """Return the flags for another delimiter, which fits all rows or may divide a header of one column."""
    if len(first.fields) > 1 and (not following or _usual_count(following) == len(first.fields)):
        return None
    fitting, dividing, marks = list[str](), list[str](), list[str]()
    for delimiter in DELIMITERS.replace(dialect.delimiter.decode(), ""):
        rows = _rows(sample, line, Dialect(delimiter.encode(), dialect.quote))
        if rows and len(rows[0].fields) > 1 and _usual_count(rows[1:]) == len(rows[0].fields):
            fitting.append(delimiter)
        elif len(first.fields) == 1 and delimiter in first.fields[0]:
            dividing.append(delimiter)
    if len(first.fields) == 1 and following:
        counts = ((mark, {row.text.count(mark) for row in (first, *following)}) for mark in _MARKS)
        marks = [mark for mark, found in counts if len(found) == 1 and 0 not in found]
    text = "\n".join(row.text for row in (first, *following)).encode()
    default = quote_flag(dialect.delimiter.decode()) + " --quote ''" * is_malformed(text, dialect)
    if not (best := [*filter(lambda mark: len(mark) > 1, marks), *fitting, *marks, *dividing]):
        return _white_space_problem(default, first, following)
    found = quote_flag(best[0])
    if len(first.fields) == 1:
        return (
            f"the header is one column, {shorten(first.fields[0])!r}; give --delimiter {found} if that separates"
            f" columns, or --delimiter {default} if it is one column"
        )
    return f"the rows have other fields than the header; --delimiter {found} fits both, --delimiter {default} does not"


def _white_space_problem(default: str, first: _Row, following: Sequence[_Row]) -> str | None:
    """Return the flags for rows of one column that are numbers between spaces, as many as the header has words."""
    rows = [row.text.split() for row in following if len(row.fields) == 1]
    words = len(first.text.split())
    count, times = Counter(map(len, rows)).most_common(1)[0] if rows else (0, 0)
    # R leaves out the name of the rows' names
    if count not in (words, words + 1) or min(count, words) < 2 or times < max(_MOST * len(following), 2):
        return None
    if not any(_column_kind(column) == "number" for column in zip(*(row for row in rows if len(row) == count))):
        return None
    names = f" --skip_lines {first.line} and names: {_columns(count)}," if count > words else ""
    return (
        f"the header is one column, {shorten(first.text)!r}, and each row has {count} values between spaces; give"
        f" --delimiter '\\s+'{names} if spaces separate columns, or --delimiter {default} if it is one column"
    )


def _comment_problem(first: _Row, following: Sequence[_Row]) -> str | None:
    """Return the flags for a first line that is a comment, by a mark on its own or other fields than the rows have."""
    mark = next((mark for mark in COMMENT_MARKS if first.text.startswith(mark)), None)
    if mark is None:
        return None
    is_apart = first.text[len(mark) :][:1].isspace() or first.text[len(mark) :][:1] in ("", mark[0])
    usual = _usual_count([row for row in following if not row.text.startswith(mark)])
    if not is_apart and usual in (0, len(first.fields)):
        return None
    *_, last = first, *takewhile(lambda row: row.text.startswith(mark), following)
    return (
        f"the line begins with {mark!r}, like a comment: {shorten(first.text)!r}; give --comment {quote_flag(mark)}"
        f" if all such lines are comments, or --skip_lines {last.line}; {_FIRST}"
    )


def _count_problem(sample: str, line: int, dialect: Dialect, first: _Row, following: Sequence[_Row]) -> str | None:
    count, usual = len(first.fields), _usual_count(following)
    if usual in (0, count) or (usual == count + 1 and all(not row.fields[-1] for row in following)):
        return None
    for delimiter in DELIMITERS if usual == 1 else "":
        others = _usual_count(_rows(sample, line, Dialect(delimiter.encode(), dialect.quote))[1:])
        if others > 1:
            return _other_delimiter(first, delimiter, others)
    for position, row in enumerate(following):
        below = [item.fields for item in following[position + 1 :]]
        if len(row.fields) == usual and below and _is_header(row.fields, below):
            return (
                f"the header has {_fields(count)}, and the rows have {usual}; the names seem to be in line"
                f" {row.line}: give --skip_lines {row.line - 1}"
            )
    names = _columns(usual)
    return (
        f"the header has {_fields(count)}, and the rows have {usual}; give --skip_lines {first.line} and names: {names}"
    )


def _fields(count: int) -> str:
    return f"{count} field{'' if count == 1 else 's'}"


def _columns(count: int) -> str:
    return _name_flags(count).removeprefix("give ")


def _other_delimiter(first: _Row, delimiter: str, count: int) -> str:
    names = f"--columns {','.join(first.fields)}" if len(first.fields) == count else _columns(count)
    return (
        f"the header has {_fields(len(first.fields))}, and the rows have {count} between {delimiter!r}; give"
        f" --skip_lines {first.line} --delimiter {quote_flag(delimiter)} {names}"
    )


def _kind(text: str) -> str:
    text = text.strip()
    if not text:
        return ""
    return "number" if _NUMBER.fullmatch(text) else "date" if _DATE.fullmatch(text) else "text"


def _column_kind(values: Sequence[str]) -> str:
    kinds = Counter(kind for value in values if (kind := _kind(value)))
    if not kinds:
        return ""
    kind, times = kinds.most_common(1)[0]
    return kind if times >= _MOST * kinds.total() else ""


def _is_header(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    columns = [[row[index] for row in rows if index < len(row)] for index in range(len(names))]
    return any(
        _kind(name) == "text" and _column_kind(column) in ("number", "date") for name, column in zip(names, columns)
    )


def _is_data(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return True if a first row is more like the rows than like names of columns."""
    if len(first) == 1 and _SPARSE.fullmatch(first[0].strip()):
        return True
    if _is_header(first, rows):
        return False
    columns = [[row[index].strip() for row in rows if index < len(row)] for index in range(len(first))]
    kinds = [(_kind(name), _column_kind(column)) for name, column in zip(first, columns)]
    numbers = [name.strip() for name, (own, kind) in zip(first, kinds) if own == kind == "number"]
    if any(own == kind == "date" for own, kind in kinds):
        return True
    if numbers:
        counted = len(numbers) < len(first) and any(map(_is_counted_on, first, columns))
        return counted or not _is_numbering(numbers)
    again = sum(own == "text" and name.strip() in column for name, (own, _), column in zip(first, kinds, columns))
    return len(first) > 1 and len(rows) > 4 and again >= max(2, sum(own == "text" for own, _ in kinds) / 2)


def _is_counted_on(name: str, column: Sequence[str]) -> bool:
    """Return True if the whole numbers of a column, two or more, go on counting from its name."""
    numbers = [int(value) for value in (name.strip(), *column) if value.isascii() and value.isdigit()]
    return len(numbers) > 2 and numbers == list(range(numbers[0], numbers[0] + len(column) + 1))


def _is_numbering(names: Sequence[str]) -> bool:
    """Return True if numbers are likely to be names: 0, 1, 2, …, years in a row, or equal steps."""
    if not all(name.isascii() and name.isdigit() for name in names):
        return False
    numbers = [int(name) for name in names]
    steps = {after - before for before, after in pairwise(numbers)}
    if len(numbers) > 3:
        return len(steps) == 1 and 0 not in steps
    return steps <= {1} and (numbers[0] in (0, 1) or all(1800 <= number <= 2100 for number in numbers))
