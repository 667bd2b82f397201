"""Files and records that are too large for the memory of a worker are rejects; what their reason advises reads them."""

import gzip
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from shardmill.data.example import encode_example
from shardmill.data.tfrecord import frame_record
from shardmill.transforms.stores.clients import set_options
from shardmill.transforms.workers.resources import find_memory_problem
from tests.support.command import Run, write_files

LARGE = 40 << 20  # of three copies more than the 64 MiB that are taken even of the smallest memory
TOLERANT = ("--on_damaged_file", "reject", "--max_reject_fraction", "0.9")


def _array(size: int) -> bytes:
    out = io.BytesIO()
    np.save(out, np.arange(size, dtype=np.uint8))
    return out.getvalue()


def _arrays() -> dict[str, bytes]:
    return {"a/0.npy": _array(5), "a/1.npy": _array(LARGE), "a/2.npy": _array(7)}


def _zipped() -> dict[str, bytes]:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _arrays().items():
            archive.writestr(name, data)
    return {"a.zip": out.getvalue()}


def _tar() -> dict[str, bytes]:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in (("0", b"a"), ("1", b"x" * LARGE), ("2", b"b")):
            info = tarfile.TarInfo(f"{name}.txt")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return {"a.tar": out.getvalue()}


def _records(pack: Callable[[bytes], bytes]) -> dict[str, bytes]:
    values = [b"a", b"x" * LARGE, b"b"]
    return {"a.tfrecord": pack(b"".join(frame_record(encode_example({"v": [value]})) for value in values))}


def _text(suffix: str, *lines: bytes) -> dict[str, bytes]:
    return {f"a.{suffix}.gz": gzip.compress(b"".join(line + b"\n" for line in lines), 1)}


LONG = b"x" * (9 << 20)  # of fourteen copies, too
ROUTES: Mapping[str, tuple[str, Callable[[], dict[str, bytes]]]] = {
    "arrays": ("arrays --input {0} --shape None --dtype uint8", _arrays),
    "zip": ("arrays --input {0}/a.zip --shape None --dtype uint8", _zipped),
    "texts": (
        "text --record file --input {0}",
        lambda: {"a/0.txt": b"a", "a/1.txt": b"x" * LARGE, "a/2.txt": b"b"},
    ),
    "tar": ("webdataset --input {0}", _tar),
    "tfrecord": ("reshard --input {0}", lambda: _records(bytes)),
    "gzip tfrecord": ("reshard --input {0}", lambda: _records(lambda data: gzip.compress(data, 1))),
    "csv": ("csv --input {0}", lambda: _text("csv", b"v", b"a", LONG, b"b")),
    "jsonl": ("jsonl --input {0}", lambda: _text("jsonl", b'{"v": "a"}', b'{"v": "%s"}' % LONG, b'{"v": "b"}')),
    "text": ("text --input {0}", lambda: _text("txt", b"a", LONG, b"b")),
}


@pytest.fixture(autouse=True)
def usual_options() -> Iterator[None]:
    """Forget the memory of a job, which the process keeps."""
    yield
    set_options(None)


@pytest.mark.parametrize("route", list(ROUTES))
def test_what_does_not_fit_into_memory_is_a_reject(route: str, run: Run, tmp_path: Path) -> None:
    command, make = ROUTES[route]
    words = [*command.format(write_files(tmp_path / "in", make())).split(), "--output", tmp_path / "out", "--name", "d"]
    result = run(*words, *TOLERANT, "--worker_memory", "330MiB")

    assert result.status == 0, result.err
    version = tmp_path / "out" / "d" / "1.0.0"
    (reject,) = (json.loads(line) for path in version.glob("rejects/*") for line in path.read_text().splitlines())
    advice = re.search(r"--worker_memory (\d+MiB)", reject["reason"])
    assert advice is not None, reject
    assert reject.get("records", 1) == 1
    manifest = json.loads((version / "manifest.json").read_text())
    assert sum(shard["examples"] for split in manifest["splits"] for shard in split["shards"]) == 2

    result = run(*words, "--version", "2.0.0", "--worker_memory", advice[1])
    assert result.status == 0, result.err
    manifest = json.loads((version.with_name("2.0.0") / "manifest.json").read_text())
    assert sum(shard["examples"] for split in manifest["splits"] for shard in split["shards"]) == 3


def test_small_files_need_no_look_at_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.transforms.workers.resources.most_bytes", lambda copies: 1)
    assert find_memory_problem(20 << 20, 3) == ""
    assert find_memory_problem(30 << 20, 3) != ""
