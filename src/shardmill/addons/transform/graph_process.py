"""The process that builds TensorFlow graphs, started before it is needed."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from shardmill.errors import JobError
from shardmill.transforms.stores.storage import hold_shared

MODULE = "shardmill.addons.transform.tensorflow_graph"
# TFT is of the older Keras, and TensorFlow would import the newer one as well, which takes as long as all else.
_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_USE_LEGACY_KERAS": "1",
    "CUDA_VISIBLE_DEVICES": "-1",
    "PYTHONHASHSEED": "0",
}
# What TensorFlow and Keras import wherever it is installed, for what nobody asks for here: half of the time
_UNUSED = (
    *("IPython", "PIL", "googleapiclient", "h5py", "jax", "matplotlib", "oauth2client", "pandas", "scipy", "sklearn"),
    "torch",
)
# Garbage is not looked for: modules make none, and the process ends soon. Its alarm ends it with the launcher, must not
# disturb calls of the system, and stops before Python, at its end, takes the handler away
_PROGRAM = f"""
import gc, os, runpy, signal, sys
launcher = os.getppid()
signal.signal(signal.SIGALRM, lambda *_: os.getppid() == launcher or os._exit(1))
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
gc.disable()
sys.modules.update(dict.fromkeys({_UNUSED!r}))
try:
    runpy.run_module({MODULE!r}, run_name="__main__")
finally:
    signal.setitimer(signal.ITIMER_REAL, 0)
"""
_MAX_MESSAGE = 500  # letters of what a failed process said


def limit_threads() -> None:
    """Let TensorFlow run each graph in one thread. Does nothing if it has already started in this process."""
    import tensorflow as tf

    with suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


class GraphProcess:
    """A process that makes one transform graph."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="shardmill-transform-", ignore_cleanup_errors=True)
        self.folder = Path(self._temporary.name)  # holds the input before `run` and the output after it
        self._stderr_file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed in close()
        path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM],  # -P: a vocabulary may be called numpy.py
            cwd=self.folder,
            env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=self._stderr_file,
            stderr=self._stderr_file,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self) -> None:
        """Make the graph from the job in the folder, and wait for it; raises JobError if the process fails."""
        try:
            self._process.communicate(b"\n")
        except BrokenPipeError:  # it ended as it imported; the error below names the cause
            self._process.wait()
        if status := self._process.returncode:
            self._stderr_file.seek(0)
            message = self._stderr_file.read().decode(errors="replace").strip().rpartition("\n")[2][-_MAX_MESSAGE:]
            raise JobError(f"--transform: TensorFlow Transform wrote no graph (exit status {status}): {message}")

    def close(self) -> None:
        """Kill the process and delete its folder."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._stderr_file.close()
        self._temporary.cleanup()


_prestarted_processes: list[GraphProcess] = []


@contextmanager
def prestarted() -> Iterator[None]:
    """Start a process for the next call of `graph_process` in this process; on exit, end it if it was not used."""
    if _prestarted_processes:
        yield
        return
    process = GraphProcess()
    _prestarted_processes.append(process)
    try:
        yield
    finally:
        if process in _prestarted_processes:
            _prestarted_processes.remove(process)
            process.close()


@contextmanager
def graph_process() -> Iterator[GraphProcess]:
    """Provide a process: the prestarted one if there is one, else a new one."""
    try:
        process = _prestarted_processes.pop()
    except IndexError:
        process = GraphProcess()
    try:
        yield process
    finally:
        process.close()


@contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Disable GPUs and discard standard error while TensorFlow is imported, which writes there at any log level."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with hold_shared("stderr", _no_stderr):
        yield


@contextmanager
def _no_stderr() -> Iterator[None]:
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
