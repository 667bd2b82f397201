"""A real Flink session cluster on this machine: a JobManager, TaskManagers, and Beam's job server, as processes."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.support.clusters.installed import FLINK_DRIVER, flink_jars, flink_job_server, unstaged
from tests.support.clusters.plans import FlinkPlan

# What bin/flink gives Java 17
_OPENED = (
    *("lang", "lang.invoke", "lang.reflect", "net", "io", "nio", "text", "time", "util", "util.concurrent"),
    *("util.concurrent.atomic", "util.concurrent.locks"),
)
_JAVA = [
    "java",
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED),
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # short jobs: compiling is most of what they would take
]
# flink-conf.yaml as Flink 1.16 comes, but for the ports, and two slots in place of one
_DEFAULTS = {
    "jobmanager.rpc.address": "localhost",
    "jobmanager.bind-host": "localhost",
    "jobmanager.memory.process.size": "1600m",
    "taskmanager.bind-host": "localhost",
    "taskmanager.host": "localhost",
    "taskmanager.memory.process.size": "1728m",
    "taskmanager.numberOfTaskSlots": "2",
    "parallelism.default": "1",
    "jobmanager.execution.failover-strategy": "region",
    "rest.address": "localhost",
    "rest.bind-address": "localhost",
}
_OURS = "SHARDMILL_TEST_CLUSTER"  # in the environment of workers: which cluster's they are
# Where a worker takes a minute to start, as on a busy machine, Flink would end it before it is asked for anything
_LASTING = ("--environment_cache_millis", "600000")
_SECONDS = 400.0  # until a part of the cluster is there, on a machine that is busy
# For many jobs, one right after the other, on the same TaskManagers, see docs/flink.md. Beam's classes are in the
# cluster's own path: so they are not loaded anew for each job, and workers last from one step to the next. Buffers are
# three times as many as by default, for --module_file.
ROOMY = {
    "classloader.resolve-order": "parent-first",
    "taskmanager.memory.framework.off-heap.size": "512m",
    "taskmanager.memory.jvm-metaspace.size": "512m",
    "taskmanager.memory.network.min": "384m",
    "taskmanager.memory.network.max": "384m",
    "taskmanager.memory.process.size": "2624m",  # by what these are more
}


@dataclass(eq=False)
class FlinkCluster:
    """A cluster while the context lasts. No process of it outlives this one.

    Attributes:
      folder: of its configuration and logs.
      task_managers: how many there are at first.
      settings: of Flink that differ from those it comes with.
      job_endpoint, rest: HOST:PORT of the job server, and of Flink.
      processes: by name: jobmanager, taskmanager1, …, jobserver.
    """

    folder: Path
    task_managers: int = 2
    settings: Mapping[str, str] = field(default_factory=dict)
    job_endpoint: str = ""
    rest: str = ""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        """Start all, and wait until it can take jobs."""
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
        self.processes.clear()
        for worker in self.workers():
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)

    def _start(self) -> None:
        rpc, rest, jobs, artifacts, expansion = free_ports(5)
        settings = {**_DEFAULTS, "jobmanager.rpc.port": str(rpc), "rest.port": str(rest), **self.settings}
        settings.setdefault("io.tmp.dirs", str(self.folder / "tmp"))
        (self.folder / "tmp").mkdir(parents=True)
        (self.folder / "flink-conf.yaml").write_text("".join(f"{k}: {v}\n" for k, v in settings.items()))
        self.rest, self.job_endpoint = f"localhost:{rest}", f"localhost:{jobs}"
        jars = flink_jars()
        self._flink = ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))
        main = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        self.run("jobmanager", [*_JAVA, "-Xmx600m", "-cp", self._flink, main, "--configDir", str(self.folder)])
        self._tuned = self._resources()
        for _ in range(self.task_managers):
            self.add_task_manager()
        ports = [f"--job-port={jobs}", f"--artifact-port={artifacts}", f"--expansion-port={expansion}"]
        if "classloader.resolve-order" in self.settings:  # Beam's classes are the cluster's own
            jars = unstaged(jars)
        driver = ["-Xmx400m", "-cp", f"{jars}/*", FLINK_DRIVER]
        staged = f"--artifacts-dir={self.folder / 'staged'}"
        self.run("jobserver", [*_JAVA, *driver, f"--flink-master={self.rest}", staged, *ports])
        self.wait_for_slots(self.task_managers * int(settings["taskmanager.numberOfTaskSlots"]))
        wait_for_port(self.job_endpoint)

    def _resources(self) -> tuple[list[str], list[str]]:
        """Options of the JVM and of the TaskManager, as Flink's own scripts find them."""
        tool = ["org.apache.flink.runtime.util.bash.BashJavaUtils", "GET_TM_RESOURCE_PARAMS"]
        found = subprocess.run(
            ["java", "-cp", self._flink, *tool, "--configDir", str(self.folder)], check=True, capture_output=True
        )
        jvm, dynamic = re.findall(r"BASH_JAVA_UTILS_EXEC_RESULT:(.*)", found.stdout.decode())
        return jvm.split(), dynamic.split()

    def add_task_manager(self) -> str:
        """Start one more; returns its name."""
        name = f"taskmanager{sum('taskmanager' in name for name in self.processes) + 1}"
        jvm, dynamic = self._tuned
        main = ["org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "--configDir", str(self.folder), *dynamic]
        self.run(name, [*_JAVA, *jvm, "-cp", self._flink, *main])
        return name

    def run(self, name: str, command: list[str], env: Mapping[str, str] | None = None) -> None:
        """Start a process of the cluster, which ends with this one at the latest."""
        if shutil.which("setpriv") is not None:
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        with self.log(name).open("wb") as log:
            self.processes[name] = subprocess.Popen(
                command,
                cwd=self.folder,  # where Beam's `boot` leaves the options of a job
                stdout=log,
                stderr=log,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )

    def log(self, name: str) -> Path:
        """Where a process writes what it says."""
        return self.folder / f"{name}.log"

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def ask(self, path: str) -> Any:
        """What Flink's REST interface answers."""
        with urllib.request.urlopen(f"http://{self.rest}/{path}", timeout=10) as answer:
            return json.load(answer)

    def wait_for_slots(self, slots: int) -> None:
        """Wait until there are as many slots, free ones, at least.

        Raises:
          TimeoutError: there are not.
        """
        deadline = time.monotonic() + _SECONDS
        found = -1
        while time.monotonic() < deadline:
            self.check_alive()
            try:
                found = self.ask("overview")["slots-available"]
            except (OSError, KeyError):
                found = -1
            if found >= slots:
                return
            time.sleep(0.2)
        raise TimeoutError(f"{found} of {slots} slots; see the logs in {self.folder}")

    def flags(self) -> list[str]:
        """Of a job on it."""
        return ["--runner", "PortableRunner", "--job_endpoint", self.job_endpoint, *_any_job()]

    def flags_of_own_server(self) -> list[str]:
        """Of a job that starts its job server itself."""
        jar = flink_job_server(self.folder, unstaged(flink_jars()))
        return ["--runner", "FlinkRunner", "--flink_master", self.rest, "--flink_job_server_jar", str(jar), *_any_job()]

    def plan(self) -> FlinkPlan:
        """Of the job that was started last."""
        newest = max(self.ask("jobs/overview")["jobs"], key=lambda job: job["start-time"])
        return FlinkPlan.of(self.ask(f"jobs/{newest['jid']}/plan")["plan"]["nodes"])

    def worker_processes(self, boot: Path) -> list[str]:
        """Flags of a job whose workers are processes that each TaskManager starts, by Beam's `boot`."""
        config = json.dumps({"command": str(self._worker_program(boot)), "env": self.worker_environment()})
        return ["--environment_type", "PROCESS", "--environment_config", config, *_LASTING]

    def start_pool(self, boot: Path) -> list[str]:
        """Flags of a job whose workers are those of a pool, which is started as `boot --worker_pool` does it where it
        lies in /opt/apache/beam, as in an image.

        A pool knows its workers by names that each TaskManager gives from one on: it serves one TaskManager.
        """
        (port,) = free_ports(1)
        pool = [sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"]
        self.run("pool", [*pool, f"--container_executable={self._worker_program(boot)}"], self.worker_environment())
        wait_for_port(endpoint := f"localhost:{port}")
        return ["--environment_type", "EXTERNAL", "--environment_config", endpoint, *_LASTING]

    def _worker_program(self, boot: Path) -> Path:
        """Beam's `boot`, which keeps to the cluster's folder."""
        script = self.folder / "worker"
        command = f'"{boot}" --semi_persist_dir="{self.folder / "semi"}" "$@"'
        script.write_text(f'#!/bin/sh\nexec {command} >>"{self.log("workers")}" 2>&1\n')
        script.chmod(0o755)
        return script

    def worker_environment(self) -> dict[str, str]:
        """Of workers that `boot` starts: this Python, and this shardmill."""
        return {
            "RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT": "1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(Path(__file__).resolve().parents[3] / "src"),
            _OURS: str(self.folder),
        }

    def workers(self) -> list[int]:
        """Workers' processes, and those that `boot` has around them."""
        mark = f"{_OURS}={self.folder}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
            except OSError:  # it has ended
                continue
        return found

    def check_alive(self) -> None:
        """Check that the JobManager runs."""
        if self.processes["jobmanager"].poll() is not None:
            raise RuntimeError(self.log("jobmanager").read_text()[-3000:])


def _any_job() -> list[str]:
    """Flags. A busy machine takes minutes to start what a first job needs."""
    return ["--job_server_timeout", "500"]


def free_ports(number: int) -> list[int]:
    """Ports at which nobody listens."""
    probes = [socket.create_server(("localhost", 0)) for _ in range(number)]
    try:
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def wait_for_port(endpoint: str) -> None:
    """Wait until somebody listens at HOST:PORT; raises TimeoutError."""
    host, port = endpoint.split(":")
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as client:
            if client.connect_ex((host, int(port))) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens at {endpoint}")


def main() -> None:
    """`python -m tests.support.clusters.flink FOLDER [TASKMANAGERS]`: a cluster until Ctrl-C."""
    with FlinkCluster(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2) as cluster:
        print(
            f"--runner PortableRunner --job_endpoint {cluster.job_endpoint}   Flink: http://{cluster.rest}", flush=True
        )
        signal.pause()


if __name__ == "__main__":
    main()
