"""Time several commands in turns, some of them on a part of the rows, and show them beside the first."""

import argparse
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import row_seconds
import tables
from measure import BENCHMARKS, SHARDMILL, make_table, measure
from options import add_folder, add_rounds, add_write

LOOP, COPY = "the loop", "a copy of the bytes (`cat`)"
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


def add_options(parser: argparse.ArgumentParser, rows: int = 3_000_000) -> None:
    """The options that the benchmarks of tables have in common."""
    parser.add_argument("--rows", type=int, default=rows, help="default: %(default)s")
    add_rounds(parser)
    parser.add_argument("--loop_rounds", type=int, default=1, help="of the loop, which is slow (default: %(default)s)")
    parser.add_argument(
        "--loop_rows", type=int, default=300_000, help="to time the loop on, its cost a row being scaled"
    )
    add_folder(parser)
    add_write(parser)


def loop_case(script: str, source: Path, output: Path, args: argparse.Namespace) -> Case:
    """The loop of `script`, on as many rows as the options say."""
    command = (sys.executable, str(BENCHMARKS / script), str(source), str(output))
    if args.loop_rows >= args.rows:
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


def against_the_loop(
    description: str | None, route: str, kind: str, loop: str, what: str, other: str, rows: int, more_rows: int = 0
) -> None:
    """Compare `shardmill` on a table in files of a `kind` with a loop and a copy of the bytes.

    Args:
      description: of the script.
      route: the command.
      kind: of make_table.py.
      loop: the script of it.
      what: the rows in words.
      other: the loop in words, for README.md.
      rows: of the first table.
      more_rows: of a second table; 0 for none.
    """
    parser = argparse.ArgumentParser(description=description)
    add_options(parser, rows)
    parser.set_defaults(loop_rows=rows // 5)
    parser.add_argument("--more_rows", type=int, default=more_rows, help="of a second table (default: %(default)s)")
    args = parser.parse_args()
    output, kept = args.folder / "output", args.folder / "published"
    texts, slower, ours = [], list[str](), f"`shardmill {route}`"
    for count in filter(None, (args.rows, args.more_rows)):
        args.rows = count  # of which the loop reads a part
        source = make_table(args.folder, kind, args.rows)
        command = shardmill_command(route, source, output)
        publish_once(command, output, kept)
        cases = {
            LOOP: loop_case(loop, source, output, args),
            ours: Case(command, args.rounds),
            COPY: copy_case(source, kept, output, args.rounds),
        }
        runs = compare(cases, output, args.rows, max(args.rounds, args.loop_rounds))
        texts.append(report(cases, runs, args.rows, source))
        seconds = medians(runs)
        slower += [f"{args.rows:,} {what}: {loss}" for loss in tables.losses(seconds, ours)]
        row = f"| {args.rows:,} {what} | {other} | {seconds[LOOP]:.1f} | {seconds[ours]:.1f} | `bench_{route}.py` |"
    tables.publish("\n\n".join(texts), args.write, losses=slower, readme=[row])


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


def medians(runs: Mapping[str, Sequence[Times]]) -> dict[str, float]:
    """Return the median seconds of each case."""
    return {name: statistics.median(run.seconds for run in rounds) for name, rounds in runs.items()}


def report(cases: Mapping[str, Case], runs: Mapping[str, Sequence[Times]], rows: int, source: Path) -> str:
    """Return a table with a row for each case: medians of the rounds, and speed against the first case."""
    size = int(subprocess.run(["du", "-sb", str(source)], check=True, stdout=subprocess.PIPE).stdout.split()[0])
    seconds, shown = medians(runs), []
    base = next(iter(seconds.values()))
    for name, rounds in runs.items():
        case, taken = cases[name], seconds[name]
        scaled = "" if case.rows is None else f" (scaled from {case.rows:,} rows)"
        cores = statistics.median(run.core_seconds for run in rounds)
        numbers = f"{taken:.1f}", f"{rows / taken:,.0f}", f"{base / taken:.2f}", f"{cores:.1f}", str(len(rounds))
        shown.append([f"{name}{scaled}", *numbers])
    columns = "", "seconds", "rows a second", f"times as fast as {next(iter(runs))}", "core seconds", "rounds"
    title = f"{rows:,} rows, {size / 1e9:.2f} GB in the page cache; medians, start-up included:"
    return f"{title}\n\n{tables.table(columns, shown)}"
