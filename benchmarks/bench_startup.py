"""Measure whole commands over tiny inputs: conversions, `verify`, and `shardmill.write` of a few rows.
`SHARDMILL` names the command of another installation; `shardmill.write` is measured with the Python beside it."""

import argparse
import shutil
import statistics
from pathlib import Path

from measure import SHARDMILL, make_images, measure
from options import add_folder, add_rounds, add_write
from tables import publish, table

_ROWS = 100
_WRITE = """
import shardmill
shardmill.write([{{"x": n, "y": n / 2}} for n in range({rows})], output={output!r}, name="write", overwrite=True)
"""


def commands(root: Path) -> dict[str, list[str]]:
    """Each command that is measured, by what it does; the inputs are written below `root`."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    (root / "rows.csv").write_text("x,y,name\n" + "".join(f"{n},{n / 7},n{n}\n" for n in range(_ROWS)))
    (root / "lines.txt").write_text("".join(f"line {n}\n" for n in range(_ROWS)))
    images = make_images(root / "images", 20, 2)
    inputs = {"csv": root / "rows.csv", "images": images, "text": root / "lines.txt"}
    where = ["--output", str(root / "out"), "--overwrite", "--quiet"]
    made = {
        f"`shardmill {kind}`": [SHARDMILL, kind, "--input", str(path), "--name", kind, *where]
        for kind, path in inputs.items()
    }
    program = _WRITE.format(rows=_ROWS, output=str(root / "out"))
    python = str(Path(SHARDMILL).with_name("python"))
    return {
        **made,
        "`shardmill verify`": [SHARDMILL, "verify", str(root / "out" / "csv"), "--quiet"],
        "`shardmill.write`": [python, "-c", program],
        "`shardmill --version`": [SHARDMILL, "--version"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_folder(parser)
    add_rounds(parser, 9)
    add_write(parser)
    args = parser.parse_args()
    root = args.folder / "startup"
    measured = commands(root)
    for command in measured.values():
        measure(command)
    rounds = [{name: measure(command) for name, command in measured.items()} for _ in range(args.rounds)]
    rows = []
    for name in measured:
        elapsed, cores = ([getattr(done[name], kind) * 1000 for done in rounds] for kind in ("seconds", "core_seconds"))
        rows.append(
            [name, *(f"{value:,.0f}" for kind in (elapsed, cores) for value in (statistics.median(kind), min(kind)))]
        )
    columns = ["command", "ms, median", "least", "ms of cores, median", "least"]
    publish(table(columns, rows), args.write)
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
