"""One CombineFn for all that is merged: any grouping gives the same, and no element is changed."""

from functools import reduce

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from shardmill.pipelines.jobs.runner import make_runner
from shardmill.transforms.workers.elements import MergeFn


def extend(one: list[int], other: list[int]) -> list[int]:
    one += other
    return one


@given(st.lists(st.lists(st.integers(), max_size=3), max_size=8), st.integers(0, 8))
def test_any_grouping_merges_all_and_changes_no_element(elements: list[list[int]], cut: int) -> None:
    before = [list(element) for element in elements]
    combine = MergeFn(list, extend)
    parts = [reduce(combine.add_input, part, combine.create_accumulator()) for part in (elements[:cut], elements[cut:])]

    assert combine.extract_output(combine.merge_accumulators(parts)) == [
        number for element in elements for number in element
    ]
    assert elements == before


def test_nothing_is_the_empty_value() -> None:
    with beam.Pipeline(runner=make_runner(PipelineOptions([]))) as root:
        merged = root | beam.Create([]) | beam.CombineGlobally(MergeFn(list, extend))
        assert_that(merged, equal_to([[]]))
