"""Help of the converting commands: usage, the most used flags, examples, and all flags."""

import shlex
from pathlib import Path

import pytest

from shardmill.pipelines import cli
from shardmill.pipelines.config.beam_flags import beam_parser
from shardmill.pipelines.jobs.registry import KINDS
from tests.support.tokenizer_files import tokenizer_json


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", KINDS)
def test_help_shows_ten_flags_and_two_examples(capsys: pytest.CaptureFixture[str], command: str) -> None:
    text = shown(capsys, command, "--help")
    lines = text.splitlines()
    has_input = any(option.name == "input" for option in KINDS[command].options)
    assert lines[0].startswith(f"usage: shardmill {command} --{'input ' if has_input else ''}")
    assert lines[0].endswith(f"{'PATH ' if has_input else ''}--output DIR --name NAME [options]")
    flags = [line.split()[0] for line in lines if line.startswith("  --")]
    assert len(flags) == len(set(flags)) == 10
    assert len(lines) <= 45
    assert sum(line.startswith(f"  shardmill {command} --") for line in lines) == 2
    assert lines[-1] == f"All options: shardmill {command} --help-all"


@pytest.mark.parametrize("command", KINDS)
def test_help_all_shows_every_flag(capsys: pytest.CaptureFixture[str], command: str) -> None:
    text = shown(capsys, command, "--help-all")
    flags = {line.split()[0].rstrip(",") for line in text.splitlines() if line.startswith("  --")}
    assert flags >= {f"--{option.name}" for option in KINDS[command].options if not option.flag.hidden}
    assert flags >= {"--dry_run", "--write_recipe", "--quiet", "--json", "--help-all"}
    assert "Exit status: 0 done" in text
    assert "Every option of Apache Beam is passed through" in text


@pytest.mark.parametrize("command", KINDS)
def test_the_examples_are_valid(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tokenizer.json").write_bytes(tokenizer_json(special=("</s>",)))
    kind, text = KINDS[command], shown(capsys, command, "--help")
    for line in text.splitlines():
        if line.startswith(f"  shardmill {command} --"):
            args, rest = cli.find_command(kind.name).parser().parse_known_args(shlex.split(line)[2:])
            assert beam_parser().parse_known_args(rest)[1] == []
            values = {name: value for name, value in vars(args).items() if name in {o.field for o in kind.options}}
            assert kind.make_config(values).name == values["name"]


@pytest.mark.parametrize("words", ["inspect DIRECTORY", "tag DIRECTORY VERSION [TAG]", "diff", "rebuild RECIPE"])
def test_the_usage_of_other_commands_is_one_line(capsys: pytest.CaptureFixture[str], words: str) -> None:
    first, second, *_ = shown(capsys, words.split()[0], "--help").splitlines()
    assert first.startswith(f"usage: shardmill {words} ")
    assert first.endswith(" [options]")
    assert second == ""
