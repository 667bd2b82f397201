"""Tests of transforms/publishing/verification.py."""

import gzip
import io
import itertools
import shutil
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import apache_beam as beam
import google_crc32c
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from PIL import Image

from shardmill.data import spans
from shardmill.data.features import Feature
from shardmill.data.tfrecord import OVERHEAD, frame_record
from shardmill.errors import CorruptDataError
from shardmill.filesystem import LocalFiles
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry
from shardmill.pipelines.cli import main
from shardmill.pipelines.jobs.runner import make_runner
from shardmill.reading.dataset import Dataset, open_dataset
from shardmill.transforms.publishing.verification import (
    MAX_RECORD_FAULTS,
    Fault,
    VerifyShards,
    check_example,
    verify_shard,
)
from tests.support.command import image
from tests.support.encoded import encode_example
from tests.support.small_data_set import edit_manifest

FEATURES = (
    Feature("image", "bytes", "image"),
    Feature("label", "int64", "class_label", class_names=("cat", "dog")),
    Feature("box", "float32", shape=(4,)),
    Feature("tags", "bytes", shape=(None,)),
    Feature("note", "bytes", "text", required=False),
)
GOOD: Mapping[str, Any] = {
    "image": [b"x"],
    "label": [1],
    "box": [0.0, 0.0, 1.0, 1.0],
    "tags": [b"a", b"b", b"c"],
    "note": [b"n"],
}


def manifest(features: tuple[Feature, ...] = FEATURES, **configuration: Any) -> Manifest:
    return Manifest("tiny", "1.0.0", "", features, (), configuration=configuration)


def test_good_examples() -> None:
    assert check_example(manifest(), False, encode_example(GOOD)) == []
    without_note = {name: values for name, values in GOOD.items() if name != "note"}
    assert check_example(manifest(), False, encode_example(without_note)) == []
    assert check_example(manifest(), False, encode_example({**GOOD, "tags": np.array([], np.int64)})) == [
        "feature 'tags' holds int64; expected bytes"
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": [2]}, "feature 'label' is 2; expected 0 to 1"),
        ({"label": [-1]}, "feature 'label' is -1; expected 0 to 1"),
        ({"label": [0, 1]}, "feature 'label' holds 2 values; expected 1"),
        ({"label": [1.0]}, "feature 'label' holds float32; expected int64"),
        ({"label": [b"dog"]}, "feature 'label' holds bytes; expected int64"),
        ({"box": [1.0, 2.0, 3.0]}, "feature 'box' holds 3 values; expected 4"),
        ({"box": [1, 2, 3, 4]}, "feature 'box' holds int64; expected float32"),
        ({"note": [b"a", b"b"]}, "feature 'note' holds 2 values; expected 1"),
        ({"image": None}, "has no feature 'image'"),
        ({"tags": None}, "has no feature 'tags'"),
        ({"colour": [1]}, "has a feature 'colour' that the manifest does not know"),
    ],
)
def test_features_that_the_manifest_does_not_describe(change: Mapping[str, Any], message: str) -> None:
    example = {name: values for name, values in {**GOOD, **change}.items() if values is not None}
    assert check_example(manifest(), False, encode_example(example)) == [message]


@pytest.mark.parametrize("record", [b"\xff\xff\xff", b"\x0a\x05abc", encode_example(GOOD)[:-3]])
def test_no_example(record: bytes) -> None:
    (message,) = check_example(manifest(), False, record)
    assert message.startswith("does not parse: ")


def test_decode_looks_at_pixels() -> None:
    of_images = manifest((Feature("image", "bytes", "image"),))
    png = image(0, "PNG")
    damaged = encode_example({"image": [png[:-30]]})
    assert check_example(of_images, True, encode_example({"image": [png]})) == []
    assert check_example(of_images, False, damaged) == []
    (message,) = check_example(of_images, True, damaged)
    assert message == "feature 'image': truncated: the png has no end"
    bmp = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").quantize(16).save(bmp, "BMP")
    (message,) = check_example(of_images, True, encode_example({"image": [bmp.getvalue()]}))
    assert message.startswith("feature 'image': a bmp with a palette, which TensorFlow decodes to wrong colours")
    (message,) = check_example(of_images, True, encode_example({"image": [b"text"]}))
    assert message.startswith("feature 'image': not an image")


def test_decode_refuses_what_the_job_would_have_refused() -> None:
    feature, example = (Feature("image", "bytes", "image"),), encode_example({"image": [image(0, "PNG", (20, 10))]})
    assert check_example(manifest(feature, max_pixels=200), True, example) == []
    (message,) = check_example(manifest(feature, max_pixels=199), True, example)
    assert message == "feature 'image': 20 x 10 pixels are more than the 199 that the data set was made with"


_SHARD = "digits-train.tfrecord-00000-of-00002"
_GZIP_SHARD = "digits-train.tfrecord-00000-of-00001.gz"


def _png(seed: int) -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def _build(folder: Path, *options: str) -> Path:
    for index in range(12):
        path = folder / "tree" / f"class_{index % 3}" / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_png(index))
    arguments = ["images", "--input", str(folder / "tree"), "--output", str(folder), "--name", "digits"]
    assert main([*arguments, *options]) == 0
    return folder / "digits" / "1.0.0"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build(tmp_path_factory.mktemp("plain"), "--num_shards", "2")


@pytest.fixture(scope="module")
def built_gzip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build(tmp_path_factory.mktemp("gzip"), "--num_shards", "1", "--compression", "gzip")


@pytest.fixture
def directory(built: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(built, tmp_path / "copy"))


def _verify(directory: Path, decode: bool = False) -> list[Fault]:
    dataset = open_dataset(str(directory))
    entries = [(split.name, shard) for split in dataset.manifest.splits for shard in split.shards]
    return [fault for split, shard in entries for fault in verify_shard(dataset, split, shard, decode)]


@pytest.mark.parametrize("kind", ["built", "built_gzip"])
@pytest.mark.parametrize("decode", [False, True])
def test_clean(request: pytest.FixtureRequest, kind: str, decode: bool) -> None:
    assert _verify(request.getfixturevalue(kind), decode) == []


def _flipped(data: bytes, offset: int, bit: int = 0) -> bytes:
    return data[:offset] + bytes([data[offset] ^ 1 << bit]) + data[offset + 1 :]


# What is done to a shard, given where each record begins, and what each fault says; {n} is where record n begins
DAMAGE: list[tuple[Callable[[bytes, list[int]], bytes], tuple[str, ...]]] = [
    (lambda data, at: data[:-10], ("has {cut} bytes; the manifest says {size}", "record 5 at byte {5} is cut short")),
    (lambda data, at: data[: at[4]], ("bytes; the manifest says {size}", "holds 4 records; the manifest says 6")),
    (lambda data, at: b"", ("has 0 bytes", "holds 0 records")),
    (lambda data, at: _flipped(data, at[3] + 62, 7), ("has crc32c", "record 3 at byte {3} fails its")),
    (
        lambda data, at: _flipped(data, at[2] + 1),
        ("has crc32c", "record 2 at byte {2} has a length that fails its checksum"),
    ),
    (lambda data, at: _flipped(data, 9), ("has crc32c", "record 0 at byte 0 has a length that fails its checksum")),
    (lambda data, at: _flipped(data, at[1] - 1), ("has crc32c", "record 0 at byte 0 fails its checksum")),
    (
        lambda data, at: b"<html>404: not found</html>",
        ("bytes; the manifest says {size}", "record 0 at byte 0 has a length that fails its checksum"),
    ),
]


@pytest.mark.parametrize("number", range(len(DAMAGE)))
def test_damage(directory: Path, number: int) -> None:
    change, words = DAMAGE[number]
    path, data = directory / _SHARD, (directory / _SHARD).read_bytes()
    dataset = open_dataset(str(directory))
    sizes = [len(record) + OVERHEAD for record in dataset.records(dataset.manifest.split("train").shards[0])]
    at = [0, *itertools.accumulate(sizes)]
    path.write_bytes(change(data, at))
    faults = _verify(directory)
    assert [str(fault).startswith(f"{_SHARD}: ") and "\n" not in str(fault) for fault in faults] == [True] * len(words)
    for fault, said in zip(faults, words, strict=True):
        assert said.format(*at, size=len(data), cut=len(data) - 10) in fault.message


def test_missing_and_not_a_file(directory: Path) -> None:
    (directory / _SHARD).unlink()
    assert _verify(directory) == [Fault(_SHARD, "is missing")]
    (directory / _SHARD).mkdir()
    assert _verify(directory) == [Fault(_SHARD, "cannot be read: Is a directory")]


def test_replaced(directory: Path) -> None:
    """Every record is whole and of the right kind: only the file's checksum or size tells."""
    shutil.copy(directory / "digits-train.tfrecord-00001-of-00002", directory / _SHARD)
    (fault,) = _verify(directory)
    assert (fault.file, "the manifest says" in fault.message) == (_SHARD, True)


def test_counts_and_checksum_of_the_manifest(directory: Path) -> None:
    def edit(content: Any) -> None:
        first, second = content["splits"][0]["shards"]
        first["examples"] += 1
        content["input"]["records"] += 1
        second["crc32c"] = "0000beef"

    edit_manifest(directory, edit)
    first, second = _verify(directory)
    assert first == Fault(_SHARD, "holds 6 records; the manifest says 7")
    assert second.message.endswith("; the manifest says 0000beef")


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "digits-test.tfrecord-00000-of-00002", f"{_SHARD}.gz", "manifest.json"]
)
def test_a_name_that_is_no_shard_of_the_split_is_not_opened(directory: Path, name: str) -> None:
    (directory.parent / "secret").write_bytes(b"secret")
    edit_manifest(directory, lambda content: content["splits"][0]["shards"][0].update(file=name))
    with pytest.raises(CorruptDataError, match=rf"shards\[0\]\.file is .*; expected '{_SHARD}'"):
        _verify(directory)


@pytest.mark.parametrize(
    ("change", "first", "last"),
    [
        (lambda data: data[: len(data) // 2], "bytes; the manifest says", "the gzip stream is damaged after"),
        (lambda data: _flipped(data, len(data) // 2), "has crc32c", ""),
        (gzip.decompress, "", "the gzip stream is damaged after record 0"),
        (lambda data: data + b"garbage", "bytes; the manifest says", "the gzip stream is damaged after record 12"),
    ],
    ids=["cut", "flipped", "not compressed", "garbage"],
)
def test_damage_of_gzip(
    built_gzip: Path, tmp_path: Path, change: Callable[[bytes], bytes], first: str, last: str
) -> None:
    directory = Path(shutil.copytree(built_gzip, tmp_path / "copy"))
    (directory / _GZIP_SHARD).write_bytes(change((directory / _GZIP_SHARD).read_bytes()))
    of_the_file, of_the_stream = _verify(directory)
    assert first in of_the_file.message
    assert last in of_the_stream.message


def _dataset(folder: Path, records: list[bytes], features: tuple[Feature, ...]) -> tuple[Dataset, ShardEntry]:
    """A data set of one shard with these records, whatever they are, and a manifest that agrees in size and
    checksum."""
    data = b"".join(map(frame_record, records))
    shard = ShardEntry(
        "tiny-train.tfrecord-00000-of-00001", len(records), len(data), f"{google_crc32c.value(data):08x}"
    )
    (folder / shard.file).write_bytes(data)
    manifest = Manifest("tiny", "1.0.0", "", features, (SplitEntry("train", (shard,)),), configuration={})
    return Dataset(str(folder), manifest, LocalFiles()), shard


_KINDS = (
    Feature("label", "int64", "class_label", class_names=("cat", "dog")),
    Feature("labels", "int64", "class_label", (None,), required=False, class_names=("cat", "dog", "bee")),
    Feature("box", "float32", "bbox", (4,)),
    Feature("boxes", "float32", "bbox", (None, 4), required=False),
    Feature("array", "bytes", "array", (2, 3), element="int16"),
    Feature("rows", "bytes", "array", (None, 2), required=False, element="float32"),
    Feature("flag", "int64", "bool"),
    Feature("pair", "float32", shape=(2,)),
    Feature("text", "bytes", "text", required=False),
    Feature("words", "bytes", shape=(None,)),
)
_SOUND: Mapping[str, Any] = {
    "label": [1],
    "labels": [0, 2],
    "box": [0.0, 0.0, 0.5, 1.0],
    "boxes": [0.0, 0.0, 0.5, 1.0] * 3,
    "array": [bytes(12)],
    "rows": [bytes(24)],
    "flag": [0],
    "pair": [1.0, np.nan],
    "text": [b"x" * 200],
    "words": [b"a", b"", b"b"],
}
_FAULTY: Mapping[str, list[Any]] = {
    "label": [[2], [-1], [0, 1], [0.5], [b"x"], None],
    "labels": [[0, 3], [5, -7], [1.0], np.array([], np.int64), None],
    "box": [[0.5, 0.0, 0.4, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.5, np.nan], None],
    "boxes": [[0.0] * 7, [0.5, 0.0, 0.4, 1.0] * 2, [1, 2, 3, 4], None],
    "array": [[bytes(11)], [b""], [bytes(12)] * 2, None],
    "rows": [[bytes(20)], [b""], None],
    "flag": [[1, 2], None],
    "pair": [[1.0], None],
    "text": [[b"a", b"b"], [3], None],
    "words": [[1], None],
    "colour": [[1]],
}


def _one_by_one(records: list[bytes]) -> list[str]:
    """What is wrong with each record, found without blocks and columns."""
    checked = ((number, check_example(manifest(_KINDS), False, record)) for number, record in enumerate(records))
    found = [f"record {number}: {message}" for number, messages in checked for message in messages]
    hidden = len(found) - MAX_RECORD_FAULTS
    return found[:MAX_RECORD_FAULTS] + ([f"and {hidden} more faults in its records"] if hidden > 0 else [])


@pytest.mark.parametrize(
    ("name", "values"), [(name, values) for name, faulty in _FAULTY.items() for values in faulty], ids=str
)
@pytest.mark.parametrize("where", [[0], [7], [3, 4, 12], range(13)], ids=str)
def test_a_faulty_record_among_others(tmp_path: Path, name: str, values: Any, where: Sequence[int]) -> None:
    sound = encode_example(_SOUND)
    changed = {name: found for name, found in {**_SOUND, name: values}.items() if found is not None}
    records = [encode_example(changed) if number in where else sound for number in range(13)]
    dataset, shard = _dataset(tmp_path, records, _KINDS)
    expected = _one_by_one(records)
    assert bool(expected) == bool(check_example(manifest(_KINDS), False, encode_example(changed)))
    with ThreadPoolExecutor(2) as pool, pytest.MonkeyPatch.context() as patch:
        for executor, compiled in ((None, True), (pool, True), (None, False)):
            patch.setattr(spans, "COMPILED", compiled)
            found = verify_shard(dataset, "train", shard, False, executor)
            assert [fault.message for fault in found] == expected


def test_records_whose_bytes_were_changed_at_random(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their checksums are right: a program wrote them so."""
    random = Random(3)
    sound = encode_example(_SOUND)
    for _ in range(150):
        records = []
        for _ in range(6):
            record = bytearray(sound)
            for _ in range(random.choice([0, 1, 1, 3])):
                record[random.randrange(len(record))] = random.choice([0, 1, 2, 4, 0x0A, 0x12, 0x1A, 0x80, 0xFF])
            records.append(bytes(record))
        dataset, shard = _dataset(tmp_path, records, _KINDS)
        expected = _one_by_one(records)
        for compiled in (True, False):
            monkeypatch.setattr(spans, "COMPILED", compiled)
            assert [fault.message for fault in verify_shard(dataset, "train", shard, False)] == expected


def test_progress_is_reported(tmp_path: Path) -> None:
    dataset, shard = _dataset(tmp_path, [encode_example(_SOUND)] * 5000, _KINDS)
    reports: list[tuple[int, int]] = []
    assert verify_shard(dataset, "train", shard, False, report=lambda *counts: reports.append(counts)) == []
    assert len(reports) > 3
    assert tuple(map(sum, zip(*reports, strict=True))) == (5000, 5000 * len(encode_example(_SOUND)))


def test_faults_of_records_are_capped(tmp_path: Path) -> None:
    records = [encode_example({"number": [index]}) for index in range(30)]
    dataset, shard = _dataset(tmp_path, records, (Feature("text", "bytes"),))
    faults = [fault.message for fault in verify_shard(dataset, "train", shard, decode=False)]
    assert len(faults) == MAX_RECORD_FAULTS + 1
    assert faults[:3] == [
        "record 0: has no feature 'text'",
        "record 0: has a feature 'number' that the manifest does not know",
        "record 1: has no feature 'text'",
    ]
    assert faults[-1] == "and 40 more faults in its records"


def test_a_damaged_end_does_not_hide_faulty_records_before_it(tmp_path: Path) -> None:
    records = [encode_example({"number": [1]})] * 3 + [b"\xff"] + [encode_example({"number": [1]})] * 3
    dataset, shard = _dataset(tmp_path, records, (Feature("number", "int64"),))
    path = tmp_path / shard.file
    path.write_bytes(_flipped(path.read_bytes(), 5 * (len(records[0]) + OVERHEAD) + 14))
    alone = verify_shard(dataset, "train", shard, decode=False)
    assert ["crc32c" in alone[0].message, *(fault.message.split(" at ")[0] for fault in alone[1:])] == [
        True,
        "record 3: does not parse: not a serialized Example: a varint without end",
        "record 5",
    ]
    with ThreadPoolExecutor(4) as pool:
        assert verify_shard(dataset, "train", shard, False, pool) == alone


def test_size_is_that_of_the_file_however_early_its_records_end(tmp_path: Path) -> None:
    records = [encode_example({"data": [bytes(1000)]})] * 4000
    dataset, shard = _dataset(tmp_path, records, (Feature("data", "bytes"),))
    data = _flipped((tmp_path / shard.file).read_bytes(), 100)
    (tmp_path / shard.file).write_bytes(data)
    assert [fault.message for fault in verify_shard(dataset, "train", shard, decode=False)] == [
        f"has crc32c {google_crc32c.value(data):08x}; the manifest says {shard.crc32c}",
        "record 0 at byte 0 fails its checksum",
    ]


def test_a_shard_is_never_in_memory_whole(tmp_path: Path) -> None:
    size = 100_000
    records = [encode_example({"data": [bytes((index,)) * size]}) for index in range(200)]
    dataset, shard = _dataset(tmp_path, records, (Feature("data", "bytes"),))
    del records
    tracemalloc.start()
    try:
        assert verify_shard(dataset, "train", shard, decode=False) == []
        assert tracemalloc.get_traced_memory()[1] < 50 * size
    finally:
        tracemalloc.stop()


def test_transform_reports_on_every_shard(directory: Path) -> None:
    (directory / _SHARD).unlink()
    dataset = open_dataset(str(directory))
    shards = dataset.manifest.split("train").shards
    with beam.Pipeline(runner=make_runner(PipelineOptions([]))) as pipeline:
        faults = (
            pipeline
            | beam.Create([("train", shard) for shard in shards])
            | VerifyShards(dataset, decode=True, threads=2)
        )
        assert_that(faults, equal_to([(_SHARD, [Fault(_SHARD, "is missing")]), (shards[1].file, [])]))
