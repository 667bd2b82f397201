"""Run a pipeline to its end, show how far it is, and turn what went wrong into one sentence."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.errors import JobError, UserError
from shardmill.pipelines.flags.option_views import RememberingOptions
from shardmill.pipelines.reports import log
from shardmill.pipelines.running.dataflow import job_said, quiet_client, refusal
from shardmill.pipelines.running.failures import to_raise
from shardmill.pipelines.running.loopback import loopback_workers
from shardmill.pipelines.running.lost_streams import log_level
from shardmill.pipelines.running.own_job_server import own_job_server
from shardmill.pipelines.running.progress import ProgressDisplay
from shardmill.pipelines.running.runner import check_running_mode, is_local, make_runner
from shardmill.pipelines.running.scratch import scratch_folder
from shardmill.pipelines.running.signatures import remembered_signatures
from shardmill.pipelines.running.watch import Watch
from shardmill.pipelines.running.worker_processes import WorkerProcesses
from shardmill.transforms.stores import patience, storage
from shardmill.transforms.stores.together import hold_shared
from shardmill.transforms.workers.reported import FILE, report_failures, reported

_POLL = 0.2  # seconds


def run(
    build: Callable[[beam.Pipeline, str | None], Any],
    options: PipelineOptions,
    title: str,
    quiet: bool = False,
    shared: str | None = None,
) -> None:
    """Build a pipeline with `build(pipeline, progress folder)` and run it to its end.

    Args:
      build: makes the graph.
      options: Beam's.
      title: progress is shown under it.
      quiet: whether it is not shown.
      shared: a folder that workers on other machines reach too: a step that fails leaves there why. Workers on this one
        have a folder of their own.

    Raises:
      UserError, JobError: raised in a step of the pipeline, or a JobError for whatever else stopped it.
    """
    check_running_mode(options)
    local, watch = is_local(options), None
    with ExitStack() as stack:
        stack.enter_context(remembered_signatures())
        folder = workers = None
        if local:
            folder = stack.enter_context(scratch_folder("progress"))
            # Beam says nothing of a failing step, which is reported once, by us; until its workers have ended
            stack.enter_context(log_level("apache_beam", logging.CRITICAL))
            workers = stack.enter_context(WorkerProcesses())
        else:
            asked = threading.Event()
            watch = partial(Watch, options=options, asked=asked)
            options = stack.enter_context(loopback_workers(options, asked))
            stack.enter_context(quiet_client())
        # Steps of a local job in this process are patient, as long as any such job runs
        stack.enter_context(hold_shared("patience", patience.withdrawn_at_end))
        build(pipeline := _pipeline(options, workers), folder)
        if not local:
            stack.enter_context(own_job_server(pipeline.runner, options))
        report = storage.join(place, FILE) if (place := folder or shared) is not None else None
        if report is not None:
            report_failures(pipeline, report, says_begun=not local)
        looking = partial(watch, report) if watch is not None and report is not None else None
        _run_with_progress(pipeline, None if quiet else ProgressDisplay(folder, title), report, looking, options)


def _pipeline(options: PipelineOptions, workers: WorkerProcesses | None = None) -> beam.Pipeline:
    try:
        return beam.Pipeline(runner=make_runner(options, workers), options=options.view_as(RememberingOptions))
    except ValueError as error:  # an option that is missing, or no good, for this runner
        raise UserError(f"Beam refuses the options of the run: {' '.join(str(error).split())}") from None


def _run_with_progress(
    pipeline: beam.Pipeline,
    shown: ProgressDisplay | None,
    report: str | None,
    looking: Callable[[], Watch] | None,
    options: PipelineOptions,
) -> None:
    failure: list[BaseException] = []
    running: list[tuple[Any, Watch | None]] = []

    def work() -> None:
        try:
            result = pipeline.run()
            if (said := job_said(result, options)) is not None:
                log.say(said)
            running.append((result, looking() if looking is not None else None))
            result.wait_until_finish()
        except BaseException as error:  # handed to the main thread, whatever it is
            failure.append(error)

    # The main thread stays free to draw and to take Ctrl-C; the local runner blocks the thread that runs it.
    thread = threading.Thread(target=work, name="shardmill-run", daemon=True)
    with shown or nullcontext(), _cancelling(running):
        thread.start()
        while thread.is_alive():
            thread.join(_POLL)
            if shown is not None:
                shown.update()
            for result, watch in running:
                if watch is not None and (why := watch.look()) is not None:
                    _cancel(result)
                    raise to_raise(why, None) if isinstance(why, JobError) else to_raise(JobError(), why)
    if failure:
        if (refused := refusal(failure[0], options)) is not None:
            raise refused from failure[0]
        raise to_raise(failure[0], None if report is None else reported(report)) from failure[0]


@contextmanager
def _cancelling(running: list[tuple[Any, Watch | None]]) -> Iterator[None]:
    """Cancel a job whose workers end with this process, if it is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        for result, watch in running:
            if watch is not None and watch.works_here:
                _cancel(result)
        raise


def _cancel(result: Any) -> None:
    with suppress(Exception):  # why it is cancelled is what counts
        result.cancel()
