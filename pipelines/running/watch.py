"""A job on a cluster, watched by its launcher: what will not get better is said within a minute, and the job
cancelled, where the cluster itself would wait, or try again."""

import threading
import time
from importlib import metadata

from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions, PortableOptions

import shardmill
from shardmill.errors import KINDS, JobError
from shardmill.pipelines.running.reachable import seconds_to_wait
from shardmill.pipelines.running.runner import works_here
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.reported import Failure, begun_path, reported

_SECONDS = 60  # until a worker must have begun
_INTERVAL = 2.0  # seconds between looks: each may be two requests to a store
_STARTED_BY_OTHERS = ("EXTERNAL", "LOOPBACK", "PROCESS")  # an image may take minutes to be there


class Watch:
    """Looks at what the workers of a job leave in the folder that they share with the launcher.

    Attributes:
      works_here: whether the job's workers end with the launcher.
    """

    def __init__(self, report: str, options: PipelineOptions, asked: threading.Event) -> None:
        """Args:

        report: where steps say with which error they end.
        options: of the job, as it was asked for.
        asked: set once the cluster has asked the launcher itself for a worker, whose first step may take its time.
        """
        self._report, self._options, self._asked = report, options, asked
        self.works_here = works_here(options)
        portable = options.view_as(PortableOptions)
        self._patience = seconds_to_wait(portable, _SECONDS)
        self._has_begun = portable.environment_type not in _STARTED_BY_OTHERS
        self._since = self._last = time.monotonic()

    def look(self) -> Failure | JobError | None:
        """Why to give up: what a step has found that another try does not mend, or that no step has begun."""
        now = time.monotonic()
        if now - self._last < _INTERVAL:
            return None
        self._last = now
        failure = reported(self._report)
        if failure is not None and failure.kind in KINDS:
            return failure
        if not self._has_begun:
            self._has_begun = self._asked.is_set() or storage.exists(begun_path(self._report))
            if not self._has_begun and now - self._since > self._patience:
                return JobError(f"{self._nothing_began()}; the job was cancelled")
        return None

    def _nothing_began(self) -> str:
        portable = self._options.view_as(PortableOptions)
        slots = max(self._options.view_as(FlinkRunnerOptions).parallelism, 1)
        # Of processes it is what starts them, and all of their environment, which may hold what is nobody's business
        is_a_place = portable.environment_type != "PROCESS" and portable.environment_config
        where = f" at {portable.environment_config}" if is_a_place else ""
        return (
            f"no worker has begun within {self._patience} seconds; expected {slots} free"
            f" slot{'s' if slots > 1 else ''}, as --parallelism asks for, and workers{where} that have apache-beam"
            f" {metadata.version('apache-beam')} and shardmill {shardmill.__version__}, which the log of the workers'"
            " pool may deny; --job_server_timeout SECONDS waits longer"
        )
