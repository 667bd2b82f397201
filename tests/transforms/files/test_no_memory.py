"""A process without memory for the pixels of an image says nothing of the image."""

import subprocess
import sys

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
for read in (check_decodes, lambda of: reencode(of, Reencode("jpeg", (8, 8))), lambda of: mask_array(of, 1 << 30)):
    try:
        read(data)
    except MemoryError:
        print("no memory")
print(repr(ImageEncoder("", "decode")._try_encode("a.gif", data, len(data), None)))
"""


def test_it_is_no_fault_of_the_image_and_another_job_reads_the_file_again() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "no memory\n" * 3 + "OSError(12, 'Cannot allocate memory')\n"
