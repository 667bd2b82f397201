"""A tebibyte of rows on a hundred workers, on paper: what the planning code itself says of it.

`PYTHONPATH=. python -m tests.support.tebibyte` prints the table that docs/benchmarks.md has.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from apache_beam.coders import registry

from shardmill.metadata.file_names import ShardName
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.pipelines.reports.summary import JobWork, human_size
from shardmill.transforms.records.merging import MAX_REQUESTS
from shardmill.transforms.records.run_file import ENTRY
from shardmill.transforms.shards import balance
from shardmill.transforms.shards.balance import shard_count
from shardmill.transforms.shards.cuts import MOST_KEYS
from shardmill.transforms.shards.divisions import BIN_BITS, Histogram, divide, locate
from shardmill.transforms.shards.sources import ShardInfo

TOTAL, RECORDS, WORKERS, CORES = 1 << 40, 10**10, 100, 4
LOOKS = 2  # at each block: for the types of columns, and to encode it
KEY_LOOKS = 3  # at the keys of a run: to count them, for those in bins that are cut, to slice it
# An older run of benchmarks/bench_memory.py: 1,996 MB of CSV in 77.8 s on two cores. A request of 30 ms is what
# benchmarks/bench_rebuild.py waits.
CSV_A_CORE, LATENCY, NETWORK = 1996e6 / 77.8 / 2, 0.030, 1.25e9  # bytes a second; seconds; bytes a second of a worker


def encoded(value: Any) -> int:
    """The bytes of a side input as it travels."""
    return len(registry.get_coder(Any).encode(value))


def rows_of(growth: Fraction) -> Iterator[tuple[str, str]]:
    """What there is, and how much, of records that are so many times as large as their rows."""
    config = KINDS["csv"].make_config({"input": "gs://b/in", "output": "gs://b/out", "name": "n"})
    assert isinstance(config, RecordsConfig)
    size = int(TOTAL * growth)
    run_bytes = config.run_size(TOTAL)
    runs = -(-TOTAL // run_bytes)
    blocks = -(-TOTAL // config.block_size)
    shards = shard_count(config.shard_counts, "train", RECORDS, size)
    work = JobWork(runs, shards, 1 + blocks * LOOKS, runs, is_remote=(True, True))
    yield "runs of input", f"{runs:,} of {human_size(run_bytes)}"
    yield "shards", f"{shards:,}"
    yield "slices", f"{work.slices:,} of {human_size(size // work.slices)}"
    yield "requests", f"{work.requests:,}"
    keys = RECORDS * ENTRY.itemsize
    read = TOTAL * LOOKS + keys * KEY_LOOKS + size + keys
    written = size + 2 * keys + size
    yield "bytes read", human_size(read)
    yield "bytes written", human_size(written)
    yield "temporary bytes", human_size(size + 2 * keys)
    yield "keys of a run, held while it is written", human_size(keys // runs)
    located, sides = planned(size, shards)
    again = located * RECORDS >> BIN_BITS
    yield "keys that are looked at again, grouped by their bins", human_size(again * (ENTRY.itemsize - 4))
    for name, held in sides.items():
        yield f"side input: {name}", human_size(held)
    cpu = TOTAL / CSV_A_CORE / (WORKERS * CORES)
    waiting = work.requests / WORKERS / MAX_REQUESTS * LATENCY
    moving = (read + written) / WORKERS / NETWORK
    yield "seconds of cores", f"{cpu:.0f}"
    yield f"seconds of waiting, {MAX_REQUESTS} requests at once", f"{waiting:.0f}"
    yield "seconds of the network", f"{moving:.0f}"
    yield "seconds, if they run one after another", f"{cpu + waiting + moving:.0f}"


def planned(size: int, shards: int) -> tuple[int, dict[str, int]]:
    """How many bins are cut, and what each worker is given whole, in bytes."""
    random = np.random.default_rng(0)
    bins = random.multinomial(RECORDS, np.full(1 << BIN_BITS, 2.0**-BIN_BITS))
    counted = {"train": Histogram(np.arange(1 << BIN_BITS, dtype=np.uint32), bins, size)}
    located = locate(counted, lambda *group: balance.example_cuts(group[1], shards), MOST_KEYS)
    assert not located.large_bins, "a bin of keys that differ is never so full"
    cuts = random.integers(0, 1 << 63, (shards - 1, 2)).tolist()
    path = "gs://bucket/datasets/name/1.0.0/.temporary-0123456789abcdef/name-train.tfrecord"
    infos = (
        ShardInfo(ShardName("name", "train", n, shards), f"{path}-{n:05d}-0123456789abcdef", 9**6, 9**6, 0, 1 << 27, n)
        for n in range(shards)
    )
    sides = {
        "where bins are cut": encoded(located),
        "cuts": encoded(divide(counted, (("train", (key, tie)) for key, tie in cuts))),
        "shards, to publish": sum(map(encoded, infos)),
    }
    return sum(map(len, located.small_bins)), sides


def table() -> str:
    """In Markdown."""
    growths = {"records as large as their rows": Fraction(1), "three times, as of CSV": Fraction(3)}
    columns = [dict(rows_of(growth)) for growth in growths.values()]
    lines = [f"| | {' | '.join(growths)} |", f"|---|{'---:|' * len(growths)}"]
    return "\n".join(
        [*lines, *(f"| {name} | {' | '.join(column[name] for column in columns)} |" for name in columns[0])]
    )


if __name__ == "__main__":
    print(table())
