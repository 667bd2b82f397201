"""A FlatMap and a map in threads: order, side inputs, tags, errors; and really more than one at a time."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsSingleton, TaggedOutput
from apache_beam.testing.util import assert_that, equal_to

from shardmill.pipelines.jobs.runner import make_runner
from shardmill.transforms.workers.running import TWICE_THE_CORES, ThreadedFlatMap, map_in_order


def pipeline() -> beam.Pipeline:
    return beam.Pipeline(runner=make_runner(PipelineOptions([])))


def spread(number: int, factor: int) -> list[object]:
    return [number * factor, *([TaggedOutput("odd", number)] if number % 2 else [])]


@pytest.mark.parametrize("threads", [0, 1, 3, TWICE_THE_CORES])
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
        assert list(map_in_order(pool, square, range(50), window)) == [square(value) for value in range(50)]
        assert list(map_in_order(pool, square, [], window)) == []


def test_map_in_order_inline() -> None:
    assert list(map_in_order(None, square, range(5), 3)) == [0, 1, 4, 9, 16]


def test_results_keep_their_order_when_the_first_is_last_to_end() -> None:
    others = threading.Event()

    def slow_first(value: int) -> int:
        if value == 0:
            assert others.wait(10)
        elif value == 3:
            others.set()
        return value

    with ThreadPoolExecutor(4) as pool:
        assert list(map_in_order(pool, slow_first, range(8), 4)) == list(range(8))


def test_map_in_order_holds_no_more_than_its_window() -> None:
    items = Counting(100)
    with ThreadPoolExecutor(2) as pool:
        results = map_in_order(pool, square, items, 5)
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
            next(map_in_order(pool, fail_first, items, 5))
        raised.set()
    assert items.taken == 5
    assert len(calls) <= 2  # the one that failed, and the one that had begun
