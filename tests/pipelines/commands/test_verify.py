"""`shardmill verify` as a user runs it: what it prints, and how it ends."""

import io
import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tensorflow_metadata.proto.v0 import statistics_pb2

from shardmill.pipelines.cli import main
from shardmill.pipelines.jobs import launch
from shardmill.pipelines.jobs.launch import progress_line, progress_phase
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.publishing.verification import find_dataset_faults
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.running import Progress
from tests.support.masks import png_header

_SHARD = "digits-train.tfrecord-00001-of-00002"


def _png(seed: int) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)).save(out, "PNG")
    return out.getvalue()


def _build(folder: Path, *options: str, further: Mapping[str, bytes] | None = None) -> Path:
    """A data set of 13 images, one of them too short and one no image at all, and of further ones; and its
    directory."""
    images = {f"class_{index % 3}/{index}.png": _png(index) for index in range(11)}
    images |= {"class_0/short.png": _png(11)[:-40], "class_1/text.png": b"no image"}
    for name, data in (images | dict(further or {})).items():
        (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tree" / name).write_bytes(data)
    arguments = ["images", "--input", str(folder / "tree"), "--output", str(folder), "--name", "digits"]
    assert main([*arguments, "--num_shards", "2", "--max_reject_fraction", "0.5", *options]) == 0
    return folder / "digits" / "1.0.0"


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
    return Path(shutil.copytree(built.parent, tmp_path / "digits") / "1.0.0")


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(["verify", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("options", [[], ["--decode"]])
def test_clean(built: Path, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert _run(capsys, built, *options) == (0, "verified: 11 examples in 2 shards, no fault\n", "")


def test_progress(built: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_PLAIN_INTERVAL", 0)
    status, out, err = _run(capsys, built)
    assert (status, out) == (0, "verified: 11 examples in 2 shards, no fault\n")
    lines = err.splitlines()
    assert lines
    assert all(
        re.fullmatch(r"digits, verify: \d+ s, verifying \d+ of 11 examples( \(.*left\))?", line) for line in lines
    )
    assert _run(capsys, built, "--quiet") == (0, "", "")


def test_the_line_of_progress_names_phase_rate_and_time_left() -> None:
    counts = Progress(300, 6_000_000, 1200, 24_000_000)
    assert progress_line("n, verify", counts, 5, 3, "verifying") == (
        "n, verify: 5 s, verifying 300 of 1,200 examples (100 examples/s, 2 MB/s, 9 s left)"
    )
    assert progress_phase(Progress(9, 1, 9, 1), "verifying") == "verifying"
    assert progress_phase(Progress(9, 1, 9, 1)) == "publishing"


def test_directory_above_the_version(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(capsys, built.parent)[:2] == (0, "verified: 11 examples in 2 shards, no fault\n")


def test_one_line_a_fault(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray((directory / _SHARD).read_bytes())
    data[100] ^= 4
    (directory / _SHARD).write_bytes(data)
    (directory / "stats.json").unlink()
    status, out, err = _run(capsys, directory)
    stats, checksum, record = out.splitlines()
    assert (status, err) == (1, "")
    assert stats == "stats.json: is missing"
    assert checksum.startswith(f"{_SHARD}: has crc32c ")
    assert record == f"{_SHARD}: record 0 at byte 0 fails its checksum"


def test_missing_shard(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / _SHARD).unlink()
    assert _run(capsys, directory) == (1, f"{_SHARD}: is missing\n", "")


def test_decode_finds_images_whose_checksums_are_fine(
    built_unchecked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(capsys, built_unchecked) == (0, "verified: 14 examples in 2 shards, no fault\n", "")
    status, out, err = _run(capsys, built_unchecked, "--decode")
    assert (status, err) == (1, "")
    assert len(out.splitlines()) == 3
    assert sum("feature 'image': does not decode: " in line for line in out.splitlines()) == 1
    assert sum("feature 'image': truncated: the png has no end" in line for line in out.splitlines()) == 1
    assert sum("feature 'image': not an image " in line for line in out.splitlines()) == 1
    assert all(line.startswith("digits-train.tfrecord-0000") and ".gz: record " in line for line in out.splitlines())


def test_damaged_manifest(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "manifest.json").write_bytes(b"\xff\x00")
    status, out, err = _run(capsys, directory)
    assert (status, out) == (1, "")
    assert "manifest.json is not a shardmill manifest" in err


def test_unpublished(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "_SUCCESS").unlink()
    status, out, err = _run(capsys, directory)
    assert (status, out) == (2, "")
    assert "has no _SUCCESS" in err


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
def test_mistakes(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    status, out, err = _run(capsys, *(argument.format(tmp=tmp_path, built=built) for argument in arguments))
    assert (status, out) == (2, "")
    assert err.startswith("shardmill: error: ")
    assert err.count("\n") == 1
    assert words in err


def _faults(directory: Path) -> list[str]:
    return list(map(str, find_dataset_faults(open_dataset(str(directory)))))


def test_no_dataset_faults(built: Path, built_unchecked: Path) -> None:
    assert _faults(built) == []
    assert _faults(built_unchecked) == []


@pytest.mark.parametrize(
    "name", ["features.json", "schema.pbtxt", "stats.json", "dataset_info.json", "label.labels.txt"]
)
def test_metadata_missing_and_damaged(directory: Path, name: str) -> None:
    (directory / name).write_bytes(b"\xff\xfe")
    (fault,) = _faults(directory)
    assert fault.startswith(f"{name}: is not such a file: UnicodeDecodeError")
    (directory / name).unlink()
    assert _faults(directory) == [f"{name}: is missing"]


@pytest.mark.parametrize("name", ["features.json", "schema.pbtxt", "stats.json", "dataset_info.json"])
@pytest.mark.parametrize("text", ["[]", "{", "feature: 7"])
def test_metadata_of_another_form(directory: Path, name: str, text: str) -> None:
    (directory / name).write_text(text)
    (fault,) = _faults(directory)
    assert fault.startswith(f"{name}: is not such a file: ")
    assert "\n" not in fault


def test_feature_stats_missing_and_damaged(directory: Path) -> None:
    (directory / "FeatureStats.pb").write_bytes(b"\xff\xfe")
    (fault,) = _faults(directory)
    assert fault.startswith("FeatureStats.pb: is not such a file: DecodeError")
    (directory / "FeatureStats.pb").unlink()
    assert _faults(directory) == ["FeatureStats.pb: is missing"]


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


@pytest.mark.parametrize(
    ("name", "edit", "messages"),
    [
        (
            "features.json",
            _swap('"numClasses": "3"', '"numClasses": "4"'),
            ["disagrees with the manifest on feature 'label'"],
        ),
        (
            "features.json",
            _swap('"height": {', '"depth": {'),
            ["lacks feature 'height' of the manifest", "has feature 'depth', which is not in the manifest"],
        ),
        ("schema.pbtxt", _swap("max: 2", "max: 9"), ["disagrees with the manifest on feature 'label'"]),
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
            [
                "disagrees with the manifest on split 'train'",
                "split 'train': the classes of 'label' add up to 11; expected 5",
            ],
        ),
        (
            "dataset_info.json",
            _json(lambda info: info.update(version="2.0.0")),
            ["disagrees with the manifest on field 'version'"],
        ),
        (
            "dataset_info.json",
            _json(lambda info: info["splits"][0]["shardLengths"].reverse()),
            ["disagrees with the manifest on split 'train'"],
        ),
        ("dataset_info.json", _json(lambda info: info["splits"].clear()), ["lacks split 'train' of the manifest"]),
    ],
)
def test_metadata_that_disagrees(directory: Path, name: str, edit: Callable[[str], str], messages: list[str]) -> None:
    text = (directory / name).read_text()
    assert edit(text) != text
    (directory / name).write_text(edit(text))
    found = [fault.removeprefix(f"{name}: ") for fault in _faults(directory) if fault.startswith(f"{name}: ")]
    assert found == messages


def test_shard_that_the_manifest_does_not_list(directory: Path) -> None:
    shutil.copy(directory / _SHARD, directory / "digits-train.tfrecord-00002-of-00003")
    (directory / "notes.txt").write_text("a file of the user's")
    assert _faults(directory) == ["digits-train.tfrecord-00002-of-00003: is a shard that the manifest does not list"]


@pytest.mark.parametrize("suffix", [".bak", "~", ".1", "-copy", ".gz"])
def test_a_file_that_the_glob_of_shards_matches(
    suffix: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{_SHARD}{suffix}"
    shutil.copy(directory / _SHARD, directory / name)
    (directory / "notes.txt").write_text("a file of the user's")
    status, out, err = _run(capsys, directory)
    assert status == 1
    glob = "digits-train.tfrecord-*"
    assert out in (
        f"{name}: is a file that the manifest does not list, and readers of {glob} read it\n",
        f"{name}: is a shard that the manifest does not list\n",
    )
    assert "1 file is no part of the data set, such as notes.txt" in err
    (directory / name).unlink()
    assert _run(capsys, directory)[0] == 0


def test_rejects_too_many_to_be_held_are_read_as_they_come(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.transforms.publishing.verification._MANY_REJECTS", 1)
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
