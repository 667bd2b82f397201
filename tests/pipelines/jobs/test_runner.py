"""Tests of pipelines/jobs/runner.py: what a run elsewhere needs, the runner that runs, and temporary directories."""

import os
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.portability.stager import Stager
from apache_beam.utils import retry

from shardmill.errors import UserError
from shardmill.pipelines.jobs import runner as runners
from shardmill.pipelines.jobs.outcome import delete_folder, delete_stale_folders
from tests.support.command import REPOSITORY, SOURCE, Process, Run, check_mistake, write_files
from tests.support.faults import in_child

RUNNER = ("--runner", "PortableRunner", "--environment_type", "LOOPBACK")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path / "in", {"a.csv": b"a,b\n1,2\n"})


def test_a_job_server_that_is_not_there(run: Run, folder: Path, tmp_path: Path) -> None:
    command = ("csv", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    with socket.socket() as probe:  # bound, but nobody listens
        probe.bind(("localhost", 0))
        endpoint = f"localhost:{probe.getsockname()[1]}"
        result = run(*command, *RUNNER, "--job_endpoint", endpoint)
    check_mistake(result, f"--job_endpoint {endpoint}: no job server answered within 5 seconds")
    needs = "--runner PortableRunner needs --job_endpoint, HOST:PORT of a job server"
    check_mistake(run(*command, *RUNNER), needs)
    check_mistake(run(*command, "--job_endpoint", endpoint), "--job_endpoint needs --runner PortableRunner")
    assert not (tmp_path / "out").exists()


def test_a_dry_run_asks_nobody(run: Run, folder: Path, tmp_path: Path) -> None:
    """As docs/clusters.md says."""
    command = ("csv", "--input", folder, "--output", tmp_path / "out", "--name", "n", "--dry_run")
    done = run(*command, *RUNNER, "--job_endpoint", "localhost:1", "--parallelism", 4)
    assert done.status == 0, done.err
    assert done.out.startswith("Dry run: nothing is written.")
    check_mistake(run(*command, "--runner", "DataflowRunner"), "is a path of this machine")  # and not: no --project


def test_what_dataflow_needs_is_said_before_a_store_is_asked(run: Run) -> None:
    """It was listed first, which takes two minutes where it is out of reach."""
    where = ("--input", "gs://bucket/photos", "--output", "gs://bucket/sets", "--name", "n")
    result = run("images", *where, "--runner", "DataflowRunner")
    check_mistake(result, "--runner DataflowRunner: no --project")


def test_what_beam_waits_for_has_no_stack(caplog: pytest.LogCaptureFixture) -> None:
    def refused() -> None:
        raise OSError("no credentials")

    with pytest.raises(OSError, match="no credentials"):
        retry.with_exponential_backoff(num_retries=1, initial_delay_secs=0.01)(refused)()
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.endswith("retrying refused because we caught exception: OSError: no credentials")


def test_a_server_that_is_no_job_server_and_waiting_longer() -> None:
    with socket.create_server(("localhost", 0)) as silent:  # takes connections, and says nothing
        endpoint = f"localhost:{silent.getsockname()[1]}"
        flags = [*RUNNER, "--job_endpoint", endpoint, "--job_server_timeout", "1"]
        with pytest.raises(UserError, match=f"--job_endpoint {endpoint}: no job server answered within 1 seconds"):
            runners.check_runner(PipelineOptions(flags))


@contextmanager
def job_server() -> Iterator[str]:
    """The address of a server that answers."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def test_a_job_server_that_answers_and_none_to_ask() -> None:
    with job_server() as endpoint:
        runners.check_runner(PipelineOptions([*RUNNER, "--job_endpoint", endpoint]))
    for flags in ([], [*RUNNER, "--job_endpoint", "embed"]):
        runners.check_job_server(PipelineOptions(flags))


def live_elsewhere(variables: dict[str, str]) -> None:
    """Give this process an environment in which Google's clients find nothing but what `variables` name."""
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "APPDATA"):
        os.environ.pop(name, None)
    os.environ.update(variables)


@pytest.mark.parametrize("key_file", [None, "no/such.json", "broken.json"])
def test_dataflow_without_credentials(folder: Path, tmp_path: Path, key_file: str | None) -> None:
    (tmp_path / "broken.json").write_text("{}")
    nowhere = {"HOME": str(tmp_path), "CLOUDSDK_CONFIG": str(tmp_path), "NO_GCE_CHECK": "true"}
    if key_file is not None:
        nowhere["GOOGLE_APPLICATION_CREDENTIALS"] = str(tmp_path / key_file)
    flags = ("--runner", "DataflowRunner", "--project", "p", "--region", "r", "--temp_location", "gs://b/t")
    arguments = ("csv", "--input", folder, "--output", "gs://b/out", "--name", "n", *flags)
    done = Process(tmp_path / "process", *arguments, before=partial(live_elsewhere, nowhere)).result()
    check_mistake(done, "--runner DataflowRunner: no credentials for Google's cloud (")
    assert "gcloud auth application-default login" in done.err


@pytest.mark.parametrize(
    "program",
    ["-m shardmill.pipelines.cli images", "-m shardmill verify none", "-c import\tshardmill.pipelines.commands.verify"],
)
def test_beam_without_googles_clients_says_nothing_of_them(tmp_path: Path, program: str) -> None:
    write_files(tmp_path, {"apitools/__init__.py": b"raise ImportError('as where it is not installed')"})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE)])}
    command = [sys.executable, "-X", "importtime", *program.split(" ")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, env=environment, timeout=300)
    lines = done.stderr.splitlines()
    imports = [line for line in lines if line.startswith("import time:")]
    assert "apache_beam" in {line.rpartition("|")[2].strip() for line in imports}
    assert not [line for line in lines if "apitools" in line and line not in imports]


@pytest.mark.parametrize("environment", ["EXTERNAL", "PROCESS", "DOCKER"])
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("csv", "--input", "in", "--output", "{whole}"), "--input in"),
        (("csv", "--input", "{whole}", "--output", "out/sets"), "--output out/sets"),
        (("images", "--manifest", "names.csv", "--output", "{whole}"), "--manifest names.csv"),
    ],
)
def test_paths_that_begin_in_the_launchers_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: str, words: tuple[str, ...], named: str
) -> None:
    """Workers that are processes of their own run in other folders."""
    monkeypatch.chdir(write_files(tmp_path, {"in/a.csv": b"a,b\n1,2\n", "names.csv": b"file_name\nin/a.csv\n"}))
    given = [word.format(whole=tmp_path / "whole") for word in words]
    with job_server() as endpoint:
        flags = ("--runner", "PortableRunner", "--job_endpoint", endpoint, "--environment_type", environment)
        result = run(*given, "--name", "n", *flags, "--environment_config", "host:1")
    check_mistake(result, f"{named} begins in the folder of this process, where workers of --environment_type")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["", "DirectRunner", "FnApiRunner", "DataflowRunner", "FlinkRunner", "PrismRunner"])
def test_local_runners_are_pinned(name: str) -> None:
    options = PipelineOptions(["--runner", name] if name else [])
    local = name in ("", "DirectRunner", "FnApiRunner")

    assert runners.is_local(options) is local
    assert (
        isinstance(runners.make_runner(options), fn_runner.FnApiRunner)
        if local
        else runners.make_runner(options) == name
    )


def test_multi_threading_is_refused_with_the_reason() -> None:
    sentence = r"multi_threading loses records without an error .*; use in_memory.* or multi_processing"
    with pytest.raises(UserError, match=sentence):
        runners.check_running_mode(PipelineOptions(["--direct_running_mode", "multi_threading"]))
    for mode in ([], ["in_memory"], ["multi_processing"], ["multi_threading", "--runner", "DataflowRunner"]):
        runners.check_running_mode(PipelineOptions(["--direct_running_mode", *mode] if mode else []))


def test_a_setup_file_may_be_named_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers install the package that Beam stages."""
    setup = b"from setuptools import setup\nsetup(name='p', version='1', py_modules=['m'])\n"
    monkeypatch.chdir(write_files(tmp_path / "project", {"setup.py": setup, "m.py": b"", "README": b""}))
    options = PipelineOptions(["--runner", "PortableRunner", "--setup_file", "setup.py"])
    runners.check_runner_options(options)
    (made := tmp_path / "made").mkdir()
    Stager.create_job_resources(options, str(made))
    (package,) = made.glob("*.tar.gz")
    with tarfile.open(package) as file:
        assert "p-1/m.py" in file.getnames()


def test_a_setup_file_that_is_not_there(tmp_path: Path) -> None:
    options = PipelineOptions(["--runner", "PortableRunner", "--setup_file", str(tmp_path / "setup.py")])
    with pytest.raises(UserError, match=r"^--setup_file .*setup\.py: no such file; expected that of shardmill's own"):
        runners.check_runner_options(options)


def test_the_next_run_clears_what_a_killed_one_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "shardmill-of-somebody").mkdir()

    def killed() -> None:
        with runners.scratch_folder("progress"):
            os._exit(9)

    assert in_child(killed) == 9
    (dead,) = tmp_path.glob("shardmill-progress-*")
    with runners.scratch_folder("progress") as mine:
        assert not dead.exists()
        with runners.scratch_folder("verify") as other:
            assert Path(mine).is_dir()
            assert Path(other).is_dir()
        assert Path(mine).is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["shardmill-of-somebody"]


def test_a_run_that_begins_keeps_its_folder_while_others_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def run_many() -> None:
        for _ in range(300):
            with runners.scratch_folder("progress") as mine:
                delete_stale_folders()
                assert os.path.exists(mine)

    with ThreadPoolExecutor(4) as pool:
        ended = [pool.submit(in_child, run_many) for _ in range(4)]
    assert [end.result() for end in ended] == [0, 0, 0, 0]


def test_a_signal_while_a_folder_is_deleted_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """shutil.rmtree closes the descriptor once more, if a signal comes just after it was closed."""
    (tmp_path / "scratch/below").mkdir(parents=True)

    def close(descriptor: int, close: Callable[[int], None] = os.close) -> None:
        close(descriptor)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "close", close)
    with pytest.raises(KeyboardInterrupt):
        delete_folder(str(tmp_path / "scratch"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ("--direct_running_mode", "multi_processing"),
            "--workers 2 contradicts --direct_running_mode multi_processing, in which --direct_num_workers sets the"
            " number of processes; drop one of them",
            id="processes-of-beam",
        ),
        pytest.param(
            ("--runner", "PrismRunner"),
            "--workers 2 is for the local runner; --runner PrismRunner has workers of its own",
            id="cluster",
        ),
    ],
)
def test_workers_are_of_the_local_runner(run: Run, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    source = write_files(tmp_path, {"a.csv": b"n\n1\n"}) / "a.csv"
    command = ("csv", "--input", source, "--output", tmp_path / "out", "--name", "n", *words)

    check_mistake(run(*command, "--workers", "2"), message)
    assert not (tmp_path / "out").exists()
