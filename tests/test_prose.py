"""The check of the code's language finds each kind of finding, and the code has none."""

from pathlib import Path

import pytest

from tests.support import prose

LONG = " ".join(["word"] * (prose.RULES["longest_sentence"] + 1))


def findings_of(source: str, folder: Path) -> list[str]:
    path = folder / "module.py"
    path.write_text(source)
    return [f"{text.kind} {finding}" for text in prose.texts(path) for finding in prose.findings(text)]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('"""Whether a file is there."""', "docstring begins with 'Whether'"),
        ('"""Return the file beside it."""', "docstring 'beside'"),
        (f'"""Return {LONG}."""', "docstring a sentence of 32 words"),
        ("x = 1  # used likewise", "comment 'likewise'"),
        ("# a file, which lies\n# in a folder\nx = 1", "comment 'lies in'"),
        (f"# {LONG[:80]}\n# {LONG[80:]}\nx = 1", "comment a sentence of"),
        ('x = "the flag of this was not heeded"', "message 'heeded'"),
        ('x = ("the file that lies"\n " in a folder")', "message 'lies in'"),
        ('x = f"the file {1} lies" f" in folder {2}"', "message 'lies in'"),
        ('x = "the file that lies" + f" in folder {2}"', "message 'lies in'"),
        ("x = f\"{'a file that lies in it'}\"", "message 'lies in'"),
    ],
)
def test_findings(source: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    assert [finding[: len(found)] for finding in findings_of(source, tmp_path)] == [found]


@pytest.mark.parametrize(
    "source",
    [
        '"""Return the value.\n\nArgs:\n    beside: statistics by name.\n"""',
        '"""Return `beside` and "likewise"."""',
        "x = 1  # one comment of some words\n"
        "y = 2  # a comment of its own, even though both together have more than thirty words, if joined to one\n",
        'x = "lies in"',
    ],
)
def test_names_quotes_and_short_texts_are_not_findings(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    assert findings_of(source, tmp_path) == []


def test_the_code_has_no_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert prose.main() == 0, capsys.readouterr().out
