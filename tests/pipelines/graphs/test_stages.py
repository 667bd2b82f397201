"""How many steps a graph has once a runner has fused it, and how many of them read one collection.

On clusters each step costs a start, and Flink keeps 512 network buffers for each step that reads a collection again
while that is written: with its default memory, and two slots a TaskManager, there are four such readers.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.portable_runner import PortableRunner

from shardmill.pipelines.jobs.registry import KINDS

FUSED = ["--environment_type", "LOOPBACK", "--experiments", "pre_optimize=all"]


def stages_of(command: str, folder: Path, **values: Any) -> tuple[int, int]:
    """How many steps the job of a command has, and of how many a collection is read at most."""
    kind = KINDS[command]
    job = kind.make_job(kind.make_config({"input": str(folder), "output": str(folder), "name": "n", **values}))
    options = PipelineOptions(FUSED)
    pipeline = beam.Pipeline(runner="DirectRunner", options=options)
    job.build(pipeline, None)
    graph = PortableRunner.get_proto_pipeline(pipeline, options)
    steps = [graph.components.transforms[step] for step in graph.root_transform_ids]
    readers = Counter(collection for step in steps for collection in set(step.inputs.values()))
    return len(steps), max(readers.values())


@pytest.mark.parametrize(
    ("command", "most"),
    [("images", 20), ("arrays", 21), ("audio", 20), ("csv", 39), ("jsonl", 39), ("text", 36), ("reshard", 36)],
)
def test_a_graph_has_few_steps_and_no_collection_many_readers(command: str, most: int, tmp_path: Path) -> None:
    steps, readers = stages_of(command, tmp_path)
    assert steps <= most
    assert readers <= 3


def test_with_exact_strata(tmp_path: Path) -> None:
    splits = {"splits": "train=0.8,test=0.2"}
    for command, stratify_by, most in (("images", "label", 38), ("csv", "word", 57)):
        steps, readers = stages_of(command, tmp_path, stratify_by=stratify_by, **splits)
        assert steps <= most
        assert readers <= 3
