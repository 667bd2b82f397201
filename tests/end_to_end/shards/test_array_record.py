"""--file_format array_record: other libraries read the folder, and so does every reader and command of shardmill."""

import json
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import shardmill
from shardmill.data.shard_index import INDEX_FOLDER
from shardmill.errors import UserError
from shardmill.filesystem import LocalFiles
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run, check_mistake, image_tree, tree_bytes, write_files
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.nights import recipe, rows, write
from tests.support.reading import FILLS, by_number, make_images, make_rows

tfds = Later("tensorflow_datasets")
ARRAY_RECORD = ("--file_format", "array_record")
FLAGS = ("--splits", "train=0.8,test=0.2", "--num_shards", "2")
Pair = tuple[Path, Path]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """One data set of images in TFRecord and in ArrayRecord shards."""
    folder = tmp_path_factory.mktemp("pictures")
    return make_images(folder / "t", *FLAGS), make_images(folder / "a", *FLAGS, *ARRAY_RECORD)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """One data set of rows in TFRecord and in ArrayRecord shards."""
    folder = tmp_path_factory.mktemp("tables")
    return make_rows(folder / "t", *FLAGS), make_rows(folder / "a", *FLAGS, *ARRAY_RECORD)


def shards(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.array_record-*"))


@pytest.mark.slow
def test_tfds_and_grain_read_the_folder(pictures: Pair) -> None:
    from array_record.python.array_record_data_source import ArrayRecordDataSource  # which Grain exports

    builders = [tfds.builder_from_directory(str(directory)) for directory in pictures]
    undecoded = {"image": tfds.decode.SkipDecoding()}  # Pillow decodes for the one, and TensorFlow for the other
    assert builders[1].as_data_source(split="test")[0]["image"].ndim == 3
    for split in ("train", "test"):
        names = [f"n-{split}.array_record-{number:05d}-of-00002" for number in range(2)]
        found = builders[1].as_data_source(split=split, decoders=undecoded)
        in_order = tfds.ReadConfig(interleave_cycle_length=1)
        dataset = builders[0].as_dataset(split=split, decoders=undecoded, read_config=in_order)
        expected = list(tfds.as_numpy(dataset))
        assert len(found) == len(expected) == builders[1].info.splits[split].num_examples > 0
        for one, other in zip(found, expected, strict=True):
            assert one == other
        source = ArrayRecordDataSource([str(pictures[1] / name) for name in names])
        old = open_dataset(str(pictures[0]))
        records = [record for shard in old.manifest.split(split).shards for record in old.records(shard)]
        assert [source[number] for number in range(len(source))] == records


def test_neither_workers_nor_threads_show(tables: Pair, tmp_path: Path) -> None:
    workers = ("--direct_num_workers", 2, "--threads", 3)
    shutil.copy(tables[1].parents[2] / "rows.jsonl", tmp_path)
    again = make_rows(tmp_path, *FLAGS, *ARRAY_RECORD, *workers)

    found, expected = tree_bytes(again), tree_bytes(tables[1])
    assert found.keys() == expected.keys()
    different = {name for name in found if found[name] != expected[name]}
    assert different <= {"manifest.json", "_SUCCESS", "dataset_info.json"}  # which name the input


@pytest.mark.slow
def test_every_reader_reads_what_is_in_tfrecords(tables: Pair) -> None:
    old, new = tables
    assert (shardmill.info(new).file_format, shardmill.info(old).file_format) == ("array_record", "tfrecord")
    for split in ("train", "test", "train[3:40]"):
        expected = list(map(repr, shardmill.examples(old, split)))
        assert list(map(repr, shardmill.examples(new, split))) == expected
        source = shardmill.source(new, split)
        assert list(map(repr, source)) == list(map(repr, source[:])) == expected
        numbers = list(range(len(expected)))[::-1] * 3
        with ThreadPoolExecutor(8) as pool:
            assert [repr(one) for one in pool.map(source.__getitem__, numbers)] == expected[::-1] * 3
        assert repr(pickle.loads(pickle.dumps(source))[-1]) == expected[-1]
        loaded = [shardmill.load(path, split, shuffle=False, defaults=FILLS, supervised=False) for path in tables]
        assert by_number(loaded[0].as_numpy_iterator()) == by_number(loaded[1].as_numpy_iterator())
    assert not (new / INDEX_FOLDER).exists()
    shuffled = shardmill.load(new, "train", shuffle=True, batch_size=7, defaults=FILLS, supervised=False)
    assert sum(len(batch["n"]) for batch in shuffled) == shardmill.info(new).splits["train"].examples


def test_commands_read_it(tables: Pair, pictures: Pair, run: Run, tmp_path: Path) -> None:
    for directory in (tables[1], pictures[1]):
        done = run("verify", directory, "--decode")
        assert (done.status, done.err) == (0, "")
        assert "no fault" in done.out
    assert run("inspect", pictures[1], "--contact_sheet", tmp_path / "sheet.jpg").status == 0
    assert run("diff", tables[0], tables[1]).status == 0
    check_mistake(run("index", tables[1]), "array_record shards, which have an index at their end: shardmill.source")
    check_mistake(run("index", f"{tables[1]}/*-0*"), "is an ArrayRecord file, which has an index at its end")


def test_reshard_reads_and_writes_it(tables: Pair, run: Run, tmp_path: Path) -> None:
    made = []
    for name, source, more in (
        ("t", tables[0], ()),
        ("a", tables[1], ()),
        ("files", f"{tables[1]}/n-*", ()),
        ("both", tables[1], (*ARRAY_RECORD, "--file_template", "{SPLIT}-{SHARD_X_OF_Y}")),
        ("unnamed", tmp_path / "both/n/1.0.0", ()),
    ):
        words = ("reshard", "--input", source, "--output", tmp_path / name, "--name", "n", "--num_shards", 1, *more)
        assert run(*words).status == 0, name
        made.append({path.name: path.read_bytes() for path in (tmp_path / name).rglob("*-of-*")})
    assert len(made[0]) == 2
    assert made[1] == made[0]
    assert made[2].keys() == {"n-train.tfrecord-00000-of-00001"}  # files without a manifest have no splits
    assert made[4] == made[0]
    assert made[3].keys() == {"train-00000-of-00001", "test-00000-of-00001"}


def test_flags_that_contradict_it(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"a.csv": "n\n1\n2\n"}
    line = "csv --file_format array_record"
    jobs.refuse(f"{line} --compression gzip", "--compression gzip contradicts --file_format array_record", files=files)
    jobs.refuse(f"{line} --index", "--index contradicts --file_format array_record")
    jobs.refuse("csv --file_format parquet", "--file_format parquet: expected one of tfrecord, array_record")
    monkeypatch.setattr("shardmill.transforms.options.job_options.find_spec", lambda name: None)
    jobs.refuse(line, "--file_format array_record needs the library array_record; …[array_record]")
    assert jobs.build("csv --file_format tfrecord").manifest.file_format == "tfrecord"


@pytest.mark.slow
def test_readers_that_need_others(tables: Pair, tmp_path: Path) -> None:
    store = type("Store", (), {"open": LocalFiles().open, "exists": LocalFiles().exists})()
    with pytest.raises(UserError, match=r"has ArrayRecord shards, of which any record is read only on a local disk"):
        shardmill.source(tables[1], files=store)
    assert len(list(shardmill.examples(tables[1], files=store))) == len(list(shardmill.examples(tables[0])))
    with pytest.raises(UserError, match=r"cache_dir is for TFRecord shards"):
        shardmill.source(tables[1], cache_dir=tmp_path)
    with pytest.raises(UserError, match=r"array_record shards, which TensorFlow does not read; `shardmill reshard`"):
        shardmill.load(tables[1], data_service=True, defaults=FILLS)


def test_nights_and_reuse(jobs: Jobs, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(jobs.folder)
    Path("in").mkdir(exist_ok=True)
    write(rows())
    recipe("  file_format: array_record\n  num_shards: 2\n")
    assert run("rebuild", "events.yaml").status == 0
    write(rows(900))
    assert run("rebuild", "events.yaml").status == 0
    assert len(shards(Path("sets/events/1.0.1"))) == 4
    again = run("rebuild", "events.yaml")
    assert (again.status, Path("sets/events/1.0.2").exists()) == (0, False)
    shutil.rmtree("in")
    write_files(Path("in"), image_tree(("cat", "dog"), 3))
    jobs.build("images --reuse record --file_format array_record")
    said = jobs.build("images --reuse LATEST --file_format array_record --version 1.0.1").said
    assert "the shards of 1.0.0 are array_record, in which a record has no place of its own" in said
    record = json.loads(Path("out/n/builds/1.0.1.json").read_text())
    assert (record["reused"], record["read"]) == (0, 6)
