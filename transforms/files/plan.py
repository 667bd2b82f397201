"""PTransforms that divide planned files into shards, with exact strata or in path order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import AsSingleton

import shardmill.transforms.workers.elements  # noqa: F401, registers the coder of batches
from shardmill.transforms.columns.arrow import BATCH_ROWS, concatenate, split_large_batch
from shardmill.transforms.execution.running import map_in_order
from shardmill.transforms.files.encoding import MEMORY_FACTOR, FileEncoder
from shardmill.transforms.files.references import shard_columns
from shardmill.transforms.files.shards import Task, make_empty_stored, size_bytes, split_into_tasks
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.options.job_options import CONTENT, SplitOptions
from shardmill.transforms.shards import balance
from shardmill.transforms.shards.balance import ShardKey, cut_into_shards, rows_by_group
from shardmill.transforms.shards.cuts import DivideKeys, FindExampleCuts
from shardmill.transforms.shards.divisions import Divisions, Grouped, divide_into_parts
from shardmill.transforms.stores.patience import call_with_retries
from shardmill.transforms.strata import cut_strata
from shardmill.transforms.workers.elements import GatherFn
from shardmill.transforms.workers.resources import core_count, memory_budget

_ROWS_A_SHARD = 256  # below which a batch of one shard is mostly metadata
_MOST_ROWS = 200_000  # gathered at once: about 20 MB, several times over while they are dealt out


@dataclass(eq=False)
class GroupByContent(beam.PTransform):
    """Assign splits so that files that are stored as equal values are in one: batches of schema PLANNED -> the same.

    Each file is read and encoded for it, and once more to be written.
    """

    layout: beam.PCollection[Layout]  # side input
    make_encoder: Callable[[Any], FileEncoder]  # given the layout
    split_seed: int
    files_per_task: int
    threads: int  # that encode in each worker; 0 uses all cores

    def expand(self, pcoll: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[pa.RecordBatch]:
        return pcoll | "Group" >> beam.Map(self._group, AsSingleton(self.layout)).with_output_types(pa.RecordBatch)

    def _group(self, batch: pa.RecordBatch, layout: Layout) -> pa.RecordBatch:
        if CONTENT in layout.columns:  # which decides then
            return batch
        digest = partial(call_with_retries, _digest_task, self.make_encoder(layout))
        threads = self.threads or core_count()
        tasks = split_into_tasks(batch, make_empty_stored(len(batch)), self.files_per_task)
        with ThreadPoolExecutor(threads, "shardmill-digest") as pool:
            digests = chain.from_iterable(map_in_order(pool if threads > 1 else None, digest, tasks, threads + 1))
            groups = [
                name if digest is None else f"xxh3:{digest.hex()}"
                for name, digest in zip(batch["name"].to_pylist(), digests, strict=True)
            ]
        assert layout.fractions is not None
        keys = balance.split_keys(groups, self.split_seed)
        splits = balance.assign_splits(keys, balance.split_thresholds(layout.fractions))
        batch = _replace_column(batch, "split_key", keys)  # for strata
        return _replace_column(batch, "split", [layout.splits[index] for index in splits])


def _digest_task(encoder: FileEncoder, task: Task) -> list[bytes | None]:
    with memory_budget().take(MEMORY_FACTOR * size_bytes(task)):
        return encoder.digest_values(task[0])


@dataclass(eq=False)
class AssignStrata(beam.PTransform):
    """Set the splits of planned files so that each split has its share of every class: batches -> (batches, strata)."""

    split: SplitOptions

    # Two PCollections; Beam wants one in an annotation
    def expand(self, pcoll: beam.PCollection[pa.RecordBatch]) -> Any:
        strata = pcoll | "CutStrata" >> cut_strata(self.split, _group_by_stratum)
        set_split = beam.Map(_set_split, AsSingleton(strata), [name for name, _ in self.split.splits or ()])
        return pcoll | "SetSplit" >> set_split.with_output_types(pa.RecordBatch), strata


@dataclass(eq=False)
class KeepOrder(beam.PTransform):
    """Give planned files, on one worker, keys that sort by line of the manifest, or by name."""

    def expand(self, pcoll: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[pa.RecordBatch]:
        keyed = pcoll | "ToOneKey" >> beam.WithKeys(0).with_output_types(tuple[int, pa.RecordBatch])
        number = beam.FlatMapTuple(_number_rows).with_output_types(pa.RecordBatch)
        return keyed | "Gather" >> beam.GroupByKey() | "Number" >> number


@dataclass(eq=False)
class PlanShards(beam.PTransform):
    """Divide planned files into each shard's references: batches -> (shards, divisions)."""

    shard_count: Callable[[str, int, int], int]  # number of shards, from a split's name, examples and bytes
    by: str = "examples"  # balance shards by `examples` or `bytes`

    # Two PCollections; Beam wants one in an annotation
    def expand(self, pcoll: beam.PCollection[pa.RecordBatch]) -> Any:
        if self.by == "bytes":
            divisions = pcoll | "CutBytes" >> DivideKeys(_group_by_split, partial(divide_into_parts, self.shard_count))
        else:
            ranks = partial(cut_into_shards, self.shard_count)
            divisions = pcoll | "CutExamples" >> FindExampleCuts(_group_by_split, ranks, repeats=False)
        # Batches are gathered before their rows are dealt out: one of 10,000 rows over 1,000 shards would make crumbs
        # of 10 rows.
        deal_out = GatherFn(lambda parts, found: distribute(concatenate(parts), found), len, _limit_rows)
        gather = beam.ParDo(deal_out, AsSingleton(divisions))
        select = beam.Map(lambda batch: batch.select([*shard_columns(batch), "split"]))
        selected = pcoll | "Select" >> select.with_output_types(pa.RecordBatch)
        shards = selected | "Distribute" >> gather.with_output_types(tuple[ShardKey, pa.RecordBatch])
        return shards, divisions


def _limit_rows(divisions: Divisions) -> int:
    return min(_ROWS_A_SHARD * sum(division.parts for division in divisions.values()), _MOST_ROWS)


def distribute(batch: pa.RecordBatch, divisions: Divisions) -> Iterator[tuple[ShardKey, pa.RecordBatch]]:
    """Yield the planned files of a batch by shard, as one batch per shard, ordered by split and shard."""
    names, codes, shard = _find_parts(batch, "split", _group_by_split, divisions)
    order = np.lexsort((shard, codes))
    batch, codes, shard = batch.select(shard_columns(batch)).take(pa.array(order)), codes[order], shard[order]
    starts = np.flatnonzero(np.concatenate(([True], (np.diff(codes) != 0) | (np.diff(shard) != 0)))).tolist()
    for start, stop in zip(starts, [*starts[1:], len(codes)], strict=True):
        for part in split_large_batch(batch.slice(start, stop - start)):
            yield (names[codes[start]], int(shard[start])), part


def _dictionary_encode(batch: pa.RecordBatch, name: str) -> tuple[list[str], np.ndarray]:
    """Return a string column's distinct values in order of appearance, and each row's index into them: int32, (n,)."""
    encoded = batch[name].dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()


def _group_rows(by: str, key: str, batch: pa.RecordBatch) -> Grouped:
    groups, codes = _dictionary_encode(batch, by)
    keys, ties, sizes = (batch[name].to_numpy() for name in (key, "tie", "size"))
    each = zip(groups, rows_by_group(codes, len(groups)), strict=True)
    return {group: (keys[rows], ties[rows], sizes[rows]) for group, rows in each}


_group_by_split = partial(_group_rows, "split", "key")
_group_by_stratum = partial(_group_rows, "stratum", "split_key")


def _find_parts(
    batch: pa.RecordBatch, by: str, group: Callable[[pa.RecordBatch], Grouped], divisions: Divisions
) -> tuple[list[str], np.ndarray, np.ndarray]:
    groups, codes = _dictionary_encode(batch, by)
    parts = np.zeros(len(codes), np.int64)
    rows_of = rows_by_group(codes, len(groups))
    for name, rows, (keys, ties, _) in zip(groups, rows_of, group(batch).values(), strict=True):
        parts[rows] = divisions[name].cuts.find_parts(keys, ties)
    return groups, codes, parts


def _set_split(batch: pa.RecordBatch, divisions: Divisions, splits: Sequence[str]) -> pa.RecordBatch:
    *_, parts = _find_parts(batch, "stratum", _group_by_stratum, divisions)
    batch = _replace_column(batch, "split", [splits[index] for index in parts])
    batch = _replace_column(batch, "stratum", [None] * len(parts))
    return _replace_column(batch, "split_key", [None] * len(parts))


def _number_rows(_: int, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    batch = concatenate(parts)
    order = pc.sort_indices(batch, sort_keys=[("line", "ascending"), ("name", "ascending")])
    batch = batch.take(order)
    step = (1 << 64) // (len(batch) + 1)  # spread over all bins of the histogram
    batch = _replace_column(batch, "key", np.arange(len(batch), dtype=np.uint64) * np.uint64(step))
    for start in range(0, len(batch), BATCH_ROWS):
        yield from split_large_batch(batch.slice(start, BATCH_ROWS))


def _replace_column(batch: pa.RecordBatch, name: str, values: Any) -> pa.RecordBatch:
    index = batch.schema.get_field_index(name)
    return batch.set_column(index, batch.schema.field(index), pa.array(values, batch.schema.field(index).type))
