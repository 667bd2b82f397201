"""Drawings of the Beam graphs in docs/: `python -m tests.support.diagrams` writes them.

The steps are those of the real graphs. Only their explanations are here.
"""

import html
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import apache_beam as beam
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor

from shardmill.pipelines.jobs.registry import KINDS
from tests.support.command import REPOSITORY

# Explanations by command, in the order of the graph; "" for a step that only joins others, which is not drawn
STEPS = {
    "images": {
        "Index": "folder, glob, manifest → references to files",
        "Layout": "counts → splits, classes, columns",
        "Prepare": "a mistake ends the job here, nothing written",
        "Resolve": "reference → split, label, order key",
        "Plan": "order keys → cuts, references of each shard",
        "IndexRejects": "",
        "Pack": "",
        "ByShard": "one element for each shard",
        "Write": "reads the files of a shard, writes it",
        "AllRejects": "",
        "Publish": "checks, metadata, renames, _SUCCESS",
    },
    "csv": {
        "Index": "folder, glob → blocks of records",
        "Infer": "blocks → type of each column, from all rows",
        "Layout": "types → features, classes, splits",
        "Prepare": "a mistake ends the job here, nothing written",
        "Stage": "blocks → runs: encoded, sorted, on disk",
        "Plan": "keys of the runs → cuts between shards",
        "SliceRuns": "cuts → a shard's byte range in each run",
        "ByShard": "one element for each shard",
        "Write": "merges the byte ranges of a shard, writes it",
        "AllRejects": "",
        "Publish": "checks, metadata, renames, _SUCCESS",
    },
}
_BOX, _HEIGHT, _GAP, _LANE = 282, 44, 18, 12  # pixels
_ACCENT = "#7c8fe0"
_STYLE = "<style>svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"


class _TopSteps(PipelineVisitor):
    """Collects the labels of the steps that are directly in a pipeline, with those whose results each one takes."""

    def __init__(self) -> None:
        self.arrows: dict[str, set[str]] = {}

    def enter_composite_transform(self, transform_node: AppliedPTransform) -> None:
        self._add(transform_node)

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        self._add(transform_node)

    def _add(self, node: AppliedPTransform) -> None:
        top = node.full_label.split("/")[0]
        if not top:
            return
        sources = {*node.inputs, *(side.pvalue for side in node.side_inputs)}
        producers = {source.producer.full_label.split("/")[0] for source in sources if source.producer is not None}
        self.arrows.setdefault(top, set()).update(producers - {top, ""})


def arrows(command: str) -> dict[str, set[str]]:
    """Return the steps of the graph of a command in their order, each with the steps whose results it takes."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rows.csv").write_text("n\n1\n")
        source = f"{folder}/rows.csv" if command == "csv" else folder
        config = KINDS[command].make_config({"input": source, "output": f"{folder}/out", "name": "n"})
        pipeline = beam.Pipeline()
        KINDS[command].make_job(config).build(pipeline, None)
    found = _TopSteps()
    pipeline.visit(found)
    return found.arrows


def drawn(command: str) -> dict[str, set[str]]:
    """Return `arrows` without steps that only join others; what takes their result takes that of those before them."""
    found = arrows(command)
    for step in [step for step in found if not STEPS[command][step]]:
        before = found.pop(step)
        found = {other: sources - {step} | before if step in sources else sources for other, sources in found.items()}
    return found


def drawing(command: str) -> str:
    """Return the graph of a command as SVG: a box for each step, and a lane for what a step takes from afar.

    Colours are those of the text around it, so that it can be read in light and dark.
    """
    steps = drawn(command)
    names = list(steps)
    top = {name: 1 + number * (_HEIGHT + _GAP) for number, name in enumerate(names)}
    far = {name: steps[name] - set(names[max(0, names.index(name) - 1) : names.index(name)]) for name in names}
    lanes = [name for name in names if far[name]]
    parts = list(_lines(steps, names, top))
    for number, name in enumerate(lanes):
        parts += _lane(_BOX + 12 + number * _LANE, top[name] + _HEIGHT // 2, [top[other] for other in far[name]])
    for name in names:
        parts.append(
            f'<rect x="1" y="{top[name]}" width="{_BOX}" height="{_HEIGHT}" rx="6" fill="none" stroke="currentColor"'
            ' stroke-opacity="0.4"/>'
            f'<text x="12" y="{top[name] + 18}" font-size="13" font-weight="700">{name}</text>'
            f'<text x="12" y="{top[name] + 35}" font-size="12">{html.escape(STEPS[command][name])}</text>'
        )
    width, height = _BOX + 12 + len(lanes) * _LANE, len(names) * (_HEIGHT + _GAP) - _GAP + 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' fill="currentColor" font-family="sans-serif">{_STYLE}{"".join(parts)}</svg>\n'
    )


def _lines(steps: dict[str, set[str]], names: list[str], top: dict[str, int]) -> Iterator[str]:
    """Yield arrows between neighbours."""
    for before, name in pairwise(names):
        if before in steps[name]:
            x, y = _BOX // 2, top[name]
            yield f'<path d="M{x} {y - _GAP}V{y - 6}" stroke="{_ACCENT}" stroke-width="1.5"/>'
            yield f'<path d="M{x - 4} {y - 7}h8l-4 6z" fill="{_ACCENT}"/>'


def _lane(x: int, target: int, sources: list[int]) -> Iterator[str]:
    """Yield a vertical line at `x` from the boxes at `sources` to the middle of a box at `target`."""
    starts = sorted(source + _HEIGHT // 2 + 8 for source in sources)
    yield f'<path d="M{x} {starts[0]}V{target - 6}H{_BOX + 7}" fill="none" stroke="{_ACCENT}" stroke-width="1.5"/>'
    yield f'<path d="M{_BOX + 8} {target - 10}v8l-6 -4z" fill="{_ACCENT}"/>'
    for start in starts:
        yield f'<path d="M{_BOX + 1} {start}H{x}" stroke="{_ACCENT}" stroke-width="1.5"/>'
        yield f'<circle cx="{x}" cy="{start}" r="2.5" fill="{_ACCENT}"/>'


def path_of(command: str) -> Path:
    """Return the path of the drawing of a command."""
    return REPOSITORY / "docs" / f"graph-{command}.svg"


if __name__ == "__main__":
    for each in STEPS:
        path_of(each).write_text(drawing(each))
