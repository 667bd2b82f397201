"""The command line itself, before any command: what happens where nobody reads what it says."""

import os
import subprocess
import sys

import pytest

from shardmill.pipelines import cli
from shardmill.pipelines.jobs.registry import KINDS


@pytest.mark.parametrize("words", ["", "--help", "--version", "csv --help", "inspect --help"])
def test_nobody_reads(words: str) -> None:
    """As in `shardmill --help | head -1`."""
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
