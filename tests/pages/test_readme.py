"""Limits of README.md and docs/, and their commands and snippets of Python, which may import tensorflow.

Each page runs in a folder of its own with the data that it names. PyTorch is not installed for the tests, so its
snippet is only compiled.
"""

import re
import shlex
from pathlib import Path

import pytest

import shardmill
from shardmill.pipelines.cli import parsers
from tests.support.command import REPOSITORY, Run
from tests.support.pages import PAGES, README, anchors, blocks, heading_anchor, headings, run_blocks

DESIGN = REPOSITORY / "docs" / "design.md"
SECTIONS = ["Why", "Install and first result", "My data looks like this", "Read it", "Nightly rebuild", "On a cluster"]
SECTIONS += ["From Python", "Speed", "What it does not do", "Links", "License"]
INPUTS = REPOSITORY / "docs" / "inputs.md"
TASKS = [page for page in PAGES if page.stem not in ("design", "internals", "comparison", "concepts", "faq")]
REFERENCE = sorted((REPOSITORY / "docs/reference").glob("*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize(("page", "most"), [(README, 180), (DESIGN, 200)], ids=["README", "design"])
def test_number_of_lines(page: Path, most: int) -> None:
    assert len(page.read_text().splitlines()) <= most


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_length_of_lines(page: Path) -> None:
    lines = [line if page == README else LINK.sub("", line) for line in page.read_text().splitlines()]
    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []


def test_sections_of_the_readme() -> None:
    assert [heading.removeprefix("## ") for heading in headings(README) if heading.startswith("## ")] == SECTIONS
    assert len(re.findall(r"!\[", README.read_text())) == 2
    assert {"`make demo`", "`make test`"} <= {*re.findall(r"`[^`\n]+`", README.read_text())}
    assert len(ROWS) == 10


def test_short_snippets_of_the_readme() -> None:
    sections = dict(zip(SECTIONS, re.split(r"^## .+$", README.read_text(), flags=re.MULTILINE)[1:], strict=True))
    for name, most in (("Read it", 10), ("Nightly rebuild", 5), ("On a cluster", 5), ("From Python", 5)):
        found = re.findall(r"^```\w+\n(.*?)^```$", sections[name], re.MULTILINE | re.DOTALL)
        assert found
        assert all(len([line for line in block.splitlines() if line]) <= most for block in found), name


@pytest.mark.parametrize("page", [*PAGES, *REFERENCE], ids=lambda page: page.stem)
def test_links(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", [page for page in PAGES if page not in (README, INPUTS)], ids=lambda page: page.stem)
def test_a_page_is_linked_from_the_readme_or_the_list_of_pages(page: Path) -> None:
    assert f"](docs/{page.name}" in README.read_text() or f"]({page.name}" in INPUTS.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_first_when_one_wants_it_and_a_long_one_what_is_where(page: Path) -> None:
    text = page.read_text()
    assert re.match(r"# .+\n\n[A-Za-z]", text)  # no code, table, list or heading below the title
    sections = [heading_anchor(each) for each in headings(page) if each.startswith("## ")]
    if text.count("\n") > 140 and page != README:
        assert [each for each in sections if f"(#{each})" not in text.partition("\n## ")[0]] == []


@pytest.mark.parametrize("page", TASKS, ids=lambda page: page.stem)
def test_a_page_begins_with_code_and_ends_with_limits(page: Path) -> None:
    assert blocks(page)[0].language in ("sh", "python")
    assert page == README or "\n## Limits\n" in page.read_text() or page.stem in ("limits", "benchmarks")


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=() if page == README else pytest.mark.slow) for page in PAGES]
)
@pytest.mark.tensorflow
def test_commands_and_snippets(page: Path, folder: Path, run: Run) -> None:
    defined = run_blocks(blocks(page), folder, run)

    if page == README:
        accuracy = defined["history"].history["accuracy"]
        assert accuracy[0] < 0.8 < 0.9 < accuracy[-1]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if re.search("```(sh|python)\n", page.read_text())], ids=lambda page: page.stem
)
@pytest.mark.tensorflow
def test_the_first_block_runs_as_it_stands(page: Path, tmp_path: Path, run: Run) -> None:
    """In an empty folder, with the files that blocks of the page are."""
    found = blocks(page)
    files = [block for block in found if block.file_name is not None]
    first = next(block for block in found if block.language in ("sh", "python") and block not in files)
    run_blocks([*files, first], tmp_path, run)


# What the comparison denies, and the word of a command, flag or function that would make it false
DENIED = {
    "has no catalogue": "catalog",
    "reads files, not URLs": "download",
    "reads one data set": "mix_",
    "has no GPU steps": "gpu",
    "has versions, not streams": "stream",
    "does not read `.mds` files": "mds",
    "does not read LitData's chunks": "litdata",
    "lacks, such as\nvideo": "video",
}


def test_the_comparison_denies_nothing_that_exists() -> None:
    text = "".join((REPOSITORY / "docs" / name).read_text() for name in ("comparison.md", "coming-from.md"))
    commands = parsers()
    flags = [flag for parser in commands.values() for action in parser._actions for flag in action.option_strings]
    names = " ".join([*commands, *flags, *shardmill.__all__]).lower()

    assert [phrase for phrase in DENIED if phrase not in text] == []
    assert [word for word in DENIED.values() if word in names] == []
    denials = [line for line in text.splitlines() if re.search(r"\b(no|not|only|cannot)\b", line)]
    assert [line for line in denials for span in re.findall(r"`(?:shardmill )?([^`]+)`", line) if span in names] == []


ROWS = re.findall(r"^\| .+ \| `(shardmill [^`]+)` \|$", README.read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", ROWS)
def test_data_looks_like_this(command: str, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = run(*shlex.split(command)[1:], "--output", "datasets", "--name", "n")

    assert done.status == 0, done.err
