"""The runner that runs, pinned."""

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner

from pipelines.running.runner import check_running_mode, is_local, make_runner
from shardmill.errors import UserError


@pytest.mark.parametrize(
    ("flags", "local"),
    [
        ([], True),
        (["--runner", "DirectRunner"], True),
        (["--runner", "FnApiRunner"], True),
        (["--runner", "DataflowRunner"], False),
        (["--runner", "FlinkRunner"], False),
        (["--runner", "PrismRunner"], False),
    ],
)
def test_local_runners_are_pinned(flags: list[str], local: bool) -> None:
    options = PipelineOptions(flags)
    runner = make_runner(options)

    assert is_local(options) is local
    assert isinstance(runner, fn_runner.FnApiRunner) if local else runner == flags[1]


def test_multi_threading_is_refused_with_the_reason() -> None:
    with pytest.raises(
        UserError, match=r"multi_threading loses records without an error .*; use in_memory.* or multi_processing"
    ):
        check_running_mode(PipelineOptions(["--direct_running_mode", "multi_threading"]))


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--direct_running_mode", "in_memory"],
        ["--direct_running_mode", "multi_processing"],
        ["--runner", "DataflowRunner", "--direct_running_mode", "multi_threading"],  # not the local runner's
    ],
)
def test_other_modes_are_allowed(flags: list[str]) -> None:
    check_running_mode(PipelineOptions(flags))
