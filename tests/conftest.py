"""Fixtures of all tests."""

import pytest
from hypothesis import HealthCheck, settings

from pipelines import cli
from tests.support.command import Result, Run
from tests.support.quick_beam import quicken_beam

# On a machine that is busy an example may take any time, and so may making one.
settings.register_profile("shardmill", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shardmill")


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
