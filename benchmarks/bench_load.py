"""How fast reading is: `load` against the pipelines people write by hand and TFDS, `examples` against the loop over
protobufs.

Images, where decoding is the work, and rows of a table, where parsing is; all on the same shards in one run, in turns.
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import tables
from measure import BENCHMARKS, SHARDMILL, make_images, make_table
from options import add_folder, add_rounds, add_write

SHARDS = 16
# Each with what it is compared with.
BATCHES = {
    "tutorial": "the tutorials' pipeline, one record at a time",
    "tuned": "`tf.data` tuned by hand",
    "tfds": "TFDS",
    "fast": "`shardmill.load`, `fast_jpeg=True`",
    "load": "`shardmill.load`",
}
VALUES = {
    "loop": "a loop over `tf.train.Example`",
    "protobuf_loop": "the same over TensorFlow's deprecated iterator",
    "examples": "`shardmill.examples`, every checksum verified",
}


@dataclass(frozen=True, slots=True)
class Read:
    """One run: examples a second, and microseconds of all cores an example."""

    rate: float
    core_microseconds: float


def make_dataset(source: Path, route: str, folder: Path) -> Path:
    """The data set that shardmill makes of `source`, unless it is there already."""
    directory = folder / "read" / f"{route}_{source.stem.replace('-', '_')}" / "1.0.0"
    if not (directory / "_SUCCESS").exists():
        name = ("--name", directory.parent.name, "--num_shards", str(SHARDS), "--overwrite")
        command = (SHARDMILL, route, "--input", str(source), "--output", str(folder / "read"), *name)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return directory


def read(reader: str, directory: Path, images: bool, limit: int | None) -> Read:
    """Run read_once.py."""
    command = [
        sys.executable,
        str(BENCHMARKS / "read_once.py"),
        reader,
        str(directory),
        *(["--images"] if images else []),
    ]
    if limit is not None:
        command += ["--limit", str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    result = json.loads(done.stdout.splitlines()[-1])
    return Read(result["examples"] / result["seconds"], 1e6 * result["core_seconds"] / result["examples"])


def rows(names: dict[str, str], runs: dict[str, list[Read]]) -> list[list[str]]:
    """A row of the table for each reader: medians, and rates against the first of `names`."""
    rates = {reader: statistics.median(run.rate for run in runs[reader]) for reader in names}
    first = rates[next(iter(names))]
    cores = {reader: statistics.median(run.core_microseconds for run in runs[reader]) for reader in names}
    return [
        [name, f"{rates[reader]:,.0f}", f"{rates[reader] / first:.2f}", f"{cores[reader]:,.0f}"]
        for reader, name in names.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10_000, help="in the data set (default: %(default)s)")
    parser.add_argument("--kilobytes", type=float, default=25, help="of an image, on average (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=100_000, help="of a table, 250 bytes each (default: %(default)s)")
    parser.add_argument("--kind", choices=("images", "rows"), action="append", help="of data set (default: both)")
    add_rounds(parser, 1)
    parser.add_argument(
        "--loop_examples", type=int, default=20_000, help="that the slow loops read at most (default: %(default)s)"
    )
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()

    sources = {}
    for kind in args.kind or ("images", "rows"):
        if kind == "images":
            sources[kind] = (
                make_dataset(make_images(args.folder, args.images, args.kilobytes), "images", args.folder),
                args.images,
            )
        else:
            sources[kind] = (make_dataset(make_table(args.folder, "csv", args.rows), "csv", args.folder), args.rows)
    size = 0
    for directory, _ in sources.values():
        for shard in directory.glob("*.tfrecord-*"):
            size += len(shard.read_bytes())  # into the page cache
    text, slower = f"{size / 1e9:.2f} GB of shards in the page cache, start-up left out:", list[str]()
    for kind, (directory, count) in sources.items():
        runs: dict[str, list[Read]] = {}
        for number in range(args.rounds):
            readers = [reader for reader in (*BATCHES, *VALUES) if kind == "images" or reader != "fast"]
            for reader in readers:
                limit = args.loop_examples if "loop" in reader and args.loop_examples < count else None
                runs.setdefault(reader, []).append(read(reader, directory, kind == "images", limit))
                print(f"round {number + 1}: {kind}, {reader}: {runs[reader][-1].rate:,.0f} a second", file=sys.stderr)
        for names, what in ((BATCHES, "batches"), (VALUES, "NumPy values")):
            names = {reader: name for reader, name in names.items() if reader in runs}
            first, ours = next(iter(names.values())), list(names.values())[-1]
            columns = f"{count:,} {kind}, as {what}", "examples a second", f"times {first}", "µs of all cores"
            text += f"\n\n{tables.table(columns, rows(names, runs))}"
            seconds = {name: 1 / statistics.median(run.rate for run in runs[reader]) for reader, name in names.items()}
            slower += [f"{kind.capitalize()}: {loss}" for loss in tables.losses(seconds, ours) if "fast" not in loss]
    tables.publish(text, args.write, losses=slower)


if __name__ == "__main__":
    main()
