"""Environments of the libraries that bench_peers.py and bench_readers.py compare with: 8 GB, made when first needed."""

import subprocess
import sys
import time
from pathlib import Path

from measure import BENCHMARKS

READERS, MDS = "readers", "readers-mds"  # mosaicml-streaming wants older packages than the others


def python_of(name: str) -> Path:
    """Return the interpreter of an environment, which is made unless it has the packages of its requirements file."""
    folder = Path(f"{sys.prefix}-{name}")
    requirements = BENCHMARKS / f"{name.replace('-', '_')}_requirements.txt"
    python, made_of = folder / "bin" / "python", folder / "made_of.txt"
    if not made_of.exists() or made_of.read_text() != requirements.read_text():
        start = time.monotonic()
        uv = str(Path(sys.executable).with_name("uv"))
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], check=True)
        subprocess.run([*install, "--compile-bytecode", "-r", str(requirements)], check=True)
        subprocess.run([*install, "--no-deps", "-e", str(BENCHMARKS.parent)], check=True)
        made_of.write_text(requirements.read_text())
        print(f"{folder}: made in {time.monotonic() - start:.0f} seconds", file=sys.stderr)
    return python


if __name__ == "__main__":
    for each in (READERS, MDS):
        python_of(each)
