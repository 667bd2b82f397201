"""`shardmill verify` as a user runs it: what it prints, and how it ends."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

from shardmill.pipelines.jobs import launch
from shardmill.pipelines.jobs.launch import progress_line, progress_phase
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.execution.running import Progress
from shardmill.transforms.publishing.verification import find_dataset_faults
from shardmill.transforms.stores import storage
from tests.support.command import Run, check_failure, check_mistake, image, write_files
from tests.support.masks import png_header
from tests.support.reading import copy, flip, make

_SHARD = "n-train.tfrecord-00001-of-00002"


def _build(folder: Path, *options: str, further: Mapping[str, bytes] | None = None) -> Path:
    """A data set of 13 images, one of them too short and one no image at all, and of further ones; and its
    directory."""
    images = {f"class_{index % 3}/{index}.png": image(index, "PNG") for index in range(11)}
    images |= {"class_0/short.png": image(11, "PNG")[:-40], "class_1/text.png": b"no image", **(further or {})}
    source = write_files(folder / "tree", images)
    return make("images", source, folder, "--num_shards", "2", "--max_reject_fraction", "0.5", *options)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two files that are no images are rejects here."""
    return _build(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def built_unchecked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All files are in it, whatever they hold; gzip."""
    pixels = {"class_2/pixels.png": png_header(8, 8)}  # a whole file of too few pixels
    return _build(tmp_path_factory.mktemp("unchecked"), "--verify", "none", "--compression", "gzip", further=pixels)


@pytest.fixture
def directory(built: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return copy(built, tmp_path)


CLEAN = (0, "verified: 11 examples in 2 shards, no fault\n", "")


@pytest.mark.parametrize("options", [[], ["--decode"]])
def test_clean(built: Path, run: Run, options: list[str]) -> None:
    assert run("verify", built, *options).brief == CLEAN
    assert run("verify", built.parent, *options).brief[:2] == CLEAN[:2]


def test_progress(built: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "PLAIN_INTERVAL", 0)
    status, out, err = run("verify", built).brief
    assert (status, out) == CLEAN[:2]
    form = r"(n, verify: \d+ s, verifying \d+ of 11 examples( \(.*left\))?\n)+"
    assert re.fullmatch(form, err)
    assert run("verify", built, "--quiet") == (0, "", "")


def test_the_line_of_progress_names_phase_rate_and_time_left() -> None:
    counts = Progress(300, 6_000_000, 1200)
    assert progress_line("n, verify", counts, 5, 3, "verifying") == (
        "n, verify: 5 s, verifying 300 of 1,200 examples (100 examples/s, 2 MB/s, 9 s left)"
    )
    assert progress_phase(Progress(9, 1, 9), "verifying") == "verifying"
    assert progress_phase(Progress(9, 1, 9)) == "publishing"


def test_one_line_a_fault(directory: Path, run: Run) -> None:
    flip(directory / _SHARD, 100)
    (directory / "stats.json").unlink()
    status, out, err = run("verify", directory)
    stats, checksum, record = out.splitlines()
    assert (status, err) == (1, "")
    assert stats == "stats.json: is missing"
    assert checksum.startswith(f"{_SHARD}: has crc32c ")
    assert record == f"{_SHARD}: record 0 at byte 0 fails its checksum"


def test_decode_finds_images_whose_checksums_are_fine(built_unchecked: Path, run: Run) -> None:
    assert run("verify", built_unchecked).brief == (0, "verified: 14 examples in 2 shards, no fault\n", "")
    status, out, err = run("verify", built_unchecked, "--decode")
    assert (status, err, len(out.splitlines())) == (1, "", 3)
    for words in ("does not decode: ", "truncated: the png has no end", "not an image "):
        assert out.count(f"feature 'image': {words}") == 1
    assert all(line.startswith("n-train.tfrecord-0000") and ".gz: record " in line for line in out.splitlines())


def test_damaged_manifest_and_unpublished(directory: Path, run: Run) -> None:
    (directory / "manifest.json").write_bytes(b"\xff\x00")
    check_failure(run("verify", directory), "manifest.json is not a shardmill manifest")
    (directory / "_SUCCESS").unlink()
    check_mistake(run("verify", directory), "has no _SUCCESS")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: DIRECTORY"),
        (["{tmp}/nothing"], "is not a data set"),
        (["{tmp}"], "is not a data set"),
        (["{built}", "--decoded"], "unknown flag --decoded; did you mean --decode?"),
        (["{built}", "--runner", "FlinkRunner"], "--temp_location is missing"),
        (["{built}", "--runner", "NoRunner", "--temp_location", "{tmp}"], "--runner: "),
        (["--runner", "FlinkRunner", "{built}"], "give the folder first"),
        (["{built}", "--direct_running_mode", "multi_threading"], "loses records"),
        (["ftp://host/data"], "ftp://host/data"),
    ],
)
def test_mistakes(built: Path, tmp_path: Path, run: Run, arguments: list[str], words: str) -> None:
    check_mistake(run("verify", *(argument.format(tmp=tmp_path, built=built) for argument in arguments)), words)


def _faults(directory: Path) -> list[str]:
    return list(map(str, find_dataset_faults(open_dataset(str(directory)))))


@pytest.mark.parametrize(
    "name", ["features.json", "schema.pbtxt", "stats.json", "dataset_info.json", "label.labels.txt", "FeatureStats.pb"]
)
def test_metadata_missing_and_damaged(directory: Path, name: str) -> None:
    assert _faults(directory) == []
    kind = "a value has another type" if name == "FeatureStats.pb" else "byte 0 is not UTF-8"
    (directory / name).write_bytes(b"\xff\xfe")
    (fault,) = _faults(directory)
    assert fault.startswith(f"{name}: is not such a file: {kind}")
    texts = ("[]", "{", "feature: 7", "[" * 100_000, '{"a":' * 100_000, "feature { struct_domain { " * 10_000)
    for text in texts if name.endswith((".json", ".pbtxt")) else ():
        (directory / name).write_text(text)
        (fault,) = _faults(directory)
        assert fault.startswith(f"{name}: is not such a file: ")
        assert "Error" not in fault
        assert len(fault) < 200
        assert name != "stats.json" or not text.startswith("[[") or "nested too deep" in fault
        assert "\n" not in fault
    (directory / name).unlink()
    assert _faults(directory) == [f"{name}: is missing"]


def test_feature_stats_that_disagree(directory: Path) -> None:
    path = directory / "FeatureStats.pb"
    proto = statistics_pb2.DatasetFeatureStatisticsList.FromString(path.read_bytes())
    proto.datasets[0].num_examples += 1
    proto.datasets[0].features[0].path.step[0] = "picture"
    path.write_bytes(proto.SerializeToString())
    assert _faults(directory) == [
        "FeatureStats.pb: disagrees with the manifest on split 'train'",
        "FeatureStats.pb: split 'train' has feature 'picture', which is not in the manifest",
    ]
    proto.datasets[0].features[0].path.step[0] = "image"
    proto.datasets[0].num_examples -= 1
    proto.datasets[0].features[0].bytes_stats.unique += 1
    path.write_bytes(proto.SerializeToString())
    (fault,) = _faults(directory)
    assert fault.startswith("FeatureStats.pb: has crc32c ")


def _json(change: Callable[[Any], None]) -> Callable[[str], str]:
    def edit(text: str) -> str:
        content = json.loads(text)
        change(content)
        return json.dumps(content)

    return edit


def _swap(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


LABEL, TRAIN = "disagrees with the manifest on feature 'label'", "disagrees with the manifest on split 'train'"


@pytest.mark.parametrize(
    ("name", "edit", "messages"),
    [
        ("features.json", _swap('"numClasses": "3"', '"numClasses": "4"'), [LABEL]),
        (
            "features.json",
            _swap('"height": {', '"depth": {'),
            ["lacks feature 'height' of the manifest", "has feature 'depth', which is not in the manifest"],
        ),
        ("schema.pbtxt", _swap("max: 2", "max: 9"), [LABEL]),
        (
            "schema.pbtxt",
            _swap('"width"', '"breadth"'),
            ["lacks feature 'width' of the manifest", "has feature 'breadth', which is not in the manifest"],
        ),
        ("label.labels.txt", _swap("class_1", "class_7"), ["class 1 is 'class_7'; the manifest says 'class_1'"]),
        ("label.labels.txt", lambda text: f"{text}more\n", ["has 4 lines; the manifest has 3 classes"]),
        (
            "stats.json",
            _json(lambda stats: stats["splits"]["train"].update(examples=5)),
            [TRAIN, "split 'train': the classes of 'label' add up to 11; expected 5"],
        ),
        (
            "dataset_info.json",
            _json(lambda info: info.update(version="2.0.0")),
            ["disagrees with the manifest on field 'version'"],
        ),
        ("dataset_info.json", _json(lambda info: info["splits"][0]["shardLengths"].reverse()), [TRAIN]),
        ("dataset_info.json", _json(lambda info: info["splits"].clear()), ["lacks split 'train' of the manifest"]),
    ],
)
def test_metadata_that_disagrees(directory: Path, name: str, edit: Callable[[str], str], messages: list[str]) -> None:
    text = (directory / name).read_text()
    assert edit(text) != text
    (directory / name).write_text(edit(text))
    found = [fault.removeprefix(f"{name}: ") for fault in _faults(directory) if fault.startswith(f"{name}: ")]
    assert found == messages


@pytest.mark.parametrize("suffix", [".bak", "~", ".1", "-copy", ".gz", "2-of-00003"])
def test_a_file_that_the_glob_of_shards_matches(suffix: str, directory: Path) -> None:
    name = f"{_SHARD.removesuffix('1-of-00002') if '-of-' in suffix else _SHARD}{suffix}"
    shutil.copy(directory / _SHARD, directory / name)
    (directory / "notes.txt").write_text("a file of the user's")
    read = "is a file that the manifest does not list, and readers of n-train.tfrecord-* read it"
    is_shard = suffix in (".gz", "2-of-00003")
    assert _faults(directory) == [f"{name}: {'is a shard that the manifest does not list' if is_shard else read}"]


def test_files_of_others_are_told(directory: Path, run: Run) -> None:
    (directory / "notes.txt").write_text("a file of the user's")
    status, _, err = run("verify", directory)
    assert status == 0
    assert "1 file is no part of the data set, such as notes.txt" in err


def test_rejects_too_many_to_be_held_are_read_as_they_come(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.transforms.publishing.verification.MANY_REJECTS", 1)
    read_bytes = storage.read_bytes
    read: list[str] = []

    def remembering(path: str) -> bytes:
        read.append(path)
        return read_bytes(path)

    monkeypatch.setattr(storage, "read_bytes", remembering)
    assert _faults(directory) == []
    (rejects,) = directory.glob("rejects/*")
    assert read
    assert str(rejects) not in read
    rejects.write_text(rejects.read_text().replace("0", "1"))
    (fault,) = _faults(directory)
    assert "is not the file that was written" in fault
    rejects.unlink()
    assert _faults(directory) == [f"rejects/{rejects.name}: is missing"]
