"""Choose the files that hold records, and divide them into blocks."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.text import FIRST_UNORDERED
from shardmill.transforms.columns.arrow import ELEMENT_BYTES
from shardmill.transforms.columns.types import Inferred, ValuesOf
from shardmill.transforms.execution.running import ONE_A_CORE, ThreadedFlatMap, Threads
from shardmill.transforms.formats import format as formats
from shardmill.transforms.formats.format import BlockRef, FileRef
from shardmill.transforms.inputs import summary as summaries
from shardmill.transforms.inputs.findings import REJECTS, SUMMARIES, FoundInput, combine_outputs
from shardmill.transforms.inputs.folders import FileKind, FolderRoles
from shardmill.transforms.inputs.listing import RecordFiles, Skipped, assign_key_shares
from shardmill.transforms.options.job_options import reject_flag
from shardmill.transforms.stores.protocol import error_text
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.workers.elements import GatherFn, MergeFn, Spread
from shardmill.transforms.workers.rejects import OTHER_COLUMNS, RejectsPart

InferredColumns = tuple[tuple[str, ...] | None, tuple[ValuesOf, ...]]  # columns and values, as `RecordFormat.infer` has
_BLOCK_BYTES = 200  # of a serialized BlockRef without its names

Task = tuple[BlockRef, ...]  # the blocks of one run: blocks of about as many bytes as a run has, or one that is larger


class IndexedBlocks(NamedTuple):
    """The result of indexing record files: tasks, rejects, one InputSummary of all files, and the inferred types."""

    tasks: beam.PCollection[Task]
    rejects: beam.PCollection[RejectsPart]
    summary: beam.PCollection[summaries.InputSummary]
    inferred: beam.PCollection[Inferred] | None = None  # one, if types are inferred with the index and there are files


@dataclass(frozen=True, slots=True)
class FileRules:
    """The files that are left out as rejects, instead of failing the job."""

    rejects_damaged: bool = False  # files that cannot be read as the flags say, by --on_damaged_file
    rejects_other_columns: bool = False  # files with other columns than most files, by --on_other_columns
    drop: tuple[str, ...] = ()  # columns that are not compared
    only: tuple[str, ...] = ()  # columns that alone are compared; () for all


@dataclass(frozen=True, slots=True)
class SpooledFiles:
    """The files of spooled rows, see transforms.rows.spool."""

    files: tuple[FileRef, ...]

    def list_files(self, _: FileKind) -> Iterator[FileRef]:
        """Yield the files in order, with the number of each one's first row among all rows of its name.

        Raises UserError if they hold rows of several kinds.
        """
        files = sorted(self.files, key=attrgetter("path"))
        if len(kinds := {file.path.rpartition(".")[2] for file in files}) > 1:
            raise UserError(f"the rows are of several kinds: {', '.join(sorted(kinds))}; expected one kind of row")
        rows: Counter[str] = Counter()
        for file in assign_key_shares(files):
            first = 1 if file.is_ordered else FIRST_UNORDERED
            yield replace(file, first_line=first + rows[file.name])
            rows[file.name] += file.records


@dataclass(eq=False)
class IndexBlocks(beam.PTransform):
    """Divide every input file into blocks, gathered into tasks: root -> IndexedBlocks."""

    files: RecordFiles | SpooledFiles | beam.PCollection[FileRef]  # the input's files, or those of spooled rows
    kind: FileKind  # kind of files to look for in a folder
    format: formats.RecordFormat  # of the records
    task_size: Callable[[int], int]  # approximate bytes of a task, from the bytes of all files
    threads: Threads = ONE_A_CORE  # that index files
    roles: FolderRoles | None = None  # folder roles of --folders, if given
    rules: FileRules = FileRules()  # what to do with single files
    temporary: str | None = None  # temporary directory of the job; None in a dry run
    infer: InferredColumns | None = None  # columns whose types are inferred, for a format that `infers_with_index`

    def expand(self, pbegin: beam.pvalue.PBegin) -> Any:  # IndexedBlocks; Beam reads annotations as element types
        """List on one worker, index each file on any, gather the blocks of small files into tasks."""
        list_ = beam.FlatMap(_list_record_files, self.kind, self.roles, self.temporary)
        if isinstance(self.files, beam.PCollection):
            spooled = beam.Map(lambda _, files: SpooledFiles(tuple(files)), AsIter(self.files))
            pattern = pbegin | "Once" >> beam.Create([None]) | "Pattern" >> spooled.with_output_types(SpooledFiles)
        else:
            pattern = pbegin | "Pattern" >> beam.Create([self.files])
        listed = pattern | "List" >> list_.with_outputs(REJECTS, SUMMARIES, main="files")
        index = partial(index_file, self.format, rejects_damaged=self.rules.rejects_damaged, infer=self.infer)
        index_files = beam.ParDo(ThreadedFlatMap(partial(index, temporary=self.temporary), self.threads))
        spread = listed["files"] | "SpreadFiles" >> Spread(attrgetter("path"))
        indexed = spread | "IndexFile" >> index_files.with_outputs(REJECTS, SUMMARIES, main="blocks")
        steps, blocks = [listed, indexed], indexed["blocks"]
        if self.rules.rejects_other_columns:
            merge = beam.CombineGlobally(MergeFn(summaries.InputSummary))
            usual = indexed[SUMMARIES] | "UsualColumns" >> merge
            leave_out = beam.FlatMap(_leave_out, AsSingleton(usual), self.format, self.rules, self.temporary)
            kept = blocks | "LeaveOut" >> leave_out.with_outputs(REJECTS, SUMMARIES, main="blocks")
            steps, blocks = [*steps, kept], kept["blocks"]
        # Small blocks by the task: 10,000 files of a row each are not 10,000 runs.
        gather = GatherFn(lambda blocks: [tuple(blocks)], partial(_task_fraction, self.task_size), 1)
        by_place = Spread(lambda task: f"{task[0].file.path}\0{task[0].offset}")
        tasks = blocks | "Gather" >> beam.ParDo(gather) | "SpreadTasks" >> by_place
        rejects, summary = combine_outputs(*steps)
        inferred = None
        if self.infer is not None:
            inferred = summary | "Inferred" >> beam.Map(attrgetter("inferred")).with_output_types(Inferred)
        return IndexedBlocks(tasks, rejects, summary, inferred)


def _list_record_files(
    files: RecordFiles | SpooledFiles, kind: FileKind, roles: FolderRoles | None, temporary: str | None
) -> Iterator[Any]:
    found = FoundInput(temporary)
    refs: list[FileRef] = []
    for item in files.list_files(kind):
        if isinstance(item, FileRef):
            refs.append(item)
        else:
            # How many records are in a file that is not there, or in a folder that cannot be listed, nobody knows.
            found.leave_out(item if isinstance(item, Skipped) else replace(item, count="at least"))
    yield from refs
    found.summary.merge(summaries.summarize_files(((file.name, file.size_bytes) for file in refs), roles))
    if parts := [(part.name, part.size_bytes) for file in refs for part in file.parts]:
        found.summary.fingerprint = summaries.summarize_files(parts).fingerprint
    yield from found.outputs()


# Any: Beam checks annotations, and cannot check protocols
def _leave_out(
    block: BlockRef, summary: summaries.InputSummary, format_: Any, rules: FileRules, temporary: str | None
) -> Iterator[Any]:
    """Yield the block if its file has the usual columns; otherwise a reject of its records, tagged."""
    usual = summaries.usual_columns(summary.headers, rules.drop, rules.only)
    columns = summaries.compared_columns(format_.header(block.file), rules.drop, rules.only)
    if usual is None or columns == usual.columns:
        yield block
        return
    records = block.records
    if records is None:
        read = format_.read(block, {})
        records = sum(len(rows.lines) + sum(reject.counted_records for reject in rows.rejects) for rows in read)
    if records:
        reason = f"{summaries.describe_columns(columns, usual.columns)} what most files have, such as {usual.file!r}"
        reject = Reject(block.file.name, None, OTHER_COLUMNS, reason, records, block.length)
        yield from FoundInput(temporary, [reject]).outputs()


def index_file(
    format_: formats.RecordFormat,
    file: FileRef,
    temporary: str | None = None,
    rejects_damaged: bool = False,
    infer: InferredColumns | None = None,
) -> list[Any]:
    """Return the blocks of a file; rejects, and a summary of header, rejects and types of columns to `infer`, tagged.

    With `rejects_damaged`, a file that contradicts the flags is a reject, and no error.
    """
    blocks: list[Any] = []
    found = FoundInput(temporary)
    try:
        for item in format_.index(file) if infer is None else format_.index_and_infer(file, *infer):
            if isinstance(item, Reject):
                found.reject(item)
            elif isinstance(item, formats.SkippedItems):
                found.summary.merge(summaries.InputSummary(skipped={item.kind: (item.count, item.first_item)}))
            elif isinstance(item, formats.RecordNotice):
                found.summary.merge(summaries.InputSummary(peculiarities={item.text: (item.count, item.first_record)}))
            elif isinstance(item, Inferred):
                found.summary.merge(summaries.InputSummary(inferred=item))
            else:
                blocks.append(item)
        header = format_.header(file) if not found.summary.rejected else ()
        if rejects_damaged and blocks:  # some formats see only in the first records that a file is another's
            next(iter(format_.read(blocks[0], {})), None)
        formats.check_unchanged([file])
    except UserError as error:
        if not rejects_damaged:
            size, total = file.size_bytes, total_bytes(file)
            remedy = f"; --on_damaged_file reject{reject_flag(min(size * 5 // 4, total), total)} leaves the file out"
            raise UserError(f"{error}{remedy if total - size > max(1, size >> 20) else ''}") from None
        reason = str(error).removeprefix(f"{file.name}: ")
        return list(FoundInput(temporary, [formats.reject_file(file.name, file.size_bytes, reason)]).outputs())
    except OSError as error:
        raise_if_store_failed(error, file.path)
        reason = f"cannot be read: {error_text(error)}"
        return list(FoundInput(temporary, [formats.reject_file(file.name, file.size_bytes, reason)]).outputs())
    if header:
        found.summary.headers = {header: (1, file.name)}
    return [*blocks, *found.outputs()]


def total_bytes(file: FileRef) -> int:
    """Return the approximate bytes of all input files, from one file's share of the key space."""
    return ((file.size_bytes + 1) << 64) // file.key_span


def _task_fraction(task_size: Callable[[int], int], block: BlockRef) -> float:
    refs = (block, *block.parts)
    named = sum(_BLOCK_BYTES + 2 * len(ref.file.path) for ref in refs) + sum(map(len, block.columns))
    return max(block.length / task_size(total_bytes(block.file)), named / ELEMENT_BYTES)
