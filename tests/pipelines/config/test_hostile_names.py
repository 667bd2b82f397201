"""Flags that name columns take any name, and what messages print can be pasted."""

import json
import re
import shlex
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError, assign, quote, quote_item, split_names, split_pairs
from shardmill.pipelines.config.files import ListedFilesConfig
from shardmill.pipelines.config.flags import _METAVAR_BY_FLAG
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.transforms.options.declare import Option
from tests.support.jobs import Jobs

NAMES = [
    *("a,b", "c=d", 'say "x"', '"', '"q",=', " spaced ", "two\nlines", "", "-x", "größe", "tab\there", "it's", "a:b=1"),
]
VALUES = {"types": "int64", "timestamp": "ms", "coordinates": "none", "labels_file": "", "stack": "pixel*:uint8"}
OPTIONS = {option.name: option for kind in KINDS.values() for option in kind.options if not option.flag.hidden}


def metavar(option: Option) -> str:
    return option.flag.metavar or _METAVAR_BY_FLAG.get(option.name, "")


LISTS = sorted(name for name, option in OPTIONS.items() if metavar(option) == "COLUMN,…" or name == "mask_column")
ONE = sorted(name for name, option in OPTIONS.items() if metavar(option) == "COLUMN" and name != "file_column")
PAIRS = sorted(name for name, option in OPTIONS.items() if re.match(r"(COLUMN|NAME)=(?!FRACTION)", metavar(option)))


def names_in(parsed: Any) -> list[str]:
    pairs = parsed.items() if isinstance(parsed, dict) else parsed
    return [pair[0] if isinstance(pair, tuple) else pair.name for pair in pairs]


def test_the_flags_are_found() -> None:
    assert {"drop", "only", "label", "image", "columns", "json_columns", "mask_column"} <= {*LISTS}
    assert {"key", "group_by", "stratify_by", "label_column", "split_column", "sequence_by", "order_by"} <= {*ONE}
    assert {"fill", "types", "list_separator", "timestamp", "coordinates", "stack"} <= {*PAIRS}


@pytest.mark.parametrize("flag", LISTS)
def test_lists(flag: str) -> None:
    assert OPTIONS[flag].parse(",".join(map(quote_item, NAMES))) == tuple(NAMES)
    assert OPTIONS[flag].parse('"a,b",id') == ("a,b", "id")


@pytest.mark.parametrize("flag", ONE)
@pytest.mark.parametrize("name", NAMES)
def test_one_name(flag: str, name: str) -> None:
    """Options are parsed again whenever one is replaced."""
    read = OPTIONS[flag].parse(quote_item(name))
    assert OPTIONS[flag].parse(read) == read == name
    assert OPTIONS[flag].parse("a,b") == "a,b"
    with pytest.raises(UserError, match=f"^--{flag}: 5 is not a text$"):
        OPTIONS[flag].parse(5)


@pytest.mark.parametrize("flag", PAIRS)
@pytest.mark.parametrize("name", NAMES)
def test_pairs(flag: str, name: str) -> None:
    item = f"{quote_item(name)}={VALUES.get(flag, '7')}"
    assert names_in(OPTIONS[flag].parse((item,) if OPTIONS[flag].flag.repeats else item)) == [name]


def test_other_flags_with_names() -> None:
    tags = OPTIONS["label_separator"].parse('"a=b"=;')
    assert tags == {"a=b": ";"}
    several = OPTIONS["label_separator"].parse(('"a=b"=;', "c=,"))
    assert OPTIONS["label_separator"].parse(several) == several == {"a=b": ";", "c": ","}
    for wrong in ((";", "c=,"), ("c=;", "c=,"), (";", ",")):
        with pytest.raises(UserError, match="give one separator for all labels, such as ';', or one for each, such as"):
            OPTIONS["label_separator"].parse(wrong)
    assert OPTIONS["label_separator"].parse(5) == {"": "5"}
    assert OPTIONS["rename"].parse("v=x,x=v") == (("v", "x"), ("x", "v"))
    assert OPTIONS["rename"].parse(('"c=d"=e',)) == (("c=d", "e"),)
    assert split_pairs('"a,b"=x.txt,"c=d"="y,z.txt"', "", is_listed=True) == [("a,b", "x.txt"), ("c=d", "y,z.txt")]
    assert vars(ListedFilesConfig)["file_columns"].fget(SimpleNamespace(file_column='"a,b",mask')) == ("a,b", "mask")


@pytest.mark.parametrize("text", ["", "a,", ",a", '"a', '"a"b', 'a,"b"c', "a,,b"])
def test_no_lists(text: str) -> None:
    with pytest.raises(OptionValueError, match="expected a name"):
        split_names(text)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_printed_can_be_pasted(name: str) -> None:
    """A shell takes it for one word, on one line, and the option reads the name."""
    for word, read in ((quote(name, "id"), split_names), (assign(name, "7"), lambda text: split_pairs(text, ""))):
        assert "\n" not in word
        seen = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout.decode()
        assert read(seen) in ((name, "id"), [(name, "7")])


@pytest.mark.parametrize("command", ["csv", "jsonl"])
def test_the_flags_of_a_notice_give_the_types_that_it_says(command: str, jobs: Jobs) -> None:
    names = [name for name in NAMES if name and name == name.strip() and name.isprintable()]
    rows = [dict.fromkeys(names, "x" if n == 50 else str(n)) for n in range(100)]
    lines = [json.dumps(row) for row in rows]
    if command == "csv":
        lines = [
            ",".join('"' + text.replace('"', '""') + '"' for text in row) for row in (names, *map(dict.values, rows))
        ]
    built = jobs.build(command, files={f"a.{command}": "\n".join(lines)})
    flags = [flag for notice in built.notices for flag in re.findall(r"--types (?:'(?:[^']|'\"'\"')*'|\S+)", notice)]
    assert len(flags) == len(names)

    again = jobs.build(f"{command} {' '.join(flags)} --max_reject_fraction 0.1 --output b")
    assert again.table.features == dict.fromkeys(names, "int64")
    dropped = jobs.build(f"{command} --drop {quote(*names[1:])} --output c")
    assert [*dropped.table.features] == names[:1]
    assert shlex.split(quote(*names[1:]))[0] == ",".join(map(quote_item, names[1:]))


def test_names_in_quotes_reach_the_columns(jobs: Jobs) -> None:
    """Each command is as a message prints it; lists of names may also be given in several flags."""
    rows = [{"o,p": {"q": n}, '"x"': n // 2, "t,u": f"{'ab'[n % 2]};c", "d": n, "e": n} for n in range(8)]
    files = {"a.jsonl": "\n".join(map(json.dumps, rows))}
    splits = f"--splits train=0.5,test=0.5 --group_by {quote(chr(34) + 'x' + chr(34))}"
    one = f"--key {quote('d')} --json_columns {quote('o,p')} --drop d --drop e"
    separators = "--label 't,u' --label_separator ';'".replace("'t,u'", quote("t,u"))
    made = jobs.build(f"jsonl {one} {splits} {separators}", files=files)
    assert made.table.features == {'"x"': "int64", "o,p": "bytes", "t,u": "int64[]"}
    assert made.manifest.configuration["group_by"] == '"x"'
