"""Memory of jobs: peaks of the command, and page faults."""

import bz2
import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.support.command import REPOSITORY, image, write_files

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has KiB, and glibc")]

_TOUCH = """
import ctypes, resource
from shardmill.pipelines.jobs import runner
runner.{function}()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    buffer = libc.malloc(16 << 20)
    ctypes.memset(buffer, 1, 16 << 20)
    libc.free(buffer)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(function: str) -> int:
    """Page faults of twenty times 16 MiB, allocated, touched and freed."""
    done = subprocess.run(
        [sys.executable, "-c", _TOUCH.format(function=function)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def test_buffers_are_returned_or_used_again() -> None:
    assert faults("return_large_buffers") > 5 * faults("reuse_large_buffers")


_PEAK = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak_bytes(command: str, source: Path, output: Path, expected_status: int = 0) -> int:
    """Peak resident memory of a conversion, started by a small process: the kernel begins a peak at the parent's."""
    arguments = [command, f"--input={source}", f"--output={output}", "--name=n"]
    words = [sys.executable, "-c", _PEAK, sys.executable, "-m", "shardmill", *arguments]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    status, kibibytes = map(int, done.stdout.split())
    assert status == expected_status
    return kibibytes * 1024


@pytest.mark.parametrize("suffix", ["csv.gz", "csv.bz2", "csv.zst", "parquet"])
def test_a_bomb_takes_the_memory_of_the_largest_record(tmp_path: Path, suffix: str) -> None:
    """A line of 1 GiB, which is a reject, and 4 GB of texts that are all the same, which are not."""
    bomb = tmp_path / f"bomb.{suffix}"
    if suffix == "parquet":
        texts = pa.DictionaryArray.from_arrays(np.zeros(2_000_000, np.int32), ["d" * 2000])
        pq.write_table(pa.table({"x": texts}), bomb, compression="zstd", row_group_size=len(texts))
    else:
        openers: dict[str, Any] = {"gz": gzip.open, "bz2": bz2.open, "zst": zstandard.open}
        with openers[suffix[4:]](bomb, "wb") as file:
            file.write(b"x,y\n1,2\n")
            for _ in range(1024):
                file.write(b"a" * (1 << 20))

    assert peak_bytes(suffix[:3].replace("par", "parquet"), bomb, tmp_path / "out", int(suffix != "parquet")) < 900e6


def test_a_table_of_many_blocks_takes_little_more_than_one_of_few(tmp_path: Path) -> None:
    row = b"%d,0.25,some words,a,b,c,17,18,19,20\n"
    for name, rows in (("few", 1000), ("many", 2_000_000)):
        (tmp_path / f"{name}.csv").write_bytes(b"a,b,c,d,e,f,g,h,i,j\n" + b"".join(row % n for n in range(rows)))
    few, many = (peak_bytes("csv", tmp_path / f"{name}.csv", tmp_path / name) for name in ("few", "many"))

    assert many - few < 300e6


def test_references_to_files_take_few_hundred_bytes(tmp_path: Path) -> None:
    png = image(image_format="PNG", size=(2, 2))
    numbers = {"few": 1000, "many": 100_000}
    for name, files in numbers.items():
        names = (f"class_{number % 10}/image_{number:06d}.png" for number in range(files))
        write_files(tmp_path / name, dict.fromkeys(names, png))
    few, many = (peak_bytes("images", tmp_path / name, tmp_path / f"{name}-out") for name in numbers)

    assert (many - few) / (numbers["many"] - numbers["few"]) < 1000
