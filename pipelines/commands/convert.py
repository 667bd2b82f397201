"""`shardmill images`, `csv` and all others that convert: flags to a run."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from shardmill.pipelines.flags.options import EPILOG, Parser, beam_options
from shardmill.pipelines.flags.parser import add_flags
from shardmill.pipelines.flags.say import BuildSayOptions
from shardmill.pipelines.kinds.kind import Kind
from shardmill.pipelines.reports import log
from shardmill.printable import printable
from shardmill.transforms.options.declare import options_of
from shardmill.transforms.preprocessing.options import makes_graph
from shardmill.transforms.stores.clients import set_options

_SMALL_SHARD = 1_000_000  # bytes: below, opening files takes longer than reading them


def parser_of(kind: Kind) -> Parser:
    """The parser of the command of `kind`."""
    parser = Parser(prog=f"shardmill {kind.command}", description=kind.description, epilog=EPILOG)
    add_flags(parser, (*kind.options, *options_of(BuildSayOptions)))
    command = parser.add_argument_group("command")
    command.add_argument("--dry_run", action="store_true", help="say what would be read and written, and write nothing")
    command.add_argument(
        "--write_recipe",
        metavar="FILE",
        help="write these flags as a recipe for `shardmill rebuild`, and convert nothing",
    )
    command.add_argument("--debug", action="store_true", help="show the full trace of a failure")
    return parser


def small_shards(shard_size: int) -> str:
    """What must be said of a --shard_size that makes very many files."""
    return (
        f"--shard_size is {shard_size:,} bytes, a file for each; a number without a unit is bytes: give one, such as"
        " 100MiB; trainers read files of 100 to 200 MB fastest"
    )


def written(recipe: str, left: Sequence[str]) -> str:
    """What is said of a recipe that was written, without the flags `left`."""
    without = f"{' and '.join(left)} {'is' if len(left) == 1 else 'are'} left out, for each build is the next patch"
    said = f"wrote {recipe}; `shardmill rebuild {recipe} --dry_run` says what it would do"
    return printable(f"{said}; {without}" if left else said)


def main(kind: Kind, arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    parser = parser_of(kind)
    args, rest = parser.parse_known_args(list(arguments))
    values = vars(args)
    dry, recipe, _ = values.pop("dry_run"), values.pop("write_recipe"), values.pop("debug")
    how = BuildSayOptions(**{name: values.pop(name) for name in ("json", "log_format", "quiet") if name in values})
    with ExitStack() as stack:
        if not (dry or recipe or rest) and makes_graph(values):
            from shardmill.transforms.preprocessing.graph_process import begun_ahead

            stack.enter_context(begun_ahead())  # of all that is slow to import, Beam being the next
        return _convert(kind, parser, values, rest, how, recipe, dry)


def _convert(
    kind: Kind,
    parser: Parser,
    values: dict[str, Any],
    rest: Sequence[str],
    how: BuildSayOptions,
    recipe: str | None,
    dry: bool,
) -> int:
    kind.refuse(rest)
    kind.check_installed()
    options = beam_options(rest, parser)
    from shardmill.pipelines.running.dataflow import check_submission

    set_options(options)
    if not dry and recipe is None:
        check_submission(options)  # before a store is asked, which Dataflow's flags need not wait for
    config = kind.make_config(values)

    from shardmill.pipelines.commands.dry_run import dry_run
    from shardmill.pipelines.recipes.write import left_out, recipe_text, write_recipe
    from shardmill.pipelines.reports import summary
    from shardmill.pipelines.reports.builds import published_line
    from shardmill.pipelines.running.checks import check, check_input
    from shardmill.pipelines.running.memory import return_large_buffers, reuse_large_buffers
    from shardmill.pipelines.running.outcome import Interrupted, begin_record
    from shardmill.pipelines.running.recorded import run_recorded
    from shardmill.pipelines.running.runner import is_local, said_of_flags
    from shardmill.pipelines.running.signals import interrupt

    if recipe is not None:
        check_input(config)
        write_recipe(recipe, recipe_text(kind, values, rest))
        log.tell(written(recipe, left_out(values)))
        return 0
    check(config, options, asks=not dry)
    if (said := said_of_flags(rest, options)) is not None:
        log.warn(said)
    if config.shard_size is not None and config.shard_size < _SMALL_SHARD:
        log.warn(small_shards(config.shard_size))
    job = kind.make_job(config)
    if is_local(options):
        (reuse_large_buffers if job.reuses_buffers else return_large_buffers)()
    if dry:
        log.tell(dry_run(job, config.name, options))
        return 0
    try:
        built = run_recorded(kind.make_job, config, options, begin_record(config.name, config.version), how.quiet)
    except Interrupted as interrupted:
        log.say(f"interrupted; {interrupted}")
        if how.json and interrupted.record is not None:
            print(interrupted.record.said.to_json(), flush=True)
        interrupt(interrupted.__cause__)
    if how.json:
        print(built.record.said.to_json())
    if built.error is not None:
        raise built.error
    if built.record.status == "launched":
        log.say(built.record.reason, build=json.loads(built.record.said.to_json()))
    elif how.log_format == "json":
        log.say(published_line(built.record), build=json.loads(built.record.said.to_json()))
    elif built.published is not None and not (how.quiet or how.json):
        print(summary.summary(config, built.published.dataset, built.index))
        if built.record.since:
            print(f"\n{printable(built.record.since)}")
    return 0
