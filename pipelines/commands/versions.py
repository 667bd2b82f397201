"""`shardmill versions`: what there is of a data set, and what LATEST and the tags name."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from rich.table import Table

from shardmill.errors import CorruptDataError, UserError
from shardmill.pipelines.commands.data_set import parse, parser_of
from shardmill.pipelines.flags.options import Parser
from shardmill.pipelines.reports import log
from shardmill.pipelines.reports.figures import human_size
from shardmill.pipelines.reports.text_table import text_of
from shardmill.printable import printable
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.publishing.catalog import VersionState, tags_in, versions_in
from shardmill.transforms.publishing.latest import latest_in
from shardmill.transforms.stores import storage
from shardmill.versions.build_record import BuildRecord, record_path

_THREADS = 16  # each version is some requests of an object store


@dataclass(frozen=True, slots=True)
class Row:
    """One version.

    Attributes:
      published: when, in UTC; "" of one that a deletion began with.
      examples, size_bytes: of all splits; None where the manifest cannot be read.
      latest: whether LATEST names it.
      tags: that name it.
      errors, warnings: of the checks before it was published; None where nothing was checked.
    """

    version: str
    published: str
    examples: int | None
    size_bytes: int | None
    latest: bool
    tags: tuple[str, ...]
    errors: int | None
    warnings: int | None


def versions_parser() -> Parser:
    """The parser of `shardmill versions`."""
    parser = parser_of("versions", "List the versions of a data set, the newest first.")
    parser.add_argument("--json", action="store_true", help="as one line of JSON")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    args = parse(versions_parser(), arguments)
    try:
        rows = rows_of(args.directory)
        named = latest_in(args.directory)
    except OSError as error:
        raise UserError(f"{args.directory} cannot be read: {error.strerror or error}") from None
    if not rows:
        raise UserError(f"{args.directory} has no version of a data set")
    if args.json or log.is_json():
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    print(table(rows))
    if not any(row.latest and row.published for row in rows):
        print(printable(f"NOTE: LATEST names {named}, which is not published" if named else "NOTE: there is no LATEST"))
    return 0


def rows_of(parent: str) -> list[Row]:
    """The versions in `parent`, the newest first; raises OSError."""
    named, tags = latest_in(parent), tags_in(parent)
    with ThreadPoolExecutor(_THREADS, "shardmill-versions") as pool:
        return list(pool.map(lambda state: _row(parent, state, named, tags), versions_in(parent)))


def _row(parent: str, state: VersionState, named: str, tags: dict[str, str]) -> Row:
    when = datetime.fromtimestamp(state.modified, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if state.published else ""
    examples = size = None
    if state.published:
        try:
            splits = open_dataset(storage.join(parent, state.version), storage.StorageFiles()).manifest.splits
            examples, size = sum(split.examples for split in splits), sum(split.size_bytes for split in splits)
        except (CorruptDataError, UserError):  # said by the two that are missing
            pass
    errors, warnings = _checks(parent, state.version)
    own = tuple(sorted(tag for tag, version in tags.items() if version == state.version))
    return Row(state.version, when, examples, size, state.version == named, own, errors, warnings)


def _checks(parent: str, version: str) -> tuple[int | None, int | None]:
    path = record_path(parent, version)
    try:
        checks = BuildRecord.from_json(storage.read_bytes(path), path).checks
    except (FileNotFoundError, CorruptDataError):
        return None, None
    if not checks:
        return None, None
    found = [check.get("severity") for check in checks]
    return found.count("error"), found.count("warn")


def table(rows: Sequence[Row]) -> str:
    """The rows, as people read them."""
    out = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("version", "published"):
        out.add_column(title)
    for title in ("examples", "size"):
        out.add_column(title, justify="right")
    out.add_column("named by", overflow="fold")
    out.add_column("checks", overflow="fold")
    for row in rows:
        when = row.published.replace("T", " ").removesuffix("Z") or "no: a deletion began"
        examples = "damaged" if row.published and row.examples is None else f"{row.examples:,}" if row.examples else ""
        size = human_size(row.size_bytes) if row.size_bytes is not None else ""
        names = ", ".join([*(["LATEST"] if row.latest else []), *row.tags])
        out.add_row(row.version, when, examples, size, names, _checks_said(row))
    return text_of(out)


def _checks_said(row: Row) -> str:
    if row.errors is None:
        return ""
    return f"{row.errors} errors, {row.warnings} warnings" if row.errors or row.warnings else "passed"
