"""What `shardmill report` takes, beside `shardmill inspect`, which reads the same statistics: of a table of 2,000
columns, of one of 3 million rows, and of 1.28 million images in 1,100 shards, whose images are read.

A table's rows do not matter once it is written, and those images are 1,165 in truth: each shard is a link to one.
"""

import argparse
import json
import os
import random
import shutil
import sys
from pathlib import Path

from measure import SHARDMILL, machine, make_images, measure
from options import add_folder, add_rounds

_SHARDS, _IN_A_SHARD = 1_100, 1_165
_TABLES = {"columns": (2_000, 2_000), "rows": (20_000, 10)}


def make_table(root: Path, rows: int, columns: int) -> Path:
    """A data set of numbers in two splits; its version directory."""
    chance = random.Random(1)
    lines = [",".join(f"c{n}" for n in range(columns))]
    lines += [",".join(f"{chance.gauss(0, 1):.4f}" for _ in range(columns)) for _ in range(rows)]
    (root / "in.csv").write_text("\n".join(lines) + "\n")
    flags = ["--output", str(root), "--name", "n", "--splits", "train=0.8,test=0.2"]
    measure([SHARDMILL, "csv", "--input", str(root / "in.csv"), *flags])
    return root / "n" / "1.0.0"


def multiply(directory: Path, shards: int) -> None:
    """Let the one shard of a version be so many, by links, and let all that describes it say so."""
    from google_crc32c import value

    manifest = json.loads((directory / "manifest.json").read_text())
    stats = json.loads((directory / "stats.json").read_text())
    (split,) = manifest["splits"]
    (one,) = split["shards"]
    of = one["file"].removesuffix("00000-of-00001")
    split["shards"] = [{**one, "file": f"{of}{n:05d}-of-{shards:05d}"} for n in range(shards)]
    for shard in split["shards"]:
        os.link(directory / one["file"], directory / shard["file"])
    manifest["input"]["records"] *= shards
    (counted,) = stats["splits"].values()
    counted["examples"] *= shards
    for feature in counted["features"].values():
        feature["classes"] = {name: shards * count for name, count in feature.get("classes", {}).items()}
        for images in feature.get("extremes", {}).values():
            for image in images:
                image["shard"] = split["shards"][0]["file"]
        if not feature["classes"]:
            del feature["classes"]
    (directory / "stats.json").write_text(json.dumps(stats))
    manifest["files"]["stats.json"] = f"{value((directory / 'stats.json').read_bytes()):08x}"
    (directory / "manifest.json").write_text(json.dumps(manifest))
    (directory / "_SUCCESS").write_text("")


def make_many_images(root: Path, data: Path) -> Path:
    """The version directory of 1.28 million images."""
    source = make_images(data, _IN_A_SHARD, 25)
    flags = ["--output", str(root), "--name", "n", "--num_shards", "1"]
    measure([SHARDMILL, "images", "--input", str(source), *flags])
    multiply(root / "n" / "1.0.0", _SHARDS)
    return root / "n" / "1.0.0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_folder(parser)
    add_rounds(parser)
    args = parser.parse_args()
    root = args.folder / "report"
    shutil.rmtree(root, ignore_errors=True)
    print(machine())
    for name in (*_TABLES, "images"):
        folder = root / name
        folder.mkdir(parents=True)
        table = _TABLES.get(name)
        directory = make_table(folder, *table) if table is not None else make_many_images(folder, args.folder)
        page = folder / "page.html"
        commands = {
            "inspect": [SHARDMILL, "inspect", str(directory), "--json", "--examples", "0"],
            "report": [SHARDMILL, "report", str(directory), "--output", str(page)],
        }
        for what, command in commands.items():
            best = min((measure(command) for _ in range(args.rounds)), key=lambda found: found.core_seconds)
            print(
                f"{name}, {what}: {best.seconds:.2f} s, {best.core_seconds:.2f} s of core,"
                f" {best.peak_bytes / 1e6:.0f} MB"
            )
        print(f"{name}, the page: {page.stat().st_size / 1e6:.2f} MB")
        if page.stat().st_size > 2_000_000:
            sys.exit("the page is larger than 2 MB")
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
