"""Texts of all options of all commands: a plain phrase that is clear alone, and a name for the value."""

import argparse
import re
import shlex
from typing import Any

import pytest

from shardmill.pipelines import cli
from shardmill.pipelines.config.beam_flags import beam_parser

PARSERS = cli.parsers()
RIDDLES = re.compile(r"(Of|Where|Whether|What|How|As|It|That|Which|Their|This|By|For) ")
LONGEST = 160


def texts_of(action: argparse.Action) -> list[str]:
    """The faults of the texts of an option."""
    text, faults = (action.help or "").replace("%%", "%"), []
    if not text[:1].isupper():
        faults.append("begins with no capital letter")
    if RIDDLES.match(text):
        faults.append("begins with a word that is not clear alone")
    if len(text) > LONGEST:
        faults.append(f"has {len(text)} characters")
    if text.endswith("."):
        faults.append("is a phrase, without a full stop")
    if action.nargs != 0 and not (action.metavar or action.choices):
        faults.append("has no name for the value")
    if action.default not in (None, argparse.SUPPRESS, False, []) and "(default: " not in text:
        faults.append("does not name the default")
    return faults


def test_each_text_is_clear_alone() -> None:
    for command, parser in PARSERS.items():
        for action in parser._actions:
            unknown = set(re.findall(r"--\w+", action.help or "")) - set(parser._option_string_actions)
            assert (texts_of(action), unknown) == ([], set()), f"{command} {action.dest}"


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"help": "of the text"}, "no capital"),
        ({"help": "Of the text"}, "not clear alone"),
        ({"help": "E" * 161}, "161 characters"),
        ({"help": "Text encoding", "metavar": None}, "no name for the value"),
        ({"help": "Size", "default": 3}, "the default"),
    ],
)
def test_faults_are_found(values: dict[str, Any], fault: str) -> None:
    action = argparse.Action(["--flag"], "flag", **{"metavar": "VALUE", **values})
    assert [found for found in texts_of(action) if fault in found]


@pytest.mark.parametrize("command", PARSERS)
def test_help_fits_a_screen(command: str) -> None:
    parser = PARSERS[command]
    text = parser.format_help()
    usage, *lines = text.splitlines()
    required = [action for action in parser._actions if action.required]
    names = [name for action in required for name in (action.option_strings or [str(action.metavar)])]
    assert all(re.search(rf"(?<!\S){re.escape(name)}(?!\S)", usage) for name in names), usage
    assert usage.endswith(" [options]")
    assert len(usage) <= 100
    assert len(lines) <= 50
    assert len(re.findall("^  -", text, re.MULTILINE)) <= 12
    assert 1 <= sum(line.startswith(f"  {parser.prog} ") for line in lines) <= 2


@pytest.mark.parametrize(
    "command", [command for command in PARSERS if "input" not in PARSERS[command]._option_string_actions]
)
def test_examples_are_valid(command: str) -> None:
    parser = PARSERS[command]
    for example in parser._examples:
        _, rest = parser.parse_known_args(shlex.split(example.partition(" >")[0]))
        assert beam_parser().parse_known_args(rest)[1] == []
