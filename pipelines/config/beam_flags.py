"""Parse the pipeline options of Beam and of its job servers."""

import argparse
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    SparkRunnerOptions,
    WorkerOptions,
    _BeamArgumentParser,
)

from shardmill.transforms.stores import patience  # noqa: F401
from shardmill.transforms.workers import memory_options  # noqa: F401

_CLUSTER_OPTIONS = (FlinkRunnerOptions, SparkRunnerOptions, WorkerOptions)
# Among these, what workers on the launcher's machine look at too
_COMMON_FLAGS = frozenset(
    {
        "--default_sdk_harness_log_level",
        "--sdk_harness_log_level_overrides",
        "--max_cache_memory_usage_mb",
        "--element_processing_timeout_minutes",
    }
)


def cluster_flags(rest: Sequence[str]) -> list[str]:
    """Return the flags in a command line that only Flink, Spark and Dataflow use, in order."""
    theirs = {flag for action in _parser(_CLUSTER_OPTIONS)._actions for flag in action.option_strings} - _COMMON_FLAGS
    return [flag for word in rest if (flag := word.partition("=")[0]) in theirs]


def beam_parser() -> argparse.ArgumentParser:
    """Return a parser of every option of Beam and of those that shardmill adds; Beam has no public way to it."""
    return _parser(tuple(PipelineOptions.__subclasses__()))


@cache
def _parser(views: tuple[type[PipelineOptions], ...]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _BeamArgumentParser(allow_abbrev=False)
    for view in views:
        view._add_argparse_args(parser)
    return parser


_ANSWER_TIMEOUT_S = 5  # waited for an answer
# Flink ends the workers as soon as no step has anything for them, and starts others for the next, seconds each.
_CACHE_FLAG = "--environment_cache_millis"
_CACHE_MILLIS = 60_000  # that workers stay


def is_portable(options: argparse.Namespace) -> bool:
    """Return True if Beam's options name a runner that uses a job server."""
    runner = (options.runner or "").rpartition(".")[2]
    return runner in ("FlinkRunner", "SparkRunner") or (runner == "PortableRunner" and options.job_endpoint is not None)


def server_flags(options: argparse.Namespace) -> frozenset[str] | None:
    """Return the flags that the job server at --job_endpoint knows, such as Flink's `--max_bundle_size`.

    None means that there is no server, or no answer, which is reported when the runner is checked.
    """
    if not options.job_endpoint or options.job_endpoint == "embed":
        return None
    import grpc  # late: local jobs need not spend the time
    from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

    with grpc.insecure_channel(options.job_endpoint) as channel:
        server = beam_job_api_pb2_grpc.JobServiceStub(channel)
        request = beam_job_api_pb2.DescribePipelineOptionsRequest()
        try:
            found = server.DescribePipelineOptions(request, timeout=_ANSWER_TIMEOUT_S, wait_for_ready=True)
        except grpc.RpcError:
            return None
    return frozenset(f"--{option.name}" for option in found.options)


def default_flags(rest: Sequence[str]) -> list[str]:
    """Return the flags to add to the arguments `rest` of a job on a cluster."""
    return [] if any(word.partition("=")[0] == _CACHE_FLAG for word in rest) else [f"{_CACHE_FLAG}={_CACHE_MILLIS}"]


View = TypeVar("View", bound=PipelineOptions)
_VIEWS = "_remembered_views"


class CachedOptions(PipelineOptions):
    """Beam's pipeline options with each view made once; since views share their values, it equals a new one.

    Building a graph requests hundreds of views, which took a third of a short job's time.
    """

    def view_as(self, cls: type[View]) -> View:
        views: dict[type[PipelineOptions], Any] = self.__dict__.setdefault(_VIEWS, {type(self): self})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]

    def __getstate__(self) -> dict[str, Any]:
        # Without cached views: Beam may give views of a copy other values, to leave out a credential.
        return {name: value for name, value in super().__getstate__().items() if name != _VIEWS}
