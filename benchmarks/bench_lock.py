"""Measure the core time of the launcher and of its worker processes per record, and at how many cores a route stops.

lock_sampler.c is loaded into the job and its worker processes, for the time with Python's lock (GIL). A job over almost
no data is subtracted from each job, so start-up does not count.
`--self_test` measures workloads of known shares of time with the lock instead.
"""

import argparse
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tables
from bench_tars import make_tars
from measure import BENCHMARKS, ENVIRONMENT, SHARDMILL, make_images, make_table
from options import add_folder, add_rounds, add_write

_SAMPLER, _COUNTS = BENCHMARKS / "lock_sampler.c", struct.Struct("=3Q")
_SHARES, _TOLERANCE = (0.1, 0.5, 0.9), 0.1  # of --self_test: shares of time with the lock; how far a result may be off
_MODEL = """\
Worker processes stage tasks and write shards. What is left to the launcher is counted as if it were serial: most of it
is, and the rest is done under Python's lock. So a route stops scaling at the number of cores that is the core time of
all processes divided by the launcher's. A job over almost no data is subtracted from each job. Each job has two worker
processes and 16 shards."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route to measure.

    Attributes:
      make: makes the input of so many records in a folder.
      flags: of the command, after --input and --output.
      records: how many records the measured job has.
      few: how many records the job has that is subtracted.
      goal: core microseconds of the launcher a record, on a quiet machine; 0 for none.
    """

    command: str
    make: Callable[[Path, int], Path]
    records: int
    few: int
    goal: float = 0
    flags: Callable[[Path], Sequence[str]] = lambda _: ()


@dataclass(frozen=True, slots=True)
class Spent:
    """Core seconds of a job: of all processes, of the launcher, and of both with Python's lock."""

    cores: float
    launcher: float
    launcher_lock: float
    worker_locks: float


def _images(folder: Path, records: int) -> Path:
    return make_images(folder, records, 25)


def _tars(folder: Path, records: int) -> Path:
    return make_tars(folder, records, 25)


def _table(kind: str) -> Callable[[Path, int], Path]:
    return lambda folder, records: make_table(folder, kind, records)


def _tokenizer(folder: Path) -> Sequence[str]:
    from bench_tokens import make_texts, make_tokenizer

    return "--tokenizer", str(make_tokenizer(make_texts(folder, 30_000))), "--pack_to", "2048"


def _texts(folder: Path, records: int) -> Path:
    from bench_tokens import make_texts

    return make_texts(folder, records)


def _map(folder: Path) -> Sequence[str]:
    module = folder / "unchanged.py"
    module.write_text("def unchanged(row):\n    return row\n")
    return "--map", f"{module}:unchanged"


ROUTES = {
    "images": Route("images", _images, 40_000, 100, 1.0),
    "images --resize": Route("images", _images, 4_000, 100, flags=lambda _: ("--resize", "224x224")),
    "csv": Route("csv", _table("csv"), 1_000_000, 1_000, 0.06),
    "jsonl": Route("jsonl", _table("jsonl"), 500_000, 1_000, 0.1),
    "parquet": Route("parquet", _table("parquet"), 1_000_000, 1_000, 0.06),
    "text": Route("text", _table("txt"), 3_000_000, 1_000, 0.06),
    "webdataset": Route("webdataset", _tars, 40_000, 100, 2.0),
    "text --tokenizer": Route("text", _texts, 30_000, 100, flags=_tokenizer),
    "csv --map": Route("csv", _table("csv"), 200_000, 1_000, flags=_map),
}


def build_sampler(folder: Path) -> Path:
    """Compile lock_sampler.c into a folder, and return the path of the library."""
    library = folder / "lock_sampler.so"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", str(library), str(_SAMPLER), "-ldl", "-lpthread"], check=True)
    return library


def run_sampled(command: Sequence[str], library: Path) -> tuple[Spent, str]:
    """Run a command, and return the core time with each lock and the standard output; exit if the command fails.

    A process's share of samples with the lock is multiplied by its core time.
    """
    with tempfile.TemporaryDirectory() as samples, tempfile.TemporaryFile() as output:
        environment = {**ENVIRONMENT, "LD_PRELOAD": str(library), "LOCK_SAMPLES": samples}
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
        if process.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{text}")
        locks = {int(path.name): _seconds(path.read_bytes()) for path in Path(samples).iterdir()}
    launcher, lock = locks.pop(process.pid)
    return Spent(usage.ru_utime + usage.ru_stime, launcher, lock, sum(held for _, held in locks.values())), text


def _seconds(content: bytes) -> tuple[float, float]:
    """Return the core seconds of a process, and those with the lock."""
    held, released, nanoseconds = _COUNTS.unpack(content)
    return nanoseconds / 1e9, held / max(held + released, 1) * nanoseconds / 1e9


def check_sampler(library: Path) -> None:
    """Measure workloads of known shares of time with the lock; exit with a message if a result is off.

    Half of the time with the lock, or a tenth, is spent by a loop in Python, the rest by hashlib, which releases it.
    """
    workload = [sys.executable, str(BENCHMARKS / "lock_workload.py")]
    start, _ = run_sampled([*workload, "--seconds", "0"], library)
    for share in _SHARES:
        spent, text = run_sampled([*workload, "--held_share", str(share)], library)
        expected = float(text)
        found = (spent.launcher_lock - start.launcher_lock) / (spent.cores - start.cores)
        print(f"{expected:.3f} of the time with the lock: measured {found:.3f}", file=sys.stderr)
        if abs(found / expected - 1) > _TOLERANCE:
            sys.exit(f"the sampler is off by more than {_TOLERANCE:.0%}")


def measure_route(
    name: str, folder: Path, library: Path, rounds: int, scale: float, flags: Sequence[str]
) -> tuple[Spent, int]:
    """Return the core time of a route without its start-up, medians of some rounds, and its number of records."""
    route, output = ROUTES[name], folder / "output"
    many = max(int(route.records * scale), 2 * route.few)
    found = []
    for number in range(rounds):
        runs = []
        for records in (many, route.few):
            source = route.make(folder, records)
            shutil.rmtree(output, ignore_errors=True)
            output.mkdir(parents=True)
            words = ["--input", str(source), "--output", str(output), "--name", "bench", *route.flags(folder)]
            words += ["--workers", "2", "--num_shards", "16", *flags]
            runs.append(run_sampled([SHARDMILL, route.command, *words], library)[0])
        found.append([getattr(runs[0], what) - getattr(runs[1], what) for what in Spent.__slots__])
        print(f"{name}, round {number + 1}: {found[-1][0]:.1f} s of cores", file=sys.stderr)
    shutil.rmtree(output)
    return Spent(*(max(statistics.median(values), 0.0) for values in zip(*found))), many - route.few


def row(name: str, spent: Spent, records: int) -> list[str]:
    """Return a row of the table: microseconds per record, and the number of cores that they allow."""
    per_record = [1e6 * getattr(spent, what) / records for what in Spent.__slots__]
    cores = f"{spent.cores / spent.launcher:.0f}" if spent.launcher else "unknown: try a larger --scale"
    goal = ROUTES[name].goal
    return [f"`{name}`", f"{records:,}", *(f"{value:.3f}" for value in per_record), cores, f"{goal or ''}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--routes", nargs="+", choices=list(ROUTES), default=list(ROUTES), help="(default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of records (default: %(default)s)")
    parser.add_argument("--flags", default="", help="for the command, in one word, such as '--threads 4'")
    parser.add_argument("--self_test", action="store_true", help="only check the sampler on known workloads")
    add_rounds(parser, 2)
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = build_sampler(Path(folder))
        check_sampler(library)
        if args.self_test:
            return
        rows = [
            row(name, *measure_route(name, args.folder, library, args.rounds, args.scale, args.flags.split()))
            for name in args.routes
        ]
    columns = "", "records", "core µs a record", "of the launcher", "under its lock", "under workers' locks"
    text = f"{_MODEL} Rounds: {args.rounds}; medians.\n\n"
    tables.publish(
        text + tables.table([*columns, "cores at which it stops scaling", "goal for the launcher"], rows), args.write
    )


if __name__ == "__main__":
    main()
