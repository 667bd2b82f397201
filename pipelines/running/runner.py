"""Which runner runs, pinned: the in-process FnApiRunner for local jobs, whatever is installed or reachable."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from apache_beam.options.pipeline_options import (
    DirectOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    StandardOptions,
)
from apache_beam.runners.runner import create_runner

from shardmill.errors import UserError
from shardmill.pipelines.flags.beam import flags_of_clusters
from shardmill.pipelines.running.dataflow import check_installed, check_submission
from shardmill.pipelines.running.reachable import check_job_server

if TYPE_CHECKING:
    from shardmill.pipelines.running.worker_processes import WorkerProcesses

_LOCAL = frozenset(
    {None, "DirectRunner", "SwitchingDirectRunner", "FnApiRunner", "apache_beam.runners.direct.DirectRunner"}
)


def is_local(options: PipelineOptions) -> bool:
    """Whether the job runs on this machine under our own launcher."""
    return options.view_as(StandardOptions).runner in _LOCAL


def works_here(options: PipelineOptions) -> bool:
    """Whether the job's workers end with the launcher, on whichever runner."""
    return is_local(options) or options.view_as(PortableOptions).environment_type == "LOOPBACK"


def check_running_mode(options: PipelineOptions) -> None:
    """Refuse what loses records.

    Raises:
      UserError: `--direct_running_mode multi_threading`.
    """
    if is_local(options) and options.view_as(DirectOptions).direct_running_mode == "multi_threading":
        raise UserError(
            "--direct_running_mode multi_threading loses records without an error in Beam's local runner (an unlocked"
            " buffer between its threads); use in_memory, the default, or multi_processing; --threads sets how many"
            " threads read files"
        )


def check_runner(options: PipelineOptions) -> None:
    """Check that the runner exists, can be reached, and runs in a way that loses nothing.

    Raises:
      UserError: it does not.
    """
    check_runner_options(options)
    if not is_local(options):
        check_job_server(options)
    check_submission(options)


def check_runner_options(options: PipelineOptions) -> None:
    """Check what can be without asking anybody: that the runner exists, and runs in a way that loses nothing.

    Raises:
      UserError: it does not.
    """
    check_running_mode(options)
    check_installed(options)
    _check_setup(options)
    if is_local(options):
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


def said_of_flags(rest: Sequence[str], options: PipelineOptions) -> str | None:
    """What must be said of the flags `rest`, which `options` are of: that the local runner does not look at some."""
    flags = flags_of_clusters(rest) if is_local(options) else []
    if not flags:
        return None
    return (
        f"the local runner, which runs this job, has no use for {' and '.join(flags)}; --direct_num_workers says how"
        " many processes work, and --runner names another"
    )


def _check_setup(options: PipelineOptions) -> None:
    """Check that what workers are to install is there; Beam goes into its folder, and knows of none where only a name
    is given."""
    setup = options.view_as(SetupOptions)
    if setup.setup_file is None:
        return
    if not os.path.isfile(setup.setup_file):
        raise UserError(f"--setup_file {setup.setup_file}: no such file; expected that of shardmill's own folder")
    setup.setup_file = os.path.abspath(setup.setup_file)


def make_runner(options: PipelineOptions, workers: "WorkerProcesses | None" = None) -> Any:
    """The runner to give to `beam.Pipeline`: an object for local jobs, a name for others.

    Beam's DirectRunner would first try to download another runner and fall back silently. This builds the FnApiRunner
    as that fallback does, with provision info: without it the options never reach worker processes, which are those of
    `workers`.
    """
    if not is_local(options):
        return options.view_as(StandardOptions).runner
    from apache_beam.portability.api import beam_provision_api_pb2
    from apache_beam.runners.portability.fn_api_runner import fn_runner
    from apache_beam.runners.portability.portable_runner import JobServiceHandle

    from shardmill.pipelines.running.worker_processes import LocalRunner

    encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    provision = beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
    return LocalRunner(workers, provision_info=fn_runner.ExtendedProvisionInfo(provision))
