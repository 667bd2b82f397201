"""What bench_tars stands beside: the bytes of some files copied as a job copies them that puts records in an order of
its own, and nothing else done: read and written as runs, read in slices of these, written as shards and synced.

`python bare_copies.py FOLDER OUTPUT`; as many threads as cores.
"""

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from typing import TypeVar

_PIECE = 256 << 10  # bytes, written at once, as local.py has it
_RUN = 16 << 20
_SHARD = 128 << 20

Item = TypeVar("Item")


def each(work: Callable[[Item], object], items: Iterable[Item]) -> None:
    """Call `work` on every item, and wait."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(work, items))


def write(file: FileIO, data: bytes) -> None:
    """Write all of `data`."""
    for start in range(0, len(data), _PIECE):
        file.write(data[start : start + _PIECE])


def main(folder: Path, output: Path) -> None:
    files = sorted(folder.iterdir())
    blocks = [(file, at) for file in files for at in range(0, file.stat().st_size, _RUN)]
    shards = -(-sum(file.stat().st_size for file in files) // _SHARD)
    piece = -(-_RUN // shards)

    def write_run(block: tuple[Path, int]) -> None:
        file, at = block
        with file.open("rb", buffering=0) as source:
            source.seek(at)
            with (output / f"run-{file.name}-{at}").open("wb", buffering=0) as run:
                write(run, source.read(_RUN))

    def write_shard(number: int) -> None:
        with (output / f"shard-{number}").open("wb", buffering=0) as shard:
            for file, at in blocks:
                with (output / f"run-{file.name}-{at}").open("rb", buffering=0) as run:
                    run.seek(number * piece)
                    write(shard, run.read(piece))
            os.fsync(shard.fileno())

    output.mkdir(parents=True, exist_ok=True)
    each(write_run, blocks)
    each(write_shard, range(shards))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
