"""Check and run a conversion or its dry run, with build record and report page."""

import os
import pickle
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DirectOptions,
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
    WorkerOptions,
)

from shardmill.addons import registry
from shardmill.errors import CorruptDataError, JobError, LockedError, OutrunError, UserError, handle_sigterm
from shardmill.metadata import file_names
from shardmill.metadata.versions import BuildRecord, failed_record_path, record_path
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.config.records import DataConfig, RecordsConfig
from shardmill.pipelines.jobs import launch, outcome, runner
from shardmill.pipelines.reports import log
from shardmill.pipelines.reports.summary import opened_profile, read_file_index, read_profile
from shardmill.quality.profile import Profile
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.execution.pool import open_workers
from shardmill.transforms.formats.conventions import COMMANDS, describe_foreign_format
from shardmill.transforms.inputs.folders import SPLIT_FOLDERS
from shardmill.transforms.inputs.listing import expand_choices, input_root, is_glob, matches_glob
from shardmill.transforms.publishing import build_records
from shardmill.transforms.publishing.build_records import read_record, write_record
from shardmill.transforms.publishing.catalog import check_not_ahead, is_newer, read_latest
from shardmill.transforms.publishing.lease import DETACHED_LEASE_SECONDS, Lease
from shardmill.transforms.publishing.publication import read_templates
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.clients import check_url, object_store
from shardmill.transforms.stores.protocol import StoredFile, file_error, limit_timeouts, os_error_text
from shardmill.transforms.stores.storage import run_concurrently
from shardmill.transforms.workers.elements import keep_on_disk

if TYPE_CHECKING:
    from shardmill.pipelines.config.files import FilesConfig
    from shardmill.pipelines.jobs.file_graphs import Files
    from shardmill.transforms.rows.sources import RowSource


@dataclass(frozen=True)
class Job:
    """The graphs of one configuration's job, and how they are run."""

    graphs: Any  # Files or Records, a Skeleton
    plans_first: str = ""  # why the graph needs the plan; "" if it does not
    # (temporary folder, function to call now and then) -> the job over the rows that were written to the folder; None
    # for a job over files
    spool: "Callable[[str, Callable[[], None]], Job] | None" = None
    reuses_buffers: bool = False  # tasks allocate same-sized buffers repeatedly; see pipelines.jobs.runner
    # opens rows that are in no file; while the context lasts, what it returns makes the PTransform that reads them
    open_rows: Callable[[PipelineOptions], AbstractContextManager[Callable[[], beam.PTransform]]] | None = None
    source: Mapping[str, Any] = field(default_factory=dict)  # further arguments of `Skeleton.find`, such as open rows

    @contextmanager
    def opened(self, options: PipelineOptions) -> Iterator["Job"]:
        """Return this job with its rows, which stay open while the context lasts."""
        if self.open_rows is None:
            yield self
            return
        with self.open_rows(options) as rows:
            yield replace(self, source={"rows": rows})

    def build(self, pipeline: beam.Pipeline, progress_folder: str | None) -> Any:
        """Build the graph of the job, which outputs published paths; see `Skeleton.build`."""
        return self.graphs.build(pipeline, progress_folder, **self.source)


def file_job(files: "Files") -> Job:
    """Return the job over whole files; raises UserError if an add-on cannot change them."""
    stream = files.config.stream
    return Job(files) if stream is None else record_job(files.config, files, stream.config_of_files(files.config))


def record_job(config: "RecordsConfig | FilesConfig", files: "Files | None" = None, rows: Any = None) -> Job:
    """Return the job of `config` over records inside files; raises UserError if an add-on cannot change them.

    `rows` is the RecordsConfig of the records that an add-on makes of `files`, if one does.
    """
    from shardmill.pipelines.jobs.record_graphs import Records

    if config.stream is not None:
        config.stream.check()
    analysis = (rows or config).analysis
    plans_first = "" if analysis is None else analysis.plans_first
    return Job(Records(config, files, rows), plans_first, reuses_buffers=files is None)


def rows_job(config: DataConfig, rows: "RowSource") -> Job:
    """Return the job of `config` over rows that a program holds, which the job writes to files before it begins."""
    from shardmill.transforms.rows.spool import spool_rows

    def spool(folder: str, update: Callable[[], None]) -> Job:
        files, columns = spool_rows(rows, folder, config.keeps_splits, update)
        return record_job(replace(config, spooled=files, column_order=columns))

    return replace(record_job(config), spool=spool)


def make_tuned_job(make_job: Callable[[Any], Job], options: PipelineOptions, config: JobConfig) -> Job:
    """Make a job that this process runs and nothing else, and set how the process allocates memory for it."""
    job = make_job(config)
    if runner.is_local(options):
        (runner.reuse_large_buffers if job.reuses_buffers else runner.return_large_buffers)()
    return job


def _spool(job: Job, folder: str, title: str, quiet: bool) -> Job:
    if job.spool is None:
        return job
    with nullcontext() if quiet else launch.ProgressDisplay(None, f"{title}, reading rows") as shown:
        return job.spool(folder, (lambda: None) if shown is None else shown.update)


def run_planning(job: Job, options: PipelineOptions, title: str, quiet: bool = False, shared: str | None = None) -> Any:
    """Run the planning graph of `job` as pipelines.jobs.launch.run_pipeline does, and return its plan."""
    if (template := runner.template_of(options)) is not None:
        raise UserError(f"--template_location {template}: {job.plans_first}, which a template cannot wait for")
    local = runner.is_local(options)
    with runner.scratch_folder("plan") if local or shared is None else nullcontext(shared) as folder:
        path = storage.join(folder, "plan")
        launch.run_pipeline(lambda root, _: job.graphs.plan(root, path, **job.source), options, title, quiet, shared)
        return pickle.loads(storage.read_bytes(path))


_ARCHIVE = re.compile(r"\.(zip|7z|rar|tgz|tar(?:\.\w+)?)$", re.IGNORECASE)


def check_job(config: JobConfig, options: PipelineOptions, asks: bool = True) -> None:
    """Check runner, input and output; raises UserError. Only with `asks` must the runner be reachable."""
    (runner.check_runner if asks else runner.check_runner_options)(options)
    runner.check_dataflow_paths(config, options)
    runner.check_secrets(config, options)
    _check_absolute(config, options)
    _check_workers(config, options)
    check_input(config)
    if asks:  # and is no dry run
        outcome.write_page_of(config.directory, only_if_missing=True)
    check_output(config, config.overwrite)
    check_version(config)
    for path in config.inputs:
        if not storage.is_local(path):
            object_store(path)  # which is reached here, or steps of the job would wait for it for minutes


def _check_workers(config: JobConfig, options: PipelineOptions) -> None:
    if config.workers < 2:
        return
    if not runner.is_local(options):
        name = options.view_as(StandardOptions).runner
        raise UserError(f"--workers {config.workers} is for the local runner; --runner {name} has workers of its own")
    if options.view_as(DirectOptions).direct_running_mode == "multi_processing":
        raise UserError(
            f"--workers {config.workers} contradicts --direct_running_mode multi_processing, in which"
            " --direct_num_workers sets the number of processes; drop one of them"
        )


def check_input(config: JobConfig) -> None:
    """Check that a local input can be read, that a remote one has a bucket, and that the output is not inside it."""
    for path in config.inputs:
        _check_input_path(config, path)


def _check_input_path(config: JobConfig, path: str) -> None:
    is_local = storage.is_local(path)
    if is_local and not is_glob(path) and not os.path.exists(path):
        raise UserError(f"--input {path}: no such file or folder{_suggest_path(path)}")
    _check_archive(config, path)
    if not (is_local and os.path.isdir(path)):
        _check_suffix(config, path)
    if is_glob(path):
        _check_glob(config, path)
    elif not is_local:
        check_url(path)
        _check_output_outside(config, path, config.directory, input_root(path))
    elif not os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0)):
        raise UserError(f"--input {path} cannot be read: permission denied")
    elif storage.is_local(config.output):
        _check_output_outside(config, path, os.path.realpath(config.directory), os.path.realpath(path))


def _suggest_path(path: str) -> str:
    name, named, rest = path.partition("=")
    if named and os.path.exists(rest):
        return f"; {rest} is there, and is given without {name}="
    if "," in path and all(map(os.path.exists, path.split(","))):
        return "; it is one path, not a list: give a folder that holds everything, or a glob such as 'data/*/*'"
    return ""


def _check_suffix(config: JobConfig, path: str) -> None:
    if (hint := describe_foreign_format(path)) and not config.kind.accepts(path):
        reads = "this command does not read it" if "--stacked" in hint else "no command reads this format"
        raise UserError(f"--input {path}: {reads}{hint}")
    command = COMMANDS.get(path.rpartition(".")[2].lower())
    is_text = config.kind.plural == "text files" and command in ("csv", "jsonl")
    if command is not None and not is_text and not config.kind.accepts(path):
        raise UserError(f"--input {path} is for `shardmill {command}`; this command reads {config.kind.plural}")


def _check_archive(config: JobConfig, path: str) -> None:
    found = _ARCHIVE.search(path)
    is_folder = storage.is_local(path) and os.path.isdir(path)
    if found is None or is_folder or config.kind.accepts(path) or path.startswith("zip://"):
        return
    if config.takes_archives and found[1].lower() == "zip" and not is_glob(path):
        return  # a store has no such object, which its listing says
    if config.takes_archives and found[1].lower() == "zip":
        raise UserError(
            f"--input {path} is a glob of archives, and only a single zip archive is read, given by its path;"
            " unpack them into one folder, and give --input that folder"
        )
    is_tar = found[1].lower().startswith("t")
    tar = "; tar files of samples, 1.jpg next to 1.cls, are for `shardmill webdataset`" if is_tar else ""
    raise UserError(
        f"--input {path} is an archive, and {config.kind.plural} in it are not read; unpack it, and give --input the"
        f" folder{tar}"
    )


def _check_absolute(config: JobConfig, options: PipelineOptions) -> None:
    environment = options.view_as(PortableOptions).environment_type
    if environment in (None, "LOOPBACK"):
        return
    for flag, path in runner.local_paths(config):
        if not os.path.isabs(path):
            raise UserError(
                f"{flag} {path} begins in the folder of this process, where workers of --environment_type {environment}"
                " do not run; expected a URL, or a whole path on a disk that they have, too"
            )


def _check_output_outside(config: JobConfig, path: str, directory: str, root: str) -> None:
    if f"{directory}/".startswith(f"{root.rstrip('/')}/"):
        _refuse_output(config, path)


def _check_glob(config: JobConfig, path: str) -> None:
    absolute = os.path.abspath if storage.is_local(path) else str
    patterns = [absolute(choice).split("/") for choice in expand_choices(path)]
    parent = storage.join(config.output, config.name)
    written = (file_names.MANIFEST, file_names.SUCCESS, file_names.STATS, file_names.SCHEMA, file_names.FEATURE_STATS)
    rejects = storage.join(config.directory, f"{file_names.REJECTS_DIR}/{file_names.REJECTS_FILE}")
    files = [
        *(storage.join(config.directory, name) for name in (*written, file_names.labels_file("label"))),
        *(
            storage.join(parent, name)
            for name in (file_names.LATEST, f"{config.version}-{file_names.REJECTS_DIR}.jsonl")
        ),
        *(rejects, record_path(parent, config.version)),
        *(
            storage.join(
                config.directory,
                str(file_names.ShardName(config.name, split, 0, 1, config.codec, config.file_template)),
            )
            for split in (*(name for name, _ in config.splits or ()), *SPLIT_FOLDERS.values())
        ),
    ]
    if any(matches_glob(absolute(file).split("/"), pattern) for file in files for pattern in patterns):
        _refuse_output(config, path)


def _refuse_output(config: JobConfig, path: str) -> NoReturn:
    raise UserError(f"--output {config.output} is inside --input {path}: the next run would read its own output")


def check_output(config: JobConfig, overwrite: bool) -> list[str]:
    """Check that the version directory may be written and holds no files of others; return the names of its files."""
    if storage.is_local(config.output):
        _check_writable(config.directory)
    else:
        check_url(config.output)
    try:
        names = [name for name, _ in storage.list_files(config.directory)]
    except OSError as error:
        raise file_error(f"--output {config.output} cannot be listed", error) from None
    if file_names.SUCCESS in names and file_names.PUBLISHING not in names and not overwrite:
        raise UserError(
            f"{config.directory} is a published data set; give --overwrite to replace it, or another --version to keep"
            " both"
        )
    odd = [name for name in names if not file_names.is_dataset_file(name, config.name, (config.file_template,))]
    if odd:
        templates = read_templates(config.directory, names)
        odd = [name for name in odd if not file_names.is_dataset_file(name, config.name, templates)]
    if odd:
        raise UserError(
            f"{config.directory} holds {odd[0]!r}, which shardmill did not write; give another --output or --name"
        )
    return names


def check_version(config: JobConfig) -> None:
    """Check the version by the clock, and that the baseline of its checks exists, unless it is LATEST."""
    check_not_ahead(config.version, None, config.allow_future)
    if config.checks is not None and config.checks.baseline != file_names.LATEST:
        open_dataset(config.parent, storage.StorageFiles(), config.checks.baseline)


def _check_writable(directory: str) -> None:
    path = os.path.abspath(directory)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise UserError(f"--output: {path} is not a folder; give another --output")
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(f"--output: {path} is not writable; give another --output, or change its permissions")


def run_conversion(
    job: Job,
    config: JobConfig,
    options: PipelineOptions,
    quiet: bool = False,
    inputs: bytes | None = None,
    planned_success: StoredFile | None = None,
) -> outcome.Published | outcome.Launched:
    """Run the checked job that `config` describes to its end, and clean up after a failure; prints only progress.

    A job written as a template is not waited for. A rebuild gives `inputs`, the inputs file, with which the next build
    compares (see transforms.publishing.build_records), and `planned_success`, the version's _SUCCESS when it decided to
    build.

    Raises:
        UserError: a mistake; nothing was written.
        LockedError: another job builds that version, or has published it since this one was planned.
        OutrunError: another job has published a newer version since this one began.
        JobError: the job failed; the message says so if anything was published.
        Interrupted: by Ctrl-C or SIGTERM; threads of a local runner may still run, and end with the process.
    """
    missing = outcome.missing_folders(config)
    before, named = run_concurrently(
        config.directory, partial(outcome.read_success, config), partial(read_latest, config.parent)
    )
    lease = None
    try:
        with handle_sigterm(), job.opened(options) as job, _opened_workers(config, options):
            lease = outcome.take_lease(config, detached=not runner.has_local_workers(options))
            names = check_output(config, overwrite=True)
            is_published = file_names.SUCCESS in names and file_names.PUBLISHING not in names
            if inputs is not None:
                is_late = outcome.read_success(config) != planned_success
            else:  # what was published before was refused before
                is_late = is_published and not config.overwrite
            if is_late:
                raise LockedError(f"{config.directory} was published meanwhile by another job; nothing was written")
            if file_names.PUBLISHING not in names or not outcome.recover(config):
                temporary = storage.join(config.directory, config.temporary)
                if inputs is not None:
                    build_records.stage_inputs(temporary, inputs)
                if not runner.is_local(options):
                    storage.make_directory(temporary)  # where steps say how they do
                job = _spool(job, temporary, config.name, quiet)
                if job.plans_first:
                    planned = replace(job, graphs=replace(job.graphs, reads_rows=False))
                    plan = run_planning(planned, options, f"{config.name}, types", quiet, temporary)
                    if config.analysis is not None:
                        config.analysis.describe(plan.features, config.source)  # which checks it
                    job = replace(job, graphs=replace(job.graphs, planned=plan))
                analysis = config.analysis if runner.is_local(options) else None
                with nullcontext() if analysis is None else analysis.ahead():
                    launch.run_pipeline(job.build, options, config.name, quiet, shared=temporary)
                if (template := runner.template_of(options)) is not None:
                    lease.leave()
                    return outcome.Launched(config.directory, template)
            with outcome.name_published(config.directory):
                found = open_published(config)  # as long as nobody else may replace it
    except (JobError, UserError):
        _abandon(lease, config, missing, before)
        raise
    except OSError as error:  # as files are staged next to the shards, or what was published is read again
        raise JobError(f"{os_error_text(error)}; {_abandon(lease, config, missing, before)}") from error
    except KeyboardInterrupt as cause:
        if runner.has_local_workers(options):
            interrupted = outcome.Interrupted(_abandon(lease, config, missing, before))
            interrupted.has_begun_to_publish = str(interrupted) != outcome.NOTHING_PUBLISHED
            raise interrupted from cause
        if lease is not None:
            lease.leave()
        raise outcome.Interrupted(
            f"the job itself goes on, and its runner can cancel it; {config.version} stays its own until it has written"
            f" nothing for {DETACHED_LEASE_SECONDS / 3600:g} h, or "
            f"{storage.join(config.directory, file_names.LOCK)} is deleted"
        ) from cause
    finally:
        if lease is not None:
            lease.release()
    check_not_outrun(config, named)
    return found


@contextmanager
def _opened_workers(config: JobConfig, options: PipelineOptions) -> Iterator[None]:
    """Provide worker processes and a disk for the steps that Beam's local runner runs in this process."""
    if not runner.is_local(options) or options.view_as(DirectOptions).direct_running_mode == "multi_processing":
        yield
        return
    modules = ["shardmill.transforms.files.shards", "shardmill.transforms.records.staging"]
    modules += [] if config.stream is None else [config.stream.offloaded]
    with keep_on_disk(), open_workers(config.workers, modules):
        yield


def _abandon(
    lease: Lease | None, config: JobConfig, created_folders: Sequence[str], previous_success: StoredFile | None
) -> str:
    """End the lease of a failed job and delete its files; return a sentence on what was published."""
    with limit_timeouts():
        if lease is not None:
            lease.release()
        return outcome.clean_up(config, created_folders, previous_success)


def open_published(config: JobConfig) -> outcome.Published:
    """Open the published version of `config`."""
    dataset = open_dataset(config.parent, storage.StorageFiles(), config.version)
    splits = {split.name: split.examples for split in dataset.manifest.splits}
    rejected, notices = int(dataset.manifest.rejects.get("records", 0)), tuple(dataset.manifest.notices)
    return outcome.Published(config.directory, splits, rejected, notices, dataset)


def check_not_outrun(config: JobConfig, before: str) -> None:
    """Raise an OutrunError if another job published a newer version meanwhile."""
    now = read_latest(config.parent)
    if now != before and file_names.is_version(now) and is_newer(now, config.version):
        raise OutrunError(
            f"{config.directory} is published, but LATEST names {now}, which another job published while this one ran;"
            " --set_latest lets it name an older version"
        )


def run_recorded(
    make_job: Callable[[JobConfig], Job],
    config: JobConfig,
    options: PipelineOptions,
    record: BuildRecord,
    quiet: bool = False,
    run_job: Callable[..., outcome.Published | outcome.Launched] = run_conversion,
    record_first_failure: bool = False,
) -> outcome.Built:
    """Run a job with `run_job`, write its build record and page, and return any error of ours in the result.

    A launched job writes its record itself. With `record_first_failure` a failure is recorded even if there is no data
    set yet. Raises Interrupted also after the version is published, which its message then says.
    """
    start_s = time.monotonic()
    previous_profile = read_profile(config.parent)
    record = replace(record, before="" if previous_profile is None else previous_profile.version)
    config = replace(config, record=record)
    try:
        with handle_sigterm():
            if record.before:
                outcome.write_page_of(storage.join(config.parent, record.before), only_if_missing=True)
            try:
                published = run_job(make_job(config), config, options, quiet)
            except (UserError, JobError, CorruptDataError) as error:
                with limit_timeouts():
                    ended = _with_written_checks(config, outcome.failed_record(record, error))
                ended = replace(ended, seconds=time.monotonic() - start_s)
                is_recorded = not isinstance(error, (UserError, LockedError)) or isinstance(error, OutrunError)
                if is_recorded and (path := outcome.write_unpublished(config.parent, ended, record_first_failure)):
                    for pages in registry.modules("page"):
                        pages.write_page(config.parent, ended, path, previous_profile)
                return outcome.Built(ended, None, error)
            if isinstance(published, outcome.Published):
                return _write_published_record(config, record, published, previous_profile, start_s)
            seconds = time.monotonic() - start_s
            return outcome.Built(replace(record, status="launched", reason=str(published), seconds=seconds))
    except KeyboardInterrupt as interruption:
        ended = replace(record, seconds=time.monotonic() - start_s)
        recorded = outcome.record_interruption(config.parent, ended, interruption, record_first_failure)
        raise recorded from (interruption.__cause__ or interruption)


def _write_published_record(
    config: JobConfig,
    record: BuildRecord,
    published: outcome.Published,
    previous_profile: Profile | None,
    start_s: float,
) -> outcome.Built:
    opened = published.dataset
    index, as_written, profile = run_concurrently(
        config.parent,
        partial(read_file_index, config, opened.manifest_crc32c),
        partial(_with_written_checks, config, record),
        partial(opened_profile, opened),
    )
    since = ""
    if profile is not None and previous_profile is not None:
        from shardmill.quality.difference import describe_changes

        since = describe_changes(profile, previous_profile)
    notices = as_written.notices or published.notices
    for notice in notices[len(published.notices) :]:  # also where all that is well is left out
        log.warn(notice)
    ended = replace(
        as_written,
        splits=dict(published.splits),
        rejected=published.rejected,
        notices=notices,
        since=since,
        reused=None if index is None else index.reused,
        read=None if index is None else index.read,
        seconds=time.monotonic() - start_s,
    )
    for pages in registry.modules("page"):
        ended = pages.with_page_checks(ended, profile, previous_profile)
    path = record_path(config.parent, ended.version)
    try:
        path = write_record(config.parent, ended)
    except OSError as error:  # the job's own record stays, without the seconds
        log.warn(outcome.record_warning(error))
    for pages in registry.modules("page"):
        pages.write_page(config.parent, ended, path, previous_profile, profile and (opened, profile))
    return outcome.Built(ended, published, index=index, profile=profile)


def _with_written_checks(config: JobConfig, record: BuildRecord) -> BuildRecord:
    """Return `record` with the notices, checks and baseline that the job itself has written, if they can be read."""
    for path in (record_path(config.parent, record.version), failed_record_path(config.parent, record.version)):
        with suppress(OSError):
            found = read_record(path)
            if found is not None and found.is_same_build(record):
                names = ("checks", "baseline", "accepted", "notices")
                return replace(record, **{name: getattr(found, name) for name in names})
    return record


def dry_run(make_job: Callable[[Any], Job], config: JobConfig, options: PipelineOptions, quiet: bool = False) -> str:
    """Check and plan a job on this machine, whatever its runner, and describe the plan and its work."""
    check_job(config, options, asks=False)
    job, title = make_job(config), f"{config.name}, dry run"
    options.view_as(StandardOptions).runner = None
    workers = options.view_as(WorkerOptions)
    slots = max(
        options.view_as(FlinkRunnerOptions).parallelism or 0,
        workers.max_num_workers or workers.num_workers or 0,
        options.view_as(DirectOptions).direct_num_workers or 0,
    )
    spooled = nullcontext("") if job.spool is None else runner.scratch_folder("rows")
    with job.opened(options) as job, spooled as folder:
        job = _spool(job, folder, title, quiet)
        plan = run_planning(job, options, title, quiet)
    return "\n".join([*plan.describe(job.graphs.described_config), *plan.work.sentences(slots)])
