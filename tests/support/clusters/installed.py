"""What clusters are made of, fetched once and kept in the user's cache directory: Java's modules by Maven, Beam's
`boot` by Go."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apache_beam

_POM = Path(__file__).with_name("pom.xml")
_SPARK_POM = Path(__file__).with_name("spark.xml")
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


def boot() -> Path | None:
    """Beam's program that starts a worker in a container; None without Go, which builds it."""
    if shutil.which("go") is None:
        return None
    return _kept(f"boot-{apache_beam.__version__}", _build_boot) / "container"


def _copy_jars(pom: Path, folder: Path) -> None:
    copy = ["mvn", "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies"]
    subprocess.run([*copy, f"-DoutputDirectory={folder}"], check=True)


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
