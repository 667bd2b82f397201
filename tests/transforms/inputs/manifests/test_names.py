"""Manifests as people have them: Kaggle's `id,breed` with the images in train/, and what is said of a file that is
missing."""

import json
from pathlib import Path

import pytest

from tests.support.command import Run, check_mistake, image, read_back, write_files

KAGGLE = ["--file_column", "id", "--label_column", "breed", "--file_suffix", ".jpg", "--file_root", "train/"]


def source(root: Path, suffix: str = "csv", folder: str = "train") -> Path:
    rows = [("000b", "boxer"), ("001c", "pug"), ("002d.jpg", "boxer")]
    lines = {
        "csv": "".join(["id,breed\n", *(f"{name},{breed}\n" for name, breed in rows)]),
        "jsonl": "".join(f"{json.dumps({'id': name, 'breed': breed})}\n" for name, breed in rows),
    }
    files = {f"{folder}/{name}.jpg": image(number) for number, name in enumerate(("000b", "001c", "002d"))}
    return write_files(root, {**files, f"labels.{suffix}": lines[suffix].encode()}) / f"labels.{suffix}"


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_kaggles_labels(run: Run, tmp_path: Path, suffix: str) -> None:
    manifest = source(tmp_path / "in", suffix)
    result = run("images", "--manifest", manifest, "--output", tmp_path, "--name", "dogs", *KAGGLE)
    assert result.status == 0, result.err

    contents = read_back(tmp_path / "dogs/1.0.0")
    labels = {name: contents.label_of(name) for name in contents.records}
    assert labels == {"train/000b.jpg": "boxer", "train/001c.jpg": "pug", "train/002d.jpg": "boxer"}
    assert list(contents.example("train/000b.jpg")) == ["image", "label", "filename", "height", "width"]
    configuration = contents.dataset.manifest.configuration
    assert [configuration[flag] for flag in ("file_column", "label_column", "file_suffix", "file_root")] == KAGGLE[1::2]
    assert run("verify", tmp_path / "dogs").status == 0


def test_numbers_name_files_in_json(run: Run, tmp_path: Path) -> None:
    write_files(tmp_path, {"7.jpg": image(), "m.jsonl": b'{"id": 7, "class": 3}\n'})
    arguments = ["--manifest", tmp_path / "m.jsonl", "--output", tmp_path, "--name", "n", "--file_column", "id"]
    assert run("images", *arguments, "--file_suffix", ".jpg", "--label_column", "class").status == 0

    assert read_back(tmp_path / "n/1.0.0").label_of("7.jpg") == "3"


@pytest.mark.parametrize("flag", range(0, len(KAGGLE), 2))
def test_each_flag_is_needed(run: Run, tmp_path: Path, flag: int) -> None:
    manifest = source(tmp_path / "in")
    result = run(
        "images", "--manifest", manifest, "--output", tmp_path, "--name", "dogs", *KAGGLE[:flag], *KAGGLE[flag + 2 :]
    )

    if KAGGLE[flag] == "--label_column":  # then the breed is a column like any other
        assert "label" not in read_back(tmp_path / "dogs/1.0.0").example("train/000b.jpg")
    elif KAGGLE[flag] == "--file_suffix":  # one row has the suffix
        assert result.status == 1
        assert "2 of 3 records were rejected" in result.err
        assert "no such file, such as 'train/000b'" in result.err
    else:
        check_mistake(result, KAGGLE[flag])


def test_files_that_are_not_there(run: Run, tmp_path: Path) -> None:
    manifest = source(tmp_path / "in", folder="elsewhere")
    arguments = ["--manifest", manifest, "--output", tmp_path / "out", "--name", "dogs", *KAGGLE]

    where = f"none of its 3 files is there; 'train/000b.jpg' was looked for in {tmp_path}/in/"
    check_mistake(run("images", *arguments), where, "--file_root", "--file_suffix")
    assert not (tmp_path / "out").exists()

    write_files(tmp_path / "in/train", {"001c.jpg": image(1)})
    result = run("images", *arguments, "--max_reject_fraction", "0.9")
    assert result.status == 0, result.err
    assert f"2 files of the manifest are missing: 'train/000b.jpg' was looked for in {tmp_path}/in/" in result.out


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["--file_column", "ident"], "has no column ident; its columns are id, breed"),
        (["--label_column", "bred"], "--label_column bred: "),
        (["--label_column", "id"], "that column is used for something else already"),
        (["--file_column", "split"], "that column is used for something else already"),
        (["--file_suffix", "/x.jpg"], "--file_root is for folders"),
    ],
)
def test_mistakes(run: Run, tmp_path: Path, flags: list[str], word: str) -> None:
    manifest = source(tmp_path / "in")
    arguments = ["--manifest", manifest, "--output", tmp_path / "out", "--name", "dogs"]
    given = dict(zip(KAGGLE[::2], KAGGLE[1::2], strict=True)) | {flags[0]: flags[1]}
    arguments += [word for pair in given.items() for word in pair]

    check_mistake(run("images", *arguments), word)


@pytest.mark.parametrize("flag", range(0, len(KAGGLE), 2))
def test_a_folder_has_no_columns(run: Run, tmp_path: Path, flag: int) -> None:
    source(tmp_path / "in")
    arguments = ["--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "dogs", *KAGGLE[flag : flag + 2]]

    check_mistake(run("images", *arguments), KAGGLE[flag], "--manifest")


def test_a_root_outside_the_manifests_folder(run: Run, tmp_path: Path) -> None:
    manifest = source(tmp_path / "in")
    write_files(tmp_path / "pictures", {f"{name}.jpg": image(1) for name in ("000b", "001c", "002d")})
    arguments = ["--manifest", manifest, "--output", tmp_path / "out", "--name", "dogs", *KAGGLE[:-1], "../pictures"]

    assert "--allow_outside" in run("images", *arguments).err
    assert run("images", *arguments, "--allow_outside").status == 0
