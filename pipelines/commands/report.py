"""`shardmill report`: one page about a version, to look at in the morning; or the same as data."""

import json
from collections.abc import Sequence

from shardmill.errors import UserError
from shardmill.pipelines.commands.data_set import reach
from shardmill.pipelines.flags.options import Parser
from shardmill.pipelines.flags.say import add_say_flags, say_options
from shardmill.pipelines.reports import log
from shardmill.pipelines.reports.html.content import content
from shardmill.pipelines.reports.html.page import page
from shardmill.pipelines.reports.html.sources import read_sources
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import of_output


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
        "directory", help="of a version, or the folder above it, whose LATEST names one; local, gs://, s3://, az://"
    )
    parser.add_argument(
        "--against",
        metavar="VERSION",
        help="a version or tag of the same data set to compare with (default: the one it was checked against as it was"
        " built, or else the one before it)",
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
    reach(parser, arguments, rest, args.directory, *filter(None, [args.output]))
    try:
        sources = read_sources(open_dataset(args.directory, storage.StorageFiles()), args.against)
    except OSError as error:
        raise UserError(f"{args.directory} cannot be read: {error.strerror or error}") from None
    found = content(sources, with_statistics=args.json)
    if args.json:
        print(json.dumps(found))
        return 0
    output = args.output if args.output is not None else "report.html"
    _write(output, page(found, sources))
    if log.is_json() or not how.quiet:
        log.tell(f"{output}: {found['name']} {found['version']}, {found['verdict']['words']}")
    return 0


def _write(path: str, text: str) -> None:
    try:
        storage.write_text(path, text)
    except OSError as error:
        raise of_output(f"--output {path}", error) from None
