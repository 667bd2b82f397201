"""Jobs in turns, and what each costs of the first."""

import shutil
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import tables
from measure import Measured, measure


def in_turns(commands: Mapping[str, Sequence[str]], output: Path, rounds: int) -> dict[str, list[Measured]]:
    """Each command so often, one after the other in every round; `output` is an empty folder before each, and gone in
    the end."""
    runs: dict[str, list[Measured]] = {}
    for number in range(rounds):
        for name, command in commands.items():
            shutil.rmtree(output, ignore_errors=True)
            output.mkdir(parents=True)
            measured = measure(command)
            print(f"round {number + 1}: {name}: {measured.seconds:.1f} s", file=sys.stderr)
            runs.setdefault(name, []).append(measured)
    shutil.rmtree(output, ignore_errors=True)
    return runs


def table(runs: Mapping[str, Sequence[Measured]], of_first: str) -> str:
    """Return a row each: medians of the rounds, and their ratios to the first row, in columns named `of_first`."""
    rows = {
        name: [statistics.median(getattr(run, what) for run in rounds) for what in ("seconds", "core_seconds")]
        for name, rounds in runs.items()
    }
    first, shown = next(iter(rows.values())), []
    for name, (seconds, cores) in rows.items():
        peak = max(run.peak_bytes for run in runs[name]) / 1e6
        numbers = f"{seconds:.1f}", f"{seconds / first[0]:.2f}", f"{cores:.1f}", f"{cores / first[1]:.2f}"
        shown.append([name, *numbers, f"{peak:.0f}"])
    return tables.table(["", "seconds", of_first, "core seconds", of_first, "peak memory, MB"], shown)
