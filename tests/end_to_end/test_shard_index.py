"""--index: the positions of records in the version's folder, as DALI reads them, through all that a version meets."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shardmill.data.shard_index import open_indexes
from shardmill.pipelines import cli
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.stores import storage
from tests.support.builds import contents
from tests.support.command import Run, check_mistake, image_tree, tree_bytes, write_files
from tests.support.framed_records import tfrecord2idx
from tests.support.nights import recipe, rows, write
from tests.support.reading import make, make_images

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
    dataset, found = open_dataset(str(directory)), open_indexes(str(directory))
    assert found is not None
    expected = {"index/index.json"}
    for split in dataset.manifest.splits:
        at = 0
        expected.add(f"index/{split.name}.npy")
        for number, shard in enumerate(split.shards):
            data = (directory / shard.file).read_bytes()
            expected.add(f"index/{shard.file}.idx")
            assert (directory / f"index/{shard.file}.idx").read_bytes() == tfrecord2idx(data)
            shards, starts, ends = found[split.name].locate(np.arange(at, at + shard.examples))
            assert set(shards.tolist()) == {number}
            records = [data[start + 12 : end - 4] for start, end in zip(starts, ends, strict=True)]
            assert records == list(dataset.records(shard))
            at += shard.examples
        assert at == len(found[split.name]) == split.examples
    assert set(index_of(directory)) == expected


def test_rows_have_an_index(indexed: Path, source: Path, tmp_path: Path, run: Run) -> None:
    check_index(indexed)
    assert run("verify", indexed).out == "verified: 400 examples in 6 shards, no fault\n"
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


def test_sequences_have_an_index(tmp_path: Path) -> None:
    rows = b"".join(b'{"id": %d, "at": %d}\n' % (number % 9, number) for number in range(90))
    source = write_files(tmp_path / "in", {"rows.jsonl": rows}) / "rows.jsonl"
    check_index(make("jsonl", source, tmp_path / "out", "--sequence_by", "id", "--order_by", "at", "--index"))


def test_a_version_without_an_index_replaces_one_with_it(copied: Path, source: Path, tmp_path: Path) -> None:
    assert make("csv", source, tmp_path, *FLAGS, "--overwrite") == copied
    assert not (copied / "index").exists()
    make("csv", source, tmp_path, *FLAGS, "--overwrite", "--index")
    check_index(copied)


def test_records_that_are_reused_have_the_same_index(tmp_path: Path) -> None:
    files = image_tree(("cat", "dog"), 12)
    write_files(tmp_path / "in", files)
    for name in files:
        os.utime(tmp_path / "in" / name, ns=(10**18, 10**18))
    flags = ("--num_shards", "2", "--index")
    make("images", tmp_path / "in", tmp_path / "out", *flags, "--reuse", "record")
    (tmp_path / "in/cat/003.jpg").unlink()
    arguments = ("images", "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n", *flags)
    for version, reuse in (("2.0.0", "LATEST"), ("3.0.0", "no")):
        assert cli.main([*map(str, arguments), "--version", version, "--reuse", reuse]) == 0
        check_index(tmp_path / "out/n" / version)
    assert index_of(tmp_path / "out/n/2.0.0") == index_of(tmp_path / "out/n/3.0.0")
    assert json.loads((tmp_path / "out/n/builds/2.0.0.json").read_text())["reused"] == 23


def test_gzip_shards_have_no_index(source: Path, tmp_path: Path, run: Run) -> None:
    flags = ("--input", source, "--output", tmp_path, "--name", "n", "--compression", "gzip", "--index")
    check_mistake(run("csv", *flags), "--index contradicts --compression gzip", "--compression none")


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
        ("index.json", cut, "index/{}: is not the list of an index"),
        ("index.json", flip, "index/{}: "),
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


def test_verify_reports_the_index_of_another_build(copied: Path, source: Path, tmp_path: Path, run: Run) -> None:
    other = make("csv", source, tmp_path / "other", *FLAGS, "--index", "--seed", "5")
    shutil.rmtree(copied / "index")
    shutil.copytree(other / "index", copied / "index")
    result = run("verify", copied)
    assert result.status == 1
    assert "index/index.json: lists other shards of split 'train' than the manifest" in result.out


def test_an_interrupted_publication_is_completed_with_its_index(
    source: Path, indexed: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_early(sources: list[str], destinations: list[str], **_: object) -> None:
        for source, destination in zip(sources[:9], destinations, strict=False):
            os.makedirs(os.path.dirname(destination), exist_ok=True)
            os.replace(source, destination)
        raise OSError("stopped")

    flags = ("csv", "--input", source, "--output", tmp_path, "--name", "n", *FLAGS, "--index")
    with monkeypatch.context() as patch:
        patch.setattr(storage, "rename", stop_early)
        assert "stopped; the next run, or `shardmill verify --repair" in run(*flags).err
    assert len(index_of(tmp_path / "n/1.0.0")) == 3  # of eight; the shards were renamed before
    assert run("verify", "--repair", tmp_path / "n/1.0.0").status == 0
    assert contents(tmp_path / "n/1.0.0") == contents(indexed)
