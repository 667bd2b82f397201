"""Spark in the process of Beam's job server, with two threads for its tasks."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.clusters.flink import free_ports, wait_for_port
from tests.support.clusters.installed import spark_jars

# What Spark gives Java 17
_OPENED = (
    *("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util", "util.concurrent", "util.concurrent.atomic"),
)
_JAVA = [
    "java",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED),
    *(f"--add-opens=java.base/sun.{package}=ALL-UNNAMED" for package in ("nio.ch", "security.action", "util.calendar")),
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xmx1g",
]


@contextmanager
def spark(folder: Path) -> Iterator[str]:
    """HOST:PORT of the job server, which ends with the block; `folder` takes its log and what jobs stage."""
    jobs, artifacts, expansion = free_ports(3)
    driver = ["-cp", f"{spark_jars()}/*", "org.apache.beam.runners.spark.SparkJobServerDriver"]
    ports = [f"--job-port={jobs}", f"--artifact-port={artifacts}", f"--expansion-port={expansion}"]
    told = ["--spark-master-url=local[2]", f"--artifacts-dir={folder / 'staged'}", *ports]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([*_JAVA, *driver, *told], stdout=log, stderr=log, cwd=folder)
    try:
        wait_for_port(f"localhost:{jobs}")
        yield f"localhost:{jobs}"
    finally:
        server.kill()
        server.wait()
