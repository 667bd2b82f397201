"""WriteDataset: a PCollection of any pipeline as a version of a data set, with a lease that its steps take and end."""

import os
import threading
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import StandardOptions

from shardmill.addons import registry
from shardmill.errors import UserError
from shardmill.metadata import file_names
from shardmill.pipelines.config.flags import to_plain
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.config.records import RowsConfig
from shardmill.pipelines.jobs import runner
from shardmill.pipelines.jobs.job import check_output, check_version, open_published
from shardmill.pipelines.jobs.outcome import begin_record, recover, take_lease, write_page_of
from shardmill.pipelines.jobs.record_graphs import Records
from shardmill.pipelines.jobs.record_kinds import EXAMPLES, ROWS
from shardmill.transforms.publishing import lease
from shardmill.transforms.publishing.catalog import read_latest
from shardmill.transforms.publishing.lease import Lease
from shardmill.transforms.stores import storage


@dataclass(frozen=True, slots=True)
class WrittenVersion:
    """A version that `WriteDataset` has published.

    Attributes:
        directory: folder of the version.
        version: for example `1.0.0`.
        splits: numbers of examples by split, in the splits' order.
        rejected: number of rejected rows.
        notices: sentences about the rows, as in a command's summary.
    """

    directory: str
    version: str
    splits: dict[str, int]
    rejected: int
    notices: tuple[str, ...] = field(default=(), repr=False)


_written: "WeakKeyDictionary[beam.Pipeline, set[str]]" = WeakKeyDictionary()  # folders of the data sets of a pipeline


class WriteDataset(beam.PTransform):
    """Write a PCollection as a version of a data set: shards that are balanced, shuffled and checked.

    ```python
    with beam.Pipeline() as pipeline:
        rows = pipeline | beam.Create([{"id": 1, "text": "a"}, {"id": 2, "text": "b"}])
        rows | shardmill.beam.WriteDataset("datasets", "letters", key="id")
    ```

    Elements are dictionaries, rows with a schema (`beam.Row`, NamedTuples, dataclasses), `pyarrow.RecordBatch` or
    `Table`, or `tf.train.Example`, serialized or not. All are of one kind. The same rows give the same shards as a
    command: dictionaries as `shardmill jsonl`, batches as `shardmill parquet`, examples as `shardmill reshard`.

    The result is a PCollection of one `WrittenVersion`, once it is published.
    """

    def __init__(
        self,
        output: str | os.PathLike[str],
        name: str,
        *,
        elements: Literal["rows", "examples"] | None = None,
        **options: Any,
    ) -> None:
        """Set up the transform; options are checked when it is applied to a PCollection.

        Args:
            output: folder of data sets, local or in a store.
            name: name of the data set.
            elements: `examples` if the elements are tf.train.Examples and the PCollection's type does not say so;
                None to go by its type.
            options: options by flag name, as those of `shardmill.convert`: `version`, `splits`, `label`, `key`, …

        Raises:
            UserError: when it is applied: a mistake in an option, an unbounded PCollection, or the version exists; when
                the pipeline runs: a mistake in the rows. Nothing is published.
            JobError: when the pipeline runs: too many rows were rejected, or another job writes the version.
        """
        super().__init__()
        if elements not in (None, "rows", "examples"):
            raise UserError(f"elements={elements!r}: expected 'rows' or 'examples'")
        self._elements = elements
        self._options = {**options, "output": output, "name": name}

    def expand(self, pcoll: beam.PCollection[Any]) -> beam.PCollection[WrittenVersion]:
        """Check the options, and build the job of the commands that read records, with the elements as its input."""
        options = pcoll.pipeline.options
        if not pcoll.is_bounded:
            raise UserError("the PCollection is unbounded, and a version has all rows; write the rows of a bounded one")
        config = self._make_config(pcoll.element_type)
        runner.check_running_mode(options)
        runner.check_dataflow_paths(config, options)
        check_output(config, config.overwrite)
        check_version(config)
        written = _written.setdefault(pcoll.pipeline, set())
        if (parent := os.path.realpath(config.parent) if storage.is_local(config.parent) else config.parent) in written:
            raise UserError(
                f"this pipeline writes {config.parent} already, and it can write one version of that; give another"
                " name, make one PCollection of both with beam.Flatten, or run another pipeline"
            )
        written.add(parent)
        claim = beam.Map(lambda _, *claimed: claim_version(*claimed), config, _is_local(pcoll.pipeline))
        ready = pcoll.pipeline | "Once" >> beam.Create([None]) | "Claim" >> claim.with_output_types(None)
        published = Records(config).build(pcoll.pipeline, None, rows=pcoll, ready=ready)
        end = beam.Map(lambda _, config: end_claim(config), config)
        return published | "Count" >> beam.combiners.Count.Globally() | "End" >> end.with_output_types(WrittenVersion)

    def _make_config(self, element_type: Any) -> RowsConfig:
        kind = EXAMPLES if (self._elements or _kind_of_elements(element_type)) == "examples" else ROWS
        kind.check_installed()
        values = {name: to_plain(value) for name, value in self._options.items()}
        config = kind.make_config(values, rows_source="PCollection")
        assert isinstance(config, RowsConfig)
        if config.stream is not None:
            config.stream.check()
        if config.analysis is not None and config.analysis.plans_first:
            raise UserError(
                f"{config.analysis.plans_first}, which are known only when the pipeline runs; leave it out"
                + ", or give --transform" * registry.has_flag("transform")
            )
        record = replace(begin_record(config.name, config.version), before=read_latest(config.parent))
        return replace(config, record=record)


def _kind_of_elements(kind: Any) -> str:
    """Return the kind of elements of a PCollection of type `kind`; raises UserError if it holds none of the kinds."""
    if not isinstance(kind, type):
        return "rows"
    if issubclass(kind, bytes) or hasattr(kind, "SerializeToString"):
        return "examples"
    if issubclass(kind, str | int | float | list | pa.Array) or (
        issubclass(kind, tuple) and not hasattr(kind, "_fields")
    ):
        raise UserError(
            f"the elements of the PCollection are of type {kind.__name__}; expected dictionaries, rows with a schema,"
            " Arrow record batches or tables, or tf.train.Examples"
        )
    return "rows"


def _is_local(pipeline: beam.Pipeline) -> bool:
    named = pipeline.options.view_as(StandardOptions).runner
    return runner.is_local(pipeline.options) and type(pipeline.runner).__name__ in (named, *runner.LOCAL)


class _Held(NamedTuple):
    """A lease that this process holds for a pipeline that runs in it, and the thread that runs the pipeline."""

    lease: Lease
    thread: threading.Thread


_held: dict[str, _Held] = {}  # by version directory


def claim_version(config: JobConfig, is_local: bool) -> None:
    """Take the lease of the version for the job of `config`, unless it has it; complete what a dead job had begun.

    The lease of a pipeline that `is_local` ends with this process. If the pipeline fails, the next one that this thread
    runs may take it. Any other lease ends six hours after the pipeline last wrote a file.

    Raises:
        UserError: the version is published.
        LockedError: another job builds it.
    """
    if lease.is_lease_held(config.directory, config.job):
        return
    earlier = _held.get(config.directory)
    if earlier is not None and (earlier.thread is threading.current_thread() or not earlier.thread.is_alive()):
        _held.pop(config.directory).lease.release()  # a local pipeline has ended if its thread runs another
    taken = take_lease(config, detached=not is_local)
    try:
        if file_names.PUBLISHING in check_output(config, config.overwrite):
            recover(config)
    except BaseException:
        taken.release()
        raise
    storage.make_directory(storage.join(config.directory, config.temporary))
    if is_local:
        _held[config.directory] = _Held(taken, threading.current_thread())
    else:
        taken.leave()


def end_claim(config: JobConfig) -> WrittenVersion:
    """End the lease of a published version, write its page, and return the version."""
    if (held := _held.pop(config.directory, None)) is not None:
        held.lease.release()
    lease.end_lease(config.directory, config.job)
    published = open_published(config)
    write_page_of(config.directory)
    splits, rejected = dict(published.splits), published.rejected
    return WrittenVersion(config.directory, config.version, splits, rejected, published.notices)
