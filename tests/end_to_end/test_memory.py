"""What the allocator is told shows in page faults: of buffers used again there are few."""

import subprocess
import sys

import pytest

from tests.support.command import REPOSITORY

pytestmark = pytest.mark.slow

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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc is told")
def test_buffers_are_returned_or_used_again() -> None:
    assert faults("return_large_buffers") > 5 * faults("reuse_large_buffers")
