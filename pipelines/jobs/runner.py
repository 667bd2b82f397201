"""Choose and prepare the runner: in-process, cluster or Dataflow."""

import ctypes
import logging
import os
import shlex
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from typing import Any, Self

import pyarrow as pa
from apache_beam.options.pipeline_options import (
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    StandardOptions,
)
from apache_beam.portability import python_urns
from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo, FnApiRunner
from apache_beam.runners.runner import create_runner
from grpc import RpcError

from shardmill.errors import UserError
from shardmill.installed import install_hint
from shardmill.pipelines.config.beam_flags import cluster_flags
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.jobs.outcome import delete_folder, delete_stale_folders
from shardmill.pipelines.jobs.worker import HOST
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.storage import hold_shared

_ANSWER_TIMEOUT_S = 5  # waited for a job server that answers at all
_BEAM_TIMEOUT_S = 300  # its default for --job_server_timeout, for which it waits without a word
_EMBEDDED = "embed"  # Beam's word for a job server in its own process


def check_job_server(options: PipelineOptions) -> None:
    """Check that a job server answers at --job_endpoint, if that is given; Beam would wait or retry for minutes."""
    portable = options.view_as(PortableOptions)
    if not portable.job_endpoint and options.view_as(StandardOptions).runner == "PortableRunner":
        raise UserError(
            "--runner PortableRunner needs --job_endpoint, HOST:PORT of a job server; FlinkRunner and SparkRunner start"
            " one themselves"
        )
    if portable.job_endpoint in (None, "", _EMBEDDED):
        return
    import grpc  # late: local jobs need not spend the time

    seconds = server_timeout_s(portable, _ANSWER_TIMEOUT_S)
    with grpc.insecure_channel(portable.job_endpoint) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=seconds)
        except grpc.FutureTimeoutError:
            raise UserError(
                f"--job_endpoint {portable.job_endpoint}: no job server answered within {seconds} seconds; expected"
                " HOST:PORT of one that runs and can be reached from here; --job_server_timeout SECONDS waits longer"
            ) from None


def server_timeout_s(portable: PortableOptions, seconds: int) -> int:
    """Return --job_server_timeout, or `seconds` if it was not given."""
    requested_s: int = portable.job_server_timeout
    return requested_s if requested_s != _BEAM_TIMEOUT_S else seconds


def check_google_credentials(options: PipelineOptions, user: str = "--runner DataflowRunner") -> None:
    """Check that there are credentials for `user`; Beam would look for them again at each request."""
    if options.view_as(GoogleCloudOptions).no_auth:
        return
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    logging.getLogger(google.auth.__name__).setLevel(logging.ERROR)  # the one sentence below says it
    try:
        google.auth.default(scopes=options.view_as(GoogleCloudOptions).gcp_oauth_scopes)
    except GoogleAuthError as error:
        raise UserError(
            f"{user}: no credentials for Google's cloud ({' '.join(str(error).split())}); run `gcloud"
            " auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to the key file of a service"
            " account"
        ) from None


_RUNNERS = frozenset({"DataflowRunner", "apache_beam.runners.dataflow.DataflowRunner"})
_REFUSALS = (400, 401, 403, 404, 409)  # statuses; of others, such as 429 and 503, the next try may be well
_METHODS = ("GET ", "POST ", "PUT ")  # with which the message of a REST client begins, and the URL


def is_dataflow(options: PipelineOptions) -> bool:
    """Return True if Dataflow runs the job."""
    return options.view_as(StandardOptions).runner in _RUNNERS


def template_of(options: PipelineOptions) -> str | None:
    """Return the path to write the job to as a template, as a Flex Template's launch asks; None to run it."""
    return (is_dataflow(options) and options.view_as(GoogleCloudOptions).template_location) or None


def refuse_template(options: PipelineOptions, why: str) -> None:
    """Refuse to write a template where the job's end is needed; `why` gives the reason."""
    if (template := template_of(options)) is not None:
        raise UserError(
            f"--template_location {template}: {why}, and a template has none; the commands that convert write them"
        )


def check_dataflow_client(options: PipelineOptions) -> None:
    """Check that Dataflow's client is installed if the job needs it."""
    if is_dataflow(options) and find_spec("apitools") is None:
        raise UserError(f"--runner DataflowRunner needs Google's clients; {install_hint('gcp')}")


def check_dataflow_submission(options: PipelineOptions) -> None:
    """Check that a Dataflow job can be submitted: client, project, region, staging folder and credentials.

    Beam would create a bucket if it is given none.
    """
    if not is_dataflow(options):
        return
    check_dataflow_client(options)
    google = options.view_as(GoogleCloudOptions)
    if not google.project:
        raise UserError("--runner DataflowRunner: no --project; expected the id of the project that the job runs in")
    if not google.region:
        from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner

        google.region = DataflowRunner().get_default_gcp_region()
    if not google.region:
        raise UserError("--runner DataflowRunner: no --region; expected one such as --region europe-west1")
    if not (google.temp_location or google.staging_location):
        raise UserError(
            "--runner DataflowRunner: no --temp_location; expected a folder of a bucket that the job may write to, such"
            " as gs://bucket/tmp"
        )
    check_google_credentials(options)


def check_dataflow_paths(config: JobConfig, options: PipelineOptions) -> None:
    """Check that Dataflow's workers, which are other machines, can reach input and output."""
    if not is_dataflow(options):
        return
    for flag, path in local_paths(config):
        raise UserError(
            f"{flag} {path} is a path of this machine, which Dataflow's workers cannot reach; expected a URL such as"
            " gs://bucket/folder"
        )


def check_secrets(config: JobConfig, options: PipelineOptions) -> None:
    """Check that no flag holds a secret, which workers on other machines would have to get with the job."""
    if config.secret_flags and not has_local_workers(options):
        flag = config.secret_flags[0]
        raise UserError(
            f"{flag} holds a password, which would be stored with the job; write ${{NAME}} in its place, an environment"
            " variable that is set here and where workers run"
        )


def local_paths(config: JobConfig) -> Iterator[tuple[str, str]]:
    """Yield (flag, path) of each local input and output path; URLs are left out."""
    manifests = [("--manifest", path) for _, path in getattr(config, "manifest", ())]
    inputs = [("--input", path) for path in config.inputs]
    for flag, path in (*inputs, *config.local_files, *manifests, ("--output", config.output)):
        if path is not None and path.startswith("zip://"):
            from shardmill.transforms.stores.zip_archive import archive_path

            path = archive_path(path)
        if path is not None and storage.is_local(path):
            yield flag, path


def submission_message(result: Any, options: PipelineOptions) -> str | None:
    """Return a message with a submitted Dataflow job's id and page; None for other runners and templates."""
    if not is_dataflow(options) or not getattr(result, "has_job", False):
        return None
    google = options.view_as(GoogleCloudOptions)
    page = f"https://console.cloud.google.com/dataflow/jobs/{google.region}/{result.job_id()}?project={google.project}"
    return f"submitted to Dataflow as {result.job_id()}: {page}"


def dataflow_refusal(error: BaseException, options: PipelineOptions) -> UserError | None:
    """Return the error to show if Dataflow refused the job or a query on it; None for an error that a retry may fix."""
    code, message = getattr(error, "code", None), getattr(error, "message", None)
    if not is_dataflow(options) or code not in _REFUSALS or not isinstance(message, str):
        return None
    google = options.view_as(GoogleCloudOptions)
    reason = message.partition(": ")[2] if message.startswith(_METHODS) else message
    return UserError(
        f"Dataflow refused the job in --project {google.project} --region {google.region} with status {int(code)}:"
        f" {' '.join(reason.split())}"
    )


LOCAL = (None, "DirectRunner", "SwitchingDirectRunner", "FnApiRunner", "apache_beam.runners.direct.DirectRunner")


def is_local(options: PipelineOptions) -> bool:
    """Return True if the job runs on this machine, without a cluster."""
    return options.view_as(StandardOptions).runner in LOCAL


def has_local_workers(options: PipelineOptions) -> bool:
    """Return True if the job's workers end with the launcher, on any runner."""
    return is_local(options) or options.view_as(PortableOptions).environment_type == "LOOPBACK"


def check_running_mode(options: PipelineOptions) -> None:
    """Refuse `--direct_running_mode multi_threading`, which loses records."""
    if is_local(options) and options.view_as(DirectOptions).direct_running_mode == "multi_threading":
        raise UserError(
            "--direct_running_mode multi_threading loses records without an error in Beam's local runner (an unlocked"
            " buffer between its threads); use in_memory, the default, or multi_processing; --threads sets how many"
            " threads read files"
        )


def check_runner(options: PipelineOptions) -> None:
    """Check that the runner exists, can be reached, and loses no records."""
    check_runner_options(options)
    if not is_local(options):
        check_job_server(options)
    check_dataflow_submission(options)


def check_runner_options(options: PipelineOptions) -> None:
    """Check, without network requests, that the runner exists and loses no records."""
    check_running_mode(options)
    check_dataflow_client(options)
    _check_setup(options)
    if is_local(options):
        workers = options.view_as(DirectOptions).direct_num_workers
        if workers < 0:
            raise UserError(f"--direct_num_workers {workers}: expected a number of processes, or 0 for one per core")
        if options.view_as(PortableOptions).job_endpoint is not None:
            raise UserError(
                "--job_endpoint needs --runner PortableRunner, or another that asks a job server; the local runner has"
                " none"
            )
        return
    try:
        create_runner(options.view_as(StandardOptions).runner)
    except (AttributeError, ImportError, ValueError) as error:
        raise UserError(f"--runner: {error}") from None


def runner_warning(rest: Sequence[str], options: PipelineOptions) -> str | None:
    """Return a warning about those of the flags `rest` that the local runner ignores, or None."""
    flags = cluster_flags(rest) if is_local(options) else []
    if not flags:
        return None
    return (
        f"the local runner, which runs this job, has no use for {' and '.join(flags)}; --direct_num_workers says how"
        " many processes work, and --runner names another"
    )


def _check_setup(options: PipelineOptions) -> None:
    setup = options.view_as(SetupOptions)
    if setup.setup_file is None:
        return
    if not os.path.isfile(setup.setup_file):
        raise UserError(f"--setup_file {setup.setup_file}: no such file; expected that of shardmill's own folder")
    setup.setup_file = os.path.abspath(setup.setup_file)


def make_runner(options: PipelineOptions, workers: "WorkerProcesses | None" = None) -> Any:
    """Return the runner for `beam.Pipeline`: an object for local jobs, a name for others.

    Beam's DirectRunner would first try to download another runner and fall back silently. This builds the FnApiRunner
    as that fallback does, with provision info: without it the options never reach the worker processes in `workers`.
    """
    if not is_local(options):
        return options.view_as(StandardOptions).runner
    from apache_beam.portability.api import beam_provision_api_pb2
    from apache_beam.runners.portability.portable_runner import JobServiceHandle

    encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    provision = beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
    return LocalRunner(workers, provision_info=ExtendedProvisionInfo(provision))


_BACKLOG = 1024  # workers whose connections wait, as they all do until the end


class WorkerProcesses:
    """The socket that this launcher's workers connect to; leaving the context ends them and waits for their end.

    Each worker first connects to it (see worker.py), and ends when the launcher closes the connection. If the launcher
    is killed, the system closes it. So no worker outlives its launcher.
    """

    def __init__(self) -> None:
        self._server = socket.create_server((HOST, 0), backlog=_BACKLOG)
        self._server.setblocking(False)

    @property
    def command(self) -> str:
        """Return the shell command that starts a worker; without `exec` a shell would stay above it."""
        port = str(self._server.getsockname()[1])
        return "exec " + shlex.join([sys.executable, "-m", "shardmill.pipelines.jobs.worker", port])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        connections = []
        with self._server, suppress(BlockingIOError):
            while True:
                connections.append(self._server.accept()[0])
        # One that connects from here on is refused, and ends as well.
        with silence_broken_streams(_READERS):
            for connection in connections:
                with suppress(OSError):  # it has ended already
                    connection.shutdown(socket.SHUT_WR)
            for connection in connections:
                connection.settimeout(WORKER_EXIT_TIMEOUT_S)
                with connection, suppress(OSError):
                    connection.recv(1)  # nothing, once the worker is gone


class LocalRunner(FnApiRunner):
    """Beam's local runner, with our command for worker processes."""

    def __init__(self, workers: WorkerProcesses | None, **more: Any) -> None:
        super().__init__(**more)
        self._workers = workers

    def run_via_runner_api(self, pipeline_proto: Any, options: Any) -> Any:
        for environment in pipeline_proto.components.environments.values():
            if self._workers is not None and environment.urn == python_urns.SUBPROCESS_SDK:
                environment.payload = self._workers.command.encode()
        return super().run_via_runner_api(pipeline_proto, options)


WORKER_EXIT_TIMEOUT_S = 10.0  # seconds for a worker that a disk holds; others end in milliseconds
_READERS = ("beam_control_read", "read_grpc_client_inputs")  # Beam's threads that read what workers send
_LOGS = ("apache_beam.runners.worker.data_plane", "apache_beam.runners.worker.sdk_worker")
_ignored: list[Callable[[threading.ExceptHookArgs], bool]] = []


@contextmanager
def silence_broken_streams(threads: str | tuple[str, ...]) -> Iterator[None]:
    """Suppress tracebacks of broken gRPC streams; on exit, wait for the threads whose names start with `threads`."""
    with ExitStack() as stack:
        stack.enter_context(suppress_thread_tracebacks(lambda failed: isinstance(failed.exc_value, RpcError)))
        for name in _LOGS:
            stack.enter_context(hold_shared(("filter", name), partial(_hold_filter, logging.getLogger(name))))
        yield
        for thread in threading.enumerate():
            if thread.name.startswith(threads):
                thread.join(WORKER_EXIT_TIMEOUT_S)


@contextmanager
def suppress_thread_tracebacks(is_ignored: Callable[[threading.ExceptHookArgs], bool]) -> Iterator[None]:
    """Within this context, print no traceback of a thread that fails with an error for which `is_ignored` is true."""
    with hold_shared("excepthook", _hold_thread_hook):
        _ignored.append(is_ignored)
        try:
            yield
        finally:
            _ignored.remove(is_ignored)


@contextmanager
def hold_log_level(name: str, level: int) -> Iterator[None]:
    """Within this context, set the level of a logger, for all runs that overlap."""
    with hold_shared(("level", name), partial(_hold_level, logging.getLogger(name), level)):
        yield


@contextmanager
def replace_attribute(target: Any, name: str, value: Any) -> Iterator[None]:
    """Within this context, replace an attribute of a module or object."""
    before = getattr(target, name)
    setattr(target, name, value)
    try:
        yield
    finally:
        setattr(target, name, before)


@contextmanager
def _hold_thread_hook() -> Iterator[None]:
    hook = threading.excepthook

    def pass_on(failed: threading.ExceptHookArgs) -> None:
        if not any(is_ignored(failed) for is_ignored in tuple(_ignored)):
            hook(failed)

    with replace_attribute(threading, "excepthook", pass_on):
        yield


@contextmanager
def _hold_filter(log: logging.Logger) -> Iterator[None]:
    log.addFilter(_is_other_record)
    try:
        yield
    finally:
        log.removeFilter(_is_other_record)


@contextmanager
def _hold_level(log: logging.Logger, level: int) -> Iterator[None]:
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)


def _is_other_record(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], RpcError)


# malloc.h of glibc
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_LARGE_BYTES = 4 << 20  # more than a chunk of records under way, whose memory should be used again, not mapped afresh
_NO_THRESHOLD = 1 << 30  # bytes, as a threshold: no buffer is as large
_ARENAS = 2  # each keeps memory that it has freed; by default there are eight a core


def return_large_buffers() -> None:
    """Return freed buffers of some megabytes to the system at once: for jobs over whole files.

    Beam's local runner holds all references in a few large buffers, several times over while they pass from stage to
    stage. By default glibc keeps freed buffers up to 32 MiB for later use, in pieces that the next, larger buffer does
    not fit.
    """
    _set_malloc_option(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    pa.set_memory_pool(pa.system_memory_pool())  # Arrow's own allocator would keep them


def reuse_large_buffers() -> None:
    """Keep freed buffers for reuse: for jobs over records inside files.

    Each of their tasks needs buffers of the same sizes, and mapping a page afresh costs more than writing to it.
    3,000,000 rows took 700,000 page faults with buffers returned, and 110,000 with buffers kept, in no more memory.
    """
    _set_malloc_option(_M_MMAP_THRESHOLD, _NO_THRESHOLD)
    _set_malloc_option(_M_TRIM_THRESHOLD, _NO_THRESHOLD)
    _set_malloc_option(_M_ARENA_MAX, _ARENAS)
    # Arrow's own allocator would keep freed memory of each thread apart from NumPy's: another 100 MB.
    pa.set_memory_pool(pa.system_memory_pool())


def _set_malloc_option(parameter: int, value: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # other C libraries than glibc have none
        mallopt(parameter, value)


@contextmanager
def scratch_folder(kind: str) -> Iterator[str]:
    """Create a folder `shardmill-<kind>-…` while the context lasts, and delete those that dead processes left."""
    delete_stale_folders()
    while True:
        folder = tempfile.mkdtemp(prefix=f"shardmill-{kind}-")
        with suppress(FileNotFoundError):  # another process took it for that of a dead one
            held = storage.hold_lock(folder, wait=True)
            break
    try:
        yield folder
    finally:
        storage.release_lock(held)
        delete_folder(folder)
