"""A process without memory for the pixels of an image says nothing of the image."""

import subprocess
import sys

import pytest

from tests.support.command import REPOSITORY

# Its pixels take 100 MB at least, and the process, which is new and has none to spare, may take 50 MB more than it has
_SCRIPT = """
import io, resource
from PIL import Image
from shardmill.data.media import mask_array
from shardmill.transforms.files.image_codec import Reencode, check_decodes, reencode
from shardmill.transforms.files.image_encoder import ImageEncoder
out = io.BytesIO()
Image.new("L", (10_000, 10_000)).save(out, "GIF")
data = out.getvalue()
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
taken = int(status["VmData"].split()[0]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (taken + (50 << 20), resource.RLIM_INFINITY))
try:
    {read}
except MemoryError:
    print("no memory")
"""


def run_without_memory(read: str) -> str:
    """Return what a process without memory for the pixels prints when it runs `read`."""
    script = [sys.executable, "-c", _SCRIPT.format(read=read)]
    done = subprocess.run(script, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "read",
    ["check_decodes(data)", "reencode(data, Reencode('jpeg', (8, 8), 'exact', 95))", "mask_array(data, 1 << 30)"],
    ids=["check_decodes", "reencode", "mask_array"],
)
def test_it_is_no_fault_of_the_image(read: str) -> None:
    assert run_without_memory(read) == "no memory\n"


def test_the_file_is_a_reject_that_another_job_reads_again() -> None:
    read = "print(repr(ImageEncoder('', 'decode')._try_encode('a.gif', data, len(data), None)))"

    assert run_without_memory(read) == "OSError(12, 'Cannot allocate memory')\n"
