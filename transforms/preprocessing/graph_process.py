"""The process that imports TensorFlow: begun before it is needed, since its imports take seconds of one core.

It waits for a line on its standard input, and ends without having done anything where there comes none: as whoever
started it closes it, or is gone.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from shardmill.errors import JobError

MODULE = "shardmill.transforms.preprocessing.tensorflow_graph"
# TFT is of the older Keras, and TensorFlow would import the newer one beside, which takes as long as all else.
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
# Garbage is not looked for: modules make none, and the process ends soon
_PROGRAM = f"""
import gc, runpy, sys
gc.disable()
sys.modules.update(dict.fromkeys({_UNUSED!r}))
runpy.run_module({MODULE!r}, run_name="__main__")
"""
_SAID = 500  # letters of what a failed process said


class GraphProcess:
    """One process, which does one thing.

    Attributes:
      folder: that it runs in: what it reads is written there before `run`, what it writes is there after.
    """

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="shardmill-transform-", ignore_cleanup_errors=True)
        self.folder = Path(self._temporary.name)
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed in close()
        path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM],  # -P: a vocabulary may be called numpy.py
            cwd=self.folder,
            env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=self._said,
            stderr=self._said,
        )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def run(self) -> None:
        """Let it do what lies in its folder, and wait until it has.

        Raises:
          JobError: it failed.
        """
        try:
            self._process.communicate(b"\n")
        except BrokenPipeError:  # it ended as it imported; why is said below
            self._process.wait()
        if status := self._process.returncode:
            self._said.seek(0)
            said = self._said.read().decode(errors="replace").strip().rpartition("\n")[2][-_SAID:]
            raise JobError(
                f"--transform: TensorFlow Transform could not write the graph (exit status {status}): {said}"
            )

    def close(self) -> None:
        """End it, whatever it does, and remove its folder."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._said.close()
        self._temporary.cleanup()


_waiting: list[GraphProcess] = []


@contextmanager
def begun_ahead() -> Iterator[None]:
    """Have a process ready for the `graph_process` of a job that runs in this one; ended on leaving if none took it."""
    if _waiting:
        yield
        return
    process = GraphProcess()
    _waiting.append(process)
    try:
        yield
    finally:
        if process in _waiting:
            _waiting.remove(process)
            process.close()


@contextmanager
def graph_process() -> Iterator[GraphProcess]:
    """A process to give something to do: the one that was begun ahead, where one was."""
    try:
        process = _waiting.pop()
    except IndexError:
        process = GraphProcess()
    try:
        yield process
    finally:
        process.close()
