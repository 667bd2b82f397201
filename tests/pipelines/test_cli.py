"""The command line itself, before any command: what happens where nobody reads what it says."""

import os
import re
import subprocess
import sys

import pytest

import shardmill
from shardmill.pipelines import cli
from shardmill.pipelines.jobs.registry import KINDS


@pytest.mark.parametrize("words", ["", "--help", "--version", "csv --help", "inspect --help", "completion zsh"])
def test_nobody_reads(words: str) -> None:
    """Output to a pipe without a reader, such as `shardmill --help | head -1`, is no error."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "shardmill", *words.split()]
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE)
    finally:
        os.close(writer)

    assert (done.returncode, done.stderr) == (0, b"")


def test_every_command_has_a_parser() -> None:
    assert [parser.prog.split()[1] for parser in cli.parsers().values()] == [*cli.parsers()]
    assert {*KINDS, "verify", "rebuild", "diff", "accept"} < cli.parsers().keys()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == cli.main(["-V"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert first.startswith(f"shardmill {shardmill.__version__}")


def test_help_lists_every_command_in_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    lines = re.findall(r"^  (\w+) {2,}\w.{10,90}$", text, re.MULTILINE)
    assert lines == [*cli.parsers()]
    assert len(re.findall("^[A-Z].*:$", text, re.MULTILINE)) == 4


def test_help_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["help", "verify"], ["verify", "--help"]):
        with pytest.raises(SystemExit):
            cli.main(words)
    out = capsys.readouterr().out
    assert out == out[: len(out) // 2] * 2
    assert out.startswith("usage: shardmill verify DIRECTORY [options]")


@pytest.mark.parametrize("words", ["--help", "--version", "csv --help", "completion bash"])
def test_a_full_disk(words: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "shardmill", *words.split()], stdout=full, stderr=subprocess.PIPE)
    message = b"shardmill: error: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)
