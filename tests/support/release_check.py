"""Run by `make check NAME=release`: convert and verify with installations of the wheel and the source archive.

usage: release_check.py DEMO FOLDER…, a folder with the inputs of `make demo`, and environments that have shardmill.
All of them write the same shards, with the compiled module.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from shardmill import __version__

CONVERSIONS = {
    "digits": ("images", "--input", "digits", "--splits", "train=0.8,test=0.2", "--stratify_by", "label"),
    "wine": ("csv", "--input", "tables/wine.csv", "--label", "cultivar", "--splits", "train=0.8,test=0.2"),
}
ABOUT = (
    "import sys, importlib.metadata, shardmill; "
    "print(importlib.metadata.version('shardmill'), shardmill.__file__.startswith(sys.prefix))"
)
COUNT = (
    "import sys, shardmill; "
    "print(sum(1 for split in ('train', 'test') for _ in shardmill.examples(sys.argv[1], split)))"
)


def main() -> None:
    demo, environments = Path(sys.argv[1]), [Path(name).absolute() for name in sys.argv[2:]]
    shards: dict[str, list[str]] = {}
    for environment in environments:
        python, shardmill = environment / "bin/python", environment / "bin/shardmill"
        assert run(demo, python, "-c", ABOUT) == f"{__version__} True\n"
        assert run(demo, shardmill, "--version") == f"shardmill {__version__}\n"  # it names a missing compiled module
        for name, flags in CONVERSIONS.items():
            output = Path(environment.name)
            run(demo, shardmill, *flags, "--output", output, "--name", name, "--num_shards", "2", "--overwrite")
            run(demo, shardmill, "verify", output / name)
            files = sorted((demo / output / name / "1.0.0").glob("*.tfrecord-*"))
            assert len(files) == 4, files
            found = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
            assert shards.setdefault(name, found) == found, f"{environment.name}: other shards of {name}"
        assert run(demo, python, "-c", COUNT, output / "wine") == "178\n"
        print(environment.name, run(demo, python, "--version").strip(), "converted and verified", *CONVERSIONS)


def run(folder: Path, *command: object) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


if __name__ == "__main__":
    main()
