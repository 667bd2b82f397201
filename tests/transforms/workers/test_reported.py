"""A step that fails leaves why, whatever it is made of, and steps that do not fail do what they did."""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsSingleton
from apache_beam.testing.util import assert_that, equal_to

from shardmill.errors import ChecksError, UserError
from shardmill.pipelines.jobs.runner import make_runner
from shardmill.transforms.workers import running
from shardmill.transforms.workers.elements import GatherFn
from shardmill.transforms.workers.running import Failure, ReportingFn


class Doubled(beam.DoFn):
    """Has all that a DoFn may have."""

    def setup(self) -> None:
        self.ready = True

    def process(self, element: int, more: int, time: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        assert self.ready
        yield element * 2 + more
        yield beam.pvalue.TaggedOutput("times", str(type(time).__name__))


def graph(pipeline: beam.Pipeline) -> None:
    one = pipeline | "One" >> beam.Create([1])
    numbers = pipeline | "Numbers" >> beam.Create([3, 4])
    both = numbers | "Double" >> beam.ParDo(Doubled(), AsSingleton(one)).with_outputs("times", main="numbers")
    assert_that(both["numbers"], equal_to([7, 9]), "Doubled")
    assert_that(both["times"], equal_to(["Timestamp"] * 2), "Times")
    summed = both["numbers"] | "Map" >> beam.Map(lambda number, more: number + more, AsSingleton(one))
    assert_that(summed | "Sum" >> beam.CombineGlobally(sum), equal_to([18]), "Summed")
    assert_that(
        summed | "Reshuffle" >> beam.Reshuffle() | beam.ParDo(GatherFn(lambda found: [found])) | beam.Map(len),
        equal_to([2]),
        "Gathered",
    )


def ran(build: Any, path: Path, *flags: str) -> Failure | None:
    """What stands in the report of a pipeline."""
    options = PipelineOptions(list(flags))
    pipeline = beam.Pipeline(runner=make_runner(options), options=options)
    build(pipeline)
    running.report_failures(pipeline, str(path))
    try:
        pipeline.run().wait_until_finish()
    except Exception:
        return running.read_failure(str(path))
    assert not path.exists()
    return None


def test_a_graph_does_what_it_did(tmp_path: Path) -> None:
    assert ran(graph, tmp_path / "failure") is None


def fails(error: Exception) -> Any:
    def fail(_: int) -> None:
        raise error

    return fail


class FailsAtTheEnd(beam.DoFn):
    def process(self, element: int) -> None:
        pass

    def finish_bundle(self) -> None:
        raise UserError("at the end")


class FailsAtTheBeginning(FailsAtTheEnd):
    def setup(self) -> None:
        raise ChecksError("at the beginning")


@pytest.mark.parametrize(
    ("step", "kind", "sentence"),
    [
        (beam.Map(fails(UserError("a [while running 'b'] c"))), "UserError", "a [while running 'b'] c"),
        (beam.FlatMap(fails(ChecksError("x: y"))), "ChecksError", "x: y"),
        (beam.Filter(fails(OSError(28, "No space"))), "", "OSError: [Errno 28] No space"),
        (beam.ParDo(FailsAtTheEnd()), "UserError", "at the end"),
        (beam.ParDo(FailsAtTheBeginning()), "ChecksError", "at the beginning"),
    ],
    ids=["map", "flatmap", "filter", "finish_bundle", "setup"],
)
def test_the_error_is_reported(step: Any, kind: str, sentence: str, tmp_path: Path) -> None:
    found = ran(lambda pipeline: pipeline | beam.Create([1]) | "A" >> step, tmp_path / "failure")

    assert found == Failure("A", kind, sentence)
    assert [path.name for path in tmp_path.iterdir()] == ["failure"]


def test_the_error_of_another_process_is_reported(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        _ = pipeline | beam.Create([1]) | "Fails" >> beam.Map(fails(UserError("no such class")))

    found = ran(build, tmp_path / "failure", "--direct_running_mode=multi_processing")

    assert found == Failure("Fails", "UserError", "no such class")


def test_what_cannot_be_reported_is_raised_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    function = ReportingFn(beam.Map(fails(UserError("why"))).fn, "A", str(tmp_path / "file" / "failure"))

    with pytest.raises(UserError, match=r"^why$"):
        list(function.process(1))


def test_what_is_cancelled_is_not_why(tmp_path: Path) -> None:
    path = tmp_path / "failure"
    function = ReportingFn(beam.Map(fails(CancelledError())).fn, "A", str(path))

    with pytest.raises(CancelledError):
        list(function.process(1))
    assert running.read_failure(str(path)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"step": "A"}', '{"step": "A", "kind": 7, "sentence": ""}'])
def test_a_report_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "failure").write_text(text)

    assert running.read_failure(str(tmp_path / "failure")) is None
