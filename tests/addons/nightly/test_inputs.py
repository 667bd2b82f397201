"""What a build depends on, and how old the newest input may be."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardmill.addons.nightly.inputs import check_freshness, find_inputs
from shardmill.addons.nightly.planning import decode_inputs, encode_inputs
from shardmill.addons.nightly.recipe import FreshnessOptions
from shardmill.addons.transform.preprocessing_sources import PreviousGraph
from shardmill.errors import ChecksError
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.transforms.stores.streams import UNREADABLE
from tests.support.command import age, bind_root_to_permissions, image, image_tree, write_files
from tests.support.tokenizer_files import tokenizer_json

HOUR = 3600.0
NOW = 500_000 * HOUR
OPTIONS = FreshnessOptions(warn_after=26 * HOUR, error_after=50 * HOUR)


@pytest.mark.parametrize(
    ("age", "said"),
    [
        (0, None),
        (26 * HOUR, None),
        (26 * HOUR + 1, " UTC, 26h ago, more than freshness: warn_after 26h"),
        (50 * HOUR, "50h ago, more than freshness: warn_after 26h"),
        (-200, None),  # of a clock a little ahead of ours
        (-3 * HOUR, "3h from now: a clock is wrong"),
    ],
)
def test_what_is_said_of_its_age(age: float, said: str | None) -> None:
    found = check_freshness(NOW - age, OPTIONS, NOW)

    assert found is None if said is None else said in (found or "")


def test_a_source_that_stopped_is_an_error_unless_nobody_asked() -> None:
    with pytest.raises(ChecksError, match=r"ago; freshness: error_after .* has the source stopped\?"):
        check_freshness(NOW - 50 * HOUR - 1, OPTIONS, NOW)
    for options in (FreshnessOptions(), FreshnessOptions(error_after=720_000 * HOUR)):
        assert check_freshness(NOW - 400_000 * HOUR, options, NOW) is None
    assert check_freshness(None, OPTIONS, NOW) is None


_SCHEMA = 'feature { name: "x" type: FLOAT }\nfeature { name: "word" type: BYTES }\n'
_COCO = {"images": [{"id": 1, "file_name": "a/000.jpg"}], "annotations": [], "categories": [{"id": 1, "name": "a"}]}
_BOXES = "image,xmin,ymin,xmax,ymax,class\na/000.jpg,1,1,3,{},a\n"
_RUNS = "image,rle\n000.jpg,1 {}\n"
_MODULE = "def preprocessing_fn(inputs):\n    return inputs\n"
_TOKENIZERS = tokenizer_json().decode(), tokenizer_json(("<s>",)).decode()
_VOC = "<annotation><filename>a.jpg</filename><object><name>a</name></object></annotation>"
_SUFFIXES = {
    **{"arrays": "npy", "audio": "wav", "parquet": "parquet", "avro": "avro"},
    **{"webdataset": "tar", "reshard": "tfrecord", "text": "txt"},
}
# command, flags, file, its content, and another
FILES: tuple[tuple[str, dict[str, Any], str, str, str], ...] = (
    ("images", {"input": "pictures", "labels_file": "f"}, "f", "a\nb\n", "b\na\n"),
    ("images", {"input": "pictures", "split_lists": "validation=f"}, "f", "a/000.jpg\n", "b/000.jpg\n"),
    ("images", {"input": "pictures", "masks": "masks", "mask_colors": "f"}, "f", "a 1 2 3\n", "a 3 2 1\n"),
    ("images", {"manifest": "f.csv"}, "f.csv", "file_name\npictures/a/000.jpg\n", "file_name\npictures/b/000.jpg\n"),
    ("images", {"input": "pictures", "coco": "f"}, "f", json.dumps(_COCO), json.dumps(_COCO | {"info": 1})),
    ("images", {"input": "pictures", "boxes_csv": "f"}, "f", _BOXES.format(3), _BOXES.format(4)),
    ("images", {"input": "pictures", "run_lengths": "f"}, "f", _RUNS.format(2), _RUNS.format(13)),
    ("images", {"input": "pictures", "masks": "masks"}, "masks/a/000.jpg", "a mask", "another"),
    ("images", {"manifest": "list.csv", "mask_column": "mask"}, "masks/a/000.jpg", "a mask", "another"),
    (
        "images",
        {"manifest": ["train=f.csv", "test=list.csv"]},
        *("f.csv", "file_name,mask\npictures/b/000.jpg,\n", "file_name,mask\npictures/b/001.jpg,\n"),
    ),
    ("csv", {"input": "rows.csv", "label": "word", "labels_file": "f"}, "f", "a\nb\n", "b\na\n"),
    ("text", {"input": ["de=lines.txt", "en=f"]}, "f", "one\n", "another\n"),
    ("csv", {"input": "rows.csv", "schema": "f"}, "f", _SCHEMA, _SCHEMA.replace("FLOAT", "BYTES")),
    ("csv", {"input": "rows.csv", "transform": "f"}, "f", "x: z_score\n", "x: scale_0_1\n"),
    ("csv", {"input": "rows.csv", "module_file": "f.py"}, "f.py", _MODULE, f"{_MODULE}x = 1\n"),
    ("text", {"input": "lines.txt", "tokenizer": "f"}, "f", *_TOKENIZERS),
    ("images", {"input": "pictures"}, "pictures/a/000.jpg", "an image", "another."),
    ("images", {"input": "pictures/{a,b}/*.jpg"}, "pictures/a/000.jpg", "an image", "another."),
    ("images", {"input": "link"}, "pictures/a/000.jpg", "an image", "another."),
    ("images", {"input": "pictures", "masks": "masks"}, "pictures/a/000.jpg", "an image", "another."),
    ("images", {"manifest": "list.csv"}, "pictures/a/000.jpg", "an image", "another."),
    ("images", {"manifest": "parts/*.csv"}, "parts/f.csv", "file_name\na.jpg\n", "file_name\nb.jpg\n"),
    ("images", {"input": "pictures", "boxes_csv": "boxes.csv"}, "pictures/a/000.jpg", "an image", "another."),
    ("images", {"voc": "voc"}, "voc/Annotations/a.xml", _VOC, _VOC.replace("<name>a", "<name>b")),
    ("images", {"voc": "voc"}, "voc/JPEGImages/a.jpg", "an image", "another."),
    ("images", {"yolo": "yolo/data.yaml"}, "yolo/data.yaml", "train: images\nnames: [b]", "train: images\nnames: [c]"),
    ("images", {"yolo": "yolo/data.yaml"}, "yolo/labels/a.txt", "0 .5 .5 .1 .1", "0 .4 .5 .1 .1"),
    ("images", {"input": "pictures", "map": "f.py:f"}, "f.py", "def f(x): return x", "def f(y): return y"),
    ("csv", {"input": "rows.csv", "map_batches": "m.py:f"}, "helper.py", "x = 1", "x = 2"),
    ("csv", {"input": "rows.csv"}, "rows.csv", "x\n1\n", "x\n2\n"),
    ("jsonl", {"input": "logs/*.jsonl"}, "logs/f.jsonl", '{"a":1}\n', '{"a":2}\n'),
    *((kind, {"input": "folder"}, f"folder/f.{suffix}", "one", "two") for kind, suffix in _SUFFIXES.items()),
)


@pytest.mark.parametrize("fingerprint", ["metadata", "content"])
@pytest.mark.parametrize("case", FILES, ids=lambda case: f"{case[0]} {list(case[1])[-1]} {case[2]}")
def test_a_build_depends_on_what_its_files_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[str, dict[str, Any], str, str, str], fingerprint: str
) -> None:
    """By times, or by the bytes alone."""
    command, flags, name, content, other = case
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path / "pictures", image_tree(["a", "b"], 2))
    write_files(tmp_path / "masks", image_tree(["a", "b"], 2))
    write_files(tmp_path, {"rows.csv": b"x,word\n1.5,a\n2.5,b\n", "lines.txt": b"a\nb\n"})
    write_files(tmp_path, {"list.csv": b"file_name,mask\npictures/a/000.jpg,masks/a/000.jpg\n"})
    write_files(tmp_path, {"boxes.csv": _BOXES.format(3).encode(), "voc/Annotations/a.xml": _VOC.encode()})
    write_files(
        tmp_path, dict.fromkeys(("parts/a.jpg", "parts/b.jpg", "voc/JPEGImages/a.jpg", "yolo/images/a.jpg"), b"x")
    )
    write_files(tmp_path, {"yolo/data.yaml": b"train: images\nnames: [a]\n", "yolo/labels/a.txt": b"0 .5 .5 .1 .1\n"})
    write_files(tmp_path, {"m.py": b"import helper\ndef f(x): return x\n", "helper.py": b"x = 0\n"})
    (tmp_path / "link").symlink_to("pictures")

    def versions() -> tuple[str, str]:
        if fingerprint == "content":
            age(tmp_path)
        inputs = find_inputs(KINDS[command].make_config({**flags, "output": "out", "name": "n"}), fingerprint)
        assert not any(stamp.startswith(UNREADABLE) for stamp in inputs.files["stamp"].to_pylist())  # twice the same
        return inputs.data_version, inputs.code_version

    write_files(tmp_path, {name: content.encode()})
    before = versions()
    assert versions() == before
    write_files(tmp_path, {name: other.encode()})
    assert versions() != before


@pytest.mark.parametrize("moment", [0, 1, 2**33], ids=["1970", "a nanosecond later", "2242"])
def test_files_of_odd_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int) -> None:
    """A night sees a change also if the clock was wrong when the file was written, or jumps meanwhile."""
    monkeypatch.chdir(write_files(tmp_path, {"rows.csv": b"x\n1\n"}))
    when = moment * 10**9 if moment > 1 else moment

    def versions() -> list[str]:
        os.utime("rows.csv", ns=(when, when))
        found = []
        for fingerprint, clock in (("metadata", 0.0), ("metadata", 2.0**34), ("content", 1e9)):
            with monkeypatch.context() as patched:
                patched.setattr("time.time", lambda clock=clock: clock)
                config = KINDS["csv"].make_config({"input": "rows.csv", "output": "out", "name": "n"})
                found.append(find_inputs(config, fingerprint).data_version)
        return found

    before = versions()
    assert versions() == before
    assert before[0] == before[1]
    write_files(tmp_path, {"rows.csv": b"x\n2\n"})
    assert versions()[2] != before[2]
    when += 1
    assert not set(versions()[:2]) & set(before)


@pytest.mark.parametrize("fingerprint", ["metadata", "content"])
@pytest.mark.parametrize("flags", [{"input": "pictures"}, {"input": "pictures/*/*.jpg"}, {"manifest": "list.csv"}])
def test_a_file_that_may_not_be_read_is_another_when_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any], fingerprint: str
) -> None:
    """Its size and time tell nothing of that, and a build left it out."""
    monkeypatch.chdir(write_files(tmp_path / "pictures", image_tree(["a"], 2)).parent)
    write_files(tmp_path, {"list.csv": b"file_name\npictures/a/000.jpg\npictures/a/001.jpg\n"})
    config, versions = KINDS["images"].make_config({**flags, "output": "out", "name": "n"}), []
    with ThreadPoolExecutor(1, initializer=bind_root_to_permissions) as pool:
        for mode in (0o600, 0, 0, 0o600):
            (tmp_path / "pictures/a/001.jpg").chmod(mode)
            versions.append(pool.submit(find_inputs, config, fingerprint).result().data_version)

    assert versions[0] != versions[1] == versions[2] != versions[3] == versions[0]


def test_a_build_depends_on_the_version_whose_transform_graph_it_takes(tmp_path: Path) -> None:
    """Also where another version replaced it under its number."""
    write_files(tmp_path, {"rows.csv": b"x\n1.5\n", "t.yaml": b"x: z_score\n", "1.0.0/manifest.json": b"{}"})
    flags = {"input": tmp_path / "rows.csv", "transform": tmp_path / "t.yaml", "output": tmp_path / "out", "name": "n"}
    config: Any = KINDS["csv"].make_config({name: str(value) for name, value in flags.items()})
    content: Any = None  # of its transform.json, which nothing reads here
    (options,) = config.add_ons
    graph = PreviousGraph("n 1.0.0", str(tmp_path / "1.0.0"), options.transform, content)
    config = replace(config, add_ons=(replace(options, transform_graph=graph),))
    before = find_inputs(config).code_version
    assert find_inputs(config).code_version == before
    (tmp_path / "1.0.0" / "manifest.json").write_bytes(b"{} ")
    assert find_inputs(config).code_version != before


@pytest.mark.parametrize(
    ("command", "flags", "names"),
    [
        ("images", {"manifest": "m.csv"}, ["--manifest", "in/a.png", "in/b.png"]),
        ("reshard", {"input": ["train=in/a*.tfrecord", "test=more"]}, ["test=c.tfrecord", "train=a.tfrecord"]),
    ],
)
def test_the_files_of_a_build_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, flags: dict[str, Any], names: list[str]
) -> None:
    files = dict.fromkeys(("in/a.tfrecord", "in/b.tfrecord", "more/c.tfrecord"), b"")
    files |= {"in/a.png": image(1), "in/b.png": image(1), "m.csv": b"file_name\nin/a.png\nin/b.png\nin/a.png\n"}
    monkeypatch.chdir(write_files(tmp_path, files))
    found = find_inputs(KINDS[command].make_config({**flags, "output": "out", "name": "n"}))

    assert found.files["name"].to_pylist() == names
    again = decode_inputs(encode_inputs(found), "inputs")
    assert (again.files, again.code, again.newest) == (found.files, found.code, found.newest)
