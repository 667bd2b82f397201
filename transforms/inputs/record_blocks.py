"""Choose the files that hold records, and divide them into blocks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import apache_beam as beam

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import ELEMENT_BYTES
from shardmill.transforms.formats.format import (
    BlockRef,
    FileRef,
    RecordFormat,
    RecordNotice,
    SkippedItems,
    check_unchanged,
    reject_file,
)
from shardmill.transforms.inputs.folders import FileKind, FolderRoles
from shardmill.transforms.inputs.listing import RecordFiles, Skipped
from shardmill.transforms.inputs.sources import REJECTS, SUMMARIES, Findings, combine_outputs
from shardmill.transforms.inputs.summary import InputSummary, summarize_files
from shardmill.transforms.stores.protocol import error_text
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.workers.elements import GatherFn, Spread
from shardmill.transforms.workers.rejects import RejectsPart
from shardmill.transforms.workers.running import ThreadedFlatMap

_BLOCK_BYTES = 200  # of a serialized BlockRef without its names

Task = tuple[BlockRef, ...]  # the blocks of one run: blocks of about as many bytes as a run has, or one that is larger


class IndexedBlocks(NamedTuple):
    """The result of indexing record files: tasks, rejects, and one InputSummary of all files."""

    tasks: beam.PCollection[Task]
    rejects: beam.PCollection[RejectsPart]
    summary: beam.PCollection[InputSummary]


@dataclass(eq=False)
class IndexBlocks(beam.PTransform):
    """Divide every input file into blocks, gathered into tasks: root -> IndexedBlocks."""

    files: RecordFiles
    kind: FileKind  # kind of files to look for in a folder
    format: RecordFormat  # of the records
    task_size: Callable[[int], int]  # approximate bytes of a task, from the bytes of all files
    threads: int = 0  # indexing threads of a worker, see ThreadedFlatMap
    roles: FolderRoles | None = None  # folder roles of --folders, if given
    temporary: str | None = None  # temporary directory of the job; None in a dry run

    def expand(self, pbegin: beam.pvalue.PBegin) -> Any:  # IndexedBlocks; Beam reads annotations as element types
        """List on one worker, index each file on any, gather the blocks of small files into tasks."""
        listed = (
            pbegin
            | "Pattern" >> beam.Create([self.files])
            | "List"
            >> beam.FlatMap(_list_record_files, self.kind, self.roles, self.temporary).with_outputs(
                REJECTS, SUMMARIES, main="files"
            )
        )
        indexed = (
            listed["files"]
            | "SpreadFiles" >> Spread(attrgetter("name"))
            | "IndexFile"
            >> beam.ParDo(
                ThreadedFlatMap(partial(index_file, self.format, temporary=self.temporary), self.threads)
            ).with_outputs(REJECTS, SUMMARIES, main="blocks")
        )
        # Small blocks by the task: 10,000 files of a row each are not 10,000 runs.
        gather = GatherFn(lambda blocks: [tuple(blocks)], partial(_task_fraction, self.task_size), 1)
        tasks = (
            indexed["blocks"]
            | "Gather" >> beam.ParDo(gather)
            | "SpreadTasks" >> Spread(lambda task: f"{task[0].file.name}\0{task[0].offset}")
        )
        return IndexedBlocks(tasks, *combine_outputs(listed, indexed))


def _list_record_files(
    files: RecordFiles, kind: FileKind, roles: FolderRoles | None, temporary: str | None
) -> Iterator[Any]:
    """Yield the input's record files; rejects and a summary, tagged."""
    found = Findings(temporary)
    refs: list[FileRef] = []
    for item in files.list_files(kind):
        if isinstance(item, FileRef):
            refs.append(item)
        elif isinstance(item, Skipped):
            found.skip(item)
        else:
            # How many records are in a file that is not there, or in a folder that cannot be listed, nobody knows.
            found.reject(replace(item, count="at least"))
    yield from refs
    found.summary.merge(summarize_files(((file.name, file.size_bytes) for file in refs), roles))
    if parts := [(part.name, part.size_bytes) for file in refs for part in file.parts]:
        found.summary.fingerprint = summarize_files(parts).fingerprint
    yield from found.outputs()


def index_file(format_: RecordFormat, file: FileRef, temporary: str | None = None) -> list[Any]:
    """Return the blocks of a file; rejects and a summary of header and rejects, tagged."""
    blocks: list[Any] = []
    found = Findings(temporary)
    try:
        for item in format_.index(file):
            if isinstance(item, Reject):
                found.reject(item)
            elif isinstance(item, SkippedItems):
                found.summary.merge(InputSummary(skipped={item.kind: (item.count, item.first_item)}))
            elif isinstance(item, RecordNotice):
                found.summary.merge(InputSummary(peculiarities={item.text: (item.count, item.first_record)}))
            else:
                blocks.append(item)
        header = format_.header(file) if not found.summary.rejected else ()
        check_unchanged([file])
    except OSError as error:
        raise_if_store_failed(error, file.path)
        reason = f"cannot be read: {error_text(error)}"
        return list(Findings(temporary, [reject_file(file.name, file.size_bytes, reason)]).outputs())
    if header:
        found.summary.headers = {header: (1, file.name)}
    return [*blocks, *found.outputs()]


def total_bytes(file: FileRef) -> int:
    """Return the approximate bytes of all input files, from one file's share of the key space."""
    return ((file.size_bytes + 1) << 64) // file.key_span


def _task_fraction(task_size: Callable[[int], int], block: BlockRef) -> float:
    """Return the fraction of a task that a block fills; for small files, the fraction that names take of an element."""
    refs = (block, *block.parts)
    named = sum(_BLOCK_BYTES + 2 * len(ref.file.path) for ref in refs) + sum(map(len, block.columns))
    return max(block.length / task_size(total_bytes(block.file)), named / ELEMENT_BYTES)
