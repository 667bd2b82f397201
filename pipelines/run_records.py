"""`shardmill csv | jsonl | parquet | text | reshard`: flags to a run."""

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec

from pipelines.options import beam_options
from pipelines.records_config import Route
from pipelines.records_options import records_parser, to_config
from shardmill.errors import UserError
from shardmill.extras import install_hint
from transforms.object_store import set_options


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
        from pipelines import run_text_files

        return run_text_files.run(args, options)
    config = to_config(args, route)

    from pipelines import command
    from pipelines.dry_run_records import dry_run
    from pipelines.memory import reuse_large_buffers
    from pipelines.records import build_records

    command.check(config, options)
    if args.dry_run:
        print(dry_run(config, options))
    else:
        command.run(partial(build_records, config=config), config, options, reuse_large_buffers)
    return 0
