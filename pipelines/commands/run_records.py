"""`shardmill csv | jsonl | parquet | text | reshard`: flags to a run."""

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec

from pipelines.flags.options import beam_options
from pipelines.kinds.records_config import Route
from pipelines.kinds.records_options import records_parser, to_config
from shardmill.errors import UserError
from shardmill.extras import install_hint
from transforms.stores.clients import set_options


def main(route: Route, arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    parser = records_parser(route)
    args, rest = parser.parse_known_args(list(arguments))
    if route == "lines" and any(word.partition("=")[0] == "--label" for word in rest):  # which is a flag of Beam's, too
        raise UserError("--label: text has no columns; the label of a text is the folder of its file")
    if route == "tfrecords" and find_spec("tfx_bsl") is None:
        raise UserError(f"reshard decodes Examples with tfx-bsl; {install_hint('reshard')}")
    options = beam_options(rest, parser)
    set_options(options)
    if route == "lines" and args.record == "file":
        from pipelines.commands import run_text_files

        return run_text_files.run(args, options)
    config = to_config(args, route)

    from pipelines.commands import convert as command
    from pipelines.commands.dry_run_records import dry_run
    from pipelines.graphs.records import build_records
    from pipelines.running.memory import reuse_large_buffers

    command.check(config, options)
    if args.dry_run:
        print(dry_run(config, options))
    else:
        command.run(partial(build_records, config=config), config, options, reuse_large_buffers)
    return 0
