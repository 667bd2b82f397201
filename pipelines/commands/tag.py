"""`shardmill tag`: a name for a version, by which it is opened and for which it is never deleted."""

from collections.abc import Sequence

from shardmill.errors import UserError
from shardmill.pipelines.commands.data_set import parse, parser_of
from shardmill.pipelines.flags.options import Parser
from shardmill.pipelines.reports import log
from shardmill.transforms.stores.error_text import of_output


def tag_parser() -> Parser:
    """The parser of `shardmill tag`."""
    parser = parser_of(
        "tag", "Give a version a name: load(…, version=TAG) opens it, and it is never deleted while it has one."
    )
    parser.add_argument("version", help="another tag, or LATEST; with --delete, the tag")
    parser.add_argument("tag", nargs="?", help="letters, digits, '_', '.' and '-'")
    parser.add_argument("--move", action="store_true", help="the tag may name another version by now")
    parser.add_argument("--delete", action="store_true", help="take the tag away; the version stays")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    args = parse(tag_parser(), arguments)
    if args.delete and (args.tag is not None or args.move):
        raise UserError("--delete takes the tag alone: shardmill tag DIRECTORY TAG --delete")
    if not args.delete and args.tag is None:
        raise UserError("give the version, then the tag: shardmill tag DIRECTORY VERSION TAG")

    from shardmill.pipelines.rebuilding.names import delete_tag, set_tag

    try:
        if args.delete:
            said = f"{args.version} no longer names {delete_tag(args.directory, args.version)}"
        else:
            before, version = set_tag(args.directory, args.version, args.tag, args.move)
            moved = f"{before} -> {version}" if before not in ("", version) else f"names {version}"
            said = f"{args.tag}: {moved}" if before not in ("", version) else f"{args.tag} {moved}"
    except OSError as error:
        raise of_output(f"{args.directory} cannot be read or written", error) from None
    if log.is_json() or not args.how.quiet:
        log.tell(f"{args.directory}: {said}")
    return 0
