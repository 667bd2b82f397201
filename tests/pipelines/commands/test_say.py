"""Every command speaks as it is told to: `--log_format json`, `--json` and `--quiet`, and long notices."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from shardmill.metadata.versions import BuildRecord
from shardmill.pipelines import cli
from shardmill.pipelines.jobs.registry import KINDS, entries
from tests.support.command import Result, Run, check_mistake, write_files

CALLS: dict[str, list[str]] = {
    **{kind: [kind, "--input", "in.csv", "--output", "sets", "--name", kind, "--dry_run"] for kind in ("csv", "text")},
    "rebuild": ["rebuild", "rows.yaml", "--dry_run"],
    "inspect": ["inspect", "n"],
    "sample": ["sample", "text"],
    "verify": ["verify", "n"],
    "index": ["index", "n"],
    "versions": ["versions", "n"],
    "report": ["report", "n"],
    "diff": ["diff", "n", "1.0.0", "1.0.1"],
    "retain": ["retain", "n"],
    "rollback": ["rollback", "n", "1.0.0"],
    "tag": ["tag", "n", "1.0.0", "good"],
    "accept": ["accept", "n", "1.0.2", "--reason", "why"],
}
OTHERS = set(entries()) - {*KINDS, "completion", "selftest", "view"}  # `view` serves its page until it is ended
CONFIRMATIONS = ["verify", "index", "retain", "rollback", "tag", "report", "accept"]  # others print a result


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions of `n`, a third that is kept as if it had failed, the table that they are made of, and a recipe."""
    folder = tmp_path_factory.mktemp("made")
    text = "name: rows\noutput: sets\ncsv:\n  input: in.csv\n"
    write_files(folder, {"in.csv": b"a,b\n1,2\n3,4\n", "rows.yaml": text.encode()})
    for version in ("1.0.0", "1.0.1", "1.0.2"):
        flags = {"input": folder / "in.csv", "output": folder, "name": "n", "version": version}
        assert cli.main(["csv", "--quiet", *(f"--{flag}={value}" for flag, value in flags.items())]) == 0
    (folder / "n/failed").mkdir()
    shutil.move(folder / "n/1.0.2", folder / "n/failed/1.0.2")
    (folder / "n/failed/1.0.2/_SUCCESS").unlink()
    (folder / "n/LATEST").write_text("1.0.1\n")
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that, in which a test runs."""
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def objects(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def said(result: Result) -> list[Any]:
    """What is on both, if all of it is JSON; each line of the log has what collectors of logs read."""
    lines = objects(result.err)
    assert all({"severity", "message", "time"} <= line.keys() for line in lines)
    return [*objects(result.out), *lines]


def test_each_command_is_called_here() -> None:
    assert set(CALLS) - set(KINDS) == OTHERS


@pytest.mark.parametrize("command", CALLS)
def test_all_that_is_said_is_json(run: Run, here: Path, command: str) -> None:
    result = run(*CALLS[command], "--log_format", "json")

    assert result.status == 0
    assert said(result)


@pytest.mark.parametrize("command", [*KINDS, *sorted(OTHERS)])
def test_mistakes_are_json(run: Run, here: Path, command: str) -> None:
    for mistake in ([], ["--no_such_flag"], ["no such folder", "1.0.0", "x", "--no_such_flag"]):
        result = run(command, *mistake, "--log_format=json")

        assert result.status == 2
        assert [line["severity"] for line in said(result)] == ["ERROR"]
    source = ["--url=sqlite:///in.db", "--query=SELECT 1"] if command == "sql" else ["--input", "in.csv"]
    words = [command, *source, "--output", "sets", "--name", "rows"]
    result = run(*CALLS.get(command, words), "--log_format", "xml")
    assert (result.status, result.err) == (2, "shardmill: error: --log_format xml: expected one of text, json\n")


@pytest.mark.parametrize("command", CONFIRMATIONS)
def test_quiet_confirms_nothing(run: Run, here: Path, command: str) -> None:
    assert run(*CALLS[command], "--quiet") == (0, "", "")


@pytest.mark.parametrize("command", ["inspect", "versions", "diff"])
def test_what_was_asked_for_is_printed_all_the_same(run: Run, here: Path, command: str) -> None:
    assert run(*CALLS[command], "--quiet").out == run(*CALLS[command]).out != ""
    assert objects(run(*CALLS[command], "--log_format", "json").out) == objects(run(*CALLS[command], "--json").out)


def test_faults_and_an_interrupted_publication_are_lines_of_the_log(run: Run, here: Path) -> None:
    (shard, *_) = (here / "n/1.0.1").glob("*tfrecord*")
    shard.write_bytes(shard.read_bytes()[:-1])
    result = run("verify", "n", "--log_format", "json")

    assert (result.status, result.out) == (1, "")
    lines = said(result)
    assert {line["severity"] for line in lines} == {"ERROR"}
    assert shard.name in {line.get("file") for line in lines}

    write_files(here, {"n/1.0.2/_PUBLISHING": b""})
    warning = said(run("verify", "n", "--log_format", "json"))[0]
    assert warning["severity"] == "WARNING"
    assert "n/1.0.2 is not verified: its job was interrupted" in warning["message"]


@pytest.mark.parametrize("command", ["inspect", "report", "diff", "versions", "rollback", "tag"])
def test_a_runner_is_refused_where_nothing_runs(run: Run, here: Path, command: str) -> None:
    message = f"--runner has no meaning here: {command} reads the data set in this process"
    check_mistake(run(*CALLS[command], "--runner", "DirectRunner"), message)


@pytest.fixture
def flags(tmp_path: Path) -> list[object]:
    write_files(tmp_path, {"a.csv": b"a,b\n1,2\n3,4\n"})
    return ["csv", "--input", tmp_path / "a.csv", "--output", tmp_path / "sets", "--name", "rows"]


def test_the_record_of_a_build_is_written_and_printed(run: Run, tmp_path: Path, flags: list[object]) -> None:
    """That of a failure too, and that of what stands stays."""
    builds = tmp_path / "sets/rows/builds"
    result = run(*flags, "--json")
    record, before = BuildRecord.from_json(result.out, "stdout"), (builds / "1.0.0.json").read_text()
    assert result.status == 0
    assert (record.name, record.version, record.status, record.splits) == ("rows", "1.0.0", "published", {"train": 2})
    assert BuildRecord.from_json(before, "file").page_checks
    assert BuildRecord.from_json(before, "file").without_page_checks == record

    write_files(tmp_path, {"a.csv": b'a,b\n1,"2"3\n'})
    result = run(*flags, "--overwrite", "--json")
    assert result.status == 1
    assert BuildRecord.from_json(result.out, "stdout").status == "failed"
    assert (builds / "1.0.0.json").read_text() == before
    failed = BuildRecord.from_json((builds / "1.0.0.failed.json").read_text(), "file")
    assert failed == BuildRecord.from_json(result.out, "stdout")
    assert result.err == f"shardmill: error: {failed.reason}\n"


def test_a_build_that_warns(run: Run, flags: list[object]) -> None:
    result = run(*flags, "--log_format", "json", "--shard_size", "100")

    warning, published = (json.loads(line) for line in result.err.splitlines())
    assert (result.out, warning["severity"], published["severity"]) == ("", "WARNING", "INFO")
    assert warning["message"].startswith("--shard_size is 100 bytes")
    assert published["message"].startswith("rows 1.0.0 is published: 2 in train; ")
    assert published["build"]["status"] == "published"

    quiet = run(*flags, "--quiet", "--shard_size", "100", "--overwrite")
    assert (quiet.status, quiet.out) == (0, "")
    assert quiet.err.startswith("shardmill: warning: --shard_size is 100 bytes")
    assert quiet.err.count("\n") == 1
