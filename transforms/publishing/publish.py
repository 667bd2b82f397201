"""Publish a data set: check it, write its metadata and move its files into place."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from shardmill.data.features import Features
from shardmill.errors import ChecksError, CorruptDataError, JobError, LockedError, UserError
from shardmill.metadata import file_names
from shardmill.metadata.manifest import Manifest, crc32c_hex
from shardmill.metadata.versions import BuildRecord, describe_comparison, resolve_version
from shardmill.quality.checks import find_failures, run_checks
from shardmill.quality.limits import CheckResult
from shardmill.quality.profile import Profile
from shardmill.quality.stats_file import StatsFile
from shardmill.reading.dataset import open_dataset
from shardmill.text import plural
from shardmill.transforms.options.job_options import Acceptance, CheckOptions, reject_flag, suggest_accepting
from shardmill.transforms.publishing import build_records, catalog, description, lease, publication
from shardmill.transforms.publishing.build_records import delete_unindexed, store_index, write_record
from shardmill.transforms.publishing.publication import Journal, Move
from shardmill.transforms.shards.divisions import Divisions
from shardmill.transforms.shards.sources import FileIndex, ShardInfo, index_folder
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.streams import write_stream
from shardmill.transforms.workers.rejects import Rejects

_CHECKING_MAX_SHOWN = 3  # failed checks in a sentence


@dataclass(frozen=True, slots=True)
class PassedChecks:
    """The results of a version's checks, and the version that it was compared with, "" if none.

    Failed checks among them are accepted.
    """

    baseline: str = ""
    results: tuple[CheckResult, ...] = ()
    accepted: Acceptance | None = None  # of failed checks, all of which it names

    def add_to_record(self, record: BuildRecord, now: datetime) -> BuildRecord:
        """Return `record` with these results and the time up to `now`."""
        begun = datetime.fromisoformat(record.started)
        return replace(
            record,
            baseline=self.baseline,
            checks=tuple(result.to_json() for result in self.results),
            accepted={} if self.accepted is None else self.accepted.to_json(self.results, now),
            seconds=max((now - begun).total_seconds(), 0.0),
        )


def check_before_publishing(
    shards: Sequence[ShardInfo],
    files: Mapping[str, bytes],
    rejects: Rejects,
    options: description.PublishOptions,
    today: datetime,
    index: Sequence[Move] = (),
) -> PassedChecks:
    """Compare the version that is about to be published with its baseline.

    Raise a ChecksError if it must not be published. The shards, the files and `anomalies.pbtxt` are kept in
    `<name>/failed/<version>`.
    """
    checks = options.checks
    assert checks is not None
    delete_expired_failures(options.parent, today)
    profile = Profile(
        Manifest.from_json(files[file_names.MANIFEST], file_names.MANIFEST),
        StatsFile.from_json(files[file_names.STATS], file_names.STATS),
    )
    baseline, results = _open_baseline(options.parent, checks)
    if not find_failures(results):
        results += run_checks(profile, baseline, checks.limits, checks.schema, by_feature=checks.columns)
    checked = PassedChecks("" if baseline is None else baseline.version, tuple(results))
    failed = find_failures(results)
    if not failed:
        return checked
    if checks.accepted is not None and {result.check for result in failed} <= set(checks.accepted.checks):
        return replace(checked, accepted=checks.accepted)
    from shardmill.quality.constraints import anomalies_pbtxt

    anomalies = anomalies_pbtxt(results, None if baseline is None else baseline.manifest.features).encode()
    kept = keep_failed_version(shards, {**files, file_names.ANOMALIES: anomalies}, rejects, options, today, index)
    file_index = _keep_index(shards, files[file_names.MANIFEST], options) if checks.keep_failed else None
    error = ChecksError(*_failure_lines(failed, checked.baseline, kept, options))
    if options.build_record is not None:
        record = checked.add_to_record(options.build_record, today)
        record = replace(record, status="checks_failed", reason=error.sentence)
        if checks.keep_failed:
            described = description.describe_build(record, files[file_names.MANIFEST], file_index)
            build_records.stage_record(options.parent, f"{file_names.FAILED}/{options.version}", described)
        write_record(options.parent, record)
    raise error


def _open_baseline(parent: str, checks: CheckOptions) -> tuple[Profile | None, list[CheckResult]]:
    files, said = storage.StorageFiles(), ""
    try:
        if checks.baseline == file_names.LATEST:
            version, said = catalog.find_previous_version(parent)
        else:
            version, _ = resolve_version(files, parent, checks.baseline)
        dataset = open_dataset(storage.join(parent, version), files) if version else None
        baseline = Profile(dataset.manifest, dataset.stats()) if dataset else None
    except (UserError, CorruptDataError, FileNotFoundError) as error:
        reason = f"{checks.baseline}, which this version is to be compared with, cannot be read: {error}"
        hint = "let baseline name another version"
        if checks.baseline == file_names.LATEST:
            hint = (
                f"`shardmill rollback {parent} VERSION` points LATEST at an intact version; without one, delete the"
                " folder of the damaged one"
            )
        return None, [CheckResult("baseline", "error", f"{reason}; {hint}")]
    return baseline, [CheckResult("baseline", "warn", said)] if said else []


def failure_message(failed: Sequence[CheckResult]) -> str:
    """Return a sentence on the failed checks that shows a few."""
    return f"{plural(len(failed), 'check')} failed: {'; '.join(_describe_failures(failed))}"


def _describe_failures(failed: Sequence[CheckResult]) -> list[str]:
    # One of each check comes before those of other splits
    first_results = {result.check: result for result in reversed(failed)}
    order = sorted(failed, key=lambda result: result is not first_results[result.check])
    lines = [
        f"{result.check}: {result.sentence}" + (f" (error at {result.threshold:g})" if result.threshold else "")
        for result in order[:_CHECKING_MAX_SHOWN]
    ]
    more = len(failed) - _CHECKING_MAX_SHOWN
    return [*lines, f"and {more} more"] if more > 0 else lines


def _failure_lines(
    failed: Sequence[CheckResult], baseline: str, kept: str, options: description.PublishOptions
) -> Iterator[str]:
    """Yield what failed, and the commands to look at the version, to accept it and to mend it, one a line."""
    assert options.checks is not None
    comparison = describe_comparison(options.version, baseline)
    yield "; ".join(filter(None, (f"{plural(len(failed), 'check')} failed", comparison, "nothing was published")))
    yield from (*_describe_failures(failed), kept)
    *look, accept = catalog.failed_version_commands(options.parent, options.version, baseline)
    if options.checks.keep_failed:
        yield from (f"look:    {command}  # {purpose}" for purpose, command in look)
        yield f"accept:  {accept[1]}  # {accept[0]}"
    names = dict.fromkeys(result.check for result in failed)
    if command := suggest_accepting(names):
        yield f"accept:  {command}  # build again, and let it pass once"
    if allowed := [f"{name}: warn" for name in names if name in options.checks.limits]:
        yield f"accept:  checks: {{{', '.join(allowed)}}}  # in the recipe, lets it pass always"
    yield "mend:    shardmill rebuild RECIPE  # after the input is corrected"


def keep_failed_version(
    shards: Sequence[ShardInfo],
    files: Mapping[str, bytes],
    rejects: Rejects,
    options: description.PublishOptions,
    today: datetime,
    index: Sequence[Move] = (),
) -> str:
    """Move a version that must not be published to `<name>/failed/<version>`, where readers do not look; return a
    message on this.

    A later attempt of the same job continues where the previous one stopped.
    """
    assert options.checks is not None
    if not options.checks.keep_failed:
        return "its shards are not kept"
    folder = storage.join(options.parent, file_names.FAILED, options.version)
    until = today + timedelta(days=options.checks.keep_failed)
    if catalog.read_failed_mark(folder).get("job") != options.job:
        storage.delete_tree(folder)
        storage.make_directory(folder)
        mark = {"job": options.job, "until": until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        if file_names.MANIFEST in files:
            mark["manifest"] = crc32c_hex(files[file_names.MANIFEST])
        storage.write_text(storage.join(folder, file_names.FAILED_MARK), json.dumps(mark) + "\n")
    for name, data in files.items():
        storage.write_bytes(storage.join(folder, name), data)
    for name, found in description.rejects_by_file(rejects).items():
        write_stream(storage.join(folder, name), found.chunks(), found.size_bytes)
    for move in index:  # copied: an attempt that follows makes the index of the same files
        if not storage.exists(path := storage.join(folder, move.file)):
            storage.copy(options.path(move.temporary), path)
    inputs = storage.join(options.folder, build_records.STAGED_INPUTS)  # with which the next night compares
    storage.put_in_place(inputs, storage.join(folder, build_records.STAGED_INPUTS))
    storage.rename([shard.temporary for shard in shards], [storage.join(folder, str(shard.name)) for shard in shards])
    return f"the shards are kept in {folder} until {until:%Y-%m-%d}"


def _keep_index(shards: Sequence[ShardInfo], manifest: bytes, options: description.PublishOptions) -> FileIndex | None:
    """Store the index of a failed version's files, which the next build needs if the version is accepted."""
    if storage.exists(options.path(file_names.SUCCESS)):  # whose index is kept
        return None
    return store_index(options.parent, options.version, manifest, shards, options.index_options)


def delete_expired_failures(parent: str, today: datetime, dry_run: bool = False) -> list[str]:
    """Delete failed versions that have been kept long enough, unless `dry_run`, and return their folders."""
    above = storage.join(parent, file_names.FAILED)
    now = today.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    names = [name for name in storage.list_folders(above)
             if catalog.read_failed_mark(storage.join(above, name)).get("until", now) < now]  # fmt: skip
    for name in names if not dry_run else ():
        storage.delete_tree(storage.join(above, name))
        if not storage.exists(storage.join(parent, name, file_names.SUCCESS)):  # else the index is in use
            storage.delete_tree(index_folder(parent, name))
    return [storage.join(above, name) for name in names]


_PUBLISH_MAX_SHOWN = 5  # shards that are missing, or there more than once
_METADATA_FOLDER = "metadata"  # the folder that what describes the data set is staged in


def prepare_folder(options: description.PublishOptions) -> str:
    """Delete what dead jobs left, and return the temporary directory; raise LockedError if the job lost its lease."""
    lease.check_lease(options.directory, options.job)
    publication.delete_other_folders(options.directory, options.temporary)
    storage.make_directory(options.folder)
    return options.folder


def publish(build: description.Build, features: Features, options: description.PublishOptions) -> list[str]:
    """Check `build`, then publish it; return the paths of the shards.

    Raise a ChecksError if it must not be published; its shards are kept apart. Raise a LockedError if the job has lost
    the lease of the version directory, or another job was faster. Raise a JobError if records were lost, more were
    rejected than --max_reject_fraction allows, or an operation failed; the message says what was published.
    """
    shards = sorted(build.shards, key=lambda shard: (shard.name.split, shard.name.shard))
    check_complete(shards, build.divisions)
    check_counts(build)
    _check_rejects(build, options)
    more = _make_more_files(build, options)
    said = build.further_file_notices(more) if more and build.further_file_notices is not None else ()
    build = replace(build, notices=(*build.notices, *said))
    index_list, index = dict[str, bytes](), list[Move]()
    if any(shard.index is not None for shard in shards):
        from shardmill.transforms.publishing.shard_indexes import stage_index  # late: nights do not import Beam

        index_list, index = stage_index(shards, options, f"{options.temporary}/{_METADATA_FOLDER}")
    manifest = description.make_manifest(build, features, options)
    checksums = {move.file: move.crc32c for move in index}
    files = description.make_metadata_files(
        manifest, build, options.schema_constraints, {**more, **index_list}, checksums
    )

    storage.make_directory(options.directory)
    with storage.locked(options.directory):
        journal = _prepare_journal(shards, files, index, build.rejects, options)
        if journal is not None:
            publication.complete_publication(options.directory, journal)
            if options.index_options is not None:
                delete_unindexed(options.parent, options.version, files[file_names.MANIFEST])
    return [options.path(str(shard.name)) for shard in shards]


def find_published_shards(shards: Sequence[ShardInfo], options: description.PublishOptions) -> list[str] | None:
    """Return the paths of the shards if an earlier attempt of this job has published them, else None."""
    if not shards or storage.exists(shards[0].temporary) or not storage.exists(options.path(file_names.SUCCESS)):
        return None
    manifest = storage.read_bytes(options.path(file_names.MANIFEST)).decode()
    named = [(str(shard.name), f'"{shard.crc32c:08x}"') for shard in shards]
    if not all(f'"{name}"' in manifest and crc in manifest for name, crc in named):
        return None
    return [options.path(name) for name in sorted(name for name, _ in named)]


def _make_more_files(build: description.Build, options: description.PublishOptions) -> dict[str, bytes]:
    """Return the files that a route adds: made of temporary files, or read if another attempt has published them."""
    if build.make_further_files is None:
        return {}
    try:
        return dict(build.make_further_files())
    except FileNotFoundError:
        if not storage.exists(options.path(file_names.SUCCESS)):
            raise
    names = [name for name, _ in storage.list_files(options.directory) if file_names.is_transform_file(name)]
    return {name: storage.read_bytes(options.path(name)) for name in names}


def _prepare_journal(
    shards: Sequence[ShardInfo],
    files: Mapping[str, bytes],
    index: Sequence[Move],
    rejects: Rejects,
    options: description.PublishOptions,
) -> Journal | None:
    """Return the journal of the publication after writing it, or None if the version is already published.

    The version directory is locked if the store supports it, so that attempts of one job run one after the other.
    """
    found, is_there = storage.run_concurrently(
        options.directory,
        partial(publication.read_journal, options.directory),
        partial(storage.exists, options.path(file_names.SUCCESS)),
    )
    if found is not None and found.job == options.job:
        return found
    if is_there and _is_done(shards, files, options):
        return None
    lease.check_lease(options.directory, options.job, "nothing of this one was published")
    if found is not None:  # of a job that had lost its lease as it began
        publication.complete_or_undo(options.directory, found, discard=True, job=options.job)
    checked = PassedChecks()
    if options.checks is not None:
        checked = check_before_publishing(shards, files, rejects, options, datetime.now(UTC), index)
    _check_shard_files(shards, options)
    manifest = files[file_names.MANIFEST]
    file_index, moves, before = storage.run_concurrently(
        options.directory,
        partial(store_index, options.parent, options.version, manifest, shards, options.index_options),
        partial(_stage_files, shards, files, index, rejects, options),
        partial(catalog.read_latest, options.parent),
    )
    if options.build_record is not None:
        record = description.describe_build(
            checked.add_to_record(options.build_record, datetime.now(UTC)), manifest, file_index
        )
        notices = record.notices + catalog.describe_kept_latest(options.directory, before, options.set_latest)
        build_records.stage_record(options.directory, options.temporary, replace(record, notices=notices))
    older = publication.read_templates(options.directory, [file_names.MANIFEST]) if is_there else set()
    templates = (older | {shard.name.template for shard in shards}) - {file_names.DEFAULT_TEMPLATE}
    journal = Journal(
        options.job,
        options.name,
        options.version,
        options.temporary,
        before,
        tuple(moves),
        options.set_latest,
        tuple(sorted(templates)),
    )
    publication.begin_publication(options.directory, journal)
    return journal


def _is_done(shards: Sequence[ShardInfo], files: Mapping[str, bytes], options: description.PublishOptions) -> bool:
    """Return True if an earlier attempt published the existing version; raise LockedError if another job did,
    without --overwrite.
    """
    if not any(storage.exists(shard.temporary) for shard in shards[:1]):
        path = options.path(file_names.MANIFEST)
        if storage.exists(path) and storage.read_bytes(path) == files[file_names.MANIFEST]:
            return True
    if not options.overwrite:
        raise LockedError(
            f"{options.directory} was published by another job while this one ran, and is kept: nothing of this one"
            " was published; give --overwrite to replace it, or another --version to keep both"
        )
    return False


def _check_shard_files(shards: Sequence[ShardInfo], options: description.PublishOptions) -> None:
    """Check that all shards still have their paths and sizes: another job may have taken this one for dead."""
    sizes = {storage.join(options.folder, name): size for name, size in storage.list_files(options.folder)}
    written = [(shard.temporary, shard.size_bytes) for shard in shards]
    written += [(shard.index.path, shard.index.size_bytes) for shard in shards if shard.index is not None]
    for path, size_bytes in written:
        if sizes.get(path) != size_bytes:
            raise JobError(
                f"{path} has {sizes.get(path, 'no')} bytes, but {size_bytes} were written: does another job write to"
                f" {options.directory}? Nothing was published"
            )


def _stage_files(
    shards: Sequence[ShardInfo],
    files: Mapping[str, bytes],
    index: Sequence[Move],
    rejects: Rejects,
    options: description.PublishOptions,
) -> Iterable[Move]:
    above = f"{options.directory}/"
    moves = [
        Move(shard.temporary.removeprefix(above), str(shard.name), shard.size_bytes, f"{shard.crc32c:08x}")
        for shard in shards
    ]
    moves += index
    folder = f"{options.temporary}/{_METADATA_FOLDER}"
    for name, found in description.rejects_by_file(rejects).items():
        write_stream(options.path(folder, name), found.chunks(), found.size_bytes)
        moves.append(Move(f"{folder}/{name}", name, found.size_bytes, f"{found.crc32c:08x}"))
    storage.write_all({options.path(folder, name): data for name, data in files.items()})
    moves += [Move(f"{folder}/{name}", name, len(data), crc32c_hex(data)) for name, data in files.items()]
    paths = [options.path(move.temporary) for move in moves]
    storage.sync_files(paths)
    storage.sync_directories(publication.list_folders_of(paths, options.folder))
    return moves


def check_complete(shards: Sequence[ShardInfo], divisions: Divisions) -> None:
    """Check that each shard of each split exists exactly once; raise JobError if not."""
    expected = sorted((split, shard) for split, division in divisions.items() for shard in range(division.parts))
    found = sorted((shard.name.split, shard.name.shard) for shard in shards)
    if found != expected:
        missing = sorted(set(expected) - set(found))[:_PUBLISH_MAX_SHOWN]
        extra = [key for key, n in Counter(found).items() if n > 1][:_PUBLISH_MAX_SHOWN]
        raise JobError(f"of {len(expected)} shards, got {len(found)}; missing: {missing}, more than once: {extra}")


def check_counts(build: description.Build) -> None:
    """Check that every record read was written or rejected, in each shard and in all; raise JobError if not."""
    for shard in build.shards:
        if shard.planned != shard.done + shard.rejected:
            raise JobError(
                f"{shard.name}: {shard.planned} records planned, but {shard.done} written and {shard.rejected} rejected"
            )
    written = sum(shard.done for shard in build.shards)
    if build.records != written + build.rejects.records:
        raise JobError(
            f"{build.records} records read, but {written} written and {build.rejects.records} rejected: "
            "records were lost; nothing was published"
        )


def _check_rejects(build: description.Build, options: description.PublishOptions) -> None:
    """Raise JobError if too much was rejected, after writing all rejects next to the version directory."""
    rejects, number, matched = build.rejects, build.rejects.records, build.records
    needed = reject_flag(number, matched, options.max_reject_fraction)
    damaged = rejects.losses.failure(options.on_damaged_file, needed if number < matched else None)
    if damaged and (number < matched or number == rejects.losses.records):
        problem = f"{damaged}; all rejects are"
    elif not number or (number < matched and not needed):
        return
    else:
        limit = f"more than --max_reject_fraction {options.max_reject_fraction} allows"
        most = rejects.most_frequent
        assert most is not None
        more = damaged or f"{reject_flag(number, matched, 0)[1:]} publishes the others" * (number < matched)
        times = f"{'at least ' if rejects.is_lower_bound else ''}{most.rejects} time{'' if most.rejects == 1 else 's'}"
        problem = (
            f"{number} of {matched} records were rejected, {limit if number < matched else 'none is left'}; "
            f"most often ({times}): {most.text}, such as {most.source!r}{'; ' * bool(more)}{more}; all are"
        )
    write_stream(options.failed_rejects, rejects.chunks(), rejects.size_bytes)
    raise JobError(f"{problem} in {options.failed_rejects}; nothing was published")
