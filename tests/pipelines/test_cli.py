"""The command line itself, before any command: what happens where nobody reads what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

import shardmill
from shardmill.addons.registry import LOOKING, Entry
from shardmill.pipelines import cli
from shardmill.pipelines.jobs.registry import COMMANDS, KINDS
from shardmill.transforms.execution import running
from tests.support import reference, typed_api


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
    assert out.startswith("usage: shardmill verify DIRECTORY … [options]")


@pytest.mark.parametrize("words", ["--help", "--version", "csv --help", "completion bash"])
def test_a_full_disk(words: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "shardmill", *words.split()], stdout=full, stderr=subprocess.PIPE)
    message = b"shardmill: error: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)


SCRATCH = """
from dataclasses import dataclass
from shardmill.pipelines.commands.frame import Command, Result, add_directory, run_here

@dataclass(frozen=True, slots=True, repr=False)
class Counted(Result):
    directory: str

    @property
    def text(self) -> str:
        return f"{self.directory}: 3 files"

def count(directory: str) -> Counted:
    return Counted(directory)

COMMANDS = (
    Command(
        name="count",
        description="Count files.",
        examples=("datasets/flowers",),
        add_arguments=add_directory,
        run=run_here(lambda args: count(args.directory)),
    ),
)
"""


def test_a_command_is_a_module_and_a_line_of_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command line, its help and completion, Python, the types for editors and the reference have it."""
    (tmp_path / "scratch_count.py").write_text(SCRATCH)
    monkeypatch.syspath_prepend(tmp_path)
    line = Entry("count files", "scratch_count", ("count", "Counted"))
    monkeypatch.setitem(COMMANDS, LOOKING, COMMANDS[LOOKING] | {"count": line})

    assert cli.main(["count", "flowers"]) == cli.main(["count", "flowers", "--quiet"]) == 0
    assert capsys.readouterr().out == "flowers: 3 files\n"
    assert cli.main(["--help"]) == 0
    assert "  count          count files\n" in capsys.readouterr().out
    assert cli.main(["completion", "bash"]) == 0
    assert "_shtab_shardmill_count" in capsys.readouterr().out
    assert cli.main(["coun"]) == 2
    assert repr(vars(shardmill)["__getattr__"]("count")("flowers")) == "flowers: 3 files"
    monkeypatch.delitem(vars(shardmill), "count")
    assert {"count", "Counted"} < {*shardmill.__all__} < {*dir(shardmill)}
    assert "from scratch_count import count as count\n" in typed_api.stub()
    assert "count.md" in reference.declared_pages()
    assert "| `Counted` |" in reference.api_page()


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("can't start new thread"), ImportError("a.so: failed to map segment")]
)
def test_a_lack_of_memory_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(cli, "_run", Mock(side_effect=error))
    assert cli.main(["verify"]) == 1
    assert capsys.readouterr().err.startswith("shardmill: error: no memory was left in a worker; give fewer")
    assert running.Failure.from_error("A", error).sentence.startswith("no memory was left")
