"""Slices of splits: they select what TFDS selects, and TFDS reads the same examples."""

import itertools
import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import shardmill
from shardmill.data.features import Feature
from shardmill.data.shard_index import INDEX_FOLDER
from shardmill.data.tfrecord import frame_record
from shardmill.errors import CorruptDataError, UserError
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry
from shardmill.reading import tensor_dataset
from shardmill.reading.slices import select_examples
from tests.support.later import Later
from tests.support.reading import CountedFiles, copy, flip, make, make_rows, shards

tf, tfds = Later("tensorflow"), Later("tensorflow_datasets")

LENGTHS = {"train": [7, 0, 30, 3], "test": [12], "empty": [0]}


def make_manifest(lengths: dict[str, list[int]]) -> Manifest:
    splits = [
        SplitEntry(name, tuple(ShardEntry(f"{name}-{index}", size, 1, "") for index, size in enumerate(sizes)))
        for name, sizes in lengths.items()
    ]
    return Manifest("d", "1.0.0", "", (Feature("a", "bytes"),), tuple(splits))


def select_with_tfds(lengths: dict[str, list[int]], text: str) -> list[tuple[str, int, int]] | None:
    """The slices that TFDS reads for a text; None if it refuses it, or reads nothing."""
    template = tfds.core.ShardedFileTemplate(dataset_name="d", data_dir="/d", filetype_suffix="tfrecord")
    infos = [
        tfds.core.SplitInfo(name=name, shard_lengths=sizes, num_bytes=1, filename_template=template.replace(split=name))
        for name, sizes in lengths.items()
    ]
    try:
        found = tfds.core.splits.SplitDict(infos)[text].file_instructions
    except (ValueError, NotImplementedError):
        return None
    selected = []
    for one in found:
        name, index = Path(one.filename).name.split(".")[0].removeprefix("d-"), int(one.filename.split("-")[-3])
        stop = one.examples_in_shard if one.take == -1 else one.skip + one.take
        selected.append((f"{name}-{index}", one.skip, stop))
    if any(start > stop for _, start, stop in selected):  # `train[5:3]` in one shard takes a negative number
        return None
    return selected or None


boundaries = st.one_of(
    st.just(""),
    st.integers(-60, 60).map(str),
    st.integers(-110, 110).map("{}%".format),
    st.floats(-101, 101).map("{:.2f}%".format),
    st.integers(-5, 5).map("{}shard".format),
    st.sampled_from(["1_0", "1.5", ".", "_", "-", "5%%", "x", "--1", "0", "100%", "99.999%", "1e1%"]),
)
selectors = st.one_of(
    st.just(""), st.lists(boundaries, min_size=1, max_size=3).map(lambda parts: f"[{':'.join(parts)}]")
)
terms = st.tuples(st.sampled_from(["train", "test", "empty", "all", "dev", "", "a b"]), selectors).map("".join)


@pytest.mark.slow
@given(st.lists(terms, min_size=1, max_size=3).map("+".join))
@example("train [:5]")
@example("train[:5] + test")
@example(" train[:5]")
@example("train[:5]+")
@example("train+train[1:0]")
@example("train[[1:]]")
@example("train[50%:]+train[:50%]")
@example("train[-10%:]")
@example("train[:2shard]")
@example("train[1shard]")
@example("train[0shard]")
@example("train[10%:30]")
@example("all")
@example("empty")
def test_the_same_examples_as_tfds(text: str) -> None:
    expected = select_with_tfds(LENGTHS, text)
    try:
        slices = select_examples(make_manifest(LENGTHS), text).slices
    except UserError as error:
        if "before it begins" in str(error):  # TFDS leaves such a part of a sum out without a word
            return
        slices = ()
        refused = True
    else:
        refused = False
    assert [(piece.shard.file, piece.start, piece.stop) for piece in slices if piece.examples] == (expected or [])
    assert not (refused and expected)


def count(manifest: Manifest, text: str) -> int:
    try:
        return select_examples(manifest, text).examples
    except UserError as error:
        if "selects no example" not in str(error):
            raise
        return 0


@given(st.lists(st.integers(0, 9), max_size=5), st.integers(0, 100), st.integers(0, 100))
def test_percentages_divide_a_split(sizes: list[int], first: int, second: int) -> None:
    low, high = sorted([first, second])
    manifest = make_manifest({"train": sizes})

    counts = [count(manifest, f"train[{part}]") for part in (f":{low}%", f"{low}%:{high}%", f"{high}%:")]

    assert sum(counts) == sum(sizes)


def test_one_shard_of_a_split() -> None:
    assert [count(make_manifest(LENGTHS), f"train[{number}shard]") for number in (0, 2, 3)] == [7, 30, 3]


def numbers(examples: Any) -> list[int]:
    return [int(found["n"]) for found in examples]


SPLITS = ["train[25:60]", "train[33%:66%]+test[:3]", "all"]


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_tfds_reads_the_same(rows_in_two_splits: Path, split: str) -> None:
    serial = tfds.ReadConfig(interleave_cycle_length=1)
    builder = tfds.builder_from_directory(str(rows_in_two_splits))
    expected = numbers(builder.as_dataset(split=split, read_config=serial).as_numpy_iterator())

    assert numbers(shardmill.examples(rows_in_two_splits, split)) == expected
    loaded = shardmill.load(rows_in_two_splits, split, features=["n"], supervised=False, shuffle=False)
    assert [int(n) for n in loaded.as_numpy_iterator()] == expected
    assert int(loaded.cardinality()) == len(expected)


@pytest.mark.slow
def test_gzip_shards(rows_of_each_compression: Path) -> None:
    everything = numbers(shardmill.examples(rows_of_each_compression))
    for split, expected in (("train[10%:30%]", everything[10:30]), ("train[-26:-1]", everything[-26:-1])):
        assert numbers(shardmill.examples(rows_of_each_compression, split)) == expected
        loaded = shardmill.load(rows_of_each_compression, split, features=["n"], supervised=False)
        assert sorted(int(n) for n in loaded.as_numpy_iterator()) == sorted(expected)


@pytest.mark.slow
@pytest.mark.parametrize("equal_parts", [True, False])
def test_workers_share_a_slice(rows_in_four_shards: Path, equal_parts: bool) -> None:
    everything = numbers(shardmill.examples(rows_in_four_shards, "train[13:80]"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = [{"num_workers": 3, "worker_index": worker, "equal_parts": equal_parts} for worker in range(3)]
        parts = [numbers(shardmill.examples(rows_in_four_shards, "train[13:80]", **own)) for own in options]  # type: ignore[arg-type]
        shuffled = [
            numbers(shardmill.examples(rows_in_four_shards, "train[13:80]", shuffle_buffer_size=5, seed=1, **own))  # type: ignore[arg-type]
            for own in options
        ]
        loaded = [
            shardmill.load(rows_in_four_shards, "train[13:80]", features=["n"], supervised=False, **own)  # type: ignore[arg-type]
            for own in options
        ]
    assert sorted(itertools.chain(*parts)) == sorted(itertools.chain(*shuffled)) == sorted(everything)
    assert sorted(int(n) for part in loaded for n in part.as_numpy_iterator()) == sorted(everything)


@pytest.mark.slow
def test_a_slice_twice_and_out_of_order(rows_in_four_shards: Path) -> None:
    everything = numbers(shardmill.examples(rows_in_four_shards))
    split = "train[50%:]+train[:50%]+train[:2]"
    assert numbers(shardmill.examples(rows_in_four_shards, split)) == everything[50:] + everything[:50] + everything[:2]
    loaded = shardmill.load(rows_in_four_shards, split, features=["n"], supervised=False, verify=True)
    assert sorted(int(n) for n in loaded.as_numpy_iterator()) == sorted([*everything, *everything[:2]])


@pytest.mark.slow
def test_slices_of_train_are_shuffled(rows_in_two_splits: Path) -> None:
    def read(split: str) -> list[int]:
        dataset = shardmill.load(rows_in_two_splits, split, features=["n"], supervised=False)
        return [int(n) for n in dataset.as_numpy_iterator()]

    assert read("train[:40]") != numbers(shardmill.examples(rows_in_two_splits, "train[:40]"))
    assert read("train[:40]+test") == numbers(shardmill.examples(rows_in_two_splits, "train[:40]+test"))


@pytest.mark.slow
def test_sizes_of_images_of_several_splits(flowers_in_four_shards: Path) -> None:
    with pytest.raises(UserError, match=r"images of split 'train\[:8\]\+train' cannot be batched: their heights are"):
        shardmill.load(flowers_in_four_shards, "train[:8]+train", 4)
    (batch, _) = next(iter(shardmill.load(flowers_in_four_shards, "train[:8]+train", 4, (8, 8))))
    assert batch.shape == (4, 8, 8, 3)


def test_damage_inside_and_behind_a_slice(rows_in_four_shards: Path, tmp_path: Path) -> None:
    directory = copy(rows_in_four_shards, tmp_path)
    flip(shards(directory)[1], -5)  # the last record of the second shard
    assert len(list(shardmill.examples(directory, "train[:25]"))) == 25
    for split in ("train[:50]", "train[26:]"):
        with pytest.raises(CorruptDataError, match=r"00001-of-00004: record 24 at byte .* fails its checksum"):
            list(shardmill.examples(directory, split))


def test_reading_ends_with_the_slice(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    records = [bytes([number]) * 300_000 for number in range(3)]
    (tmp_path / "in/x.tfrecord").write_bytes(b"".join(map(frame_record, records)))
    directory = make("reshard", tmp_path / "in", tmp_path / "out", "--record_type", "raw", "--num_shards", 1)
    flip(shards(directory)[0], -5)
    assert len(list(shardmill.examples(directory, "train[:1]"))) == 1
    with pytest.raises(CorruptDataError, match="record 2"):
        list(shardmill.examples(directory, "train[1:]"))


@pytest.mark.slow
def test_a_shard_that_disappears_while_others_are_read(rows_in_four_shards: Path, tmp_path: Path) -> None:
    directory = copy(rows_in_four_shards, tmp_path)
    stream = shardmill.examples(directory)
    loaded = shardmill.load(directory, features=["n"], supervised=False, shuffle=False)
    next(stream)
    shards(directory)[3].unlink()
    with pytest.raises(CorruptDataError, match="00003-of-00004 is missing"):
        list(stream)
    with pytest.raises(tf.errors.InvalidArgumentError, match="00003-of-00004 is missing"):
        list(loaded)


# Slices of data sets with an index


@pytest.mark.slow
def test_a_slice_is_read_from_its_first_record_on(
    indexed_rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = numbers(shardmill.examples(indexed_rows))
    directory = copy(indexed_rows, tmp_path)
    flip(shards(directory)[1], 20)  # record 0 of the second shard, example 25
    splits = {
        "train[26:]": everything[26:],
        "train[-74:49]": everything[26:49],
        "train[50%:]+train[30:40]+train[:10]": everything[50:] + everything[30:40] + everything[:10],
    }
    options: dict[str, Any] = {"features": ["n"], "supervised": False, "shuffle": False, "verify": False}
    for split, expected in splits.items():
        assert numbers(shardmill.examples(directory, split)) == expected
        parts = [
            numbers(shardmill.examples(directory, split, num_workers=2, worker_index=n, equal_parts=True))
            for n in (0, 1)
        ]
        assert parts == [expected[0::2], expected[1::2]]
        for has_files in (True, False):
            monkeypatch.setattr(tensor_dataset, "has_tensorflow_files", lambda _, found=has_files: found)
            loaded = shardmill.load(directory, split, **options)
            assert [int(n) for n in loaded.as_numpy_iterator()] == expected
        monkeypatch.setattr(tensor_dataset, "has_tensorflow_files", lambda _: True)
        distributed = shardmill.load(directory, split, data_service=True, **options)
        assert sorted(int(n) for n in distributed.as_numpy_iterator()) == sorted(expected)
    for index in (True, False):
        with pytest.raises(CorruptDataError, match=r"00001-of-00004: record 0 at byte 0 fails its checksum"):
            list(shardmill.examples(directory, "train[25:]" if index else "train[26:]"))
        shutil.rmtree(directory / INDEX_FOLDER, ignore_errors=True)


def test_damage_is_named_alike_with_and_without_an_index(indexed_rows: Path, tmp_path: Path) -> None:
    directory = copy(indexed_rows, tmp_path)
    messages = []
    for position, size in ((-5, 0), (0, 7)):
        path = shards(directory)[1]
        data = path.read_bytes()
        flip(path, position)
        path.write_bytes(path.read_bytes()[: len(data) - size] + bytes(size))
        for index in (True, False):
            if not index:
                (directory / INDEX_FOLDER).rename(tmp_path / "index")
            with pytest.raises(CorruptDataError) as raised:
                list(shardmill.examples(directory, "train[40:50]" if position else "train[49:50]"))
            messages.append(str(raised.value))
            if not index:
                (tmp_path / "index").rename(directory / INDEX_FOLDER)
        path.write_bytes(data)
    assert messages[0] == messages[1]
    assert "00001-of-00004: record 24 at byte" in messages[0]
    assert "00001-of-00004: record 24 at byte" in messages[2]
    assert "00001-of-00004: record 0 at byte 0 has a length" in messages[3]


@pytest.mark.slow
def test_an_index_that_does_not_fit_stops_slices(indexed_rows: Path, tmp_path: Path) -> None:
    directory = copy(indexed_rows, tmp_path)
    (directory / "_SUCCESS").write_bytes(b"")  # so that another manifest can take its place
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["files"] = {}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    flip(directory / INDEX_FOLDER / "train.npy", 128 + 8 * 30 + 1)
    for read in (shardmill.examples, shardmill.load):
        with pytest.raises(CorruptDataError, match=r"train\.npy: the index of n-train\.tfrecord-00001-of-00004"):
            read(directory, "train[30:]", features=["n"])
    assert len(list(shardmill.examples(directory, "train[60:]"))) == 40
    shutil.rmtree(directory / INDEX_FOLDER)
    other = make_rows(tmp_path / "other", "--num_shards", 4, "--index", rows=150)
    shutil.copytree(other / INDEX_FOLDER, directory / INDEX_FOLDER)
    for read in (shardmill.examples, shardmill.load):
        with pytest.raises(
            CorruptDataError, match=r"index\.json does not list n-train\S+ as the manifest does: it is "
        ):
            read(directory, "train[30:]", features=["n"])
    assert len(list(shardmill.examples(directory, "train[:30]"))) == 30  # needs no index


def test_of_a_store_a_slice_reads_the_index_of_its_shard_only(indexed_rows: Path) -> None:
    files = CountedFiles()
    assert len(list(shardmill.examples(indexed_rows, "train[30:]+train[80:]", files=files))) == 90
    assert [size for _, _, size in files.ranges] == [8 * 26, 8 * 26]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("train[:101]", r"split 'train\[:101\]': ':101' reaches beyond the 100 examples of train$"),
        ("train[:101%]", "has a percentage that is not in -100 to 100$"),
        ("train[5]", r"'5' is one boundary; expected two, such as 5: or :5$"),
        ("train[50:20]", "'50:20' ends at example 20, before it begins at 50$"),
        ("train[:0]", r"split 'train\[:0\]' selects no example of n 1\.0\.0$"),
        ("train[1.5:]", "has a boundary that is not a whole number or a percentage$"),
        ("train[:]", r"':' is not understood; expected for example train\[:10%\]"),
        ("train[::2]", r"'::2' is not understood; expected for example train\[:10%\]"),
        ("train(5)", r"split 'train\(5\)' is not understood; expected for example train\[:10%\]"),
        ("all[:5]", "all takes no slice; give one to each split"),
        ("train+dev[:5]", r"n 1\.0\.0 has no split 'dev'; it has train$"),
    ],
)
def test_mistakes(rows_in_four_shards: Path, split: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        shardmill.examples(rows_in_four_shards, split)
    with pytest.raises(UserError, match=message):
        shardmill.load(rows_in_four_shards, split)
