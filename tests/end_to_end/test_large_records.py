"""Files and records that are too large for the memory of a worker are rejects; what their reason advises reads them."""

import gzip
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest

from shardmill.data.example import encode_example
from shardmill.data.tfrecord import frame_record
from shardmill.transforms.stores.clients import set_options
from shardmill.transforms.workers.resources import find_memory_problem
from tests.support.archives import tar
from tests.support.command import npy
from tests.support.jobs import Jobs

LARGE = 40 << 20  # of three copies more than the 64 MiB that are taken even of the smallest memory


def _arrays() -> dict[str, bytes]:
    sizes = {"a/0.npy": 5, "a/1.npy": LARGE, "a/2.npy": 7}
    return {name: npy(np.arange(size, dtype=np.uint8)) for name, size in sizes.items()}


def _zipped() -> dict[str, bytes]:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _arrays().items():
            archive.writestr(name, data)
    return {"a.zip": out.getvalue()}


def _records(pack: Callable[[bytes], bytes]) -> dict[str, bytes]:
    values = [b"a", b"x" * LARGE, b"b"]
    return {"a.tfrecord": pack(b"".join(frame_record(encode_example({"v": [value]})) for value in values))}


def _text(suffix: str, *lines: bytes) -> dict[str, bytes]:
    return {f"a.{suffix}.gz": gzip.compress(b"".join(line + b"\n" for line in lines), 1)}


LONG = b"x" * (9 << 20)  # of fourteen copies, too
ROUTES: Mapping[str, tuple[str, Callable[[], dict[str, bytes]]]] = {
    "arrays": ("arrays --shape None --dtype uint8", _arrays),
    "zip": ("arrays --input in/a.zip --shape None --dtype uint8", _zipped),
    "texts": (
        "text --record file",
        lambda: {"a/0.txt": b"a", "a/1.txt": b"x" * LARGE, "a/2.txt": b"b"},
    ),
    "tar": ("webdataset", lambda: {"a.tar": tar([("0.txt", b"a"), ("1.txt", b"x" * LARGE), ("2.txt", b"b")])}),
    "tfrecord": ("reshard", lambda: _records(bytes)),
    "gzip tfrecord": ("reshard", lambda: _records(lambda data: gzip.compress(data, 1))),
    "csv": ("csv", lambda: _text("csv", b"v", b"a", LONG, b"b")),
    "jsonl": ("jsonl", lambda: _text("jsonl", b'{"v": "a"}', b'{"v": "%s"}' % LONG, b'{"v": "b"}')),
    "text": ("text", lambda: _text("txt", b"a", LONG, b"b")),
}


@pytest.fixture(autouse=True)
def usual_options() -> Iterator[None]:
    """Forget the memory of a job, which the process keeps."""
    yield
    set_options(None)


@pytest.mark.parametrize("route", list(ROUTES))
def test_what_does_not_fit_into_memory_is_a_reject(route: str, jobs: Jobs) -> None:
    line, make = ROUTES[route]
    flags = "--on_damaged_file reject --max_reject_fraction 0.9 --worker_memory 330MiB"
    made = jobs.build(f"{line} {flags}", files=make())
    (reject,) = made.rejects
    advice = re.search(r"--worker_memory (\d+MiB)", reject["reason"])
    assert advice is not None, reject
    assert reject.get("records", 1) == 1
    assert sum(split.examples for split in made.manifest.splits) == 2
    made = jobs.build(f"{line} --version 2.0.0 --worker_memory {advice[1]}")
    assert sum(split.examples for split in made.manifest.splits) == 3


def test_small_files_need_no_look_at_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.transforms.workers.resources.most_bytes", lambda copies: 1)
    assert find_memory_problem(20 << 20, 3) == ""
    assert find_memory_problem(30 << 20, 3) != ""
