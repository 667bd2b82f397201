"""The rows of a CSV manifest."""

import csv
import io
from collections.abc import Collection, Iterator
from typing import Any

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.transforms.inputs.manifests.headers import check_header, encoding_problem
from shardmill.transforms.inputs.manifests.names import ManifestNames

_FIELD_LIMIT = 1 << 30  # bytes in one CSV cell; the csv module's default of 128 KiB is less than a caption may have


def csv_rows(
    text: io.TextIOWrapper, path: str, reserved: Collection[str], names: ManifestNames
) -> Iterator[tuple[int, dict[str, Any]] | Reject]:
    """(line, columns) of each row; raises UserError of a header that is no good, and of a quote that is not closed."""
    csv.field_size_limit(_FIELD_LIMIT)
    reader = csv.reader(text, strict=True)
    header = next_row(reader, path, 1)
    if header is None:
        raise UserError(f"--manifest {path} is empty; expected a header with a column {' or '.join(names.files)}")
    check_header(header, path, reserved, names)
    while True:
        line = reader.line_num + 1
        cells = next_row(reader, path, line)
        if cells is None:
            return
        if not cells:  # a blank line
            continue
        if len(cells) != len(header):
            yield Reject(path, line, "index", f"the row has {len(cells)} fields; the header has {len(header)}")
        elif problem := encoding_problem(cells):
            yield Reject(path, line, "index", problem)
        else:
            yield line, dict(zip(header, cells, strict=True))


def next_row(reader: Any, path: str, line: int) -> list[str] | None:
    """The cells of the next row, which starts at `line`; None after the last; raises UserError."""
    try:
        return next(reader, None)
    except csv.Error as error:
        raise UserError(
            f"--manifest {path}, from line {line}: {error}; check the quotes: a field that opens one must close it, "
            "and doubles those within"
        ) from None
