"""What the store of slow_store.py keeps of requests: their number, the memory that they are read into, and uploads that
come in parts."""

import json
import time
from pathlib import Path
from threading import Lock


class Counts:
    """What is counted of requests."""

    def __init__(self) -> None:
        self._now, self._since = 0, 0.0
        self._clear()

    def _clear(self) -> None:
        self._requests = self._most = 0
        self._alone = 0.0

    def change(self, by: int) -> None:
        """A request begins, or ends."""
        moment = time.monotonic()
        if self._now == 1:
            self._alone += moment - self._since
        self._since = moment
        self._now += by
        self._requests += by > 0
        self._most = max(self._most, self._now)

    def take(self) -> bytes:
        """All of it as JSON."""
        answer = json.dumps({"requests": self._requests, "at_once": self._most, "seconds_alone": self._alone})
        self._clear()
        return answer.encode()


class Buffers:
    """Memory for what is sent to the store, used again: the system would clear new pages for each of many megabytes."""

    def __init__(self) -> None:
        self._free: list[bytearray] = []

    def take(self, length: int) -> memoryview:
        """The first bytes of one that is large enough."""
        enough = [buffer for buffer in self._free if len(buffer) >= length]
        if not enough:
            return memoryview(bytearray(length))[:length]
        buffer = min(enough, key=len)
        self._free.remove(buffer)
        return memoryview(buffer)[:length]

    def give(self, buffer: memoryview) -> None:
        """What was taken."""
        assert isinstance(buffer.obj, bytearray)
        self._free.append(buffer.obj)


class Upload:
    """An object that comes in parts, each of which is written once those before it are."""

    def __init__(self, path: Path) -> None:
        self._path, self._written, self._early = path, 0, dict[int, bytes]()
        self._file, self._lock = path.open("wb", buffering=0), Lock()

    def write(self, number: int, data: memoryview) -> None:
        """Part `number`, from 1; one that came before is sent again."""
        with self._lock:
            if number > self._written + 1:
                self._early[number] = bytes(data)
                return
            if number == self._written + 1:
                self._append(data)
            while (early := self._early.pop(self._written + 1, None)) is not None:
                self._append(early)

    def close(self, path: Path) -> None:
        """All parts came."""
        self._file.close()
        self._path.replace(path)

    def _append(self, data: memoryview | bytes) -> None:
        assert self._file.write(data) == len(data)
        self._written += 1
