"""Time several commands in turns, some of them on a part of the rows, and show them beside the first."""

import argparse
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import row_seconds
from measure import BENCHMARKS, SHARDMILL, machine, make_table, measure
from options import add_folder, add_rounds

SHARDS = 10  # that every command makes


@dataclass(frozen=True, slots=True)
class Case:
    """A command to time.

    Attributes:
      command: what runs; an empty folder for its output stands ready each time.
      rounds: how often at most.
      rows: how many it reads, if it is timed on a part; it must take --row_seconds, see row_seconds.py.
    """

    command: tuple[str, ...]
    rounds: int
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds from start to end of one run, and those of all cores together; scaled to all rows."""

    seconds: float
    core_seconds: float


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that the benchmarks of tables have in common."""
    parser.add_argument("--rows", type=int, default=3_000_000, help="default: %(default)s")
    add_rounds(parser)
    parser.add_argument("--loop_rounds", type=int, default=1, help="of the loop, which is slow (default: %(default)s)")
    parser.add_argument("--loop_rows", type=int, help="to time the loop on, its cost a row being scaled (default: all)")
    add_folder(parser)


def loop_case(script: str, source: Path, output: Path, args: argparse.Namespace) -> Case:
    """The loop of `script`, on as many rows as the options say."""
    command = (sys.executable, str(BENCHMARKS / script), str(source), str(output))
    if args.loop_rows is None or args.loop_rows >= args.rows:
        return Case(command, args.loop_rounds)
    return Case((*command, "--rows", str(args.loop_rows)), args.loop_rounds, args.loop_rows)


def shardmill_command(route: str, source: Path, output: Path) -> tuple[str, ...]:
    """`shardmill` on `source`, to as many shards as the loops make."""
    return (
        SHARDMILL,
        route,
        "--input",
        str(source),
        "--output",
        str(output),
        "--name",
        "bench",
        "--num_shards",
        str(SHARDS),
    )


def copy_case(source: Path, published: Path, output: Path, rounds: int) -> Case:
    """A plain copy of what is read and of what is written: no tool is faster on this disk."""
    command = 'find "$0" "$1" -type f -exec cat {} + > "$2"'
    return Case(("sh", "-c", command, str(source), str(published), str(output / "copy")), rounds)


def publish_once(command: tuple[str, ...], output: Path, kept: Path) -> None:
    """Run `command` untimed, which brings its input into memory, and move its data set from `output` to `kept`."""
    for folder in (output, kept):
        shutil.rmtree(folder, ignore_errors=True)
    output.mkdir()
    measure(command)
    (output / "bench" / "1.0.0").rename(kept)


def against_the_loop(description: str | None, route: str, kind: str, loop: str) -> None:
    """A benchmark of `shardmill` on a table in files of a `kind`, against a loop and a copy of the bytes."""
    parser = argparse.ArgumentParser(description=description)
    add_options(parser)
    args = parser.parse_args()

    source = make_table(args.folder, kind, args.rows)
    output, kept = args.folder / "output", args.folder / "published"
    command = shardmill_command(route, source, output)
    publish_once(command, output, kept)
    cases = {
        "the loop": loop_case(loop, source, output, args),
        f"shardmill {route}": Case(command, args.rounds),
        "a copy of the bytes, read and written": copy_case(source, kept, output, args.rounds),
    }
    runs = compare(cases, output, args.rows, max(args.rounds, args.loop_rounds))
    print(report(cases, runs, args.rows, source))


def compare(cases: Mapping[str, Case], output: Path, rows: int, rounds: int) -> dict[str, list[Times]]:
    """The times of each case, one round of all after the other; `output` is empty before each and removed at the
    end."""
    runs: dict[str, list[Times]] = {}
    for number in range(rounds):
        for name, case in cases.items():
            if number < case.rounds:
                runs.setdefault(name, []).append(_time(case, output, rows))
                print(f"round {number + 1}: {name}: {runs[name][-1].seconds:.1f} s", file=sys.stderr)
    shutil.rmtree(output, ignore_errors=True)
    return runs


def _time(case: Case, output: Path, rows: int) -> Times:
    """One run; where it is on a part, its start counts once and its rows as often as there are such parts."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    if case.rows is None:
        measured = measure(case.command)
        return Times(measured.seconds, measured.core_seconds)
    spent = str(output / "row_seconds")
    measured, more = measure([*case.command, "--row_seconds", spent]), rows / case.rows - 1
    seconds, core_seconds = row_seconds.read(spent)
    return Times(measured.seconds + more * seconds, measured.core_seconds + more * core_seconds)


def report(cases: Mapping[str, Case], runs: Mapping[str, list[Times]], rows: int, source: Path) -> str:
    """A row each: medians of the rounds, and speed against the first case; then the commands."""
    size = int(subprocess.run(["du", "-sb", str(source)], check=True, stdout=subprocess.PIPE).stdout.split()[0])
    seconds = {name: statistics.median(run.seconds for run in rounds) for name, rounds in runs.items()}
    base = next(iter(seconds.values()))
    lines = [
        f"{rows:,} rows, {size / 1e9:.2f} GB in the page cache; medians; start-up included; {machine()}",
        "",
        "| | seconds | rows a second | times as fast as the loop | seconds of all cores | rounds |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, rounds in runs.items():
        case, taken = cases[name], seconds[name]
        scaled = "" if case.rows is None else f" (scaled from {case.rows:,} rows)"
        cores = statistics.median(run.core_seconds for run in rounds)
        lines.append(
            f"| {name}{scaled} | {taken:.1f} | {rows / taken:,.0f} | {base / taken:.2f} | {cores:.1f} | {len(rounds)} |"
        )
    return "\n".join([*lines, "", *(f"{name}: `{shlex.join(case.command)}`" for name, case in cases.items())])
