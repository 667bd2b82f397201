"""`shardmill images`: flags to a run."""

from collections.abc import Sequence
from functools import partial

from pipelines.flags.options import beam_options
from pipelines.kinds.images_options import images_parser, to_config
from transforms.stores.clients import set_options


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    parser = images_parser()
    args, rest = parser.parse_known_args(list(arguments))
    options = beam_options(rest, parser)
    set_options(options)
    config = to_config(args)

    from pipelines.commands import convert as command
    from pipelines.commands.dry_run_files import dry_run
    from pipelines.graphs.files import build_files
    from pipelines.kinds.images import images_route

    command.check(config, options)
    route = images_route(config)
    if args.dry_run:
        print(dry_run(config, options, route))
    else:
        command.run(partial(build_files, config=config, route=route), config, options)
    return 0
