"""Jobs submitted to Dataflow, as far as that is a launcher, a service and staged files: what was staged gives the bytes
that were promised, and nothing that a job does is left to its launcher."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.runners.dataflow import dataflow_runner

from shardmill.transforms.publishing import lease
from tests.support.buckets import Bucket, GoogleBucket, below, free_port, wait_for_port
from tests.support.command import PROGRESS, REPOSITORY, SOURCE, Process, Run, check_mistake, local_files
from tests.support.dataflow_server import REFUSED
from tests.support.golden_cases import CASES, DIGESTS, of_any_input
from tests.support.golden_inputs import write_inputs

pytestmark = pytest.mark.slow

GOLDEN = json.loads(DIGESTS.read_text())
LAUNCH = str(REPOSITORY / "deploy" / "dataflow" / "launch.py")
WAITING = ("--job_name", "left", "--labels", "wait=1")  # for the test to have it run


class Dataflow:
    """The service, and a bucket with the inputs of the golden digests."""

    def __init__(self, endpoint: str, bucket: Bucket) -> None:
        self.endpoint, self.bucket = endpoint, bucket

    def words(self, case: str, output: str, project: str = "a-project", *more: str) -> list[str]:
        """The command of a golden case, run by Dataflow."""
        command, flag, source, *flags = CASES[case]
        assert flag == "--input"
        places = ["--input", f"{self.bucket.url}/in/{source}", "--output", f"{self.bucket.url}/{output}"]
        google = ["--project", project, "--region", "europe-west1", "--temp_location", f"{self.bucket.url}/tmp"]
        runner = ["--runner", "DataflowRunner", "--dataflow_endpoint", self.endpoint, *google]
        return [command, *places, *flags, "--name", "d", "--max_reject_fraction", "0.9", *runner, *more]

    def ask(self, path: str, body: bytes | None = None) -> Any:
        asked = urllib.request.Request(f"{self.endpoint}{path}", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked) as answer:
            return json.load(answer)

    def published(self, output: str) -> dict[str, str]:
        """The digests of what was published, but for what names the input."""
        files = below(self.bucket.files(f"{output}/"), output)
        kept = {name: data for name, data in files.items() if "/builds/" not in name and not name.endswith("/LOCK")}
        return of_any_input({name: hashlib.sha256(data).hexdigest() for name, data in kept.items()})


def promised(case: str) -> dict[str, str]:
    return of_any_input(GOLDEN[case])


def as_parameters(words: list[str]) -> list[str]:
    """A command line as Google's launcher of Flex Templates calls the file of the template."""
    command, *flags = words
    return [f"--command={command}", *(f"{flag}={value}" for flag, value in zip(flags[::2], flags[1::2], strict=True))]


@pytest.fixture(autouse=True)
def asking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam asks every five seconds how a job is, twice at least."""
    often = SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(seconds / 50))
    monkeypatch.setattr(dataflow_runner, "time", often)


@pytest.fixture(scope="module")
def dataflow(gs_endpoint: tuple[str, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataflow]:
    folder = tmp_path_factory.mktemp("dataflow")
    write_inputs(folder / "in")
    bucket = GoogleBucket(f"dataflow-{os.getpid()}", *gs_endpoint)
    bucket.put_all("in", local_files(folder / "in"))
    port = free_port()
    program = [sys.executable, "-m", "tests.support.dataflow_server", str(port)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(program, cwd=REPOSITORY, stdout=log, stderr=log, env={**os.environ, **gs_endpoint[1]})
    try:
        wait_for_port(port, server, folder / "log")
        yield Dataflow(f"http://localhost:{port}", bucket)
    finally:
        server.terminate()
        server.wait(10)


@pytest.mark.parametrize("case", ["images-splits", "csv-label", "text", "reshard"])
def test_what_was_staged_gives_the_bytes_that_were_promised(dataflow: Dataflow, run: Run, case: str) -> None:
    result = run(*dataflow.words(case, f"out/{case}"))
    assert result.status == 0, result.err
    assert "submitted to Dataflow as job-" in result.err
    assert dataflow.published(f"out/{case}") == promised(case)


def test_a_template_is_written_and_run_later(dataflow: Dataflow, run: Run) -> None:
    """As a Flex Template's launcher does it; the service creates the job that it finds in the file."""
    template = f"{dataflow.bucket.url}/tmp/template.json"
    options = ("--num_workers", "3", "--sdk_container_image", "a/image:1", "--job_name", "flowers")
    words = dataflow.words("csv", "launched", "a-project", "--template_location", template, *options)
    directory = f"{dataflow.bucket.url}/launched/d/1.0.0"
    before = len(dataflow.ask("/jobs"))
    program = [sys.executable, LAUNCH, *as_parameters(words)]
    here = {**os.environ, "PYTHONPATH": str(SOURCE)}
    launched = subprocess.run(program, cwd=REPOSITORY, env=here, capture_output=True, text=True)
    said = [json.loads(line) for line in launched.stderr.splitlines() if line.startswith("{")]
    assert launched.returncode == 0, launched.stderr
    assert f"the job was written to {template}; that job alone writes {directory}" in said[-1]["message"]
    assert said[-1]["build"]["status"] == "launched"
    assert len(dataflow.ask("/jobs")) == before
    assert dataflow.bucket.names("launched/") == ["launched/d/1.0.0/LOCK"]
    owner = lease.read_holder(directory)
    assert owner is not None
    assert (owner.detached, owner.seconds) == (True, lease.DETACHED_LEASE_SECONDS)
    result = run(*words)
    assert result.status == 4
    assert f"{directory} is being built by" in result.err

    job = dataflow.bucket.files("tmp/template.json")["tmp/template.json"]
    (workers,) = json.loads(job)["environment"]["workerPools"]
    assert (json.loads(job)["name"], workers["numWorkers"]) == ("flowers", 3)
    assert workers["workerHarnessContainerImage"] == "a/image:1"
    wait = json.dumps({**json.loads(job), "labels": {"wait": "1"}}).encode()
    created = dataflow.ask("/v1b3/projects/a-project/locations/europe-west1/jobs", wait)
    assert dataflow.ask(f"/run?job={created['id']}")["currentState"] == "JOB_STATE_DONE"
    assert dataflow.published("launched") == promised("csv")
    record = json.loads(dataflow.bucket.files("launched/d/builds/")["launched/d/builds/1.0.0.json"])
    assert (record["status"], record["splits"]) == ("published", {"train": 200})
    assert not [name for name in dataflow.bucket.names("launched/") if "beam-temp" in name]


def test_a_job_publishes_when_its_launcher_is_gone(dataflow: Dataflow, tmp_path: Path) -> None:
    launcher = Process(tmp_path / "launcher", *dataflow.words("csv", "left", "a-project", *WAITING))
    while not (jobs := [job for job in dataflow.ask("/jobs") if job["name"] == "left"]):
        assert launcher.is_alive(), launcher.result()
        time.sleep(0.1)
    launcher.send_signal(signal.SIGKILL)
    launcher.result()
    assert lease.is_maybe_building(f"{dataflow.bucket.url}/left/d/1.0.0")
    assert dataflow.ask(f"/run?job={jobs[0]['id']}")["currentState"] == "JOB_STATE_DONE"
    assert dataflow.published("left") == promised("csv")


def test_what_a_worker_finds_ends_the_job_with_its_sentence(dataflow: Dataflow, run: Run) -> None:
    result = run(*dataflow.words("csv", "mistaken", "a-project", "--label", "no_such"))
    assert result.status == 2
    assert "no_such" in result.err.splitlines()[-1]
    assert dataflow.bucket.names("mistaken/") == []


def test_a_refused_submission(dataflow: Dataflow, run: Run) -> None:
    result = run(*dataflow.words("csv", "refused", REFUSED))
    check_mistake(
        result._replace(err=PROGRESS.sub("", result.err)),
        f"Dataflow refused the job in --project {REFUSED} --region europe-west1 with status 403: The caller has no"
        " permission dataflow.jobs.create",
    )
    assert dataflow.bucket.names("refused/") == []


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--project", "--runner DataflowRunner: no --project; expected the id of the project"),
        ("--region", "--runner DataflowRunner: no --region; expected one such as --region europe-west1"),
        ("--temp_location", "--runner DataflowRunner: no --temp_location; expected a folder of a bucket"),
    ],
)
def test_what_a_submission_lacks(
    dataflow: Dataflow, run: Run, monkeypatch: pytest.MonkeyPatch, flag: str, words: str
) -> None:
    monkeypatch.delenv("CLOUDSDK_COMPUTE_REGION", raising=False)
    given = dataflow.words("csv", "lacking")
    place = given.index(flag)
    check_mistake(run(*given[:place], *given[place + 2 :]), words)
    assert dataflow.bucket.names("lacking/") == []


@pytest.mark.parametrize("flag", ["--input", "--output"])
def test_paths_that_only_the_launcher_has(dataflow: Dataflow, run: Run, tmp_path: Path, flag: str) -> None:
    given = dataflow.words("csv", "local")
    given[given.index(flag) + 1] = str(tmp_path)
    check_mistake(run(*given), f"{flag} {tmp_path} is a path of this machine, which Dataflow's workers cannot reach")
    assert not list(tmp_path.iterdir())
