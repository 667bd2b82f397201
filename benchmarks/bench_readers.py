"""Measure shardmill's readers and those of other libraries: JPEGs and rows of ten columns, in the page cache.

Environments of the other libraries are made once, and data, which are kept in `--folder`. Each reader runs in a process
of its own, in turns with the others, and the median of the rounds counts. It reads for some seconds, or to the end of
the data.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import environments
import tables
from measure import BENCHMARKS, ENVIRONMENT, SHARDMILL, make_images, make_table, processes_of, resident_bytes
from options import add_folder, add_rounds, add_write

SHARDS = 16
ACCESS = {"single": "one record at a time, at random", "shuffled": "shuffled", "in order": "in order"}
KINDS = {"images": "JPEGs of 25 KB with their labels", "rows": "Rows of ten columns"}
_OUTPUT_BYTES = 1 << 20
OWN = "1.0.0"  # the folder of the data set that shardmill wrote


@dataclass(frozen=True, eq=False)
class Reader:
    """A reader of peer_readers.py."""

    title: str
    name: str
    format: str  # the folder that it reads
    accesses: dict[str, tuple[int, ...]]  # with so many worker processes, 0 for none
    kinds: tuple[str, ...] = tuple(KINDS)


_LOADER = {"shuffled": (0, 2), "in order": (0,)}
_BOTH = {"single": (0,), **_LOADER}
READERS = (
    Reader("`os.pread` of the same bytes, nothing checked or decoded", "pread", OWN, {"single": (0,)}),
    Reader("`shardmill.source`", "shardmill.source", OWN, dict.fromkeys(ACCESS, (0,))),
    Reader("`shardmill.examples`", "shardmill.examples", OWN, {"in order": (0,)}),
    Reader("`shardmill.torch.Dataset`", "shardmill.torch.Dataset", OWN, _LOADER),
    Reader("`shardmill.load`", "shardmill.load", OWN, {"shuffled": (0,), "in order": (0,)}, ("rows",)),
    Reader("mosaicml-streaming", "mds", "mds", _BOTH),
    Reader("litdata", "litdata", "litdata", _BOTH),
    Reader("WebDataset", "webdataset", "webdataset", _LOADER),
    Reader("ArrayRecord, batches by Grain", "array_record", "array_record", _BOTH),
    Reader("Hugging Face `datasets`", "arrow", "arrow", _BOTH),
    Reader("`tf.data`, tuned by hand", "tf_data", OWN, {"shuffled": (0,), "in order": (0,)}),
)


@dataclass(frozen=True, slots=True)
class Read:
    """One run of a reader."""

    per_core: float  # examples a second of one core
    per_second: float  # examples a second by the clock
    first_seconds: float  # from the start of the process to the first batch
    peak_bytes: int  # of the process and its workers


_TITLES = (
    "",
    "worker processes",
    "examples a second of one core",
    "times the fastest other library",
    "examples a second",
    "seconds to the first batch",
    "peak memory, MB",
)
_COLUMNS = ("per_core", "per_second", "first_seconds", "peak_bytes")


def python_of(format_name: str) -> Path:
    """Return the interpreter that has the library of a format."""
    return environments.python_of(environments.MDS if format_name == "mds" else environments.READERS)


def prepare(folder: Path, kind: str, count: int) -> Path:
    """Return the folder that has the data in all formats, which are made unless they are there."""
    found = folder / "readers" / f"{kind}_{count}"
    if not (found / OWN / "_SUCCESS").exists():
        if kind == "images":
            command, made = "images", make_images(folder, count, kilobytes=25, links=True)
        else:
            command, made = "csv", make_table(folder, "csv", count)
        options = ("--name", found.name, "--num_shards", str(SHARDS), "--index", "--overwrite")
        _run([SHARDMILL, command, "--input", str(made), "--output", str(found.parent), *options])
    for name in dict.fromkeys(reader.format for reader in READERS if reader.format != OWN):
        if not (found / name).exists():
            start = time.perf_counter()
            script = str(BENCHMARKS / "peer_formats.py")
            _run([str(python_of(name)), script, name, kind, str(found / OWN), str(found / name)])
            print(f"{kind} as {name}: {time.perf_counter() - start:.0f} seconds", file=sys.stderr)
    return found


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")


def warm(folder: Path) -> None:
    """Read all files of a folder, which brings them into the page cache."""
    buffer = bytearray(1 << 20)
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass


def read(reader: Reader, folder: Path, kind: str, access: str, workers: int, seconds: float) -> Read:
    """Run peer_readers.py, and watch the memory of it and its workers."""
    script = str(BENCHMARKS / "peer_readers.py")
    command = [str(python_of(reader.format)), script, reader.name, str(folder), kind, access]
    command += ["--workers", str(workers), "--seconds", str(seconds)]
    found, peak = None, 0
    with tempfile.TemporaryFile() as said:
        start = time.monotonic()
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=said, stderr=said, start_new_session=True)
        while found is None:
            has_ended = process.poll() is not None
            found = re.search(rb"^\{.*\}$", os.pread(said.fileno(), _OUTPUT_BYTES, 0), re.MULTILINE)
            if found is None and has_ended:
                sys.exit(f"{' '.join(command)} failed:\n{os.pread(said.fileno(), _OUTPUT_BYTES, 0).decode()}")
            peak = max(peak, resident_bytes(processes_of(process.pid)))
            time.sleep(0.05)
    with suppress(subprocess.TimeoutExpired):
        process.wait(3)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # workers that did not end
    process.wait()
    result = json.loads(found[0])
    return Read(
        result["examples"] / max(result["core_seconds"], 0.01),
        result["examples"] / result["seconds"],
        result["first"] - start,
        peak,
    )


def median(runs: list[Read]) -> Read:
    """Return the median of each number."""
    return Read(*(statistics.median(getattr(run, name) for run in runs) for name in _COLUMNS))


def rows(results: dict[tuple[Reader, int], Read]) -> Iterator[list[str]]:
    """Yield the rows of a table. The best number of a column is bold among readers with as many workers."""
    for workers in sorted({workers for _, workers in results}):
        group = {reader: result for (reader, count), result in results.items() if count == workers}
        compared = {reader: result for reader, result in group.items() if reader.name != "pread"}
        others = [result.per_core for reader, result in compared.items() if not reader.name.startswith("shardmill")]
        for reader, result in sorted(group.items(), key=lambda item: -item[1].per_core):
            cells = []
            for name in _COLUMNS:
                value = getattr(result, name)
                values = [getattr(one, name) for one in compared.values()]
                text = {"first_seconds": f"{value:.2f}", "peak_bytes": f"{value / 1e6:,.0f}"}.get(name, f"{value:,.0f}")
                best = max(values, default=0) if name.startswith("per") else min(values, default=0)
                cells.append(f"**{text}**" if reader in compared and value == best else text)
            cells.insert(1, f"{result.per_core / max(others):.2f}" if others else "")
            yield [reader.title, str(workers), *cells]


def slower_than(results: dict[tuple[Reader, int], Read], what: str) -> Iterator[str]:
    """Yield a sentence for each library that needs less core time than the best of shardmill's readers."""
    for workers in sorted({workers for _, workers in results}):
        ours, others = dict[str, float](), dict[str, float]()
        for (reader, count), found in results.items():
            if count == workers and reader.name != "pread":
                (ours if reader.name.startswith("shardmill") else others)[reader.title] = 1 / found.per_core
        if ours:
            best = min(ours, key=ours.__getitem__)
            case = f"{what}, {workers} worker processes: "
            yield from (case + loss for loss in tables.losses({best: ours[best], **others}, best, "core time"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=40_000, help="images (default: %(default)s)")
    parser.add_argument("--rows", type=int, help="of ten columns (default: five for each image)")
    parser.add_argument("--kind", choices=KINDS, action="append", help="of data (default: both)")
    parser.add_argument("--reader", action="append", help="of peer_readers.py (default: all)")
    parser.add_argument("--seconds", type=float, default=1, help="to read in each run, at most (default: %(default)s)")
    add_rounds(parser, 1)
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()

    count = {"images": args.examples, "rows": args.rows or 5 * args.examples}
    folders = {kind: prepare(args.folder, kind, count[kind]) for kind in args.kind or KINDS}
    runs: dict[tuple[str, str], dict[tuple[Reader, int], list[Read]]] = {}
    for number in range(args.rounds):
        for kind, folder in folders.items():
            for reader in READERS:
                if kind not in reader.kinds or (args.reader and reader.name not in args.reader):
                    continue
                warm(folder / reader.format)
                for access in reader.accesses:
                    for workers in reader.accesses[access]:
                        result = read(reader, folder / reader.format, kind, access, workers, args.seconds)
                        runs.setdefault((kind, access), {}).setdefault((reader, workers), []).append(result)
                        what = f"{kind}, {reader.name}, {access}, {workers} workers"
                        print(f"round {number + 1}: {what}: {result}", file=sys.stderr)

    text, slower = f"Medians of {args.rounds} runs.", list[str]()
    for (kind, access), found in sorted(runs.items(), key=lambda item: list(ACCESS).index(item[0][1])):
        medians = {key: median(list_) for key, list_ in found.items()}
        what = f"{KINDS[kind]}, {ACCESS[access]}"
        text += f"\n\n{what}; {count[kind]:,} in the page cache:\n\n{tables.table(_TITLES, rows(medians))}"
        slower += slower_than(medians, what)
    tables.publish(text, args.write, losses=slower)


if __name__ == "__main__":
    main()
