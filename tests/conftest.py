"""Fixtures of all tests, and which process runs them."""

import re

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from shardmill.pipelines import cli
from tests.support.command import Result, Run
from tests.support.quick_beam import quicken_beam

# On a machine that is busy an example may take any time, and so may making one.
settings.register_profile("shardmill", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shardmill")


# What imports TensorFlow into the process of a test: in seconds, and half a gigabyte. TensorFlow's metadata do not.
_TENSORFLOW = re.compile(r"[\"' ]tensorflow(_datasets|_transform)?\b|shardmill\.load\(|--materialize|materialize: true")


class _Scheduling(LoadFileScheduling):
    """Each file's tests in one process, and in one those of all files that use TensorFlow."""

    def __init__(self, config: pytest.Config, log: Producer | None) -> None:
        super().__init__(config, log)
        self._root = config.rootpath
        self._scopes: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        if file not in self._scopes:
            uses = _TENSORFLOW.search((self._root / file).read_text())
            self._scopes[file] = "tensorflow" if uses else file
        return self._scopes[file]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Called in the process that deals the tests out."""
    return _Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_runtest_setup() -> None:
    """Called before each test: as soon as one has imported Beam, the next is quicker."""
    quicken_beam()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("images", "--input", …)` in this process."""

    def command(*arguments: object) -> Result:
        capsys.readouterr()
        status = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return command
