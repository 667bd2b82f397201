"""The format of a manifest, and the columns that it says it has."""

import csv
import io
import json
import posixpath
from contextlib import suppress

from shardmill.errors import UserError
from shardmill.transforms.inputs.manifests.csv_rows import next_row
from shardmill.transforms.stores import storage

_PARQUET = ".parquet"


def is_parquet(path: str) -> bool:
    """Whether the manifest is Parquet."""
    return path.lower().endswith(_PARQUET)


def is_textual(path: str) -> bool:
    """Whether the manifest is CSV, whose values are all text, rather than JSON lines or Parquet.

    Raises:
      UserError: the name says neither.
    """
    suffix = posixpath.splitext(path)[1].lower()
    if suffix in (".jsonl", ".ndjson", _PARQUET):
        return False
    if suffix == ".csv":
        return True
    raise UserError(f"--manifest {path}: expected a name that ends in .csv, .jsonl or .parquet")


def folder_of(path: str) -> str:
    """The folder of the manifest at `path`, which the names in it are relative to."""
    return posixpath.dirname(path) or "."


def columns_of(path: str) -> tuple[str, ...] | None:
    """The columns of a manifest that says them before its rows; None of JSON lines.

    Raises:
      UserError: as `read_rows`.
    """
    if is_parquet(path):
        from pyarrow import ArrowException, parquet

        try:
            with storage.open_read(path) as raw:
                return tuple(parquet.read_schema(raw).names)
        except (ArrowException, OSError):  # which reading it tells
            return None
    if not is_textual(path):
        return None
    try:
        with storage.open_read(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", "surrogateescape", newline="") as text:
            header = next_row(csv.reader(text, strict=True), path, 1)
    except OSError:
        return None
    return None if header is None else tuple(header)


def columns_told(path: str) -> tuple[str, ...]:
    """The columns of a manifest as far as it says them: of JSON lines those of the first."""
    known = columns_of(path)
    if known is not None or is_textual(path) or is_parquet(path):
        return known or ()
    with suppress(OSError, ValueError), storage.open_read(path) as raw:
        first = json.loads(raw.readline().decode("utf-8-sig"))
        return tuple(first) if isinstance(first, dict) else ()
    return ()
