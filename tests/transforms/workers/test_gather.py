"""Elements gathered within a bundle: nothing is lost, nothing is larger than asked, and side inputs reach the end of a
bundle."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsSingleton
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from shardmill.pipelines.jobs.runner import make_runner
from shardmill.transforms.workers.elements import GatherFn


def as_tuple(elements: list[int], *side: int) -> Iterator[tuple[int, ...]]:
    yield (*elements, *side)


def gathered(elements: list[int], gather: GatherFn, *side: Any) -> list[Any]:
    gather.start_bundle()
    emitted = [made for element in elements for made in gather.process(element, *side)]
    return [*emitted, *(windowed.value for windowed in gather.finish_bundle())]


@given(st.lists(st.integers(0, 9)), st.integers(1, 20))
def test_all_come_out_in_order_and_none_is_too_large(elements: list[int], most: int) -> None:
    made = gathered(elements, GatherFn(as_tuple, int, most))

    assert [element for group in made for element in group] == elements
    assert all(sum(group) <= most or len(group) == 1 for group in made)
    assert all(sum(one) + other[0] > most for one, other in pairwise(made))


def test_a_bundle_is_one_without_a_limit_and_none_without_elements() -> None:
    assert gathered([3, 1, 2], GatherFn(as_tuple)) == [(3, 1, 2)]
    assert gathered([], GatherFn(as_tuple)) == []


def test_a_second_bundle_begins_with_nothing() -> None:
    gather = GatherFn(as_tuple, int, 3)

    assert gathered([1, 2, 3], gather) == gathered([1, 2, 3], gather) == [(1, 2), (3,)]


def most_of(limit: int) -> int:
    return limit


def test_side_inputs_say_the_limit_and_reach_what_is_made() -> None:
    with beam.Pipeline(runner=make_runner(PipelineOptions([]))) as root:
        limit = root | "Limit" >> beam.Create([2])
        numbers = root | "Numbers" >> beam.Create([[1, 1, 1]]) | beam.FlatMap(lambda each: each)
        made = numbers | beam.ParDo(GatherFn(as_tuple, int, most_of), AsSingleton(limit))
        assert_that(made, equal_to([(1, 1, 2), (1, 2)]))
