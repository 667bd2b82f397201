"""Write the pages of the documentation site: README.md, docs/, and the reference of the Python API.

`python docs/build_site.py FOLDER` fills FOLDER, from which mkdocs builds the site; see `make docs`.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import shardmill
from shardmill.pipelines.jobs.registry import COMMANDS

REPOSITORY = Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"
SHIM = REPOSITORY / "tests/support/browser/node_modules/iframe-worker/shim/index.js"  # lets pages on disk search
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
DRAWING = re.compile(r"!\[([^\]]+)\]\((\S+\.svg)\)")
STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
# The names of the Python API by the headings of their page, without those of commands
_ORDERED = ("Order", "GlobalBatches", "torch.Dataset")
API = {
    "Run jobs": ("convert", "plan", "write", "Published", "Plan"),
    "Read": ("load", "examples", "info", "feature_spec", "source", "DatasetInfo", "Source", *_ORDERED),
    "Use in Beam pipelines": ("beam.ReadDataset", "beam.WriteDataset", "beam.WrittenVersion"),
    "Errors": ("UserError", "JobError", "CorruptDataError"),
}


def api_names() -> dict[str, list[str]]:
    """Return the names of the Python API by the headings of their page."""
    commands = {
        title: [name for entry in group.values() for name in entry.exports] for title, group in COMMANDS.items()
    }
    return {title: list(names) for title, names in (API | commands).items() if names}


def site_place(file: Path) -> Path:
    """Return the place of a page or a notebook in the site."""
    return Path("index.md") if file == REPOSITORY / "README.md" else _suffixed(file.relative_to(DOCS))


def _suffixed(place: Path) -> Path:
    return place.with_suffix(".md") if place.suffix == ".ipynb" else place


def site_link(page: Path, text: str, target: str) -> str:
    """Return a link of a page as the site has it. Files that are not in the site are named, not linked."""
    path, hash, anchor = target.partition("#")
    if not path or "://" in target:
        return f"[{text}]({target})"
    file = (page.parent / path).resolve()
    if file == REPOSITORY / "README.md" or (DOCS in file.parents and file.suffix != ".py"):
        if text in (file.name, f"docs/{file.name}"):
            text = file.read_text().removeprefix("# ").partition("\n")[0]  # the title of the page
        place = os.path.relpath(site_place(file), site_place(page).parent)
        return f"[{text}]({place}{hash}{anchor})"
    name = file.relative_to(REPOSITORY)
    return f"`{name}`" if text in (str(name), name.name) else f"{text} (`{name}`)"


def site_page(page: Path) -> str:
    """Return the text of README.md or of a page of docs/ with the links of the site, and its drawings inside."""

    def drawing(found: re.Match[str]) -> str:
        # Without its own colours: text and lines have those of the page, light or dark
        svg = STYLE.sub("", (page.parent / found[2]).read_text())
        return f'<div class="drawing" role="img" aria-label="{found[1]}">{svg}</div>'

    text = LINK.sub(lambda found: site_link(page, found[1], found[2]), DRAWING.sub(drawing, page.read_text()))
    return text.replace("](docs/", "](")  # pictures of the README


def notebook_page(notebook: Path) -> str:
    """Return the page of a notebook: its texts, its code, and what the code prints and draws."""
    parts = []
    for cell in json.loads(notebook.read_text())["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                parts.append(f"![What the code draws](data:image/png;base64,{''.join(data['image/png']).strip()})")
            else:
                parts.append(f"```text\n{''.join(data['text/plain']).strip()}\n```")
    return "\n\n".join([*parts, f"The notebook is `{notebook.relative_to(REPOSITORY)}`.\n"])


def api_reference() -> Iterator[str]:
    """Yield the lines of the page of the Python interface."""
    yield "# Python API\n\nAll names are those of the package `shardmill`."
    yield "[From Python](../python.md) shows how to use them."
    yield "Options of jobs are the flags of the [commands](commands.md)."
    modules = shardmill._modules()
    for heading, names in api_names().items():
        yield f"\n## {heading}\n"
        for name in names:
            module = modules.get(name, "shardmill")
            yield f"::: {module}.{name}\n    options: {{heading_level: 3}}\n"


def main(folder: Path) -> None:
    """Write all pages to `folder`, which is emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for page in (REPOSITORY / "README.md", *DOCS.rglob("*.md")):
        target = folder / site_place(page)
        target.parent.mkdir(exist_ok=True)
        target.write_text(site_page(page))
    for notebook in (DOCS / "notebooks").glob("*.ipynb"):
        target = folder / "notebooks" / f"{notebook.stem}.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text(notebook_page(notebook))
    for file in (*DOCS.glob("*.png"), *DOCS.glob("*.css")):
        shutil.copy(file, folder)
    shutil.copy(SHIM, folder / "iframe-worker.js")
    (folder / "reference/api.md").write_text("\n".join(api_reference()) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
