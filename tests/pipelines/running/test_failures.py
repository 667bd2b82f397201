"""What runners raise, as the error that is shown; test_launch.py has what they raise in truth."""

import pytest

from pipelines.running.failures import translate
from shardmill.errors import JobError, UserError

WORKER_TRACE = """Traceback (most recent call last):
  File "apache_beam/runners/common.py", line 1, in process
  File "transforms/layout/files.py", line 5, in make_layout
shardmill.errors.UserError: class 'röse' is in the input [but] not in --labels_file [while running 'Layout']

During handling of the above exception, another exception occurred:
RuntimeError: bundle failed"""


TWICE = """Traceback (most recent call last):
  File "transforms/layout/files.py", line 5, in make_layout
shardmill.errors.UserError: no 'a [while running 'b'] c' is there

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "apache_beam/runners/common.py", line 1, in process
shardmill.errors.UserError: no 'a [while running 'b'] c' is there [in the words of another Beam]
"""


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (UserError("as it is"), UserError, "as it is"),
        (RuntimeError(WORKER_TRACE), UserError, "class 'röse' is in the input [but] not in --labels_file"),
        (RuntimeError("x\nshardmill.errors.JobError: lost"), JobError, "lost"),
        (RuntimeError("shardmill.errors.UserError: first\n\nshardmill.errors.JobError: last\n"), JobError, "last"),
        (RuntimeError("boom [while running 'Write/WriteShard-ptransform-7']"), JobError, None),
        (RuntimeError(TWICE), UserError, "no 'a [while running 'b'] c' is there"),
        (RuntimeError(""), JobError, "the job failed: RuntimeError"),
        (RuntimeError("Traceback\n  File\nOSError: disk full\n\n"), JobError, "the job failed: OSError: disk full"),
    ],
)
def test_translations(error: Exception, kind: type[Exception], sentence: str | None) -> None:
    translated = translate(error)

    assert type(translated) is kind
    if sentence is not None:
        assert str(translated) == sentence
    else:
        assert str(translated).startswith("the job failed in step Write/WriteShard")
        assert str(translated).endswith(": boom")


def test_the_sentence_is_that_before_beam_wrote_behind_it() -> None:
    first, second = UserError("a [while running 'b'] c"), UserError("a [while running 'b'] c [in other words]")
    second.__context__ = first

    assert str(translate(second)) == "a [while running 'b'] c"


def test_of_two_errors_the_one_raised_last_is_shown() -> None:
    first, second = UserError("no such column"), JobError("the file changed [while running 'Read']")
    second.__context__ = first

    assert (type(translate(second)), str(translate(second))) == (JobError, "the file changed")


def test_an_error_of_ours_that_was_dealt_with_is_not_shown() -> None:
    error = OSError("disk full")
    error.__context__ = UserError("no such column")

    assert str(translate(error)) == "the job failed: disk full"
