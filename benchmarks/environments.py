"""Environments of the libraries that bench_peers.py and bench_readers.py compare with: 8 GB, made when first needed."""

import subprocess
import sys
from pathlib import Path

from measure import BENCHMARKS

READERS, MDS = "peers", "mosaicml"  # mosaicml-streaming wants older packages than the others


def python_of(name: str) -> Path:
    """Return the interpreter of an environment of tests/checks/table.toml."""
    command = [sys.executable, "-m", "tests.checks", "--environment", name]
    done = subprocess.run(command, cwd=BENCHMARKS.parent, stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip()) / "python"


if __name__ == "__main__":
    for each in (READERS, MDS):
        python_of(each)
