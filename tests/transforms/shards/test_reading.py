"""shardmill.beam.ReadDataset: each record once, in parts of shards; mistakes before the pipeline runs."""

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that

import shardmill
from shardmill.errors import CorruptDataError, UserError
from shardmill.reading.dataset import open_dataset
from shardmill.reading.record_positions import find_index
from shardmill.reading.slices import ShardSlice, select_examples
from shardmill.transforms.shards import reading
from shardmill.transforms.shards.reading import Part, ReadDataset, divide_slice, read_part
from tests.support.command import write_files
from tests.support.reading import by_number, copy, flip, make, make_rows, plain, shards
from tests.support.small_data_set import edit_manifest

FORMS: tuple[reading.As, ...] = ("dicts", "examples", "batches")
_PART = 1000  # bytes: some seven records


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_rows(tmp_path_factory.mktemp("rows"), "--index", "--splits", "train=0.8,test=0.2", "--num_shards", 3)


@pytest.fixture(scope="module")
def without_index(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = copy(indexed, tmp_path_factory.mktemp("bare"))
    shutil.rmtree(directory / "index")
    return directory


@pytest.fixture(scope="module")
def compressed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_rows(tmp_path_factory.mktemp("gz"), "--compression", "gzip", "--num_shards", 2)


def check(pcoll: Any, label: str, compare: Callable[[list[Any]], None]) -> None:
    assert_that(pcoll, compare, label)


def dicts_are(expected: dict[int, Any]) -> Callable[[list[Any]], None]:
    def compare(found: list[Any]) -> None:
        assert by_number(found) == expected

    return compare


def test_each_example_once_in_each_form(
    indexed: Path, without_index: Path, compressed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading.divide_slice, "__defaults__", (_PART,))
    train, few = by_number(shardmill.examples(indexed)), by_number(shardmill.examples(indexed, "train[10:70%]+test"))
    some = by_number(shardmill.examples(indexed, "test", features=["n", "age"]))
    records = sorted(record for path in shards(indexed) for record in read_all(indexed, path))

    def records_are(found: list[bytes]) -> None:
        assert sorted(found) == records

    def batches_are(found: list[pa.RecordBatch]) -> None:
        assert sum(batch.num_rows for batch in found) == len(train)
        rows = [row for batch in found for row in batch.to_pylist()]
        given = [{name: value for name, value in row.items() if value is not None} for row in rows]
        assert {row["n"]: plain(row) for row in given} == train

    with beam.Pipeline() as pipeline:
        for name, folder in (("index", indexed), ("bare", without_index)):
            read = {as_: pipeline | f"{name} {as_}" >> ReadDataset(folder, as_=as_) for as_ in FORMS}
            check(read["dicts"], f"{name}1", dicts_are(train))
            check(read["examples"], f"{name}2", records_are)
            check(read["batches"], f"{name}3", batches_are)
            check(pipeline | f"{name} s" >> ReadDataset(str(folder), "train[10:70%]+test"), f"{name}4", dicts_are(few))
            part = pipeline | f"{name} f" >> ReadDataset(folder, "test", features=["age", "n"])
            check(part, f"{name}5", dicts_are(some))
        found = pipeline | "gzip" >> ReadDataset(compressed.parent, version="1.0.0")
        check(found, "of a version", dicts_are(by_number(shardmill.examples(compressed))))


def read_all(directory: Path, path: Path) -> list[bytes]:
    dataset = open_dataset(directory)
    listed = {shard.file: shard for split in dataset.manifest.splits for shard in split.shards}
    return list(dataset.records(listed[path.name]))


def test_element_types(indexed: Path) -> None:
    pipeline = beam.Pipeline()
    kinds = {as_: (pipeline | as_ >> ReadDataset(indexed, as_=as_)).element_type for as_ in ("examples", "batches")}
    assert kinds == {"examples": bytes, "batches": pa.RecordBatch}
    assert shardmill.beam.ReadDataset is ReadDataset


def test_an_empty_split(tmp_path: Path) -> None:
    lines = write_files(tmp_path, {"a.jsonl": b'{"n": 1}\n'}) / "a.jsonl"
    directory = make("jsonl", lines, tmp_path / "out", "--splits", "train=0.999,test=0.001", "--index")
    assert shardmill.info(directory).splits["test"].examples == 0

    def is_empty(found: list[Any]) -> None:
        assert found == []

    with beam.Pipeline() as pipeline:
        for as_ in ("dicts", "batches"):
            check(pipeline | as_ >> ReadDataset(directory, "test", as_=as_), f"{as_} none", is_empty)


def test_records_without_features(tmp_path: Path) -> None:
    source = make_rows(tmp_path / "rows", "--num_shards", 2)
    make("reshard", source, tmp_path / "raw", "--record_type", "raw")
    directory = tmp_path / "raw" / "n" / "1.0.0"
    expected = sorted(example["record"] for example in shardmill.examples(directory))

    def records_are(found: list[Any]) -> None:
        assert sorted(found) == expected

    with beam.Pipeline() as pipeline:
        dicts = pipeline | "dicts" >> ReadDataset(directory) | "record" >> beam.Map(lambda row: row["record"])
        batches = pipeline | "batches" >> ReadDataset(directory, as_="batches")
        check(dicts, "as dicts", records_are)
        check(batches | beam.FlatMap(lambda batch: batch["record"].to_pylist()), "as batches", records_are)
    with pytest.raises(UserError, match="records without features"):
        _ = beam.Pipeline() | ReadDataset(directory, features=["record"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "tset"}, "has no split 'tset'; it has train, test"),
        ({"split": "train[:200]"}, "reaches beyond the 79 examples"),
        ({"features": ["n", "agee"]}, "has no feature 'agee'; it has "),
        ({"features": "n"}, "features='n' is one string"),
        ({"features": []}, r"features=\[\] selects nothing"),
        ({"features": ["n"], "as_": "examples"}, "an example is read as it is"),
        ({"as_": "tensors"}, "as_='tensors': expected one of 'dicts', 'examples', 'batches'"),
        ({"version": "9.0.0"}, "9.0.0"),
    ],
)
def test_mistakes_are_found_before_the_pipeline_runs(indexed: Path, arguments: dict[str, Any], message: str) -> None:
    folder = indexed.parent if "version" in arguments else indexed
    with pytest.raises(UserError, match=message):
        _ = beam.Pipeline() | ReadDataset(folder, **arguments)


def test_a_missing_data_set(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a data set"):
        _ = beam.Pipeline() | ReadDataset(tmp_path / "nowhere")


def test_the_index_is_of_these_shards(indexed: Path, tmp_path: Path) -> None:
    directory = copy(indexed, tmp_path)
    flip(directory / "index" / "index.json", 30)
    with pytest.raises(CorruptDataError, match=r"index/index\.json is not the file that was written"):
        _ = beam.Pipeline() | ReadDataset(directory)


def test_parts_of_a_shard(indexed: Path) -> None:
    dataset = open_dataset(indexed)
    selection = select_examples(dataset.manifest, "train[5:]")
    places = find_index(dataset, selection.shards)
    assert places is not None
    for piece in selection.slices:
        place = places[piece.shard]
        assert divide_slice((piece, None), 1) == [Part(piece)]
        for part_bytes in (1, 200, _PART, 1 << 20):
            parts = divide_slice((piece, place), part_bytes)
            assert (parts[0].piece.start, parts[-1].piece.stop) == (piece.start, piece.stop)
            assert all(one.piece.stop == other.piece.start for one, other in pairwise(parts))
            found = [record for part in parts for block in read_part(dataset, part) for record in block]
            assert found == [record for block in read_part(dataset, Part(piece)) for record in block]
        one = divide_slice((piece, place), 1)
        assert len(one) == piece.examples
        longer = ShardSlice(piece.shard, piece.start, piece.start + 2)
        with pytest.raises(CorruptDataError, match=f"it has 1 records from record {piece.start} on; expected 2"):
            list(read_part(dataset, one[0]._replace(piece=longer)))
    whole = ShardSlice(selection.shards[1], 0, selection.shards[1].examples)
    assert divide_slice((whole, places[whole.shard])) == [Part(whole)]  # whose checksum is verified, too


def damaged_byte(directory: Path, record: int) -> int:
    """A byte in the payload of a record of the first shard."""
    bounds = np.load(directory / "index" / "train.npy")
    return int(bounds[record]) + 20


@pytest.mark.parametrize("part_bytes", [_PART, 1 << 20])
@pytest.mark.parametrize("as_", FORMS)
def test_damage_names_file_and_record(indexed: Path, tmp_path: Path, part_bytes: int, as_: reading.As) -> None:
    directory = copy(indexed, tmp_path)
    flip(shards(directory)[0], damaged_byte(directory, 20))
    shard = shards(directory)[0].name
    with pytest.raises(CorruptDataError, match=rf"{shard}: record 20 at byte \d+ fails its checksum"):
        read_with_fn(directory, part_bytes, as_)


def read_with_fn(directory: Path, part_bytes: int = _PART, as_: reading.As = "dicts") -> list[Any]:
    """All elements of `train`, as the workers make them of parts."""
    dataset = open_dataset(directory)
    selection = select_examples(dataset.manifest, "train")
    places = find_index(dataset, selection.shards) or {}
    read = reading._ReadFn(dataset, None, as_)
    read.setup()
    parts = [part for piece in selection.slices for part in divide_slice((piece, places.get(piece.shard)), part_bytes)]
    return [element for part in parts for element in read.process(part)]


def test_shards_that_are_missing_cut_short_or_others(indexed: Path, tmp_path: Path) -> None:
    directory = copy(indexed, tmp_path)
    shard = shards(directory)[2]
    data = shard.read_bytes()
    shard.write_bytes(data[:-200])
    with pytest.raises(CorruptDataError, match=f"{shard.name}.*is cut short"):
        read_with_fn(directory)
    shard.write_bytes(shards(directory)[1].read_bytes())
    with pytest.raises(CorruptDataError, match=shard.name):
        read_with_fn(directory)
    shard.unlink()
    for part_bytes in (_PART, 1 << 20):
        with pytest.raises(CorruptDataError, match=f"{shard.name} is missing"):
            read_with_fn(directory, part_bytes)
    (directory / "index" / "train.npy").unlink()
    with pytest.raises(CorruptDataError, match=r"index/train\.npy is missing"):
        read_with_fn(directory)


def test_an_example_that_is_not_as_the_manifest_says(indexed: Path, tmp_path: Path) -> None:
    directory = copy(indexed, tmp_path)

    def change(manifest: Any) -> None:
        pair = next(feature for feature in manifest["features"] if feature["name"] == "pair")
        pair["shape"] = [3]

    edit_manifest(directory, change)
    message = f"{shards(directory)[0].name}: record 0: feature 'pair' has 2 values; expected 3"
    for as_ in ("dicts", "batches"):
        with pytest.raises(CorruptDataError, match=message):
            read_with_fn(directory, as_=as_)


@pytest.mark.slow
def test_worker_processes_share_the_parts(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = by_number(shardmill.examples(indexed))
    flags = ["--direct_running_mode", "multi_processing", "--direct_num_workers", "2"]
    with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
        check(pipeline | ReadDataset(indexed), "all", dicts_are(expected))
