"""No byte of a data set changes unnoticed: 1,000 random changes anywhere in a version's directory, one at a time."""

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from shardmill.errors import CorruptDataError
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.publishing.verification import find_dataset_faults, verify_shard
from tests.support.command import Run, image_tree, write_files
from tests.support.reading import make

CHANGES = 500  # of each of the two data sets
REJECTS = "rejects/rejects-00000-of-00001.jsonl"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine images and a file that is none, in two splits."""
    folder = tmp_path_factory.mktemp("pictures")
    files = image_tree(["bee", "cat"], 4) | {"cat/none.jpg": b"no image", "bee/other.jpg": b"no image either"}
    source = write_files(folder / "source", files)
    return make("images", source, folder, "--splits", "train=0.5,test=0.5", "--max_reject_fraction", "0.5")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gzip data set of rows, some of them rejected."""
    folder = tmp_path_factory.mktemp("table")
    lines = "".join(f"{n},{n / 4},{'ab'[n % 2]}\n" for n in range(6))
    source = write_files(folder, {"a.csv": f"n,x,label\n{lines}1,2\n3,4\n".encode()}) / "a.csv"
    return make("csv", source, folder, "--label", "label", "--compression", "gzip", "--max_reject_fraction", "0.5")


def faults(directory: Path, changed: str = "") -> list[str]:
    """What `shardmill verify` finds, without the job that hands the shards to workers; of one shard, where one was
    `changed`."""
    try:
        dataset = open_dataset(str(directory))
    except CorruptDataError as error:
        return [str(error)]
    found = find_dataset_faults(dataset)
    for split in dataset.manifest.splits:
        for shard in split.shards if not changed else [shard for shard in split.shards if shard.file == changed]:
            found += verify_shard(dataset, split.name, shard, decode=False)
    return list(map(str, found))


@pytest.mark.parametrize("name", ["pictures", "table"])
def test_every_single_byte_change_is_found(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> None:
    directory = Path(shutil.copytree(request.getfixturevalue(name), tmp_path / "copy"))
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    assert directory / REJECTS in files
    assert faults(directory) == []
    random_ = random.Random(11)
    unnoticed: Counter[str] = Counter()
    for _ in range(CHANGES):
        path = random_.choice(files)
        written = path.read_bytes()
        data = bytearray(written)
        place = random_.randrange(len(data))
        data[place] = (data[place] + random_.randrange(1, 256)) % 256
        path.write_bytes(data)
        found = faults(directory, path.name)
        unnoticed[path.name] += not found
        path.write_bytes(written)
        assert all("\n" not in fault for fault in found)
    assert +unnoticed == Counter()


def _to_former(directory: Path) -> None:
    """Make a data set one of those made before the manifest had checksums of the other files, `_SUCCESS` one of it, and
    before there was a FeatureStats.pb."""
    path = directory / "manifest.json"
    content = json.loads(path.read_text())
    del content["files"]
    path.write_text(json.dumps(content))
    (directory / "_SUCCESS").write_bytes(b"")
    (directory / "FeatureStats.pb").unlink()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda folder: (folder / REJECTS).unlink(), f"{REJECTS}: is missing"),
        (lambda folder: shutil.rmtree(folder / "rejects"), f"{REJECTS}: is missing"),
        (
            lambda folder: (folder / "rejects" / "more.jsonl").write_text("{}\n"),
            "rejects/more.jsonl: is a file that the manifest",
        ),
        (
            lambda folder: (folder / "x.labels.txt").write_text("a\n"),
            "x.labels.txt: is a file that the manifest does not list",
        ),
    ],
)
@pytest.mark.parametrize("former", [False, True])
def test_rejects_deleted_and_added(
    pictures: Path, tmp_path: Path, run: Run, former: bool, change: Callable[[Path], object], fault: str
) -> None:
    directory = Path(shutil.copytree(pictures, tmp_path / "copy"))
    if former:
        _to_former(directory)
    assert faults(directory) == []
    change(directory)
    (found,) = faults(directory)
    assert found.startswith(fault)
    result = run("verify", directory)
    assert (result.status, result.out) == (1, f"{found}\n")


def test_rejects_edited(pictures: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(pictures, tmp_path / "copy"))
    text = (directory / REJECTS).read_text()
    (directory / REJECTS).write_text(text.replace("none.jpg", "some.jpg"))
    (found,) = faults(directory)
    assert found.startswith(f"{REJECTS}: has crc32c ")
    _to_former(directory)
    assert faults(directory) == []  # there was nothing to know it by but the number of lines
    (directory / REJECTS).write_text(text.splitlines(keepends=True)[0])
    assert faults(directory) == [f"{REJECTS}: has 1 lines; the manifest counts 2 rejected"]


def test_success_that_is_empty_or_another(pictures: Path, tmp_path: Path, run: Run) -> None:
    directory = Path(shutil.copytree(pictures, tmp_path / "copy"))
    success = directory / "_SUCCESS"
    sealed = success.read_text()
    assert sealed.startswith("manifest.json crc32c ")
    success.write_bytes(b"")
    assert faults(directory) == ["_SUCCESS: is empty; expected the checksum of the manifest"]
    for content in (sealed * 2, sealed.strip(), sealed.upper(), "\n", "done\x1b[2J"):
        success.write_text(content)
        result = run("verify", directory)
        assert result.status == 1
        assert "manifest.json is not the file that was written: its crc32c is " in result.err
        assert "\x1b" not in result.err
