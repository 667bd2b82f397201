"""What one worker takes to find equal contents among those of very many rows: core seconds, memory, and bytes that lie
in the temporary directory, of which what 3 * 10^9 rows take is told. A hundredth of a thousandth are equal.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import tables
from options import add_folder, add_write

from shardmill.transforms.statistics.contents import Contents, Section, encode_names, make_section, sort_by_split
from shardmill.transforms.statistics.duplicates import find_duplicates
from shardmill.transforms.stores import storage

_A_TASK = 250_000  # rows


def write(folder: Path, rows: int) -> list[Section]:
    """What tasks leave of so many rows; ten of each fourth task are those of the others."""
    chance = np.random.default_rng(1)
    sections = []
    for number in range(rows // _A_TASK):
        high, low, places = (chance.integers(0, (1 << 64) - 1, _A_TASK, np.uint64) for _ in range(3))
        if number % 4 == 0:
            high[:10], low[:10] = np.arange(10, dtype=np.uint64) << np.uint64(50), 7
        (mine,) = sort_by_split(Contents(high, low, places), np.zeros(_A_TASK, np.int64), 1)
        path = str(folder / f"{number}")
        section, parts = make_section(mine, "train", path, 0, encode_names([f"{number}.csv"]))
        storage.write_parts(path, parts)
        sections.append(section)
    return sections


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="(default: %(default)s)")
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sections = write(Path(folder), args.rows)
        size = sum(section.size_bytes for section in sections)
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        found = find_duplicates("rows", sections)
        seconds = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    equal = sum(repeated.examples for repeated in found.within.values())
    row = f"{args.rows:,}, {equal:,} of them equal", f"{seconds:.2f}", f"{(peak - before) / 1024:.0f}"
    columns = "rows", "core seconds", "memory, MB", "temporary bytes a row"
    tables.publish(tables.table(columns, [[*row, f"{size / args.rows:.1f}"]]), args.write)


if __name__ == "__main__":
    main()
