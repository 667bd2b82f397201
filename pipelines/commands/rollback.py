"""`shardmill rollback`: LATEST names an older version again."""

from collections.abc import Sequence

from shardmill.pipelines.commands.data_set import parse, parser_of
from shardmill.pipelines.flags.options import Parser
from shardmill.pipelines.reports import log
from shardmill.transforms.stores.error_text import of_output


def rollback_parser() -> Parser:
    """The parser of `shardmill rollback`."""
    parser = parser_of(
        "rollback",
        "Let LATEST name another version: what readers open from now on. Nothing is deleted, and a rebuild over the"
        " same input does not undo it.",
    )
    parser.add_argument(
        "version", nargs="?", help="or a tag (default: the newest that is older than the one that LATEST names)"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    args = parse(rollback_parser(), arguments)

    from shardmill.pipelines.rebuilding.names import rollback
    from shardmill.pipelines.rebuilding.retain import builder_of

    try:
        before, version = rollback(args.directory, args.version)
        builder = builder_of(args.directory)
    except OSError as error:
        raise of_output(f"{args.directory} cannot be read or written", error) from None
    said = f"LATEST: {before or 'none'} -> {version}" if before != version else f"LATEST names {version} already"
    if log.is_json() or not args.how.quiet:
        log.tell(f"{args.directory}: {said}")
    if builder:
        log.warn(f"{builder}: once it is published LATEST names it, if it is newer than {version}")
    return 0
