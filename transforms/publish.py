"""The last step: check that nothing is lost, give shards their names, write what describes them, and `_SUCCESS` last.

Everything here may run twice (a runner repeats a failed or a slow attempt) and gives the same result: a rename already done is
passed over, and nothing is deleted but what belongs to an earlier build, by exact name.
"""

from collections import Counter
from collections.abc import Sequence, Set

from shardmill import naming
from shardmill.errors import JobError
from shardmill.features import Features
from shardmill.seal import seal
from transforms import storage
from transforms.describe import Build, PublishOptions, make_manifest, metadata_texts, rejects_text
from transforms.find_cuts import Divisions
from transforms.write_shards import ShardInfo


def prepare(options: PublishOptions) -> None:
    """Clear what an interrupted job left. A published data set stands until its successor is complete."""
    delete_temporaries(options.directory)
    if not storage.exists(storage.join(options.directory, naming.SUCCESS)):
        _delete(options, keep=set())
    storage.make_directory(options.directory)


def delete_temporaries(directory: str) -> None:
    """Delete the temporary directories of every job that wrote to `directory`."""
    for folder in storage.list_folders(directory):
        if folder.startswith(naming.TEMP_PREFIX):
            storage.delete_tree(storage.join(directory, folder))
    storage.abort_uploads(storage.join(directory, naming.TEMP_PREFIX))


def publish(build: Build, features: Features, options: PublishOptions) -> list[str]:
    """Check `build`, then publish it; returns the paths of the shards.

    Raises:
      JobError: records were lost, or more were rejected than --max_reject_fraction allows.
    """
    shards = sorted(build.shards, key=lambda shard: (shard.name.split, shard.name.shard))
    check_complete(shards, build.divisions)
    check_counts(build)
    _check_rejects(build, options)
    manifest = make_manifest(build, features, options)
    texts = metadata_texts(manifest, build)

    storage.delete([storage.join(options.directory, naming.SUCCESS)])
    finals = [str(shard.name) for shard in shards]
    _delete(options, keep={*finals, *texts})
    paths = [storage.join(options.directory, name) for name in finals]
    storage.rename([shard.temporary for shard in shards], paths)
    _check_sizes(shards, options.directory)
    for name, text in texts.items():
        storage.write_text(storage.join(options.directory, name), text)
    delete_temporaries(options.directory)
    storage.delete([options.failed_rejects])
    storage.write_text(storage.join(options.directory, naming.SUCCESS), seal(texts[naming.MANIFEST].encode()))
    storage.write_text(storage.join(options.parent, naming.LATEST), f"{options.version}\n")
    return paths


def check_complete(shards: Sequence[ShardInfo], divisions: Divisions) -> None:
    """Check that there is each shard of each split exactly once; raises JobError."""
    expected = sorted((split, shard) for split, division in divisions.items() for shard in range(division.parts))
    found = sorted((shard.name.split, shard.name.shard) for shard in shards)
    if found != expected:
        missing, extra = sorted(set(expected) - set(found)), [key for key, n in Counter(found).items() if n > 1]
        raise JobError(f"expected {len(expected)} shards, got {len(found)}; missing: {missing[:5]}, more than once: {extra[:5]}")


def check_counts(build: Build) -> None:
    """Check that every record read was written or rejected, in each shard and in all; raises JobError."""
    for shard in build.shards:
        if shard.planned != shard.examples + shard.rejected:
            raise JobError(
                f"{shard.name}: {shard.planned} records planned, but {shard.examples} written and {shard.rejected} rejected"
            )
    written = sum(shard.examples for shard in build.shards)
    if build.records != written + len(build.rejects):
        raise JobError(
            f"{build.records} records read, but {written} written and {len(build.rejects)} rejected: "
            "records were lost; nothing was published"
        )


def _check_rejects(build: Build, options: PublishOptions) -> None:
    number, matched = len(build.rejects), build.records
    if number <= options.max_reject_fraction * matched and number < matched:
        return
    storage.write_text(options.failed_rejects, rejects_text(build.rejects))
    verdict = f"more than --max_reject_fraction {options.max_reject_fraction} allows" if number < matched else "none is left"
    ((reason, times),) = Counter(reject.reason for reject in build.rejects).most_common(1)
    raise JobError(
        f"{number} of {matched} records were rejected, {verdict}; "
        f"most often ({times} time{'' if times == 1 else 's'}): {reason}; all are in {options.failed_rejects}; "
        "nothing was published"
    )


def _check_sizes(shards: Sequence[ShardInfo], directory: str) -> None:
    """Check that the shards in `directory` are those just written: another job may have taken this one's temporary files."""
    sizes = dict(storage.list_files(directory))
    for shard in shards:
        if sizes.get(str(shard.name)) != shard.size_bytes:
            raise JobError(
                f"{shard.name} has {sizes.get(str(shard.name))} bytes, but {shard.size_bytes} were written: does another job "
                f"write to {directory}? Nothing was published"
            )


def _delete(options: PublishOptions, keep: Set[str]) -> None:
    """Delete what an earlier build left in the version directory, by exact name, but not what is still temporary."""
    doomed = [
        name
        for name, _ in storage.list_files(options.directory)
        if naming.is_dataset_file(name, options.name) and not name.startswith(naming.TEMP_PREFIX) and name not in keep
    ]
    storage.delete(storage.join(options.directory, name) for name in doomed)
