"""Every command speaks as it is told to: `--log_format json` makes all JSON, `--quiet` leaves out what is well."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from shardmill.pipelines import cli
from shardmill.pipelines.jobs.registry import KINDS
from tests.support.command import Result, Run, write_files

CALLS: dict[str, list[str]] = {
    **{kind: [kind, "--input", "in.csv", "--output", "sets", "--name", kind, "--dry_run"] for kind in ("csv", "text")},
    "rebuild": ["rebuild", "rows.yaml", "--dry_run"],
    "inspect": ["inspect", "n"],
    "verify": ["verify", "n"],
    "versions": ["versions", "n"],
    "report": ["report", "n"],
    "diff": ["diff", "n", "1.0.0", "1.0.1"],
    "retain": ["retain", "n"],
    "rollback": ["rollback", "n", "1.0.0"],
    "tag": ["tag", "n", "1.0.0", "good"],
    "accept": ["accept", "n", "1.0.2", "--reason", "why"],
}
CONFIRMATIONS = ("verify", "retain", "rollback", "tag", "report", "accept")  # the others print what they were asked for


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
    assert set(cli._COMMANDS) == set(CALLS) - set(KINDS)


@pytest.mark.parametrize("command", CALLS)
def test_all_that_is_said_is_json(run: Run, here: Path, command: str) -> None:
    result = run(*CALLS[command], "--log_format", "json")

    assert result.status == 0
    assert said(result)


@pytest.mark.parametrize("command", [*KINDS, *cli._COMMANDS])
def test_mistakes_are_json(run: Run, here: Path, command: str) -> None:
    for mistake in ([], ["--no_such_flag"], ["no such folder", "1.0.0", "x", "--no_such_flag"]):
        result = run(command, *mistake, "--log_format=json")

        assert result.status == 2
        assert [line["severity"] for line in said(result)] == ["ERROR"]


@pytest.mark.parametrize("command", [*KINDS, *cli._COMMANDS])
def test_another_format_is_a_mistake(run: Run, here: Path, command: str) -> None:
    result = run(*CALLS.get(command, [command, *CALLS["csv"][1:]]), "--log_format", "xml")

    assert (result.status, result.err) == (2, "shardmill: error: --log_format xml: expected one of text, json\n")


@pytest.mark.parametrize("command", CONFIRMATIONS)
def test_quiet_confirms_nothing(run: Run, here: Path, command: str) -> None:
    assert run(*CALLS[command], "--quiet") == (0, "", "")


@pytest.mark.parametrize("command", ["inspect", "versions", "diff"])
def test_what_was_asked_for_is_printed_all_the_same(run: Run, here: Path, command: str) -> None:
    assert run(*CALLS[command], "--quiet").out == run(*CALLS[command]).out != ""
    assert objects(run(*CALLS[command], "--log_format", "json").out) == objects(run(*CALLS[command], "--json").out)


def test_faults_are_lines_of_the_log(run: Run, here: Path) -> None:
    (shard, *_) = (here / "n/1.0.1").glob("*tfrecord*")
    shard.write_bytes(shard.read_bytes()[:-1])
    (here / "n/LATEST").write_text("1.0.1\n")
    result = run("verify", "n", "--log_format", "json")

    assert (result.status, result.out) == (1, "")
    lines = said(result)
    assert {line["severity"] for line in lines} == {"ERROR"}
    assert shard.name in {line.get("file") for line in lines}


def test_an_interrupted_publication_is_told_in_json(run: Run, here: Path) -> None:
    write_files(here, {"n/1.0.2/_PUBLISHING": b""})
    lines = said(run("verify", "n", "--log_format", "json"))

    assert lines[0]["severity"] == "WARNING"
    assert "n/1.0.2 is not verified: its job was interrupted" in lines[0]["message"]
