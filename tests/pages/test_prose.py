"""The check of language finds each kind of finding."""

from pathlib import Path

import pytest

from tests.support import prose

LONG = " ".join(f"word{number}" for number in range(prose.RULES["longest_sentence"] + 1))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is checked."""
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    return tmp_path


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
        # Names, quotes and short texts are not findings
        ('"""Return the value.\n\nArgs:\n    beside: statistics by name.\n"""', None),
        ('"""Return `beside` and "likewise"."""', None),
        (f"x = 1  # {LONG[:140]}\ny = 2  # {LONG[:140]}", None),
        ('x = "lies in"', None),
    ],
)
def test_findings(source: str, found: str | None, folder: Path) -> None:
    findings = findings_of(source, folder)
    assert [finding[: len(found or finding)] for finding in findings] == ([found] if found else [])


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (f"# Title\n\n{LONG}.", "3: page a sentence of 31 words"),
        (f"# Title\n\nOne; two:\n{LONG}.", "3: page a sentence of 33 words"),
        (f"* one\n* {LONG}\n* three", "2: page a sentence of 31 words"),
        (f"| a | b |\n|---|---|\n| one | {LONG} |", "3: page a sentence of 31 words"),
        (f"One\n[{LONG}](page.md) word", "1: page a sentence of 33 words"),
        ("One.\n\n> It lies in a folder.", "3: page 'lies in'"),
        ("One.\n\nTwo,\nwhich is is wrong.", "4: lexical_illusions: "),
        # Code, items and cells are not joined
        (f"# shardmill\n\nshardmill is\n\n```\n{LONG}\n```", None),
        (f"One `{LONG}` word of `beside`.", None),
        (f"{LONG[:140]}. {LONG[:140]}!", None),
        (f"* {LONG[:140]}\n* {LONG[:140]}", None),
        (f"| {LONG[:140]} | {LONG[:140]} |\n|---|---|\n| {LONG[:140]} | x |", None),
    ],
)
def test_findings_of_pages(page: str, found: str | None, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "page.md").write_text(page)

    assert prose.main([str(folder / "page.md")]) == (1 if found else 0)
    lines = capsys.readouterr().out.splitlines()
    if found:
        assert lines[0].startswith(f"page.md:{found}")
        assert lines[1:] == ["1 findings in 1 files"]
