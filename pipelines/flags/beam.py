"""The parser of all options of Beam, which has no public way to it: what it does not know, `PipelineOptions` only warns
of."""

import argparse
from collections.abc import Sequence
from functools import cache

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    SparkRunnerOptions,
    WorkerOptions,
    _BeamArgumentParser,
)

from shardmill.transforms.stores import patience, s3_retries  # noqa: F401  # which add options to those of Beam
from shardmill.transforms.workers import memory_options  # noqa: F401  # likewise

_OF_CLUSTERS = (FlinkRunnerOptions, SparkRunnerOptions, WorkerOptions)
# Among these, what workers on the launcher's machine look at too
_OF_ALL = frozenset(
    {
        "--default_sdk_harness_log_level",
        "--sdk_harness_log_level_overrides",
        "--max_cache_memory_usage_mb",
        "--element_processing_timeout_minutes",
    }
)


def flags_of_clusters(rest: Sequence[str]) -> list[str]:
    """The flags in a command line that only Flink, Spark and Dataflow look at, in their order."""
    theirs = {flag for action in _parser(_OF_CLUSTERS)._actions for flag in action.option_strings} - _OF_ALL
    return [flag for word in rest if (flag := word.partition("=")[0]) in theirs]


def beam_parser() -> argparse.ArgumentParser:
    """A parser that knows every option of Beam, and those that were added to them."""
    return _parser(tuple(PipelineOptions.__subclasses__()))


@cache
def _parser(views: tuple[type[PipelineOptions], ...]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _BeamArgumentParser(allow_abbrev=False)
    for view in views:
        view._add_argparse_args(parser)
    return parser
