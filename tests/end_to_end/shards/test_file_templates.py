"""--file_template: shards are called so, and everyone finds them: TFDS, our readers, verify, builds after it."""

import json
from pathlib import Path

import pytest

import shardmill
from tests.support.command import Run, image_tree, tree_bytes, write_files, write_old_files
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.reading import make

tfds = Later("tensorflow_datasets")

PLAIN = "{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}"
INDEX = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_INDEX}"
ODD = "{SHARD_INDEX}={NUM_SHARDS}.{SPLIT}"
ROWS = b"n\n" + b"".join(b"%d\n" % number for number in range(60))
FLAGS = ("--splits", "train=0.75,test=0.25", "--num_shards", "3")


def shards(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if "0000" in path.name}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("rows"), {"rows.csv": ROWS}) / "rows.csv"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "first"),
    [(PLAIN, "train-00000-of-00003.tfrecord"), (INDEX, "n-train.tfrecord-00000"), (ODD, "00000=00003.train")],
)
def test_every_reader_finds_the_shards(template: str, first: str, rows: Path, tmp_path: Path, run: Run) -> None:
    directory = make("csv", rows, tmp_path, *FLAGS, "--file_template", template)
    plain = make("csv", rows, tmp_path / "plain", *FLAGS)
    builder = tfds.builder_from_directory(str(directory))
    found = {
        split: [int(example["n"]) for example in tfds.as_numpy(builder.as_dataset(split=split))]
        for split in ("train", "test")
    }

    assert first in shards(directory)
    assert len(shards(directory)) == 6
    # The same bytes in the same order as by the usual names
    by_name = [sorted(path.read_bytes() for path in where.glob("*0000*")) for where in (directory, plain)]
    assert by_name[0] == by_name[1]
    assert sorted(found["train"] + found["test"]) == list(range(60))
    for split, numbers in found.items():
        assert sorted(example["n"] for example in shardmill.examples(directory, split=split)) == sorted(numbers)
        loaded = shardmill.load(directory, split=split, batch_size=7)
        assert sorted(int(n) for batch in loaded for n in batch) == sorted(numbers)
    assert builder.info.splits["train"].num_shards == 3
    assert sum(1 for _ in builder.as_dataset(split="train[5:9]")) == 4
    assert run("verify", directory).status == 0
    assert run("inspect", directory).status == 0
    named = directory if "{FILEFORMAT}" in template else directory / "0*"  # a folder is searched by the ends of names
    again = make("reshard", named, tmp_path / "again", "--num_shards", "2")
    splits = shardmill.info(again).splits  # a folder of a data set keeps its own
    assert set(splits) == ({"train", "test"} if named == directory else {"train"})
    numbers = [example["n"] for split in splits for example in shardmill.examples(again, split=split)]
    assert sorted(numbers) == list(range(60))


def test_verify_tells_a_shard_that_is_too_many(rows: Path, tmp_path: Path, run: Run) -> None:
    directory = make("csv", rows, tmp_path, *FLAGS, "--file_template", PLAIN)
    for name in ("train-00000-of-00009.tfrecord", "n-train.tfrecord-00000-of-00009"):
        (directory / name).write_bytes(b"")

    done = run("verify", directory)

    assert done.status == 1
    assert done.out.count("is a shard that the manifest does not list") == 2


def test_an_overwritten_version_leaves_none_of_its_shards(rows: Path, jobs: Jobs, run: Run) -> None:
    for template in (ODD, "", PLAIN):
        again = ("--file_template", template) if template else ()
        made = jobs.build(f"csv --overwrite --input {rows}", *FLAGS, *again)
        assert len(shards(made.directory)) == 6
        assert run("verify", made.directory).status == 0


def test_the_next_build_takes_files_from_one_whose_shards_are_called_otherwise(jobs: Jobs, run: Run) -> None:
    write_old_files(jobs.folder / "in", image_tree(("cat", "dog"), 6))
    jobs.build("images --reuse LATEST", "--file_template", PLAIN)
    write_old_files(jobs.folder / "in", {"cat/new.jpg": next(iter(image_tree(("x",), 1).values()))})
    again = jobs.build("images --reuse LATEST --version 1.0.1", "--file_template", INDEX)
    fresh = jobs.build("images --output fresh --version 1.0.1", "--file_template", INDEX)

    record = json.loads((again.directory.parent / "builds/1.0.1.json").read_text())
    assert (record["reused"], record["read"]) == (12, 1)
    found, expected = (
        {name: data for name, data in tree_bytes(made.directory).items() if "0000" in name} for made in (again, fresh)
    )
    assert found == expected
    assert run("verify", again.directory).status == 0


def test_gzip_has_its_suffix_behind_it(rows: Path, jobs: Jobs) -> None:
    made = jobs.build(f"csv --num_shards 1 --compression gzip --input {rows}", "--file_template", PLAIN)
    assert shards(made.directory) == {"train-00000-of-00001.tfrecord.gz"}
    assert "train-*-of-*.tfrecord.gz" in made.said
    assert sorted(example["n"] for example in made.examples()) == list(range(60))
