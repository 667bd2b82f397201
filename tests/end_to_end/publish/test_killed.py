"""The command ended from outside: killed, interrupted, out of disk on every route. What it leaves is no data set, nor
in the next run's way."""

import json
import os
import random
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shardmill.pipelines import cli
from tests.support.command import Process, Run, image, npy, read_back, tree_bytes, write_files
from tests.support.jobs import Jobs
from tests.support.processes import SmallDisk
from tests.support.table_results import encode_rows

pytestmark = pytest.mark.slow

SHARDS = 30
FLAGS = ("--splits", "train=0.9,test=0.1", "--num_shards", f"train={SHARDS},test=2")
SLOWLY = ("--resize", "400x300")  # so that a signal comes while shards are written, however late it comes


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3000 small images of seven classes."""
    contents = [image(number, "PNG", (20, 15)) for number in range(50)]
    return write_files(
        tmp_path_factory.mktemp("many") / "in", ((f"c{n % 7}/{n}.png", contents[n % 50]) for n in range(3000))
    )


@pytest.fixture(scope="session")
def undisturbed(many: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Every file of the data set that a run to the end makes."""
    output = tmp_path_factory.mktemp("undisturbed")
    assert cli.main([str(argument) for argument in command(many, output)]) == 0
    return tree_bytes(output / "n" / "1.0.0")


def command(source: Path, output: Path, *flags: object) -> tuple[object, ...]:
    return ("images", "--input", source, "--output", output, "--name", "n", *FLAGS, *flags)


def shards_under_way(directory: Path) -> int:
    return sum(path.name != "LOCK" for path in directory.glob("beam-temp-*/*"))


# Each moment is a condition on the version directory.
MOMENTS: dict[str, Callable[[Path], bool]] = {
    "temporary directory made": lambda directory: any(directory.glob("beam-temp-*")),
    "first shard": lambda directory: shards_under_way(directory) >= 1,
    "all shards": lambda directory: shards_under_way(directory) >= SHARDS + 2,
    "first shard renamed": lambda directory: any(directory.glob("n-*.tfrecord-*")),
    "manifest written": lambda directory: (directory / "manifest.json").exists(),
    "published": lambda directory: (directory / "_SUCCESS").exists(),
}


def signal_at(process: Process, number: int, moment: str | float, directory: Path) -> None:
    """Send a signal as soon as the moment has come, or after so many seconds."""
    if isinstance(moment, str):
        while process.is_alive() and not MOMENTS[moment](directory):
            time.sleep(0.0005)
    else:
        time.sleep(moment)
    if process.is_alive():
        process.send_signal(number)


def without_temporaries(directory: Path) -> dict[str, bytes]:
    """All files but those of the job, and the LOCK that one which was killed leaves."""
    kept = tree_bytes(directory).items()
    return {name: content for name, content in kept if not name.startswith(("beam-temp-", "LOCK"))}


@pytest.mark.parametrize("moment", [0.4, *MOMENTS])
def test_killed_and_run_again_gives_the_same_bytes(
    many: Path, undisturbed: dict[str, bytes], run: Run, tmp_path: Path, moment: str | float
) -> None:
    directory = tmp_path / "out" / "n" / "1.0.0"
    process = Process(tmp_path / "process", *command(many, tmp_path / "out"))
    signal_at(process, signal.SIGKILL, moment, directory)
    process.result()
    published = (directory / "_SUCCESS").exists()
    begun = (directory / "_PUBLISHING").exists()
    if published:
        found = without_temporaries(directory)
        found.pop("_PUBLISHING", None)
        assert found == undisturbed
    overwrite = published and not begun
    result = run(*command(many, tmp_path / "out", *(["--overwrite"] if overwrite else [])))
    assert result.status == 0
    assert ("completed the publication" in result.err) == begun
    assert tree_bytes(directory) == undisturbed
    assert not list(directory.glob("beam-temp-*"))
    assert sorted(path.name for path in directory.parent.iterdir()) == ["1.0.0", "LATEST", "builds"]


def test_killed_while_overwriting_leaves_the_published_version(many: Path, run: Run, tmp_path: Path) -> None:
    small = write_files(tmp_path / "in", {f"a/{number}.png": image(number, "PNG") for number in range(5)})
    assert run("images", "--input", small, "--output", tmp_path / "out", "--name", "n").status == 0
    directory = tmp_path / "out" / "n" / "1.0.0"
    before = tree_bytes(directory)
    process = Process(tmp_path / "process", *command(many, tmp_path / "out", "--overwrite", *SLOWLY))
    signal_at(process, signal.SIGKILL, "first shard", directory)
    assert process.result().status == -signal.SIGKILL
    assert without_temporaries(directory) == before
    assert len(read_back(tmp_path / "out" / "n").records) == 5
    assert run("images", "--input", small, "--output", tmp_path / "out", "--name", "n", "--overwrite").status == 0
    assert tree_bytes(directory) == before


@pytest.mark.parametrize("moment", ["temporary directory made", "first shard"])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(many: Path, tmp_path: Path, number: int, status: int, moment: str) -> None:
    directory = tmp_path / "out" / "n" / "1.0.0"
    process = Process(tmp_path / "process", *command(many, tmp_path / "out", *SLOWLY))
    signal_at(process, number, moment, directory)
    assert process.result() == (status, "", "shardmill: interrupted; nothing was published\n")
    assert not list(directory.glob("*"))
    assert not (directory.parent / "LATEST").exists()
    assert not (directory.parent / "builds").exists()  # as docs/nightly.md says; a first night leaves a record


SIZE = 1 << 16
NOISE = random.Random(7).randbytes(6 * SIZE).hex()
LINES = [NOISE[start : start + 400] for start in range(0, len(NOISE), 400)]
# What each command reads, several times as large as the disk
FULL: dict[str, dict[str, bytes]] = {
    "images": {f"a/{n}.bmp": image(n, "BMP", (90, 80)) for n in range(20)},
    "arrays": {"a/0.npy": npy(np.frombuffer(NOISE.encode(), np.uint8))},
    "csv": {"a.csv": encode_rows("csv", [{"n": n, "line": line} for n, line in enumerate(LINES)])},
}


@pytest.mark.parametrize(("route", "filled"), [*((route, False) for route in FULL), ("csv", True), ("images", True)])
def test_a_full_disk_is_one_sentence(tmp_path: Path, route: str, filled: bool) -> None:
    write_files(tmp_path / "in", FULL[route])
    disk = SmallDisk(tmp_path / "disk", SIZE, tmp_path / "left.json", filled)
    flags = ("--input", tmp_path / "in", "--output", tmp_path / "disk/out", "--name", "n", "--quiet")

    result = Process(tmp_path / "process", route, *flags, before=disk).result()

    assert (result.status, result.out) == (1, "")
    assert result.err.count("\n") == 1
    assert re.match(rf"shardmill: error: .*{re.escape(str(tmp_path / 'disk/out'))}", result.err)
    assert re.search(r"No space left on device; [\d,]+ of 65,536 bytes are free there|File too large", result.err)
    assert json.loads((tmp_path / "left.json").read_text()) == (["filling"] if filled else [])
    assert os.listdir(tmp_path / "disk") == []


def test_a_full_disk_for_a_picture(jobs: Jobs, run: Run) -> None:
    jobs.build("images", files=FULL["images"])
    result = run("inspect", "out/n", "--contact_sheet", "/dev/full")
    assert result.status == 1
    assert result.err.startswith("shardmill: error: --contact_sheet /dev/full: No space left on device; ")
