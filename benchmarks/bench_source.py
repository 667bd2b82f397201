"""Measure random access: `shardmill.source` against bare `pread` of the same records, in the page cache.

`python bench_source.py DATASET` reads a data set with an index, for example one of `make_images.py`. Seconds are those
of one core's work, which vary less than elapsed ones if others use the machine. All ways read in turns, and the
fastest round counts.

`python bench_source.py --opening` opens a data set of 10,000 shards and 100 million examples. It has a manifest and an
index, but no shards.

`python bench_source.py DATASET --store` reads it in order, from the disk and from a store that answers after 30 ms, and
takes elapsed seconds. The store and its reader share the cores of this machine. `read_batches` is what
`shardmill.torch.Dataset` calls.
"""

import argparse
import os
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bench_rebuild import store

import shardmill
from shardmill.data import shard_index
from shardmill.data.features import Feature
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry

_SIZE = (224, 224)  # to which images are scaled
_DECODED = 20  # times as many examples are read as are decoded


def measure_opening(shards: int = 10_000, each: int = 10_000) -> None:
    """Print how long a large data set takes to open, and how much memory it takes."""
    name = "d-train.tfrecord-{:05d}-of-{:05d}"
    entries = tuple(ShardEntry(name.format(n, shards), each, each * 25_016, "00000000") for n in range(shards))
    features = (Feature("image", "bytes", "image"), Feature("label", "int64"))
    manifest = Manifest("d", "1.0.0", "", features, (SplitEntry("train", entries),))
    listed = [shard_index.IndexedShard(one.file, each, one.size_bytes, one.crc32c, "00000000") for one in entries]
    count = shard_index.bounds_count(listed)
    with tempfile.TemporaryDirectory() as folder:
        (index := Path(folder, shard_index.INDEX_FOLDER)).mkdir()
        Path(folder, "manifest.json").write_text(manifest.to_json())
        Path(folder, "_SUCCESS").touch()
        (index / shard_index.INDEX_FILE).write_bytes(shard_index.index_json({"train": listed}))
        with open(index / f"train{shard_index.BOUNDS_SUFFIX}", "wb") as file:
            file.write(shard_index.bounds_header(count))
            file.truncate(128 + 8 * count)
        for _ in range(3):
            start = time.perf_counter()
            source = shardmill.source(folder)
            seconds = time.perf_counter() - start
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            print(f"{len(source):,} examples in {shards:,} shards: open in {seconds:.2f} s, peak {peak} MB")


def measure_store(options: argparse.Namespace) -> None:
    """Print how fast examples are read in order, from a disk and from a slow store."""
    bucket, _, path = os.path.realpath(options.dataset).lstrip("/").partition("/")
    with ExitStack() as stack:
        os.environ["AWS_ENDPOINT_URL"] = store(Path("/"), stack, options.milliseconds)
        os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
        kinds = {feature.kind for feature in shardmill.source(options.dataset).features}
        for size in (None, _SIZE) if "image" in kinds else (None,):
            sources = [shardmill.source(at, image_size=size) for at in (options.dataset, f"s3://{bucket}/{path}")]
            count = min(len(sources[0]), options.examples // (_DECODED if size else 1)) // options.batch * options.batch
            print(f"\n| {count:,} examples, {'as bytes' if size is None else f'images of {size}'} | disk | store |")
            print("|---|---:|---:|")
            for name, read in in_order(options.batch).items():
                rates = [0.0, 0.0]
                for _ in range(options.rounds):
                    for column, source in enumerate(sources):
                        start = time.perf_counter()
                        for _ in read(source, count):
                            pass
                        rates[column] = max(rates[column], count / (time.perf_counter() - start))
                print(f"| {name} | {rates[0]:,.0f} | {rates[1]:,.0f}, {rates[1] / rates[0]:.2f} of it |")


def in_order(batch: int) -> dict[str, Callable[[shardmill.Source, int], Iterable[Any]]]:
    """Return ways to read a number of examples, a multiple of `batch`."""

    def slices(source: shardmill.Source, count: int) -> Iterable[Any]:
        return (source[start : start + batch] for start in range(0, count, batch))

    def shuffled(source: shardmill.Source, count: int, **order: int) -> Iterable[Any]:
        numbers = shardmill.Order(len(source), 0, 0, **order)
        return source.read_batches(numbers[start : start + batch].tolist() for start in range(0, count, batch))

    return {
        f"`source[i : i + {batch}]`": slices,
        "`for example in source`": islice,
        "`read_batches`, `Order(block=4096, window=1)`": partial(shuffled, block=4096, window=1),
        "`read_batches`, `Order(block=256)`": partial(shuffled, block=256),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", nargs="?")
    parser.add_argument("--opening", action="store_true")
    parser.add_argument("--examples", type=int, default=20_000, help="read in a round")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--milliseconds", type=int, default=30, help="in which the store answers")
    options = parser.parse_args()
    if options.store:
        measure_store(options)
        return
    if options.opening or options.dataset is None:
        measure_opening()
        return
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

    def read_images(fast_jpeg: bool) -> None:
        images = shardmill.source(options.dataset, image_size=_SIZE, fast_jpeg=fast_jpeg)
        for number in numbers[: options.examples // _DECODED]:
            images[number]

    ways: dict[str, Callable[[], None]] = {
        "`os.pread` of the same ranges, nothing checked": read_bare,
        "`source[i]`": read_single,
        f"`source.__getitems__`, {options.batch} random numbers": read_batches,
        f"`source[i : i + {options.batch}]`": read_in_order,
    }
    counts = dict.fromkeys(ways, options.examples)
    if any(feature.kind == "image" for feature in source.features):
        for fast in (False, True):
            name = f"`source[i]`, `image_size={_SIZE}`{', `fast_jpeg=True`' * fast}"
            ways[name], counts[name] = partial(read_images, fast), options.examples // _DECODED
    seconds = dict.fromkeys(ways, float("inf"))
    for _ in range(options.rounds):
        for name, read in ways.items():
            start = time.process_time()
            read()
            seconds[name] = min(seconds[name], time.process_time() - start)
    print(f"{sum(size for _, size, _ in ranges) / len(ranges):,.0f} bytes a record\n")
    print("| | examples a second of one core | as a share of `pread` |")
    print("|---|---:|---:|")
    rates = {name: counts[name] / best for name, best in seconds.items()}
    for name, rate in rates.items():
        print(f"| {name} | {rate:,.0f} | {rate / next(iter(rates.values())):.4f} |")


if __name__ == "__main__":
    main()
