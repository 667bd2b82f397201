"""Workers in the launcher, asked for by several TaskManagers, each of which counts its workers from one."""

import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, endpoints_pb2

from shardmill.pipelines.jobs.local_cluster import WORKER_EXIT_TIMEOUT_S, loopback_workers

FLAGS = ["--runner", "PortableRunner", "--job_endpoint", "localhost:1", "--environment_type", "LOOPBACK"]


class TaskManager(beam_fn_api_pb2_grpc.BeamFnControlServicer):
    """The side of a TaskManager: workers report to it; `ended` says when one has gone."""

    def __init__(self, pool: str) -> None:
        self.ended: queue.Queue[str] = queue.Queue()
        self.begun: queue.Queue[str] = queue.Queue()
        self._done: queue.Queue[None] = queue.Queue()
        self.server = grpc.server(ThreadPoolExecutor(4))
        beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(self, self.server)
        self._port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        self._channel = grpc.insecure_channel(pool, [("grpc.use_local_subchannel_pool", 1)])
        self.pool = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(self._channel)

    def Control(self, request_iterator: Any, context: Any) -> Iterator[Any]:
        """Give no work; wait for the worker to go, or for the end."""
        worker = dict(context.invocation_metadata())["worker_id"]
        self.begun.put(worker)
        for _ in request_iterator:
            pass
        self.ended.put(worker)
        return iter(())

    def start_worker(self, name: str) -> None:
        control = endpoints_pb2.ApiServiceDescriptor(url=f"127.0.0.1:{self._port}")
        request = beam_fn_api_pb2.StartWorkerRequest(worker_id=name, control_endpoint=control)
        assert self.pool.StartWorker(request).error == ""
        assert self.begun.get(timeout=60) == name

    def stop_worker(self, name: str) -> None:
        assert self.pool.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id=name)).error == ""

    def close(self) -> None:
        self._channel.close()
        self.server.stop(None).wait()


@contextmanager
def task_managers(pool: str) -> Iterator[tuple[TaskManager, TaskManager]]:
    both = (TaskManager(pool), TaskManager(pool))
    try:
        yield both
    finally:
        for one in both:
            one.close()


def test_a_task_manager_stops_its_own_worker_alone() -> None:
    options = PipelineOptions(FLAGS)
    asked = threading.Event()
    with loopback_workers(options, asked) as external:
        portable = external.view_as(PortableOptions)
        assert portable.environment_type == "EXTERNAL"
        assert portable.environment_config.startswith("127.0.0.1:")  # localhost: two
        with task_managers(portable.environment_config) as (one, other):
            assert not asked.is_set()
            one.start_worker("1-1")
            assert asked.is_set()
            other.start_worker("1-1")
            one.stop_worker("1-1")
            assert one.ended.get(timeout=60) == "1-1"
            assert other.ended.empty()
            one.stop_worker("1-1")  # has gone: nobody else's goes
            other.stop_worker("1-1")
            assert other.ended.get(timeout=60) == "1-1"
    assert options.view_as(PortableOptions).environment_type == "LOOPBACK"


def test_streams_that_a_cluster_keeps_open_are_not_waited_for() -> None:
    """Flink keeps them for a minute: each held the command's end up for ten seconds."""
    closed = threading.Event()
    reader = threading.Thread(target=closed.wait, name="read_grpc_client_inputs", daemon=True)
    reader.start()
    began = time.monotonic()
    with loopback_workers(PipelineOptions(FLAGS), threading.Event()):
        pass
    assert time.monotonic() - began < WORKER_EXIT_TIMEOUT_S
    assert reader.is_alive()
    closed.set()
    reader.join()


def test_other_workers_are_left_to_beam() -> None:
    for flags in ([*FLAGS[:-1], "DOCKER"], [*FLAGS, "--experiments", "use_loopback_process_worker"], []):
        options = PipelineOptions(flags)
        with loopback_workers(options, threading.Event()) as same:
            assert same is options
