"""Convert the same inputs with shardmill, with other libraries, and with a hand-written loop.

The inputs are JPEGs of 25 KB in a folder for each class, and a CSV file of ten columns.

Each library runs in a process of its own with start-up included, in turns. Its result is read back and counted.
"""

import argparse
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import environments
import tables
from measure import BENCHMARKS, ENVIRONMENT, SHARDMILL, Measured, make_images, make_table, measure_tree
from options import add_folder, add_rounds, add_write

LOOP, OURS = "a loop: `TFRecordWriter`", "shardmill"
_TINY = 10  # examples with which start-up is measured
_SLOW = 20.0  # seconds of a first round after which there is no second one


@dataclass(frozen=True)
class Peer:
    """A library, or a program.

    Attributes:
      does: what it does and does not do, for the page.
      name: of peer_writers.py; None for programs with a command of their own.
      format: of its output, as peer_writers.py counts it.
      environment: that has the library; None for the one that runs this script.
    """

    does: str
    name: str | None
    format: str
    environment: str | None = None
    kinds: tuple[str, ...] = ("images", "rows")


PEERS = {
    LOOP: Peer("one process; no shuffling, checks or statistics; types by hand", None, "tfrecords"),
    OURS: Peer("all cores; shuffles; checks inputs; checksums of records and files; statistics", None, "tfrecords"),
    "TFDS": Peer("one process; shuffles; checksums of records; no statistics", "tfds", "tfrecords"),
    "webdataset": Peer(
        "one process; the script shuffles; no checksums or statistics",
        "webdataset",
        "tars",
        environments.READERS,
        ("images",),
    ),
    "mosaicml-streaming": Peer(
        "a process for each core; the script shuffles images, but not rows; no checksums by default, no statistics",
        "mds",
        "mds",
        environments.MDS,
    ),
    "litdata": Peer(
        "a process for each core; the script shuffles images, but not rows; no checksums or statistics",
        "litdata",
        "litdata",
        environments.READERS,
    ),
    "Hugging Face `datasets`": Peer(
        "a process for each core where it can; no shuffling, checksums or statistics",
        "datasets",
        "datasets",
        environments.READERS,
    ),
    "Ray Data": Peer(
        "a cluster on all cores; no shuffling or statistics; checksums of records",
        "ray",
        "ray",
        environments.READERS,
    ),
    "polars": Peer(
        "all cores; shuffles; writes Parquet, another format, as a limit to look at",
        "polars",
        "parquet",
        None,
        ("rows",),
    ),
}


def make_input(folder: Path, kind: str, examples: int) -> Path:
    """Return a folder of images or a CSV file, made unless it is there."""
    return make_images(folder, examples, kilobytes=25) if kind == "images" else make_table(folder, "csv", examples)


def command(title: str, kind: str, source: Path, output: Path) -> list[str]:
    """Return the command that converts `source`."""
    peer, route = PEERS[title], {"images": "images", "rows": "csv"}[kind]
    if title == OURS:
        return [SHARDMILL, route, "--input", str(source), "--output", str(output), "--name", "bench"]
    if title == LOOP:
        script = {"images": "loop_images.py", "rows": "loop_table.py"}[kind]
        target = output / "loop.tfrecord" if kind == "images" else output
        return [sys.executable, str(BENCHMARKS / script), str(source), str(target)]
    return [*peer_script(peer), "write", str(peer.name), kind, str(source), str(output)]


def peer_script(peer: Peer) -> list[str]:
    """Return the interpreter of a library and its script."""
    python = environments.python_of(peer.environment) if peer.environment else sys.executable
    return [str(python), str(BENCHMARKS / "peer_writers.py")]


def check(peer: Peer, output: Path, expected: int) -> None:
    """Read the result back. End this process if it has another number of examples."""
    words = [*peer_script(peer), "count", peer.format, str(output)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    found = re.search(r"^examples: (\d+)$", done.stdout, re.MULTILINE)
    if found is None or int(found[1]) != expected:
        sys.exit(f"{' '.join(words)}: expected {expected} examples:\n{done.stdout}{done.stderr}")


def run(title: str, kind: str, source: Path, examples: int, folder: Path) -> tuple[Measured, int]:
    """Convert once to an empty folder, and check the result; return its size in bytes, too."""
    output = folder / "peers" / "output"
    shutil.rmtree(output.parent, ignore_errors=True)
    output.mkdir(parents=True)
    measured = measure_tree(command(title, kind, source, output))
    check(PEERS[title], output, examples)
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    shutil.rmtree(output.parent)
    print(f"{kind}, {examples:,} examples: {title}: {measured.seconds:.1f} s", file=sys.stderr)
    return measured, size


def results(runs: Mapping[str, Sequence[Measured]], sizes: Mapping[str, int], starts: Mapping[str, float]) -> str:
    """Return the table: a row for each library."""
    seconds = {name: statistics.median(run.seconds for run in found) for name, found in runs.items()}
    rows = []
    for title, found in runs.items():
        cores = statistics.median(run.core_seconds for run in found)
        peak = statistics.median(run.peak_bytes for run in found) / 1e6
        numbers = f"{seconds[title]:.1f}", f"{seconds[LOOP] / seconds[title]:.2f}", f"{cores:.1f}", f"{peak:,.0f}"
        rows.append([title, *numbers, f"{sizes[title] / 1e6:,.0f}", f"{starts[title]:.1f}", str(len(found))])
    columns = "seconds", "times as fast as the loop", "core seconds", "peak memory, MB", "output, MB"
    return tables.table(["", *columns, f"seconds for {_TINY} examples", "rounds"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=20_000, help="(default: %(default)s)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="(default: %(default)s)")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="(default: all)")
    add_rounds(parser)
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()
    examples = {"images": args.images, "rows": args.rows}
    titles = {"images": "JPEGs of 25 KB", "rows": "rows of ten columns, from CSV"}
    text, slower = f"Medians. A library whose first round takes more than {_SLOW:.0f} seconds has one round.", []
    for kind, count in examples.items():
        source, tiny = (make_input(args.folder, kind, number) for number in (count, _TINY))
        chosen = [title for title in PEERS if kind in PEERS[title].kinds and title in {LOOP, OURS, *args.peers}]
        starts = {title: run(title, kind, tiny, _TINY, args.folder)[0].seconds for title in chosen}
        for path in [source] if source.is_file() else source.rglob("*.jpg"):
            path.read_bytes()  # into the page cache
        runs: dict[str, list[Measured]] = {title: [] for title in chosen}
        sizes = {}
        for number in range(args.rounds):
            for title in chosen:
                if number == 0 or runs[title][0].seconds <= _SLOW:
                    measured, sizes[title] = run(title, kind, source, count, args.folder)
                    runs[title].append(measured)
        text += f"\n\n{count:,} {titles[kind]}:\n\n{results(runs, sizes, starts)}"
        for unit, field in (("seconds", "seconds"), ("core seconds", "core_seconds"), ("peak memory", "peak_bytes")):
            medians = {name: statistics.median(getattr(one, field) for one in found) for name, found in runs.items()}
            slower += [f"{count:,} {titles[kind]}: {loss}" for loss in tables.losses(medians, OURS, unit)]
        slower += [f"{_TINY} {titles[kind]}: {loss}" for loss in tables.losses(starts, OURS)]
    text += "\n\n" + "\n".join(tables.wrap_item(f"{title}: {peer.does}.") for title, peer in PEERS.items())
    tables.publish(text, args.write, losses=slower)


if __name__ == "__main__":
    main()
