"""Elements on all workers, whatever a runner makes of a Reshuffle."""

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from shardmill.pipelines.jobs.runner import make_runner
from shardmill.transforms.workers.elements import Spread, _keyed


def test_all_come_out_once() -> None:
    names = [*map(str, range(100)), "0", "1", "\udcff"]
    with beam.Pipeline(runner=make_runner(PipelineOptions([]))) as pipeline:
        spread = pipeline | beam.Create(names[:-1]) | Spread(str)
        assert_that(spread, equal_to(names[:-1]))
    keys = [_keyed(name, str)[0] for name in names]
    assert keys == [_keyed(name, str)[0] for name in names]
    assert len(set(keys)) == 101


def test_it_is_no_wish() -> None:
    """A runner that knows of Reshuffle may leave it out; a grouping it may not."""
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create(["a"]) | Spread(str)
    urns = {transform.spec.urn for transform in pipeline.to_runner_api().components.transforms.values()}
    assert "beam:transform:group_by_key:v1" in urns
    assert "beam:transform:reshuffle:v1" not in urns
