"""PTransform that has TensorFlow Transform analyze what was staged: records of runs, read back as record batches."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import AsIter

from shardmill.errors import JobError
from shardmill.transforms.preprocessing.module import PreprocessingModule
from shardmill.transforms.preprocessing.module_files import TRANSFORM_FN
from shardmill.transforms.records.payloads import payloads
from shardmill.transforms.records.run_file import Run, read_keys_at
from shardmill.transforms.records.self_contained import ENTRY
from shardmill.transforms.records.stage import Staged
from shardmill.transforms.stores import storage

_BATCH_BYTES = 4 << 20  # of framed records
_BATCH_ROWS = 1 << 14


@dataclass(frozen=True, slots=True)
class ModuleAnalysis:
    """What is analyzed.

    Attributes:
      module: whose function says how.
      schema: of raw examples, the text of a schema.pbtxt.
      splits: whose examples.
    """

    module: PreprocessingModule
    schema: str
    splits: tuple[str, ...]


@dataclass(eq=False)
class AnalyzeRuns(beam.PTransform):
    """Runs -> the folder that holds what TFT has written, once it has.

    TFT reads its input once for each phase of analyzers. What is held between two is where runs lie, and no example.

    Attributes:
      analysis: what, and how.
      staged: side input: what was seen of the runs' records.
      temporary: the job's temporary directory.
    """

    analysis: ModuleAnalysis
    staged: beam.PCollection[Staged]
    temporary: str

    def expand(self, pcoll: beam.PCollection[Run]) -> beam.PCollection[str]:
        """TFT's own steps, between ours."""
        from shardmill.transforms.preprocessing.tensorflow_module import analyze

        folder = storage.join(self.temporary, "analyzed")
        analysis = self.analysis
        counted = self.staged | "CheckExamples" >> beam.Map(check_examples, analysis.splits)
        batches = (
            pcoll
            | "Runs" >> beam.Reshuffle()  # behind which TFT begins anew for each phase
            | "Read" >> beam.FlatMap(_read, analysis, AsIter(counted)).with_output_types(pa.RecordBatch)
        )
        done = analyze(batches, analysis.module, analysis.schema, storage.join(self.temporary, "tft"), folder)
        return done | "Folder" >> beam.Map(lambda _, found: found, folder).with_output_types(str)


def check_examples(staged: Staged, splits: Iterable[str]) -> dict[str, int]:
    """How many examples are in each of the splits that are analyzed; raises a JobError where there are none."""
    counts = {split: stats.examples for split, stats in staged.stats.items()}
    found = {split: counts.get(split, 0) for split in splits}
    if not any(found.values()):
        named = " or ".join(map(repr, found))
        having = ", ".join(split for split, examples in counts.items() if examples) or "none"
        raise JobError(
            f"--module_file: no example is in split {named}, which is analyzed; those that have examples are {having},"
            f" of {staged.read:,} records that were read; --analyze_splits names others"
        )
    return found


def _read(run: Run, analysis: ModuleAnalysis, counted: Iterable[dict[str, int]]) -> Iterator[pa.RecordBatch]:
    """The record batches of a run, once there are examples: `counted` is waited for."""
    from shardmill.transforms.preprocessing.tensorflow_module import decoder

    decode = decoder(analysis.schema)
    for records in records_of(run, analysis.splits):
        yield decode(records)


def records_of(
    run: Run, splits: Iterable[str], at_once: int = _BATCH_BYTES, most: int = _BATCH_ROWS
) -> Iterator[list[bytes]]:
    """The records of `splits` in a run, some at once.

    Args:
      run: where they lie.
      splits: by their names.
      at_once: bytes of them, about.
      most: and how many.
    """
    wanted = set(splits)
    gap = ENTRY.itemsize if run.self_contained else 0
    _, _, entries = read_keys_at(run.path, run.index_offset, run.rows)
    sizes = entries.astype(np.int64)
    place = first = 0
    for part in run.parts:
        mine = sizes[first : first + part.rows]
        first += part.rows
        if part.group in wanted:
            yield from _pieces(run.path, place, mine, gap, at_once, most)
        place += part.size_bytes + gap * part.rows


def _pieces(path: str, place: int, sizes: np.ndarray, gap: int, at_once: int, most: int) -> Iterator[list[bytes]]:
    ends = np.cumsum(sizes + gap)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = min(max(int(np.searchsorted(ends, before + at_once, "right")), start + 1), start + most, len(sizes))
        size = int(ends[stop - 1]) - before
        yield payloads(bytes(storage.read_range(path, place + before, size)), sizes[start:stop], gap)
        start = stop


def analyzed_files(folder: str) -> tuple[dict[str, bytes], str]:
    """What TFT wrote to a folder, by names in it, and the digest of what it found."""
    from shardmill.transforms.preprocessing.tensorflow_module import digest_of

    files = {name: storage.read_bytes(storage.join(folder, name)) for name, _ in storage.list_files(folder)}
    model = TRANSFORM_FN.rpartition("/")[2] + "/"
    return files, digest_of({name.removeprefix(model): data for name, data in files.items() if name.startswith(model)})
