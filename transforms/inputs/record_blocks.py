"""Choose the files that hold records, and divide them into blocks."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import ELEMENT_BYTES
from shardmill.transforms.formats.format import BlockRef, FileRef, RecordFormat, RecordNotice, SkippedItems, reject_file
from shardmill.transforms.inputs.folders import FileKind, FolderRoles
from shardmill.transforms.inputs.listing import Skipped
from shardmill.transforms.inputs.record_files import RecordFiles
from shardmill.transforms.inputs.sources import REJECTS, SUMMARIES
from shardmill.transforms.inputs.summary import InputSummary, summarize_files, summarize_header, summarize_skipped
from shardmill.transforms.stores.protocol import error_text
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.workers.elements import GatherFn, MergeFn, Spread
from shardmill.transforms.workers.rejects import RejectsPart, RejectsWriter, make_parts
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
    """Divide every file of the input into blocks, gathered into tasks: root -> IndexedBlocks."""

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
            >> beam.FlatMap(_list, self.kind, self.roles, self.temporary).with_outputs(REJECTS, SUMMARIES, main="files")
        )
        indexed = (
            listed["files"]
            | "SpreadFiles" >> Spread(_name_of_file)
            | "IndexFile"
            >> beam.ParDo(
                ThreadedFlatMap(partial(index_file, self.format, temporary=self.temporary), self.threads)
            ).with_outputs(REJECTS, SUMMARIES, main="blocks")
        )
        # Small blocks by the task: 10,000 files of a row each are not 10,000 runs.
        gather = GatherFn(_task, partial(_task_fraction, self.task_size), 1)
        tasks = indexed["blocks"] | "Gather" >> beam.ParDo(gather) | "SpreadTasks" >> Spread(_name_of_task)
        rejects = (listed[REJECTS], indexed[REJECTS]) | "AllRejects" >> beam.Flatten()
        summaries = (listed[SUMMARIES], indexed[SUMMARIES]) | "AllSummaries" >> beam.Flatten()
        merging = beam.CombineGlobally(MergeFn(InputSummary, InputSummary.merge))
        summary = summaries | "Summarize" >> merging.without_defaults()  # listing says one at least
        return IndexedBlocks(tasks, rejects, summary)


def _list(files: RecordFiles, kind: FileKind, roles: FolderRoles | None, temporary: str | None) -> Iterator[Any]:
    summary = InputSummary()
    found: list[FileRef] = []
    rejects = RejectsWriter(temporary)
    for item in files.list_files(kind):
        if isinstance(item, FileRef):
            found.append(item)
        elif isinstance(item, Skipped):
            summary = summary.merge(summarize_skipped(item.kind, item.name))
        else:
            # How many records are in a file that is not there, or in a folder that cannot be listed, nobody knows.
            rejects.add([replace(item, count="at least")])
            summary = summary.merge(InputSummary(rejected=1))
    yield from _tag_rejects(rejects.close())
    yield from found
    of_files = summarize_files(((file.name, file.size_bytes) for file in found), roles)
    parts = [(part.name, part.size_bytes) for file in found for part in file.parts]
    if parts:
        of_files = replace(of_files, fingerprint=summarize_files(parts).fingerprint)
    yield TaggedOutput(SUMMARIES, summary.merge(of_files))


def index_file(format_: RecordFormat, file: FileRef, temporary: str | None = None) -> list[Any]:
    """Return the blocks of a file; rejects and a summary of header and rejects, tagged."""
    blocks: list[Any] = []
    rejects = RejectsWriter(temporary)
    summary = InputSummary()
    try:
        for item in format_.index(file):
            if isinstance(item, Reject):
                rejects.add([item])
                summary = summary.merge(InputSummary(rejected=item.counted_records))
            elif isinstance(item, SkippedItems):
                summary = summary.merge(InputSummary(skipped={item.kind: (item.count, item.first_item)}))
            elif isinstance(item, RecordNotice):
                summary = summary.merge(InputSummary(peculiarities={item.text: (item.count, item.first_record)}))
            else:
                blocks.append(item)
        header = format_.header(file) if not summary.rejected else ()
    except OSError as error:
        raise_if_store_failed(error, file.path)
        reason = f"cannot be read: {error_text(error)}"
        unread = make_parts([reject_file(file.name, file.size_bytes, "index", reason)], temporary)
        return [*_tag_rejects(unread), TaggedOutput(SUMMARIES, InputSummary(rejected=1))]
    if header:
        summary = summary.merge(summarize_header(header, file.name))
    return [*blocks, *_tag_rejects(rejects.close()), TaggedOutput(SUMMARIES, summary)]


def _tag_rejects(parts: Iterable[RejectsPart]) -> list[TaggedOutput]:
    return [TaggedOutput(REJECTS, part) for part in parts]


def total_bytes(file: FileRef) -> int:
    """Return the approximate bytes of all input files, from one file's share of the key space."""
    return ((file.size_bytes + 1) << 64) // file.key_span


def _task_fraction(task_size: Callable[[int], int], block: BlockRef) -> float:
    """Return the fraction of a task that a block fills; for small files, the fraction that names take of an element."""
    refs = (block, *block.parts)
    named = sum(_BLOCK_BYTES + 2 * len(ref.file.path) for ref in refs) + sum(map(len, block.columns))
    return max(block.length / task_size(total_bytes(block.file)), named / ELEMENT_BYTES)


def _name_of_file(file: FileRef) -> str:
    return file.name


def _name_of_task(task: Task) -> str:
    return f"{task[0].file.name}\0{task[0].offset}"


def _task(blocks: list[BlockRef]) -> list[Task]:
    return [tuple(blocks)]
