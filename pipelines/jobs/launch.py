"""Run a pipeline to its end: progress, cluster watch, and failures as one sentence."""

import json
import logging
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from inspect import Signature
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

import apache_beam as beam
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions, PortableOptions
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.transforms import core, userstate
from apache_beam.typehints import decorators
from apache_beam.utils import interactive_utils
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

import shardmill
from shardmill.errors import ERRORS_BY_NAME, LINE_BREAK, JobError, UserError
from shardmill.installed import describe_lack_of_memory
from shardmill.pipelines.config.beam_flags import CachedOptions
from shardmill.pipelines.jobs import runner
from shardmill.pipelines.reports import log
from shardmill.pipelines.reports.log import is_json, log_progress
from shardmill.text import html_table
from shardmill.transforms.execution import running
from shardmill.transforms.stores import patience, storage
from shardmill.transforms.stores.storage import hold_shared

# Words of Flink's errors, also of workers for which it has no memory or slot, and what to do
_FLINK_REMEDIES = {
    "No module named 'shardmill": (
        "its workers have no shardmill; let their image, or their pool's Python, have shardmill"
        f" {shardmill.__version__}, as this one, or give --setup_file"
    ),
    "No module named 'apache_beam": (
        "its workers have no Beam; let their image, or their pool's Python, have apache-beam"
        f" {metadata.version('apache-beam')}"
    ),
    "java.io.InvalidClassException": (
        "the job server is for another version of Flink than the cluster's; use the one for the cluster, such as"
        " apache/beam_flink1.19_job_server for Flink 1.19"
    ),
    "Insufficient number of network buffers": (
        "Flink's TaskManagers have too few network buffers for it; let taskmanager.memory.network.min and"
        " taskmanager.memory.network.max be 256m, or more, in their configuration, or give a smaller --parallelism"
    ),
    "OutOfMemoryError: Direct buffer memory": (
        "Flink's TaskManagers have too little direct memory, of which each job on the same TaskManager keeps some for a"
        " while; let taskmanager.memory.framework.off-heap.size be 512m in their configuration, or start them anew"
    ),
    "OutOfMemoryError: Metaspace": (
        "Flink's TaskManagers have too little memory for classes, of which each job on the same TaskManager keeps some"
        " for a while; let taskmanager.memory.jvm-metaspace.size be 512m in their configuration, or start them anew"
    ),
    "java.net.ConnectException": (
        "nobody listens where its workers are to be started; start a pool of workers at --environment_config, next to"
        " each TaskManager"
    ),
    "NoResourceAvailableException": (
        "Flink has too few free slots for it; start more TaskManagers, raise taskmanager.numberOfTaskSlots, or give a"
        " smaller --parallelism"
    ),
}


# What apitools and Beam's readers of BigQuery quote of an answer of Google's
_GOOGLE_REASON = re.compile(
    r"""HttpError accessing .*?"message":\s*(?P<http>"(?:[^"\\]|\\.)*")"""
    r"""|BigQuery job .*? Error Result: .*?message: (?P<quote>['"])(?P<job>.*?)(?P=quote)\s""",
    re.DOTALL,
)
_ANALYSIS_STEP = "AnalyzeModule/"  # the steps of TensorFlow Transform
_SHOWN_LETTERS = 300  # letters of what TensorFlow says


def error_to_raise(error: BaseException, failure: running.Failure | None) -> Exception:
    """Return the error to show for what a runner raised: our own errors with their message, else a JobError.

    A failing step reports its `failure` (transforms.execution.running). If it could not, or if no step failed, only the
    runner's `error` is left. In the launcher's process Beam makes it from the step's exception; elsewhere it has the
    runner's own words.
    """
    if failure is not None and failure.kind in ERRORS_BY_NAME:
        return ERRORS_BY_NAME[failure.kind](*failure.sentence.split(LINE_BREAK))
    if failure is not None and failure.step.startswith(_ANALYSIS_STEP):
        return JobError(
            f"--module_file: TensorFlow Transform cannot analyze the examples: {_shorten_analysis_error(failure)}"
        )
    if failure is not None:
        return JobError(f"the job failed in step {failure.step}: {failure.sentence}")
    if isinstance(error, (UserError, JobError)):
        return next(one for one in _iterate_causes(error) if type(one) is type(error))
    for words, remedy in _FLINK_REMEDIES.items():
        if words in str(error):
            return JobError(f"the job failed: {remedy}")
    if (found := _GOOGLE_REASON.search(str(error))) is not None:
        reason = json.loads(found["http"]) if found["http"] is not None else found["job"]
        return JobError(f"the job failed: Google answers: {' '.join(reason.split())}")
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    sentence = isinstance(error, Exception) and describe_lack_of_memory(error)
    return JobError(f"the job failed: {sentence or (lines[-1].strip() if lines else type(error).__name__)}")


def _shorten_analysis_error(failure: running.Failure) -> str:
    """Return TensorFlow's message without its batch of examples and its node."""
    found = re.search(r'apply the transformation: "(.*)"\. Batch instances:', failure.sentence)
    message = found[1] if found else failure.sentence
    message = (message.partition("<stack traces unavailable> ")[2] or message).partition(" [[{{node")[0]
    return message if len(message) <= _SHOWN_LETTERS else f"{message[: _SHOWN_LETTERS - 1]}…"


def _iterate_causes(error: BaseException) -> Iterator[Exception]:
    before = error.__cause__ or error.__context__
    if before is not None:
        yield from _iterate_causes(before)
    if isinstance(error, Exception):
        yield error


PLAIN_INTERVAL = 10.0  # seconds between lines where there is no terminal


class ProgressDisplay:
    """A progress display: a live bar with rate and time left on a terminal, a bar in a notebook, else lines on stderr.

    The bar of a notebook is IPython's own display of HTML. Rich's needs ipywidgets, and leaves nothing in a saved file.
    """

    def __init__(self, folder: str | None, title: str, phase: str = "writing") -> None:
        self._folder, self._title, self._phase = folder, title, phase
        self._console = Console(stderr=True)
        self._in_notebook = self._console.is_jupyter
        self._live = self._console.is_terminal and not self._in_notebook and not is_json()
        self._handle: Any = None  # of the bar in a notebook
        self._started = self._last_line = time.monotonic()
        self._writing_since: float | None = None
        self._bar = Progress(console=self._console, transient=True, expand=True)

    def __enter__(self) -> "ProgressDisplay":
        if self._live:
            self._bar.columns = progress_columns(self._console.width)
            self._task = self._bar.add_task(f"{self._title}: listing and planning", total=None, rate="")
            self._bar.start()
        elif self._in_notebook:
            self._show_in_notebook(NotebookBar(f"{self._title}: listing and planning"))
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if self._live:
            self._bar.stop()
        elif self._in_notebook:
            end = "done" if error is None else "stopped"
            text = f"{self._title}: {end} after {time.monotonic() - self._started:.1f} s"
            self._show_in_notebook(NotebookBar(text, float(error is None)))

    def _show_in_notebook(self, bar: "NotebookBar") -> None:
        if self._handle is None:
            from IPython.display import display  # which a notebook has

            self._handle = display(bar, display_id=True)
        else:
            self._handle.update(bar)

    def update(self) -> None:
        """Show the current progress, or that the job runs: the pages of a remote runner show its progress."""
        counts = None if self._folder is None else running.read_progress(self._folder)
        now = time.monotonic()
        if counts is not None and counts.planned_examples and self._writing_since is None:
            self._writing_since = now
        writing = now - (self._writing_since or now)
        self._bar.columns = progress_columns(self._console.width)
        elapsed = now - self._started
        line = f"{self._title}: {elapsed:.0f} s, running"
        if counts is not None:
            line = progress_line(self._title, counts, elapsed, writing, self._phase)
        if self._in_notebook:
            planned = 0 if counts is None else counts.planned_examples
            done = counts.examples / planned if counts is not None and planned else None
            self._show_in_notebook(NotebookBar(line, done))
        elif self._live and counts is None:
            self._bar.update(self._task, description=f"{self._title}: running")
        elif self._live and counts is not None:
            self._bar.update(
                self._task,
                description=f"{self._title}: {progress_phase(counts, self._phase)}",
                total=counts.planned_examples or None,
                completed=counts.examples,
                rate=progress_rate(counts, writing),
            )
        elif now - self._last_line >= PLAIN_INTERVAL:
            self._last_line = now
            log_progress(line)


@dataclass(frozen=True, slots=True)
class NotebookBar:
    """A line of progress with a bar above it, as a notebook displays it."""

    text: str
    done: float | None = None  # of 1; None if unknown

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        value = "" if self.done is None else f' value="{self.done:.3f}"'
        return f'<progress max="1"{value} style="width: 100%"></progress>{html_table(self.text, [], [])}'


def progress_columns(width: int) -> tuple[ProgressColumn, ...]:
    """Return the columns of the live display that fit a terminal of `width` letters; the time left always does.

    A long description is cut. The rate needs 80 letters, the bar 130.
    """
    description = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1))
    # Without a least width, rich makes a table with an empty cell too wide, and cuts others
    cell = partial(Column, no_wrap=True, min_width=1)
    rate, bar = TextColumn("{task.fields[rate]}", table_column=cell()), BarColumn()
    optional = (bar, rate) if width >= 130 else (rate,) if width >= 80 else ()
    percentage = TextColumn("{task.percentage:>3.0f}%")
    return (
        SpinnerColumn(),
        description,
        *optional,
        percentage,
        TimeElapsedColumn(),
        TextColumn("left", table_column=cell()),
        TimeRemainingColumn(table_column=cell()),
    )


def progress_phase(counts: running.Progress, phase: str = "writing") -> str:
    """Return the job's current phase; `phase` is the one in which the planned examples are counted."""
    if not counts.planned_examples:
        return f"encoding, {counts.staged:,} records" if counts.staged else "listing and planning"
    return phase if counts.examples < counts.planned_examples or phase != "writing" else "publishing"


def progress_rate(counts: running.Progress, seconds: float) -> str:
    """Return examples and megabytes per second, as text."""
    if not counts.examples or seconds <= 0:
        return ""
    return f"{counts.examples / seconds:,.0f} examples/s, {counts.size_bytes / seconds / 1e6:,.0f} MB/s"


def progress_line(title: str, counts: running.Progress, elapsed: float, writing: float, phase: str = "writing") -> str:
    """Return one log line of progress."""
    text = f"{title}: {elapsed:.0f} s, {progress_phase(counts, phase)}"
    if not counts.planned_examples:
        return text
    text += f" {counts.examples:,} of {counts.planned_examples:,} examples"
    if counts.examples and writing > 0:
        left = (counts.planned_examples - counts.examples) * writing / counts.examples
        text += f" ({progress_rate(counts, writing)}, {left:.0f} s left)"
    return text


_MODULES: tuple[Any, ...] = (decorators, core)  # where `get_signature` is looked up
_SIGNATURES: "WeakKeyDictionary[FunctionType, Signature]" = WeakKeyDictionary()


@contextmanager
def cache_signatures() -> Iterator[None]:
    """Let Beam build and run graphs faster while the context lasts; the results stay Beam's own.

    Beam computes the signatures of the same few DoFn methods thousands of times a job, and each DoFn's state and timers
    hundreds of times. It parses the source of each function to warn of some, and takes the stack at each type to quote
    it in an error. It walks the globals of all modules for the size of each side input that it caches. Together that
    takes most of a second. Beam 2.77 has no public way to do less, so `get_signature`, `_make_origin`,
    `get_dofn_specs`, `_check_fn_use_yield_and_return` and `STATE_CACHE_SIZE_MB` are replaced.
    """
    with hold_shared("signatures", _cache_results):
        yield


@contextmanager
def _cache_results() -> Iterator[None]:
    with ExitStack() as stack:
        for module in _MODULES:
            cached = _wrap_with_cache(module.get_signature, _function_of, _SIGNATURES)
            stack.enter_context(runner.replace_attribute(module, "get_signature", cached))
        cached = _wrap_with_cache(userstate.get_dofn_specs, _methods_of, {})
        stack.enter_context(runner.replace_attribute(userstate, "get_dofn_specs", cached))
        stack.enter_context(runner.replace_attribute(core, "_check_fn_use_yield_and_return", lambda _: False))
        stack.enter_context(runner.replace_attribute(worker_handlers, "STATE_CACHE_SIZE_MB", 0))
        no_stack = classmethod(lambda *_, **__: [])
        stack.enter_context(runner.replace_attribute(decorators.IOTypeHints, "_make_origin", no_stack))
        yield


def _wrap_with_cache(
    function: Callable[[Any], Any], key_of: Callable[[Any], Any], known: MutableMapping[Any, Any]
) -> Callable[[Any], Any]:
    """Return `function` with its results kept in `known` by the key of its argument, unless that is None."""

    def cached(argument: Any) -> Any:
        if (key := key_of(argument)) is None:
            return function(argument)
        if key not in known:
            known[key] = function(argument)
        return known[key]

    return cached


def _function_of(method: Any) -> FunctionType | None:
    function = method.__func__ if isinstance(method, MethodType) else None
    return function if isinstance(function, FunctionType) else None


def _methods_of(dofn: beam.DoFn) -> tuple[Any, ...]:
    """Return what decides the state and timers of a DoFn: its class, and the methods and names of its attributes."""
    inner = dofn.wrapped if isinstance(dofn, running.ReportingFn) else dofn
    held = (value.__func__ for value in vars(inner).values() if isinstance(value, MethodType))
    return type(dofn), type(inner), *vars(inner), *held


_START_TIMEOUT_S = 60  # until a worker must have begun
WATCH_INTERVAL_S = 2.0  # seconds between looks: each may be two requests to a store
_STARTED_BY_OTHERS = ("EXTERNAL", "LOOPBACK", "PROCESS")  # an image may take minutes to be there


class JobWatch:
    """A watch on the files that workers leave in the folder they share with the launcher.

    It finds a problem that no retry fixes within a minute, while the cluster itself would wait or retry.
    """

    def __init__(self, report: str, options: PipelineOptions, worker_requested: threading.Event) -> None:
        self._report, self._options = report, options  # the path to which failing steps write their error
        # Set once the cluster has requested a worker here, whose first step may take its time
        self._worker_requested = worker_requested
        self.works_here = runner.has_local_workers(options)  # the job's workers end with the launcher
        portable = options.view_as(PortableOptions)
        self._patience = runner.server_timeout_s(portable, _START_TIMEOUT_S)
        self._has_begun = portable.environment_type not in _STARTED_BY_OTHERS
        self._since = self._last = time.monotonic()

    def look(self) -> running.Failure | JobError | None:
        """Return the reason to cancel the job: an error that a retry cannot fix, or that no worker has begun."""
        now = time.monotonic()
        if now - self._last < WATCH_INTERVAL_S:
            return None
        self._last = now
        failure = running.read_failure(self._report)
        if failure is not None and failure.kind in ERRORS_BY_NAME:
            return failure
        if not self._has_begun:
            started = f"{self._report}{running.STARTED_SUFFIX}"
            self._has_begun = self._worker_requested.is_set() or storage.exists(started)
            if not self._has_begun and now - self._since > self._patience:
                return JobError(f"{self._describe_idle_cluster()}; the job was cancelled")
        return None

    def _describe_idle_cluster(self) -> str:
        portable = self._options.view_as(PortableOptions)
        slots = max(self._options.view_as(FlinkRunnerOptions).parallelism, 1)
        # Of processes it is what starts them, and all of their environment, which may hold what is nobody's business
        is_a_place = portable.environment_type != "PROCESS" and portable.environment_config
        where = f" at {portable.environment_config}" if is_a_place else ""
        return (
            f"no worker has begun within {self._patience} seconds; expected {slots} free"
            f" slot{'s' if slots > 1 else ''}, as --parallelism asks for, and workers{where} that have apache-beam"
            f" {metadata.version('apache-beam')} and shardmill {shardmill.__version__}; see the log of the"
            " workers' pool, or give --job_server_timeout SECONDS to wait longer"
        )


_POLL_S = 0.2  # seconds


def run_pipeline(
    build: Callable[[beam.Pipeline, str | None], Any],
    options: PipelineOptions,
    title: str,
    quiet: bool = False,
    shared: str | None = None,
    phase: str = "writing",
) -> None:
    """Build a pipeline with `build(pipeline, progress folder)` and run it to its end.

    `title` heads the progress display, and `phase` says what happens to the planned examples. Remote workers report the
    error of a failing step to the folder `shared`. Raises the UserError or JobError of a step, and a JobError for
    anything else that stopped the pipeline.
    """
    runner.check_running_mode(options)
    local, watch = runner.is_local(options), None
    with ExitStack() as stack:
        stack.enter_context(cache_signatures())
        stack.enter_context(hold_shared("notebook", _hide_notebook))
        folder = workers = None
        scratch = stack.enter_context(runner.scratch_folder("progress"))
        if local:
            folder = scratch
            # Beam says nothing of a failing step, which is reported once, by us; until its workers have ended
            stack.enter_context(runner.hold_log_level("apache_beam", logging.CRITICAL))
            workers = stack.enter_context(runner.WorkerProcesses())
        else:
            from shardmill.pipelines.jobs.local_cluster import loopback_workers, own_job_server  # imports all runners

            worker_requested = threading.Event()
            watch = partial(JobWatch, options=options, worker_requested=worker_requested)
            options = stack.enter_context(loopback_workers(options, worker_requested))
            # Beam logs what Dataflow refuses as critical, which is reported once, by us
            stack.enter_context(runner.hold_log_level("apache_beam.runners.dataflow", logging.CRITICAL + 1))
        # Steps of a local job in this process are patient, as long as any such job runs
        stack.enter_context(hold_shared("patience", patience.withdraw_at_exit))
        build(pipeline := _make_pipeline(options, scratch, workers), folder)
        if not local:
            stack.enter_context(own_job_server(pipeline.runner, options))
        report = storage.join(place, running.FAILURE_FILE) if (place := folder or shared) is not None else None
        if report is not None:
            running.report_failures(pipeline, report, reports_start=not local)
        looking = partial(watch, report) if watch is not None and report is not None else None
        _run_with_progress(pipeline, None if quiet else ProgressDisplay(folder, title, phase), report, looking, options)


@contextmanager
def _hide_notebook() -> Iterator[None]:
    """Let Beam take a notebook for a script while the context lasts.

    In a notebook it would put the cell's number into the labels of steps, with modules that need pandas 2. Anywhere
    else it would import IPython, if that is installed, which takes a third of a second.
    """
    with ExitStack() as stack:
        for module in (beam.pipeline, interactive_utils):
            stack.enter_context(runner.replace_attribute(module, "is_in_ipython", lambda: False))
        yield


def _make_pipeline(
    options: PipelineOptions, scratch: str, workers: runner.WorkerProcesses | None = None
) -> beam.Pipeline:
    try:
        pipeline = beam.Pipeline(runner=runner.make_runner(options, workers), options=options.view_as(CachedOptions))
    except ValueError as error:  # an option that is missing, or no good, for this runner
        raise UserError(f"Beam refuses the options of the run: {' '.join(str(error).split())}") from None
    os.rmdir(pipeline.local_tempdir)
    pipeline.local_tempdir = tempfile.mkdtemp(dir=scratch)
    return pipeline


def _run_with_progress(
    pipeline: beam.Pipeline,
    shown: ProgressDisplay | None,
    report: str | None,
    looking: Callable[[], JobWatch] | None,
    options: PipelineOptions,
) -> None:
    failure: list[BaseException] = []
    launched: list[tuple[Any, JobWatch | None]] = []

    def work() -> None:
        with runner.hold_log_level("apache_beam", logging.CRITICAL) if runner.is_local(options) else nullcontext():
            run()

    def run() -> None:
        try:
            result = pipeline.run()
            if (said := runner.submission_message(result, options)) is not None:
                log.info(said)
            launched.append((result, looking() if looking is not None else None))
            result.wait_until_finish()
        except BaseException as error:  # handed to the main thread, whatever it is
            failure.append(error)

    # The main thread stays free to draw and to take Ctrl-C; the local runner blocks the thread that runs it.
    thread = threading.Thread(target=copy_context().run, args=[work], name="shardmill-run", daemon=True)
    with shown or nullcontext():
        try:
            thread.start()
            while thread.is_alive():
                thread.join(_POLL_S)
                if shown is not None:
                    shown.update()
                for result, watch in launched:
                    if watch is not None and (why := watch.look()) is not None:
                        with suppress(Exception):  # why it is cancelled is what counts
                            result.cancel()
                        own, reported = (why, None) if isinstance(why, JobError) else (JobError(), why)
                        raise error_to_raise(own, reported)
        except KeyboardInterrupt:
            for result, watch in launched:
                if watch is not None and watch.works_here:
                    with suppress(Exception):
                        result.cancel()
            raise
        if failure:
            if (refused := runner.dataflow_refusal(failure[0], options)) is not None:
                raise refused from failure[0]
            raise error_to_raise(failure[0], None if report is None else running.read_failure(report)) from failure[0]
