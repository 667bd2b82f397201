"""What the commands about the versions of a data set share: its folder, and how its store is reached."""

import argparse
import posixpath
from collections.abc import Sequence

from shardmill.errors import UserError
from shardmill.metadata import naming
from shardmill.pipelines.flags.options import Parser, beam_options, check_folder_first
from shardmill.pipelines.flags.say import add_say_flags, say_options
from shardmill.transforms.stores import storage


def parser_of(command: str, description: str) -> Parser:
    """The parser of a command whose first word is the folder of a data set."""
    parser = Parser(
        prog=f"shardmill {command}",
        description=description,
        epilog=(
            "Beam's options that say how to reach an object store are passed through, after the folder:"
            " --s3_endpoint_url, … Exit status: 0 done; 1 it could not be done; 2 a mistake in a flag, or no data set."
        ),
    )
    parser.add_argument("directory", help="of the data set: the folder of all its versions; local, gs://, s3://, az://")
    add_say_flags(parser)
    parser.add_argument("--debug", action="store_true", help="show the full trace of a failure")
    return parser


def reach(parser: Parser, arguments: Sequence[str], rest: Sequence[str], folder: str, *paths: str) -> None:
    """Let the stores of a folder, and of other paths, be reached as Beam's options say, whose import takes longer than
    to read what lies on a disk: where all are on one and there are none, nothing is imported.

    Args:
      parser: of the command.
      arguments: of it, of which `rest` are Beam's, and `folder` comes before these.

    Raises:
      UserError: a mistake in an option.
    """
    if not rest and all(map(storage.is_local, (folder, *paths))):
        return
    from apache_beam.options.pipeline_options import StandardOptions

    from shardmill.transforms.stores.clients import set_options

    options = beam_options(rest, parser)
    check_folder_first(arguments, folder, rest)
    if options.view_as(StandardOptions).runner is not None:
        command = parser.prog.rpartition(" ")[2]
        raise UserError(f"--runner has no meaning here: {command} reads the data set in this process")
    set_options(options)


def parse(parser: Parser, arguments: Sequence[str]) -> argparse.Namespace:
    """The arguments, `directory` without a slash at its end, and `how` to speak; its store can be reached then.

    Raises:
      UserError: a mistake in a flag, or the folder is that of a version.
    """
    args, rest = parser.parse_known_args(list(arguments))
    args.how = say_options(args)
    written, args.directory = args.directory, args.directory.rstrip("/") or "/"
    reach(parser, arguments, rest, written)
    above, last = posixpath.split(args.directory)
    if naming.is_version(last) and storage.exists(storage.join(args.directory, naming.MANIFEST)):
        raise UserError(f"{args.directory} is one version; give the folder of all of them, {above or '.'}")
    return args
