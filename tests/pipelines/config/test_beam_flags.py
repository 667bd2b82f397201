"""Beam's options: their parser, views of them that are made once, and what only a job server knows."""

import argparse
import copy
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from apache_beam.options.pipeline_options import (
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
    TypeOptions,
)
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from shardmill.errors import UserError
from shardmill.pipelines import cli
from shardmill.pipelines.config.beam_flags import CachedOptions, beam_parser, cluster_flags
from shardmill.pipelines.config.flags import beam_options
from shardmill.pipelines.jobs import launch


def test_it_knows_what_beam_takes_and_gives_back_the_rest() -> None:
    flags = ["--runner=FlinkRunner", "--direct_num_workers=2", "--region", "here", "--experiments=a", "--experiments=b"]
    found, rest = beam_parser().parse_known_args([*flags, "--s3_attempts=3", "--no_such_flag", "word"])

    assert rest == ["--no_such_flag", "word"]
    assert (found.runner, found.direct_num_workers, found.s3_attempts) == ("FlinkRunner", 2, 3)
    assert (found.region, found.experiments) == ("here", ["a", "b"])
    assert set(PipelineOptions([]).get_all_options()) <= set(vars(found))


def test_what_only_clusters_look_at() -> None:
    flags = ["--parallelism", "4", "--direct_num_workers=2", "--num_workers=3", "--max_cache_memory_usage_mb=9"]
    assert cluster_flags(flags) == ["--parallelism", "--num_workers"]


def test_a_view_is_made_once_and_shares_its_values() -> None:
    given = PipelineOptions(["--runner", "DirectRunner"])
    options = given.view_as(CachedOptions)
    view = options.view_as(StandardOptions)
    assert options.view_as(StandardOptions) is view
    assert options.view_as(CachedOptions) is options
    given.view_as(StandardOptions).runner = "PrismRunner"
    assert view.runner == "PrismRunner"
    view.streaming = True
    assert given.view_as(StandardOptions).streaming
    assert options.get_all_options() == given.get_all_options()


def test_a_copy_has_values_of_its_own_and_no_credential() -> None:
    options = PipelineOptions([], impersonate_service_account="somebody").view_as(CachedOptions)
    assert options.view_as(GoogleCloudOptions).impersonate_service_account == "somebody"
    assert b"somebody" not in pickle.dumps(options)
    made = copy.deepcopy(options)
    made.view_as(GoogleCloudOptions).project = "theirs"
    made.view_as(StandardOptions).streaming = True
    assert (made.get_all_options()["project"], made.get_all_options()["streaming"]) == ("theirs", True)
    assert not options.view_as(StandardOptions).streaming


def test_command_lines_and_pipelines_have_them(tmp_path: Path) -> None:
    for options in (
        beam_options([], argparse.ArgumentParser()),
        launch._make_pipeline(PipelineOptions([]), str(tmp_path)).options,
    ):
        assert options.view_as(TypeOptions) is options.view_as(TypeOptions)


OF_FLINK = ("number_of_execution_retries", "execution_retry_delay", "max_bundle_size", "parallelism")
PARSER = cli.find_command("images").parser()


class JobServer(beam_job_api_pb2_grpc.JobServiceServicer):
    """Says which options it has, some of those of Flink's."""

    def DescribePipelineOptions(self, request: Any, context: Any) -> Any:
        """Tell."""
        options = [beam_job_api_pb2.PipelineOptionDescriptor(name=name) for name in OF_FLINK]
        return beam_job_api_pb2.DescribePipelineOptionsResponse(options=options)


@pytest.fixture(scope="module")
def portable() -> Iterator[list[str]]:
    """Flags that name a job server."""
    server = grpc.server(ThreadPoolExecutor(2))
    beam_job_api_pb2_grpc.add_JobServiceServicer_to_server(JobServer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield ["--runner", "PortableRunner", "--job_endpoint", f"127.0.0.1:{port}"]
    server.stop(None).wait()


def told(options: Any, name: str) -> Any:
    """What the job server will be told of one of its options, as Beam itself finds it."""
    found = options.get_all_options(add_extra_args_fn=lambda parser: parser.add_argument(f"--{name}"))
    return found[name]


def test_an_option_of_the_job_server_reaches_it(portable: list[str]) -> None:
    for words in (["--max_bundle_size", "100"], ["--max_bundle_size=100"]):
        assert told(beam_options([*portable, *words], PARSER), "max_bundle_size") == "100"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--num_shard", "8"], "^unknown flag --num_shard; did you mean --num_shards\\?$"),
        (["--max_bundle_sise=8"], "^unknown flag --max_bundle_sise=8; did you mean --max_bundle_size\\?$"),
        (["--max_bundle_size", "8", "9"], "^unexpected '9': no flag is before it"),
        (["--qwertyuiop"], "^unknown flag --qwertyuiop$"),
    ],
)
def test_a_typo_is_none(portable: list[str], words: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        beam_options([*portable, *words], PARSER)


def test_a_job_server_that_is_still_to_be_started_is_not_asked() -> None:
    runner = ["--runner", "FlinkRunner"]
    assert told(beam_options([*runner, "--max_bundle_size", "100"], PARSER), "max_bundle_size") == "100"
    with pytest.raises(UserError, match=r"^unknown flag --num_shard; did you mean --num_shards\?$"):
        beam_options([*runner, "--num_shard", "8"], PARSER)


def test_workers_stay_where_nothing_else_is_said(portable: list[str]) -> None:
    for words, milliseconds in (
        (portable, "60000"),
        (["--runner", "FlinkRunner"], "60000"),
        ([*portable, "--environment_cache_millis=1"], "1"),
        ([*portable, "--environment_cache_millis", "2"], "2"),
        ([], 0),
    ):
        assert beam_options(words, PARSER).view_as(PortableOptions).environment_cache_millis == milliseconds
