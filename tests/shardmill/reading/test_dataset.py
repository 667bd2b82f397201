"""A data set opened; workers' parts, inputs and label."""

import gzip
import hashlib
import shutil
import warnings
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shardmill
from shardmill.beam import ReadDataset
from shardmill.data import tfrecord
from shardmill.data.features import Feature, infer_roles
from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystem import LocalFiles
from shardmill.metadata import file_names
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry, crc32c_hex, success_text
from shardmill.reading.dataset import Dataset, choose_columns, labels_of, open_dataset
from shardmill.reading.slices import Selection, ShardSlice, select_examples, select_part
from tests.support.small_data_set import edit_manifest, make_version

GZIPPED = "d-train.tfrecord-00000-of-00001.gz"
RECORDS = [b"one", b"two", b"three"]


def publish(directory: Path, compression: str = "", records: list[bytes] = RECORDS) -> Path:
    """A data set of one shard in `directory`."""
    data = b"".join(map(tfrecord.frame_record, records))
    data = gzip.compress(data) if compression else data
    entry = ShardEntry(
        f"d-train.tfrecord-00000-of-00001{'.gz' if compression else ''}", len(RECORDS), len(data), crc32c_hex(data)
    )
    manifest = Manifest("d", "1.0.0", compression, (Feature("a", "bytes"),), (SplitEntry("train", (entry,)),))
    directory.mkdir(parents=True)
    (directory / entry.file).write_bytes(data)
    (directory / file_names.MANIFEST).write_text(manifest.to_json())
    (directory / file_names.SUCCESS).touch()
    return directory


PIN = "0" * 64
OPENERS: dict[str, Callable[..., Any]] = {
    "load": lambda path, **pin: next(iter(shardmill.load(path, "train", **pin))),
    "source": lambda path, **pin: shardmill.source(path, "train", **pin)[0],
    "examples": lambda path, **pin: next(shardmill.examples(path, "train", **pin)),
    "verify": lambda path, **pin: shardmill.verify(path, **pin),
    "beam": lambda path, **pin: beam.Pipeline() | ReadDataset(path, "train", **pin),
}


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", OPENERS)
def test_a_pinned_manifest(tmp_path: Path, name: str) -> None:
    directory, open_it = make_version(tmp_path / "d", "1.0.0", latest=True), OPENERS[name]
    manifest = directory / file_names.MANIFEST
    pin = hashlib.sha256(manifest.read_bytes()).hexdigest()
    for path in (directory, tmp_path / "d"):
        open_it(str(path), sha256=pin.upper())
        with pytest.raises(CorruptDataError, match=f"manifest.json is not the one that was asked for: .* not {PIN}"):
            open_it(str(path), sha256=PIN)
    with pytest.raises(UserError, match="sha256='abc': expected 64 hex digits, which `shardmill verify` prints"):
        open_it(str(directory), sha256="abc")
    manifest.write_text("[" * 100_000)  # which is not even parsed
    with pytest.raises(CorruptDataError, match="not the one that was asked for"):
        open_it(str(directory), sha256=pin)
    manifest.unlink()  # so that the shards are files of anyone
    (directory / file_names.SUCCESS).unlink()
    with pytest.raises(UserError, match="is not a data set"):
        open_it(str(directory), sha256=pin)


def records_of(dataset: Dataset) -> list[bytes]:
    return list(dataset.records(dataset.manifest.split("train").shards[0]))


@pytest.mark.parametrize("compression", ["", "gzip"])
def test_records(tmp_path: Path, compression: str) -> None:
    assert records_of(open_dataset(str(publish(tmp_path / "d", compression)))) == RECORDS


@pytest.mark.parametrize("slash", ["", "/"])
def test_latest_names_the_version(tmp_path: Path, slash: str) -> None:
    publish(tmp_path / "d" / "1.0.0")
    newer = publish(tmp_path / "d" / "2.0.0")
    (tmp_path / "d" / file_names.LATEST).write_text("2.0.0\n")

    dataset = open_dataset(f"{tmp_path}/d{slash}")

    assert dataset.directory == str(newer)
    assert dataset.path(dataset.manifest.splits[0].shards[0]) == f"{newer}/d-train.tfrecord-00000-of-00001"


class _Moving(LocalFiles):
    """Files among which, as a version is opened that LATEST or a tag named, a newer one takes its name, and it goes."""

    def exists(self, path: str) -> bool:
        if path.endswith(f"1.0.0/{file_names.SUCCESS}"):
            folder = Path(path).parents[1]
            shutil.rmtree(folder / "1.0.0", ignore_errors=True)
            for name in ("LATEST", "TAGS/good"):
                (folder / name).write_text("2.0.0\n")
        return super().exists(path)


@pytest.mark.parametrize("version", [None, "LATEST", "good"])
def test_a_version_that_is_deleted_as_it_is_opened(tmp_path: Path, version: str | None) -> None:
    """Who polls LATEST never fails."""
    publish(tmp_path / "d" / "1.0.0")
    newer = publish(tmp_path / "d" / "2.0.0")
    (tmp_path / "d/TAGS").mkdir()
    for name in ("LATEST", "TAGS/good"):
        (tmp_path / "d" / name).write_text("1.0.0\n")

    assert open_dataset(tmp_path / "d", _Moving(), version).directory == str(newer)
    with pytest.raises(UserError, match=r"1\.0\.0"):
        open_dataset(tmp_path / "d", _Moving(), "1.0.0")


def test_a_manifest_that_is_missing_or_damaged(tmp_path: Path) -> None:
    directory = publish(tmp_path / "d")
    (directory / file_names.MANIFEST).write_bytes(b'{"name": "\xff"}')
    with pytest.raises(CorruptDataError, match=r"manifest\.json is not a shardmill manifest"):
        open_dataset(str(directory))

    (directory / file_names.MANIFEST).unlink()
    with pytest.raises(CorruptDataError, match=r"manifest\.json is missing"):
        open_dataset(str(directory))


def test_a_shard_that_is_missing(tmp_path: Path) -> None:
    dataset = open_dataset(str(publish(tmp_path / "d")))
    (tmp_path / "d" / "d-train.tfrecord-00000-of-00001").unlink()

    with pytest.raises(CorruptDataError, match=r"^d-train.tfrecord-00000-of-00001 is missing$"):
        records_of(dataset)


@pytest.mark.parametrize("compression", ["", "gzip"])
@pytest.mark.parametrize("records", [RECORDS[:2], [*RECORDS, b"four"], []])
def test_another_number_of_records_than_the_manifest_says(
    tmp_path: Path, compression: str, records: list[bytes]
) -> None:
    dataset = open_dataset(str(publish(tmp_path / "d", compression, records)))

    with pytest.raises(CorruptDataError, match=f"holds {len(records)} records; the manifest says 3"):
        records_of(dataset)


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    dataset = open_dataset(str(publish(tmp_path / "d")))
    shard = tmp_path / "d" / "d-train.tfrecord-00000-of-00001"
    data = bytearray(shard.read_bytes())
    data[-5] ^= 1
    shard.write_bytes(data)

    with pytest.raises(CorruptDataError, match="00000-of-00001: record 2 at byte 38 fails its checksum"):
        records_of(dataset)


@pytest.mark.parametrize("size", range(1, len(gzip.compress(b"".join(map(tfrecord.frame_record, RECORDS))))))
def test_a_gzip_stream_cut_short(tmp_path: Path, size: int) -> None:
    dataset = open_dataset(str(publish(tmp_path / "d", "gzip")))
    shard = tmp_path / "d" / GZIPPED
    shard.write_bytes(shard.read_bytes()[:size])

    with pytest.raises(CorruptDataError, match="00000-of-00001"):
        records_of(dataset)


def test_what_is_not_gzip(tmp_path: Path) -> None:
    dataset = open_dataset(str(publish(tmp_path / "d", "gzip")))
    (tmp_path / "d" / GZIPPED).write_bytes(b"plain text, no gzip")

    with pytest.raises(CorruptDataError, match="the gzip stream is damaged after record 0"):
        records_of(dataset)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"..",
        b"../other/1.0.0",
        b"/etc",
        b"1.0.0/../../other",
        b"1.0",
        b"\xff\xfe1.0.0",
        b"1.0.0\n2.0.0",
        b"[" * 100_000,
    ],
)
def test_latest_that_names_no_version(tmp_path: Path, content: bytes) -> None:
    publish(tmp_path / "other" / "1.0.0")
    publish(tmp_path / "d" / "1.0.0")
    (tmp_path / "d" / file_names.LATEST).write_bytes(content)

    with pytest.raises(
        CorruptDataError,
        match=(
            r"/d/LATEST holds '.*; expected a version, such as 1\.0\.0; published in .*/d: 1\.0\.0; open .*/d/1\.0\.0$"
        ),
    ) as raised:
        open_dataset(f"{tmp_path}/d")
    assert len(str(raised.value)) < 300 + 2 * len(f"{tmp_path}")


def test_a_manifest_that_was_changed_is_not_read(tmp_path: Path) -> None:
    directory = publish(tmp_path / "d")
    sealed = directory / file_names.SUCCESS
    sealed.write_text(success_text((directory / file_names.MANIFEST).read_bytes()))
    assert records_of(open_dataset(str(directory))) == RECORDS

    manifest = directory / file_names.MANIFEST
    manifest.write_text(manifest.read_text().replace('"name": "a"', '"name": "b"'))
    with pytest.raises(
        CorruptDataError, match=r"d/manifest\.json is not the file that was written: its crc32c is .{8}, but _SUCC"
    ):
        open_dataset(str(directory))

    sealed.write_bytes(b"")  # as in data sets made before it held anything
    assert open_dataset(str(directory)).manifest.features[0].name == "b"


def test_metadata_is_what_was_written(tmp_path: Path) -> None:
    directory = publish(tmp_path / "d")
    (directory / "stats.json").write_text("{}")
    (directory / "other.json").write_text("{}")
    edit_manifest(directory, lambda content: content.update(files={"stats.json": crc32c_hex(b"{}")}))
    dataset = open_dataset(str(directory))
    assert dataset.metadata("stats.json") == dataset.metadata("other.json") == b"{}"

    (directory / "stats.json").write_text("{ }")
    with pytest.raises(
        CorruptDataError, match=r"d/stats\.json is not the file that was written: its crc32c is .{8}, the manifest"
    ):
        dataset.metadata("stats.json")
    with pytest.raises(FileNotFoundError):
        dataset.metadata("missing.json")


def split_of(*examples: int) -> SplitEntry:
    return SplitEntry("train", tuple(ShardEntry(f"s{index}", count, 1, "") for index, count in enumerate(examples)))


def selection_of(*examples: int) -> Selection:
    slices = [ShardSlice(shard, 0, shard.examples) for shard in split_of(*examples).shards]
    return Selection("train", ("train",), tuple(slices))


def manifest(*names: str, **configuration: object) -> Manifest:
    features = tuple(Feature(name, "bytes", "image" if name == "image" else "text") for name in names)
    marked = infer_roles(features, configuration)
    return Manifest("d", "1.0.0", "", marked, (split_of(1), SplitEntry("test", ())), configuration=configuration)


def taken(part: object) -> list[tuple[str, int]]:
    """The examples of a part, by shard and index."""
    everything = [(shard.file, index) for shard in part.shards for index in range(shard.examples)]  # type: ignore[attr-defined]
    return everything[part.first :: part.step]  # type: ignore[attr-defined]


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(1, 10), st.booleans())
def test_parts_are_disjoint_and_together_everything(examples: list[int], workers: int, equal: bool) -> None:
    split = selection_of(*examples)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if equal else "ignore")
        parts = [select_part(split, workers, worker, equal) for worker in range(workers)]
    if equal:
        assert max(part.examples for part in parts) - min(part.examples for part in parts) <= 1

    assert sorted(chain(*(taken(part) for part in parts))) == sorted(taken(select_part(split, 1, 0)))
    assert [part.examples for part in parts] == [len(taken(part)) for part in parts]


def test_fewer_shards_than_workers_is_warned_of() -> None:
    with pytest.warns(
        UserWarning, match="has 2 shards for 3 workers: each reads all of them and keeps one of 3 examples"
    ):
        assert select_part(selection_of(4, 4), 3, 1).step == 3


@pytest.mark.parametrize(
    ("shards", "workers", "counts"),
    [
        ((100, 100, 100), 2, "the largest part has 200 examples, the smallest 100, and that of worker 1 100"),
        ((100, 100, 50), 3, "the largest part has 100 examples, the smallest 50, and that of worker 1 100"),
        ((3_000, 0), 2, "the largest part has 3,000 examples, the smallest 0, and that of worker 1 0"),
        ((100, 95), 2, ""),
        ((2, 1), 2, ""),
        ((100, 100, 100), 3, ""),
        ((100, 50), 1, ""),
    ],
    ids=str,
)
def test_parts_that_differ_are_warned_of(shards: Sequence[int], workers: int, counts: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        select_part(selection_of(*shards), workers, min(1, workers - 1))
        select_part(selection_of(*shards), workers, min(1, workers - 1), equal_parts=True)
    assert len(caught) == bool(counts)
    for warning in caught:
        assert str(warning.message).startswith(
            f"split 'train' has {len(shards)} shards for {workers} workers: {counts};"
        )
        assert (
            f"equal_parts=True divides examples instead of shards; a --num_shards that is a multiple of {workers}"
            in str(warning.message)
        )


@pytest.mark.parametrize(
    ("workers", "worker", "message"),
    [(0, 0, "num_workers is 0"), (2, 2, "worker_index is 2; expected 0 to 1"), (2, -1, "worker_index is -1")],
)
def test_a_worker_that_there_is_not(workers: int, worker: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        select_part(selection_of(4, 4), workers, worker)


def test_an_unknown_split_is_told_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"d 1\.0\.0 has no split 'tran'; it has train, test"):
        select_examples(manifest("a"), "tran")


def columns(
    described: Manifest, names: list[str] | None = None, label: str | list[str] | None = None, supervised: bool = True
) -> tuple[object, ...]:
    chosen = choose_columns(described, names, label, supervised)
    labels = [feature.name for feature in chosen.labels]
    return [feature.name for feature in chosen.inputs], labels[0] if len(labels) == 1 else labels or None


IMAGES = ("image", "label", "filename", "height", "width", "caption")


@pytest.mark.parametrize(
    ("described", "options", "expected"),
    [
        (manifest(*IMAGES), {}, (["image", "caption"], "label")),
        (manifest(*IMAGES), {"names": ["image", "height"]}, (["image", "height"], "label")),
        (manifest(*IMAGES), {"label": "caption"}, (["image", "label"], "caption")),
        (manifest(*IMAGES), {"supervised": False}, (["image", "label", "caption"], None)),
        (manifest("image", "filename"), {}, (["image"], None)),
        (manifest("text", "filename", "line_number", format="lines"), {}, (["text"], None)),
        (manifest("text", "label", "filename", format="text files"), {}, (["text"], "label")),
        (manifest("filename", "height", format="csv", label=None), {}, (["filename", "height"], None)),
        (manifest("a", "b", "city", format="csv", label="city"), {}, (["a", "b"], "city")),
        (manifest("a", "label", format="csv", label=None), {}, (["a"], "label")),
        (manifest("a", "b", "c", format="csv", label=["b", "c"]), {}, (["a"], ["b", "c"])),
        (manifest("a", "b", "c", format="csv", label=["b", "c"]), {"label": ["c", "a"]}, (["b"], ["c", "a"])),
    ],
)
def test_inputs_and_label(described: Manifest, options: dict[str, object], expected: tuple[object, ...]) -> None:
    assert columns(described, **options) == expected  # type: ignore[arg-type]


def test_labels_of() -> None:
    assert labels_of(manifest("a", format="csv", label=None)) == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ["a", "c"]}, "d has no feature 'c'; it has a, b, label"),
        ({"label": "c"}, "d has no feature 'c'"),
        ({"label": "b", "supervised": False}, "label='b' makes no sense with supervised=False"),
        ({"names": "a"}, r"features='a' is one string; expected a list of names: \['a'\]"),
        ({"names": []}, "d has no input except the label 'label'"),
    ],
)
def test_columns_that_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        columns(manifest("a", "b", "label", format="csv"), **options)  # type: ignore[arg-type]


def test_roles_go_before_names_and_the_options_of_the_writer() -> None:
    features = (
        Feature("filename", "bytes", "image"),
        Feature("label", "int64"),
        Feature("place", "bytes", "text", role="source"),
        Feature("kind", "int64", role="label"),
    )
    made = Manifest("d", "1.0.0", "", features, (split_of(1),), configuration={"label": "filename"})

    assert columns(made) == (["filename", "label"], "kind")
