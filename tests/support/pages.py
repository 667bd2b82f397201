"""Code blocks of README.md and docs/, and how to run them."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shardmill.pipelines import cli
from shardmill.pipelines.config.beam_flags import beam_parser
from shardmill.pipelines.jobs.registry import KINDS
from tests.support.command import REPOSITORY, Run

README = REPOSITORY / "README.md"
PAGES = (README, *sorted((REPOSITORY / "docs").glob("*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STATUS = re.compile(r"exit status (\d+)")
_REMOTE = ("gs://", "s3://", "az://")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, and the line of the page where it begins."""

    language: str
    text: str
    line: int

    @property
    def file_name(self) -> str | None:
        """The file that the block is, if its first line is a comment with a name."""
        found = re.match(r"# (\w+\.(?:yaml|py))\n", self.text)
        return found[1] if found else None


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text()
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 1) for found in _FENCE.finditer(text)]


def section_blocks(page: Path, anchor: str) -> list[Block]:
    """Return the fenced blocks of the section of a page whose heading has an anchor; of the page if it is ""."""
    found = blocks(page)
    if not anchor:
        return found
    lines = page.read_text().splitlines()
    fenced = {block.line + n for block in found for n in range(block.text.count("\n") + 1)}
    headings = [(n, line) for n, line in enumerate(lines, 1) if line.startswith("#") and n not in fenced]
    (start, heading), *rest = ((n, line) for n, line in headings if heading_anchor(line) == anchor)
    assert not rest, f"{page.name} has {anchor} twice"
    level = heading.split()[0]
    end = next((n for n, line in headings if n > start and len(line.split()[0]) <= len(level)), len(lines) + 1)
    return [block for block in found if start < block.line < end]


def heading_anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-")


def commands(block: Block) -> Iterator[tuple[list[str], str]]:
    """Yield the words and the comment of each command of a block."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words, line.partition(" #")[2].strip()


def parse_command(words: list[str]) -> tuple[dict[str, Any], Any]:
    """Return a command's own flags, and the options of Beam; fail if a flag is unknown."""
    assert words[0] == "shardmill"
    own, rest = cli.parsers()[words[1]].parse_known_args(words[2:])
    known, unknown = beam_parser().parse_known_args(rest)
    assert unknown == []
    return vars(own), known


def check_command(words: list[str]) -> Any:
    """Check that the command accepts all of `words` and their values, and return the options of Beam."""
    values, known = parse_command(words)
    KINDS[words[1]].make_config(
        {name: value for name, value in values.items() if name not in ("dry_run", "write_recipe", "debug")}
    )
    return known


def is_remote(words: list[str]) -> bool:
    """Return True if a command needs a network or a cluster."""
    return any(word.startswith(_REMOTE) for word in words) or ("--runner" in words and "--dry_run" not in words)


def run_command(words: list[str], comment: str, run: Run) -> str:
    """Run a command in the current folder, and return what it prints; only parse it if it needs a network."""
    if words[0] == "shardmill" and is_remote(words):
        parse_command(words)  # without its values: a folder on a store would be listed
    elif words[0] == "shardmill":
        done = run(*words[1:])
        expected = int(found[1]) if (found := _STATUS.search(comment)) else 0
        assert done.status == expected, (words, done.err)
        return done.out + done.err
    elif words[0] in ("ls", "python"):
        program = ["ls"] if words[0] == "ls" else [sys.executable, str(REPOSITORY / words.pop(1))]
        environment = {**os.environ, "LC_ALL": "C"}  # for the order of `ls`
        return subprocess.run(
            [*program, *words[1:]], env=environment, check=True, capture_output=True, text=True
        ).stdout
    elif words[0] == "mv":
        Path(words[1]).rename(words[2])
    elif words[0] == "pip":
        assert words[:2] == ["pip", "install"]
        extras = set(re.findall(r"\w+", words[2].partition("[")[2]))
        assert extras <= set(_project()["optional-dependencies"]), words
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}:", (REPOSITORY / "Makefile").read_text(), re.MULTILINE), words
    else:
        assert words[0] == "gcloud", words  # tests/test_clusters_page.py checks these
    return ""


def check_output(block: Block, printed: str) -> None:
    """Check that the lines of a block of output were printed in this order; `…` is any text, alone any lines."""
    pattern = ".*".join(re.escape(part) for part in block.text.rstrip().split("…"))
    assert re.search(rf"^{pattern}$", printed, re.MULTILINE | re.DOTALL), (block.line, printed)


def run_blocks(chosen: list[Block], folder: Path, run: Run) -> None:
    """Write the files that blocks name to `folder`, then run the commands and the snippets of Python in order.

    A `console` block holds what the commands of the block before it print.
    """
    namespace: dict[str, Any] = {}
    printed = ""
    before = Path.cwd()
    os.chdir(folder)
    try:
        for block in chosen:
            if block.file_name is not None:
                Path(block.file_name).write_text(block.text)
        for block in chosen:
            if block.language == "sh":
                printed = "".join(run_command(words, comment, run) for words, comment in commands(block))
            elif block.language == "console":
                check_output(block, printed)
            elif block.language == "python" and block.file_name is None:
                code = compile(block.text, f"block at line {block.line}", "exec")
                if "import torch\n" not in block.text or find_spec("torch") is not None:
                    exec(code, namespace)
    finally:
        os.chdir(before)


def _project() -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return loaded
