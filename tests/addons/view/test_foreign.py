"""TFRecord files of others: what `inspect`, `verify` and readers make of them, without a manifest."""

import gzip
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.addons.view.files import Damage, RecordFile
from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystem import LocalFiles
from tests.support.command import Run, check_mistake
from tests.support.encoded import encode_example
from tests.support.later import Later
from tests.support.record_files import trip, write_records

tf = Later("tensorflow")


# What `inspect` has to say of each layout
SAID = {
    "od": [
        "12 records",
        "JPEG 64 x 48",
        "class id of 3",
        "cat 67%, dog 33%",
        "edges of boxes",
        "FixedLenFeature([], tf.int64)",
    ],
    "tfx": ["25 records (test 5, train 20)", "gzip", "compression_type='GZIP'", "0 to 24"],
    "zlib": ["20 records", "zlib", "compression_type='ZLIB'", "shardmill.examples("],
    "spark": ["20 records", "not compressed", "company", "RaggedFeature(tf.string)"],
    "videos": [
        "6 records: tf.train.SequenceExample",
        "rgb (each step)",
        "1 in each of 4 to 6 steps",
        "--record_type raw",
    ],
    "cars": ["4 records: records of an unknown kind", "by number: 1: ", "6: number", "--record_type raw"],
    "tensors": ["5 records: tensors (tf.io.serialize_tensor)", "serialized tensor float32[3, 4]"],
    "hostile": ["<script>alert(1)</script>", r"\x1b[31mred", r"\u202eevil"],
    "one": ["1 record: tf.train.Example", "Cash"],
    "zero": ["0 records", "no damaged place"],
    "bad.tfrecord": ["1 damaged place", "record 1 at byte", "fails its checksum", "JPEG"],
    "cut.tfrecord": ["1 damaged place", "is cut short"],
    "lfs.tfrecord": ["0 records", "is no record: the file begins as pointers of Git LFS"],
}


@pytest.mark.parametrize("layout", SAID)
def test_inspect_says_what_is_in_it(layouts: Path, layout: str, run: Run) -> None:
    result = run("inspect", layouts / layout)

    assert result.status == (1 if "1 damaged place" in result.out else 0)
    for words in SAID[layout]:
        assert words in result.out, words
    assert "\x1b" not in result.out


def test_inspect_as_json(layouts: Path, run: Run) -> None:
    content = json.loads(run("inspect", layouts / "bad.tfrecord", "--json", "--all").out)

    assert (content["records"], content["complete"], content["looked_at"]) == (5, True, 5)
    assert content["damaged"][0]["number"] == 1
    assert content["features"][0]["looks_like"] == "JPEG 64 x 48"


def test_several_paths_and_globs_are_one_input(layouts: Path, run: Run) -> None:
    by_glob = run("inspect", f"{layouts}/od/*record*", "--examples", 0)
    by_name = run("inspect", *sorted((layouts / "od").glob("*record*")), "--examples", 0)

    assert "12 records" in by_glob.out
    assert "12 records" in by_name.out
    assert len(shardmill.source([str(path) for path in sorted((layouts / "od").glob("*record*"))])) == 12


def test_a_contact_sheet_of_files(layouts: Path, tmp_path: Path, run: Run) -> None:
    assert run("inspect", layouts / "od", "--contact_sheet", tmp_path / "sheet.png").status == 0
    assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("layout", "status", "words"),
    [
        ("od", 0, "verified: 12 examples in 2 shards, no fault"),
        ("tfx", 0, "verified: 25 examples in 2 shards"),
        ("zlib", 0, "verified: 20"),
        ("videos", 0, "verified: 6"),
        ("cars", 0, "verified: 4"),
        ("zero", 0, "verified: 0"),
        ("bad.tfrecord", 1, "bad.tfrecord: record 1 at byte"),
        ("cut.tfrecord", 1, "is cut short"),
        ("lfs.tfrecord", 1, "pointers of Git LFS"),
    ],
)
def test_verify_reads_every_record(layouts: Path, layout: str, status: int, words: str) -> None:
    result = shardmill.verify(layouts / layout)

    assert result.ok is (status == 0)
    assert words in repr(result)


def test_verify_finds_messages_of_another_kind_and_damaged_images(tmp_path: Path) -> None:
    records = [trip(1), b"\x0a\x03abc", encode_example({"image": [b"\xff\xd8\xff" + bytes(90)]})]
    path = write_records(tmp_path / "a.tfrecord", records)

    assert [fault.message for fault in shardmill.verify(path).faults] == [
        "record 1 is no such message; expected a tf.train.Example"
    ]
    assert "feature 'image' holds an image that does not decode" in repr(shardmill.verify(path, decode=True))


def test_verify_goes_on_after_each_damaged_record(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord", [trip(number) for number in range(50)])
    data = bytearray(path.read_bytes())
    size = len(data) // 50
    for number in (3, 17, 49):
        data[number * size + 20] ^= 1
    path.write_bytes(data)

    assert [fault.message.partition(" at")[0] for fault in shardmill.verify(path).faults] == [
        "record 3", "record 17", "record 49"
    ]  # fmt: skip


def test_readers_take_files_without_a_manifest(layouts: Path) -> None:
    source = shardmill.source(layouts / "od", "train")

    assert (len(source), source[5]["image/filename"], source[-1]["image/height"]) == (12, b"5.jpg", 48)
    assert source[7]["image/object/class/label"].tolist() == [1]
    assert [example["miles"] for example in shardmill.examples(layouts / "tfx", "test")] == [20, 21, 22, 23, 24]
    assert len(list(shardmill.examples(layouts / "zlib", "all"))) == 20
    assert len(next(iter(shardmill.examples(layouts / "videos", "all")))["record"]) > 128
    assert shardmill.info(layouts / "od").features["image/object/class/label"].class_names[1] == "cat"
    with pytest.raises(UserError, match="gzip"):
        shardmill.source(layouts / "tfx", "test")
    with pytest.raises(CorruptDataError, match="record 1 at byte"):
        shardmill.source(layouts / "bad.tfrecord", "all")


def test_an_index_spares_reading_all(layouts: Path, tmp_path: Path) -> None:
    path = write_records(tmp_path / "some.tfrecord", [trip(number) for number in range(9)])
    shardmill.index(path)

    assert (tmp_path / "index/index.json").exists()
    assert shardmill.source(path, "all")[8]["miles"] == 8


def test_folders_of_ours_stay_ours(tmp_path: Path) -> None:
    write_records(tmp_path / "d/1.0.0/d-train.tfrecord-00000-of-00001", [trip(1)])
    (tmp_path / "d/1.0.0/_PUBLISHING").touch()

    with pytest.raises(UserError, match="interrupted"):
        shardmill.info(tmp_path / "d/1.0.0")
    with pytest.raises(UserError, match="there is no such folder"):
        shardmill.inspect(tmp_path / "none")


def test_no_files_at_several_paths_is_a_mistake(tmp_path: Path, run: Run) -> None:
    check_mistake(run("inspect", tmp_path / "a", tmp_path / "b"), "no TFRecord files there")


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_any_record_is_read_by_its_number(tmp_path: Path, compress: type[bytes]) -> None:
    records = [np.random.default_rng(number).bytes(20_000) for number in range(200)]
    path = write_records(tmp_path / "a", records, compress)
    file = RecordFile(str(path), "all", LocalFiles()).probe()

    assert file.read(150, 2) == records[150:152]
    assert file.read(3, 1) == records[3:4]
    assert file.read(199, 5) == records[199:]
    assert [len(item.block) > 0 for item in file.scan() if not isinstance(item, Damage)]
    assert (file.count, file.read(42, 1)) == (200, records[42:43])
    assert len(file.marks) > 5


def test_the_sample_of_a_large_file_is_a_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.addons.view.inspection.SAMPLE_BYTES", {False: 1 << 20, True: 1 << 20})
    write_records(tmp_path / "a.tfrecord", [encode_example({"x": [bytes(3000)]}) for _ in range(1000)])

    text = shardmill.inspect(tmp_path / "a.tfrecord").text
    assert "about 1,000 records" in text
    assert "--all reads everything" in text
    assert "1,000 records" in shardmill.inspect(tmp_path / "a.tfrecord", all=True).text


def test_missing_shards_of_tfds_are_said(tmp_path: Path) -> None:
    write_records(tmp_path / "x-train.tfrecord-00000-of-00002", [trip(1)])
    entry = {
        "name": "train",
        "shardLengths": ["1", "1"],
        "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
    }
    (tmp_path / "dataset_info.json").write_text(json.dumps({"name": "x", "splits": [entry], "fileFormat": "tfrecord"}))
    (tmp_path / "features.json").write_text(json.dumps({"featuresDict": {"features": {}}}))

    assert "is missing" in shardmill.inspect(tmp_path).text
    assert not shardmill.verify(tmp_path).ok


@pytest.mark.tensorflow
def test_the_printed_code_reads_the_records(layouts: Path) -> None:
    for layout, count in (("od", 12), ("tfx", 5), ("zlib", 20), ("spark", 20), ("videos", 6)):
        found = shardmill.inspect(layouts / layout).content["code"]
        values: dict[str, Any] = {}
        exec("\n".join(line for line in found if not line.startswith("shardmill reshard")), values)
        batches = list(values["examples"])
        if layout == "videos":
            assert len(batches) == count
        else:
            read = values.get("source")
            assert read is None or len(read) == count


def test_the_printed_command_makes_a_data_set(
    layouts: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for layout, count in (("od", 12), ("videos", 6)):
        command = shlex.split(shardmill.inspect(layouts / layout).content["code"][-1])
        command[command.index("--output") + 1] = str(tmp_path)
        assert run(*command[1:]).status == 0
        assert sum(split.examples for split in shardmill.info(tmp_path / layout).splits.values()) == count
