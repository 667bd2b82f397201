"""Tests of transforms/workers/elements.py."""

import ast
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsSingleton
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from shardmill.pipelines.jobs.runner import make_runner
from shardmill.transforms.findings import merge_all
from shardmill.transforms.workers import elements
from shardmill.transforms.workers.elements import GatherFn, MergeFn, Spread, _key_by_name
from tests.test_architecture import PATHS, imported, parsed


def makes_batches(module: str) -> bool:
    """Whether a module of PTransforms says anything of batches."""
    libraries = {name.split(".")[0] for name in imported(module)}
    return (
        module != "shardmill.transforms.workers.elements"
        and "pa.RecordBatch" in ast.unparse(parsed(module))
        and "apache_beam" in libraries
    )


def brought(module: str) -> set[str]:
    """What an import of `module` imports of ours."""
    found, new = set[str](), {module}
    while new:
        found |= new
        new = {name for each in new for name in imported(each) if name in PATHS} - found
    return found


def test_every_module_that_makes_batches_registers_their_coder() -> None:
    makers = {module for module in PATHS if makes_batches(module)}

    assert {
        "shardmill.transforms.inputs.sources",
        "shardmill.transforms.files.plan",
        "shardmill.transforms.records.staging",
    } <= makers
    assert [module for module in sorted(makers) if "shardmill.transforms.workers.elements" not in brought(module)] == []


BATCHES = [pa.RecordBatch.from_pydict({"n": [number] * 1000}) for number in range(3)]


def test_batches_of_a_job_are_kept_on_its_disk_and_those_of_others_are_not() -> None:
    with elements.keep_on_disk():
        mine = beam.coders.registry.get_coder(pa.RecordBatch)
        with elements.keep_on_disk():
            inner = beam.coders.registry.get_coder(pa.RecordBatch)
            places = [mine.encode(batch) for batch in BATCHES]
            assert [inner.encode(batch)[8:16] for batch in BATCHES] != [place[8:16] for place in places]
        of_another = beam.coders.registry.get_coder(pa.RecordBatch)
        assert list(map(len, places)) == [32] * 3
        assert [of_another.decode(place) for place in places] == BATCHES
        in_thread = ThreadPoolExecutor(1).submit(beam.coders.registry.get_coder, pa.RecordBatch).result()

    assert all(len(in_thread.encode(batch)) > 32 for batch in BATCHES)
    assert [in_thread.decode(in_thread.encode(batch)) for batch in BATCHES] == BATCHES
    with pytest.raises(KeyError):
        mine.decode(places[0])


def test_a_pipeline_of_batches_is_read_from_its_proto() -> None:
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create(BATCHES) | beam.Map(lambda batch: batch).with_output_types(pa.RecordBatch)
    beam.Pipeline.from_runner_api(pipeline.to_runner_api(), pipeline.runner, PipelineOptions([]))


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


def test_bundles() -> None:
    assert gathered([3, 1, 2], GatherFn(as_tuple)) == [(3, 1, 2)]
    assert gathered([], GatherFn(as_tuple)) == []
    gather = GatherFn(as_tuple, int, 3)
    assert gathered([1, 2, 3], gather) == gathered([1, 2, 3], gather) == [(1, 2), (3,)]


def test_side_inputs_say_the_limit_and_reach_what_is_made() -> None:
    with beam.Pipeline(runner=make_runner(PipelineOptions([]))) as root:
        limit = root | "Limit" >> beam.Create([2])
        numbers = root | "Numbers" >> beam.Create([[1, 1, 1]]) | beam.FlatMap(lambda each: each)
        made = numbers | beam.ParDo(GatherFn(as_tuple, int, int), AsSingleton(limit))
        assert_that(made, equal_to([(1, 1, 2), (1, 2)]))


@given(st.lists(st.lists(st.integers(), max_size=3), max_size=8), st.integers(0, 8))
def test_any_grouping_merges_all_and_changes_no_element(elements: list[list[int]], cut: int) -> None:
    before = [list(element) for element in elements]
    combine = MergeFn(list)
    parts = [reduce(combine.add_input, part, combine.create_accumulator()) for part in (elements[:cut], elements[cut:])]

    every = [number for element in elements for number in element]
    assert combine.extract_output(combine.merge_accumulators(parts)) == merge_all(elements, list) == every
    assert elements == before


def test_all_come_out_once() -> None:
    names = [*map(str, range(100)), "0", "1", "\udcff"]
    with beam.Pipeline(runner=make_runner(PipelineOptions([]))) as pipeline:
        spread = pipeline | beam.Create(names[:-1]) | Spread(str)
        assert_that(spread, equal_to(names[:-1]))
    keys = [_key_by_name(name, str)[0] for name in names]
    assert keys == [_key_by_name(name, str)[0] for name in names]
    assert len(set(keys)) == 101


def test_it_is_no_wish() -> None:
    """A runner that knows of Reshuffle may leave it out; a grouping it may not."""
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create(["a"]) | Spread(str)
    urns = {transform.spec.urn for transform in pipeline.to_runner_api().components.transforms.values()}
    assert "beam:transform:group_by_key:v1" in urns
    assert "beam:transform:reshuffle:v1" not in urns
