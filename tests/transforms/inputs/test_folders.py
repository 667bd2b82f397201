"""What folders mean: splits and classes by their names, and a stop where that cannot be known; all routes that have
folders."""

import io
import re
from pathlib import Path

import numpy as np
import pytest

from shardmill.reading.dataset import open_dataset
from shardmill.transforms.inputs.folders import (
    CLASSES,
    SPLITS_OF_CLASSES,
    FolderError,
    FolderRoles,
    NameRules,
    folder_key,
    guess_roles,
    parse_roles,
)
from tests.support.command import Result, Run, check_mistake, image, write_files

ARRAY = io.BytesIO()
np.save(ARRAY, np.zeros(3, np.float32))
# (command, suffix of its files, content of one)
ROUTES: dict[str, tuple[str, str, bytes]] = {
    "images": ("images", "jpg", image()),
    "arrays": ("arrays", "npy", ARRAY.getvalue()),
    "text files": ("text --record file", "txt", b"words\n"),
    "lines": ("text", "txt", b"words\n"),
    "tables": ("csv", "csv", b"a\n1\n"),
}
FILES_AND_LINES = pytest.mark.parametrize("route", ["images", "lines"])


def start(run: Run, root: Path, route: str, *flags: object) -> Result:
    command = ROUTES[route][0].split()
    return run(*command, "--input", root / "in", "--output", root / "out", "--name", "n", *flags)


def tree(route: str, root: Path, *folders: str) -> None:
    """Write a file in each folder."""
    _, suffix, content = ROUTES[route]
    write_files(root / "in", {f"{folder}/{number}.{suffix}": content for number, folder in enumerate(folders)})


def convert(run: Run, root: Path, route: str, *flags: str) -> tuple[dict[str, int], tuple[str, ...] | None, str]:
    """Return the examples by split, the class names, and what was printed."""
    result = start(run, root, route, *flags)
    assert result.status == 0, result.err
    manifest = open_dataset(root / "out/n").manifest
    labels = [feature.class_names for feature in manifest.features if feature.kind == "class_label"]
    return {split.name: split.examples for split in manifest.splits}, labels[0] if labels else None, result.out


@pytest.mark.parametrize("route", [route for route in ROUTES if route != "tables"])
def test_usual_names_of_splits(run: Run, tmp_path: Path, route: str) -> None:
    tree(route, tmp_path, *(f"{word}/{name}" for word in ("Train", "dev", "test") for name in ("ant", "bee")))

    splits, classes, out = convert(run, tmp_path, route)

    assert splits == {"train": 2, "validation": 2, "test": 2}
    assert classes == ("ant", "bee")
    assert "Classes of 'label': 2: ant, bee" in out
    assert "Train" in out  # that they are stored by other names
    assert "dev" in out


@pytest.mark.parametrize("route", [route for route in ROUTES if route != "tables"])
@pytest.mark.parametrize(
    ("folders", "flags", "words"),
    [
        (["images", "masks"], [], ["'images', 'masks'", "--folders", "any/label"]),
        (["cat", "dog"], ["--folders", "any/label"], ["--folders any/label names 2 levels"]),
        (["training/cat", "testing/cat"], ["--splits", "a=0.5,b=0.5"], ["--splits was given", "split folders"]),
    ],
)
def test_mistakes(run: Run, tmp_path: Path, route: str, folders: list[str], flags: list[str], words: list[str]) -> None:
    tree(route, tmp_path, *folders)
    check_mistake(start(run, tmp_path, route, *flags), *words, str(tmp_path) if not flags else "")
    assert not (tmp_path / "out").exists()


@FILES_AND_LINES
@pytest.mark.parametrize(
    ("flag", "splits", "classes"),
    [("split/label", {"images": 2, "masks": 1}, ("cat", "dog")), ("any", {"train": 3}, None)],
)
def test_the_flag_says_what_folders_are(
    run: Run, tmp_path: Path, route: str, flag: str, splits: dict[str, int], classes: tuple[str, ...] | None
) -> None:
    tree(route, tmp_path, "images/cat", "images/dog", "masks/cat")

    found, names, out = convert(run, tmp_path, route, "--folders", flag)

    assert (found, names, "Classes: none" in out) == (splits, classes, classes is None)
    assert open_dataset(tmp_path / "out/n").manifest.configuration["folders"] == flag


@FILES_AND_LINES
def test_many_classes_and_second_levels_below_are_said(run: Run, tmp_path: Path, route: str) -> None:
    tree(route, tmp_path, *(f"c{number:02}" for number in range(19)), "cat/persian", "cat/manx")

    _, classes, out = convert(run, tmp_path, route)

    assert classes == (*(f"c{number:02}" for number in range(19)), "cat")
    assert "Classes of 'label': 20: c00, c01, c02, …, c17, c18, cat" in out
    assert "folders below class folders are ignored: files in 'cat/manx' have class 'cat', as in 1 more" in out


@pytest.mark.parametrize(("route", "name"), [("images", "test/metadata.csv"), ("arrays", "train/metadata.jsonl")])
def test_metadata_of_an_image_folder(run: Run, tmp_path: Path, route: str, name: str) -> None:
    """Which lies otherwise than Hugging Face has it: in one of two splits."""
    tree(route, tmp_path, "train/cat", "test/cat")
    write_files(tmp_path / "in", {name: b"file_name,label\n"})

    check_mistake(start(run, tmp_path, route), repr(name), "--manifest", "--folders")

    splits, classes, out = convert(run, tmp_path, route, "--folders", "split/label")
    assert (splits, classes) == ({"train": 1, "test": 1}, ("cat",))
    assert f"passed over 1 metadata file, such as {name!r}" in out


def test_lines_of_which_some_have_no_label(run: Run, tmp_path: Path) -> None:
    tree("lines", tmp_path, "cat", ".")

    _, classes, out = convert(run, tmp_path, "lines")

    assert classes is None
    assert "no line has a label: some files lie in class folders, such as 'cat', others do not" in out


@pytest.mark.parametrize("folders", [("train", "test", "extra"), ("train", "test", "."), ("train/x", "extra")])
def test_tables_of_which_some_lie_in_split_folders(run: Run, tmp_path: Path, folders: tuple[str, ...]) -> None:
    tree("tables", tmp_path, *folders)

    check_mistake(start(run, tmp_path, "tables"), "splits", "--input")
    assert start(run, tmp_path, "tables", "--splits", "train=1", "--dry_run").status == 0


@pytest.mark.parametrize(
    ("folders", "seen"),
    [
        (["images", "masks"], "'images', 'masks'"),
        (["JPEGImages"], "'JPEGImages'"),
        (["cat", "Annotations"], "'Annotations'"),
        (["train/images", "valid/images"], "'images'"),
        (["a/cat", "a/dog", "b/cat", "b/dog"], "the same sub-folders repeat: 'cat', 'dog' in every one of 'a', 'b'"),
        (["a/x", "b/x", "c/x", "c/y"], "the same sub-folders repeat"),
        (["train/a/cat", "train/b/cat", "test/a/cat", "test/b/cat"], "'cat' in every one of 'a', 'b'"),
        (["train/cat", "test/cat", "extra"], "'test', 'train' would be splits by their names, but 'extra'"),
        (["train/cat", "extra"], "'train' would be splits by their names, but 'extra'"),
        (["flowers/rose", "flowers/tulip"], "'flowers' would be the only class, although 'rose', 'tulip' lie in it"),
    ],
)
def test_folders_that_are_no_classes(folders: list[str], seen: str) -> None:
    with pytest.raises(FolderError, match=re.escape(seen)):
        guess_roles(folders)


@pytest.mark.parametrize(
    "folders",
    [
        ["cat", "dog"],
        ["cat/a", "dog/b"],
        ["cat", "cat/a", "cat/b"],
        ["test", "zebra"],
        [""],
        ["with_mask", "no_mask"],
        ["with_mask", "without_mask"],
    ],
)
def test_classes_are_guessed_where_nothing_speaks_against_them(folders: list[str]) -> None:
    assert guess_roles(folders) == CLASSES


@pytest.mark.parametrize(
    ("text", "roles", "name", "located", "group"),
    [
        ("label", CLASSES, "a/b/1.jpg", (None, "a"), "a/b"),
        ("label", CLASSES, "1.jpg", (None, None), "1.jpg"),
        ("label", CLASSES, "a/1.jpg", (None, "a"), "a/1.jpg"),
        ("split/label", SPLITS_OF_CLASSES, "fold1/b/1.jpg", ("fold1", "b"), "fold1/b/1.jpg"),
        ("split/label", SPLITS_OF_CLASSES, "train/1.jpg", ("train", None), "train/1.jpg"),
        ("split/label", SPLITS_OF_CLASSES, "1.jpg", (None, None), "1.jpg"),
        ("label/split", FolderRoles(1, 0), "a/Val/1.jpg", ("validation", "a"), "a/Val/1.jpg"),
        ("any/label", FolderRoles(None, 1), "a/b/1.jpg", (None, "b"), "a/b/1.jpg"),
        ("label/any/split", FolderRoles(2, 0), "a/b/val/1.jpg", ("validation", "a"), "a/b/val/1.jpg"),
        ("any", FolderRoles(None, None), "a/b/1.jpg", (None, None), "a/b"),
        ("any", FolderRoles(None, None), "a/1.jpg", (None, None), "a"),
        ("split", FolderRoles(0, None), "a/b/1.jpg", ("a", None), "a/b"),
        ("label/group", FolderRoles(None, 0, 1), "a/b/c/1.jpg", (None, "a"), "a/b"),
        ("any/group", FolderRoles(None, None, 1), "a/b/c/1.jpg", (None, None), "a/b"),
        ("group", FolderRoles(None, None, 0), "a/b/1.jpg", (None, None), "a"),
        ("group", FolderRoles(None, None, 0), "1.jpg", (None, None), "1.jpg"),
    ],
)
def test_roles(text: str, roles: FolderRoles, name: str, located: tuple[str | None, str | None], group: str) -> None:
    assert parse_roles(text) == roles
    assert str(roles) == text
    assert roles.locate(name) == located
    assert roles.find_group(name) == group


@pytest.mark.parametrize(
    "text", ["", "labels", "label/label", "split//label", "split,label", "group/label", "split/group", "group/any"]
)
def test_words_that_are_no_roles(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a word for each level|twice|group"):
        parse_roles(text)


def test_splits_by_the_names_of_files_or_of_their_first_folder() -> None:
    names = ["Val/a.jpg", "a.jpg", "x/a.jpg"]
    assert list(map(NameRules().find_split, names)) == ["validation", None, None]
    assert list(map(NameRules("", {"a.jpg": "test"}).find_split, names)) == ["train", "test", "train"]


def test_what_is_kept_of_a_name_is_what_a_guess_looks_at() -> None:
    assert folder_key("a/b/c/d.jpg") == folder_key("a/b/c/d.jpg", CLASSES) == "a/b"
    assert folder_key("Train/b/c/d/e.jpg") == "Train/b/c"
    assert folder_key("d.jpg") == ""
