"""The runner that runs, pinned."""

import tarfile
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.portability.stager import Stager

from shardmill.errors import UserError
from shardmill.pipelines.jobs.runner import check_runner_options, check_running_mode, is_local, make_runner
from tests.support.command import write_files


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


def test_a_setup_file_may_be_named_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Beam makes of it is what workers install."""
    setup = b"from setuptools import setup\nsetup(name='p', version='1', py_modules=['m'])\n"
    monkeypatch.chdir(write_files(tmp_path / "project", {"setup.py": setup, "m.py": b"", "README": b""}))
    options = PipelineOptions(["--runner", "PortableRunner", "--setup_file", "setup.py"])
    check_runner_options(options)
    (made := tmp_path / "made").mkdir()
    Stager.create_job_resources(options, str(made))
    (package,) = made.glob("*.tar.gz")
    with tarfile.open(package) as file:
        assert "p-1/m.py" in file.getnames()


def test_a_setup_file_that_is_not_there(tmp_path: Path) -> None:
    options = PipelineOptions(["--runner", "PortableRunner", "--setup_file", str(tmp_path / "setup.py")])
    with pytest.raises(UserError, match=r"^--setup_file .*setup\.py: no such file; expected that of shardmill's own"):
        check_runner_options(options)
