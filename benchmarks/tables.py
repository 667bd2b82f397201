"""Write results into docs/benchmarks.md and README.md. Each script of `make bench` replaces its own block of the page:

    <!-- bench_images.py -->
    …
    <!-- end of bench_images.py -->

The list "Where shardmill loses" collects the losses of all blocks.
"""

import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from measure import BENCHMARKS, machine

PAGE = BENCHMARKS.parent / "docs" / "benchmarks.md"
README = BENCHMARKS.parent / "README.md"
LOSSES = "losses"  # the name of the block that lists them
_LOSSES = "**Losses.** "
_LEAST = 1.005  # a ratio that is not shown as 1.00


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. Its first column is text, the others are numbers."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join(f"|{'|'.join(line)}|" if line[0] == "---" else f"| {' | '.join(line)} |" for line in lines)


def losses(measured: Mapping[str, float], ours: str, unit: str = "seconds") -> list[str]:
    """Return a sentence for each other of `measured` that takes less of a unit than `ours`."""
    return [
        f"{ours} takes {measured[ours] / value:.2f} times the {unit} of {name}."
        for name, value in measured.items()
        if name != ours and measured[ours] > _LEAST * value
    ]


def publish(text: str, write: bool, *, losses: Sequence[str] = (), readme: Sequence[str] = ()) -> None:
    """Print the results of the running script, below its command; with `write`, put them into the page, too.

    Args:
      text: Markdown: tables, and sentences that are made from the results.
      losses: sentences about measurements in which shardmill is slower, or needs more, than others.
      readme: lines for the table of README.md that ends its rows with the name of the script.
    """
    script = Path(sys.argv[0]).name
    words = [word for word in sys.argv[1:] if word != "--write"]
    command = shlex.join(["python", f"benchmarks/{script}", *words])
    parts = [_wrap(f"`{command}`, {datetime.now(UTC):%-d %B %Y}; {machine()}:")]
    parts += [part if part[:1] in "|-" else _wrap(part) for part in text.strip().split("\n\n")]
    if losses:
        parts.append(_wrap(_LOSSES + " ".join(losses)))
    block = "\n\n".join(parts)
    print(block)
    if write:
        _replace(PAGE, collect_losses(replace_block(PAGE.read_text(), script, block)))
        _replace(README, replace_rows(README.read_text(), script, readme))


def replace_block(page: str, name: str, text: str) -> str:
    """Return the page with a new text between the two comments of a block. Raise ValueError if it has no such block."""
    first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, found, rest = page.partition(first)
    _, ended, after = rest.partition(last)
    if not found or not ended:
        raise ValueError(f"{PAGE.name} has no block of {name}; its comments are {first.strip()} and {last.strip()}")
    return f"{before}{first}\n{text}\n\n{last}{after}"


def blocks(page: str) -> dict[str, str]:
    """Return the text of each block by its name, in the order of the page."""
    return dict(re.findall(r"^<!-- (\w+\.py) -->\n(.*?)^<!-- end of \1 -->$", page, re.MULTILINE | re.DOTALL))


def collect_losses(page: str) -> str:
    """Return the page with a new list of losses, one item for each block that has some."""
    items = []
    for name, text in blocks(page).items():
        heading = re.findall(r"^##+ (.+)$", page.partition(f"<!-- {name} -->")[0], re.MULTILINE)[-1]
        anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        if found := re.search(rf"^{re.escape(_LOSSES)}(.+?)\n\n", text, re.MULTILINE | re.DOTALL):
            items.append(wrap_item(f"**[{heading}](#{anchor}).** {' '.join(found[1].split())}"))
    return replace_block(page, LOSSES, "\n".join(items))


def wrap_item(text: str) -> str:
    """Return an item of a list, in lines as long as those of the page."""
    return _wrap(f"- {text}", "  ")


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def replace_rows(readme: str, script: str, rows: Sequence[str]) -> str:
    """Return README.md with new rows for a script, if it has some: lines that end with its name."""
    of_script = rf"(?:^\|.*\| `{re.escape(script)}` \|\n)+"
    return re.sub(of_script, lambda _: "".join(f"{row}\n" for row in rows), readme, flags=re.MULTILINE)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    os.replace(temporary, path)
