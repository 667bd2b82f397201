"""Is there anything to do? What a build would read is compared with what the version that stands was made from."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardmill.addons.nightly import planning
from shardmill.addons.nightly.inputs import find_inputs
from shardmill.errors import CorruptDataError, UserError
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.jobs.registry import KINDS
from tests.support.command import REPOSITORY, write_files
from tests.support.small_data_set import make_version

IMAGES = {f"c{number % 2}/{number}.jpg": b"%d" % number for number in range(6)}


def config_of(folder: Path, command: str = "images", **options: Any) -> JobConfig:
    told = {"input": str(folder / "in"), "output": str(folder / "out"), "name": "n", **options}
    return KINDS[command].make_config({key: value for key, value in told.items() if value is not None})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path / "in", IMAGES)
    return tmp_path


def build(config: JobConfig, version: str = "1.0.0", latest: bool = True, **options: Any) -> None:
    """A version that a build of `config` has left."""
    make_version(Path(config.parent), version, latest=latest)
    inputs = Path(config.parent) / "builds" / f"{version}.inputs"
    inputs.parent.mkdir(exist_ok=True)
    inputs.write_bytes(planning.encode_inputs(find_inputs(config, **options)))


def said(config: JobConfig, **options: Any) -> str:
    return str(planning.decide(config, find_inputs(config, **options)))


def test_nothing_to_do(folder: Path) -> None:
    config = config_of(folder)
    assert planning.decide(config, find_inputs(config)) == planning.Changed("there is no version yet")
    build(config)

    assert planning.decide(config, find_inputs(config)) == planning.Unchanged("1.0.0", 6, "1.0.0")
    write_files(folder / "in", {"c0/.hidden.jpg": b"", "notes.md": b""})  # are passed over
    assert said(config) == "unchanged since 1.0.0: 6 files"


def test_a_manifest_is_none_of_the_files_that_it_lists(folder: Path) -> None:
    """Though names may come before its own, as they are sorted."""
    write_files(folder / "in", {"(1).jpg": b"1", "files.csv": b"file_name\n(1).jpg\nc0/0.jpg\n"})
    config = config_of(folder, input=None, manifest=str(folder / "in/files.csv"))
    build(config)

    assert said(config) == "unchanged since 1.0.0: 2 files"


EDITS: dict[str, tuple[Callable[[Path], object], str]] = {
    "new": (lambda folder: (folder / "c0/new.jpg").write_bytes(b"x"), "1 file new, 0 changed, 0 gone"),
    "gone": (lambda folder: (folder / "c0/0.jpg").unlink(), "0 files new, 0 changed, 1 gone"),
    "longer": (lambda folder: (folder / "c0/0.jpg").write_bytes(b"xyz"), "0 files new, 1 changed, 0 gone"),
    "of equal size": (lambda folder: (folder / "c0/0.jpg").write_bytes(b"x"), "0 files new, 1 changed, 0 gone"),
    "of an earlier time": (lambda folder: os.utime(folder / "c0/0.jpg", ns=(1, 1)), "0 files new, 1 changed, 0 gone"),
    "renamed": (lambda folder: (folder / "c0/0.jpg").rename(folder / "c1/0.jpg"), "1 file new, 0 changed, 1 gone"),
    "unreadable": (lambda folder: (folder / "c0/new.jpg").symlink_to("new.jpg"), "1 file new, 0 changed, 0 gone"),
}


@pytest.mark.parametrize("flag", ["input", "manifest", "coco"])
@pytest.mark.parametrize("edit", EDITS)
def test_what_differs_is_counted(folder: Path, edit: str, flag: str) -> None:
    """A file that a list names and that does not exist counts as one that a folder does not have."""
    names = [*IMAGES, "c0/new.jpg", "c1/0.jpg"]
    images = [{"id": number, "file_name": name} for number, name in enumerate(names)]
    coco = json.dumps({"images": images, "annotations": [], "categories": [{"id": 1, "name": "a"}]})
    write_files(folder, {"coco": coco.encode(), "in/m.csv": "\n".join(["file_name", *names]).encode()})
    paths = {"input": folder / "in", "manifest": folder / "in/m.csv", "coco": folder / "coco"}
    flags: dict[str, Any] = {"input": None if flag == "manifest" else str(folder / "in"), flag: str(paths[flag])}
    config = config_of(folder, **flags)
    build(config)
    change, expected = EDITS[edit]
    change(folder / "in")

    assert said(config) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"resize": "8x8"}, "option --resize"),
        ({"resize": "8x8", "seed": 3}, "options --resize, --seed; pillow none -> "),
        ({"num_shards": 3}, "options --num_shards, --shard_size"),
        ({"num_shards": "train=3"}, "option --num_shards"),
        ({"splits": "train=0.5,test=0.5"}, "option --splits"),
        ({"threads": 3}, "unchanged since 1.0.0"),
        ({"overwrite": True, "version": "1.0.1"}, "unchanged since 1.0.0"),
    ],
)
def test_options_that_shape_the_bytes_are_named(folder: Path, options: dict[str, Any], expected: str) -> None:
    build(config_of(folder))
    found = said(config_of(folder, **options))

    assert found.startswith(expected) if expected.endswith("> ") or "since" in expected else expected in found


def test_contents_of_label_files_and_schemas_count(folder: Path) -> None:
    write_files(folder, {"labels.txt": b"c0\nc1\n"})
    build(config_of(folder, labels_file=str(folder / "labels.txt")))
    assert said(config_of(folder, labels_file=str(folder / "labels.txt"))).startswith("unchanged")
    write_files(folder, {"labels.txt": b"c1\nc0\n"})
    assert said(config_of(folder, labels_file=str(folder / "labels.txt"))) == "option --labels_file"

    write_files(folder, {"in/a.csv": b"x\n1\n", "schema.pbtxt": b'feature { name: "x" type: INT }'})
    schema = {"name": "t", "schema": str(folder / "schema.pbtxt")}
    build(config_of(folder, "csv", **schema))
    assert said(config_of(folder, "csv", **schema)) == "unchanged since 1.0.0: 1 file"
    write_files(folder, {"schema.pbtxt": b'feature { name: "x" type: FLOAT }'})
    assert said(config_of(folder, "csv", **schema)) == "option --schema"


def test_a_library_of_another_release_and_what_a_recipe_keeps_are_named(folder: Path) -> None:
    config = config_of(folder)
    build(config, kept_entries={"labels": "rebuild"})
    now = find_inputs(config)
    older = dataclasses.replace(now, code={**now.code, "xxhash": '"0.1"', "shardmill": '"0.0.9"'})

    assert planning.describe_difference(older, now).startswith("shardmill 0.0.9 -> ")
    assert "; xxhash 0.1 -> " in planning.describe_difference(older, now)
    assert said(config, kept_entries={"labels": "keep"}) == "labels rebuild -> keep"


def test_contents_are_told_from_times(folder: Path) -> None:
    config = config_of(folder)
    build(config, fingerprint="content")
    os.utime(folder / "in/c0/0.jpg", ns=(1, 1))
    assert said(config, fingerprint="content").startswith("unchanged")

    (folder / "in/c0/0.jpg").write_bytes(b"x")
    assert said(config, fingerprint="content") == "0 files new, 1 changed, 0 gone"
    assert said(config) == "fingerprint content -> metadata; 0 files new, 6 changed, 0 gone"


def test_manifests_and_the_files_in_them(folder: Path) -> None:
    lines = "file_name,label\n" + "".join(f"{name},a\n" for name in IMAGES)
    write_files(folder / "in", {"m.csv": lines.encode(), "missing.csv": (lines + "c0/gone.jpg,a\n").encode()})
    config = config_of(folder, input=None, manifest=str(folder / "in/m.csv"))
    build(config)
    assert said(config) == "unchanged since 1.0.0: 6 files"
    (folder / "in/c1/5.jpg").write_bytes(b"x")
    assert said(config) == "0 files new, 1 changed, 0 gone"
    build(config)
    write_files(folder / "in", {"m.csv": lines.replace("2.jpg,a", "2.jpg,b").encode()})
    assert said(config) == "0 files new, 1 changed, 0 gone"

    build(config := config_of(folder, name="o", input=None, manifest=str(folder / "in/missing.csv")))
    write_files(folder / "in", {"c0/gone.jpg": b"x"})
    assert said(config) == "1 file new, 0 changed, 0 gone"


def test_an_edit_within_a_tick_of_the_clock_is_seen(folder: Path) -> None:
    """A file that is written, listed, and written again before the clock of the file system has moved."""
    path, seen = folder / "in/c0/0.jpg", set()
    for number in range(30):
        path.write_bytes(b"%02d" % number)
        seen.add(find_inputs(config_of(folder)).data_version)

    assert len(seen) == 30


def test_a_version_that_is_not_whole_is_built_again(folder: Path) -> None:
    """And where LATEST names nothing."""
    config = config_of(folder)
    build(config)
    shard, latest = next(Path(config.directory).glob("n-*")), Path(config.parent) / "LATEST"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert said(config).startswith(f"1.0.0 is damaged: {shard.name} has ")
    shard.unlink()
    assert said(config) == f"1.0.0 is damaged: {shard.name} is missing"
    (Path(config.directory) / "manifest.json").write_text("{}")
    assert "manifest.json is not" in said(config)
    latest.write_text("1.0.7\n")
    assert said(config) == "LATEST names '1.0.7', which is not published"
    latest.unlink()
    assert said(config) == "there is no LATEST"


@pytest.mark.parametrize("content", [None, b"", b"ARROW1", b"{}"])
def test_without_a_record_of_its_inputs_a_version_is_built_again(folder: Path, content: bytes | None) -> None:
    config = config_of(folder)
    build(config)
    path = Path(config.parent) / "builds/1.0.0.inputs"
    path.unlink() if content is None else path.write_bytes(content)

    assert ("was not recorded" if content is None else "is not the list of a version's inputs") in said(config)


def test_a_night_after_a_rollback_does_not_build_the_same_again(folder: Path) -> None:
    config = config_of(folder, version="1.0.2")
    build(config, "1.0.0")
    write_files(folder / "in", {"c0/bad.jpg": b"bad"})
    build(config, "1.0.1", latest=False)

    assert said(config) == "unchanged since 1.0.1: 7 files; LATEST names 1.0.0 and stays, --force builds all the same"
    (folder / "in/c0/bad.jpg").write_bytes(b"good")
    assert said(config) == "1 file new, 0 changed, 0 gone"


def test_a_backfill_that_was_made_is_not_made_again(folder: Path) -> None:
    older = config_of(folder, version="1.0.0")
    build(older, "1.0.0", latest=False)
    write_files(folder / "in", {"c0/later.jpg": b"x"})
    build(older, "1.0.5")
    (folder / "in/c0/later.jpg").unlink()

    assert said(older).startswith("unchanged since 1.0.0: 6 files; LATEST names 1.0.5")
    assert said(config_of(folder, version="1.0.6")) == "0 files new, 0 changed, 1 gone"


def test_late_data_that_got_the_next_number_is_not_built_again(folder: Path) -> None:
    late = config_of(folder, version="1.0.0")
    build(late, "1.0.1", latest=False)
    write_files(folder / "in", {"c0/later.jpg": b"x"})
    build(late, "1.1.0")
    (folder / "in/c0/later.jpg").unlink()

    assert str(planning.decide(late, find_inputs(late), "next")).startswith("unchanged since 1.0.1: 6 files")
    assert said(late) == "0 files new, 0 changed, 1 gone"


def test_no_input(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--input .*/in: no such file or folder"):
        find_inputs(config_of(tmp_path))


def test_a_list_of_inputs_is_read_as_it_was_written(folder: Path) -> None:
    inputs = find_inputs(config_of(folder))
    read = planning.decode_inputs(planning.encode_inputs(inputs), "x")

    for name in ("data_version", "code_version", "newest"):
        assert getattr(read, name) == getattr(inputs, name)
    with pytest.raises(CorruptDataError, match="x is not the list of a version's inputs"):
        planning.decode_inputs(planning.encode_inputs(inputs)[:-20], "x")


def test_nothing_to_do_takes_no_beam(folder: Path) -> None:
    """Which takes longer to import than all the rest."""
    program = (
        "import sys; from shardmill.pipelines.jobs.registry import KINDS;"
        f"config = KINDS['images'].make_config({{'input': {str(folder / 'in')!r}, 'output': '/o', 'name': 'n'}});"
        "from shardmill.addons.nightly.inputs import find_inputs; "
        "from shardmill.addons.nightly.planning import decide;"
        "print(decide(config, find_inputs(config))); assert not {'apache_beam', 'tensorflow'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("there is no version yet\n", "")
