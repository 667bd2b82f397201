"""A step asks a store again until its patience ends; whoever asks from a terminal is told at once."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores import patience
from shardmill.transforms.stores.clients import set_options
from shardmill.transforms.stores.patience import call_with_retries
from shardmill.transforms.stores.protocol import GivenUpError
from tests.support.command import REPOSITORY, Run, check_mistake


class Failing:
    """Fails so many times."""

    def __init__(self, times: int, error: BaseException | None = None) -> None:
        self.left, self.asked, self.error = times, 0, error or ConnectionResetError("reset")

    def __call__(self, answer: str) -> str:
        self.asked += 1
        if self.asked <= self.left:
            raise self.error
        return answer


@pytest.fixture
def granted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(patience, "_FIRST_SECONDS", 0.01)
    patience.set_patience()
    yield
    patience.set_patience(False)
    set_options(None)


def test_until_it_works(granted: None) -> None:
    assert call_with_retries(Failing(4), "done") == "done"


def test_what_lasts_is_told_at_once(granted: None) -> None:
    for error in (FileNotFoundError("no"), PermissionError("no"), ValueError("no"), GivenUpError("no")):
        function = Failing(1, error)
        with pytest.raises(type(error), match=r"^no$"):
            call_with_retries(function, "done")
        assert function.asked == 1


def test_patience_ends(granted: None) -> None:
    set_options(PipelineOptions(["--store_patience=1"]))
    function = Failing(10**6)
    with pytest.raises(GivenUpError, match=r"^reset; it was tried again for 1 seconds$"):
        call_with_retries(function, "done")
    assert 4 <= function.asked <= 20
    set_options(PipelineOptions(["--store_patience=0"]))
    function = Failing(10**6)
    with pytest.raises(ConnectionResetError):
        call_with_retries(function, "done")
    assert function.asked == 1


def test_outside_of_a_job_nobody_waits() -> None:
    function = Failing(1)
    with pytest.raises(ConnectionResetError):
        call_with_retries(function, "done")
    assert function.asked == 1


@pytest.mark.parametrize("value", ["-1", "x", "1.5"])
def test_a_number_that_is_none_is_a_mistake(run: Run, value: str) -> None:
    check_mistake(
        run("images", "--input", "a", "--output", "b", "--name", "n", f"--store_patience={value}"), "--store_patience"
    )


def test_the_command_knows_the_flag() -> None:
    """In a process that has imported nothing yet."""
    words = ("images", "--input", "a", "--output", "b", "--name", "n", "--store_patience=x")
    said = subprocess.run([sys.executable, "-m", "shardmill", *words], cwd=REPOSITORY, capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (
        2,
        "shardmill: error: argument --store_patience: expected seconds, 0 or more, not 'x'\n",
    )
