"""How far workers on this machine are: small counter files in a folder that the launcher reads."""

import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

_INTERVAL = 0.2  # seconds between two writes of one worker's file


@dataclass(frozen=True, slots=True)
class Progress:
    """Examples and bytes written so far, planned in all (0 while the plan is not made), and records staged before
    that."""

    examples: int = 0
    size_bytes: int = 0
    planned_examples: int = 0
    planned_bytes: int = 0
    staged: int = 0


class ProgressReporter:
    """Counts what some threads of this process did, and writes it to a file of its own now and then."""

    def __init__(self, folder: str, counter: str = "examples") -> None:
        """Args:

        folder: that the launcher reads.
        counter: what is counted, `examples` as they are written, or records as they are `staged`.
        """
        self._path = os.path.join(folder, f"{counter}-{os.getpid()}-{threading.get_ident()}.json")
        self._counter = counter
        self._examples = self._bytes = 0
        self._last = 0.0
        self._lock = threading.Lock()

    def add(self, examples: int, size_bytes: int) -> None:
        """Count what was just written, from any thread."""
        with self._lock:
            self._examples += examples
            self._bytes += size_bytes
            now = time.monotonic()
            if now - self._last > _INTERVAL:
                self._write()
                self._last = now

    def flush(self) -> None:
        """Write the counts now."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        _write(self._path, {self._counter: self._examples, "size_bytes": self._bytes})


def report_plan(folder: str, examples: int, size_bytes: int) -> None:
    """Say how much there is to write."""
    _write(os.path.join(folder, "plan.json"), {"planned_examples": examples, "planned_bytes": size_bytes})


def read_progress(folder: str) -> Progress:
    """The sum of what all workers reported."""
    totals = {"examples": 0, "size_bytes": 0, "planned_examples": 0, "planned_bytes": 0, "staged": 0}
    for name in os.listdir(folder):
        if name.endswith(".json"):
            with open(os.path.join(folder, name)) as file:
                for key, value in json.load(file).items():
                    totals[key] += value
    return Progress(**totals)


def _write(path: str, content: dict[str, int]) -> None:
    with suppress(OSError):  # of a full disk, say: nobody's job fails because its progress cannot be shown
        with open(f"{path}.tmp", "w") as file:
            json.dump(content, file)
        os.replace(f"{path}.tmp", path)
