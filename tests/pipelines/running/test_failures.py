"""What becomes of a failed job's error, by what a step reported and what the runner raised; test_launch.py has real
ones."""

import pytest

from shardmill.errors import ERRORS_BY_NAME, JobError, UserError
from shardmill.pipelines.jobs.launch import error_to_raise
from shardmill.transforms.workers.running import Failure

TEXT = "Traceback\n  File\nshardmill.errors.UserError: of a step before\n\nRuntimeError: bundle failed\n"


@pytest.mark.parametrize("kind", ERRORS_BY_NAME.values())
def test_what_a_step_reported_is_raised(kind: type[Exception]) -> None:
    raised = error_to_raise(
        RuntimeError(TEXT), Failure("Layout", kind.__name__, "no 'a [while running 'b'] c' is there")
    )

    assert (type(raised), str(raised)) == (kind, "no 'a [while running 'b'] c' is there")


def test_of_another_error_the_step_is_named() -> None:
    raised = error_to_raise(RuntimeError(TEXT), Failure("Write/WriteShard", "", "OSError: disk full"))

    assert (type(raised), str(raised)) == (JobError, "the job failed in step Write/WriteShard: OSError: disk full")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            'ValueError: An error occurred while trying to apply the transformation: "Graph execution error: Detected'
            " at node assert defined at (most recent call last): <stack traces unavailable> assertion failed: [no]"
            ' [[{{node assert}}]] [Op:f]". Batch instances: pyarrow.RecordBatch secret: [[1]], Fetching the values',
            "assertion failed: [no]",
        ),
        ("ValueError: no", "ValueError: no"),
        (f"ValueError: {'x' * 400}", f"ValueError: {'x' * 287}…"),
    ],
)
def test_what_tft_says_of_an_analysis_is_told_without_the_examples(said: str, sentence: str) -> None:
    raised = error_to_raise(RuntimeError(TEXT), Failure("AnalyzeModule/Analyze/Apply", "", said))

    expected = f"--module_file: TensorFlow Transform cannot analyze the examples: {sentence}"
    assert (type(raised), str(raised)) == (JobError, expected)


@pytest.mark.parametrize("kind", ["Exception", "SystemExit", "KINDS"])
def test_a_report_names_no_other_class(kind: str) -> None:
    assert kind not in ERRORS_BY_NAME
    assert str(error_to_raise(RuntimeError(TEXT), Failure("Step", kind, "x"))) == "the job failed in step Step: x"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (RuntimeError(""), "the job failed: RuntimeError"),
        (RuntimeError("Traceback\n  File\nOSError: disk full\n\n"), "the job failed: OSError: disk full"),
        (RuntimeError(TEXT), "the job failed: RuntimeError: bundle failed"),
    ],
)
def test_without_a_report_the_runner_has_the_word(error: Exception, sentence: str) -> None:
    raised = error_to_raise(error, None)

    assert (type(raised), str(raised)) == (JobError, sentence)


def test_the_sentence_is_that_before_beam_wrote_behind_it() -> None:
    first, second = UserError("a [while running 'b'] c"), UserError("a [while running 'b'] c [in other words]")
    second.__context__ = first
    first.__context__ = JobError("dealt with")

    assert error_to_raise(second, None) is first


def test_an_error_of_ours_that_was_dealt_with_is_not_shown() -> None:
    error = OSError("disk full")
    error.__context__ = UserError("no such column")

    assert str(error_to_raise(error, None)) == "the job failed: disk full"
