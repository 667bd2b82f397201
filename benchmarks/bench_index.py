"""Measure the cost of an index of records while shards are written, and the time to open a large one.

* `cost`: `shardmill images` and `shardmill csv` with and without --index, in turns.
* `open`: a made-up index of many records. Processes of their own open it as shardmill does, or read the text files, as
  NVIDIA DALI does, of a hundredth of the shards.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from against import in_turns, table
from measure import SHARDMILL, machine, make_images, make_table
from options import add_folder, add_rounds

_MEMORY = """
def memory(field):
    for line in open("/proc/self/smaps_rollup"):
        if line.startswith(field):
            return int(line.split()[1]) * 1024
"""

# Prints the seconds to open, the bytes a record that it took, and both for looking up all shards
_OPEN = f"""
import json, sys, time
from shardmill.data.shard_index import SplitIndex, parse_index_json
{_MEMORY}
before, start = memory("Rss"), time.perf_counter()
with open(sys.argv[1] + "/index/index.json", "rb") as file:
    shards = parse_index_json(file.read(), "index.json")["train"]
index = SplitIndex(sys.argv[1] + "/index/train.npy", shards)
opened, after = time.perf_counter() - start, memory("Rss")
start = time.perf_counter()
for number in range(len(shards)):
    index.shard(number)
first, n = time.perf_counter() - start, len(index)
print(json.dumps([opened, (after - before) / n, first, (memory("Rss") - before) / n]))
"""
# Prints the seconds to read the text files of some shards, and the bytes a record
_READ_TEXT = f"""
import json, sys, time
from pathlib import Path
import numpy as np
{_MEMORY}
paths = sorted(Path(sys.argv[1]).glob("index/*.idx"))
before, start = memory("Rss"), time.perf_counter()
found = [np.fromstring(path.read_text(), np.int64, sep=" ").reshape(-1, 2) for path in paths]
seconds, n = time.perf_counter() - start, sum(map(len, found))
print(json.dumps([seconds, (memory("Rss") - before) / n, len(paths)]))
"""


def measure_cost(args: argparse.Namespace) -> None:
    """Print what --index costs of two jobs: one with large records, one with small ones."""
    images, rows = make_images(args.folder, args.images, kilobytes=25), make_table(args.folder, "csv", args.rows)
    output = args.folder / "output"
    for command, source, what in (
        ("images", images, f"{args.images:,} JPEGs of 25 KB"),
        ("csv", rows, f"{args.rows:,} rows of ten columns"),
    ):
        job = [SHARDMILL, command, "--input", str(source), "--output", str(output), "--name", "bench"]
        runs = in_turns({"without an index": job, "`--index`": [*job, "--index"]}, output, args.rounds)
        print(f"{what}; median of {args.rounds}; {machine()}\n\n{table(runs, 'ratio')}\n")


def make_index(folder: Path, records: int, shards: int) -> Path:
    """Write the index of made-up shards of images of about 25 KB, but the text of a hundredth of the shards only."""
    import numpy as np

    from shardmill.data.shard_index import IndexedShard, ShardIndex, bounds_bytes, index_json

    each = records // shards
    (folder / "index").mkdir(parents=True, exist_ok=True)
    listed: list[IndexedShard] = []

    def make() -> Iterator[ShardIndex]:
        for number in range(shards):
            lengths = np.random.default_rng(number).integers(10_000, 40_000, each)
            index = ShardIndex(np.concatenate([[0], np.cumsum(lengths)]))
            name = f"bench-train.tfrecord-{number:05d}-of-{shards:05d}"
            listed.append(IndexedShard(name, each, index.shard_size, f"{number:08x}", f"{index.crc32c:08x}"))
            if number % 100 == 0:
                (folder / f"index/{name}.idx").write_bytes(index.to_text())
            yield index

    with open(folder / "index/train.npy", "wb") as file:
        for chunk in bounds_bytes(make(), shards * (each + 1)):
            file.write(chunk)
    (folder / "index/index.json").write_bytes(index_json({"train": listed}))
    return folder


def measure_opening(args: argparse.Namespace) -> None:
    """Print how long it takes to open a made-up index, and the memory that it takes."""
    folder = args.folder / f"index-{args.records}-{args.shards}"
    if not (folder / "index/index.json").exists():
        make_index(folder, args.records, args.shards)
    runs = {}
    for code in (_OPEN, _READ_TEXT):
        done = [
            subprocess.run([sys.executable, "-c", code, str(folder)], check=True, stdout=subprocess.PIPE)
            for _ in range(args.rounds)
        ]
        runs[code] = [statistics.median(values) for values in zip(*(json.loads(one.stdout) for one in done))]
    opened, memory, first, touched = runs[_OPEN]
    seconds, of_text, files = runs[_READ_TEXT]
    print(f"{args.records:,} records in {args.shards:,} shards; median of {args.rounds}; {machine()}\n")
    print("| | seconds | bytes of memory a record |\n|---|---:|---:|")
    print(f"| open the index | {opened:.3f} | {memory:.2f} |")
    print(f"| check the numbers of all shards, each at its first use | {first:.2f} | {touched:.2f} |")
    print(f"| parse the text of all shards, as DALI does (from {files:.0f} of them) | "
          f"{seconds * args.shards / files:.1f} | {of_text:.1f} |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["cost", "open"], help="what to measure")
    parser.add_argument("--images", type=int, default=40_000, help="of about 25 KB, for cost (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="for cost (default: %(default)s)")
    parser.add_argument("--records", type=int, default=100_000_000, help="for open (default: %(default)s)")
    parser.add_argument("--shards", type=int, default=10_000, help="for open (default: %(default)s)")
    add_rounds(parser)
    add_folder(parser)
    args = parser.parse_args()
    if args.what == "cost":
        measure_cost(args)
    else:
        measure_opening(args)


if __name__ == "__main__":
    main()
