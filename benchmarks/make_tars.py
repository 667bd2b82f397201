"""Make tar files of WebDataset to measure with: JPEGs of make_images.py, each with its class and a JSON object."""

import argparse
import io
import json
import shutil
import tarfile
from pathlib import Path

from make_images import CLASSES, DISTINCT, jpegs

_SHARD = 10_000  # samples of a tar file


def make_tars(parent: Path, samples: int, kilobytes: float) -> Path:
    """A folder of tar files in `parent`, made unless it is there already, as webdataset's own writer has them: a member
    has an extended header, for its time is no whole second."""
    folder = parent / f"{samples}-{kilobytes:g}KB-tars"
    if folder.exists():
        return folder
    temporary = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    distinct = jpegs(kilobytes, min(DISTINCT, samples))
    for start in range(0, samples, _SHARD):
        with tarfile.open(temporary / f"shard-{start // _SHARD:05d}.tar", "w", format=tarfile.PAX_FORMAT) as tar:
            for number in range(start, min(start + _SHARD, samples)):
                told = {"caption": f"the caption of image {number}", "width": number % 1000}
                for suffix, data in (
                    ("cls", str(number % CLASSES).encode()),
                    ("jpg", distinct[number % len(distinct)]),
                    ("json", json.dumps(told).encode()),
                ):
                    member = tarfile.TarInfo(f"{number:09d}.{suffix}")
                    member.size, member.mtime = len(data), 1.7e9 + 0.5
                    tar.addfile(member, io.BytesIO(data))
    temporary.rename(folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parent", type=Path)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--kilobytes", type=float, required=True)
    args = parser.parse_args()
    print(make_tars(args.parent, args.samples, args.kilobytes))


if __name__ == "__main__":
    main()
