"""`shardmill versions`, `tag`, `rollback` and `accept`, and flags shared by commands on published versions."""

import argparse
import os
import posixpath
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from shardmill.errors import CorruptDataError, UserError
from shardmill.metadata import file_names
from shardmill.metadata.versions import record_path
from shardmill.pipelines.commands import frame
from shardmill.pipelines.config.flags import Parser
from shardmill.pipelines.reports import log
from shardmill.pipelines.reports.summary import human_size, new_table, table_text
from shardmill.reading.dataset import open_dataset
from shardmill.text import plural, to_printable
from shardmill.transforms.publishing import lease
from shardmill.transforms.publishing.build_records import read_record
from shardmill.transforms.publishing.catalog import VersionState, list_versions, read_latest, read_tags
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import file_error


def _make_command(
    name: str,
    description: str,
    examples: Sequence[str],
    add_arguments: Callable[[Parser], object],
    call: Callable[[argparse.Namespace], Any],
) -> frame.Command:
    def add_all(parser: Parser) -> None:
        frame.add_directory(
            parser, "Folder of the data set, which holds all its versions. Local, gs://, s3:// or az://"
        )
        add_arguments(parser)

    return frame.Command(
        name=name,
        description=description,
        epilog=f"{frame.STORE_OPTIONS} Exit status: 0 done; 1 it could not be done; 2 a mistake in a flag, or no data"
        " set.",
        examples=examples,
        add_arguments=add_all,
        run=frame.run_here(call),
    )


def _add_tag_arguments(parser: Parser) -> None:
    parser.add_argument(
        "version",
        metavar="VERSION",
        help="Version to name, as a number, tag or LATEST; with --delete, the tag to delete",
    )
    parser.add_argument("tag", metavar="TAG", nargs="?", help="Name of the tag: letters, digits, '_', '.' and '-'")
    parser.add_argument("--move", action="store_true", help="Move the tag to VERSION if it names another version")
    parser.add_argument("--delete", action="store_true", help="Delete the tag and keep the version that it names")


def _add_rollback_arguments(parser: Parser) -> None:
    parser.add_argument(
        "version",
        metavar="VERSION",
        nargs="?",
        help="Version or tag to point LATEST at (default: the newest version older than the one that LATEST names)",
    )


def _add_accept_arguments(parser: Parser) -> None:
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


COMMANDS = (
    _make_command(
        "versions",
        "List the versions of a data set, the newest first.",
        ("datasets/flowers", "datasets/flowers --json"),
        lambda parser: parser.add_argument("--json", action="store_true", help="Print the list as one line of JSON"),
        lambda args: versions(args.directory, beam_options=frame.REACHED),
    ),
    _make_command(
        "tag",
        "Give a version a name. load(…, version=TAG) opens it, and a named version is never deleted.",
        ("datasets/flowers 1.0.3 production", "datasets/flowers production --delete"),
        _add_tag_arguments,
        lambda args: tag(
            args.directory, args.version, args.tag, move=args.move, delete=args.delete, beam_options=frame.REACHED
        ),
    ),
    _make_command(
        "rollback",
        "Point LATEST at another version, which readers open from now on. Nothing is deleted, and a"
        " rebuild from the same input does not undo it.",
        ("datasets/flowers", "datasets/flowers 1.0.2"),
        _add_rollback_arguments,
        lambda args: rollback(args.directory, args.version, beam_options=frame.REACHED),
    ),
    _make_command(
        "accept",
        "Publish a version that failed its checks and is kept in failed/, as it is. The input is not read. Who accepted"
        " it, when and why is in the record of its build.",
        ("datasets/flowers 1.0.4 --reason 'the new classes are expected'",),
        _add_accept_arguments,
        lambda args: accept_failed(
            args.directory, args.version, args.reason, args.by, args.keep_latest, args.set_latest, log.info
        ),
    ),
)


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
        if any(row.latest and row.published for row in self.rows):
            return table_text(table)
        named = f"LATEST names {self.latest}, which is not published" if self.latest else "there is no LATEST"
        return f"{table_text(table)}\n{to_printable(f'NOTE: {named}')}"

    @property
    def content(self) -> list[dict[str, Any]]:
        """Return the rows as JSON-ready data."""
        return [asdict(row) for row in self.rows]


def versions(directory: str | os.PathLike[str], *, beam_options: Sequence[str] = ()) -> Versions:
    """List the versions of a data set, the newest first, as `shardmill versions` does.

    Args:
        directory: folder of the data set.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The versions, with their examples, sizes, tags and numbers of failed checks.

    Raises:
        UserError: there is no data set, or its folder cannot be read.
    """
    with frame.reach_paths("versions", beam_options, path := os.fspath(directory)):
        parent = data_set_folder(path)
        with frame.report_read_errors(parent), ThreadPoolExecutor(_THREADS, "shardmill-versions") as pool:
            named, tags, states = read_latest(parent), read_tags(parent), list_versions(parent)
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
    record = read_record(record_path(parent, state.version))
    found = [check.get("severity") for check in record.checks] if record is not None else []
    errors, warnings = (found.count("error"), found.count("warn")) if found else (None, None)
    own = tuple(sorted(tag for tag, version in tags.items() if version == state.version))
    return VersionRow(state.version, when, examples, size, state.version == latest, own, errors, warnings)


def _version_cells(row: VersionRow) -> list[str]:
    when = row.published.replace("T", " ").removesuffix("Z") or "no: a deletion began"
    examples = "damaged" if row.published and row.examples is None else f"{row.examples:,}" if row.examples else ""
    size = human_size(row.size_bytes) if row.size_bytes is not None else ""
    names = ", ".join([*(["LATEST"] if row.latest else []), *row.tags])
    found = f"{plural(row.errors or 0, 'error')}, {plural(row.warnings or 0, 'warning')}"
    checks = found if row.errors or row.warnings else "passed"
    return [row.version, when, examples, size, names, "" if row.errors is None else checks]


@dataclass(frozen=True, slots=True, repr=False)
class Tagged(frame.Result):
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

    @property
    def text(self) -> str:
        if not self.version:
            return f"{self.directory}: {self.tag} no longer names {self.before}"
        moves = self.before not in ("", self.version)
        named = f"{self.tag}: {self.before} -> {self.version}" if moves else f"{self.tag} names {self.version}"
        return f"{self.directory}: {named}"


def tag(
    directory: str | os.PathLike[str],
    version: str,
    tag: str | None = None,
    *,
    move: bool = False,
    delete: bool = False,
    beam_options: Sequence[str] = (),
) -> Tagged:
    """Give a version a name, as `shardmill tag` does. Readers open it by that name, and it is never deleted.

    Args:
        directory: folder of the data set.
        version: version to name: a version, a tag or LATEST; with `delete`, the tag to delete.
        tag: name of the tag: letters, digits, `_`, `.` and `-`.
        move: move the tag if it names another version.
        delete: delete the tag and keep the version.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The versions that the tag named before and names now.

    Raises:
        UserError: there is no such version or tag, or the tag names another version and `move` is not set.
        JobError: another process changed the tag or deleted the version meanwhile.
    """
    from shardmill.pipelines.commands.pointers import delete_tag, set_tag

    with frame.reach_paths("tag", beam_options, path := os.fspath(directory)):
        folder = data_set_folder(path)
        if delete and (tag is not None or move):
            raise UserError("--delete takes the tag alone: shardmill tag DIRECTORY TAG --delete")
        if not delete and tag is None:
            raise UserError("give the version, then the tag: shardmill tag DIRECTORY VERSION TAG")
        with _report_write_errors(folder):
            if tag is None:
                return Tagged(folder, version, delete_tag(folder, version), "")
            return Tagged(folder, tag, *set_tag(folder, version, tag, move))


@contextmanager
def _report_write_errors(directory: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise file_error(f"{directory} cannot be read or written", error) from None


@dataclass(frozen=True, slots=True, repr=False)
class RolledBack(frame.Result):
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
        if self.before == self.version:
            return f"{self.directory}: LATEST names {self.version} already"
        return f"{self.directory}: LATEST: {self.before or 'none'} -> {self.version}"


def rollback(
    directory: str | os.PathLike[str], version: str | None = None, *, beam_options: Sequence[str] = ()
) -> RolledBack:
    """Point LATEST at another version, which readers open from now on, as `shardmill rollback` does.

    Nothing is deleted, and a rebuild from the same input does not undo it.

    Args:
        directory: folder of the data set.
        version: version or tag to point LATEST at; None for the newest version older than LATEST's.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The versions that LATEST named before and names now.

    Raises:
        UserError: there is no such version, or it is incomplete.
        JobError: a version is being published, or another process wrote LATEST meanwhile.
    """
    from shardmill.pipelines.commands.pointers import rollback, version_under_way

    with frame.reach_paths("rollback", beam_options, path := os.fspath(directory)):
        folder = data_set_folder(path)
        with _report_write_errors(folder):
            (before, now), builder = rollback(folder, version), version_under_way(folder)
    warning = f"{builder}: once it is published LATEST names it, if it is newer than {now}"
    return RolledBack(folder, before, now, (warning,) if builder else ())


@dataclass(frozen=True, slots=True, repr=False)
class Accepted(frame.Result):
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

    @property
    def text(self) -> str:
        accepted = f"is published, accepted by {self.by}" if self.is_new else "is published already"
        return f"{self.directory}: {self.version} {accepted}; LATEST names {self.latest}"


def accept(
    directory: str | os.PathLike[str],
    version: str,
    *,
    reason: str,
    by: str | None = None,
    keep_latest: bool = False,
    set_latest: bool = False,
    beam_options: Sequence[str] = (),
) -> Accepted:
    """Publish a version that failed its checks and is kept in `failed/`, as `shardmill accept` does.

    Args:
        directory: folder of the data set.
        version: version to publish, for example `1.0.1`.
        reason: why the version is published although checks failed; the record of its build keeps it.
        by: who accepts it; None for user@host.
        keep_latest: publish it although a newer version was published since, which LATEST goes on naming.
        set_latest: publish it although a newer version was published since, and point LATEST at it.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The published version, who accepted it, and the version that LATEST names now.

    Raises:
        UserError: no such version is kept, or an option is wrong.
        JobError: another job is publishing, or the files cannot be written.
        CorruptDataError: the kept version is damaged.
    """
    if keep_latest and set_latest:
        raise UserError("keep_latest and set_latest exclude each other: give one of them")
    with frame.reach_paths("accept", beam_options, path := os.fspath(directory)):
        return accept_failed(path, version, reason, by, keep_latest, set_latest, frame.ignore)


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
    directory = data_set_folder(directory)
    version = given_version.removeprefix(f"{file_names.FAILED}/")
    if not file_names.is_version(version):
        raise UserError(f"{given_version!r} is not a version; expected three numbers, such as 1.0.1")
    for flag, text in (("reason", reason), ("by", by)):
        if text is not None and not text.strip():
            raise UserError(f"--{flag} is empty")

    from shardmill.pipelines.jobs.outcome import repair, write_page_of
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
