"""A disk that is full: one sentence that names the file and what is free, status 1, and nothing is left, on every
route."""

import json
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest

from tests.support.command import Process, Run, image, npy, write_files
from tests.support.processes import SmallDisk

pytestmark = pytest.mark.slow

SIZE = 1 << 16
NOISE = random.Random(7).randbytes(6 * SIZE).hex()
LINES = [NOISE[start : start + 400] for start in range(0, len(NOISE), 400)]


def inputs() -> dict[str, dict[str, bytes]]:
    """What each command reads, several times as large as the disk."""
    return {
        "images": {f"a/{n}.bmp": image(n, "BMP", (90, 80)) for n in range(20)},
        "arrays": {"a/0.npy": npy(np.frombuffer(NOISE.encode(), np.uint8))},
        "csv": {"a.csv": "".join(["n,line\n", *(f"{n},{line}\n" for n, line in enumerate(LINES))]).encode()},
        "jsonl": {"a.jsonl": "".join(json.dumps({"text": line}) + "\n" for line in LINES).encode()},
        "text": {"a.txt": "\n".join(LINES).encode()},
    }


ROUTES = ("images", "arrays", "csv", "jsonl", "text")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("route", "filled"), [*((route, False) for route in ROUTES), ("csv", True), ("images", True)])
def test_a_full_disk_is_one_sentence(source: Path, route: str, filled: bool) -> None:
    write_files(source / "in", inputs()[route])
    disk = SmallDisk(source / "disk", SIZE, source / "left.json", filled)
    flags = ("--input", source / "in", "--output", source / "disk/out", "--name", "n", "--quiet")

    result = Process(source / "process", route, *flags, before=disk).result()

    assert (result.status, result.out) == (1, "")
    assert result.err.count("\n") == 1
    assert re.match(rf"shardmill: error: .*{re.escape(str(source / 'disk/out'))}", result.err)
    assert re.search(r"No space left on device; [\d,]+ of 65,536 bytes are free there|File too large", result.err)
    assert json.loads((source / "left.json").read_text()) == (["filling"] if filled else [])
    assert os.listdir(source / "disk") == []


def test_of_a_picture_too(run: Run, source: Path) -> None:
    write_files(source / "in", inputs()["images"])
    flags = ("--input", source / "in", "--output", source / "out", "--name", "n", "--quiet")
    assert run("images", *flags).status == 0

    result = run("inspect", source / "out/n", "--contact_sheet", "/dev/full")

    assert result.status == 1
    assert result.err.startswith("shardmill: error: --contact_sheet /dev/full: No space left on device; ")
