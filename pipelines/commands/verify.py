"""`shardmill verify`: re-read a data set in a Beam job, and list its faults."""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

import apache_beam as beam
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.pvalue import AsIter

from shardmill.addons.registry import find_or_open
from shardmill.errors import JobError, UserError
from shardmill.filesystem import Paths
from shardmill.metadata import file_names
from shardmill.metadata.versions import find_interrupted_publications
from shardmill.pipelines.commands import frame
from shardmill.pipelines.config.flags import Parser, beam_options, check_folder_first
from shardmill.pipelines.jobs import launch, runner
from shardmill.pipelines.jobs.outcome import repair
from shardmill.pipelines.jobs.runner import scratch_folder
from shardmill.pipelines.reports import log
from shardmill.reading.dataset import Dataset
from shardmill.text import plural
from shardmill.transforms.execution.running import report_plan
from shardmill.transforms.publishing import verification
from shardmill.transforms.publishing.catalog import is_failed_folder, open_version
from shardmill.transforms.publishing.lease import Owner, read_holder
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.clients import set_options


def _add_arguments(parser: Parser) -> None:
    frame.add_directory(parser, frame.FILES_HELP, nargs="+")
    parser.add_argument("--decode", action="store_true", help="Decode all pixels of every image, too")
    parser.add_argument("--sha256", metavar="HEX", help="SHA-256 that manifest.json must have, as verify prints it")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="Before the checks, complete an interrupted publication and delete the LOCK of a dead job",
    )


def _run(parser: Parser, arguments: Sequence[str]) -> int:
    args, rest = frame.parse_messages(parser, arguments)
    paths = frame.list_paths(args.directory)
    taken = paths[1:] if rest and rest[-1].startswith("-") and rest[-1] != arguments[-1] else []  # values of the flag
    options = beam_options([*rest, *taken], parser)
    check_folder_first(arguments, paths[0], rest)
    set_options(options)
    if (message := runner.runner_warning(rest, options)) is not None:
        log.warn(message)
    found = verify_version(
        args.directory, args.decode, args.repair, args.sha256, options, args.quiet, log.info, log.warn
    )
    for fault in found.faults:
        if log.is_json():
            log.error(str(fault), file=fault.file, fault=fault.message)
        else:
            print(fault)
    if found.ok:
        frame.print_outcome(args, found.text)
    if found.ok and found.sha256:
        frame.print_outcome(args, f"sha256 of its manifest.json: {found.sha256}")
    return 0 if found.ok else 1


COMMANDS = (
    frame.Command(
        name="verify",
        description="Re-read a data set, or any TFRecord files, and check every file, checksum, record and feature.",
        epilog="Every option of Apache Beam, such as --runner or --direct_num_workers, may follow the folder. Exit"
        " status: 0 no fault; 1 faults, one a line; 2 a mistake in a flag, or no data set.",
        examples=("datasets/flowers --decode", "'other/*.tfrecord'"),
        add_arguments=_add_arguments,
        run=_run,
    ),
)


@dataclass(frozen=True, slots=True, repr=False)
class Verification:
    """The result of `verify`.

    Attributes:
        directory: folder of the version that was read.
        examples: number of its examples.
        shards: number of its shards.
        faults: what differs from its manifest; each has a `file` and a `message`.
        notices: sentences on repairs, on locks and on files that are no part of the data set.
        is_published: False for a version in `failed/`.
        sha256: SHA-256 of the manifest, which readers take to pin the version; "" for files without one.
    """

    directory: str
    examples: int
    shards: int
    faults: tuple[verification.Fault, ...]
    notices: tuple[str, ...]
    is_published: bool
    sha256: str = ""

    @property
    def ok(self) -> bool:
        """Return True if there is no fault."""
        return not self.faults

    @property
    def text(self) -> str:
        """Return the result in one sentence."""
        amount = f"{plural(self.examples, 'example')} in {plural(self.shards, 'shard')}"
        state = "" if self.is_published else "; it failed its checks and is not published"
        if self.ok:
            return f"verified: {amount}, no fault{state}"
        return f"{self.directory}: {plural(len(self.faults), 'fault')} in {amount}{state}"

    def __repr__(self) -> str:
        return "\n".join([self.text, *map(str, self.faults), *self.notices])


def verify(
    directory: Paths,
    *,
    decode: bool = False,
    repair: bool = False,
    sha256: str | None = None,
    beam_options: Sequence[str] = (),
    progress: bool = False,
) -> Verification:
    """Re-read a data set and check every file, checksum, record and feature, as `shardmill verify` does.

    Args:
        directory: folder of a version, or of its data set; then LATEST selects the version. Or TFRecord files.
        decode: decode every image completely as well.
        repair: complete an interrupted publication, and LATEST, and delete the LOCK of a dead job, before the checks.
        sha256: SHA-256 of the manifest, which an earlier result has; None for any.
        beam_options: options of Apache Beam as on the command line.
        progress: show progress on stderr, or as a bar in a notebook.

    Returns:
        The result: `ok` is True without a fault; `faults` lists those found.

    Raises:
        UserError: there is no data set, or a mistake in an option.
        JobError: the job that reads the shards failed.
        CorruptDataError: the manifest cannot be read, or has another `sha256`, so that nothing can be checked.
    """
    with frame.reach_stores("verify", beam_options) as beam:
        return verify_version(directory, decode, repair, sha256, beam, not progress, frame.ignore, frame.ignore)


def verify_version(
    path: Paths,
    decode: bool,
    repairs: bool,
    sha256: str | None,
    options: PipelineOptions,
    quiet: bool,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> Verification:
    """Verify the data set or the files at `path`, see `shardmill.verify`; notices go to `say` and `warn` at once."""
    notices: list[str] = []

    def note(sentence: str, tell: Callable[[str], None]) -> None:
        notices.append(sentence)
        tell(sentence)

    runner.check_runner(options)
    with _make_report_folder(options) as folder:
        with frame.report_read_errors(path):
            directory = ", ".join(frame.list_paths(path))
            for sentence in repair(directory) if repairs else ():
                note(sentence, say)
            dataset = find_or_open(path, open_version) if sha256 is None else open_version(directory, sha256)
            if not isinstance(dataset, Dataset):
                return cast(Verification, dataset.verify(decode, notices))
            if (parent := directory.rstrip("/")) != dataset.directory:  # the folder of all versions was given
                for version in find_interrupted_publications(storage.StorageFiles(), parent):
                    if (other := storage.join(parent, version)) != dataset.directory:
                        why = "its job was interrupted while it published; --repair completes it"
                        note(f"{other} is not verified: {why}", warn)
            if (owner := read_holder(dataset.directory)) is not None:
                note(f"{storage.join(dataset.directory, file_names.LOCK)} is {_describe_owner(owner)}", say)
            faults = verification.find_dataset_faults(dataset)
            others = [fault.file for fault in verification.find_unlisted_files(dataset) if not fault.message]
        if others:
            count = plural(len(others), "file is", "files are")
            note(f"{count} no part of the data set, such as {others[0]}", say)
        faults += shard_faults(dataset, decode, options, folder, quiet)
    splits = dataset.manifest.splits
    examples, shards = sum(split.examples for split in splits), sum(len(split.shards) for split in splits)
    found = tuple(faults), tuple(notices), not is_failed_folder(dataset.directory), dataset.sha256
    return Verification(dataset.directory, examples, shards, *found)


def _describe_owner(owner: Owner) -> str:
    if owner.is_alive():
        return f"held by {owner}, which builds this version now"
    if owner.is_alive() is False:
        return f"left by {owner}, which has ended; --repair or the next rebuild deletes it"
    return f"held by {owner}; this machine cannot see if that job has ended; --repair deletes it, if it has"


@contextmanager
def _make_report_folder(options: PipelineOptions) -> Iterator[str]:
    if runner.is_local(options):
        with scratch_folder("verify") as folder:
            yield folder
        return
    temp_location = options.view_as(GoogleCloudOptions).temp_location
    if not temp_location:
        raise UserError("--temp_location is missing: the workers of another runner leave their report in it")
    folder = storage.join(temp_location, f"shardmill-verify-{uuid.uuid4().hex}")
    with storage.cleaning_up(partial(storage.delete_tree, folder)):
        yield folder


def shard_faults(
    dataset: Dataset, decode: bool, options: PipelineOptions, folder: str, quiet: bool = False
) -> list[verification.Fault]:
    """Verify all shards in a Beam job that leaves its report in `folder`; return their faults in its order."""
    path = storage.join(folder, "report.jsonl")
    files = [shard.file for split in dataset.manifest.splits for shard in split.shards]
    launch.run_pipeline(
        lambda pipeline, progress_folder: build_verify(pipeline, dataset, decode, path, progress_folder),
        options,
        f"{dataset.manifest.name}, verify",
        quiet,
        shared=folder,
        phase="verifying",
    )
    try:
        lines = storage.read_bytes(path).decode().splitlines()
    except FileNotFoundError:
        raise JobError(
            f"the job left no report at {path}; give a --temp_location that the workers and this machine share"
        ) from None
    reports = dict(map(json.loads, lines))
    silent = [file for file in files if file not in reports]
    if silent:
        raise JobError(
            f"the job reported on {len(files) - len(silent)} of {len(files)} shards; missing, among them: {silent[0]}"
        )
    return [verification.Fault(file, message) for file in dict.fromkeys(files) for message in reports[file]]


def build_verify(
    root: beam.Pipeline, dataset: Dataset, decode: bool, path: str, progress_folder: str | None = None
) -> None:
    """Build the graph: one element per shard, and a report of all faults written to `path`."""
    shards = [(split.name, shard) for split in dataset.manifest.splits for shard in split.shards]
    if progress_folder is not None:
        report_plan(progress_folder, sum(shard.examples for _, shard in shards))
    verify = verification.VerifyShards(
        dataset, decode, verification.read_index_list(dataset), progress_folder=progress_folder
    )
    faults = root | "Shards" >> beam.Create(shards) | "Verify" >> verify
    _ = root | "Once" >> beam.Create([None]) | "Report" >> beam.Map(_report, AsIter(faults), path)


def _report(_: None, reports: Iterable[tuple[str, list[verification.Fault]]], path: str) -> None:
    lines = (json.dumps([file, [fault.message for fault in faults]]) for file, faults in reports)
    storage.write_text(path, "".join(f"{line}\n" for line in lines))
