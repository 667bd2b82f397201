"""The workers of `--environment_type LOOPBACK`: threads of the launcher, which a cluster on the same machine asks for.

Beam's own pool of them takes a worker for another of the same name, and each TaskManager of Flink counts its workers
from one: whichever first had done its part stopped that of another, in whose midst the stream to it broke off.
"""

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions, PortableOptions, WorkerOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils import thread_pool_executor

from shardmill.pipelines.running.lost_streams import no_word_of_lost_streams

_GRACE = 1  # seconds, at the end, for answers that are under way


class _WorkerPool(BeamFnExternalWorkerPoolServicer):
    """Beam's pool, to which workers of one name are others where others have asked for them."""

    def __init__(self, asked: threading.Event, **settings: Any) -> None:
        super().__init__(**settings)
        self._asked = asked
        self._lock = threading.Lock()
        self._started: dict[tuple[str, str], Any] = {}

    def StartWorker(self, request: Any, context: Any) -> Any:
        """Start one for whoever asks."""
        self._asked.set()
        with self._lock:
            answer = super().StartWorker(request, context)
            if not answer.error:
                self._started[context.peer(), request.worker_id] = self._worker_threads.pop(request.worker_id)
        return answer

    def StopWorker(self, request: Any, context: Any) -> Any:
        """Stop the one that was started for whoever asks."""
        with self._lock:
            worker = self._started.pop((context.peer(), request.worker_id), None)
            if worker is None:
                return beam_fn_api_pb2.StopWorkerResponse()
            self._worker_threads[request.worker_id] = worker
            return super().StopWorker(request, context)

    def stop_all(self) -> None:
        """Stop those whom nobody has stopped yet: a cluster keeps its workers for a while, for steps to come."""
        with self._lock:
            for (_, name), worker in self._started.items():
                self._worker_threads[name] = worker
                super().StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id=name), None)
            self._started.clear()


@contextmanager
def loopback_workers(options: PipelineOptions, asked: threading.Event) -> Iterator[PipelineOptions]:
    """While the context lasts, workers in this process; `options` with where they are asked for.

    Args:
      options: Beam's; those that ask for other workers are returned as they are.
      asked: set once the cluster asks for a worker.
    """
    debug = options.view_as(DebugOptions)
    if options.view_as(PortableOptions).environment_type != "LOOPBACK" or debug.lookup_experiment(
        "use_loopback_process_worker"
    ):
        yield options
        return
    import grpc

    pool = _WorkerPool(asked, state_cache_size=options.view_as(WorkerOptions).max_cache_memory_usage_mb << 20)
    pings = [("grpc.http2.max_pings_without_data", 0), ("grpc.http2.max_ping_strikes", 0)]
    server = grpc.server(thread_pool_executor.shared_unbounded_instance(), options=pings)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    with no_word_of_lost_streams():  # a TaskManager ends its own in any order
        try:
            external = copy.deepcopy(options)
            portable = external.view_as(PortableOptions)
            portable.environment_type, portable.environment_config = "EXTERNAL", f"localhost:{port}"
            yield external
        finally:
            pool.stop_all()
            server.stop(_GRACE)
