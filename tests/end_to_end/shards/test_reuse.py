"""--reuse: the same bytes as without, from fewer files; and what is said of it."""

import json
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command import LONG_AGO, Process, Run, image, image_tree, npy, read_back, tree_bytes, write_old_files
from tests.support.jobs import Built, Jobs
from tests.support.sounds import wav

Files = Mapping[str, bytes]


def numbers(*shape: int) -> bytes:
    return npy(np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape))


# Of each kind: its command, its files, and those of the second night: new, changed, good no more, good at last.
KINDS: dict[str, tuple[str, Files, Files]] = {
    "resized": (
        "images --resize 9x7",
        {**image_tree(("cat", "dog"), 6), "cat/bad.jpg": b"no image", "dog/worse.jpg": b"nor this"},
        {"ant/new.jpg": image(77), "cat/001.jpg": image(77), "dog/002.jpg": b"cut", "cat/bad.jpg": image(79)},
    ),
    "as they are": (
        "images --splits train=0.5,test=0.5 --group_by label",
        {**image_tree(("cat", "dog"), 6, "png", "PNG"), "cat/bad.png": b"no image", "dog/worse.png": b"nor this"},
        {"ant/new.png": image(77, "PNG"), "cat/001.png": image(78, "PNG"), "cat/bad.png": image(79, "PNG")},
    ),
    "arrays": (
        "arrays --no_shuffle",
        {**{f"{'ab'[n % 2]}/{n}.npy": numbers(3, 1 if n == 3 else 2) for n in range(8)}, "b/bad.npy": numbers(5)},
        {"A/first.npy": numbers(3, 2), "a/4.npy": numbers(3, 2), "c/new.npy": numbers(4)},
    ),
    "audio": (
        "audio --decode_audio",
        {**{f"{'ab'[n % 2]}/{n}.wav": wav(20 + n, 1 + n % 2, number=n) for n in range(8)}, "b/bad.wav": b"RIFF"},
        {"A/first.wav": wav(number=9), "a/4.wav": wav(bits=8), "c/new.wav": b""},
    ),
    "text": (
        "text --record file --encoding latin-1",
        {**{f"{'ab'[n % 2]}/{n}.txt": b"caf\xe9 %d" % n for n in range(8)}, "b/bad.txt": b" "},
        {"A/first.txt": b"one", "a/4.txt": b"another", "c/new.txt": b""},
    ),
}


def same_bytes(built: Built, full: Built) -> bool:
    return tree_bytes(built.directory) == tree_bytes(full.directory)


def record_of(built: Built) -> dict[str, Any]:
    """The record of the build of version 1.0.1."""
    found: dict[str, Any] = json.loads((built.directory.parent / "builds" / "1.0.1.json").read_text())
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_are_those_of_a_full_build(kind: str, jobs: Jobs) -> None:
    command, files, changes = KINDS[kind]
    line = f"{command} --max_reject_fraction 0.9 --num_shards 3 --version"

    write_old_files(Path("in"), files)
    said = jobs.build(f"{line} 1.0.0 --reuse LATEST").said
    assert f"all {len(files)} files were read: there is no older version to take examples from" in said
    write_old_files(Path("in"), changes, LONG_AGO + 1)
    removed = next(name for name in files if name not in changes and "bad" not in name)
    Path("in", removed).unlink()
    left = {name for name in files if name not in changes} - {removed}

    line += " 1.0.1" if "--no_shuffle" in command else " 1.0.1 --seed 3"
    built = jobs.build(f"{line} --reuse LATEST")
    full = jobs.build(f"{line} --output full")

    # The type of arrays is that of the first file, by whose name the reasons of rejects call it
    told = {"arrays": {name for name in left if files[name] == numbers(3, 2)}}
    found = len(told.get(kind, left))
    assert f"{found} of {len(left) + len(changes)} files taken from 1.0.0, the others read" in built.said
    assert "taken from" not in full.said
    record, of_full = record_of(built), record_of(full)
    assert (record["reused"], record["read"]) == (found, len(left) + len(changes) - found)
    assert (of_full["reused"], of_full["read"]) == (None, None)
    assert same_bytes(built, full)


def test_damaged_records_are_told_and_on_record(jobs: Jobs) -> None:
    """Also where all is left out that is well; not in the manifest, for the bytes are those of a full build."""
    write_old_files(Path("in"), image_tree(("cat", "dog"), 3))
    line = "images --num_shards 1 --quiet"
    (shard,) = jobs.build(f"{line} --reuse LATEST").directory.glob("*.tfrecord-*")
    data = shard.read_bytes()
    shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))  # the checksum of the last record

    built = jobs.build(f"{line} --reuse LATEST --version 1.0.1")

    said = "1 record is damaged in the shards of 1.0.0: what should have been taken from there was read again;"
    assert built.said.startswith(f"shardmill: warning: {said}")
    record = record_of(built)
    assert [notice[: len(said)] for notice in record["notices"]] == [said]
    assert (record["reused"], record["read"]) == (5, 1)
    assert same_bytes(built, jobs.build(f"{line} --version 1.0.1 --output full"))


def test_a_new_class_gets_the_next_id_where_labels_are_kept(run: Run, jobs: Jobs) -> None:
    """What is taken from the version before has the ids that it had, and the bytes are those of a full build."""
    for output, flags in (("out", []), ("full", ["--full"])):
        write_old_files(Path("in"), image_tree(("cat", "dog"), 6))
        recipe = f"name: n\noutput: {output}\nimages: {{input: in, on_new_label: append}}\nlabels: keep\n"
        Path("n.yaml").write_text(recipe)
        assert run("rebuild", "n.yaml").status == 0
        write_old_files(Path("in"), {"ant/new.jpg": image(77), "cat/001.jpg": image(78)}, LONG_AGO + 1)
        result = run("rebuild", "n.yaml", *flags)
        assert result.status == 0, result.err
        shutil.rmtree("in")
        if output == "out":
            assert "the ids of 2 classes are those of 1.0.0; a new one gets the next id" in result.out
            assert "11 of 13 files taken from 1.0.0, the others read" in result.out
            assert "since 1.0.0: 12 -> 13 examples; class ant new" in result.out

    assert Path("out/n/1.0.1/label.labels.txt").read_text() == "cat\ndog\nant\n"
    assert tree_bytes(Path("out/n/1.0.1")) == tree_bytes(Path("full/n/1.0.1"))


def test_rows_of_a_manifest_may_change_where_files_do_not(jobs: Jobs) -> None:
    write_old_files(Path("in"), {f"{n}.png": image(n, "PNG") for n in range(8)})
    write_old_files(Path("outside"), {"x.png": image(99, "PNG")})
    line = "images --manifest in/list.jsonl --allow_outside"
    rows = [{"file_name": f"{n}.png", "label": "ab"[n % 2], "weight": n} for n in range(8)]
    rows += [{"file_name": "3.png", "label": "a", "weight": 9}, {"file_name": "../outside/x.png", "label": "b"}]
    jobs.build(f"{line} --reuse record", files={"list.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows)})
    rows = [{**row, "label": f"{row['label']}!", "title": "é" * n} for n, row in enumerate(reversed(rows))]
    jobs.write({"list.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows)})

    line += " --version 1.0.1 --rename label=class"
    built = jobs.build(f"{line} --reuse 1.0.0")

    assert "10 of 10 files taken from 1.0.0" in built.said
    assert same_bytes(built, jobs.build(f"{line} --output full"))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images, and the output of a first night, which the others take records from."""
    folder = tmp_path_factory.mktemp("many")
    write_old_files(folder / "in", image_tree(("cat", "dog"), 40))
    return folder


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "first shard": lambda directory: any(directory.glob("beam-temp-*/n-*")),
    "first piece": lambda directory: any(directory.glob("beam-temp-*/files/*")),
    "files remembered": lambda directory: any(directory.parent.glob("builds/1.0.1.files/index-*")),
    "first shard renamed": lambda directory: any(directory.glob("n-*.tfrecord-*")),
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_the_older_version_stands_and_the_next_run_takes_from_it(
    many: Path, run: Run, tmp_path: Path, moment: str
) -> None:
    where = ("--input", many / "in", "--output", tmp_path, "--name", "n")
    words = ("images", *where, "--folders", "label", "--num_shards", "20")
    assert run(*words, "--reuse", "record").status == 0
    before, remembered = tree_bytes(tmp_path / "n/1.0.0"), tree_bytes(tmp_path / "n/builds/1.0.0.files")
    again = (*words, "--version", "1.0.1", "--reuse", "LATEST")
    directory = tmp_path / "n/1.0.1"
    process = Process(tmp_path / "process", *again)
    while process.is_alive() and not MOMENTS[moment](directory):
        time.sleep(0.0005)
    if process.is_alive():
        process.send_signal(signal.SIGKILL)
    process.result()

    assert tree_bytes(tmp_path / "n/1.0.0") == before
    assert tree_bytes(tmp_path / "n/builds/1.0.0.files") == remembered
    if not (directory / "_SUCCESS").exists():
        assert run(*again).status == 0
    assert {name: data for name, data in tree_bytes(directory).items() if ".tfrecord" in name} == {
        name: data for name, data in before.items() if ".tfrecord" in name
    }
    names = {path.name for path in (tmp_path / "n/builds/1.0.1.files").iterdir()}
    assert len(names) in (0, 21), "nothing of the job that died stays beside what the index names"
    assert sum(map(len, read_back(directory).splits.values())) == 80


def test_overwriting_a_version_takes_from_what_it_replaces(many: Path, run: Run, tmp_path: Path) -> None:
    where = ("--input", many / "in", "--output", tmp_path, "--name", "n")
    words = ("images", *where, "--folders", "label", "--reuse", "LATEST")
    assert run(*words).status == 0
    remembered = {path.name for path in (tmp_path / "n/builds/1.0.0.files").iterdir()}

    result = run(*words, "--overwrite", "--num_shards", "2")

    assert "80 of 80 files taken from 1.0.0" in result.out
    now = {path.name for path in (tmp_path / "n/builds/1.0.0.files").iterdir()}
    assert len(now) == 3
    assert not now & remembered


def test_mistakes(jobs: Jobs) -> None:
    jobs.refuse("images --reuse 1.2.3", "--reuse 1.2.3…is not published", files=image_tree(("cat", "dog"), 2))
    jobs.refuse("images --reuse yesterday", "--reuse…'yesterday'…LATEST or a version")


def test_lines_of_text_have_no_place_that_they_keep(jobs: Jobs) -> None:
    jobs.refuse("text --reuse LATEST", "--reuse needs --record file", files={"a.txt": "one\ntwo\n"})
