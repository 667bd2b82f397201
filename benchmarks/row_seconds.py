"""What the rows alone cost a process, without its start: for scaling a run on a part of them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def row_seconds(path: str | None, sign: int = 1) -> Iterator[None]:
    """Add the seconds from start to end, and those of all cores, to the file `path`; with `sign` -1 take them off."""
    start, core_start = time.perf_counter(), time.process_time()
    yield
    if path is not None:
        seconds, core_seconds = read(path)
        spent, core_spent = time.perf_counter() - start, time.process_time() - core_start
        Path(path).write_text(f"{seconds + sign * spent} {core_seconds + sign * core_spent}")


def read(path: str) -> tuple[float, float]:
    """What the file holds."""
    if not Path(path).exists():
        return 0.0, 0.0
    seconds, core_seconds = map(float, Path(path).read_text().split())
    return seconds, core_seconds
