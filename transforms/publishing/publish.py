"""The last step: check that nothing is lost, write what describes the data set, and publish it; see publication.

Everything here may run twice (a runner repeats a failed or a slow attempt) and gives the same result: an attempt goes
on where an earlier one of its job stopped, and one that comes late finds all done.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import google_crc32c

from shardmill.errors import JobError, LockedError
from shardmill.features.feature import Features
from shardmill.metadata import file_template, naming
from shardmill.transforms.publishing import build_records, checking, job_folder, lease, publication
from shardmill.transforms.publishing.describe import (
    Build,
    PublishOptions,
    described,
    make_manifest,
    metadata_files,
    rejects_files,
)
from shardmill.transforms.publishing.journal import Journal, Move
from shardmill.transforms.publishing.keep_files import forget_others, keep_files
from shardmill.transforms.publishing.latest import latest
from shardmill.transforms.rejects import losses
from shardmill.transforms.rejects.gathered import Rejects
from shardmill.transforms.sharding.divisions import Divisions
from shardmill.transforms.stores import locks, storage
from shardmill.transforms.stores.streams import write_stream
from shardmill.transforms.stores.together import together
from shardmill.transforms.writing.shard_info import ShardInfo

_SHOWN = 5  # shards that are missing, or there more than once
_METADATA = "metadata"  # the folder that what describes the data set is staged in


def prepare(options: PublishOptions) -> str:
    """Clear what dead jobs left; returns the temporary directory.

    Raises:
      LockedError: the job has lost the lease of the version directory, which its launcher took.
    """
    lease.check(options.directory, options.job)
    job_folder.clear_others(options.directory, options.temporary)
    folder = storage.join(options.directory, options.temporary)
    storage.make_directory(folder)
    return folder


def publish(build: Build, features: Features, options: PublishOptions) -> list[str]:
    """Check `build`, then publish it; returns the paths of the shards.

    Raises:
      ChecksError: it must not be published; its shards are kept apart.
      LockedError: the job has lost the lease of the version directory.
      JobError: records were lost, more were rejected than --max_reject_fraction allows, another job was faster, or an
        operation failed; the message says what was published.
    """
    shards = sorted(build.shards, key=lambda shard: (shard.name.split, shard.name.shard))
    check_complete(shards, build.divisions)
    check_counts(build)
    _check_rejects(build, options)
    more = _more_files(build, options)
    said = build.said_of_more(more) if more and build.said_of_more is not None else ()
    build = replace(build, notices=(*build.notices, *said))
    files = metadata_files(make_manifest(build, features, options), build, options.asked, more)

    storage.make_directory(options.directory)
    with locks.locked(options.directory):
        journal = _journal(shards, files, build.rejects, options)
        if journal is not None:
            publication.complete(options.directory, journal)
            if options.remember is not None:
                forget_others(options.parent, options.version, files[naming.MANIFEST])
    return [storage.join(options.directory, str(shard.name)) for shard in shards]


def published_before(shards: Sequence[ShardInfo], options: PublishOptions) -> list[str] | None:
    """The paths of the shards, where an earlier attempt of this job has published them, and cleared away what
    describing them takes; else None."""
    if not shards or storage.exists(shards[0].temporary):
        return None
    if not storage.exists(storage.join(options.directory, naming.SUCCESS)):
        return None
    manifest = storage.read_bytes(storage.join(options.directory, naming.MANIFEST)).decode()
    named = [(str(shard.name), f'"{shard.crc32c:08x}"') for shard in shards]
    if not all(f'"{name}"' in manifest and crc in manifest for name, crc in named):
        return None
    return [storage.join(options.directory, name) for name in sorted(name for name, _ in named)]


def _more_files(build: Build, options: PublishOptions) -> dict[str, bytes]:
    """The files that a route adds. What they are made of lies in the job's temporary directory: an attempt that comes
    after another has published finds them where that one put them."""
    if build.more is None:
        return {}
    try:
        return dict(build.more())
    except FileNotFoundError:
        if not storage.exists(storage.join(options.directory, naming.SUCCESS)):
            raise
    names = [name for name, _ in storage.list_files(options.directory) if naming.is_transform_file(name)]
    return {name: storage.read_bytes(storage.join(options.directory, name)) for name in names}


def _journal(
    shards: Sequence[ShardInfo], files: Mapping[str, bytes], rejects: Rejects, options: PublishOptions
) -> Journal | None:
    """The journal by which to publish, written; None if all is done. The version directory is locked where that can
    be, so that two attempts of one job follow each other."""
    success = storage.join(options.directory, naming.SUCCESS)
    found, is_there = together(
        options.directory,
        partial(job_folder.read_journal, options.directory),
        partial(storage.exists, success),
    )
    if found is not None and found.job == options.job:
        return found
    if is_there and _is_done(shards, files, options):
        return None
    _check_lease(options)
    if found is not None:  # of a job that had lost its lease as it began
        publication.settle(options.directory, found, discard=True, job=options.job)
    checked = checking.Checked()
    if options.checks is not None:
        checked = checking.check(shards, files, rejects, options, datetime.now(UTC))
    _check_ours(shards, options)
    index, moves, before = together(
        options.directory,
        partial(keep_files, options.parent, options.version, files[naming.MANIFEST], shards, options.remember),
        partial(_stage, shards, files, rejects, options),
        partial(latest, options.directory),
    )
    if options.record is not None:
        record = checked.told(options.record, datetime.now(UTC))
        build_records.stage(options.directory, options.temporary, described(record, files[naming.MANIFEST], index))
    journal = Journal(
        options.job,
        options.name,
        options.version,
        options.temporary,
        before,
        tuple(moves),
        options.set_latest,
        _templates(shards, options.directory, is_there),
    )
    publication.begin(options.directory, journal)
    return journal


def _templates(shards: Sequence[ShardInfo], directory: str, is_there: bool) -> tuple[str, ...]:
    """By which shards are called, those to be published and those that are there, beside the default."""
    older = job_folder.templates_in(directory, [naming.MANIFEST]) if is_there else set()
    return tuple(sorted((older | {shard.name.template for shard in shards}) - {file_template.DEFAULT}))


def _check_lease(options: PublishOptions) -> None:
    try:
        lease.check(options.directory, options.job)
    except LockedError as error:
        raise LockedError(f"{error}; nothing of this one was published") from None


def _is_done(shards: Sequence[ShardInfo], files: Mapping[str, bytes], options: PublishOptions) -> bool:
    """Whether an earlier attempt published the version that is there, and cleared up.

    Raises:
      JobError: another job published that version meanwhile, and --overwrite was not given.
    """
    if not any(storage.exists(shard.temporary) for shard in shards[:1]):
        path = storage.join(options.directory, naming.MANIFEST)
        if storage.exists(path) and storage.read_bytes(path) == files[naming.MANIFEST]:
            return True
    if not options.overwrite:
        raise JobError(
            f"{options.directory} was published by another job while this one ran, and stands: nothing of this one was "
            "published; give --overwrite to replace it, or another --version to keep both"
        )
    return False


def _check_ours(shards: Sequence[ShardInfo], options: PublishOptions) -> None:
    """Check that all shards lie where they were written, as long as they were: another job may have taken this one for
    dead."""
    folder = storage.join(options.directory, options.temporary)
    sizes = {storage.join(folder, name): size for name, size in storage.list_files(folder)}
    for shard in shards:
        if sizes.get(shard.temporary) != shard.size_bytes:
            raise JobError(
                f"{shard.temporary} has {sizes.get(shard.temporary, 'no')} bytes, but {shard.size_bytes} were written:"
                f" does another job write to {options.directory}? Nothing was published"
            )


def _stage(
    shards: Sequence[ShardInfo], files: Mapping[str, bytes], rejects: Rejects, options: PublishOptions
) -> Iterable[Move]:
    """Write `files` and the rejects beside the shards, and see that all is on its disk."""
    moves = [
        Move(
            shard.temporary.removeprefix(f"{options.directory}/"),
            str(shard.name),
            shard.size_bytes,
            f"{shard.crc32c:08x}",
        )
        for shard in shards
    ]
    folder = f"{options.temporary}/{_METADATA}"
    for name, found in rejects_files(rejects).items():
        write_stream(storage.join(options.directory, f"{folder}/{name}"), found.chunks(), found.size_bytes)
        moves.append(Move(f"{folder}/{name}", name, found.size_bytes, f"{found.crc32c:08x}"))
    storage.write_all({storage.join(options.directory, f"{folder}/{name}"): data for name, data in files.items()})
    moves += [_move(f"{folder}/{name}", name, data) for name, data in files.items()]
    paths = [storage.join(options.directory, move.temporary) for move in moves]
    storage.sync_files(paths)
    storage.sync_directories(publication.folders_of(paths, storage.join(options.directory, options.temporary)))
    return moves


def _move(temporary: str, name: str, data: bytes) -> Move:
    return Move(temporary, name, len(data), f"{google_crc32c.value(data):08x}")


def check_complete(shards: Sequence[ShardInfo], divisions: Divisions) -> None:
    """Check that there is each shard of each split exactly once; raises JobError."""
    expected = sorted((split, shard) for split, division in divisions.items() for shard in range(division.parts))
    found = sorted((shard.name.split, shard.name.shard) for shard in shards)
    if found != expected:
        missing, extra = sorted(set(expected) - set(found)), [key for key, n in Counter(found).items() if n > 1]
        raise JobError(
            f"expected {len(expected)} shards, got {len(found)}; missing: {missing[:_SHOWN]}, more than once:"
            f" {extra[:_SHOWN]}"
        )


def check_counts(build: Build) -> None:
    """Check that every record read was written or rejected, in each shard and in all; raises JobError."""
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


def _check_rejects(build: Build, options: PublishOptions) -> None:
    rejects = build.rejects
    if damaged := losses.failure(rejects.losses, rejects.unsure, options.on_damaged_file):
        _keep(rejects, options)
        raise JobError(f"{damaged}; all rejects are in {options.failed_rejects}; nothing was published")
    number, matched = rejects.records, build.records
    if number <= options.max_reject_fraction * matched and number < matched:
        return
    _keep(rejects, options)
    verdict = (
        f"more than --max_reject_fraction {options.max_reject_fraction} allows" if number < matched else "none is left"
    )
    most = rejects.most
    assert most is not None
    times = f"{'at least ' if most.at_least else ''}{most.times} time{'' if most.times == 1 else 's'}"
    raise JobError(
        f"{number} of {matched} records were rejected, {verdict}; "
        f"most often ({times}): {most.reason}, such as {most.example!r}; "
        f"all are in {options.failed_rejects}; nothing was published"
    )


def _keep(rejects: Rejects, options: PublishOptions) -> None:
    """Leave the rejects of a job that fails beside the version directory."""
    write_stream(options.failed_rejects, rejects.chunks(), rejects.size_bytes)
