"""Running a pipeline: its result, and its failures as one sentence."""

import glob
import logging
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import core, userstate

from shardmill.errors import JobError, UserError
from shardmill.pipelines.jobs import launch
from shardmill.transforms.stores import patience


def raise_(error: Exception) -> Callable[[object], None]:
    def fail(_: object) -> None:
        raise error

    return fail


def run(function: Callable[[Any], Any], *flags: str) -> None:
    def build(pipeline: beam.Pipeline, _: str | None) -> None:
        _ = pipeline | beam.Create([1]) | "Step" >> beam.Map(function)

    launch.run_pipeline(build, PipelineOptions(list(flags)), "test")


FIRST_BEGUN, SECOND_BEGUN, FIRST_ENDED = (threading.Event() for _ in range(3))
SEEN: list[Any] = []


def first_step(_: object) -> None:
    FIRST_BEGUN.set()
    SECOND_BEGUN.wait(60)


def second_step(_: object) -> None:
    SECOND_BEGUN.set()
    FIRST_ENDED.wait(60)
    SEEN.extend([logging.getLogger("apache_beam").level, patience._withdrawn.is_set()])


def test_jobs_that_overlap_share_the_settings_of_the_process() -> None:
    """The job that ends first leaves the other one its settings; the last one restores those of before."""

    def settings() -> list[Any]:
        hooks = threading.excepthook, core.get_signature, userstate.get_dofn_specs
        return [*hooks, logging.getLogger("apache_beam").level, patience._withdrawn.is_set()]

    before = settings()
    first, second = (threading.Thread(target=run, args=(step,), daemon=True) for step in (first_step, second_step))
    first.start()
    FIRST_BEGUN.wait(60)
    second.start()
    first.join()
    FIRST_ENDED.set()
    second.join()

    assert SEEN == [logging.CRITICAL, False]
    assert settings() == before


def test_a_job_runs_to_its_end(tmp_path: Path) -> None:
    run(lambda value: (tmp_path / "done").write_text(str(value)))

    assert (tmp_path / "done").read_text() == "1"


@pytest.mark.parametrize("kind", [UserError, JobError])
@pytest.mark.parametrize(
    "sentence",
    [
        "class 'rose' is not in --labels_file; add it",
        "60 of 61: 'it's'; [why]: nothing was published",
        "a name with a colon: UserError: or two",
        "a folder called 'a [while running 'b'] c' is not there",
    ],
)
def test_our_errors_arrive_as_their_sentence(kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind) as caught:
        run(raise_(kind(sentence)))
    assert str(caught.value) == sentence


def test_our_errors_arrive_from_another_process() -> None:
    sentence = "class 'rose [while running 'b'] c' is new"
    with pytest.raises(UserError) as caught:
        run(raise_(UserError(sentence)), "--direct_running_mode", "multi_processing")
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("no luck"), "no luck"),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_other_errors_name_the_step_and_the_cause(error: Exception, sentence: str) -> None:
    with pytest.raises(JobError) as caught:
        run(raise_(error))
    assert str(caught.value).startswith("the job failed in step Step")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "while running" not in str(caught.value)


def test_the_progress_folder_is_there_while_it_runs_and_gone_after() -> None:
    folders: list[str] = []

    def build(pipeline: beam.Pipeline, folder: str | None) -> None:
        assert folder is not None
        assert os.path.isdir(folder)
        folders.append(folder)
        _ = pipeline | beam.Create([folder]) | beam.Map(os.listdir)

    before = set(glob.glob(f"{tempfile.gettempdir()}/shardmill-progress-*"))
    launch.run_pipeline(build, PipelineOptions([]), "test")

    assert not os.path.exists(folders[0])
    assert folders[0] not in before


def test_multi_threading_never_starts(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="multi_threading loses records"):
        run(lambda _: (tmp_path / "done").touch(), "--direct_running_mode", "multi_threading")
    assert not (tmp_path / "done").exists()


def test_options_that_beam_refuses() -> None:
    with pytest.raises(
        UserError, match=r"^Beam refuses the options of the run: .* process_command is required for .* PROCESS\.$"
    ):
        run(lambda element: element, "--runner", "FlinkRunner", "--environment_type", "PROCESS")
