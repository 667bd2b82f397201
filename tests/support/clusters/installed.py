"""What clusters are made of, fetched once and kept in the user's cache directory: Java's modules by Maven, Beam's
`boot` by Go."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apache_beam

FLINK_DRIVER = "org.apache.beam.runners.flink.FlinkJobServerDriver"
_POM = Path(__file__).with_name("pom.xml")
_SPARK_POM = Path(__file__).with_name("spark.xml")
_UNSTAGED = "gradle/wrapper"
_BOOT = f"github.com/apache/beam/sdks/v2/python/container@v{apache_beam.__version__}"


def missing() -> str:
    """Why no cluster can be started here; "" if one can."""
    lacking = [name for name in ("java", "mvn") if shutil.which(name) is None]
    return (
        f"a cluster needs {' and '.join(lacking)}, which {'is' if len(lacking) == 1 else 'are'} not installed"
        * bool(lacking)
    )


def flink_jars() -> Path:
    """The folder of the jars of Beam's job server and of Flink."""
    return _kept(f"flink-{_digest(_POM.read_bytes())}", partial(_copy_jars, _POM))


def spark_jars() -> Path:
    """The folder of the jars of Beam's job server for Spark and of Spark."""
    return _kept(f"spark-{_digest(_SPARK_POM.read_bytes())}", partial(_copy_jars, _SPARK_POM))


def unstaged(jars: Path) -> Path:
    """The folder of the same jars by a path by which Beam's job server does not send them with each job: 150 MB, which
    take Flink half its time to digest. Source: isStageable of Beam's PipelineResources.java."""
    return _kept(f"{jars.name}-unstaged", partial(_link_jars, jars)) / _UNSTAGED


def flink_job_server(folder: Path, jars: Path) -> Path:
    """A jar of Beam's job server for Flink in `folder`, as `java -jar` starts it: it names those that it is made of."""
    classes = " ".join(jar.as_uri() for jar in sorted(jars.glob("*.jar")))
    lines = ("Manifest-Version: 1.0", f"Main-Class: {FLINK_DRIVER}", f"Class-Path: {classes}")
    # A line has at most 72 bytes. Source: https://docs.oracle.com/en/java/javase/17/docs/specs/jar/jar.html
    wrapped = ("\r\n ".join(line[start : start + 70] for start in range(0, len(line), 70)) for line in lines)
    with zipfile.ZipFile(jar := folder / "job_server.jar", "w") as file:
        file.writestr("META-INF/MANIFEST.MF", "\r\n".join([*wrapped, "", ""]))
    return jar


def boot() -> Path | None:
    """Beam's program that starts a worker in a container; None without Go, which builds it."""
    if shutil.which("go") is None:
        return None
    return _kept(f"boot-{apache_beam.__version__}", _build_boot) / "container"


def _copy_jars(pom: Path, folder: Path) -> None:
    copy = ["mvn", "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies"]
    subprocess.run([*copy, f"-DoutputDirectory={folder}"], check=True)


def _link_jars(jars: Path, folder: Path) -> None:
    shutil.copytree(jars, folder / _UNSTAGED, copy_function=os.link)  # no symbolic links, which Beam follows


def _build_boot(folder: Path) -> None:
    subprocess.run(["go", "install", _BOOT], env={**os.environ, "GOBIN": str(folder)}, check=True)


def _kept(name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache, made by `make` if nobody has: whole, or not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shardmill-tests"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / name
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = cache / f"{name}.making"
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            make(making)
            making.rename(folder)
    return folder


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
