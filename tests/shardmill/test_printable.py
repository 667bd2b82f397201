"""Names and values out of data never move a terminal's cursor, ring, colour or reverse what is printed of them."""

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shardmill
from shardmill.errors import CorruptDataError, JobError, UserError
from shardmill.text import did_you_mean, listed, to_printable
from tests.support.command import Result, Run, image, write_files
from tests.support.small_data_set import edit_manifest

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x7f\r\x08"
CLASS = EVIL.replace("\r", "")  # no class name has a line break
SHOWN = "\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202e\\x7f\\r\\x08"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (EVIL, SHOWN),
        ("a\nNOTE: b\u2028c", "a\\nNOTE: b\\u2028c"),
        ("\udcff\ud800\ue000", "\\udcff\\ud800\\ue000"),
        *((text, text) for text in ("", "größe 日本 🙂", "a\\nb", "a\u00a0b\u3000c", "می\u200cخواهم", "👩\u200d💻")),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert to_printable(text) == to_printable(to_printable(text)) == shown
    for error in (UserError, JobError, CorruptDataError):
        assert str(error(text)) == shown


@given(st.text(st.characters()))
def test_no_text_is_more_than_a_line_or_a_command(text: str) -> None:
    assert clean(to_printable(text))
    assert "\n" not in to_printable(text)
    to_printable(text).encode()


def test_a_list_ends_with_the_number_of_those_left_out() -> None:
    assert [listed(list("abc"), most) for most in (2, 3)] == ["a, b and 1 more", "a, b, c"]
    assert listed(["a"] * 1002, 1, "; {:,} left") == "a; 1,001 left"
    assert (listed(["a"], 0, ", …"), listed([], 2)) == (", …", "")


@pytest.mark.parametrize(
    ("word", "hint"), [("lable", "did you mean label?"), ("label", "did you mean label?"), ("x", "")]
)
def test_the_nearest_known_word_is_suggested(word: str, hint: str) -> None:
    assert did_you_mean(word, {"labels": 1, "label": 2}) == hint
    assert did_you_mean("lable", ("label",), "; did you mean {!r}?") == "; did you mean 'label'?"


def clean(printed: str) -> bool:
    """Whether there is no control but line breaks, no half of a character, and no mark that reverses what follows."""
    bad = {sign for sign in printed if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp")} - {"\n"}
    return not bad and "\u202e" not in printed


def check_shown(result: Result, status: int, *words: str) -> None:
    assert result.status == status, result
    assert clean(result.out), result.out
    assert clean(result.err), result.err
    for word in words:
        assert word in result.out + result.err, (word, result)


def test_a_table_of_evil_names_and_values(run: Run, tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {f"n{EVIL}": n, "text": f"v{EVIL}", "kind": f"{'ab'[n % 2]}{CLASS}", f"none{EVIL}": None} for n in range(4)
    ]
    rows.append({f"n{EVIL}": [[1], [2, 3]], "text": "", "kind": f"a{CLASS}"})
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    source = write_files(tmp_path / "in", {f"{EVIL}.jsonl": lines.encode()})
    (source / f"x{EVIL}.odd").write_text("skipped")
    command = ("jsonl", "--input", source, "--label", "kind", "--output", tmp_path / "out", "--name", "n")
    limit = ("--max_reject_fraction", "0.5")

    check_shown(run(*command, *limit, "--dry_run"), 0, f"n{SHOWN}: ", f"x{SHOWN}.odd")
    check_shown(run(*command, "--max_reject_fraction", "0"), 1, SHOWN)
    check_shown(run(*command, *limit), 0, "1 of 5 records rejected", f"column {f'n{EVIL}'!r}")
    directory = tmp_path / "out" / "n" / "1.0.0"
    check_shown(
        run("inspect", directory), 0, "Example 2", f"n{SHOWN[:10]}", "v\\u001b]0;owned", f"b{to_printable(CLASS)}"
    )
    assert clean(str(shardmill.info(directory)))
    assert SHOWN in str(shardmill.info(directory))

    (directory / "rejects" / f"{EVIL}.jsonl").write_text("{}\n")
    check_shown(run("verify", directory), 1, f"rejects/{SHOWN}.jsonl: is a file that the manifest does not list")
    edit_manifest(directory, lambda content: content["splits"][0].update(name=EVIL))
    check_shown(run("verify", directory), 1, 'splits[0].name is "\\u001b]0;owned')


def test_folders_with_evil_names(run: Run, tmp_path: Path) -> None:
    files = {f"{label}{CLASS}/{n}.jpg": image(n) for label in "ab" for n in range(2)}
    source = write_files(tmp_path / "in", {**files, f"a{CLASS}/bad{EVIL}.jpg": b""})
    command = ("images", "--input", source, "--output", tmp_path / "out", "--name", "n", "--max_reject_fraction", "0.5")
    check_shown(run(*command, "--dry_run"), 0, f"  0 a{to_printable(CLASS)[:20]}")
    check_shown(run(*command), 0, f"Classes of 'label': 2: a{to_printable(CLASS)[:20]}")
    check_shown(run("images", "--input", tmp_path / EVIL, "--output", tmp_path, "--name", "n"), 2, SHOWN)
