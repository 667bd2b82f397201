"""`shardmill images`, `csv` and all others that convert: flags to a run."""

import sys
from collections.abc import Sequence

from pipelines.flags.options import EPILOG, Parser, beam_options
from pipelines.flags.parser import add_flags
from pipelines.kinds.kind import Kind
from transforms.stores.clients import set_options

_SMALL_SHARD = 1_000_000  # bytes: below, opening files takes longer than reading them


def parser_of(kind: Kind) -> Parser:
    """The parser of the command of `kind`."""
    parser = Parser(prog=f"shardmill {kind.command}", description=kind.description, epilog=EPILOG)
    add_flags(parser, kind.options)
    command = parser.add_argument_group("command")
    command.add_argument("--dry_run", action="store_true", help="say what would be read and written, and write nothing")
    command.add_argument("--debug", action="store_true", help="show the full trace of a failure")
    return parser


def small_shards(shard_size: int) -> str:
    """What must be said of a --shard_size that makes very many files."""
    return (
        f"--shard_size is {shard_size:,} bytes, a file for each; a number without a unit is bytes: give one, such as"
        " 100MiB; trainers read files of 100 to 200 MB fastest"
    )


def main(kind: Kind, arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    parser = parser_of(kind)
    args, rest = parser.parse_known_args(list(arguments))
    values = vars(args)
    dry, _ = values.pop("dry_run"), values.pop("debug")
    kind.refuse(rest)
    kind.check_installed()
    options = beam_options(rest, parser)
    set_options(options)
    config = kind.make_config(values)

    from pipelines.commands.dry_run import dry_run
    from pipelines.reports import summary
    from pipelines.running import launch
    from pipelines.running.checks import check
    from pipelines.running.convert import Interrupted, run
    from pipelines.running.memory import return_large_buffers, reuse_large_buffers
    from pipelines.running.runner import is_local

    check(config, options)
    if config.shard_size is not None and config.shard_size < _SMALL_SHARD:
        print(f"shardmill: warning: {small_shards(config.shard_size)}", file=sys.stderr)
    job = kind.make_job(config)
    if is_local(options):
        (reuse_large_buffers if job.reuses_buffers else return_large_buffers)()
    if dry:
        print(dry_run(job, config.name, options))
        return 0
    try:
        run(job, config, options)
    except Interrupted as interrupted:
        print(f"shardmill: interrupted; {interrupted}", file=sys.stderr)
        launch.interrupt(interrupted.__cause__)
    print(summary.summary(config))
    return 0
