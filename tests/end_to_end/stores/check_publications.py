"""Publishing on stores as a protocol: failed and killed at every single request, and never both versions lost; on local
disks see tests/end_to_end/publish/test_publication.py."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.errors import JobError
from shardmill.metadata import file_names
from shardmill.pipelines.jobs import outcome
from shardmill.pipelines.jobs.outcome import repair
from shardmill.transforms.publishing.description import Build, PublishOptions
from shardmill.transforms.publishing.lease import Owner
from shardmill.transforms.publishing.publish import prepare_folder, publish
from shardmill.transforms.stores.clients import set_options
from shardmill.transforms.stores.patience import VARIABLES
from tests.end_to_end.publish.test_publication import NEW, OLD, published, start
from tests.support.buckets import Bucket, Files, below
from tests.support.builds import FEATURES, options
from tests.support.command import local_files
from tests.support.faults import STRIKES, Killed, struck

VERSION = "flowers/1.0.0"


@pytest.fixture(autouse=True)
def once(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request is made once: what is refused has failed."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    set_options(PipelineOptions([*bucket.flags, "--s3_attempts=1", "--store_patience=0"]))


def lock_of(job: str) -> bytes:
    """The LOCK of a job whose process has ended."""
    return replace(Owner.this_process(job, 300), started="").to_json().encode()


@dataclass(frozen=True)
class Stage:
    """What lies below an output folder as the newer job begins to publish, and what each job publishes undisturbed.

    Attributes:
      files: there, by their names.
      build: what the newer job made, on the disk that `files` were on.
      disk: that was.
      versions: files of the version directory, by job.
    """

    files: Files
    build: Build
    disk: Path
    versions: dict[str, Files]

    def on(self, output: str) -> Build:
        """The build, at the URL of another output folder."""
        moved = [
            replace(shard, temporary=shard.temporary.replace(str(self.disk), output)) for shard in self.build.shards
        ]
        return replace(self.build, shards=moved)


def of_version(files: Files) -> Files:
    """The files of the version directory, but for LOCK and temporary ones."""
    return {
        name: data
        for name, data in below(files, VERSION).items()
        if name != file_names.LOCK and not name.startswith(file_names.TEMP_PREFIX)
    }


@pytest.fixture(scope="module", params=["overwrite", "new"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    versions = {}
    for job in (OLD, NEW):
        folder = tmp_path_factory.mktemp("undisturbed")
        published(folder, job)
        versions[job] = of_version(local_files(folder))
    disk = tmp_path_factory.mktemp("stage")
    if request.param == "overwrite":
        published(disk, OLD)
    made = start(disk, NEW)
    return Stage({**local_files(disk), f"{VERSION}/{file_names.LOCK}": lock_of(NEW)}, made, disk, versions)


def options_of(output: str, job: str, overwrite: bool = True) -> PublishOptions:
    return replace(options(Path("/nowhere"), job=job, overwrite=overwrite), output=output)


@pytest.mark.parametrize("strike", STRIKES)
def test_disturbed_at_every_request(bucket: Bucket, stage: Stage, strike: str) -> None:
    older = file_names.SUCCESS in of_version(stage.files)
    ends = set()
    for number in itertools.count():
        output = f"{bucket.url}/{number}"
        bucket.put_all(str(number), stage.files)
        made = stage.on(output)
        hows = list(HOW)
        how = hows[(number + STRIKES.index(strike) + 2 * older) % len(hows)]
        said: Exception | Killed | None = None
        with struck(number, strike) as requests:
            try:
                publish(made, FEATURES, options_of(output, NEW, overwrite=older))
            except (JobError, OSError, Killed) as error:
                said = error
        if requests.count <= number:
            break
        found = below(bucket.files(f"{number}/"), str(number))
        if isinstance(said, Exception):
            check_said(str(said), of_version(found))
        ends.add((said is not None, check(bucket, number, stage, made, how)))
    assert number > 20
    # Some struck before anything was touched, some later.
    assert {end for stopped, end in ends if stopped} == {OLD if older else None, NEW}
    assert {end for stopped, end in ends if not stopped} <= {NEW}


def check_said(said: str, found: Files) -> None:
    """Check that the sentence of a publication that failed is true."""
    begun, success = file_names.PUBLISHING in found, file_names.SUCCESS in found
    assert ("is published, but" in said) <= success
    assert begun <= ("completes it" in said) <= (begun or success), said


def check(bucket: Bucket, number: int, stage: Stage, made: Build, how: str) -> str | None:
    """Check what a disturbed publication left, bring it to its end, and check that; the version that is published
    then."""
    output = f"{bucket.url}/{number}"
    left = of_version(below(bucket.files(f"{number}/"), str(number)))
    begun = file_names.PUBLISHING in left
    if file_names.SUCCESS in left:  # which readers believe
        assert any(files.items() <= left.items() for files in stage.versions.values())
    else:
        assert begun or file_names.SUCCESS not in of_version(stage.files), (
            "the older version is gone, and nothing says how"
        )
    before = whole(left, stage)
    if begun or how != "next attempt":
        HOW[how](bucket, number, made)
    files = below(bucket.files(f"{number}/"), str(number))
    end = whole(of_version(files), stage)
    assert end == (NEW if begun else before)
    if end is not None:
        assert files["flowers/LATEST"] == b"1.0.0\n"

    bucket.put(f"{number}/{VERSION}/{file_names.LOCK}", lock_of("next"))
    prepare_folder(options_of(output, "next"))
    assert not [name for name in bucket.names(f"{number}/") if file_names.TEMP_PREFIX in name]
    return end


def whole(found: Files, stage: Stage) -> str | None:
    """Which version is published, every byte of it; None if there is none, or its publication has not come to its
    end."""
    if file_names.PUBLISHING in found or file_names.SUCCESS not in found:
        return None
    (job,) = (job for job, files in stage.versions.items() if files == found)
    return job


def next_run(bucket: Bucket, number: int, made: Build) -> None:
    bucket.put(f"{number}/{VERSION}/{file_names.LOCK}", lock_of("next"))
    outcome._complete_version(f"{bucket.url}/{number}/{VERSION}", True, "next")


HOW: dict[str, Callable[[Bucket, int, Build], object]] = {
    "repair": lambda bucket, number, made: repair(f"{bucket.url}/{number}/{VERSION}"),
    "repair above": lambda bucket, number, made: repair(f"{bucket.url}/{number}/flowers"),
    "next attempt": lambda bucket, number, made: publish(
        made, FEATURES, options_of(f"{bucket.url}/{number}", NEW, overwrite=False)
    ),
    "next run": next_run,
}
