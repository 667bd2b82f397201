"""Publishing as a protocol: failed, killed, repeated and raced at every single file operation, and never both versions
lost."""

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardmill.errors import JobError
from shardmill.metadata import file_names
from shardmill.pipelines.jobs import outcome
from shardmill.pipelines.jobs.outcome import repair
from shardmill.transforms.publishing.description import Build
from shardmill.transforms.publishing.publish import prepare_folder, publish
from tests.support.builds import FEATURES, build, contents, options, own
from tests.support.faults import fail, faulty, in_child, kill

pytestmark = pytest.mark.slow

OLD, NEW = "older job", "new job"
SHARDS = {"train": 1, "test": 1}
NO_SUCH_OPERATION = 2
Contents = dict[str, bytes]


@pytest.fixture(scope="module", autouse=True)
def quick_disk() -> Iterator[None]:
    """No waiting for the disk: nothing here pulls the plug, and there are thousands of publications."""
    with faulty(None, fail):
        yield


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Contents]:
    """What each of the two jobs publishes where nothing disturbs it; the older has a reject, so other files and
    sizes."""
    return {job: published(tmp_path_factory.mktemp("undisturbed"), job) for job in (OLD, NEW)}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder, in memory where there is such: thousands of publications follow each other."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def version_of(output: Path) -> Path:
    return output / "flowers" / "1.0.0"


def start(output: Path, job: str) -> Build:
    """All that comes before Publish."""
    made = build(version_of(output), job, rejects=1 if job == OLD else 0, counts=SHARDS)
    prepare_folder(options(output, job=job))
    return made


def published(output: Path, job: str) -> Contents:
    publish(start(output, job), FEATURES, options(output, job=job))
    return contents(version_of(output))


def whole(output: Path, versions: dict[str, Contents]) -> str | None:
    """Which version is published, every byte of it; None if there is none, or its publication has not come to its
    end."""
    found = {
        name: data for name, data in contents(version_of(output)).items() if not name.startswith(file_names.TEMP_PREFIX)
    }
    if file_names.PUBLISHING in found or file_names.SUCCESS not in found:
        return None
    (job,) = (job for job, files in versions.items() if files == found)
    return job


def readable(directory: Path, versions: dict[str, Contents]) -> bool:
    """Whether there is a `_SUCCESS`, which readers believe: then all files of one version must be there."""
    found = contents(directory)
    if file_names.SUCCESS not in found:
        return False
    assert any(all(found.get(name) == data for name, data in files.items()) for files in versions.values())
    return True


HOW: dict[str, Callable[[Path, Build], object]] = {
    "repair": lambda output, made: repair(str(version_of(output))),
    "repair above": lambda output, made: repair(str(version_of(output).parent)),
    "next attempt": lambda output, made: publish(made, FEATURES, options(output, job=NEW, overwrite=False)),
    "next run": lambda output, made: next_run(version_of(output)),
}


def next_run(directory: Path) -> None:
    own(directory, "next")
    outcome._complete_version(str(directory), True, "next")


@pytest.mark.parametrize("older", [True, False], ids=["overwrite", "new"])
@pytest.mark.parametrize("strike", [fail, kill])
def test_disturbed_at_every_file_operation(
    memory: Path, versions: dict[str, Contents], strike: Callable[[], None], older: bool
) -> None:
    published(memory / OLD, OLD)
    ends = set()
    # So that each meets each operation in one of these four tests
    hows = list(HOW)[2 * older + (strike is kill) :] + list(HOW)
    for number in itertools.count():
        how, output = hows[number % len(HOW)], memory / str(number)
        if older:
            shutil.copytree(memory / OLD, output)
        made = start(output, NEW)

        def attempt(at: int = number, output: Path = output, made: Build = made) -> None:
            with faulty(at, strike) as faults:
                publish(made, FEATURES, options(output, job=NEW, overwrite=older))
            assert faults.count > at, "there is no such operation any more"

        status = in_child(attempt) if strike is kill else failed(attempt, version_of(output))
        if status == NO_SUCH_OPERATION:
            break
        ends.add((status != 0, check(output, versions, made, older, how)))
        shutil.rmtree(output)
    assert number > 50
    # Some struck before anything was touched, some later.
    assert {end for struck, end in ends if struck} == {OLD if older else None, NEW}
    assert {end for struck, end in ends if not struck} <= {NEW}


def check(output: Path, versions: dict[str, Contents], made: Build, older: bool, how: str) -> str | None:
    """Check what a disturbed publication left, bring it to its end, and check that; the version that is published
    then."""
    directory = version_of(output)
    begun = (directory / file_names.PUBLISHING).exists()
    if not readable(directory, versions):
        assert begun or not older, "the older version is gone, and nothing says how to complete the newer one"
    before = whole(output, versions)
    if begun or how != "next attempt":
        HOW[how](output, made)
    end = whole(output, versions)
    assert end == (NEW if begun else before)
    if end is not None:
        assert (directory.parent / file_names.LATEST).read_text() == "1.0.0\n"
    if how != "next attempt":
        the_next_job_leaves_nothing_of_it(output, versions)
    return end


def failed(attempt: Callable[[], None], directory: Path) -> int:
    """Whether the attempt failed; then its sentence must be true."""
    try:
        attempt()
    except AssertionError:
        return NO_SUCH_OPERATION
    except (JobError, OSError) as error:
        caught = error
    else:
        return 0
    begun, success = (directory / file_names.PUBLISHING).exists(), (directory / file_names.SUCCESS).exists()
    assert ("is published, but" in str(caught)) <= success
    assert begun <= ("completes it" in str(caught)) <= (begun or success)
    return 1


def the_next_job_leaves_nothing_of_it(output: Path, versions: dict[str, Contents]) -> None:
    directory = version_of(output)
    made = build(directory, "next", counts=SHARDS)
    prepare_folder(options(output, job="next"))
    publish(made, FEATURES, options(output, job="next"))
    assert contents(directory).keys() == versions[NEW].keys()
    assert not list(directory.glob(f"{file_names.TEMP_PREFIX}*"))
    assert {path.name for path in directory.parent.iterdir()} == {"1.0.0", file_names.LATEST}
