"""`shardmill report`: one page about a version, to look at in the morning; or the same as data."""

import json
import posixpath
from collections.abc import Sequence

from pipelines.flags.options import Parser, beam_options, check_folder_first
from pipelines.flags.say import add_say_flags, say_options
from pipelines.reports import log
from pipelines.reports.html.content import Sources, content
from pipelines.reports.html.page import page
from shardmill import naming
from shardmill.build_record import BuildRecord, record_path
from shardmill.checks.profile import Profile
from shardmill.checks.result import CheckResult
from shardmill.checks.run import run_checks
from shardmill.dataset import Dataset, open_dataset
from shardmill.errors import CorruptDataError, UserError
from shardmill.tags import find_version
from transforms.options.checks import CheckOptions
from transforms.publishing.build_records import read_record
from transforms.stores import storage


def report_parser() -> Parser:
    """The parser of `shardmill report`."""
    parser = Parser(
        prog="shardmill report",
        description="Write one page about a version: is it good, what is in it, what changed, what was left out.",
        epilog=(
            "The page needs neither a network nor a script. Beam's options that say how to reach an object store are"
            " passed through, after the folder: --s3_endpoint_url, … Exit status: 0 done, whatever the verdict; 1 a"
            " file of the data set is damaged; 2 a mistake in a flag, or no data set."
        ),
    )
    parser.add_argument(
        "directory", help="of a version, or the folder above it, whose LATEST names one; local, gs://, s3://"
    )
    parser.add_argument(
        "--against",
        metavar="VERSION",
        help="a version or tag of the same data set to compare with (default: the one it was checked against as it was"
        " built, if any)",
    )
    parser.add_argument("--output", metavar="HTML", help="the file to write (default: report.html)")
    parser.add_argument("--json", action="store_true", help="print the content as JSON, which docs/json.md describes")
    add_say_flags(parser)
    parser.add_argument("--debug", action="store_true", help="show the full trace of a failure")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    parser = report_parser()
    args, rest = parser.parse_known_args(list(arguments))
    how = say_options(args)
    if args.json and args.output is not None:
        raise UserError("--json prints the content and --output writes the page: give one of them")
    if rest or not all(map(storage.is_local, filter(None, (args.directory, args.output)))):
        from transforms.stores.clients import set_options

        options = beam_options(rest, parser)
        check_folder_first(arguments, args.directory, rest)
        set_options(options)
    try:
        found = content(read_sources(open_dataset(args.directory, storage.BeamFiles()), args.against))
    except OSError as error:
        raise UserError(f"{args.directory} cannot be read: {error.strerror or error}") from None
    if args.json:
        print(json.dumps(found))
        return 0
    output = args.output if args.output is not None else "report.html"
    _write(output, page(found))
    if log.is_json() or not how.quiet:
        log.tell(f"{output}: {found['name']} {found['version']}, {found['verdict']['words']}")
    return 0


def read_sources(dataset: Dataset, against: str | None) -> Sources:
    """What a report on a data set is made of.

    Args:
      dataset: its version.
      against: the version or tag to compare with; None for the one that its build was checked against.

    Raises:
      UserError: stats.json is missing; the version to compare with is not there.
      CorruptDataError: a file of either is damaged.
    """
    profile = _profile(dataset)
    parent, last = posixpath.split(dataset.directory)
    record = read_record(record_path(parent, last))
    baseline, why = _checked_against(dataset, parent, record) if against is None else (None, "")
    if against is not None:
        version, _ = find_version(dataset.files, parent, against)
        baseline = _profile(open_dataset(storage.join(parent, version), dataset.files))
    results, checked = _results(profile, baseline if against is not None else None, record)
    return Sources(profile, baseline, why, results, checked, record, _rejects(dataset))


def _profile(dataset: Dataset) -> Profile:
    try:
        return Profile.of(dataset)
    except FileNotFoundError:
        raise UserError(
            f"{dataset.directory} has no {naming.STATS}, which a report is made of; build that version again"
        ) from None


def _checked_against(dataset: Dataset, parent: str, record: BuildRecord | None) -> tuple[Profile | None, str]:
    """The version that a build was checked against; or None, and why there is nothing to compare with."""
    if record is None or not record.baseline:
        return None, "It was not compared with another version as it was built; --against names one."
    try:
        return _profile(open_dataset(storage.join(parent, record.baseline), dataset.files)), ""
    except (UserError, CorruptDataError, OSError):
        since = f" What was told then: {record.since}." if record.since else ""
        return None, f"{record.baseline}, which it was checked against, cannot be read any more.{since}"


def _results(
    profile: Profile, against: Profile | None, record: BuildRecord | None
) -> tuple[Sequence[CheckResult], str]:
    """What the checks found, and when they were made: those on record, unless others are asked for."""
    if against is not None:
        return run_checks(profile, against, CheckOptions().limits), f"Checked now, against {against.version}."
    if record is not None and record.checks:
        try:
            stood = [CheckResult.from_json(check) for check in record.checks]
        except ValueError as error:
            raise CorruptDataError(f"the record of its build has a check that is none: {error}") from error
        of = f", against {record.baseline}" if record.baseline else ""
        return stood, f"Checked before it was published{of}."
    return run_checks(profile, None, CheckOptions().limits), "Checked now, by itself: its build made no checks."


def _rejects(dataset: Dataset) -> list[str]:
    """The lines of rejects/."""
    name = f"{naming.REJECTS_DIR}/{naming.REJECTS_FILE}"
    if not dataset.manifest.rejects.get("records"):
        return []
    try:
        return dataset.metadata(name).decode().splitlines()
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise CorruptDataError(f"{storage.join(dataset.directory, name)} cannot be read: {_why(error)}") from error


def _why(error: Exception) -> str:
    return "it is missing" if isinstance(error, FileNotFoundError) else "it is not UTF-8"


def _write(path: str, text: str) -> None:
    try:
        storage.write_text(path, text)
    except OSError as error:
        raise UserError(f"--output {path}: {error.strerror or error}") from None
