"""Fixtures of all tests, and the check that few of them import TensorFlow."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from shardmill.pipelines import cli
from tests.support.command import Result, Run
from tests.support.image_jobs import ImageJobs
from tests.support.jobs import Jobs
from tests.support.quick_beam import quicken_beam
from tests.support.record_files import write_all_layouts

# On a machine that is busy an example may take any time, and so may making one.
settings.register_profile("shardmill", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shardmill")


_HAD_TENSORFLOW = pytest.StashKey[bool]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Called before each test: as soon as one has imported Beam, the next is quicker."""
    quicken_beam()
    item.stash[_HAD_TENSORFLOW] = "tensorflow" in sys.modules


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Called after each test: TensorFlow costs ten seconds and half a gigabyte, so only marked tests import it."""
    imports_it = "tensorflow" in sys.modules and not item.stash[_HAD_TENSORFLOW]
    if imports_it and not any(item.iter_markers("slow")) and not any(item.iter_markers("tensorflow")):
        pytest.fail("this test imports TensorFlow: mark it slow")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("images", "--input", …)` in this process."""

    def command(*arguments: object) -> Result:
        capsys.readouterr()
        status = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return command


@pytest.fixture
def jobs(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """`jobs.build("csv --label kind", files={"a.csv": …})` in this process and in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return Jobs(tmp_path, run)


@pytest.fixture(scope="session")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TFRecord files of each layout."""
    return write_all_layouts(tmp_path_factory.mktemp("layouts"))


@pytest.fixture(params=[True, False], ids=["compiled", "python"])
def is_compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run a test with the compiled extension, and with the Python code that takes its place."""
    from tests.support.native import without_native

    if not request.param:
        without_native(monkeypatch)
    return bool(request.param)


@pytest.fixture
def images(jobs: Jobs) -> ImageJobs:
    """Image jobs in a new folder, which is the working folder."""
    return ImageJobs(jobs)


@pytest.fixture(scope="session")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Houses with a transform; their table is `houses.csv`, next to the output folder."""
    import pyarrow.csv

    from tests.support.houses import convert, rows

    root = tmp_path_factory.mktemp("houses")
    pyarrow.csv.write_csv(rows(), root / "houses.csv")
    return convert(root, "csv", root / "houses.csv", "--threads", "1")


@pytest.fixture(scope="session")
def gs_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """An emulator of Google's storage and its environment; one a process, for Beam keeps its first credentials."""
    from tests.support.buckets import google_credentials, server

    folder = tmp_path_factory.mktemp("gs")
    with server("gs", folder / "log") as endpoint, pytest.MonkeyPatch.context() as patch:
        environment = google_credentials(folder, endpoint)
        for name, value in environment.items():
            patch.setenv(name, value)
        yield endpoint, environment
