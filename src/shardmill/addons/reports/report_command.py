"""`shardmill report` and `shardmill diff`: describe a version, compare two."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from shardmill.addons.reports.content import ReportSources, read_profile, read_sources, report_content
from shardmill.addons.reports.page import render_page
from shardmill.errors import UserError
from shardmill.metadata import file_names
from shardmill.metadata.versions import failed_record_path, page_path, record_path
from shardmill.pipelines.commands import frame
from shardmill.pipelines.config.flags import Parser
from shardmill.pipelines.reports import log
from shardmill.pipelines.reports.summary import human_size, new_table, table_text
from shardmill.quality.checks import run_checks
from shardmill.quality.difference import Difference, describe_changes, find_differences
from shardmill.quality.limits import CheckResult
from shardmill.quality.profile import Profile
from shardmill.text import to_printable
from shardmill.transforms.options.job_options import CheckOptions
from shardmill.transforms.publishing.catalog import find_version_folder, is_failed_folder, open_version, parent_folder
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import file_error


def _add_report_arguments(parser: Parser) -> None:
    frame.add_directory(parser)
    parser.add_argument(
        "--against",
        metavar="VERSION",
        help="Version or tag of the same data set to compare with (default: the one that its build compared with)",
    )
    parser.add_argument("--output", metavar="HTML", help="HTML file to write (default: report.html)")
    parser.add_argument("--record", action="store_true", help="Write the page next to the build record, as jobs do")
    parser.add_argument(
        "--json", action="store_true", help="Print the content of the report as JSON, which docs/json.md describes"
    )


def _add_diff_arguments(parser: Parser) -> None:
    parser.add_argument(
        "versions",
        nargs="+",
        metavar="[DIRECTORY] A B",
        help="Folder of a data set and two of its versions, tags or LATEST; or the folders of two versions",
    )
    parser.add_argument("--json", action="store_true", help="Print all differences as one line of JSON")


def _run_report(parser: Parser, arguments: Sequence[str]) -> int:
    args = frame.parse_here(parser, arguments, lambda args: [args.directory, *filter(None, [args.output])])
    if args.json + args.record + (args.output is not None) > 1:
        raise UserError("--json prints the content, --output and --record write the page: give one of them")
    output = None if args.json else args.output if args.output is not None else "report.html"
    found = report(args.directory, against=args.against, output=output, record=args.record, beam_options=frame.REACHED)
    if args.json:
        log.print_output(json.dumps(found.content))
    else:
        frame.print_outcome(args, f"{found.output}: {found.text}")
    return 0


COMMANDS = (
    frame.Command(
        name="report",
        description="Write an HTML report about a version: checks, content, changes and rejects.",
        epilog=f"The page needs neither a network nor a script. {frame.STORE_OPTIONS} Exit status: 0 done, whatever the"
        " verdict; 1 a file of the data set is damaged; 2 a mistake in a flag, or no data set.",
        examples=("datasets/flowers --output flowers.html", "datasets/flowers/1.0.3 --against 1.0.1"),
        add_arguments=_add_report_arguments,
        run=_run_report,
    ),
    frame.Command(
        name="diff",
        description="Show what differs between two versions: splits, classes, features, types and statistics.",
        epilog="Only manifest.json and stats.json are read. Beam's options for access to an object store, such as"
        " --s3_endpoint_url, may follow the versions. Exit status: 0 done, whatever differs; 1 one of the two is"
        " damaged; 2 a mistake, or no such version.",
        examples=("datasets/flowers 1.0.0 LATEST", "datasets/flowers/1.0.0 elsewhere/flowers/1.0.0 --json"),
        add_arguments=_add_diff_arguments,
        run=frame.run_here(lambda args: diff(*args.versions, beam_options=frame.REACHED), lambda args: args.versions),
    ),
)


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The result of `report`.

    Attributes:
        content: content of the page, as docs/json.md describes it; with an `output`, without statistics of features.
        output: HTML file that was written; None for none.
    """

    content: Mapping[str, Any]
    output: str | None = None

    @property
    def severity(self) -> str:
        """Return the gravest finding: `ok`, `unknown`, `warn` or `error`."""
        return str(self.content["verdict"]["severity"])

    @property
    def text(self) -> str:
        """Return the verdict in a few words."""
        return f"{self.content['name']} {self.content['version']}, {self.content['verdict']['words']}"

    def __repr__(self) -> str:
        verdict = self.content["verdict"]
        found = [check for check in verdict["checks"] if check["severity"] in _FINDINGS]
        findings = [f"{check['severity']}: {check['check']}: {check['sentence']}" for check in found]
        notes = filter(None, (verdict["checked"], self.content["changes"]["since"]))
        return "\n".join([self.text, *notes, *findings])


def report(
    directory: str | os.PathLike[str],
    *,
    against: str | None = None,
    output: str | os.PathLike[str] | None = None,
    record: bool = False,
    beam_options: Sequence[str] = (),
) -> Report:
    """Make the report about a version: checks, content, changes and rejects, as `shardmill report` does.

    Args:
        directory: folder of a version, or of its data set; then LATEST selects the version.
        against: version or tag to compare with; None for the one that the build compared with, or the previous one.
        output: HTML file to write; None, unlike in the command, for none.
        record: write the page next to the build record instead, where an interrupted job has left none.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The verdict, and the content of the page.

    Raises:
        UserError: there is no data set or no such version, or the file cannot be written.
        CorruptDataError: a file of the data set is damaged.
    """
    page = None if output is None else os.fspath(output)
    with frame.reach_paths("report", beam_options, path := os.fspath(directory), *filter(None, [page])):
        with frame.report_read_errors(path):
            sources = read_sources(open_version(path), against)
            page = _page_of_build(sources) if record else page
        found = report_content(sources, with_statistics=page is None)
        if page is not None:
            try:
                storage.write_text(page, render_page(found, sources))
            except OSError as error:
                raise file_error(f"--output {page}", error) from None
    return Report(found, page)


def _page_of_build(sources: ReportSources) -> str:
    """Return the path of the page that the build of a version writes; raises UserError if that has no record."""
    parent, _, version = sources.folder.rpartition("/")
    if sources.record is None:
        raise UserError(f"{sources.folder} has no build record; --output writes the page elsewhere")
    if not is_failed_folder(sources.folder):
        return page_path(record_path(parent, version))
    parent = parent_folder(parent)
    is_published = storage.exists(storage.join(parent, version, file_names.SUCCESS))
    return page_path((failed_record_path if is_published else record_path)(parent, version))


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """The result of `diff`.

    Attributes:
        old: first version.
        new: second version.
        differences: differences beyond chance, the most important first; each has `what` and `words`.
        checks: results of the checks that precede publishing, including those that passed.
        text: the output of the command.
        content: its output with --json, as docs/json.md describes it.
    """

    old: str
    new: str
    differences: tuple[Difference, ...]
    checks: tuple[CheckResult, ...]
    text: str
    content: Mapping[str, Any]

    def __repr__(self) -> str:
        return self.text


_FINDINGS = ("warn", "error")


def diff(*versions: str | os.PathLike[str], beam_options: Sequence[str] = ()) -> Comparison:
    """Compare two versions: splits, classes, features, types and statistics, as `shardmill diff` does.

    Args:
        versions: folder of a data set and two of its versions, tags or LATEST; or the folders of two versions.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The differences, and the results of the checks that precede publishing.

    Raises:
        UserError: there is no such version.
        CorruptDataError: one of the two is damaged.
    """
    words = [os.fspath(version) for version in versions]
    with frame.reach_paths("diff", beam_options, *words):
        try:
            old, new = (read_profile(open_version(path)) for path in _find_directories(words))
        except OSError as error:
            raise UserError(f"{' '.join(words)}: {error.strerror or error}") from None
    results = run_checks(new, old, CheckOptions().limits)
    differences = find_differences(new, old)
    text = "\n".join(map(to_printable, difference_lines(new, old, results, differences)))
    content = differences_json(new, old, results, differences)
    return Comparison(old.version, new.version, tuple(differences), tuple(results), text, content)


def _find_directories(words: Sequence[str]) -> list[str]:
    if len(words) == 2:
        version = words[1].removeprefix(f"{file_names.FAILED}/")
        named = file_names.is_version(version) or version == file_names.LATEST
        if named and not storage.exists(storage.join(words[1], file_names.MANIFEST)):
            raise UserError(
                f"{' '.join(words)}: one version cannot be compared with anything; give a second, such as"
                f" {' '.join(words)} {file_names.LATEST}"
            )
        return list(words)
    if len(words) != 3:
        raise UserError(f"expected a folder and two versions, or the folders of two versions; found {' '.join(words)}")
    directory, *versions = words
    return [find_version_folder(directory, name) for name in versions]


def difference_lines(
    new: Profile, old: Profile, results: Sequence[CheckResult], differences: Sequence[Difference]
) -> Iterator[str]:
    """Yield a summary of the differences, a table of splits, and the results of the checks that precede publishing."""
    yield from (describe_changes(new, old, differences), "")
    yield from _compare_splits(new, old).split("\n")
    findings = [result for result in results if result.severity in _FINDINGS]
    unknown = {one.check: one.sentence for one in reversed(results) if one.severity == "unknown"}
    if findings:
        yield ""
    for result in findings:
        where = f" in {result.split!r}" if result.split and repr(result.split) not in result.sentence else ""
        yield f"{result.severity}: {result.check}: {result.sentence}{where}"
    yield from (f"not checked: {check}: {sentence}" for check, sentence in unknown.items())


def _compare_splits(new: Profile, old: Profile) -> str:
    table = new_table(["split"], ["", old.version, new.version] * 2)
    for split in dict.fromkeys([*old.splits, *new.splits]):
        counts = [f"{each.splits[split]:,}" if split in each.splits else "-" for each in (old, new)]
        sizes = [
            human_size(each.manifest.split(split).size_bytes) if split in each.splits else "-" for each in (old, new)
        ]
        table.add_row(split, "examples", *counts, "bytes", *sizes)
    return table_text(table)


def differences_json(
    new: Profile, old: Profile, results: Sequence[CheckResult], differences: Sequence[Difference]
) -> dict[str, Any]:
    """Return the two versions, their differences and all check results, including passed ones, as JSON-ready data."""
    return {
        "old": {"version": old.version, "splits": old.splits},
        "new": {"version": new.version, "splits": new.splits},
        "since": describe_changes(new, old, differences),
        "differences": [asdict(found) for found in differences],
        "checks": [result.to_json() for result in results],
    }
