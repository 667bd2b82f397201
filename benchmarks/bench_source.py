"""Measure random access: `shardmill.source` against bare `pread` of the same records, in the page cache.

`python bench_source.py DATASET` reads a data set with an index, for example one of `make_images.py`. Seconds are those
of one core's work, which vary less than elapsed ones if others use the machine. All ways read in turns, and the
fastest round counts.
"""

import argparse
import os
import random
import time
from collections.abc import Callable

import shardmill


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--examples", type=int, default=20_000, help="read in a round")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    source = shardmill.source(options.dataset)
    numbers = [random.randrange(len(source)) for _ in range(options.examples)]
    places = [source._locate(number) for number in numbers]
    files = {shard.file: os.open(source._dataset.path(shard), os.O_RDONLY) for shard in {one.shard for one in places}}
    ranges = [(files[place.shard.file], place.stop - place.start, place.start) for place in places]

    def read_bare() -> None:
        for descriptor, size, start in ranges:
            os.pread(descriptor, size, start)

    def read_single() -> None:
        for number in numbers:
            source[number]

    def read_batches() -> None:
        batch: object = None  # held while the next one is read, as in training
        for start in range(0, len(numbers), options.batch):
            batch = source.__getitems__(numbers[start : start + options.batch])
        assert batch

    def read_in_order() -> None:
        batch: object = None
        for start in range(0, options.examples, options.batch):
            first = start % (len(source) - options.batch)
            batch = source[first : first + options.batch]
        assert batch

    ways: dict[str, Callable[[], None]] = {
        "`os.pread` of the same ranges, nothing checked": read_bare,
        "`source[i]`": read_single,
        f"`source.__getitems__`, {options.batch} random numbers": read_batches,
        f"`source[i : i + {options.batch}]`": read_in_order,
    }
    seconds = dict.fromkeys(ways, float("inf"))
    for _ in range(options.rounds):
        for name, read in ways.items():
            start = time.process_time()
            read()
            seconds[name] = min(seconds[name], time.process_time() - start)
    print(f"{sum(size for _, size, _ in ranges) / len(ranges):,.0f} bytes a record\n")
    print("| | examples a second of one core | as a share of `pread` |")
    print("|---|---:|---:|")
    bare = next(iter(seconds.values()))
    for name, best in seconds.items():
        print(f"| {name} | {options.examples / best:,.0f} | {bare / best:.2f} |")


if __name__ == "__main__":
    main()
