"""A FlatMap in threads: order, side inputs, tags, errors; and really more than one at a time."""

import threading

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsSingleton, TaggedOutput
from apache_beam.testing.util import assert_that, equal_to

from pipelines.running.runner import make_runner
from transforms.workers.threads import ThreadedFlatMap


def pipeline() -> beam.Pipeline:
    return beam.Pipeline(runner=make_runner(PipelineOptions([])))


def spread(number: int, factor: int) -> list[object]:
    return [number * factor, *([TaggedOutput("odd", number)] if number % 2 else [])]


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_everything_comes_out_once(threads: int) -> None:
    with pipeline() as root:
        factor = root | "Factor" >> beam.Create([10])
        numbers = root | "Numbers" >> beam.Create(range(50))
        out = numbers | beam.ParDo(ThreadedFlatMap(spread, threads), AsSingleton(factor)).with_outputs(
            "odd", main="all"
        )
        assert_that(out["all"], equal_to([10 * n for n in range(50)]), label="All")
        assert_that(out["odd"], equal_to(list(range(1, 50, 2))), label="Odd")


def fail_at_seven(number: int) -> list[int]:
    if number == 7:
        raise ValueError("seven")
    return [number]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_fails_the_job(threads: int) -> None:
    with pytest.raises(ValueError, match="seven"), pipeline() as root:
        _ = root | beam.Create(range(20)) | beam.ParDo(ThreadedFlatMap(fail_at_seven, threads))


def test_calls_overlap() -> None:
    barrier = threading.Barrier(2, timeout=60)  # which one thread alone never passes

    def meet(number: int) -> list[int]:
        barrier.wait()
        return [number]

    function = ThreadedFlatMap(meet, 2)
    function.setup()
    function.start_bundle()
    out = [item for number in range(4) for item in function.process(number)]
    out += [item.value for item in function.finish_bundle()]
    function.teardown()

    assert out == [0, 1, 2, 3]
