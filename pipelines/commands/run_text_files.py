"""`shardmill text --record file`: flags to a run."""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.commands import convert as command
from pipelines.commands.dry_run_files import dry_run
from pipelines.flags.options import common_values
from pipelines.graphs.files import FileRoute, build_files
from pipelines.kinds.text_files_config import TextFilesConfig
from shardmill.errors import UserError
from shardmill.features import Features
from transforms.files.texts import TextFileEncoder, text_features
from transforms.inputs.files import ListFiles
from transforms.inputs.summary import InputSummary
from transforms.layout.files import Layout
from transforms.statistics.files import SplitStats


def run(args: argparse.Namespace, options: PipelineOptions) -> int:
    """Run the command; returns its exit status."""
    config = TextFilesConfig(**_values(args))
    assert config.input is not None
    route = FileRoute(
        ListFiles(config.input, config.kind, config.folders),
        TextFileEncoder(config.root, config.encoding, config.renames),
        _describe,
    )
    command.check(config, options)
    if args.dry_run:
        print(dry_run(config, options, route))
    else:
        command.run(partial(build_files, config=config, route=route), config, options)
    return 0


def _values(args: argparse.Namespace) -> dict[str, Any]:
    values = common_values(args)
    values.pop("record")
    values.pop("block_size")
    if values.pop("line_numbers"):
        raise UserError("--line_numbers needs --record line: a file has no line")
    return values


def _describe(summary: InputSummary, layout: Layout, _: Sequence[SplitStats]) -> tuple[Features, Sequence[str]]:
    return text_features(layout), ()
