"""The Python interface: a function for each command; results print as a summary, also in a notebook."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shardmill.errors import ChecksError, JobError, LockedError, OutdatedError, UserError
from shardmill.installed import check_beam, importing_beam
from shardmill.pipelines.config.flags import Parser, to_plain
from shardmill.pipelines.config.flags import beam_options as parse_beam_options
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.text import did_you_mean

if TYPE_CHECKING:
    from datetime import date as Date

    from apache_beam.options.pipeline_options import PipelineOptions

    from shardmill.pipelines.commands.index import Indexed
    from shardmill.pipelines.commands.inspect import Inspection
    from shardmill.pipelines.commands.rebuild import Rebuilt
    from shardmill.pipelines.commands.report import Comparison, Report
    from shardmill.pipelines.commands.retain import Retained
    from shardmill.pipelines.commands.verify import Verification
    from shardmill.pipelines.commands.versions import Accepted, RolledBack, Tagged, Versions
    from shardmill.pipelines.config.job import JobConfig
    from shardmill.pipelines.jobs.job import Job
    from shardmill.pipelines.jobs.kind import Kind
    from shardmill.pipelines.jobs.outcome import Published

# Each command and Beam are imported by the function that needs them: most take milliseconds without Beam.
check_beam()


@dataclass(frozen=True, slots=True)
class Plan:
    """A job that was planned and not run, as `--dry_run` shows it.

    Attributes:
        text: input, output and amount of work of the job.
    """

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


def convert(command: str, *, beam_options: Sequence[str] = (), progress: bool = False, **options: Any) -> "Published":
    """Run a job and wait for its end.

    The function never ends the process, restores all process settings, and prints nothing unless `progress` is set.
    Ctrl-C, and SIGTERM in the main thread, raise a KeyboardInterrupt.

    Args:
        command: name of the converting command: `images`, `csv`, …
        beam_options: options of Apache Beam as on the command line: `["--runner", "DataflowRunner", …]`.
        progress: show progress on stderr, or as a bar in a notebook.
        options: options by flag name; each a text as on the command line, a path, or a Python value such as
            `splits={"train": 0.9, "test": 0.1}`, `drop=["id", "name"]` or `resize=(224, 224)`.

    Returns:
        The published version.

    Raises:
        UserError: a mistake in an option or the input; nothing was written.
        JobError: the job failed; the message says if anything was published.
    """
    _import_jobs()
    from shardmill.pipelines.jobs.runner import refuse_template

    with _reach_stores(command, beam_options) as beam:
        refuse_template(beam, "`convert` waits for the job's end")
        return run_config(*make_config(command, options), beam, progress)


def run_config(kind: "Kind", config: "JobConfig", beam: "PipelineOptions", progress: bool = False) -> "Published":
    """Run the job of a configuration and wait for its end, see `convert`."""
    return _run_config(kind.make_job, config, beam, progress)


def _run_config(
    make_job: "Callable[[Any], Job]", config: "JobConfig", beam: "PipelineOptions", progress: bool
) -> "Published":
    from shardmill.pipelines.jobs.job import run_recorded
    from shardmill.pipelines.jobs.outcome import begin_record

    record = begin_record(config.name, config.version)
    built = run_recorded(make_job, config, beam, record, quiet=not progress)
    if built.error is not None:
        raise built.error
    assert built.published is not None
    return built.published


def write(
    data: Any, *, beam_options: Sequence[str] = (), progress: bool = False, dry_run: bool = False, **options: Any
) -> "Published | Plan":
    """Write rows that the program holds as a data set, and wait for the end of the job.

    The same rows give the same shards as `shardmill parquet` on a file of them. Iterators are written to temporary
    files first, next to the data set, so that memory stays flat. Rejects number the rows from 1.

    Args:
        data: rows: a pandas or polars DataFrame, a pyarrow Table, RecordBatchReader or Dataset, a Hugging Face Dataset,
            a dictionary of NumPy arrays, or an iterable of dictionaries. A Hugging Face DatasetDict, or a dictionary of
            such tables, names the splits.
        beam_options: options of Apache Beam as on the command line.
        progress: show progress on stderr, or as a bar in a notebook.
        dry_run: return the plan, without writing anything.
        options: options by flag name, as those of `convert`: `output`, `name`, `label`, `splits`, …

    Returns:
        The published version; the plan with `dry_run`.

    Raises:
        UserError: a mistake in an option or the data; nothing was written.
        JobError: the job or the iterator failed; the message says if anything was published.
    """
    _import_jobs()
    from shardmill.pipelines.jobs.job import dry_run as plan_job
    from shardmill.pipelines.jobs.job import rows_job
    from shardmill.pipelines.jobs.record_kinds import DATA
    from shardmill.pipelines.jobs.runner import refuse_template
    from shardmill.transforms.rows.sources import is_read_once, open_rows

    with _reach_stores("write", beam_options) as beam:
        refuse_template(beam, "`write` waits for the job's end")
        if dry_run and is_read_once(data):
            raise UserError("dry_run would use up the rows of an iterator; give a list, a table or a dataset")
        rows = open_rows(data)
        values = {name: to_plain(value) for name, value in options.items()}
        config: Any = DATA.make_config(
            values, rows_source=rows.description.removeprefix("the "), has_splits=rows.has_splits
        )
        make_job = partial(rows_job, rows=rows)
        if dry_run:
            return Plan(plan_job(make_job(config), config.name, beam, quiet=not progress))
        return _run_config(make_job, config, beam, progress)


def plan(command: str, *, beam_options: Sequence[str] = (), progress: bool = False, **options: Any) -> Plan:
    """Plan a job on this machine without writing anything, as `--dry_run` does.

    Args:
        command: name of the converting command: `images`, `csv`, …
        beam_options: options of Apache Beam as on the command line.
        progress: show progress on stderr, or as a bar in a notebook.
        options: options by flag name, as those of `convert`.

    Returns:
        The plan, which prints as its text.

    Raises:
        UserError: a mistake in an option or the input.
        JobError: the input cannot be read.
    """
    _import_jobs()
    with _reach_stores(command, beam_options) as beam:
        kind, config = make_config(command, options)
        from shardmill.pipelines.jobs.job import dry_run

        return Plan(dry_run(kind.make_job(config), config.name, beam, quiet=not progress))


def make_config(command: str, options: Mapping[str, Any]) -> "tuple[Kind, JobConfig]":
    """Return the kind of input and the configuration of a job; raises UserError."""
    if command not in KINDS:
        hint = did_you_mean(command, KINDS, "did you mean {}? The commands are") or "expected"
        raise UserError(f"unknown command {command!r}; {hint} {', '.join(KINDS)}")
    kind = KINDS[command]
    kind.check_installed()
    return kind, kind.make_config({name: to_plain(value) for name, value in options.items()})


def rebuild(
    recipe: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    force: bool = False,
    full: bool = False,
    version: str | None = None,
    accept: Sequence[str] = (),
    overwrite: bool = False,
    set_latest: bool = False,
    date: "str | Date | None" = None,
    set: Mapping[str, str] | None = None,
    beam_options: Sequence[str] = (),
    progress: bool = False,
) -> "Rebuilt":
    """Rebuild a data set from a recipe if its input or options changed, as `shardmill rebuild` does.

    The new version is checked against LATEST's and published; then old versions are deleted. If nothing is published,
    the recipe's webhook is notified.

    Args:
        recipe: file with one recipe, or folder that holds one.
        dry_run: return what would be done, without writing anything.
        force: build a new version even if nothing changed.
        full: read every input file, without copying records from shards of an older version.
        version: version to build instead of the recipe's.
        accept: names of checks that may fail this once.
        overwrite: replace the version if it is already published.
        set_latest: point LATEST at this version even if it now points at a newer one.
        date: date that replaces {YYYY}, {MM} and {DD} in inputs and versions; None for today, in UTC.
        set: values of ${NAME} in the recipe, by name.
        beam_options: options of Apache Beam, which take the place of the recipe's.
        progress: show progress on stderr, or as a bar in a notebook.

    Returns:
        The outcome. Its `status` is `published`, `unchanged`, or `planned` for a dry run. It is `checks_failed`,
            `locked`, `outrun` or `outdated` if a version was not published, or not as LATEST, for that reason: then
            `ok` is False and `error` says more.

    Raises:
        UserError: a mistake in the recipe, an option or the input.
        JobError: the job failed; the message says if anything was published.
        CorruptDataError: an earlier version, which the build needs, is damaged.
    """
    from shardmill.pipelines.commands.rebuild import follow_to_end, load_for_rebuild, rebuild_parser
    from shardmill.pipelines.nightly.recipe import InvalidRecipe, RebuildOptions

    given: dict[str, Any] = {"version": version, "date": date, "accept": accept}
    request = RebuildOptions(
        dry_run=dry_run,
        force=force,
        full=full,
        overwrite=overwrite,
        set_latest=set_latest,
        set=tuple(f"{name}={value}" for name, value in (set or {}).items()),
        quiet=not progress,
        tunes_memory=False,
        **given,
    )
    parser, path, rest = rebuild_parser(), os.fspath(recipe), _to_words(beam_options)
    with _raise_job_errors():
        loaded = load_for_rebuild([path], request, rest, parser)
        if len(loaded) > 1:
            raise UserError(f"{path} holds {len(loaded)} recipes; `rebuild` takes one, and the command takes several")
        if isinstance(loaded[0], InvalidRecipe):
            raise loaded[0].error
        found = follow_to_end(loaded[0], request, rest, parser)
    if found.error is not None and not isinstance(found.error, (ChecksError, LockedError, OutdatedError)):
        raise found.error
    return found


def verify(
    directory: str | os.PathLike[str],
    *,
    decode: bool = False,
    repair: bool = False,
    beam_options: Sequence[str] = (),
    progress: bool = False,
) -> "Verification":
    """Re-read a data set and check every file, checksum, record and feature, as `shardmill verify` does.

    Args:
        directory: folder of a version, or of its data set; then LATEST selects the version.
        decode: decode every image completely as well.
        repair: complete an interrupted publication, and LATEST, and delete the LOCK of a dead job, before the checks.
        beam_options: options of Apache Beam as on the command line.
        progress: show progress on stderr, or as a bar in a notebook.

    Returns:
        The result: `ok` is True without a fault; `faults` lists those found.

    Raises:
        UserError: there is no data set, or a mistake in an option.
        JobError: the job that reads the shards failed.
        CorruptDataError: the manifest cannot be read, so that nothing can be checked.
    """
    with _reach_stores("verify", beam_options) as beam:
        from shardmill.pipelines.commands.verify import verify_version

        return verify_version(os.fspath(directory), decode, repair, beam, not progress, _ignore, _ignore)


def index(directory: str | os.PathLike[str], *, beam_options: Sequence[str] = ()) -> "Indexed":
    """Write the position of each record to `index/`, next to the shards, as `shardmill index` does.

    Every record is read and checked. The manifest of a version is not changed.

    Args:
        directory: folder of a version or of its data set; or a folder or a glob of TFRecord files.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The folders with an index now, and the number of their shards and records.

    Raises:
        UserError: there are no TFRecord files, or they are compressed.
        CorruptDataError: a shard is damaged.
        JobError: a job builds the version, or the index cannot be written.
    """
    from shardmill.pipelines.commands.index import index_shards

    with _look("index", beam_options, path := os.fspath(directory)):
        return index_shards(path)


def versions(directory: str | os.PathLike[str], *, beam_options: Sequence[str] = ()) -> "Versions":
    """List the versions of a data set, the newest first, as `shardmill versions` does.

    Args:
        directory: folder of the data set.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The versions, with their examples, sizes, tags and numbers of failed checks.

    Raises:
        UserError: there is no data set, or its folder cannot be read.
    """
    from shardmill.pipelines.commands.versions import data_set_folder, list_versions

    with _look("versions", beam_options, path := os.fspath(directory)):
        return list_versions(data_set_folder(path))


def inspect(
    directory: str | os.PathLike[str],
    *,
    split: str | None = None,
    examples: int = 3,
    contact_sheet: str | os.PathLike[str] | bool = False,
    samples: int = 40,
    beam_options: Sequence[str] = (),
) -> "Inspection":
    """Look at a data set: features, splits, statistics, classes and some examples, as `shardmill inspect` does.

    Args:
        directory: folder of a version, or of its data set; then LATEST selects the version.
        split: the only split to show; None for all.
        examples: number of examples to show.
        contact_sheet: True to draw sample images with their labels, or a local PNG file to write them to as well.
        samples: number of images on the contact sheet.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The description. It prints as the command's output; a notebook shows tables and the contact sheet.

    Raises:
        UserError: there is no data set or no such split, or there are no images to draw.
        CorruptDataError: a file of the data set is damaged.
    """
    from shardmill.pipelines.commands.inspect import inspect_version

    sheet = contact_sheet if isinstance(contact_sheet, bool) else os.fspath(contact_sheet)
    for name, number, least in (("examples", examples, 0), ("samples", samples, 1)):
        if number < least:
            raise UserError(f"{name}={number!r}: expected a number from {least}")
    with _look("inspect", beam_options, path := os.fspath(directory)):
        return inspect_version(path, split, examples, sheet, samples)


def diff(*versions: str | os.PathLike[str], beam_options: Sequence[str] = ()) -> "Comparison":
    """Compare two versions: splits, classes, features, types and statistics, as `shardmill diff` does.

    Args:
        versions: folder of a data set and two of its versions, tags or LATEST; or the folders of two versions.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The differences, and the results of the checks that precede publishing.

    Raises:
        UserError: there is no such version.
        CorruptDataError: one of the two is damaged.
    """
    from shardmill.pipelines.commands.report import compare_versions

    words = [os.fspath(version) for version in versions]
    with _look("diff", beam_options, *words):
        return compare_versions(words)


def report(
    directory: str | os.PathLike[str],
    *,
    against: str | None = None,
    output: str | os.PathLike[str] | None = None,
    beam_options: Sequence[str] = (),
) -> "Report":
    """Make the report about a version: checks, content, changes and rejects, as `shardmill report` does.

    Args:
        directory: folder of a version, or of its data set; then LATEST selects the version.
        against: version or tag to compare with; None for the one that the build compared with, or the previous one.
        output: HTML file to write; None, unlike in the command, for none.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The verdict, and the content of the page.

    Raises:
        UserError: there is no data set or no such version, or the file cannot be written.
        CorruptDataError: a file of the data set is damaged.
    """
    from shardmill.pipelines.commands.report import make_report

    page = None if output is None else os.fspath(output)
    with _look("report", beam_options, path := os.fspath(directory), *filter(None, [page])):
        return make_report(path, against, page)


def tag(
    directory: str | os.PathLike[str],
    version: str,
    tag: str | None = None,
    *,
    move: bool = False,
    delete: bool = False,
    beam_options: Sequence[str] = (),
) -> "Tagged":
    """Give a version a name, as `shardmill tag` does. Readers open it by that name, and it is never deleted.

    Args:
        directory: folder of the data set.
        version: version to name: a version, a tag or LATEST; with `delete`, the tag to delete.
        tag: name of the tag: letters, digits, `_`, `.` and `-`.
        move: move the tag if it names another version.
        delete: delete the tag and keep the version.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The versions that the tag named before and names now.

    Raises:
        UserError: there is no such version or tag, or the tag names another version and `move` is not set.
        JobError: another process changed the tag or deleted the version meanwhile.
    """
    from shardmill.pipelines.commands.versions import change_tag, data_set_folder

    with _look("tag", beam_options, path := os.fspath(directory)):
        return change_tag(data_set_folder(path), version, tag, move, delete)


def rollback(
    directory: str | os.PathLike[str], version: str | None = None, *, beam_options: Sequence[str] = ()
) -> "RolledBack":
    """Point LATEST at another version, which readers open from now on, as `shardmill rollback` does.

    Nothing is deleted, and a rebuild from the same input does not undo it.

    Args:
        directory: folder of the data set.
        version: version or tag to point LATEST at; None for the newest version older than LATEST's.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The versions that LATEST named before and names now.

    Raises:
        UserError: there is no such version, or it is incomplete.
        JobError: a version is being published, or another process wrote LATEST meanwhile.
    """
    from shardmill.pipelines.commands.versions import data_set_folder, roll_back

    with _look("rollback", beam_options, path := os.fspath(directory)):
        return roll_back(data_set_folder(path), version)


def accept(
    directory: str | os.PathLike[str],
    version: str,
    *,
    reason: str,
    by: str | None = None,
    keep_latest: bool = False,
    set_latest: bool = False,
    beam_options: Sequence[str] = (),
) -> "Accepted":
    """Publish a version that failed its checks and is kept in `failed/`, as `shardmill accept` does.

    Args:
        directory: folder of the data set.
        version: version to publish, for example `1.0.1`.
        reason: why the version is published although checks failed; the record of its build keeps it.
        by: who accepts it; None for user@host.
        keep_latest: publish it although a newer version was published since, which LATEST goes on naming.
        set_latest: publish it although a newer version was published since, and point LATEST at it.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The published version, who accepted it, and the version that LATEST names now.

    Raises:
        UserError: no such version is kept, or an option is wrong.
        JobError: another job is publishing, or the files cannot be written.
        CorruptDataError: the kept version is damaged.
    """
    from shardmill.pipelines.commands.versions import accept_failed, data_set_folder

    if keep_latest and set_latest:
        raise UserError("keep_latest and set_latest exclude each other: give one of them")
    with _look("accept", beam_options, path := os.fspath(directory)):
        folder = data_set_folder(path)
        return accept_failed(folder, version, reason, by, keep_latest, set_latest, _ignore)


def retain(
    path: str | os.PathLike[str],
    *,
    min_versions: int | None = None,
    max_age: str | float | None = None,
    dry_run: bool = False,
    set: Mapping[str, str] | None = None,
    beam_options: Sequence[str] = (),
) -> "Retained":
    """Delete expired versions, failed versions that were kept long enough, and what dead jobs left.

    LATEST, versions with a tag, and what a living job builds are never deleted. `shardmill.rebuild` does the same
    before and after each build.

    Args:
        path: recipe, whose section `retain` counts, a folder of recipes, or the folder of a data set.
        min_versions: number of newest versions to keep, for the folder of a data set.
        max_age: age up to which versions are kept, such as `30d`, or in seconds; given with `min_versions`.
        dry_run: return what would be deleted, and delete nothing.
        set: values of ${NAME} in recipes, by name.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        What was deleted; `ok` is False if something could not be deleted, as `problems` says.

    Raises:
        UserError: a mistake in an option or a recipe, or there is no data set. The other recipes of a folder are
            followed before that.
        JobError: a store failed.
    """
    from shardmill.pipelines.commands.retain import Retained, retain_parser, retain_versions
    from shardmill.pipelines.nightly.recipe import RetainOptions
    from shardmill.pipelines.nightly.versions import Problem

    limits: dict[str, Any] = {"min_versions": min_versions, "max_age": max_age}
    given, pairs = RetainOptions(**limits), [f"{name}={value}" for name, value in (set or {}).items()]
    rest = _to_words(beam_options)
    messages: list[str] = []
    problems: list[str] = []
    errors: list[UserError | JobError] = []
    with _raise_job_errors():
        for name, found in retain_versions(os.fspath(path), given, dry_run, pairs, rest, retain_parser()):
            if isinstance(found, UserError | JobError):
                errors.append(found)
                continue
            for message in found or ["nothing to delete"]:
                (problems if isinstance(message, Problem) else messages).append(f"{name}: {message}")
    if errors:
        raise errors[0]
    return Retained(tuple(messages), tuple(problems))


def _import_jobs() -> None:
    with importing_beam(for_local_files=False):
        import_module("shardmill.pipelines.jobs.job")


@contextmanager
def _raise_job_errors() -> Iterator[None]:
    """Within this context, turn an OSError of a store into a JobError, as the command line reports it."""
    try:
        yield
    except OSError as error:
        from shardmill.transforms.stores.protocol import os_error_text

        raise JobError(os_error_text(error)) from error


@contextmanager
def _reach_stores(command: str, beam_options: Sequence[str]) -> "Iterator[PipelineOptions]":
    """Reach stores with Beam's options within this context, and provide these options."""
    from shardmill.transforms.stores.clients import using_options

    beam = parse_beam_options(_to_words(beam_options), Parser(prog=f"shardmill {command}"))
    with _raise_job_errors(), using_options(beam):
        yield beam


@contextmanager
def _look(command: str, beam_options: Sequence[str], *paths: str) -> Iterator[None]:
    """Reach the stores of `paths` within this context, for a command that runs no job; import Beam only if needed."""
    from shardmill.pipelines.commands.versions import store_options
    from shardmill.transforms.stores.clients import using_options

    options = store_options(Parser(prog=f"shardmill {command}"), _to_words(beam_options), paths)
    with _raise_job_errors():
        if options is None:
            yield
        else:
            with using_options(options):
                yield


def _to_words(beam_options: Sequence[str]) -> list[str]:
    """Return Beam's options as a list; raise a UserError for one text."""
    if isinstance(beam_options, str):
        raise UserError(
            f"beam_options={beam_options!r} is one text; expected a list, such as ['--runner', 'FlinkRunner']"
        )
    return list(beam_options)


def _ignore(_: str) -> None:
    """Drop a message that the result also has."""
