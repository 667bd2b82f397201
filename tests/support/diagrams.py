"""The drawing of the Beam graphs in docs/: `python -m tests.support.diagrams` writes it.

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

_PREPARE = {"Prepare": "a mistake ends the job here, nothing written"}
_PUBLISH = {"Publish": "checks, metadata, renames, _SUCCESS"}
_BY_SHARD = {"ByShard": "one element for each shard"}
# Explanations by command and phase, in the order of the graph; "" for a step that only joins others, which is not drawn
STEPS = {
    "images": {
        "find": {"Index": "folder, glob, manifest → references to files"},
        "lay out": {"Layout": "counts → splits, classes, columns"},
        "prepare": _PREPARE,
        "cut": {
            "Resolve": "reference → split, label, order key",
            "Plan": "order keys → cuts, references of each shard",
            "IndexRejects": "",
            "Pack": "",
        },
        "write": {**_BY_SHARD, "Write": "reads the files of a shard, writes it", "AllRejects": ""},
        "publish": _PUBLISH,
    },
    "csv": {
        "find": {"Index": "folder, glob → blocks of records", "Infer": "blocks → type of each column, from all rows"},
        "lay out": {"Layout": "types → features, classes, splits"},
        "prepare": _PREPARE,
        "cut": {
            "Stage": "blocks → runs: encoded, sorted, on disk",
            "Plan": "keys of the runs → cuts between shards",
            "SliceRuns": "cuts → a shard's byte range in each run",
        },
        "write": {**_BY_SHARD, "Write": "merges the byte ranges of a shard, writes it", "AllRejects": ""},
        "publish": _PUBLISH,
    },
}
PHASES = tuple(STEPS["csv"])
TITLES = {"images": "whole files", "csv": "records inside files"}
PATH = REPOSITORY / "docs" / "graph.svg"
_LEFT, _BOX, _HEIGHT, _GAP = 70, 300, 44, 18  # pixels
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


def explanations(command: str) -> dict[str, str]:
    """Return the explanations of the steps of a command, in their order."""
    return {step: words for steps in STEPS[command].values() for step, words in steps.items()}


def drawn(command: str) -> dict[str, set[str]]:
    """Return `arrows` without steps that only join others; what takes their result takes that of those before them."""
    found = arrows(command)
    for step in [step for step in found if not explanations(command)[step]]:
        before = found.pop(step)
        found = {other: sources - {step} | before if step in sources else sources for other, sources in found.items()}
    return found


def drawing() -> str:
    """Return both graphs as SVG: a row for each phase, a column for each sort of input, and a box for each step.

    An arrow leads to a step that takes the results of the one above. Colours are those of the text around it.
    """
    parts, place = [], 30
    tops: dict[str, dict[str, int]] = {command: {} for command in STEPS}
    for phase in PHASES:
        parts.append(f'<text x="1" y="{place + 27}" font-size="13" fill="{_ACCENT}">{phase}</text>')
        steps = {command: [step for step, words in STEPS[command][phase].items() if words] for command in STEPS}
        for command, names in steps.items():
            tops[command] |= {name: place + number * (_HEIGHT + _GAP) for number, name in enumerate(names)}
        place += max(map(len, steps.values())) * (_HEIGHT + _GAP)
    for number, command in enumerate(STEPS):
        x = _LEFT + number * (_BOX + _GAP)
        parts.append(f'<text x="{x}" y="14" font-size="13" fill="{_ACCENT}">{TITLES[command]}</text>')
        parts += _column(command, x, tops[command])
    width, height = _LEFT + len(STEPS) * (_BOX + _GAP) - _GAP + 1, place - _GAP + 1
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' fill="currentColor" font-family="sans-serif">{_STYLE}{"".join(parts)}</svg>\n'
    )


def _column(command: str, x: int, tops: dict[str, int]) -> Iterator[str]:
    """Yield the boxes of a command's steps, and arrows between neighbours."""
    for name, top in tops.items():
        yield (
            f'<rect x="{x}" y="{top}" width="{_BOX}" height="{_HEIGHT}" rx="6" fill="none" stroke="currentColor"'
            ' stroke-opacity="0.4"/>'
            f'<text x="{x + 12}" y="{top + 18}" font-size="13" font-weight="700">{name}</text>'
            f'<text x="{x + 12}" y="{top + 35}" font-size="12">{html.escape(explanations(command)[name])}</text>'
        )
    sources, middle = drawn(command), x + _BOX // 2
    for (before, start), (name, end) in pairwise(tops.items()):
        if before in sources[name]:
            yield f'<path d="M{middle} {start + _HEIGHT}V{end - 6}" stroke="{_ACCENT}" stroke-width="1.5"/>'
            yield f'<path d="M{middle - 4} {end - 7}h8l-4 6z" fill="{_ACCENT}"/>'


if __name__ == "__main__":
    PATH.write_text(drawing())
