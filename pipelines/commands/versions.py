"""`shardmill versions`, `tag`, `rollback` and `accept`, and flags shared by commands on published versions."""

import argparse
import json
import posixpath
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from shardmill.errors import CorruptDataError, UserError
from shardmill.metadata import file_names
from shardmill.metadata.versions import BuildRecord, record_path
from shardmill.pipelines.config.flags import (
    LogOptions,
    Parser,
    add_flags,
    beam_options,
    check_folder_first,
    log_options,
)
from shardmill.pipelines.reports import log
from shardmill.pipelines.reports.summary import human_size, new_table, table_text
from shardmill.reading.dataset import open_dataset
from shardmill.text import html_table, to_printable
from shardmill.transforms.options.declare import options_of
from shardmill.transforms.publishing import lease
from shardmill.transforms.publishing.catalog import VersionState, read_latest, read_tags
from shardmill.transforms.publishing.catalog import list_versions as list_versions_catalog
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import file_error

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

STORE_OPTIONS = "Beam's options for access to an object store, such as --s3_endpoint_url, may follow the folder."
_DIRECTORY_HELP = "Folder of a version, or of a data set: then LATEST selects the version. Local, gs://, s3:// or az://"


def command_parser(command: str, description: str, epilog: str, examples: Sequence[str]) -> Parser:
    """Return the parser of a command that does not convert."""
    return Parser(prog=f"shardmill {command}", description=description, epilog=epilog, examples=examples)


def add_directory(parser: Parser) -> None:
    """Add the folder of a version or of a data set."""
    parser.add_argument("directory", metavar="DIRECTORY", help=_DIRECTORY_HELP)


def add_message_flags(parser: Parser) -> None:
    """Add the flags of messages, and --debug."""
    add_flags(parser, options_of(LogOptions))
    parser.add_argument("--debug", action="store_true", help="Show the full traceback of a failure")


def _make_data_set_parser(command: str, description: str, *examples: str) -> Parser:
    """Return the parser of a command whose first argument is the folder of a data set."""
    parser = command_parser(
        command,
        description,
        f"{STORE_OPTIONS} Exit status: 0 done; 1 it could not be done; 2 a mistake in a flag, or no data set.",
        examples,
    )
    parser.add_argument(
        "directory",
        metavar="DIRECTORY",
        help="Folder of the data set, which holds all its versions. Local, gs://, s3:// or az://",
    )
    add_message_flags(parser)
    return parser


def parse_command(
    parser: Parser, arguments: Sequence[str], paths: Callable[[argparse.Namespace], Sequence[str]]
) -> argparse.Namespace:
    """Parse the arguments, and configure access to the stores of `paths`, of which the first is the folder."""
    args, rest = parser.parse_known_args(list(arguments))
    args.quiet = log_options(args).quiet
    if (options := store_options(parser, rest, paths(args), arguments)) is not None:
        from shardmill.transforms.stores.clients import set_options

        set_options(options)
    return args


def print_outcome(args: argparse.Namespace, message: str) -> None:
    """Print what a command has done, unless --quiet was given."""
    if log.is_json() or not args.quiet:
        log.print_result(message)


@contextmanager
def report_read_errors(folder: str) -> Iterator[None]:
    """Within this context, turn a failure to read into a UserError about the folder on the command line."""
    try:
        yield
    except BrokenPipeError:  # of our own output, not of the data set
        raise
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror or error}") from None


def store_options(
    parser: Parser, rest: Sequence[str], paths: Sequence[str], arguments: Sequence[str] = ()
) -> "PipelineOptions | None":
    """Return the Beam options in `rest` for access to the object stores of `paths`.

    Importing Beam's options takes longer than reading from a disk. They are therefore not imported if all paths are
    local and no option is given: then the result is None.
    """
    if not rest and all(map(storage.is_local, paths)):
        return None
    from apache_beam.options.pipeline_options import StandardOptions

    options: PipelineOptions = beam_options(rest, parser)
    if arguments:
        check_folder_first(arguments, paths[0], rest)
    if options.view_as(StandardOptions).runner is not None:
        command = parser.prog.rpartition(" ")[2]
        raise UserError(f"--runner has no meaning here: {command} reads the data set in this process")
    return options


def _parse_directory(parser: Parser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments; `directory` gets no trailing slash, and must not be the folder of one version."""
    args = parse_command(parser, arguments, lambda args: [args.directory])
    args.directory = data_set_folder(args.directory)
    return args


def data_set_folder(path: str) -> str:
    """Return the folder of a data set without a trailing slash; raise a UserError for the folder of one version."""
    directory = path.rstrip("/") or "/"
    above, last = posixpath.split(directory)
    if file_names.is_version(last) and storage.exists(storage.join(directory, file_names.MANIFEST)):
        raise UserError(f"{directory} is one version; give the folder of all of them, {above or '.'}")
    return directory


_THREADS = 16  # each version is some requests of an object store


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version in the list of a data set's versions."""

    version: str
    published: str  # time in UTC; "" if a deletion has begun
    examples: int | None  # None, as size_bytes, if the manifest is unreadable
    size_bytes: int | None
    latest: bool  # LATEST names it
    tags: tuple[str, ...]  # that name it
    errors: int | None  # of its checks; None, as warnings, if nothing was checked
    warnings: int | None


@dataclass(frozen=True, slots=True, repr=False)
class Versions:
    """The versions of a data set, the newest first: a sequence of `VersionRow`.

    Attributes:
        directory: folder of the data set.
        latest: version that LATEST names; "" without a LATEST.
        rows: the versions.
    """

    directory: str
    latest: str
    rows: tuple[VersionRow, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> VersionRow:
        return self.rows[index]

    def __iter__(self) -> Iterator[VersionRow]:
        return iter(self.rows)

    def __repr__(self) -> str:
        table = new_table(["version", "published"], ["examples", "size"], ["named by", "checks"])
        for row in self.rows:
            table.add_row(*_version_cells(row))
        return "\n".join([table_text(table), *self._notes()])

    def _repr_html_(self) -> str:
        columns = ["version", "published", "examples", "size", "named by", "checks"]
        return html_table(self.directory, columns, map(_version_cells, self.rows), self._notes())

    def _notes(self) -> list[str]:
        if any(row.latest and row.published for row in self.rows):
            return []
        named = f"LATEST names {self.latest}, which is not published" if self.latest else "there is no LATEST"
        return [to_printable(f"NOTE: {named}")]


def versions_parser() -> Parser:
    """Return the parser of `shardmill versions`."""
    parser = _make_data_set_parser(
        "versions", "List the versions of a data set, the newest first.", "datasets/flowers", "datasets/flowers --json"
    )
    parser.add_argument("--json", action="store_true", help="Print the list as one line of JSON")
    return parser


def run_versions(arguments: Sequence[str]) -> int:
    """Run `shardmill versions` and return its exit status."""
    args = _parse_directory(versions_parser(), arguments)
    found = list_versions(args.directory)
    if args.json or log.is_json():
        log.print_output(json.dumps([asdict(row) for row in found]))
    else:
        log.print_output(repr(found))
    return 0


def list_versions(parent: str) -> Versions:
    """Return the versions of the data set in `parent`; raise a UserError if there are none."""
    with report_read_errors(parent):
        named, tags = read_latest(parent), read_tags(parent)
        with ThreadPoolExecutor(_THREADS, "shardmill-versions") as pool:
            states = list_versions_catalog(parent)
            rows = tuple(pool.map(lambda state: _make_version_row(parent, state, named, tags), states))
    if not rows:
        raise UserError(f"{parent} has no version of a data set")
    return Versions(parent, named, rows)


def _make_version_row(parent: str, state: VersionState, latest: str, tags: dict[str, str]) -> VersionRow:
    when = datetime.fromtimestamp(state.modified, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if state.published else ""
    examples = size = None
    if state.published:
        with suppress(CorruptDataError, UserError):  # said by the two that are missing
            splits = open_dataset(storage.join(parent, state.version), storage.StorageFiles()).manifest.splits
            examples, size = sum(split.examples for split in splits), sum(split.size_bytes for split in splits)
    errors, warnings = _check_counts(parent, state.version)
    own = tuple(sorted(tag for tag, version in tags.items() if version == state.version))
    return VersionRow(state.version, when, examples, size, state.version == latest, own, errors, warnings)


def _check_counts(parent: str, version: str) -> tuple[int | None, int | None]:
    path, found = record_path(parent, version), []
    with suppress(FileNotFoundError, CorruptDataError):
        found = [check.get("severity") for check in BuildRecord.from_json(storage.read_bytes(path), path).checks]
    return (found.count("error"), found.count("warn")) if found else (None, None)


def _version_cells(row: VersionRow) -> list[str]:
    when = row.published.replace("T", " ").removesuffix("Z") or "no: a deletion began"
    examples = "damaged" if row.published and row.examples is None else f"{row.examples:,}" if row.examples else ""
    size = human_size(row.size_bytes) if row.size_bytes is not None else ""
    names = ", ".join([*(["LATEST"] if row.latest else []), *row.tags])
    checks = f"{row.errors} errors, {row.warnings} warnings" if row.errors or row.warnings else "passed"
    return [row.version, when, examples, size, names, "" if row.errors is None else checks]


def tag_parser() -> Parser:
    """Return the parser of `shardmill tag`."""
    parser = _make_data_set_parser(
        "tag",
        "Give a version a name. load(…, version=TAG) opens it, and a named version is never deleted.",
        "datasets/flowers 1.0.3 production",
        "datasets/flowers production --delete",
    )
    parser.add_argument(
        "version",
        metavar="VERSION",
        help="Version to name, as a number, tag or LATEST; with --delete, the tag to delete",
    )
    parser.add_argument("tag", metavar="TAG", nargs="?", help="Name of the tag: letters, digits, '_', '.' and '-'")
    parser.add_argument("--move", action="store_true", help="Move the tag to VERSION if it names another version")
    parser.add_argument("--delete", action="store_true", help="Delete the tag and keep the version that it names")
    return parser


def run_tag(arguments: Sequence[str]) -> int:
    """Run `shardmill tag` and return its exit status."""
    args = _parse_directory(tag_parser(), arguments)
    print_outcome(args, repr(change_tag(args.directory, args.version, args.tag, args.move, args.delete)))
    return 0


@dataclass(frozen=True, slots=True, repr=False)
class Tagged:
    """The result of `tag`.

    Attributes:
        directory: folder of the data set.
        tag: name of the tag.
        before: version that the tag named before; "" for a new tag.
        version: version that it names now; "" if it was deleted.
    """

    directory: str
    tag: str
    before: str
    version: str

    def __repr__(self) -> str:
        if not self.version:
            return f"{self.directory}: {self.tag} no longer names {self.before}"
        moves = self.before not in ("", self.version)
        named = f"{self.tag}: {self.before} -> {self.version}" if moves else f"{self.tag} names {self.version}"
        return f"{self.directory}: {named}"

    def _repr_html_(self) -> str:
        return html_table(repr(self), [], [])


def change_tag(directory: str, version: str, tag: str | None, move: bool, delete: bool) -> Tagged:
    """Set, move or delete a tag, see `shardmill.tag`."""
    if delete and (tag is not None or move):
        raise UserError("--delete takes the tag alone: shardmill tag DIRECTORY TAG --delete")
    if not delete and tag is None:
        raise UserError("give the version, then the tag: shardmill tag DIRECTORY VERSION TAG")

    from shardmill.pipelines.nightly.versions import delete_tag, set_tag

    with _report_write_errors(directory):
        if tag is None:
            return Tagged(directory, version, delete_tag(directory, version), "")
        return Tagged(directory, tag, *set_tag(directory, version, tag, move))


@contextmanager
def _report_write_errors(directory: str) -> Iterator[None]:
    """Within this context, turn an OSError into an error about the folder of a data set."""
    try:
        yield
    except OSError as error:
        raise file_error(f"{directory} cannot be read or written", error) from None


def rollback_parser() -> Parser:
    """Return the parser of `shardmill rollback`."""
    parser = _make_data_set_parser(
        "rollback",
        "Point LATEST at another version, which readers open from now on. Nothing is deleted, and a"
        " rebuild from the same input does not undo it.",
        "datasets/flowers",
        "datasets/flowers 1.0.2",
    )
    parser.add_argument(
        "version",
        metavar="VERSION",
        nargs="?",
        help="Version or tag to point LATEST at (default: the newest version older than the one that LATEST names)",
    )
    return parser


def run_rollback(arguments: Sequence[str]) -> int:
    """Run `shardmill rollback` and return its exit status."""
    args = _parse_directory(rollback_parser(), arguments)
    found = roll_back(args.directory, args.version)
    print_outcome(args, found.text)
    for warning in found.warnings:
        log.warn(warning)
    return 0


@dataclass(frozen=True, slots=True, repr=False)
class RolledBack:
    """The result of `rollback`.

    Attributes:
        directory: folder of the data set.
        before: version that LATEST named before; "" for none.
        version: version that LATEST names now.
        warnings: sentences on a version that is being built and will be named next.
    """

    directory: str
    before: str
    version: str
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the result in one sentence."""
        if self.before == self.version:
            return f"{self.directory}: LATEST names {self.version} already"
        return f"{self.directory}: LATEST: {self.before or 'none'} -> {self.version}"

    def __repr__(self) -> str:
        return "\n".join([self.text, *self.warnings])

    def _repr_html_(self) -> str:
        return html_table(self.text, [], [], self.warnings)


def roll_back(directory: str, version: str | None) -> RolledBack:
    """Point LATEST at another version, see `shardmill.rollback`."""
    from shardmill.pipelines.nightly.versions import rollback, version_under_way

    with _report_write_errors(directory):
        before, now = rollback(directory, version)
        builder = version_under_way(directory)
    warning = f"{builder}: once it is published LATEST names it, if it is newer than {now}"
    return RolledBack(directory, before, now, (warning,) if builder else ())


def accept_parser() -> Parser:
    """Return the parser of `shardmill accept`."""
    parser = _make_data_set_parser(
        "accept",
        "Publish a version that failed its checks and is kept in failed/, as it is. The input is not read. Who accepted"
        " it, when and why is in the record of its build.",
        "datasets/flowers 1.0.4 --reason 'the new classes are expected'",
    )
    parser.add_argument("version", metavar="VERSION", help="Version to publish, for example 1.0.1")
    parser.add_argument(
        "--reason", metavar="TEXT", required=True, help="Reason to publish the version although checks failed"
    )
    parser.add_argument("--by", metavar="NAME", help="Name of who accepts the version (default: user@host)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--keep_latest",
        action="store_true",
        help="Publish the version even if a newer one was published since, and leave LATEST as it is",
    )
    which.add_argument(
        "--set_latest",
        action="store_true",
        help="Publish the version even if a newer one was published since, and point LATEST at it",
    )
    return parser


def run_accept(arguments: Sequence[str]) -> int:
    """Run `shardmill accept` and return its exit status."""
    args = _parse_directory(accept_parser(), arguments)
    found = accept_failed(
        args.directory, args.version, args.reason, args.by, args.keep_latest, args.set_latest, log.info
    )
    print_outcome(args, repr(found))
    return 0


@dataclass(frozen=True, slots=True, repr=False)
class Accepted:
    """The result of `accept`.

    Attributes:
        directory: folder of the data set.
        version: version that is published now.
        by: who accepted it.
        latest: version that LATEST names now.
        is_new: False if the version was published before.
    """

    directory: str
    version: str
    by: str
    latest: str
    is_new: bool

    def __repr__(self) -> str:
        accepted = f"is published, accepted by {self.by}" if self.is_new else "is published already"
        return f"{self.directory}: {self.version} {accepted}; LATEST names {self.latest}"

    def _repr_html_(self) -> str:
        return html_table(repr(self), [], [])


def accept_failed(
    directory: str,
    given_version: str,
    reason: str,
    by: str | None,
    keep_latest: bool,
    set_latest: bool,
    say: Callable[[str], None],
) -> Accepted:
    """Publish a version that failed its checks, see `shardmill.accept`; `say` takes sentences on repairs."""
    version = given_version.removeprefix(f"{file_names.FAILED}/")
    if not file_names.is_version(version):
        raise UserError(f"{given_version!r} is not a version; expected three numbers, such as 1.0.1")
    for flag, text in (("reason", reason), ("by", by)):
        if text is not None and not text.strip():
            raise UserError(f"--{flag} is empty")

    from shardmill.pipelines.jobs.outcome import repair
    from shardmill.pipelines.reports.page import write_page_of
    from shardmill.transforms.options.job_options import Acceptance
    from shardmill.transforms.publishing.acceptance import FailedVersion, accept_version

    failed = FailedVersion(directory, version)
    acceptance = Acceptance((), by or lease.user_at_host(), reason)
    with _report_write_errors(directory):
        for sentence in repair(failed.directory):  # of an earlier run of this command, say
            say(sentence)
        is_new = accept_version(failed, acceptance, set_latest, keep_latest)
        write_page_of(failed.directory)
        return Accepted(directory, version, acceptance.by, read_latest(directory), is_new)
