"""--index: the positions of records in the version's folder, as DALI reads them, through all that a version meets."""

import json
import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import shardmill
from shardmill.pipelines import cli
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.publishing import lease
from shardmill.transforms.stores import storage
from tests.support.builds import contents
from tests.support.command import Run, check_mistake, image_tree, tree_bytes, write_files, write_old_files
from tests.support.faults import rename_nine
from tests.support.framed_records import tfrecord2idx
from tests.support.nights import recipe, rows, write
from tests.support.reading import make, make_images, read_index

FLAGS = ("--splits", "train=0.75,test=0.25", "--num_shards", "3")
TABLE = b"n,text\n" + b"".join(b"%d,%s\n" % (number, b"x" * (number % 50)) for number in range(400))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("rows"), {"rows.csv": TABLE}) / "rows.csv"


@pytest.fixture(scope="module")
def indexed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("csv", source, tmp_path_factory.mktemp("indexed"), *FLAGS, "--index")


@pytest.fixture
def copied(indexed: Path, tmp_path: Path) -> Path:
    """A copy of the indexed version, to be damaged."""
    shutil.copytree(indexed.parent, tmp_path / "n")
    return tmp_path / "n" / "1.0.0"


def index_of(directory: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(directory).items() if name.startswith("index/")}


def check_index(directory: Path) -> None:
    """Check that each index is the one that DALI's script writes, and that each record is found by its position."""
    dataset, found = open_dataset(str(directory)), read_index(directory)
    assert found is not None
    expected = {"index/index.json"}
    for split in dataset.manifest.splits:
        expected.add(f"index/{split.name}.npy")
        for number, shard in enumerate(split.shards):
            data = (directory / shard.file).read_bytes()
            expected.add(f"index/{shard.file}.idx")
            assert (directory / f"index/{shard.file}.idx").read_bytes() == tfrecord2idx(data)
            bounds = found[split.name].shard(number).bounds
            records = [data[start + 12 : end - 4] for start, end in pairwise(bounds)]
            assert records == list(dataset.records(shard))
        assert len(found[split.name]) == split.examples
    assert set(index_of(directory)) == expected


def test_rows_have_an_index(indexed: Path, source: Path, tmp_path: Path, run: Run) -> None:
    check_index(indexed)
    assert run("verify", indexed).brief.out == "verified: 400 examples in 6 shards, no fault\n"
    listed = json.loads((indexed / "manifest.json").read_text())
    assert set(index_of(indexed)) < set(listed["files"])
    assert listed["configuration"]["index"] is True
    plain = make("csv", source, tmp_path, *FLAGS)
    assert not (plain / "index").exists()
    without = {name: data for name, data in tree_bytes(plain).items() if name not in ("manifest.json", "_SUCCESS")}
    assert without.items() < tree_bytes(indexed).items()


@pytest.mark.parametrize("threads", [1, 3])
def test_images_have_an_index(tmp_path: Path, threads: int) -> None:
    check_index(make_images(tmp_path, *FLAGS, "--index", "--threads", threads))


def test_a_version_without_an_index_replaces_one_with_it(copied: Path, source: Path, tmp_path: Path) -> None:
    assert make("csv", source, tmp_path, *FLAGS, "--overwrite") == copied
    assert not (copied / "index").exists()
    make("csv", source, tmp_path, *FLAGS, "--overwrite", "--index")
    check_index(copied)


def test_records_that_are_reused_have_the_same_index(tmp_path: Path) -> None:
    write_old_files(tmp_path / "in", image_tree(("cat", "dog"), 12))
    flags = ("--num_shards", "2", "--index")
    make("images", tmp_path / "in", tmp_path / "out", *flags, "--reuse", "record")
    (tmp_path / "in/cat/003.jpg").unlink()
    arguments = ("images", "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n", *flags)
    for version, reuse in (("2.0.0", "LATEST"), ("3.0.0", "no")):
        assert cli.main([*map(str, arguments), "--version", version, "--reuse", reuse]) == 0
        check_index(tmp_path / "out/n" / version)
    assert index_of(tmp_path / "out/n/2.0.0") == index_of(tmp_path / "out/n/3.0.0")
    assert json.loads((tmp_path / "out/n/builds/2.0.0.json").read_text())["reused"] == 23


def test_a_night_that_is_accepted_keeps_its_index(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    recipe("  index: true\n  num_shards: 2\n")
    write(rows())
    assert run("rebuild", "events.yaml").status == 0
    check_index(Path("sets/events/1.0.0"))
    write(rows(kinds=("buy", "view")))
    assert run("rebuild", "events.yaml").status == 3
    kept = Path("sets/events/failed/1.0.1")
    check = run("verify", kept)
    assert (check.status, check.err) == (0, "")
    before = index_of(kept)
    assert len(before) == 7
    assert run("accept", "sets/events", "1.0.1", "--reason", "no clicks any more").status == 0
    assert index_of(Path("sets/events/1.0.1")) == before
    check_index(Path("sets/events/1.0.1"))
    os.utime("sets/events/1.0.0/_SUCCESS", (0, 0))
    assert run("retain", "sets/events", "--min_versions", "1", "--max_age", "1d").status == 0
    assert not Path("sets/events/1.0.0").exists()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


def swap(path: Path) -> None:
    first, second, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join((second, first, *others)))


@pytest.mark.parametrize(
    ("name", "damage", "fault"),
    [
        ("n-test.tfrecord-00001-of-00003.idx", Path.unlink, "n-test.tfrecord-00001-of-00003: index/{} is missing"),
        ("n-test.tfrecord-00001-of-00003.idx", cut, "00003: index/{} does not list the positions of its records"),
        ("n-test.tfrecord-00001-of-00003.idx", swap, "00003: index/{} does not list the positions of its records"),
        ("train.npy", Path.unlink, "index/{}: is missing"),
        ("train.npy", cut, "index/{}: is damaged at the positions of n-train.tfrecord-00002-of-00003"),
        ("train.npy", flip, "index/{}: is damaged at the positions of n-train.tfrecord-00002-of-00003"),
        ("index.json", Path.unlink, "index/{}: is missing"),
        ("index.json", cut, "index/{}: has crc32c"),
    ],
)
def test_verify_reports_a_damaged_index(
    copied: Path, run: Run, name: str, damage: Callable[[Path], None], fault: str
) -> None:
    damage(copied / "index" / name)
    result = run("verify", copied)
    assert result.status == 1
    assert fault.format(name) in result.out
    assert "`shardmill index FOLDER` writes a new index" in result.out


def test_an_interrupted_publication_is_completed_with_its_index(
    source: Path, indexed: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("csv", "--input", source, "--output", tmp_path, "--name", "n", *FLAGS, "--index")
    with monkeypatch.context() as patch:
        patch.setattr(storage, "rename", rename_nine)
        assert "stopped; the next run, or `shardmill verify --repair" in run(*flags).err
    assert len(index_of(tmp_path / "n/1.0.0")) == 3  # of eight; the shards were renamed before
    assert run("verify", "--repair", tmp_path / "n/1.0.0").status == 0
    assert contents(tmp_path / "n/1.0.0") == contents(indexed)


def test_an_index_is_added_to_a_version(source: Path, indexed: Path, tmp_path: Path, run: Run) -> None:
    directory = make("csv", source, tmp_path, *FLAGS)
    before = contents(directory)
    result = run("index", tmp_path / "n")
    assert (result.status, result.out) == (0, f"{directory}/index: 400 records in 6 shards\n")
    assert index_of(directory) == index_of(indexed)
    assert {name: data for name, data in contents(directory).items() if not name.startswith("index/")} == before
    assert run("verify", directory).brief.out == "verified: 400 examples in 6 shards, no fault\n"
    (directory / "index/train.npy").unlink()
    assert "index/train.npy: is missing" in run("verify", directory).out
    found = shardmill.index(directory)
    assert (found.directories, found.shards, found.records) == ((str(directory),), 6, 400)
    assert index_of(directory) == index_of(indexed)
    make("csv", source, tmp_path, *FLAGS, "--overwrite")
    assert contents(directory) == before


def test_a_damaged_index_is_written_again(copied: Path, indexed: Path, run: Run) -> None:
    for name in ("index.json", "train.npy", "n-test.tfrecord-00001-of-00003.idx"):
        cut(copied / "index" / name)
    assert run("index", copied).status == 0
    assert contents(copied) == contents(indexed)


@pytest.mark.parametrize("command", ["index of a version", "index of files"])
def test_a_damaged_shard_leaves_the_index_as_it_is(command: str, copied: Path, run: Run) -> None:
    if command == "index of files":
        for path in (copied / "manifest.json", copied / "_SUCCESS", copied.parent / "LATEST"):
            path.unlink()
    flip(copied / "n-train.tfrecord-00001-of-00003")
    before = contents(copied)
    for has_index in (True, False):
        result = run("index", copied)
        assert result.status == 1
        assert "n-train.tfrecord-00001-of-00003: record " in result.err
        assert "fails its checksum" in result.err
        assert contents(copied) == {name: data for name, data in before.items() if has_index or "index" not in name}
        shutil.rmtree(copied / "index", ignore_errors=True)


def test_what_is_no_part_of_an_index_is_deleted(copied: Path, indexed: Path, run: Run) -> None:
    (copied / "index/other.npy").write_bytes(b"of a split that is gone")
    (copied / "index/index.json").unlink()
    assert "index/other.npy: is of an index that is not complete" in run("verify", copied).out
    assert run("index", copied).status == 0
    assert contents(copied) == contents(indexed)


def test_a_version_that_a_job_builds_gets_no_index(source: Path, tmp_path: Path, run: Run) -> None:
    directory = make("csv", source, tmp_path, *FLAGS)
    with lease.hold_lease(str(directory), "beam-temp-n-other", "other"):
        assert run("index", directory).status == 4
    assert not (directory / "index").exists()
    assert not (directory / "LOCK").exists()


@pytest.mark.parametrize("command", ["index of a version", "index of files"])
def test_compressed_shards_get_no_index(command: str, source: Path, tmp_path: Path, run: Run) -> None:
    directory = make("csv", source, tmp_path, *FLAGS, "--compression", "gzip")
    if command == "index of files":
        for path in (directory / "manifest.json", directory / "_SUCCESS", tmp_path / "n/LATEST"):
            path.unlink()
    check_mistake(run("index", directory), "`shardmill reshard --compression none --index`")


def test_files_of_others_get_an_index(indexed: Path, tmp_path: Path, run: Run) -> None:
    shards = sorted(path for path in indexed.iterdir() if "tfrecord" in path.name)
    for number, path in enumerate(shards):
        shutil.copy(path, tmp_path / f"{'train' if number < 3 else 'val'}-{number % 3:05d}-of-00003")
    result = run("index", tmp_path)
    assert (result.status, result.out) == (0, f"{tmp_path}/index: 400 records in 6 shards\n")
    found = read_index(tmp_path)
    assert found is not None
    assert {split: [shard.file[-14:] for shard in index.shards] for split, index in found.items()} == {
        split: [f"0000{n}-of-00003" for n in range(3)] for split in ("train", "validation")
    }
    for path in tmp_path.glob("*-of-*"):
        assert (tmp_path / f"index/{path.name}.idx").read_bytes() == tfrecord2idx(path.read_bytes())
    before = index_of(tmp_path)
    assert run("index", f"{tmp_path}/val-*").status == 0  # the other split is kept
    assert index_of(tmp_path) == before
    (tmp_path / "train-00001-of-00003").unlink()
    assert run("index", f"{tmp_path}/val-*").status == 0
    assert {name for name in index_of(tmp_path) if "train" in name} == set()
    assert len(index_of(tmp_path)) == 5


def test_files_without_a_split_are_of_all(indexed: Path, tmp_path: Path) -> None:
    for path in sorted(indexed.iterdir()):
        if "tfrecord" in path.name:
            shutil.copy(path, tmp_path / f"{len(list(tmp_path.iterdir()))}.tfrecord")
    assert shardmill.index(tmp_path).records == 400
    found = read_index(tmp_path)
    assert found is not None
    assert [len(found[split]) for split in found] == [400]
    assert list(found) == ["all"]


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({}, "is not a data set"),
        ({"a.txt": b"text"}, "is not a data set"),
        ({"a.tfrecord": b"text of more than sixteen bytes"}, "a.tfrecord: record 0 at byte 0 has a length that fails"),
    ],
)
def test_folders_without_records_get_no_index(files: dict[str, bytes], word: str, tmp_path: Path, run: Run) -> None:
    write_files(tmp_path, files)
    result = run("index", tmp_path)
    assert result.status == (1 if "a.tfrecord" in files else 2)
    assert word in result.err
    assert read_index(tmp_path) is None
    assert "there is no such folder" in run("index", tmp_path / "nowhere").err


def test_the_files_of_an_index_are_no_input(indexed: Path, tmp_path: Path, run: Run) -> None:
    for path in indexed.iterdir():
        if "tfrecord" in path.name:
            shutil.copy(path, tmp_path)
    shardmill.index(tmp_path)
    again = make("reshard", tmp_path, tmp_path.with_name("again"))
    assert shardmill.info(again).splits["train"].examples == 400
    assert run("verify", again).status == 0
