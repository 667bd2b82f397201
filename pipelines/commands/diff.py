"""`shardmill diff`: two versions, side by side, from what describes them alone."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from shardmill.checks.difference import differences, since
from shardmill.checks.profile import Profile
from shardmill.checks.result import CheckResult
from shardmill.checks.run import run_checks
from shardmill.errors import UserError
from shardmill.metadata import naming
from shardmill.pipelines.commands.data_set import reach
from shardmill.pipelines.flags.options import Parser
from shardmill.pipelines.flags.say import add_say_flags, say_options
from shardmill.pipelines.reports import log
from shardmill.pipelines.reports.figures import human_size
from shardmill.pipelines.reports.text_table import text_of
from shardmill.printable import printable
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.options.checks import CheckOptions
from shardmill.transforms.stores import storage
from shardmill.versions.tags import find_version


def diff_parser() -> Parser:
    """The parser of `shardmill diff`."""
    parser = Parser(
        prog="shardmill diff",
        usage="shardmill diff [DIRECTORY] A B [--json]",
        description="Say what differs between two versions: splits, classes, features, types, what values are like.",
        epilog=(
            "It reads manifest.json and stats.json alone. Beam's options that say how to reach an object store are"
            " passed through, after the versions: --s3_endpoint_url, … Exit status: 0 done, whatever differs; 1 one of"
            " the two is damaged; 2 a mistake, or no such version."
        ),
    )
    parser.add_argument(
        "versions",
        nargs="+",
        metavar="[DIRECTORY] A B",
        help="the folder of a data set and two of its versions or tags, LATEST among them; or the folders of two"
        " versions; local, gs://, s3://, az://",
    )
    parser.add_argument("--json", action="store_true", help="as one line of JSON")
    add_say_flags(parser)
    parser.add_argument("--debug", action="store_true", help="show the full trace of a failure")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    parser = diff_parser()
    args, rest = parser.parse_known_args(list(arguments))
    say_options(args)
    reach(parser, arguments, rest, *args.versions)
    try:
        old, new = map(_profile, _directories(args.versions))
    except OSError as error:
        raise UserError(f"{' '.join(args.versions)}: {error.strerror or error}") from None
    results = run_checks(new, old, CheckOptions().limits)
    if args.json or log.is_json():
        print(json.dumps(to_json(new, old, results)))
        return 0
    for line in lines(new, old, results):
        print(printable(line))
    return 0


def _directories(words: Sequence[str]) -> list[str]:
    """The folders of the two versions."""
    if len(words) == 2:
        named = naming.is_version(words[1]) or words[1] == naming.LATEST
        if named and not storage.exists(storage.join(words[1], naming.MANIFEST)):
            raise UserError(
                f"{' '.join(words)}: a folder and one version, which is compared with none; give a second, such as"
                f" {' '.join(words)} {naming.LATEST}"
            )
        return list(words)
    if len(words) != 3:
        raise UserError(f"expected a folder and two versions, or the folders of two versions; found {' '.join(words)}")
    directory, *versions = words
    return [storage.join(directory, find_version(storage.StorageFiles(), directory, name)[0]) for name in versions]


def _profile(directory: str) -> Profile:
    return Profile.of(open_dataset(directory, storage.StorageFiles()))


def lines(new: Profile, old: Profile, results: Sequence[CheckResult]) -> Iterator[str]:
    """What differs, a line each: all in one, the splits, then what the checks before publishing would say."""
    yield since(new, old)
    yield ""
    yield from _splits(new, old).split("\n")
    said = [result for result in results if result.severity in ("warn", "error")]
    unknown = sum(result.severity == "unknown" for result in results)
    if said:
        yield ""
    for result in said:
        where = f" in {result.split!r}" if result.split and repr(result.split) not in result.sentence else ""
        yield f"{result.severity}: {result.check}: {result.sentence}{where}"
    if unknown:
        yield f"{unknown} check{'' if unknown == 1 else 's'} cannot be made of what is on record; --json has them"


def _splits(new: Profile, old: Profile) -> str:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("split")
    for title in ("examples", old.version, new.version, "bytes", old.version, new.version):
        table.add_column("" if title in ("examples", "bytes") else title, justify="right")
    for split in dict.fromkeys([*old.splits, *new.splits]):
        counts = [f"{each.splits[split]:,}" if split in each.splits else "-" for each in (old, new)]
        sizes = [
            human_size(each.manifest.split(split).size_bytes) if split in each.splits else "-" for each in (old, new)
        ]
        table.add_row(split, "examples", *counts, "bytes", *sizes)
    return text_of(table)


def to_json(new: Profile, old: Profile, results: Sequence[CheckResult]) -> dict[str, Any]:
    """All of it as JSON has it: the two versions, what differs, and every check, those that found nothing too."""
    return {
        "old": {"version": old.version, "splits": old.splits},
        "new": {"version": new.version, "splits": new.splits},
        "since": since(new, old),
        "differences": [asdict(found) for found in differences(new, old)],
        "checks": [result.to_json() for result in results],
    }
