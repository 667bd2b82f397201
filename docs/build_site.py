"""Write the pages of the documentation site: README.md, docs/, and a reference made from the code.

`python docs/build_site.py FOLDER` fills FOLDER, from which mkdocs builds the site; see `make docs`.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import shardmill
from shardmill.pipelines.commands.convert import convert_parser
from shardmill.pipelines.jobs.registry import KINDS

REPOSITORY = Path(__file__).resolve().parents[1]
SHIM = REPOSITORY / "tests/support/browser/node_modules/iframe-worker/shim/index.js"  # lets pages on disk search
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


def site_link(page: Path, text: str, target: str) -> str:
    """Return a link of a page as the site has it. Files that are not in the site are named, not linked."""
    path, _, anchor = target.partition("#")
    if not path or "://" in target:
        return f"[{text}]({target})"
    file = (page.parent / path).resolve()
    if file == REPOSITORY / "README.md":
        return f"[{text}](index.md{'#' + anchor if anchor else ''})"
    if file.parent == REPOSITORY / "docs":
        return f"[{text}]({file.name}{'#' + anchor if anchor else ''})"
    name = file.relative_to(REPOSITORY)
    return f"`{name}`" if text in (str(name), name.name) else f"{text} (`{name}`)"


def site_page(page: Path) -> str:
    """Return the text of README.md or of a page of docs/ with the links of the site."""
    text = LINK.sub(lambda found: site_link(page, found[1], found[2]), page.read_text())
    return text.replace("](docs/", "](")  # pictures of the README


def command_reference() -> Iterator[str]:
    """Yield the lines of the page of commands and their flags."""
    yield "# Commands"
    for command, kind in KINDS.items():
        parser = convert_parser(kind)
        yield f"\n## shardmill {command}\n\n{kind.description}\n\n```text\n{parser.format_usage()}\n```"
        for group in parser._action_groups:
            actions = [action for action in group._group_actions if action.option_strings]
            if actions:
                yield f"\n### {command}: {group.title}\n\n| flag | meaning |\n|---|---|"
            for action in actions:
                names = ", ".join(action.option_strings)
                flag = f"{names} {action.metavar or ''}".strip()
                help = (action.help or "").replace("%%", "%")
                yield f"| `{escape(flag)}` | {escape(help, plain=True)} |"


def escape(text: str, plain: bool = False) -> str:
    """Return text for a cell of a table; `plain` text, outside backquotes, keeps its marks of HTML, too."""
    text = text.replace("|", r"\|")
    return text.replace("<", "&lt;").replace("*", r"\*").replace("_", r"\_") if plain else text


def api_reference() -> Iterator[str]:
    """Yield the lines of the page of the Python interface."""
    yield "# Python API\n\nAll names are those of the package `shardmill`.\n"
    for name in shardmill.__all__:
        module = shardmill._MODULES[name]
        yield f"::: {module}.{name}\n"


def main(folder: Path) -> None:
    """Write all pages to `folder`, which is emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "index.md").write_text(site_page(REPOSITORY / "README.md"))
    for page in (REPOSITORY / "docs").glob("*.md"):
        (folder / page.name).write_text(site_page(page))
    for picture in (REPOSITORY / "docs").glob("*.png"):
        shutil.copy(picture, folder)
    shutil.copy(SHIM, folder / "iframe-worker.js")
    (folder / "commands.md").write_text("\n".join(command_reference()) + "\n")
    (folder / "api.md").write_text("\n".join(api_reference()) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
