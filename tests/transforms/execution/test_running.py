"""Tests of transforms/execution/running.py."""

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsSingleton, TaggedOutput
from apache_beam.testing.util import assert_that, equal_to

from shardmill.errors import ChecksError, UserError
from shardmill.pipelines.jobs import launch as display
from shardmill.pipelines.jobs.runner import make_runner
from shardmill.transforms.execution import running
from shardmill.transforms.workers.elements import GatherFn


def test_counts_of_all_workers_add_up(tmp_path: Path) -> None:
    running.report_plan(str(tmp_path), 100)
    together = threading.Barrier(3)  # so that no thread gets the identifier of one that has ended

    def work() -> None:
        reporter = running.ProgressReporter(str(tmp_path))
        for _ in range(10):
            reporter.add(2, 30)
        reporter.flush()
        together.wait(10)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert running.read_progress(str(tmp_path)) == running.Progress(60, 900, 100)


def test_files_under_way_are_not_read(tmp_path: Path) -> None:
    assert running.read_progress(str(tmp_path)) == running.Progress()
    (tmp_path / "1-2.json.tmp").write_text('{"examples": ')

    assert running.read_progress(str(tmp_path)) == running.Progress()


@pytest.mark.parametrize(
    ("counts", "phase", "line"),
    [
        (running.Progress(), "listing and planning", "flowers: 7 s, listing and planning"),
        (running.Progress(0, 0, 1000), "writing", "flowers: 7 s, writing 0 of 1,000 examples"),
        (
            running.Progress(500, 10**7, 1000),
            "writing",
            "flowers: 7 s, writing 500 of 1,000 examples (100 examples/s, 2 MB/s, 5 s left)",
        ),
        (
            running.Progress(1000, 10**8, 1000),
            "publishing",
            "flowers: 7 s, publishing 1,000 of 1,000 examples (200 examples/s, 20 MB/s, 0 s left)",
        ),
    ],
)
def test_lines_of_a_log(counts: running.Progress, phase: str, line: str) -> None:
    assert display.progress_phase(counts) == phase
    assert display.progress_line("flowers", counts, 7.2, 5.0) == line


def test_no_rate_before_there_is_one() -> None:
    assert display.progress_rate(running.Progress(), 5.0) == ""
    assert display.progress_rate(running.Progress(5, 5), 0.0) == ""
    assert display.progress_line("f", running.Progress(5, 5, 10), 1.0, 0.0) == "f: 1 s, writing 5 of 10 examples"


def test_a_display_without_a_terminal_draws_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with display.ProgressDisplay(str(tmp_path), "flowers") as shown:
        running.report_plan(str(tmp_path), 10)
        shown.update()

    assert capsys.readouterr().err == ""


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


def ran(build: Any, path: Path, *flags: str) -> running.Failure | None:
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

    assert found == running.Failure("A", kind, sentence)
    assert [path.name for path in tmp_path.iterdir()] == ["failure"]


def test_the_error_of_another_process_is_reported(tmp_path: Path) -> None:
    step = "Fails" >> beam.Map(fails(UserError("no such class")))
    flag = "--direct_running_mode=multi_processing"

    found = ran(lambda pipeline: pipeline | beam.Create([1]) | step, tmp_path / "failure", flag)

    assert found == running.Failure("Fails", "UserError", "no such class")


def test_what_cannot_be_reported_is_raised_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    function = running.ReportingFn(beam.Map(fails(UserError("why"))).fn, "A", str(tmp_path / "file" / "failure"))

    with pytest.raises(UserError, match=r"^why$"):
        list(function.process(1))


def test_what_is_cancelled_is_not_why(tmp_path: Path) -> None:
    path = tmp_path / "failure"
    function = running.ReportingFn(beam.Map(fails(CancelledError())).fn, "A", str(path))

    with pytest.raises(CancelledError):
        list(function.process(1))
    assert running.read_failure(str(path)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"step": "A"}', '{"step": "A", "kind": 7, "sentence": ""}'])
def test_a_report_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "failure").write_text(text)

    assert running.read_failure(str(tmp_path / "failure")) is None


def pipeline() -> beam.Pipeline:
    return beam.Pipeline(runner=make_runner(PipelineOptions([])))


def spread(number: int, factor: int) -> list[object]:
    return [number * factor, *([TaggedOutput("odd", number)] if number % 2 else [])]


@pytest.mark.parametrize("threads", [0, 1, 3, running.TWICE_THE_CORES])
def test_everything_comes_out_once(threads: int) -> None:
    with pipeline() as root:
        factor = root | "Factor" >> beam.Create([10])
        numbers = root | "Numbers" >> beam.Create(range(50))
        out = numbers | beam.ParDo(
            running.ThreadedFlatMap(spread, running.Threads(threads)), AsSingleton(factor)
        ).with_outputs("odd", main="all")
        assert_that(out["all"], equal_to([10 * n for n in range(50)]), label="All")
        assert_that(out["odd"], equal_to(list(range(1, 50, 2))), label="Odd")


def fail_at_seven(number: int) -> list[int]:
    if number == 7:
        raise ValueError("seven")
    return [number]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_fails_the_job(threads: int) -> None:
    with pytest.raises(ValueError, match="seven"), pipeline() as root:
        _ = root | beam.Create(range(20)) | beam.ParDo(running.ThreadedFlatMap(fail_at_seven, running.Threads(threads)))


def test_calls_overlap() -> None:
    barrier = threading.Barrier(2, timeout=60)  # which one thread alone never passes

    def meet(number: int) -> list[int]:
        barrier.wait()
        return [number]

    function = running.ThreadedFlatMap(meet, running.Threads(2))
    function.setup()
    function.start_bundle()
    out = [item for number in range(4) for item in function.process(number)]
    out += [item.value for item in function.finish_bundle()]
    function.teardown()

    assert out == [0, 1, 2, 3]


class Counting:
    """Items that remember how many were taken."""

    def __init__(self, number: int) -> None:
        self.number, self.taken = number, 0

    def __iter__(self) -> Iterator[int]:
        for item in range(self.number):
            self.taken += 1
            yield item


def square(value: int) -> int:
    return value * value


@pytest.mark.parametrize("window", [1, 2, 7, 100])
def test_map_in_order(window: int) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert list(running.map_in_order(pool, square, range(50), window)) == [square(value) for value in range(50)]
        assert list(running.map_in_order(pool, square, [], window)) == []
    assert list(running.map_in_order(None, square, range(5), window)) == [0, 1, 4, 9, 16]


def test_results_keep_their_order_when_the_first_is_last_to_end() -> None:
    others = threading.Event()

    def slow_first(value: int) -> int:
        if value == 0:
            assert others.wait(10)
        elif value == 3:
            others.set()
        return value

    with ThreadPoolExecutor(4) as pool:
        assert list(running.map_in_order(pool, slow_first, range(8), 4)) == list(range(8))


def test_map_in_order_holds_no_more_than_its_window() -> None:
    items = Counting(100)
    with ThreadPoolExecutor(2) as pool:
        results = running.map_in_order(pool, square, items, 5)
        for index in range(20):
            assert next(results) == square(index)
            assert items.taken <= index + 5


def test_an_error_comes_out_and_the_rest_is_cancelled() -> None:
    raised = threading.Event()
    calls: list[int] = []

    def fail_first(value: int) -> int:
        calls.append(value)
        if value == 0:
            raise ValueError("zero")
        assert raised.wait(10)
        return value

    items = Counting(1000)
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(ValueError, match="zero"):
            next(running.map_in_order(pool, fail_first, items, 5))
        raised.set()
    assert items.taken == 5
    assert len(calls) <= 2  # the one that failed, and the one that had begun
